#include "train/output_dir.h"

#include "output/log.h"
#include "output/own_json.h"
#include "output/record.h"
#include "output/whose_files.h"
#include "train/state.h"
#include "train/train.h"

#include <stdlib.h>
#include <string.h>

bool output_dir_resumes(const struct options *o)
{
    return o->resume_from_checkpoint != NULL;
}

const char *output_dir_resume_source(const struct options *o)
{
    const char *from = o->resume_from_checkpoint;
    return !strcmp(from, "true") || !strcmp(from, "auto") ? o->output_dir : from;
}

bool output_dir_resume_auto(const struct options *o)
{
    return output_dir_resumes(o) && !strcmp(o->resume_from_checkpoint, "auto");
}

static bool lies_in(const char *path, const char *folder)
{
    size_t n = strlen(folder);
    return !strncmp(path, folder, n) && (path[n] == 0 || path[n] == '/');
}

/* Whether the checkpoint to resume lies in the output folder, so that its run goes on there. What is not there goes by its name. */
static bool goes_on_in_place(const struct options *o)
{
    char from[4096], out[4096];
    if (!realpath(output_dir_resume_source(o), from) || !realpath(o->output_dir, out))
        return output_dir_resume_auto(o) || lies_in(output_dir_resume_source(o), o->output_dir);
    return lies_in(from, out);
}

/* Before anything else is done: whether there is a checkpoint to resume. Which one, and whether its contents are right,
 * is seen when it is loaded. */
static int check_source(struct session *s, struct snug_err *err)
{
    struct ckpt_found found;
    if (!output_dir_resumes(s->o) || output_dir_resume_auto(s->o))
        return SNUG_OK;
    const char *from = output_dir_resume_source(s->o);
    int code = ckpt_find(s->io, from, CKPT_QUICK, (struct ckpt_notes){0}, &found, NULL);
    ckpt_found_free(&found);
    if (!code)
        return SNUG_OK;
    code = ckpt_find(s->io, from, CKPT_QUICK, session_notes(s), &found, err); /* again, for those who read */
    ckpt_found_free(&found);
    return code;
}

/* All files of data, which are mem_free's. */
static int data_paths(const struct options *o, const char ***paths, size_t *n, struct snug_err *err)
{
    const struct opt_paths *given[] = {&o->train_data, &o->eval_data};
    size_t most = o->train_data.n_more + o->eval_data.n_more + 2;
    *n = 0;
    *paths = mem_alloc(most * sizeof **paths);
    if (!*paths)
        return err_no_memory(err, most * sizeof **paths);
    for (size_t i = 0; i < 2; i++) {
        if (given[i]->first)
            (*paths)[(*n)++] = given[i]->first;
        for (size_t k = 0; k < given[i]->n_more; k++)
            (*paths)[(*n)++] = given[i]->more[k];
    }
    return SNUG_OK;
}

/* What the run will write beside its checkpoints may not be somebody's. */
static int check_files(struct session *s, const char *const *data, size_t n_data, struct snug_err *err)
{
    const struct options *o = s->o;
    struct whose_file files[MODEL_DIR_CARRIED + MODEL_DIR_MADE + 5] = {{LOG_NAME, FILE_LOG}};
    static const struct whose_file of_test[] = {{RATE_TEST_NAME, FILE_JSON}, {RATE_PICTURE_NAME, FILE_PICTURE}};
    bool goes_on = s->output_use == CKPT_RESUME && ckpt_dir_has_steps(&s->output);
    size_t n = 1;
    if (s->output_use == CKPT_RESUME && !goes_on && !o->overwrite_output_dir) /* auto, and it will start afresh */
        TRY(ckpt_dir_unused(&s->output, err));
    if (!o->discard_model) {
        for (size_t i = 0; i < s->dir.n_carried; i++)
            files[n++] = (struct whose_file){s->dir.carried[i], FILE_CARRIED};
        for (size_t i = 0; i < s->dir.n_made; i++)
            files[n++] = (struct whose_file){s->dir.made[i].name, FILE_RESULT};
        files[n++] = (struct whose_file){"config.json", FILE_RESULT};
        if (o->use_peft || o->adapter)
            files[n++] = (struct whose_file){"adapter_config.json", FILE_RESULT};
        files[n++] = (struct whose_file){o->use_peft || o->adapter ? "adapter_model.safetensors" : "model.safetensors",
                                         FILE_RESULT};
        files[n++] = (struct whose_file){RECORD_NAME, FILE_RECORD};
    }
    struct whose_folder f = {.io = s->output.io,
                             .path = o->output_dir,
                             .source = s->dir.path,
                             .never = data,
                             .n_never = n_data,
                             .model = !o->discard_model,
                             .goes_on = goes_on,
                             .overwrite = o->overwrite_output_dir};
    return o->lr_find ? whose_files_check(&f, of_test, 2, err) : whose_files_check(&f, files, n, err);
}

int output_dir_claim(struct session *s, struct snug_err *err)
{
    const struct options *o = s->o;
    if (s->opened_output)
        return SNUG_OK;
    s->output_use = o->lr_find                                     ? CKPT_OVERWRITE /* nothing is, but its own files */
                    : output_dir_resumes(o) && goes_on_in_place(o) ? CKPT_RESUME
                    : o->overwrite_output_dir                      ? CKPT_OVERWRITE
                                                                   : CKPT_FRESH;
    const char **data;
    size_t n;
    TRY(check_source(s, err));
    TRY(data_paths(o, &data, &n, err));
    int code = ckpt_dir_open(s->io, o->output_dir, s->output_use, o->model, data, n, session_notes(s), &s->output, err);
    s->opened_output = !code;
    if (!code)
        code = check_files(s, data, n, err);
    if (code == SNUG_ERR_IO)
        ckpt_folder_check(s->output.folder, err);
    if (code)
        output_dir_release(s);
    mem_free(data);
    return code;
}

static int64_t least(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* Checkpoints in the folder, at most, while one more is being written; `first`: the steps whose saves lie elsewhere.
 * Without a limit that is every save of the run; but how many evaluations will be better than all before
 * (--save-strategy best) nobody knows, and two are counted. */
static int64_t most_kept(const struct session *s, int64_t first)
{
    const struct options *o = s->o;
    int64_t total, per_epoch, limit = o->save_total_limit;
    train_steps(s, &total, &per_epoch);
    if (o->save_strategy == OPT_SAVE_BEST) /* the newest is the best */
        return least(train_evaluations(s, total) - 1, limit > 2 ? limit : 2);
    int64_t every = o->save_strategy == OPT_SAVE_EPOCH ? per_epoch : opt_steps_of(o->save_steps, total);
    int64_t saves = (total + every - 1) / every - first / every;
    bool best_besides = o->metric_for_best_model;
    return limit ? least(saves - 1, (limit > 2 ? limit : 2) + best_besides) : saves - 1;
}

/* Of a file with the state, or with the weights alone. */
static int disk_bytes(const struct session *s, bool only_weights, int64_t *bytes, struct snug_err *err)
{
    struct ckpt_tensor *tensors;
    size_t n;
    TRY(state_tensors(s, &s->run, only_weights, &tensors, &n, err));
    *bytes = ckpt_disk_bytes(tensors, n, 1 << 20);
    mem_free(tensors);
    return SNUG_OK;
}

/* Of what the result takes over from the base beside its weights. */
static int64_t carried_bytes(const struct session *s)
{
    int64_t elements = 0;
    for (size_t i = 0; i < s->dir.n_tensors && !s->adapter.wanted; i++)
        if (model_carries(&s->model, s->dir.tensors[i].tensor->name))
            elements += st_elements(s->dir.tensors[i].tensor);
    return dtype_bytes(s->compile.precision.pure ? DT_BF16 : DT_F32, elements);
}

int output_dir_ready(struct session *s, int64_t step, struct snug_err *err)
{
    const struct options *o = s->o;
    int64_t bytes, model = 0, first = s->output_use == CKPT_RESUME ? 0 : step;
    TRY(disk_bytes(s, o->save_only_model, &bytes, err));
    if (!o->discard_model)
        TRY(disk_bytes(s, true, &model, err));
    model += o->discard_model ? 0 : carried_bytes(s);
    TRY(ckpt_dir_need_bytes(&s->output, bytes, o->save_strategy == OPT_SAVE_NO ? -1 : most_kept(s, first), model, err));
    return s->output_use == CKPT_OVERWRITE ? ckpt_dir_clear(&s->output, err) : SNUG_OK;
}

void output_dir_release(struct session *s)
{
    if (s->opened_output)
        ckpt_dir_close(&s->output);
    s->opened_output = false;
}
