/* snug debug grad MODEL INPUTS OUT: one batch forward and backward, for comparison with other programs. */
#include "adapter/join.h"
#include "base/machine.h"
#include "cli/commands.h"
#include "train/session/datasets.h"
#include "train/session/session.h"
#include "train/session/settings.h"

#include <math.h>
#include <string.h>
#include <unistd.h>

struct probe {
    const struct options *o;
    struct model_dir dir;
    struct model_config model;
    struct model_dir adapter_dir;
    struct adapter_set adapters;
    struct dataset data;
    struct batch_buffer buffer;
    struct batch batch;
    const struct backend *backend;
    struct run run;
    struct stepper stepper;
    int64_t rows, width; /* of input_ids in the file */
    double loss;
    struct dims dims;
    bool has_dir, has_adapter, has_data, has_run, has_stepper;
};

static void note(void *ctx, const char *line)
{
    (void)ctx;
    print_note(line);
}

static int open_model(struct probe *p, const char *path, struct snug_err *err)
{
    p->dir = (struct model_dir){.note = note};
    TRY(model_dir_open(&io_posix, path, &p->dir, err));
    p->has_dir = true;
    TRY(model_config_read(p->dir.config, p->dir.config_path, &p->model, err));
    TRY(weights_settle(&p->dir, &p->model, err));
    enum model_task task = p->model.task;
    for (int t = MODEL_COUNT - 1; t > MODEL_AUTO && !p->model.task; t--) /* the first that the architecture has */
        task = model_has_task(&p->model, (enum model_task)t) ? (enum model_task)t : task;
    return model_set_task(&p->model, task, p->dir.config_path, err);
}

/* The layers that have an adapter, once the model's labels are known. */
static int open_adapter(struct probe *p, struct snug_err *err)
{
    struct adapter_config c;
    struct graph g;
    struct built built;
    if (!p->o->adapter)
        return SNUG_OK;
    p->adapter_dir = (struct model_dir){.adapter = true, .note = note};
    TRY(model_dir_open(&io_posix, p->o->adapter, &p->adapter_dir, err));
    p->has_adapter = true;
    TRY(adapter_config_read(p->adapter_dir.config, p->adapter_dir.config_path, &c, err));
    TRY(graph_init(&g, err));
    int code = model_build(&p->model, (struct build_settings){.mode = BUILD_TRAIN}, &g, &built, err);
    if (!code)
        code = adapter_match(&c, &p->model, &g, &p->adapters, err);
    if (!code)
        code = adapter_join(&p->adapter_dir, &p->adapters, &g, err);
    graph_free(&g);
    return code;
}

static int read_width(struct probe *p, const char *path, struct snug_err *err)
{
    struct st_file f;
    int code = st_open(&io_posix, path, &f, err);
    bool targets = model_task(&p->model)->labels == TASK_SEQ2SEQ; /* they have the logits */
    const struct st_tensor *ids = code ? NULL : st_find(&f, targets ? "labels" : "input_ids");
    if (ids && ids->ndim == 2)
        p->rows = ids->shape[0], p->width = ids->shape[1];
    else if (!code)
        code = err_set(err, SNUG_ERR_INPUT, "%s: has no %s (N,S); record them as the tokenizer gives them", path,
                       targets ? "labels" : "input_ids");
    st_close(&f);
    return code;
}

static int open_inputs(struct probe *p, const char *path, struct snug_err *err)
{
    struct dataset_options d = {.path = path,
                                .task = task_labels(p->model.task, p->model.problem),
                                .max_length = (int32_t)p->model.longest,
                                .vocab_size = (int32_t)p->model.vocab_size,
                                .num_labels = model_task(&p->model)->classes ? (int32_t)p->model.num_labels : 0,
                                .max_target_length = (int32_t)p->model.longest,
                                .start_id = (int32_t)p->model.start_id,
                                .cache_dir = "",
                                .note = note};
    TRY(read_width(p, path, err));
    TRY(dataset_open(&io_posix, &d, &p->data, err));
    p->has_data = true;
    TRY(datasets_check_ids(&p->model, &p->data, path, err));
    if (p->model.problem == PROBLEM_AUTO)
        p->model.problem = task_problem(p->data.task);
    TRY(batch_buffer_open(&p->buffer, &p->data, p->data.n_tokens, p->data.n_rows, 1, err));
    int64_t *rows = mem_alloc((size_t)p->data.n_rows * sizeof *rows);
    if (!rows)
        return err_no_memory(err, (unsigned long long)p->data.n_rows * sizeof *rows);
    for (int64_t i = 0; i < p->data.n_rows; i++)
        rows[i] = i;
    batch_fill(&p->buffer, &p->data, rows, (int32_t)p->data.n_rows, NULL, 0, NULL, &p->batch);
    mem_free(rows);
    return SNUG_OK;
}

static int gradients_are_finite(const struct probe *p, bool *finite, struct snug_err *err)
{
    struct run_value *grads;
    size_t n;
    int code = SNUG_OK;
    TRY(run_list(&p->run, 1u << ROLE_GRADIENT, &grads, &n, err));
    *finite = true;
    for (size_t g = 0; g < n && *finite && !code; g++) {
        float *host = mem_alloc((size_t)grads[g].elements * sizeof *host);
        code = host ? run_read(&p->run, &grads[g], host, DT_F32, err)
                    : err_no_memory(err, (unsigned long long)grads[g].elements * sizeof *host);
        for (int64_t i = 0; i < grads[g].elements && *finite && !code; i++)
            *finite = isfinite(host[i]);
        mem_free(host);
    }
    mem_free(grads);
    return code;
}

/* With half the scale of the loss again (fp16) while a gradient is not finite, as a run does, which leaves such steps out. */
static int forward_and_backward(struct probe *p, struct snug_err *err)
{
    struct step_inputs in = {.n = (double)p->batch.n_targets};
    struct run_value scaler;
    bool scaled = run_find(&p->run, "loss_scaler", &scaler), finite = true;
    double scalars[SCALER_SCALARS];
    TRY(stepper_forward(&p->stepper, p->run.where.first, &p->batch, &in, &p->loss, &p->dims, err));
    while (scaled) {
        TRY(gradients_are_finite(p, &finite, err));
        TRY(run_read(&p->run, &scaler, scalars, DT_F64, err));
        if (finite || scalars[SCALER_SCALE] < 1)
            break;
        scalars[SCALER_SCALE] /= 2;
        TRY(run_write(&p->run, &scaler, scalars, DT_F64, SCALER_SCALARS, err));
        TRY(stepper_forward(&p->stepper, p->run.where.first, &p->batch, &in, &p->loss, &p->dims, err));
    }
    return SNUG_OK;
}

static int run_batch(struct probe *p, struct snug_err *err)
{
    const struct options *o = p->o;
    const struct backend *b;
    struct precision precision;
    TRY(settings_backend(o, 0, &p->backend, err));
    b = p->backend;
    TRY(settings_precision(o, b, &precision, err));
    precision.narrow_grads = false;
    struct weight_options w = {.adapter = p->has_adapter ? &p->adapter_dir : NULL,
                               .bf16 = precision.pure,
                               .codes = settings_quantization(o).type};
    struct compile_settings c = {.model = &p->model,
                                 .adapters = p->has_adapter ? &p->adapters.adapters : NULL,
                                 .quantization = settings_quantization(o),
                                 .backend = b,
                                 .threads = o->threads ? (int)o->threads : machine_cpus(),
                                 .precision = precision,
                                 .train = true,
                                 .keep_grads = true,
                                 .head_chunk = o->head_chunk};
    struct choices choices = settings_choices(o, b, &p->model);
    choices.micro = batch_dims(b, &p->batch);
    choices.accumulation = 1;
    choices.keep_masks = choices.copies = false;
    bool anew;
    TRY(run_open(&p->run, &c, &choices, err));
    TRY(run_tune(&p->run, &c, &choices, NULL, NULL, &anew, err));
    p->has_run = true;
    TRY(weights_check(&p->dir, &p->run, &p->model, &w, err));
    TRY(run_alloc(&p->run, err));
    TRY(stepper_open(&p->stepper, &p->run, &p->model, 0, err));
    p->has_stepper = true;
    TRY(states_start(&p->run, err));
    TRY(weights_load(&p->dir, &p->run, &p->model, &w, err));
    return forward_and_backward(p, err);
}

/* Logits as transformers shapes them: (B,labels), or (B,S,V) with 0 where there is padding. */
static int gather_logits(const struct probe *p, float **to, int64_t *n, struct snug_err *err)
{
    struct run_value v;
    run_output(&p->run, p->run.where.first, "logits", p->dims, &v);
    int64_t V = v.shape[1];
    bool tokens = model_task(&p->model)->per_token;
    *n = tokens ? p->rows * p->width * V : v.elements;
    double *host = mem_alloc((size_t)v.elements * sizeof *host);
    *to = mem_alloc((size_t)*n * sizeof **to);
    int code = host && *to ? run_read(&p->run, &v, host, DT_F64, err)
                           : err_no_memory(err, (unsigned long long)*n * sizeof **to);
    for (int64_t i = 0; !code && !tokens && i < *n; i++)
        (*to)[i] = (float)host[i];
    for (int32_t b = 0; !code && tokens && b < p->batch.B; b++)
        for (int64_t t = p->batch.cu_seqlens[b]; t < p->batch.cu_seqlens[b + 1]; t++)
            for (int64_t i = 0; i < V; i++)
                (*to)[(b * p->width + t - p->batch.cu_seqlens[b]) * V + i] = (float)host[t * V + i];
    mem_free(host);
    return code;
}

/* One gradient, less the scale of the loss (fp16). */
static int read_gradient(const struct probe *p, const struct run_value *v, float *to, struct snug_err *err)
{
    struct run_value scaler;
    double scalars[SCALER_SCALARS] = {[SCALER_SCALE] = 1};
    if (run_find(&p->run, "loss_scaler", &scaler))
        TRY(run_read(&p->run, &scaler, scalars, DT_F64, err));
    TRY(run_read(&p->run, v, to, DT_F32, err));
    for (int64_t i = 0; i < v->elements && scalars[SCALER_SCALE] != 1; i++)
        to[i] = (float)(to[i] / scalars[SCALER_SCALE]);
    return SNUG_OK;
}

static int write_all(struct probe *p, struct run_value *grads, size_t n, const char *path, struct snug_err *err)
{
    struct st_tensor *t = mem_alloc((n + 2) * sizeof *t);
    struct st_writer w;
    float *logits = NULL;
    int64_t n_logits;
    bool tokens = model_task(&p->model)->per_token;
    size_t first = p->o->head_chunk ? 1 : 2; /* gradients stand behind the loss and, where there are any, the logits */
    int code = t ? SNUG_OK : err_no_memory(err, (n + 2) * sizeof *t);
    if (!code && first == 2)
        code = gather_logits(p, &logits, &n_logits, err);
    if (code)
        goto out;
    t[0] = (struct st_tensor){.name = "loss", .dtype = DT_F32};
    t[1] = (struct st_tensor){.name = "logits", .dtype = DT_F32, .ndim = tokens ? 3 : 2};
    t[1].shape[0] = p->rows;
    t[1].shape[1] = tokens ? p->width : p->model.num_labels;
    t[1].shape[2] = model_task(&p->model)->tied ? p->model.vocab_size : p->model.num_labels;
    for (size_t i = 0; i < n; i++) {
        t[i + first] = (struct st_tensor){.name = grads[i].name, .dtype = DT_F32, .ndim = grads[i].ndim};
        memcpy(t[i + first].shape, grads[i].shape, sizeof grads[i].shape);
    }
    unlink(path); /* the result of an earlier call */
    TRY_TO(out, st_create(&io_posix, path, t, n + first, NULL, 0, false, &w, err));
    for (size_t i = 0; i < n + first && !code; i++) {
        struct run_value v = {0};
        for (size_t g = 0; g < n; g++)
            if (grads[g].name == t[i].name)
                v = grads[g];
        float loss = (float)p->loss;
        if (!v.name) {
            bool is_loss = !strcmp(t[i].name, "loss");
            code = st_write(&w, &t[i], 0, is_loss ? &loss : logits, (size_t)t[i].bytes, err);
            continue;
        }
        float *host = mem_alloc((size_t)v.elements * sizeof *host);
        if (!host) {
            code = err_no_memory(err, (unsigned long long)v.elements * sizeof *host);
            break;
        }
        code = read_gradient(p, &v, host, err);
        if (!code)
            code = st_write(&w, &t[i], 0, host, (size_t)t[i].bytes, err);
        mem_free(host);
    }
    if (code)
        st_abandon(&w);
    else
        code = st_finish(&w, NULL, err);
    if (code)
        unlink(path);
out:
    mem_free(logits);
    mem_free(t);
    return code;
}

int run_debug_grad(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct probe p = {.o = o};
    struct run_value *grads = NULL;
    size_t n;
    int code = open_model(&p, args->items[0], err);
    if (!code)
        code = open_inputs(&p, args->items[1], err);
    if (!code)
        code = open_adapter(&p, err);
    if (!code)
        code = run_batch(&p, err);
    if (!code)
        code = run_list(&p.run, 1u << ROLE_GRADIENT, &grads, &n, err);
    if (!code)
        code = write_all(&p, grads, n, args->items[2], err);
    if (!code)
        printf("loss %.9g\n", p.loss);
    mem_free(grads);
    if (p.has_stepper)
        stepper_close(&p.stepper);
    if (p.has_run)
        run_close(&p.run);
    backend_close(p.backend);
    batch_buffer_close(&p.buffer);
    if (p.has_data)
        dataset_close(&p.data);
    adapter_set_free(&p.adapters);
    if (p.has_adapter)
        model_dir_close(&p.adapter_dir);
    if (p.has_dir)
        model_dir_close(&p.dir);
    return code;
}
