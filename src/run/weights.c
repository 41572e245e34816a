#include "run/weights.h"

#include "base/hash.h"
#include "base/philox.h"
#include "ranks/ranks.h"
#include "run/coding.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

const struct model_tensor *weights_find(const struct model_dir *d, const struct model_config *c, const char *name)
{
    char spelling[MODEL_NAME_MAX];
    const struct model_tensor *t = NULL;
    for (int i = 0; !t && model_spelling(c, name, i, spelling); i++)
        t = model_dir_find(d, spelling);
    return t;
}

const struct model_tensor *weights_of_adapter(const struct model_dir *adapter, const char *name)
{
    char spelling[MODEL_NAME_MAX];
    snprintf(spelling, sizeof spelling, ADAPTER_PREFIX "%s", name);
    return model_dir_find(adapter, spelling);
}

static const struct model_tensor *adapter_tensor(const struct weight_options *o, const char *name)
{
    return o->adapter ? weights_of_adapter(o->adapter, name) : NULL;
}

/* ---- checks ---- */

static void shape_text(int ndim, const int64_t *shape, char *to, size_t room)
{
    size_t n = (size_t)snprintf(to, room, "[");
    for (int i = 0; i < ndim && n < room; i++)
        n += (size_t)snprintf(to + n, room - n, "%s%lld", i ? "," : "", (long long)shape[i]);
    if (n < room)
        snprintf(to + n, room - n, "]");
}

static bool is_float(enum dtype t)
{
    return t == DT_F64 || t == DT_F32 || t == DT_BF16 || t == DT_F16;
}

int weights_check_tensor(const struct model_tensor *t, int ndim, const int64_t *shape, struct snug_err *err)
{
    bool same = t->tensor->ndim == ndim;
    for (int i = 0; same && i < ndim; i++)
        same = t->tensor->shape[i] == shape[i];
    if (same && is_float(t->tensor->dtype))
        return SNUG_OK;
    if (same)
        return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s where F32, F16, BF16 or F64 is needed; get the file again",
                       t->file->path, t->tensor->name, dtype_name(t->tensor->dtype));
    char have[80], want[80];
    shape_text(t->tensor->ndim, t->tensor->shape, have, sizeof have);
    shape_text(ndim, shape, want, sizeof want);
    return err_set(err, SNUG_ERR_INPUT, "%s: %s has shape %s but config.json asks for %s; take both from one model",
                   t->file->path, t->tensor->name, have, want);
}

/* Where each layer has them they are the same, and those of the first one count. */
static int settle_frequencies(struct model_dir *d, struct model_config *c, struct snug_err *err)
{
    struct rotary *r = &c->rotary[ROTARY_ALL];
    const struct model_tensor *t = NULL;
    for (size_t i = 0; i < d->n_tensors; i++) {
        const struct model_tensor *other = &d->tensors[i];
        if (model_has_frequencies(c, other->tensor->name) && (!t || strcmp(other->tensor->name, t->tensor->name) < 0))
            t = other;
    }
    if (!t)
        return SNUG_OK;
    TRY(weights_check_tensor(t, 1, &r->pairs, err));
    return model_dir_read_part(d, t, DT_F64, 0, r->pairs, r->frequency, err);
}

int weights_settle(struct model_dir *d, struct model_config *c, struct snug_err *err)
{
    for (int t = MODEL_AUTO + 1; t < MODEL_COUNT && c->untied_by_file && d->n_tensors; t++)
        if (c->arch->heads[t].untied)
            c->untied = weights_find(d, c, c->arch->heads[t].untied) != NULL;
    return settle_frequencies(d, c, err);
}

/* Depth of the stack of layers in the file, to tell "config says 24, weights have 12". */
static int64_t layers_in_file(const struct model_dir *d, const struct model_config *c)
{
    int64_t most = 0;
    for (size_t i = 0; i < d->n_tensors; i++) {
        int64_t layer = model_layer_of(c, d->tensors[i].tensor->name);
        most = layer + 1 > most ? layer + 1 : most;
    }
    return most;
}

/* What the weights lack. */
struct missing {
    int n, of;
    const char *first;
};

static int report_missing(const struct model_dir *d, const struct model_config *c, struct missing m, const bool *used,
                          struct snug_err *err)
{
    int64_t layers = layers_in_file(d, c);
    size_t other = 0;
    while (other + 1 < d->n_tensors && used[other])
        other++;
    if (m.n == m.of)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: the weights are those of another model: %s is wanted, they have %s; give the right folder",
                       d->path, m.first, d->tensors[other].tensor->name);
    if (layers && layers < c->file_layers)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: config.json says %lld layers, the weights have %lld; take both from one model", d->path,
                       (long long)c->file_layers, (long long)layers);
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: %d of %d weights are missing, the first is %s; get the model again, or give --init-from-config "
                   "to begin them at random",
                   d->path, m.n, m.of, m.first);
}

static void note(const struct model_dir *d, const char *line)
{
    if (d->note)
        d->note(d->note_ctx, line);
}

static int report_unknown(const struct model_dir *d, const struct model_config *c, const char *first, size_t unknown,
                          bool strict, struct snug_err *err)
{
    char line[400], why[120] = "";
    int64_t layers = layers_in_file(d, c);
    const char *are = unknown == 1 ? "tensor is" : "tensors are";
    if (layers > c->file_layers)
        snprintf(why, sizeof why, " (config.json says %lld layers, the weights have %lld)", (long long)c->file_layers,
                 (long long)layers);
    if (strict)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: %zu %s not part of %s%s, such as %s; use another model, or leave out --strict", d->path,
                       unknown, are, model_class(c), why, first);
    snprintf(line, sizeof line, "%s: %zu %s not part of %s and left out%s, such as %.120s", d->path, unknown, are,
             model_class(c), why, first);
    note(d, line);
    return SNUG_OK;
}

static int check_unknown(const struct model_dir *d, const struct model_config *c, const bool *used, bool strict,
                         struct snug_err *err)
{
    size_t unknown = 0;
    const char *first = NULL;
    for (size_t i = 0; i < d->n_tensors; i++) {
        const char *name = d->tensors[i].tensor->name;
        if (used[i] || model_ignores(c, name) || model_carries(c, name))
            continue;
        unknown++;
        first = first ? first : name;
    }
    return unknown ? report_unknown(d, c, first, unknown, strict, err) : SNUG_OK;
}

int weights_check_tied(struct model_dir *d, const struct model_config *c, struct snug_err *err)
{
    for (const struct tied_name *t = c->arch->tied; t->name && model_task(c)->tied; t++) {
        const struct model_tensor *a = weights_find(d, c, t->name), *b = weights_find(d, c, t->weight);
        if (!a || !b || !model_ignores(c, t->name))
            continue;
        bool same = a->tensor->bytes == b->tensor->bytes && a->tensor->dtype == b->tensor->dtype;
        void *x = mem_alloc((size_t)a->tensor->bytes), *y = mem_alloc((size_t)b->tensor->bytes);
        int code = x && y ? SNUG_OK : err_no_memory(err, 2 * (unsigned long long)a->tensor->bytes);
        if (!code && same)
            code = st_read(a->file, a->tensor, x, err);
        if (!code && same)
            code = st_read(b->file, b->tensor, y, err);
        same = same && !code && !memcmp(x, y, (size_t)a->tensor->bytes);
        mem_free(x);
        mem_free(y);
        TRY(code);
        if (!same)
            return err_set(err, SNUG_ERR_INPUT, "%s: %s differs from %s, to which it is tied; take %s out of the file",
                           d->path, a->tensor->name, b->tensor->name, a->tensor->name);
    }
    return SNUG_OK;
}

static void note_new(const struct model_dir *d, int n_new, const char *first, uint64_t seed)
{
    char line[300];
    const char *dot = strrchr(first, '.');
    if (n_new)
        snprintf(line, sizeof line, "%.*s%s: new, random (seed %llu): %d tensors",
                 (int)(dot ? dot - first : (int)strlen(first)), first, n_new > 2 ? " and more" : "",
                 (unsigned long long)seed, n_new);
    if (n_new)
        note(d, line);
}

int weights_check(const struct model_dir *d, const struct run *r, const struct model_config *c,
                  const struct weight_options *o, struct snug_err *err)
{
    struct run_value *w;
    size_t n;
    int n_new = 0, code = SNUG_OK;
    struct missing missing = {0};
    const char *first_new = NULL;
    TRY(run_list(r, 1u << ROLE_WEIGHT, &w, &n, err));
    bool *used = mem_alloc(d->n_tensors + 1);
    if (!used)
        code = err_no_memory(err, d->n_tensors + 1);
    for (size_t i = 0; i < n && !code; i++) {
        const struct model_tensor *t = weights_find(d, c, w[i].name);
        bool anew = o->new_head && model_is_of_head(c, w[i].name);
        missing.of += !w[i].init.head && !init_is_whole(&w[i].init);
        if (t)
            used[t - d->tensors] = true;
        if (adapter_tensor(o, w[i].name) || init_is_whole(&w[i].init))
            continue;
        if (t && !anew) {
            code = weights_check_tensor(t, w[i].ndim, w[i].shape, err);
        } else if (w[i].init.head || o->random) {
            first_new = n_new++ ? first_new : w[i].name;
        } else {
            missing.first = missing.n++ ? missing.first : w[i].name;
        }
    }
    if (!code && missing.n)
        code = report_missing(d, c, missing, used, err);
    if (!code)
        code = check_unknown(d, c, used, o->strict, err);
    if (!code && n_new && o->trained_head && !o->random)
        code =
            err_set(err, SNUG_ERR_USAGE,
                    "%s: the head of %s was never trained, %s is not there; train it first, or give --allow-new-head",
                    d->path, model_class(c), first_new);
    if (!code && n_new && !o->replaced)
        note_new(d, n_new, first_new, o->seed);
    mem_free(used);
    mem_free(w);
    return code;
}

/* ---- filling ---- */

/* Four independent N(0,1) from one call (Box and Muller, 1958). */
static void four_normals(struct philox bits, float out[4])
{
    for (int i = 0; i < 2; i++) {
        double u = ((double)bits.w[2 * i] + 0.5) * 0x1p-32, v = (double)bits.w[2 * i + 1] * 0x1p-32;
        double radius = sqrt(-2 * log(u)), angle = 6.28318530717958647692 * v;
        out[2 * i] = (float)(radius * cos(angle));
        out[2 * i + 1] = (float)(radius * sin(angle));
    }
}

/* Four independent numbers, uniform in (-1, 1). */
static void four_uniform(struct philox bits, float out[4])
{
    for (int i = 0; i < 4; i++)
        out[i] = (float)(((double)bits.w[i] + 0.5) * 0x1p-31 - 1);
}

/* Elements [first, first + n), `first` a multiple of 4. An element depends on seed, name and its number only. */
static void fill_random(const struct run_value *w, uint64_t seed, int threads, int64_t first, int64_t n, float *to)
{
    struct hash128 name = hash_bytes(w->name, strlen(w->name));
    int64_t width = w->ndim > 1 ? w->shape[1] : 1;
#pragma omp parallel for schedule(static) num_threads(threads) if (n > 1 << 16)
    for (int64_t block = first / 4; block < (first + n + 3) / 4; block++) {
        float x[4];
        struct philox c = {{(uint32_t)block, (uint32_t)(block >> 32), (uint32_t)name.low, (uint32_t)(name.low >> 32)}};
        struct philox bits = philox4x32(c, (uint32_t)seed, (uint32_t)(seed >> 32));
        if (w->init.kind == INIT_UNIFORM)
            four_uniform(bits, x);
        else
            four_normals(bits, x);
        for (int64_t i = 4 * block; i < 4 * block + 4 && i < first + n; i++)
            to[i - first] =
                w->init.zero_row >= 0 && i / width == w->init.zero_row ? 0 : (float)w->init.std * x[i - 4 * block];
    }
}

static void fill_sines(const struct run_value *w, int64_t first, int64_t n, float *to)
{
    int64_t width = w->shape[1], half = (width + 1) / 2;
    for (int64_t i = first; i < first + n; i++) {
        int64_t p = i / width, j = i % width % half;
        double power = log(1e4) * w->init.std, angle = (double)p * exp(-power * (double)j);
        if (w->init.rounded)
            angle = (double)((float)p * (float)exp((double)((float)-power * (float)j)));
        to[i - first] = (float)(i % width < half ? sin(angle) : cos(angle));
    }
}

/* ALiBi's (Press et al., arXiv 2108.12409) for the n heads of a row: powers of 2^(-8/p), with p the greatest power of two among 1…n; then each
 * second one of 2^(-4/p). */
static void fill_slopes(const struct run_value *w, int64_t first, int64_t n, float *to)
{
    int64_t heads = w->shape[1], p = 1;
    while (2 * p <= heads)
        p *= 2;
    for (int64_t i = first; i < first + n; i++) {
        double power = i < p ? 8.0 * (double)(i + 1) : 4.0 * (double)(2 * (i - p) + 1);
        to[i - first] = (float)(w->init.std * exp2(-power / (double)p));
    }
}

static void fill_new(const struct run_value *w, uint64_t seed, int threads, int64_t first, int64_t n, float *to)
{
    if (w->init.kind == INIT_SINES)
        fill_sines(w, first, n, to);
    else if (w->init.kind == INIT_SLOPES)
        fill_slopes(w, first, n, to);
    else if (w->init.kind == INIT_NORMAL || w->init.kind == INIT_UNIFORM)
        fill_random(w, seed, threads, first, n, to);
    else
        for (int64_t i = 0; i < n; i++)
            to[i] = w->init.kind == INIT_ONE ? 1 : 0;
}

int weights_changed(struct run *r, struct snug_err *err)
{
    return r->where.copies < 0 ? SNUG_OK : run_program(r, r->where.copies, (struct dims){0}, NULL, 0, err);
}

int states_start(struct run *r, struct snug_err *err)
{
    struct run_value *v;
    size_t n;
    TRY(run_list(r, 1u << ROLE_STATE, &v, &n, err));
    int code = SNUG_OK;
    for (size_t i = 0; i < n && !code; i++)
        if (v[i].init.kind == INIT_FIRST)
            code = run_write(r, &v[i], &v[i].init.std, DT_F64, 1, err);
    mem_free(v);
    return code;
}

/* On the reference, which has no such type. */
static void round_to_bf16(float *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        x[i] = bf16_to_float(bf16_from_float(x[i]));
}

/* What weights are read with, in pieces: no tensor stands anywhere in full but where it is wanted. */
enum { PIECE = 16 * MODEL_DIR_PIECE }; /* elements */
struct loading {
    struct model_dir *d; /* whose rules hold for an adapter's tensors too */
    struct run *r;
    const struct weight_options *o;
    struct hash_state *base;
    float *host; /* as much of a weight as is read at once */
};

static int64_t largest_piece(const struct run_value *w, size_t n)
{
    int64_t most = 1;
    for (size_t i = 0; i < n && most < PIECE; i++)
        most = w[i].elements > most ? w[i].elements : most;
    return most < PIECE ? most : PIECE;
}

/* One weight, from tensor t, or new where t is NULL. What is stored in 16 bits is read as that: a file that has
 * them goes there as it is, unless its numbers are to be known. `coding`: of a weight in codes. */
static int load_pieces(const struct loading *l, const struct run_value *w, const struct model_tensor *t,
                       struct coding *coding, struct snug_err *err)
{
    bool hashed = l->o->base && w->frozen, here = run_has(l->r, w);
    enum dtype stored = l->o->bf16 ? DT_BF16 : w->dtype, as = DT_F32;
    if (t && !hashed && dtype_bits(stored) == 16)
        as = stored;
    for (int64_t first = 0; first < w->elements && (here || hashed); first += PIECE) {
        int64_t n = w->elements - first < PIECE ? w->elements - first : PIECE;
        struct run_value part = run_part_of(w, first, n);
        if (t)
            TRY(model_dir_read_part(l->d, t, as, first, n, l->host, err));
        else
            fill_new(w, l->o->seed, l->r->threads, first, n, l->host);
        if (hashed)
            hash_add(l->base, l->host, (size_t)n * sizeof *l->host);
        if (as == DT_F32 && stored == DT_BF16 && w->dtype == DT_F64)
            round_to_bf16(l->host, n);
        if (here)
            TRY(coding ? coding_put(coding, l->host, first, n, err) : run_write(l->r, &part, l->host, as, n, err));
    }
    return coding ? coding_finish(coding, err) : SNUG_OK;
}

static int load_weight(const struct loading *l, const struct run_value *w, const struct model_tensor *t,
                       struct snug_err *err)
{
    struct coding c;
    float *nested = NULL;
    if (!weight_is_coded(w))
        return load_pieces(l, w, t, NULL, err);
    TRY(coding_open(&c, l->r, w, l->o->codes, w->elements < PIECE ? w->elements : PIECE, err));
    int code = t ? model_dir_read_nested(l->d, t, &nested, &c.n_nested, err) : SNUG_OK;
    c.nested = nested;
    if (!code)
        code = load_pieces(l, w, t, &c, err);
    coding_close(&c);
    mem_free(nested);
    return code;
}

/* What each process has added up of its shard, or of nothing. */
static int add_up_processes(const struct run *r, double *x, int64_t n, struct snug_err *err)
{
    double *all = mem_alloc((size_t)(n * r->rank->n) * sizeof *all);
    int code = all ? SNUG_OK : err_no_memory(err, (unsigned long long)(n * r->rank->n) * sizeof *all);
    if (!code && !ranks_gather_all(r->rank, x, (size_t)n * sizeof *x, all))
        code = ranks_failure(r->rank->all, err);
    for (int64_t i = 0; i < n && !code; i++)
        x[i] = 0;
    for (int64_t i = 0; i < n * r->rank->n && !code; i++)
        x[i % n] += all[i];
    mem_free(all);
    return code;
}

/* A new weight of INIT_LENGTHS, when the matrix beside it is there. */
static int load_lengths(const struct loading *l, const struct run_value *w, struct snug_err *err)
{
    char name[MODEL_NAME_MAX];
    struct run_value of;
    snprintf(name, sizeof name, "%.*sweight", (int)(strrchr(w->name, '.') + 1 - w->name), w->name);
    if (!run_find(l->r, name, &of))
        return err_set(err, SNUG_ERR_INPUT, "graph: %s has no %s beside it", w->name, name);
    int64_t width = of.shape[1], piece = weight_is_coded(&of) ? PIECE / coding_unit(&of) * coding_unit(&of) : PIECE;
    int64_t most = of.elements < piece ? of.elements : piece, n;
    float *x = mem_alloc((size_t)most * sizeof *x);
    double *lengths = mem_alloc((size_t)w->elements * sizeof *lengths);
    int code = x && lengths ? SNUG_OK : err_no_memory(err, (unsigned long long)most * sizeof *x);
    for (int64_t first = 0; first < of.elements && !code && run_has(l->r, &of); first += n) {
        n = of.elements - first < most ? of.elements - first : most;
        struct run_value part = run_part_of(&of, first, n);
        memset(x, 0, (size_t)n * sizeof *x); /* of which other processes may have some */
        code = weight_is_coded(&of) ? coding_read(l->r, &of, l->o->codes, first, n, x, err)
                                    : run_read(l->r, &part, x, DT_F32, err);
        for (int64_t i = 0; i < n && !code; i++)
            lengths[w->init.std > 0 ? (first + i) % width : (first + i) / width] += (double)x[i] * x[i];
    }
    if (!code && (of.rank || of.shards) && l->r->rank && !l->r->ranks)
        code = add_up_processes(l->r, lengths, w->elements, err);
    for (int64_t i = 0; i < w->elements && !code; i++)
        lengths[i] = sqrt(lengths[i]);
    if (!code)
        code = run_write(l->r, w, lengths, DT_F64, w->elements, err);
    mem_free(x);
    mem_free(lengths);
    return code;
}

int weights_load(struct model_dir *d, struct run *r, const struct model_config *c, const struct weight_options *o,
                 struct snug_err *err)
{
    struct run_value *w;
    size_t n;
    int code = SNUG_OK;
    TRY(weights_check_tied(d, c, err));
    TRY(run_list(r, 1u << ROLE_WEIGHT, &w, &n, err));
    size_t bytes = (size_t)largest_piece(w, n) * sizeof(float);
    struct loading l = {.d = d, .r = r, .o = o, .base = hash_new(), .host = mem_realloc(NULL, bytes)};
    if (!l.host || !l.base)
        code = err_no_memory(err, bytes);
    for (size_t i = 0; i < n && !code; i++) {
        const struct model_tensor *t = weights_find(d, c, w[i].name), *own = adapter_tensor(o, w[i].name);
        bool anew = o->new_head && model_is_of_head(c, w[i].name);
        code = load_weight(&l, &w[i], own ? own : anew || init_is_whole(&w[i].init) ? NULL : t, err);
    }
    for (size_t i = 0; i < n && !code; i++)
        if (w[i].init.kind == INIT_LENGTHS && !adapter_tensor(o, w[i].name))
            code = load_lengths(&l, &w[i], err);
    struct hash128 hash = l.base ? hash_end(l.base) : (struct hash128){0};
    if (o->base)
        *o->base = hash;
    mem_free(l.host);
    mem_free(w);
    return code ? code : weights_changed(r, err);
}
