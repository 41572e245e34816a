#include "data/tokens/token_store.h"

#include <string.h>

enum { PIECE_BYTES = 16 << 20 }; /* that wait in memory for their file */

void token_store_open(struct token_store *s, const struct token_store_options *o)
{
    *s = (struct token_store){.o = *o};
}

void token_store_close(struct token_store *s)
{
    for (int i = 0; i < STORE_ARRAYS; i++)
        scratch_drop(&s->files[i]);
    token_rows_free(&s->rows);
    mem_free(s->rest);
    *s = (struct token_store){0};
}

/* ---- rows that are left out, or joined ---- */

static void drop_empty_rows(struct token_rows *t)
{
    int64_t n = 0;
    for (int64_t row = 0; row < t->n_rows; row++)
        if (t->offsets[row + 1] > t->offsets[row])
            t->offsets[++n] = t->offsets[row + 1];
    t->n_rows = n;
}

static int add_joined(const struct token_store *s, int64_t row, struct token_rows *joined, struct snug_err *err)
{
    const struct token_rows *t = &s->rows;
    size_t n = (size_t)(t->offsets[row + 1] - t->offsets[row]);
    const int32_t *ids = t->ids + t->offsets[row];
    TRY(token_rows_add(joined, ids, NULL, n, err));
    return n && s->o.end_id >= 0 && ids[n - 1] != s->o.end_id ? token_rows_add(joined, &s->o.end_id, NULL, 1, err)
                                                              : SNUG_OK;
}

static int join(struct token_store *s, struct token_rows *joined, struct snug_err *err)
{
    int64_t size = s->o.block_size, n_blocks;
    TRY(token_rows_add(joined, s->rest, NULL, s->n_rest, err));
    for (int64_t row = 0; row < s->rows.n_rows; row++)
        TRY(add_joined(s, row, joined, err));
    n_blocks = joined->n_tokens / size;
    s->n_rest = (size_t)(joined->n_tokens - n_blocks * size);
    if (!MEM_GROW(joined->offsets, joined->offsets_cap, (size_t)n_blocks + 1) ||
        !MEM_GROW(s->rest, s->rest_cap, s->n_rest))
        return err_no_memory(err, ((size_t)n_blocks + s->n_rest) * sizeof *joined->offsets);
    for (int64_t i = 0; i <= n_blocks; i++)
        joined->offsets[i] = i * size;
    if (s->n_rest)
        memcpy(s->rest, joined->ids + n_blocks * size, s->n_rest * sizeof *s->rest);
    joined->n_rows = n_blocks;
    joined->n_tokens = n_blocks * size;
    return SNUG_OK;
}

/* The rows in memory become those that the dataset has. */
static int tidy(struct token_store *s, struct snug_err *err)
{
    struct token_rows joined = {.truncated = s->rows.truncated, .no_target = s->rows.no_target};
    if (s->o.drop_empty && s->rows.n_rows)
        drop_empty_rows(&s->rows);
    if (!s->o.block_size)
        return SNUG_OK;
    int code = join(s, &joined, err);
    token_rows_free(code ? &joined : &s->rows);
    if (!code)
        s->rows = joined;
    return code;
}

/* ---- files ---- */

struct array {
    const void *data;      /* of the rows in memory; NULL: they have none */
    int64_t bytes, before; /* before: of the rows in files, where they have any */
};

static void list_arrays(const struct token_store *s, struct array a[STORE_ARRAYS])
{
    const struct token_rows *t = &s->rows;
    const int64_t first = s->n_rows == 0; /* which has the 0 before all offsets */
    const struct array all[STORE_ARRAYS] = {
        [STORE_OFFSETS] = {t->offsets + !first, (t->n_rows + first) * 8, (s->n_rows + !first) * 8},
        [STORE_IDS] = {t->ids, t->n_tokens * 4, s->n_tokens * 4},
        [STORE_TYPES] = {t->any_type || s->any_type ? t->types : NULL, t->n_tokens, s->n_tokens},
        [STORE_LOSS_MASK] = {t->loss_mask, t->n_tokens, s->n_tokens},
        [STORE_WORDS] = {t->words, t->n_tokens * 4, s->n_tokens * 4},
        [STORE_SOURCES] = {t->sources, t->n_rows * 4, s->n_rows * 4},
    };
    memcpy(a, all, sizeof all);
}

static int64_t bytes_in_memory(const struct token_store *s)
{
    struct array a[STORE_ARRAYS];
    int64_t bytes = 0;
    list_arrays(s, a);
    for (int i = 0; i < STORE_ARRAYS; i++)
        bytes += a[i].data ? a[i].bytes : 0;
    return bytes;
}

/* Types that are 0 have no file until one is not. */
int token_store_append(const struct token_store *s, struct scratch *file, int64_t before, const void *data,
                       int64_t bytes, struct snug_err *err)
{
    struct snug_err why;
    if (!data || !bytes)
        return SNUG_OK;
    int code = file->io ? SNUG_OK : scratch_open(s->o.io, s->o.dir, file, &why);
    if (!code && file->bytes < before)
        scratch_skip(file, before - file->bytes);
    if (!code)
        code = scratch_append(file, data, (size_t)bytes, &why);
    if (code == SNUG_ERR_IO)
        return err_set(err, code, "%s; give --cache-dir a folder with more room, or a larger --in-memory-max-size",
                       why.text);
    return code ? err_set(err, code, "%s", why.text) : SNUG_OK;
}

static int append_all(struct token_store *s, struct snug_err *err)
{
    struct array a[STORE_ARRAYS];
    struct token_rows *t = &s->rows;
    if (!t->n_rows)
        return SNUG_OK;
    for (int64_t row = 0; row <= t->n_rows; row++)
        t->offsets[row] += s->n_tokens;
    list_arrays(s, a);
    for (int i = 0; i < STORE_ARRAYS; i++)
        TRY(token_store_append(s, &s->files[i], a[i].before, a[i].data, a[i].bytes, err));
    s->n_rows += t->n_rows;
    s->n_tokens += t->n_tokens;
    s->any_type |= t->any_type;
    t->n_rows = t->n_tokens = 0;
    t->any_type = false;
    return SNUG_OK;
}

static bool in_files(const struct token_store *s)
{
    return s->files[STORE_IDS].io != NULL;
}

int token_store_settle(struct token_store *s, bool *no_folder, struct snug_err *why, struct snug_err *err)
{
    int64_t most = in_files(s) && s->o.in_memory > PIECE_BYTES ? PIECE_BYTES : s->o.in_memory;
    *no_folder = false;
    s->any |= s->rows.n_rows > 0;
    if (!s->o.dir || bytes_in_memory(s) <= most)
        return SNUG_OK;
    if (!in_files(s) && scratch_open(s->o.io, s->o.dir, &s->files[STORE_IDS], why)) {
        *no_folder = true;
        s->o.dir = NULL;
        return SNUG_OK;
    }
    TRY(tidy(s, err));
    return append_all(s, err);
}

/* ---- the end ---- */

static void *shrink(void *p, int64_t bytes)
{
    void *smaller = p ? mem_realloc(p, (size_t)bytes) : NULL;
    return smaller ? smaller : p;
}

static void give_memory(struct token_store *s, void *arrays[STORE_ARRAYS])
{
    struct token_rows *t = &s->rows;
    struct array a[STORE_ARRAYS];
    list_arrays(s, a);
    if (!t->any_type) {
        mem_free(t->types);
        t->types = NULL;
    }
    void *all[STORE_ARRAYS] = {t->offsets, t->ids, t->types, t->loss_mask, t->words, t->sources};
    for (int i = 0; i < STORE_ARRAYS; i++)
        arrays[i] = shrink(all[i], a[i].bytes);
    *t = (struct token_rows){0};
}

static int give_files(struct token_store *s, struct dataset_files *f, void *arrays[STORE_ARRAYS], struct snug_err *err)
{
    f->io = s->o.io;
    f->in_memory = s->o.in_memory;
    f->dir = mem_strdup(s->o.dir);
    if (!f->dir)
        return err_no_memory(err, strlen(s->o.dir));
    for (int i = 0; i < STORE_ARRAYS; i++) {
        if (!s->files[i].bytes) /* not open, or rows without tokens */
            continue;
        /* labels take the place of words */
        TRY(scratch_map(&s->files[i], i == STORE_WORDS ? IO_MAP_PRIVATE : IO_MAP_READ, &f->maps[f->n_maps], err));
        arrays[i] = f->maps[f->n_maps++].p;
    }
    return SNUG_OK;
}

int token_store_finish(struct token_store *s, struct dataset *d, struct snug_err *err)
{
    void *arrays[STORE_ARRAYS] = {0};
    TRY(tidy(s, err));
    d->n_rows = s->n_rows + s->rows.n_rows;
    d->n_tokens = s->n_tokens + s->rows.n_tokens;
    d->truncated = s->rows.truncated;
    d->no_target = s->rows.no_target;
    if (in_files(s))
        TRY(append_all(s, err));
    if (s->n_rows)
        TRY(give_files(s, &d->files, arrays, err));
    else
        give_memory(s, arrays);
    d->offsets = arrays[STORE_OFFSETS];
    d->ids = arrays[STORE_IDS];
    d->types = arrays[STORE_TYPES];
    d->loss_mask = arrays[STORE_LOSS_MASK];
    d->words = arrays[STORE_WORDS];
    d->sources = arrays[STORE_SOURCES];
    return SNUG_OK;
}
