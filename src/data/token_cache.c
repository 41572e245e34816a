#include "data/token_cache.h"

#include "data/dataset_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Without padding, and little-endian as every machine that snug is built for. */
struct header {
    char magic[8];
    struct hash128 key, checksum, fingerprint;
    int64_t n_rows, n_tokens, n_label_bytes, n_type_bytes, n_name_bytes;
    int64_t truncated, empty;
    int32_t task, label_form, num_labels, names_are_numbers, names_from_data, reserved;
};
_Static_assert(sizeof(struct header) == 136, "the cache's header has no padding");

static const char magic[8] = "snugtok";

int token_cache_file(const char *dir, struct hash128 key, struct str *path, struct snug_err *err)
{
    char hex[33];
    hash_hex(key, hex);
    str_printf(path, "%s/%s.tokens", dir, hex);
    return str_check(path, err);
}

/* ---- storing ---- */

struct part {
    const void *data;
    size_t bytes;
};

static int64_t label_bytes(const struct dataset *d)
{
    return d->classes  ? d->n_rows * (int64_t)sizeof *d->classes
           : d->values ? d->n_rows * d->num_labels * (int64_t)sizeof *d->values
                       : 0;
}

static struct hash128 checksum_of(const struct part *parts, int n, bool *failed)
{
    struct hash_state *h = hash_new();
    *failed = !h;
    if (!h)
        return (struct hash128){0};
    for (int i = 0; i < n; i++)
        hash_add(h, parts[i].data, parts[i].bytes);
    return hash_end(h);
}

static int write_parts(const struct io *io, const char *tmp, const char *path, const struct part *parts, int n,
                       struct snug_err *err)
{
    int fd = io->open(io, tmp, O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, SNUG_ERR_IO, tmp, "create", errno);
    int code = SNUG_OK;
    int64_t at = 0;
    for (int i = 0; i < n && !code; i++) {
        code = io_write_at(io, fd, tmp, parts[i].data, parts[i].bytes, at, err);
        at += (int64_t)parts[i].bytes;
    }
    if (io->close(io, fd) < 0 && !code)
        code = err_errno(err, SNUG_ERR_IO, tmp, "close", errno);
    if (!code && io->rename(io, tmp, path) < 0)
        code = err_errno(err, SNUG_ERR_IO, path, "rename into place", errno);
    if (code)
        io->unlink(io, tmp);
    return code;
}

static int store(const struct io *io, const char *path, struct hash128 key, const struct dataset *d,
                 const struct str *names, const char *tmp, struct snug_err *err)
{
    struct header h = {
        .key = key,
        .fingerprint = d->fingerprint,
        .n_rows = d->n_rows,
        .n_tokens = d->n_tokens,
        .n_label_bytes = label_bytes(d),
        .n_type_bytes = d->types ? d->n_tokens : 0,
        .n_name_bytes = (int64_t)names->n,
        .truncated = d->truncated,
        .empty = d->empty,
        .task = (int32_t)d->task,
        .label_form = (int32_t)d->label_form,
        .num_labels = d->num_labels,
        .names_are_numbers = d->labels.numbers,
        .names_from_data = d->labels.from_data,
    };
    memcpy(h.magic, magic, sizeof magic);
    struct part parts[] = {
        {&h, sizeof h},
        {d->offsets, (size_t)(d->n_rows + 1) * sizeof *d->offsets},
        {d->ids, (size_t)d->n_tokens * sizeof *d->ids},
        {d->classes ? (const void *)d->classes : d->values, (size_t)h.n_label_bytes},
        {d->types, (size_t)h.n_type_bytes},
        {str_text(names), names->n},
    };
    enum { PARTS = sizeof parts / sizeof *parts };
    bool failed;
    h.checksum = checksum_of(parts, PARTS, &failed);
    if (failed)
        return err_no_memory(err, 1024);
    return write_parts(io, tmp, path, parts, PARTS, err);
}

int token_cache_store(const struct io *io, const char *path, struct hash128 key, const struct dataset *d,
                      struct snug_err *err)
{
    struct str names = {0}, tmp = {0}, dir = {0};
    for (int32_t i = 0; i < d->labels.n; i++)
        str_append_n(&names, d->labels.names[i], strlen(d->labels.names[i]) + 1);
    str_printf(&tmp, "%s.tmp-%ld", path, (long)getpid());
    const char *slash = strrchr(path, '/');
    str_append_n(&dir, path, slash ? (size_t)(slash - path) : 0);
    int code = SNUG_OK;
    if (names.failed || tmp.failed || dir.failed)
        code = err_no_memory(err, tmp.n);
    if (!code && dir.n)
        code = io_make_dirs(io, str_text(&dir), err);
    if (!code)
        code = store(io, path, key, d, &names, str_text(&tmp), err);
    str_free(&names);
    str_free(&tmp);
    str_free(&dir);
    return code;
}

/* ---- loading ---- */

static bool same(struct hash128 a, struct hash128 b)
{
    return a.high == b.high && a.low == b.low;
}

static int read_block(const struct io *io, const char *path, char **block, int64_t *size, struct snug_err *err)
{
    int fd;
    TRY(io_open_read(io, path, &fd, size, err));
    *block = mem_realloc(NULL, (size_t)*size);
    int code = *block ? io_read_at(io, fd, path, *block, (size_t)*size, 0, err)
                      : err_no_memory(err, (unsigned long long)*size);
    io->close(io, fd);
    return code;
}

static bool form_fits(int32_t form, enum data_task task)
{
    return !task_has_label(task)     ? form == LABELS_NONE
           : task == TASK_REGRESSION ? form == LABELS_VECTORS
           : task == TASK_CLASS      ? form == LABELS_NAMES || form == LABELS_NUMBERS
                                     : form == LABELS_NAMES || form == LABELS_NUMBERS || form == LABELS_VECTORS;
}

/* The header's numbers against what is asked for, each other and the file's size, before any is used. */
static bool sizes_fit(const struct header *h, enum data_task task, int64_t size)
{
    const int64_t most = (int64_t)1 << 40;
    if (h->task != (int32_t)task || !form_fits(h->label_form, task) || (!task_has_label(task) && h->num_labels) ||
        h->n_rows < 1 || h->n_rows > most || h->n_tokens < 1 || h->n_tokens > most || h->num_labels < 0 ||
        h->num_labels > LABELS_MAX || h->n_name_bytes < 0 || h->n_name_bytes > most)
        return false;
    int64_t labels = task == TASK_CLASS ? 4 * h->n_rows : 4 * h->n_rows * h->num_labels;
    return h->n_label_bytes == labels && (h->n_type_bytes == 0 || h->n_type_bytes == h->n_tokens) &&
           size ==
               (int64_t)sizeof *h + 8 * (h->n_rows + 1) + 4 * h->n_tokens + labels + h->n_type_bytes + h->n_name_bytes;
}

static bool check(const char *block, int64_t size, struct hash128 key, enum data_task task, struct header *h)
{
    if (size < (int64_t)sizeof *h)
        return false;
    memcpy(h, block, sizeof *h);
    if (memcmp(h->magic, magic, sizeof magic) != 0 || !same(h->key, key) || !sizes_fit(h, task, size))
        return false;
    struct hash128 stated = h->checksum;
    h->checksum = (struct hash128){0};
    struct part parts[] = {{h, sizeof *h}, {block + sizeof *h, (size_t)size - sizeof *h}};
    bool failed;
    struct hash128 found = checksum_of(parts, 2, &failed);
    return !failed && same(stated, found);
}

/* A checksum says that the bytes are those that were written, not that snug wrote them. */
static bool values_fit(const struct dataset *d)
{
    if (d->offsets[0] != 0 || d->offsets[d->n_rows] != d->n_tokens)
        return false;
    for (int64_t row = 0; row < d->n_rows; row++)
        if (d->offsets[row + 1] <= d->offsets[row] ||
            (d->classes && (uint32_t)d->classes[row] >= (uint32_t)d->num_labels))
            return false;
    for (int64_t i = 0; i < d->n_tokens; i++)
        if (d->ids[i] < 0)
            return false;
    for (int64_t i = 0; d->values && i < d->n_rows * d->num_labels; i++)
        if (!isfinite(d->values[i]) || (d->task == TASK_MULTI_LABEL && !(d->values[i] >= 0 && d->values[i] <= 1)))
            return false;
    return true;
}

static int bind_names(struct dataset *d, const struct header *h, const char *names, const char *path,
                      struct snug_err *err)
{
    struct arena a = {0};
    const char **list = arena_alloc(&a, (size_t)h->num_labels * sizeof *list);
    int code = list ? SNUG_OK : err_no_memory(err, (size_t)h->num_labels * sizeof *list);
    const char *end = names + h->n_name_bytes;
    for (int32_t i = 0; i < h->num_labels && !code; i++) {
        const char *zero = memchr(names, 0, (size_t)(end - names));
        if (!zero)
            code = err_set(err, SNUG_ERR_INPUT, "%s: damaged", path);
        list[i] = names;
        names = zero ? zero + 1 : names;
    }
    if (!code)
        code = label_map_init(&d->labels, list, h->num_labels, path, err);
    d->labels.numbers = h->names_are_numbers;
    d->labels.from_data = h->names_from_data;
    arena_free(&a);
    return code;
}

static int bind(struct dataset *d, char *block, const struct header *h, const char *path, struct snug_err *err)
{
    *d = (struct dataset){
        .task = (enum data_task)h->task,
        .n_rows = h->n_rows,
        .n_tokens = h->n_tokens,
        .num_labels = h->num_labels,
        .label_form = (enum label_form)h->label_form,
        .truncated = h->truncated,
        .empty = h->empty,
        .fingerprint = h->fingerprint,
        .block = block,
    };
    char *at = block + sizeof *h;
    d->offsets = (int64_t *)at;
    at += 8 * (h->n_rows + 1);
    d->ids = (int32_t *)at;
    at += 4 * h->n_tokens;
    if (h->task == TASK_CLASS)
        d->classes = (int32_t *)at;
    else if (h->n_label_bytes)
        d->values = (float *)at;
    at += h->n_label_bytes;
    if (h->n_type_bytes)
        d->types = (uint8_t *)at;
    at += h->n_type_bytes;
    if (!values_fit(d))
        return err_set(err, SNUG_ERR_INPUT, "%s: damaged", path);
    if (h->num_labels)
        TRY(bind_names(d, h, at, path, err));
    return dataset_measure(d, path, err);
}

bool token_cache_load(const struct io *io, const char *path, struct hash128 key, enum data_task task, struct dataset *d,
                      struct snug_err *why)
{
    char *block = NULL;
    int64_t size;
    struct header h;
    *why = (struct snug_err){0};
    if (!io_exists(io, path))
        return false;
    int code = read_block(io, path, &block, &size, why);
    if (!code && !check(block, size, key, task, &h))
        code = err_set(why, SNUG_ERR_INPUT, "%s: damaged, or not a token cache", path);
    if (!code) {
        code = bind(d, block, &h, path, why);
        block = NULL; /* the dataset's */
        if (code)
            dataset_close(d);
    }
    mem_free(block);
    return !code;
}
