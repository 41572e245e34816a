/* questions.h: the rows of extractive question answering. A question stands beside a text, the context, and its answer is a stretch of
 * that. A context that is longer than a model takes becomes several rows, windows over it that overlap by doc_stride tokens, each
 * behind the question. */
#ifndef DATA_QUESTIONS_QUESTIONS_H
#define DATA_QUESTIONS_QUESTIONS_H

#include "data/dataset.h"
#include "tokenizer/tokenizer.h"

struct question {
    const char *id, *text, *context; /* id: NULL where the row has none */
    size_t context_bytes;
    const char *const *answers; /* (n_answers), any of which is right; none: the context has no answer */
    size_t n_answers;
    int64_t first_row, n_rows; /* its windows */
};

/* Bytes of the context. */
struct answer_place {
    uint32_t start, end;
};

/* A row of the dataset. */
struct context_window {
    int64_t question;
    int64_t places; /* the first of its `tokens` places */
    int32_t at;     /* the row's token that has the first of them */
    int32_t tokens; /* of the context */
};

struct questions {
    struct arena arena; /* of texts */
    struct question *list;
    int64_t n;
    struct context_window *windows; /* (rows) */
    struct answer_place *places;
    struct mapping mapped; /* where places are, if they are too many for memory */
    size_t list_cap, windows_cap, places_cap, n_places;
    bool unanswered; /* some question has no answer in its context */
};
void questions_free(struct questions *q); /* NULL is fine */

/* Where questions come from. */
struct question_options {
    int64_t doc_stride; /* -1: 128, or half of what the question leaves of a window where that is less */
    /* (n_texts) instead of a file: questions and their contexts */
    const char *const *texts, *const *contexts;
    size_t n_texts;
};

/* Reads all questions into a zeroed dataset: JSON Lines or a JSON array with question, context, answers and perhaps id, or SQuAD's own
 * nested files. Tokens that are too many for memory go to files in `dir` (NULL: nowhere), and with them their places; texts stay in memory.
 * `answers`: {"text", "answer_start"}, single or as lists, or a list of such; answer_start counts characters. For
 * TASK_SPAN every row needs them, and d->targets marks the first answer, or token 0 in windows where that is not whole. *content: of
 * the files. */
int questions_read(const struct io *io, const struct dataset_options *o, const char *dir, struct dataset *d,
                   struct hash128 *content, struct snug_err *err);

/* Whether the first row of a file is a question with a context and answers. */
bool questions_shown(const struct io *io, const char *path);

/* ---- What the logits say (answers.c). ---- */

struct answer {
    const char *text; /* in the context, not 0-terminated; "" for none */
    size_t bytes;
    double score, probability;
};
struct answer_settings {
    int most;          /* answers of a question */
    int64_t longest;   /* tokens of an answer */
    bool may_be_none;  /* as SQuAD 2: a question may have no answer in its context, */
    double none_above; /* which it is when that scores so much more than the best answer */
};
/* Answers of question i, the one that is given first, others by falling score: *n of them in out (settings->most + 1), from the logits
 * (n_tokens,2) of all rows of `d`. One at least: where there is no candidate, the text is "" and the probability 1. As
 * postprocess_qa_predictions of transformers' examples. */
int answers_find(const struct dataset *d, int64_t i, const double *logits, const struct answer_settings *settings,
                 struct answer *out, int *n, struct snug_err *err);

#endif
