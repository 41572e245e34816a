#include "output/onnx/write.h"

#include "format/protobuf.h"

enum { ALIGN = 64, SMALL = 1024 }; /* a weight of fewer bytes stays with the nodes */

/* ---- the end of a file ---- */

struct end {
    const struct io *io;
    int fd;
    const char *path;
    int64_t at;
};

static int put(void *ctx, const void *bytes, size_t n, struct snug_err *err)
{
    struct end *e = ctx;
    TRY(io_write_at(e->io, e->fd, e->path, bytes, n, e->at, err));
    e->at += (int64_t)n;
    return SNUG_OK;
}

/* Takes `s`, and empties it. */
static int put_str(struct end *e, struct str *s, struct snug_err *err)
{
    int code = str_check(s, err);
    if (!code)
        code = put(e, str_text(s), s->n, err);
    str_free(s);
    return code;
}

/* ---- sizes ---- */

static int64_t inline_bytes(const struct onnx_tensor *t)
{
    return t->at < 0 ? t->bytes : 0;
}

/* Bytes of the graph's message up to the tensors, of theirs, and behind them. */
static int64_t graph_bytes(const struct onnx *x, struct snug_err *err)
{
    struct str m = {0};
    onnx_put_nodes(&m, x);
    onnx_put_ends(&m, x);
    int64_t bytes = (int64_t)m.n;
    bool failed = m.failed;
    str_free(&m);
    for (size_t i = 0; i < x->n_tensors; i++) {
        struct str head = {0}, length = {0};
        onnx_put_tensor(&head, &x->tensors[i]);
        int64_t all = (int64_t)head.n + inline_bytes(&x->tensors[i]);
        proto_key(&length, 5, PROTO_BYTES);
        proto_varint(&length, (uint64_t)all);
        bytes += (int64_t)length.n + all;
        failed |= head.failed || length.failed;
        str_free(&head);
        str_free(&length);
    }
    if (!failed)
        return bytes;
    err_no_memory(err, (unsigned long long)bytes);
    return -1;
}

int onnx_layout(struct onnx *x, int64_t limit, int64_t *bytes, int64_t *beside, struct snug_err *err)
{
    enum { BEFORE = 256 }; /* the graph is behind fewer */
    *beside = 0;
    for (size_t i = 0; i < x->n_tensors; i++)
        x->tensors[i].at = -1;
    *bytes = graph_bytes(x, err);
    if (*bytes < 0)
        return SNUG_ERR_ENV;
    if (*bytes + BEFORE <= limit)
        return SNUG_OK;
    for (size_t i = 0; i < x->n_tensors; i++) {
        struct onnx_tensor *t = &x->tensors[i];
        if (t->data || t->bytes < SMALL)
            continue;
        t->at = (*beside + ALIGN - 1) / ALIGN * ALIGN;
        *beside = t->at + t->bytes;
    }
    *bytes = graph_bytes(x, err);
    return *bytes < 0 ? SNUG_ERR_ENV : SNUG_OK;
}

/* ---- the files ---- */

static int write_tensor(struct onnx *x, struct model_dir *d, struct end *e, const struct onnx_tensor *t,
                        struct snug_err *err)
{
    struct str head = {0}, all = {0};
    onnx_put_tensor(&head, t);
    proto_key(&all, 5, PROTO_BYTES);
    proto_varint(&all, head.n + (uint64_t)inline_bytes(t));
    str_append_n(&all, str_text(&head), head.n);
    all.failed |= head.failed;
    str_free(&head);
    TRY(put_str(e, &all, err));
    if (t->at >= 0)
        return SNUG_OK;
    if (t->data)
        return put(e, t->data, (size_t)t->bytes, err);
    return onnx_read_weight(&(struct onnx_reader){.x = x, .d = d, .put = put, .ctx = e}, t, err);
}

int onnx_write(struct onnx *x, struct model_dir *d, const struct io *io, int fd, const char *path, struct snug_err *err)
{
    struct end e = {.io = io, .fd = fd, .path = path};
    struct str m = {0};
    int64_t bytes = graph_bytes(x, err);
    if (bytes < 0)
        return SNUG_ERR_ENV;
    onnx_put_before(&m);
    proto_key(&m, 7, PROTO_BYTES);
    proto_varint(&m, (uint64_t)bytes);
    onnx_put_nodes(&m, x);
    TRY(put_str(&e, &m, err));
    for (size_t i = 0; i < x->n_tensors; i++)
        TRY(write_tensor(x, d, &e, &x->tensors[i], err));
    onnx_put_ends(&m, x);
    return put_str(&e, &m, err);
}

int onnx_write_beside(struct onnx *x, struct model_dir *d, const struct io *io, int fd, const char *path,
                      struct snug_err *err)
{
    struct end e = {.io = io, .fd = fd, .path = path};
    for (size_t i = 0; i < x->n_tensors; i++) {
        static const char zeros[ALIGN];
        const struct onnx_tensor *t = &x->tensors[i];
        if (t->at < 0)
            continue;
        TRY(put(&e, zeros, (size_t)(t->at - e.at), err));
        TRY(onnx_read_weight(&(struct onnx_reader){.x = x, .d = d, .put = put, .ctx = &e}, t, err));
    }
    return SNUG_OK;
}
