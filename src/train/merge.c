#include "train/merge.h"

#include "output/export.h"
#include "output/whose_files.h"
#include "train/session/model_folder.h"
#include "train/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What a tensor of the base becomes. */
struct part {
    const struct model_tensor *base, *saved; /* saved: the adapter has it in full */
    const struct adapter *adapter;           /* else NULL: it stays */
    int64_t expert, row;                     /* of experts: whose rows of B they are, and from which on */
};

/* What an adapter of an expert shares with those of the others. */
struct factors {
    const struct adapter *of;
    float *a, *b;
};
enum { FACTORS_KEPT = 2 }; /* of a block's two weights, whose tensors alternate */

struct merging {
    struct session s;
    struct part *parts; /* (n) in the order of `tensors` before they are sorted */
    struct st_tensor *tensors;
    size_t n;
    void *data; /* the tensor that is being read, as it is written */
    const char *data_name;
    struct factors kept[FACTORS_KEPT]; /* the latest first */
    struct merge_report *report;
};

/* ---- the numbers ---- */

static float *read_floats(struct model_dir *d, const struct model_tensor *t, struct snug_err *err)
{
    float *to = mem_alloc((size_t)st_elements(t->tensor) * sizeof *to);
    if (!to)
        err_no_memory(err, (unsigned long long)st_elements(t->tensor) * sizeof *to);
    else if (model_dir_read(d, t, DT_F32, to, err)) {
        mem_free(to);
        to = NULL;
    }
    return to;
}

/* `which` of an adapter's tensors, as floats; NULL: it failed. */
static float *read_own(struct merging *m, const struct adapter *a, const char *which, struct snug_err *err)
{
    char name[MODEL_NAME_MAX];
    snprintf(name, sizeof name, "%s.%s", a->path, which);
    return read_floats(&m->s.adapter.dir, session_adapter_tensor(&m->s, name), err);
}

/* Rounds the row to the type of the weights, and remembers how far off that is at most. */
static void put_row(struct merging *m, const struct st_tensor *t, const double *row, double *rounded, int64_t at)
{
    int64_t n = t->shape[t->ndim - 1];
    char *to = (char *)m->data + dtype_bytes(t->dtype, at * n);
    dtype_convert(to, t->dtype, row, DT_F64, n);
    dtype_convert(rounded, DT_F64, to, t->dtype, n);
    for (int64_t j = 0; j < n; j++)
        if (fabs(rounded[j] - row[j]) > m->report->largest_error)
            m->report->largest_error = fabs(rounded[j] - row[j]);
}

static void drop_factors(struct factors *f)
{
    mem_free(f->a);
    mem_free(f->b);
    *f = (struct factors){0};
}

/* A and B, which stay until those of other adapters are read. */
static int read_factors(struct merging *m, const struct adapter *a, struct factors *out, struct snug_err *err)
{
    size_t i = 0;
    while (i + 1 < FACTORS_KEPT && m->kept[i].of != a)
        i++;
    struct factors f = m->kept[i];
    if (f.of != a) {
        drop_factors(&f);
        f.of = a;
        f.a = read_own(m, a, "lora_A.weight", err);
        f.b = f.a ? read_own(m, a, "lora_B.weight", err) : NULL;
    }
    memmove(m->kept + 1, m->kept, i * sizeof *m->kept);
    m->kept[0] = *out = f;
    return f.b ? SNUG_OK : err ? err->code : SNUG_ERR_ENV;
}

/* A weight with what its adapter is made of. Of a tensor that has all experts' weights (E,O,I) it is that of one at a time. */
struct weight {
    const struct part *part;
    int64_t expert; /* whose rows of B they are */
    int64_t rows, columns;
    float *all, *w; /* the tensor, and this weight in it */
    struct factors f;
    float *lengths;  /* by output; NULL: rows stay as long as they become */
    double *factors; /* by output: what the lengths make of it */
};

/* W + scale B A: w (O,I), or (I,O) when in_out; a (r,I), b (O,r), of experts as split_experts has them. One row of W at a time, summed in
 * double. */
static void add_product(const struct weight *x, int64_t at, double *row)
{
    const struct adapter *adapter = x->part->adapter;
    bool in_out = adapter->in_out;
    int64_t experts = adapter->experts ? adapter->experts : 1, in = in_out ? x->rows : x->columns;
    const float *a = x->f.a + x->expert * adapter->r * in;
    const float *b = x->f.b + x->part->row * adapter->r * experts + x->expert;
    for (int64_t k = 0; k < adapter->r; k++)
        for (int64_t j = 0; j < x->columns; j++) {
            int64_t o = in_out ? j : at, i = in_out ? at : j;
            row[j] += adapter->scale * (double)b[(o * adapter->r + k) * experts] * a[k * in + i];
        }
}

static int read_weight(struct merging *m, struct weight *x, struct snug_err *err)
{
    bool dora = m->s.adapter.set.adapters.dora;
    x->all = x->w = read_floats(&m->s.dir, x->part->base, err);
    if (!x->w)
        return err ? err->code : SNUG_ERR_ENV;
    TRY(read_factors(m, x->part->adapter, &x->f, err));
    x->lengths = dora ? read_own(m, x->part->adapter, "lora_magnitude_vector", err) : NULL;
    return dora && !x->lengths ? err ? err->code : SNUG_ERR_ENV : SNUG_OK;
}

static void free_weight(struct weight *x)
{
    mem_free(x->all);
    mem_free(x->lengths);
    mem_free(x->factors);
}

/* Row i of W + scale B A. */
static void sum_row(const struct weight *x, int64_t i, double *row)
{
    for (int64_t j = 0; j < x->columns; j++)
        row[j] = x->w[i * x->columns + j];
    add_product(x, i, row);
}

/* The length that each output is to have, over the one that it has in W + scale B A; 0 where that is 0. */
static int find_factors(struct weight *x, double *row, struct snug_err *err)
{
    bool in_out = x->part->adapter->in_out;
    int64_t out = in_out ? x->columns : x->rows;
    x->factors = mem_alloc((size_t)out * sizeof *x->factors);
    if (!x->factors)
        return err_no_memory(err, (unsigned long long)out * sizeof *x->factors);
    for (int64_t i = 0; i < x->rows; i++) {
        sum_row(x, i, row);
        for (int64_t j = 0; j < x->columns; j++)
            x->factors[in_out ? j : i] += row[j] * row[j];
    }
    for (int64_t o = 0; o < out; o++)
        x->factors[o] = x->factors[o] > 0 ? x->lengths[o] / sqrt(x->factors[o]) : 0;
    return SNUG_OK;
}

static int merge_weight(struct merging *m, const struct part *p, const struct st_tensor *t, struct snug_err *err)
{
    int64_t matrices = t->ndim == 3 ? t->shape[0] : 1;
    struct weight x = {.part = p, .expert = p->expert, .rows = t->shape[t->ndim - 2], .columns = t->shape[t->ndim - 1]};
    double *row = mem_alloc(2 * (size_t)x.columns * sizeof *row);
    int code = row ? read_weight(m, &x, err) : err_no_memory(err, 2 * (unsigned long long)x.columns * sizeof *row);
    if (!code && x.lengths)
        code = find_factors(&x, row, err);
    for (int64_t e = 0; !code && e < matrices; e++, x.expert++, x.w += x.rows * x.columns)
        for (int64_t i = 0; i < x.rows; i++) {
            sum_row(&x, i, row);
            for (int64_t j = 0; j < x.columns && x.factors; j++)
                row[j] *= x.factors[p->adapter->in_out ? j : i];
            put_row(m, t, row, row + x.columns, e * x.rows + i);
        }
    mem_free(row);
    free_weight(&x);
    return code;
}

static const struct part *part_of(const struct merging *m, const char *name)
{
    for (size_t i = 0; i < m->n; i++)
        if (!strcmp(m->parts[i].base ? m->parts[i].base->tensor->name
                                     : m->parts[i].saved->tensor->name + strlen(ADAPTER_PREFIX),
                    name))
            return &m->parts[i];
    return NULL;
}

/* A whole tensor into m->data when its first bytes are asked for. */
static int read_tensor(void *ctx, const struct st_tensor *t, int64_t offset, void *to, size_t bytes,
                       struct snug_err *err)
{
    struct merging *m = ctx;
    if (m->data_name != t->name) {
        const struct part *p = part_of(m, t->name);
        mem_free(m->data);
        m->data_name = NULL;
        m->data = mem_alloc((size_t)t->bytes + 1);
        if (!m->data)
            return err_no_memory(err, (unsigned long long)t->bytes);
        TRY(p->adapter ? merge_weight(m, p, t, err)
            : p->saved ? model_dir_read(&m->s.adapter.dir, p->saved, t->dtype, m->data, err)
                       : model_dir_read(&m->s.dir, p->base, t->dtype, m->data, err));
        m->data_name = t->name;
    }
    memcpy(to, (char *)m->data + offset, bytes);
    return SNUG_OK;
}

/* ---- what there is ---- */

static void list_tensor(struct merging *m, struct part p, const char *name, enum dtype dtype,
                        const struct st_tensor *shape)
{
    struct st_tensor *t = &m->tensors[m->n];
    *t = (struct st_tensor){.name = name, .dtype = dtype, .ndim = shape->ndim};
    memcpy(t->shape, shape->shape, sizeof t->shape);
    m->parts[m->n++] = p;
}

static struct part *find_part(struct merging *m, const struct model_tensor *base)
{
    for (size_t i = 0; base && i < m->n; i++)
        if (m->parts[i].base == base)
            return &m->parts[i];
    return NULL;
}

/* The type of the base's weights: of the first tensor that is neither quantised nor a buffer of integers, such as a mask or positions. */
static enum dtype weights_type(const struct model_dir *base)
{
    for (size_t i = 0; i < base->n_tensors; i++) {
        enum dtype t = base->tensors[i].tensor->dtype;
        bool number = t == DT_F64 || t == DT_F32 || t == DT_BF16 || t == DT_F16;
        if (number && !model_dir_has_quantized(base, &base->tensors[i]))
            return t;
    }
    return DT_F32;
}

/* A weight of the base that gets what an adapter says. */
static int give_adapter(struct merging *m, const char *weight, struct part with, struct snug_err *err)
{
    struct part *p = find_part(m, weights_find(&m->s.dir, &m->s.model, weight));
    if (!p)
        return err_set(err, SNUG_ERR_INPUT, "%s: has no %s, which the adapter is for; give the adapter's own base",
                       m->s.dir.path, weight);
    p->adapter = with.adapter;
    p->expert = with.expert;
    p->row = with.row;
    m->report->merged++;
    return SNUG_OK;
}

static int give_adapters(struct merging *m, struct snug_err *err)
{
    const struct adapter_set *set = &m->s.adapter.set;
    for (size_t i = 0; i < set->adapters.n; i++) {
        char name[MODEL_NAME_MAX];
        const struct adapter *a = &set->adapters.list[i];
        snprintf(name, sizeof name, "%s.weight", a->module);
        if (!a->experts)
            TRY(give_adapter(m, name, (struct part){.adapter = a}, err));
    }
    for (size_t i = 0; i < set->n_parts; i++) {
        const struct adapter_part *p = &set->parts[i];
        struct part with = {
            .adapter = adapters_find_experts(&set->adapters, p->module), .expert = p->expert, .row = p->row};
        TRY(give_adapter(m, p->weight, with, err));
    }
    return SNUG_OK;
}

/* All tensors of the base, then those of the adapter that it lacks: a new head, in the type of the base's weights. */
static int list_tensors(struct merging *m, struct snug_err *err)
{
    struct model_dir *base = &m->s.dir, *own = &m->s.adapter.dir;
    const struct adapters *a = &m->s.adapter.set.adapters;
    size_t most = base->n_tensors + own->n_tensors + 1;
    m->report->dtype = weights_type(base);
    m->parts = mem_alloc(most * sizeof *m->parts);
    m->tensors = mem_alloc(most * sizeof *m->tensors);
    if (!m->parts || !m->tensors)
        return err_no_memory(err, most * (sizeof *m->parts + sizeof *m->tensors));
    for (size_t i = 0; i < base->n_tensors; i++) {
        const struct st_tensor *t = base->tensors[i].tensor;
        enum dtype dtype = model_dir_has_quantized(base, &base->tensors[i]) ? m->report->dtype : t->dtype;
        list_tensor(m, (struct part){.base = &base->tensors[i]}, t->name, dtype, t);
    }
    TRY(give_adapters(m, err));
    for (size_t i = 0; i < own->n_tensors; i++) {
        const struct st_tensor *t = own->tensors[i].tensor;
        const char *name = t->name + strlen(ADAPTER_PREFIX);
        if (!adapters_save(a, name))
            continue;
        struct part *p = find_part(m, weights_find(base, &m->s.model, name));
        m->report->replaced++;
        if (p)
            p->saved = &own->tensors[i];
        else
            list_tensor(m, (struct part){.saved = &own->tensors[i]}, name, m->report->dtype, t);
    }
    return SNUG_OK;
}

/* ---- the folder ---- */

/* The result's config.json, in the type of the base's weights. */
static int make_config(struct merging *m, char **text, struct snug_err *err)
{
    static const char *const names[] = {
        [DT_F32] = "float32", [DT_BF16] = "bfloat16", [DT_F16] = "float16", [DT_F64] = "float64"};
    char *plain;
    TRY(train_config_text(&m->s, &plain, err));
    json_t *config = json_loads(plain, 0, NULL);
    const char *key = json_object_get(config, "dtype") ? "dtype" : "torch_dtype";
    int failed = !config || json_object_set_new(config, key, json_string(names[m->report->dtype]));
    *text = failed ? NULL : json_dumps(config, JSON_INDENT(2) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17));
    json_decref(config);
    mem_free(plain);
    return *text ? SNUG_OK : err_no_memory(err, 1 << 16);
}

static int write_folder(struct merging *m, struct snug_err *err)
{
    struct session *s = &m->s;
    struct whose_file files[MODEL_DIR_CARRIED + MODEL_DIR_MADE + 2] = {{"config.json", FILE_RESULT},
                                                                       {"model.safetensors", FILE_RESULT}};
    struct ckpt_dir out = {.lock_fd = -1};
    size_t n = 2;
    char *config = NULL;
    for (size_t i = 0; i < s->dir.n_carried; i++)
        files[n++] = (struct whose_file){s->dir.carried[i], FILE_CARRIED};
    for (size_t i = 0; i < s->dir.n_made; i++)
        files[n++] = (struct whose_file){s->dir.made[i].name, FILE_RESULT};
    TRY(ckpt_dir_open(s->io, s->o->output_dir, CKPT_OVERWRITE, s->o->model, NULL, 0, session_notes(s), &out, err));
    struct whose_folder f = {.io = out.io,
                             .path = s->o->output_dir,
                             .source = s->dir.path,
                             .never = (const char *const[]){NULL},
                             .model = true,
                             .overwrite = s->o->overwrite_output_dir};
    int code = whose_files_check(&f, files, n, err);
    if (!code)
        code = make_config(m, &config, err);
    struct export_model e = {.tensors = m->tensors,
                             .n_tensors = m->n,
                             .read = read_tensor,
                             .ctx = m,
                             .texts = {{"config.json", config}},
                             .replaces = s->o->overwrite_output_dir,
                             .source_dir = s->dir.path,
                             .files = s->dir.carried,
                             .n_files = s->dir.n_carried};
    for (size_t i = 0; i < s->dir.n_made; i++)
        e.texts[EXPORT_OWN + i] = (struct export_text){s->dir.made[i].name, s->dir.made[i].text};
    if (!code)
        code = export_folder(out.io, s->o->output_dir, &e, err);
    free(config);
    ckpt_dir_close(&out);
    return code;
}

/* The options are those of a model without data: these are for the losses alone. */
static int merge(const struct io *io, const struct options *o, struct session_events events,
                 struct merge_report *report, struct snug_err *err)
{
    struct merging m = {.s = {.io = io, .o = o, .events = events}, .report = report};
    int code = model_folder_open(&m.s, err);
    if (!code && !m.s.model.problem) /* of no consequence: nothing is computed */
        m.s.model.problem = PROBLEM_SINGLE_LABEL;
    if (!code)
        code = session_adapter_match(&m.s, err);
    if (!code)
        code = list_tensors(&m, err);
    if (!code)
        code = write_folder(&m, err);
    for (size_t i = 0; i < FACTORS_KEPT; i++)
        drop_factors(&m.kept[i]);
    mem_free(m.data);
    mem_free(m.parts);
    mem_free(m.tensors);
    session_close(&m.s);
    return code;
}

int train_merge(const struct io *io, const struct options *o, struct session_events events, struct merge_report *report,
                struct snug_err *err)
{
    struct options without_data = *o;
    without_data.data = NULL;
    *report = (struct merge_report){.adapter_loss = NAN, .merged_loss = NAN};
    if (o->data)
        TRY(merge_loss(io, o, o->model, o->adapter, events, &report->adapter_loss, err));
    TRY(merge(io, &without_data, events, report, err));
    return o->data ? merge_loss(io, o, o->output_dir, NULL, (struct session_events){0}, &report->merged_loss, err)
                   : SNUG_OK;
}
