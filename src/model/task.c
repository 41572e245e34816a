#include "model/task.h"

#define TASK_NAME(id, text) [id] = text,
const char *const model_task_names[MODEL_COUNT] = {[MODEL_AUTO] = "auto", MODEL_TASKS(TASK_NAME)};
const char *const model_problem_names[PROBLEM_COUNT] = {[PROBLEM_AUTO] = "auto", MODEL_PROBLEMS(TASK_NAME)};

const struct task model_tasks[MODEL_COUNT] = {
    [MODEL_SEQUENCE_CLASSIFICATION] = {.classes = true,
                                       .labels = TASK_AUTO,
                                       .peft = "SEQ_CLS",
                                       .peft_heads = "classifier,score",
                                       .pipeline = "text-classification"},
    [MODEL_MASKED_LM] =
        {.per_token = true, .tied = true, .labels = TASK_MASKED_LM, .metrics = METRICS_TOKENS, .pipeline = "fill-mask"},
    [MODEL_CAUSAL_LM] = {.per_token = true,
                         .tied = true,
                         .generates = true,
                         .converses = true,
                         .labels = TASK_CAUSAL_LM,
                         .metrics = METRICS_TOKENS,
                         .peft = "CAUSAL_LM",
                         .pipeline = "text-generation"},
    [MODEL_TOKEN_CLASSIFICATION] = {.per_token = true,
                                    .classes = true,
                                    .labels = TASK_TOKEN_CLASS,
                                    .metrics = METRICS_ENTITIES,
                                    .peft = "TOKEN_CLS",
                                    .peft_heads = "classifier,score",
                                    .pipeline = "token-classification"},
    [MODEL_QUESTION_ANSWERING] = {.per_token = true,
                                  .labels = TASK_SPAN,
                                  .metrics = METRICS_ANSWERS,
                                  .peft = "QUESTION_ANS",
                                  .peft_heads = "qa_outputs",
                                  .pipeline = "question-answering"},
    [MODEL_SEQ2SEQ_LM] = {.per_token = true,
                          .tied = true,
                          .generates = true,
                          .labels = TASK_SEQ2SEQ,
                          .metrics = METRICS_TOKENS,
                          .peft = "SEQ_2_SEQ_LM",
                          .pipeline = "text2text-generation"},
};

static const struct {
    enum data_task labels;
    enum metrics_kind metrics;
} problems[PROBLEM_COUNT] = {
    [PROBLEM_AUTO] = {TASK_AUTO, METRICS_SINGLE_LABEL},
    [PROBLEM_SINGLE_LABEL] = {TASK_CLASS, METRICS_SINGLE_LABEL},
    [PROBLEM_MULTI_LABEL] = {TASK_MULTI_LABEL, METRICS_MULTI_LABEL},
    [PROBLEM_REGRESSION] = {TASK_REGRESSION, METRICS_REGRESSION},
};

enum data_task task_labels(enum model_task task, enum problem problem)
{
    return model_tasks[task].labels == TASK_AUTO ? problems[problem].labels : model_tasks[task].labels;
}

enum metrics_kind task_metrics(enum model_task task, enum problem problem)
{
    return model_tasks[task].labels == TASK_AUTO ? problems[problem].metrics : model_tasks[task].metrics;
}

enum problem task_problem(enum data_task labels)
{
    for (int p = PROBLEM_AUTO + 1; p < PROBLEM_COUNT; p++)
        if (problems[p].labels == labels)
            return (enum problem)p;
    return PROBLEM_AUTO;
}
