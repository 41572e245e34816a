#include "model/build.h"

/* In the order in which messages list them. */
/* clang-format off */
#define ARCHS(A)                                                                                                       \
    A(albert)                                                                                                          \
    A(arcee)                                                                                                           \
    A(bart)                                                                                                            \
    A(bert)                                                                                                            \
    A(bloom)                                                                                                           \
    A(camembert)                                                                                                       \
    A(cohere)                                                                                                          \
    A(cohere2)                                                                                                         \
    A(data2vec_text)                                                                                                   \
    A(deberta)                                                                                                         \
    A(deberta_v2)                                                                                                      \
    A(distilbert)                                                                                                      \
    A(electra)                                                                                                         \
    A(ernie)                                                                                                           \
    A(ernie4_5)                                                                                                        \
    A(esm)                                                                                                             \
    A(eurobert)                                                                                                        \
    A(exaone4)                                                                                                         \
    A(falcon)                                                                                                          \
    A(gemma)                                                                                                           \
    A(gemma2)                                                                                                          \
    A(gemma3)                                                                                                          \
    A(gemma3_text)                                                                                                     \
    A(glm)                                                                                                             \
    A(glm4)                                                                                                            \
    A(gpt2)                                                                                                            \
    A(gpt_bigcode)                                                                                                     \
    A(gpt_neo)                                                                                                         \
    A(gpt_neox)                                                                                                        \
    A(gpt_oss)                                                                                                         \
    A(gptj)                                                                                                            \
    A(granite)                                                                                                         \
    A(granitemoe)                                                                                                      \
    A(granitemoeshared)                                                                                                \
    A(hunyuan_v1_dense)                                                                                                \
    A(lfm2)                                                                                                            \
    A(llama)                                                                                                           \
    A(m2m_100)                                                                                                         \
    A(marian)                                                                                                          \
    A(mbart)                                                                                                           \
    A(megatron_bert)                                                                                                   \
    A(ministral)                                                                                                       \
    A(mistral)                                                                                                         \
    A(mixtral)                                                                                                         \
    A(modernbert)                                                                                                      \
    A(mpnet)                                                                                                           \
    A(mt5)                                                                                                             \
    A(nemotron)                                                                                                        \
    A(nomic_bert)                                                                                                      \
    A(olmo)                                                                                                            \
    A(olmo2)                                                                                                           \
    A(olmo3)                                                                                                           \
    A(olmoe)                                                                                                           \
    A(opt)                                                                                                             \
    A(pegasus)                                                                                                         \
    A(phi)                                                                                                             \
    A(phi3)                                                                                                            \
    A(qwen2)                                                                                                           \
    A(qwen3)                                                                                                           \
    A(qwen2_moe)                                                                                                       \
    A(qwen3_moe)                                                                                                       \
    A(roberta)                                                                                                         \
    A(roberta_prelayernorm)                                                                                            \
    A(seed_oss)                                                                                                        \
    A(smollm3)                                                                                                         \
    A(stablelm)                                                                                                        \
    A(starcoder2)                                                                                                      \
    A(t5)                                                                                                              \
    A(xlm_roberta)                                                                                                     \
    A(xlm_roberta_xl)
/* clang-format on */
#define DECLARE(name) extern const struct model_arch arch_##name;
#define ROW(name) &arch_##name,
ARCHS(DECLARE)
const struct model_arch *const model_archs[] = {ARCHS(ROW) NULL};

const struct task *model_task(const struct model_config *c)
{
    return &model_tasks[c->task];
}

const char *model_class(const struct model_config *c)
{
    return c->arch->heads[c->task].class_name;
}

bool model_has_task(const struct model_config *c, enum model_task task)
{
    return c->arch->heads[task].class_name != NULL;
}

bool model_needs_tied(const struct model_arch *a, enum model_task task)
{
    return a->heads[task].class_name && model_tasks[task].tied && !a->heads[task].untied;
}

bool model_reads_twice(const struct model_config *c)
{
    return c->stack_layers && !model_task(c)->per_token;
}

int model_set_task(struct model_config *c, enum model_task task, const char *path, struct snug_err *err)
{
    c->task = task;
    if (!model_class(c))
        return err_set(err, SNUG_ERR_USAGE, "--task %s: not there for %s models; leave it out", model_task_names[task],
                       c->arch->model_type);
    if (c->untied && model_needs_tied(c->arch, task))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: tie_word_embeddings is false and not supported; use a model that has it true", path);
    if (model_tasks[task].labels == TASK_SPAN)
        c->num_labels = 2; /* start and end */
    return SNUG_OK;
}

/* ---- building ---- */

const char *const rotary_inputs[ROTARY_KINDS] = {"rotary_frequencies", "window_rotary_frequencies"};

static int add_input(struct graph *g, const char *name, enum dtype dtype, int ndim, const struct dim *shape)
{
    return graph_add_value(g, name, ROLE_INPUT, dtype, ndim, shape);
}

static void add_inputs(struct graph *g, const struct model_config *c, struct inputs *in)
{
    const struct dim b1 = {.times.B = 1, .c = 1};
    *in = (struct inputs){
        .ids = add_input(g, "input_ids", DT_I32, SHAPE(DIM_T)),
        .positions = add_input(g, "positions", DT_I32, SHAPE(DIM_T)),
        .types = c->type_vocab_size ? add_input(g, "token_type_ids", DT_I32, SHAPE(DIM_T)) : 0,
        .tasks = c->task_vocab_size ? add_input(g, "task_type_ids", DT_I32, SHAPE(DIM_T)) : 0,
        .cu_seqlens = add_input(g, "cu_seqlens", DT_I32, SHAPE(b1)),
        .coords = add_input(g, "coords", DT_I32, SHAPE(DIM_T, DIM(2))),
        .samples = add_input(g, "samples", DT_I32, SHAPE(DIM_B, DIM(2))),
        .rng = add_input(g, "rng", DT_I32, SHAPE(DIM(4))),
        .step = add_input(g, "step", DT_F64, SHAPE(DIM(STEP_SCALARS))),
    };
    for (int i = 0; i < ROTARY_KINDS; i++)
        if (c->rotary[i].pairs)
            in->rotary[i] = add_input(g, rotary_inputs[i], DT_F64, SHAPE(DIM(c->rotary[i].pairs)));
    if (model_task(c)->labels == TASK_SEQ2SEQ) {
        in->source_ids = add_input(g, "source_ids", DT_I32, SHAPE(DIM_S));
        in->source_positions = add_input(g, "source_positions", DT_I32, SHAPE(DIM_S));
        in->source_cu_seqlens = add_input(g, "source_cu_seqlens", DT_I32, SHAPE(b1));
        in->source_coords = add_input(g, "source_coords", DT_I32, SHAPE(DIM_S, DIM(2)));
    }
    if (model_reads_twice(c)) {
        in->source_ids = in->ids, in->source_positions = in->positions;
        in->source_cu_seqlens = in->cu_seqlens, in->source_coords = in->coords;
        in->ids = add_input(g, "shifted_ids", DT_I32, SHAPE(DIM_T));
        in->ends = add_input(g, "ends", DT_I32, SHAPE(b1));
    }
    if (c->relative.rows) {
        in->relative_rows = add_input(g, "relative_rows", DT_I32, SHAPE(DIM(2 * c->longest - 1)));
        in->relative_coords = add_input(g, "relative_coords", DT_I32, SHAPE(DIM(c->relative.rows), DIM(2)));
    }
    if (model_task(c)->per_token)
        in->labels = add_input(g, "labels", DT_I32, SHAPE(DIM_T));
    else if (c->problem == PROBLEM_SINGLE_LABEL)
        in->labels = add_input(g, "labels", DT_I32, SHAPE(DIM_B));
    else
        in->labels = add_input(g, "labels", DT_F32, SHAPE(DIM_B, DIM(c->num_labels)));
}

/* The loss that the task and the problem ask for. */
static int add_loss(struct build *b, int logits)
{
    const struct build_settings *s = &b->settings;
    int weights = s->class_weights ? add_input(b->g, "class_weights", DT_F32, SHAPE(DIM(b->c->num_labels))) : 0;
    enum data_task labels = task_labels(b->c->task, b->c->problem);
    if (labels == TASK_REGRESSION) {
        struct op_mse n = {.logits = logits, .labels = b->in.labels, .step = b->in.step};
        emit_mse(b->g, &n);
        return n.loss;
    }
    if (labels == TASK_MULTI_LABEL) {
        struct op_bce n = {.logits = logits, .labels = b->in.labels, .step = b->in.step, .weights = weights};
        emit_bce(b->g, &n);
        return n.loss;
    }
    if (labels == TASK_SPAN) {
        struct op_span_loss n = {.logits = logits, .spans = b->in.labels, .cu = b->in.cu_seqlens, .step = b->in.step};
        emit_span_loss(b->g, &n);
        return n.loss;
    }
    struct op_cross_entropy n = {.logits = logits,
                                 .labels = b->in.labels,
                                 .step = b->in.step,
                                 .weights = weights,
                                 .more = b->more,
                                 .smoothing = s->smoothing};
    emit_cross_entropy(b->g, &n);
    return n.loss;
}

static int add_predictions(struct build *b, int logits)
{
    struct op_argmax n = {.logits = logits, .labels = b->in.labels};
    emit_argmax(b->g, &n);
    return n.best;
}

static void give(struct graph *g, int id, const char *name, bool wanted)
{
    if (g->err.code)
        return;
    graph_set_name(g, id, name);
    graph_value(g, id)->live_out = wanted;
}

int model_build(const struct model_config *c, struct build_settings settings, struct graph *g, struct built *out,
                struct snug_err *err)
{
    if (!model_class(c))
        return err_set(err, SNUG_ERR_USAGE, "--task %s: not there for %s models", model_task_names[c->task],
                       c->arch->model_type);
    bool training = settings.mode == BUILD_TRAIN;
    /* An evaluation's loss is smoothed as that of training is, but its classes weigh the same. */
    struct build_settings evaluation = {
        .mode = settings.mode, .longest = settings.longest, .smoothing = settings.smoothing};
    struct build b = {.g = g,
                      .c = c,
                      .settings = training ? settings : evaluation,
                      .normal = {.kind = INIT_NORMAL, .std = c->init_std, .zero_row = -1},
                      .zero = {.kind = INIT_ZERO, .zero_row = -1}};
    add_inputs(g, c, &b.in);
    int v = c->arch->body(&b);
    if (settings.mode == BUILD_EMBED) {
        *out = (struct built){.logits = v};
        give(g, v, "last_hidden_state", true);
        TRY(graph_ok(g, err));
        return graph_check(g, "build", err);
    }
    g->layer = (int)c->layers + 1;
    if (settings.mode == BUILD_GENERATE)
        v = build_last_rows(&b, v);
    *out = (struct built){.logits = c->arch->heads[c->task].logits(&b, v)};
    if (settings.mode == BUILD_GENERATE) {
        give(g, out->logits, "logits", true);
        TRY(graph_ok(g, err));
        return graph_check(g, "build", err);
    }
    out->loss = add_loss(&b, out->logits);
    bool words = !training && model_task(c)->tied;
    give(g, out->logits, "logits", !words);
    give(g, out->loss, "loss", true);
    if (b.expert_shares)
        give(g, b.expert_shares, "expert_shares", true);
    if (words)
        give(g, add_predictions(&b, out->logits), "predictions", true);
    TRY(graph_ok(g, err));
    return graph_check(g, "build", err);
}
