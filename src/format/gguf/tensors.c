/* The tensors of a GGUF file under transformers' names and in its order of rows. */
#include "format/gguf/model.h"
#include "format/st_header.h"

#include <stdio.h>
#include <string.h>

/* What a tensor of the model is read from. */
struct origin {
    const struct gguf_tensor *stored;
    enum gguf_change change;
    int64_t width; /* rows of a head, where the order of rows differs */
    int64_t from;  /* its first element: of an expert's */
};

struct state {
    struct gguf_file file;
    struct origin *origins; /* as the tensors of the st_file stand */
    const struct st_tensor *first;
    struct arena arena; /* the names */
};

/* Elements [first, first + count) of the model's tensor. */
static int read_elements(const struct state *s, const struct origin *o, int64_t first, int64_t count, char *to,
                         struct snug_err *err)
{
    const struct gguf_tensor *t = o->stored;
    if (o->change == GGUF_SAME || o->change == GGUF_PLUS_ONE)
        return gguf_read(&s->file, t, o->from + first, count, to, err);
    int64_t columns = t->ndim > 1 ? t->shape[1] : 1;
    while (count) {
        int64_t row = first / columns, at = first % columns, n = columns - at < count ? columns - at : count;
        TRY(gguf_read(&s->file, t, gguf_stored_row(row, o->width) * columns + at, n, to, err));
        to += dtype_bytes(t->type->dtype, n);
        first += n;
        count -= n;
    }
    return SNUG_OK;
}

static int read_part(void *state, const struct st_tensor *t, int64_t offset, void *to, size_t bytes,
                     struct snug_err *err)
{
    struct state *s = state;
    const struct origin *o = &s->origins[t - s->first];
    int64_t size = dtype_bytes(t->dtype, 1), count = (int64_t)bytes / size;
    TRY(read_elements(s, o, offset / size, count, to, err));
    for (int64_t i = 0; o->change == GGUF_PLUS_ONE && i < count; i++)
        ((float *)to)[i] -= 1;
    return SNUG_OK;
}

static void close_state(void *state)
{
    struct state *s = state;
    gguf_close(&s->file);
    mem_free(s->origins);
    arena_free(&s->arena);
    mem_free(s);
}

static const struct st_source source = {read_part, close_state};

/* How many rows a head has in a tensor whose rows are in another order. */
static int head_width(const struct gguf_file *f, const struct gguf_family *family, const struct gguf_tensor *t,
                      bool keys, int64_t *width, struct snug_err *err)
{
    char key[80];
    int64_t heads;
    snprintf(key, sizeof key, "%s.attention.head_count", family->architecture);
    TRY(json_get_int(f->metadata, f->path, key, true, 1, 4095, &heads, err));
    snprintf(key, sizeof key, "%s.attention.head_count_kv", family->architecture);
    if (keys)
        TRY(json_get_int(f->metadata, f->path, key, false, 1, 4095, &heads, err));
    *width = t->shape[0] / heads;
    if (!*width || t->shape[0] % heads || *width % 2)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: tensor %.80s has %lld rows, which %lld heads of an even width do not make", f->path,
                       t->name, (long long)t->shape[0], (long long)heads);
    return SNUG_OK;
}

/* Under this name of the model's, NULL: it has none there. */
static int add_named(struct state *s, const struct gguf_family *family, const struct gguf_tensor *stored,
                     const char *name, struct st_file *out, struct snug_err *err)
{
    struct st_tensor *t = &out->tensors[out->n_tensors];
    struct origin *o = &s->origins[out->n_tensors];
    *t = (struct st_tensor){.name = arena_strdup(&s->arena, name ? name : stored->name),
                            .dtype = stored->type->dtype,
                            .ndim = stored->ndim,
                            .at = stored->at};
    if (!t->name)
        return err_no_memory(err, strlen(stored->name) + 1);
    memcpy(t->shape, stored->shape, sizeof stored->shape);
    if (__builtin_mul_overflow(stored->elements, dtype_bytes(t->dtype, 1), &t->bytes))
        return err_set(err, SNUG_ERR_INPUT, "%s: the size of tensor %.80s overflows" GGUF_AGAIN, s->file.path,
                       stored->name);
    *o = (struct origin){.stored = stored, .change = name ? gguf_change(family, stored->name) : GGUF_SAME};
    if (o->change == GGUF_QUERY_ROWS || o->change == GGUF_KEY_ROWS)
        TRY(head_width(&s->file, family, stored, o->change == GGUF_KEY_ROWS, &o->width, err));
    if (o->change == GGUF_PLUS_ONE && t->dtype != DT_F32)
        return err_set(err, SNUG_ERR_INPUT, "%s: norm %.80s is %s where F32 was expected" GGUF_AGAIN, s->file.path,
                       stored->name, dtype_name(t->dtype));
    out->n_tensors++;
    return SNUG_OK;
}

static int expert_count(const struct state *s, const struct gguf_family *family, int64_t *experts, struct snug_err *err)
{
    char key[80];
    *experts = 0;
    snprintf(key, sizeof key, "%s.expert_count", family->architecture);
    return json_get_int(s->file.metadata, s->file.path, key, false, 0, INT32_MAX, experts, err);
}

/* A tensor for each expert of one that has all of them; *is_one: whether it is such a tensor. */
static int add_experts(struct state *s, const struct gguf_family *family, const struct gguf_tensor *stored,
                       struct st_file *out, bool *is_one, struct snug_err *err)
{
    char name[GGUF_NAME_MAX];
    int64_t experts;
    *is_one = gguf_expert_to_hf(family, stored->name, 0, name);
    if (!*is_one)
        return SNUG_OK;
    TRY(expert_count(s, family, &experts, err));
    if (stored->ndim != 3 || stored->shape[0] != experts)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: tensor %.80s has %lld matrices where %s.expert_count says %lld" GGUF_AGAIN, s->file.path,
                       stored->name, (long long)(stored->ndim == 3 ? stored->shape[0] : 1), family->architecture,
                       (long long)experts);
    struct gguf_tensor one = *stored;
    one.ndim = 2, one.shape[0] = stored->shape[1], one.shape[1] = stored->shape[2], one.shape[2] = 0;
    one.elements = stored->elements / experts;
    for (int64_t e = 0; e < experts; e++) {
        size_t at = out->n_tensors;
        gguf_expert_to_hf(family, stored->name, e, name);
        one.at = stored->at + stored->bytes / experts * e;
        TRY(add_named(s, family, &one, name, out, err));
        s->origins[at] = (struct origin){.stored = stored, .from = e * one.elements};
    }
    return SNUG_OK;
}

static int add_tensor(struct state *s, const struct gguf_family *family, const struct gguf_tensor *stored,
                      struct st_file *out, struct snug_err *err)
{
    char name[GGUF_NAME_MAX];
    bool experts;
    TRY(add_experts(s, family, stored, out, &experts, err));
    return experts ? SNUG_OK
                   : add_named(s, family, stored, gguf_name_to_hf(family, stored->name, name) ? name : NULL, out, err);
}

/* How many tensors the model has at most: those of experts are several. */
static size_t count_tensors(const struct gguf_file *f)
{
    size_t n = 1;
    for (size_t i = 0; i < f->n_tensors; i++)
        n += f->tensors[i].ndim == 3 ? (size_t)f->tensors[i].shape[0] : 1;
    return n;
}

/* Frequencies of rotary positions are in config.json (config.c). */
static bool is_setting(const struct gguf_family *family, const struct gguf_tensor *t)
{
    return !strcmp(t->name, "rope_freqs.weight") ||
           (family->long_factors && !strncmp(t->name, "rope_factors_", strlen("rope_factors_")));
}

int gguf_as_tensors(struct gguf_file *f, struct st_file *out, struct snug_err *err)
{
    const struct gguf_family *family;
    struct state *s = mem_alloc(sizeof *s);
    if (!s) {
        gguf_close(f);
        return err_no_memory(err, sizeof *s);
    }
    s->file = *f;
    *f = (struct gguf_file){.fd = -1};
    *out = (struct st_file){.io = s->file.io,
                            .path = mem_strdup(s->file.path),
                            .fd = -1,
                            .file_bytes = s->file.file_bytes,
                            .header_bytes = s->file.data_at,
                            .source = &source,
                            .source_state = s};
    size_t most = count_tensors(&s->file);
    out->tensors = mem_alloc(most * sizeof *out->tensors);
    s->origins = mem_alloc(most * sizeof *s->origins);
    s->first = out->tensors;
    int code = out->path && out->tensors && s->origins ? gguf_family_of_file(&s->file, &family, err)
                                                       : err_no_memory(err, most * sizeof *out->tensors);
    for (size_t i = 0; !code && i < s->file.n_tensors; i++)
        if (!is_setting(family, &s->file.tensors[i]))
            code = add_tensor(s, family, &s->file.tensors[i], out, err);
    if (!code)
        code = st_sort_names(out, err);
    if (code)
        st_close(out);
    return code;
}
