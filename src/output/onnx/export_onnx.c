#include "output/onnx/export_onnx.h"

#include "checkpoint/checkpoint.h"
#include "output/export.h"
#include "output/onnx/lower.h"
#include "output/onnx/write.h"
#include "output/whose_files.h"
#include "run/weights.h"

#include <stdio.h>
#include <string.h>

struct job {
    const struct onnx_export *e;
    struct onnx_report *r;
    struct model_dir d;
    struct model_config c;
    struct graph g;
    struct onnx x;
    bool opened, built;
    bool bare; /* a model without a head, for embeddings */
};

/* ---- what is exported ---- */

static bool is_encoder(const struct model_arch *a)
{
    return !a->heads[MODEL_CAUSAL_LM].class_name && !a->heads[MODEL_SEQ2SEQ_LM].class_name;
}

static int refuse_others(const struct job *j, struct snug_err *err)
{
    return is_encoder(j->c.arch)
               ? SNUG_OK
               : err_set(err, SNUG_ERR_INPUT, "%s: a %s model; --onnx is for encoders: docs/models.md lists them",
                         j->d.path, j->c.arch->model_type);
}

/* ---- what it gives ---- */

static void add_output(struct onnx *x, const char *name, int id)
{
    const struct value *v = graph_value(x->g, id);
    struct onnx_end *e = &x->outputs[x->n_outputs++];
    *e = (struct onnx_end){.name = name, .type = ONNX_FLOAT};
    e->shape[e->ndim++] = ONNX_BATCH;
    if (dim_has_tokens(v->shape[0]))
        e->shape[e->ndim++] = ONNX_LENGTH;
    for (int i = 1; i < v->ndim; i++)
        e->shape[e->ndim++] = v->shape[i].c;
}

/* Starts and ends of answers are two columns of the logits; here each is a tensor (batch, length). */
static void add_answers(struct onnx *x, const char *logits)
{
    static const char *const names[] = {"start_logits", "end_logits"};
    const char *part[2];
    onnx_split(x, logits, 2, 2, (const int64_t[]){1, 1}, part);
    for (int i = 0; i < 2; i++) {
        onnx_rename(x, onnx_node(x, "Squeeze", ONNX_IN(part[i], ONNX_INTS(x, 2))), names[i]);
        x->outputs[x->n_outputs++] =
            (struct onnx_end){.name = names[i], .type = ONNX_FLOAT, .ndim = 2, .shape = {ONNX_BATCH, ONNX_LENGTH}};
    }
}

static int make_program(struct job *j, struct snug_err *err)
{
    struct built built;
    struct onnx *x = &j->x;
    TRY(graph_init(&j->g, err));
    j->built = true;
    TRY(model_build(&j->c, (struct build_settings){.mode = j->bare ? BUILD_EMBED : BUILD_EVALUATE}, &j->g, &built,
                    err));
    TRY(onnx_init(x, &j->g, &j->c, err));
    onnx_inputs(x);
    onnx_lower(x, built.logits);
    const char *gives = onnx_use(x, built.logits), *name = j->bare ? "last_hidden_state" : "logits";
    if (!j->bare && model_task(&j->c)->labels == TASK_SPAN)
        add_answers(x, gives);
    else {
        add_output(x, name, built.logits);
        onnx_rename(x, gives, name);
    }
    TRY(onnx_ok(x, err));
    onnx_prune(x);
    return SNUG_OK;
}

/* ---- the folder ---- */

static int write_model(void *ctx, const struct io *io, int fd, const char *path, struct snug_err *err)
{
    struct job *j = ctx;
    return onnx_write(&j->x, &j->d, io, fd, path, err);
}

static int write_beside(void *ctx, const struct io *io, int fd, const char *path, struct snug_err *err)
{
    struct job *j = ctx;
    return onnx_write_beside(&j->x, &j->d, io, fd, path, err);
}

static int write_into(struct job *j, struct ckpt_dir *out, struct snug_err *err)
{
    const char *files[MODEL_DIR_CARRIED + 1] = {"config.json"};
    struct whose_file whose[MODEL_DIR_CARRIED + 3] = {
        {"config.json", FILE_RESULT}, {ONNX_FILE, FILE_RESULT}, {ONNX_FILE_BESIDE, FILE_RESULT}};
    size_t n = 1, n_whose = 3;
    for (size_t i = 0; i < j->d.n_carried; i++) {
        whose[n_whose++] = (struct whose_file){j->d.carried[i], FILE_CARRIED};
        files[n++] = j->d.carried[i];
    }
    struct whose_folder f = {.io = out->io,
                             .path = j->e->dir,
                             .source = j->d.path,
                             .never = (const char *const[]){NULL},
                             .model = true,
                             .overwrite = j->e->overwrite};
    TRY(whose_files_check(&f, whose, n_whose, err));
    TRY(ckpt_dir_need_bytes(out, 0, -1, j->r->bytes + j->r->beside + (1 << 20), err));
    const struct export_written written[] = {{ONNX_FILE_BESIDE, write_beside, j}, {ONNX_FILE, write_model, j}};
    struct export_model m = {.written = j->r->beside ? written : written + 1,
                             .n_written = j->r->beside ? 2 : 1,
                             .replaces = j->e->overwrite,
                             .source_dir = j->d.path,
                             .files = files,
                             .n_files = n};
    return export_folder(out->io, j->e->dir, &m, err);
}

static int write_folder(struct job *j, const struct io *io, struct snug_err *err)
{
    struct ckpt_dir out = {.lock_fd = -1};
    struct ckpt_notes notes = {.fn = j->e->note, .ctx = j->e->note_ctx};
    TRY(ckpt_dir_open(io, j->e->dir, CKPT_OVERWRITE, j->d.path, NULL, 0, notes, &out, err));
    int code = SNUG_OK;
    if (ckpt_dir_has_steps(&out))
        code = err_set(err, SNUG_ERR_USAGE, "%s: has checkpoints of a run; give another --output-dir", j->e->dir);
    if (!code)
        code = write_into(j, &out, err);
    ckpt_dir_close(&out);
    return code;
}

/* ---- all together ---- */

static int open_model(struct job *j, const struct io *io, struct snug_err *err)
{
    TRY(model_dir_open(io, j->e->model, &j->d, err));
    j->opened = true;
    TRY(model_config_read(j->d.config, j->d.config_path, &j->c, err));
    TRY(refuse_others(j, err));
    TRY(weights_settle(&j->d, &j->c, err));
    j->bare = !j->c.task;
    TRY(model_set_task(&j->c, j->bare ? MODEL_TOKEN_CLASSIFICATION : j->c.task, j->d.config_path, err));
    if (!j->c.problem) /* of no consequence: there are no labels */
        j->c.problem = PROBLEM_SINGLE_LABEL;
    return weights_check_tied(&j->d, &j->c, err);
}

static void report(struct job *j)
{
    struct onnx_report *r = j->r;
    size_t n = 0;
    if (j->bare)
        snprintf(r->text, sizeof r->text, "%sModel", j->c.arch->class_prefix);
    else
        snprintf(r->text, sizeof r->text, "%s", model_class(&j->c));
    r->of = r->text;
    n = strlen(r->text) + 1;
    r->gives = r->text + n;
    for (int i = 0; i < j->x.n_outputs && n < sizeof r->text; i++)
        n += (size_t)snprintf(r->text + n, sizeof r->text - n, "%s%s", i ? ", " : "", j->x.outputs[i].name);
}

static int export_opened(struct job *j, const struct io *io, struct snug_err *err)
{
    TRY(open_model(j, io, err));
    TRY(make_program(j, err));
    TRY(onnx_check_weights(&j->x, &j->d, err));
    TRY(onnx_layout(&j->x, j->e->limit ? j->e->limit : ONNX_LIMIT, &j->r->bytes, &j->r->beside, err));
    TRY(write_folder(j, io, err));
    report(j);
    return SNUG_OK;
}

int export_onnx(const struct io *io, const struct onnx_export *e, struct onnx_report *r, struct snug_err *err)
{
    struct job *j = mem_alloc(sizeof *j);
    if (!j)
        return err_no_memory(err, sizeof *j);
    *r = (struct onnx_report){0};
    j->e = e;
    j->r = r;
    j->d = (struct model_dir){.note = e->note, .note_ctx = e->note_ctx};
    int code = export_opened(j, io, err);
    onnx_free(&j->x);
    if (j->built)
        graph_free(&j->g);
    if (j->opened)
        model_dir_close(&j->d);
    mem_free(j);
    return code;
}
