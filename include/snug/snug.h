/* snug.h: the public interface of libsnug, which fine-tunes Hugging Face transformers. C11 and C++17.
 *
 * The life of a run, in the order of this file:
 *
 *     snug_options    what is asked for, by the names of transformers' TrainingArguments
 *
 *     snug_session    the model, the tokenizer, the data; the programs of a step, compiled and planned: its memory is
 *                     known to the byte before anything of the model's size is allocated
 *
 *     a whole run     snug_train, snug_evaluate, snug_predict
 *
 *     an own loop     snug_load, then for each optimizer step snug_next, snug_forward_backward per micro-batch,
 *                     snug_update
 *
 *     snug_save       a Hugging Face folder
 *
 * Rules. A call that can fail returns enum snug_code and takes the caller's struct snug_err last (it may be NULL).
 * Nothing here prints, exits or aborts. A handle belongs to whoever made it, and is used by one thread at a time;
 * different handles are independent. Strings that are handed out through `char **` are given back with snug_free;
 * `const char *` results live as long as the handle. */
#ifndef SNUG_H
#define SNUG_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Errors. ---------------------------------------------------------------------------------------------------- */

/* What a caller can do about an error; the command uses the same numbers as exit codes. ORDER snug_code */
enum snug_code {
    SNUG_OK = 0,
    SNUG_ERR_USAGE = 2,      /* an option or argument: change the call */
    SNUG_ERR_INPUT = 3,      /* a model, tokenizer or data file: change the file */
    SNUG_ERR_ENV = 4,        /* environment, device or memory: free some, or ask for less */
    SNUG_ERR_IO = 5,         /* disk full, permission, read or write error, lock held */
    SNUG_ERR_CHECKPOINT = 6, /* checkpoint unusable, or device state lost */
    SNUG_ERR_NUMERIC = 7,    /* loss or gradient not finite */
    SNUG_ERR_PEER = 8,       /* another rank failed */
    SNUG_STOPPED = 75        /* asked to stop; training that had begun is saved: resume */
};

#define SNUG_ERR_TEXT 241

/* `text` is one line of valid UTF-8: what is wrong, where, with the value, and what to do. */
struct snug_err {
    int code;
    char text[SNUG_ERR_TEXT];
};

/* ---- The process. ----------------------------------------------------------------------------------------------- */

const char *snug_version(void); /* "0.1.0" */
void snug_free(void *p);        /* strings that the library handed out; NULL is fine */

/* The allocator behind libsnug's own structures, texts, tables and buffers; NULL restores the C library's. Before any
 * other call. Not from it come the arena, whose pages are the system's or the device's, and what the libraries that are
 * used (jansson, CUDA's) allocate for themselves. */
struct snug_allocator {
    void *(*realloc)(void *ctx, void *p, size_t bytes); /* p NULL allocates; a NULL result means: no memory */
    void (*free)(void *ctx, void *p);
    void *ctx;
};
void snug_set_allocator(const struct snug_allocator *a);

/* ---- Options. --------------------------------------------------------------------------------------------------- */

typedef struct snug_options snug_options;

/* The options of a command, "train", "eval", "predict", "plan" or "generate", with their defaults: docs/options.md. SNUG_ERR_USAGE:
 * no such command. */
int snug_options_new(const char *command, snug_options **out, struct snug_err *err);

/* One option, named with underscores or hyphens; `value` is written as on the command line ("2e-5", "true", "8GiB").
 * Older spellings are understood. SNUG_ERR_USAGE names the option, the value and what is possible. */
int snug_options_set(snug_options *o, const char *name, const char *value, struct snug_err *err);

/* A file of options, a JSON object or YAML, such as a saved TrainingArguments. */
int snug_options_read(snug_options *o, const char *path, struct snug_err *err);

void snug_options_free(snug_options *o); /* NULL is fine; not before the session that was opened with them is closed */

/* ---- Being asked to stop. --------------------------------------------------------------------------------------- */

typedef struct snug_stop snug_stop;

int snug_stop_new(snug_stop **out, struct snug_err *err);
/* Asks: a run ends after its step, with its state saved and SNUG_STOPPED; asked twice for the same signal, it abandons
 * even the save. Safe in a signal handler and from any thread. */
void snug_stop_ask(snug_stop *s, int signal_number);
/* Handlers of this process for SIGTERM, SIGINT, SIGUSR1 and SIGHUP that ask; SIGPIPE and SIGXFSZ are ignored. A signal
 * that is repeated within a second of its first asks once: launchers signal a process and its group. One at a time. */
int snug_stop_on_signals(snug_stop *s, struct snug_err *err);
int snug_stop_exit_code(const snug_stop *s); /* 0, SNUG_STOPPED, or 128 + the number of the signal that came twice */
void snug_stop_free(snug_stop *s);           /* puts the handlers back that were there; NULL is fine */

/* ---- Sessions. -------------------------------------------------------------------------------------------------- */

/* Where a training run stands. Rates are of this process so far, without evaluations; tokens are real ones, there is no
 * padding. */
struct snug_progress {
    int64_t step, steps;
    double epoch, epochs;
    double loss, grad_norm, learning_rate;
    double seconds, seconds_left;
    double samples_per_second, tokens_per_second;
    int64_t memory_bytes; /* resident; on a GPU in use on the whole device, as NVML says */
};

/* What a session tells; every member may be NULL. Lines have no newline at their end, but for `logged`. */
struct snug_events {
    /* What is worth knowing, one line. Of a checkpoint that is written meanwhile it comes from another thread than the rest. */
    void (*note)(void *ctx, const char *line);
    void (*started)(void *ctx); /* training: all checks are passed, the first step follows */
    void (*progress)(void *ctx, const struct snug_progress *p);                       /* after each step */
    void (*logged)(void *ctx, const char *json_line);                                 /* what went into log.jsonl */
    void (*dump)(void *ctx, const char *pass, const char *program, const char *text); /* programs after each pass */
    void *ctx;
    snug_stop *stop; /* borrowed */
};

enum snug_use {
    SNUG_WHOLE_RUNS, /* snug_train, snug_evaluate, snug_predict */
    SNUG_OWN_LOOP    /* the parts of a step one by one; gradients stay between them, in F32 */
};

typedef struct snug_session snug_session;

/* Reads config.json, the headers of the weights, the tokenizer and the data, and compiles and plans the programs.
 * For whole runs of "train" the output folder is taken first. `events` may be NULL and is copied. The options are
 * borrowed. */
int snug_open(snug_options *o, enum snug_use use, const struct snug_events *events, snug_session **out,
              struct snug_err *err);
void snug_close(snug_session *s); /* NULL is fine */

/* ---- The plan. -------------------------------------------------------------------------------------------------- */

int64_t snug_peak_bytes(const snug_session *s);        /* of the arena: exactly what will be allocated for the run */
int64_t snug_lower_bound_bytes(const snug_session *s); /* no packing can have less */
int64_t snug_weights(const snug_session *s);           /* parameters of the model */
/* Model, device, batch, memory and time, in whole lines of "name     text": sizes have three digits. */
int snug_plan_summary(const snug_session *s, char **text, struct snug_err *err);
/* The peak by component and layer, a table of 60 columns; its last line has the exact bytes. */
int snug_plan_text(const snug_session *s, char **text, struct snug_err *err);
int snug_plan_json(const snug_session *s, char **text, struct snug_err *err); /* both as one JSON object, in bytes */

/* What holds memory at the peak, in full: each layer's weights, states, gradients and activations, and all that holds something. */
int snug_plan_anatomy(const snug_session *s, char **text, struct snug_err *err);
/* Memory over the nodes of the programs, stacked by what it is for: SVG that needs no other file. */
int snug_plan_picture(const snug_session *s, char **svg, struct snug_err *err);

/* How long the training will take, reading the model and writing checkpoints left out. */
struct snug_forecast {
    double step_seconds; /* of an optimizer step on rows of the data's mean length; 0: not known, and then all are */
    double exchange_seconds; /* of these, in which GPUs exchange gradients and weights, by their data sheet */
    int64_t exchange_bytes;  /* that the busiest of them gets, and sends; 0 for one rank */
    double samples_per_second, tokens_per_second; /* while training */
    double evaluation_seconds;                    /* of one */
    int64_t steps, evaluations;                   /* 0 without training data */
    double run_seconds;
    int measured;  /* 1: the steps were measured on this device; 0: estimated from single operations */
    int disturbed; /* 1: estimated while other programs had the processors: a guess */
};
struct snug_forecast snug_forecast(const snug_session *s);

/* ---- Whole runs. ------------------------------------------------------------------------------------------------ */

struct snug_summary {
    int64_t first_step, steps; /* of this process; steps 0: the run was complete before */
    double seconds, samples_per_second, tokens_per_second;
    double first_step_seconds; /* from the call to the end of its first step */
    double data_wait_seconds;  /* of `seconds`, in which the device waited for a step's data */
    int64_t memory_bytes;      /* at the end: resident; on a GPU in use on the whole device, as NVML says */
    int64_t log_lines_missing; /* that could not be written to log.jsonl */
    int64_t host_bytes;        /* of optimizer states and weights in the host's memory; 0: they are on the device */
    int64_t disk_bytes;        /* of optimizer states in a file; 0: they are in memory */
    int64_t checkpoint_bytes;  /* the copy that was written to disk, in the host's memory; 0 without checkpoints */
    /* Of a GPU's memory_bytes; the rest are the arena and CUDA's context, kernels and libraries. */
    int gpu;                 /* 0: there is none, and what follows is 0 */
    int64_t before_bytes;    /* in use before this process began */
    int64_t connected_bytes; /* NCCL's connections with the GPUs of other processes */
    int64_t graphs_bytes;    /* CUDA graphs, */
    int graphs;              /* how many, */
    double graphs_seconds;   /* and how long it took to make them */
    /* Of a test of rates (option lr_find), which is not a run: it leaves lr_find.svg and lr_find.json in the output folder. */
    double suggested_rate, highest_rate; /* the rate to train with, and the highest that was tried; 0: none */
    int diverged;                        /* 1: it ended there, since the loss had grown too much */
    int exported; /* 1: the output folder is now a Hugging Face folder; 0: discarded, or it had gone further */
};

/* Trains as the options say, from the first step or a checkpoint; evaluates, logs and saves; the output folder becomes
 * a Hugging Face folder. SNUG_STOPPED: asked to stop; the state is saved, or nothing was done yet.
 * A session trains once: a second call is SNUG_ERR_USAGE, also when the first failed. Afterwards snug_evaluate,
 * snug_predict and snug_save are of the trained weights (with load_best_model_at_end, of the best). */
int snug_train(snug_session *s, struct snug_summary *out, struct snug_err *err);

/* Loss and metrics of the session's weights over the evaluation data: `metric` is called with each name ("loss",
 * "accuracy", "macro_f1" …) and value, NaN where it is not defined. docs/metrics.md has the formulas. */
int snug_evaluate(snug_session *s, void (*metric)(void *ctx, const char *name, double value), void *ctx,
                  struct snug_err *err);

/* Of the last snug_evaluate (SNUG_ERR_USAGE without one): the same for a single class, label, output of a regression or type of
 * entity, with 0 <= id < snug_evaluated_labels ("precision", "recall", "f1", "support" …). snug_evaluated_name: what it is
 * called; NULL where it has no name. */
int64_t snug_evaluated_labels(const snug_session *s);
const char *snug_evaluated_name(const snug_session *s, int64_t id);
int snug_evaluated_label(const snug_session *s, int64_t id, void (*metric)(void *ctx, const char *name, double value),
                         void *ctx, struct snug_err *err);

/* Likewise the confusion matrix of single-label classification: `cell` is called for each pair of classes that has rows,
 * in the order of the classes. */
int snug_evaluated_confusions(const snug_session *s,
                              void (*cell)(void *ctx, int64_t actual, int64_t predicted, int64_t rows), void *ctx,
                              struct snug_err *err);

/* Calls `row` for every row of the data, in their order, with one value per label: probabilities, or the numbers that a
 * regression predicts. Texts are read meanwhile, in constant memory; of a pipe (data "-") a row is told before the next is
 * waited for. When `row` returns anything but SNUG_OK, that ends the prediction and is returned, `err` left as it is.
 * Of token classification there are snug_words rows of values, one for each word of the row; NaN for a word that was cut away, or
 * that the tokenizer makes no token of. Of an encoder-decoder there is a text (snug_text) and no value.
 * SNUG_ERR_USAGE for other language models. */
int snug_predict(snug_session *s, int (*row)(void *ctx, int64_t index, const double *values), void *ctx,
                 struct snug_err *err);

/* What generation has come to. */
struct snug_piece {
    int64_t prompt;   /* which, from 0 */
    const char *text; /* (text_bytes) what is new of its text, in UTF-8 */
    size_t text_bytes;
    const int32_t *ids; /* (n_ids) all tokens that were generated so far, the end token too */
    int64_t n_ids;
    int ended, stopped; /* nothing follows; and that is because the model ended it */
};

/* Goes on with every prompt of options "prompt", "chat" or "data" of command "generate", several at once. `piece` is called as
 * texts grow, of one prompt after another, in their order. When it returns anything but SNUG_OK, that ends the generation and is
 * returned, `err` left as it is. The arrays of a piece are valid until `piece` returns. */
int snug_generate(snug_session *s, int (*piece)(void *ctx, const struct snug_piece *p), void *ctx,
                  struct snug_err *err);

/* The columns of the data that are predicted, 0 where they are no table; and, within `row`, what its row has in them.
 * snug_row_json: the row as it was, where the data are JSON, else NULL. */
int snug_columns(const snug_session *s);
const char *snug_column(const snug_session *s, int column);
const char *snug_cell(const snug_session *s, int column);
const char *snug_row_json(const snug_session *s);

/* Within `row` of token classification: the words of the row, and their text, NULL where the data are token ids. Of other tasks
 * snug_words is -1. */
int64_t snug_words(const snug_session *s);
const char *snug_word(const snug_session *s, int64_t word);

/* Within `row` of an encoder-decoder, whose values are NULL: the text that it has written, up to a 0 byte. NULL for other
 * tasks. */
const char *snug_text(const snug_session *s);

enum snug_problem { SNUG_SINGLE_LABEL = 1, SNUG_MULTI_LABEL = 2, SNUG_REGRESSION = 3 };
enum snug_problem snug_problem_type(const snug_session *s);
int64_t snug_num_labels(const snug_session *s);
const char *snug_label(const snug_session *s, int64_t id); /* its name; NULL when out of range */
/* Within `row` of snug_predict, of question answering: how many answers the row's question has, of which the first is given; -1 for
 * other tasks. Answer i, of which `text` has `bytes` bytes and no 0 behind them; none are that there is no answer. Texts and the
 * question, and its id in the data or NULL, are valid until `row` returns. */
struct snug_answer {
    const char *text;
    size_t bytes;
    double probability;
};
int snug_answers(const snug_session *s);
struct snug_answer snug_answer(const snug_session *s, int i);
const char *snug_question(const snug_session *s);
const char *snug_question_id(const snug_session *s);

int64_t snug_rows(const snug_session *s); /* of the evaluation or prediction data; 0 where they are read as they come */

/* ---- An own loop (SNUG_OWN_LOOP). ------------------------------------------------------------------------------- */

/* Allocates the arena and reads the weights (whole runs do it themselves). */
int snug_load(snug_session *s, struct snug_err *err);

/* One optimizer step's data. */
struct snug_window {
    int64_t step, steps;     /* done before this one; of the whole run */
    int64_t epoch;           /* from 0 */
    int n_micro;             /* micro-batches to accumulate over; 0: the run is over */
    int64_t samples, tokens; /* of all of them */
    double learning_rate;    /* what the schedule says for this step */
};
int snug_next(snug_session *s, struct snug_window *w, struct snug_err *err);

/* Forward and backward pass of micro-batch `i` of the window, each once, in order, from 0 (else SNUG_ERR_USAGE); its
 * gradients are added to those before it. *loss is its share of the window's mean loss: the shares add up. */
int snug_forward_backward(snug_session *s, int i, double *loss, struct snug_err *err);

/* Clips and updates, once all micro-batches of the window are done (else SNUG_ERR_USAGE), and uses the window up.
 * *grad_norm (may be NULL): before clipping. When it is not finite, no weight has changed, and the code is
 * SNUG_ERR_NUMERIC; but in fp16 that is how the scale of the loss is found, and the code is SNUG_OK as long as the
 * window's loss is finite. The update was skipped then, and the next window has half the scale. */
int snug_update(snug_session *s, double learning_rate, double *grad_norm, struct snug_err *err);

/* ---- Results. --------------------------------------------------------------------------------------------------- */

/* Writes the weights, config.json and tokenizer files into `dir` (made if missing): a Hugging Face folder. */
int snug_save(snug_session *s, const char *dir, struct snug_err *err);

#ifdef __cplusplus
}
#endif
#endif
