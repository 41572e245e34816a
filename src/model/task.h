/* task.h: the table of tasks: what a model can be trained for, and what it then learns from.
 *
 * A new task is a word in MODEL_TASKS, a row in task.c, a head in the architectures that have it (struct model_head), and
 * its word in the rows OPT_NEEDS of the options that have an effect on it (options/table.h). Labels or metrics of a new
 * kind are an enumerator here, a reader in data/ and a list in metrics/table.c. */
#ifndef MODEL_TASK_H
#define MODEL_TASK_H

#include <stdbool.h>

/* ORDER model_task: the words of --task are these, behind "auto". */
#define MODEL_TASKS(W)                                                                                                 \
    W(MODEL_SEQUENCE_CLASSIFICATION, "sequence-classification")                                                        \
    W(MODEL_MASKED_LM, "masked-lm")                                                                                    \
    W(MODEL_CAUSAL_LM, "causal-lm")                                                                                    \
    W(MODEL_TOKEN_CLASSIFICATION, "token-classification")                                                              \
    W(MODEL_QUESTION_ANSWERING, "question-answering")                                                                  \
    W(MODEL_SEQ2SEQ_LM, "seq2seq-lm")

/* ORDER problem: what the labels of a sequence are; the words of --problem-type, and `problem_type` in config.json. The
 * public enum snug_problem has the same order. */
#define MODEL_PROBLEMS(W)                                                                                              \
    W(PROBLEM_SINGLE_LABEL, "single_label_classification")                                                             \
    W(PROBLEM_MULTI_LABEL, "multi_label_classification")                                                               \
    W(PROBLEM_REGRESSION, "regression")

#define TASK_ID(id, text) id,
enum model_task { MODEL_AUTO, MODEL_TASKS(TASK_ID) MODEL_COUNT };
enum problem { PROBLEM_AUTO, MODEL_PROBLEMS(TASK_ID) PROBLEM_COUNT };
#undef TASK_ID

extern const char *const model_task_names[MODEL_COUNT];
extern const char *const model_problem_names[PROBLEM_COUNT];

/* What data are read for. */
enum data_task {
    TASK_AUTO,        /* only asked for: a sequence task, of the kind that the labels show (see dataset_open) */
    TASK_UNLABELED,   /* labels are not read: prediction */
    TASK_CLASS,       /* one class per row */
    TASK_REGRESSION,  /* num_labels numbers per row */
    TASK_MULTI_LABEL, /* num_labels times yes (1) or no (0) per row */
    TASK_MASKED_LM,   /* a target per token; `targets` NULL: masked when batches are made */
    TASK_CAUSAL_LM,   /* the next token; `targets` NULL: the ids themselves */
    TASK_TOKEN_CLASS, /* one class per word of a row: `targets` has it at the word's first token */
    TASK_SEQ2SEQ,     /* the tokens of a target, of a row whose source an encoder reads */
    TASK_SPAN,        /* where a row's answer starts and ends: `targets` are the marks of op/span_loss.c */
};

enum metrics_kind {
    METRICS_SINGLE_LABEL,
    METRICS_MULTI_LABEL,
    METRICS_REGRESSION,
    METRICS_TOKENS,
    METRICS_ENTITIES, /* of tags: tokens, and the stretches of words that tags name */
    METRICS_ANSWERS,  /* of texts that answer questions */
    METRICS_TEXTS,    /* of tokens, and of the texts that are generated instead */
    METRICS_KINDS
};

struct task {
    /* The logits have a row for each token, with a target for each. Else they have one for each sequence, with its labels. */
    bool per_token;
    /* A language model: the logits (.,vocab_size) are products with the input's embeddings, or with such of their own. Else
     * they are (.,num_labels). */
    bool tied;
    bool classes;              /* the labels have names, which config.json knows */
    bool generates;            /* `snug generate` writes text, of prompts, */
    bool converses;            /* with which it goes on, and rows may be conversations */
    enum data_task labels;     /* TASK_AUTO: as the problem says, and so are the metrics */
    enum metrics_kind metrics; /* of what is evaluated */
    const char *peft;          /* PEFT's task_type, NULL where it has none; */
    const char *peft_heads; /* and the modules that it then trains whole, separated by commas: those that a model has */
    const char *pipeline;   /* the hub's word for it, of a model card */
};
extern const struct task model_tasks[MODEL_COUNT];

/* TASK_AUTO where a sequence task's problem is still open. */
enum data_task task_labels(enum model_task task, enum problem problem);
enum metrics_kind task_metrics(enum model_task task, enum problem problem);

/* The problem that labels of this kind pose, PROBLEM_AUTO for what are no labels of a sequence. */
enum problem task_problem(enum data_task labels);

#endif
