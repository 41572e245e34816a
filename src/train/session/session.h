/* session.h: a model, its data and its programs, opened by the options of one command; what train, eval, predict and
 * plan share.
 *     session_open     model folder, tokenizer, data, labels; compiled and planned; nothing of the model's size is in
 *                      memory
 *     session_alloc    the arena, once
 *     session_load     the weights, too
 *     session_close */
#ifndef TRAIN_SESSION_SESSION_H
#define TRAIN_SESSION_SESSION_H

#include "base/signals.h"
#include "checkpoint/checkpoint.h"
#include "data/chat_rows.h"
#include "data/dataset.h"
#include "data/files/row_stream.h"
#include "data/loader.h"
#include "data/questions/questions.h"
#include "options/gpus.h"
#include "options/options.h"
#include "ranks/ranks.h"
#include "run/weights.h"
#include "tokenizer/tokenizer.h"
#include "train/forecast/forecast.h"
#include "train/generate/beams.h"
#include "train/session/adapter.h"
#include "train/step.h"

/* What the session tells its caller; each may be NULL. Lines have no newline. */
struct session_events {
    void (*note)(void *ctx, const char *line);
    void (*dump)(void *ctx, const char *pass, const char *program, const char *text); /* graphs after each pass */
    void *ctx;
};

/* What generation begins with: prompt i is ids[begins[i]] … ids[begins[i + 1] - 1], and has one token at least. An encoder-decoder's are
 * sources: what the encoder reads, before its decoder begins. */
struct prompts {
    int32_t *ids;
    size_t ids_cap, *begins, begins_cap;
    int64_t *rows; /* (n) of the evaluation data that the prompts begin (prompts_of_data), else NULL */
    size_t rows_cap;
    size_t n;
    int64_t longest;
};

enum { LARGEST_MOST = 64 };

struct session {
    const struct io *io;
    const struct options *o;
    struct options settled; /* that o points to, of a rate search */
    struct session_events events;
    const struct stop_flag *stop; /* may be NULL */

    struct model_dir dir;
    struct model_config model;
    struct dataset_look look;              /* at the data that decide the task */
    bool head_is_new;                      /* the task's head begins with random weights: the folder has none for it, */
    bool head_replaced;                    /* or --ignore-mismatched-sizes replaces them */
    struct tokenizer *tokenizer;           /* NULL: the folder has none (data are token ids) */
    struct chat_template *chat_template;   /* the folder's, or --chat-template; NULL: none */
    struct chat_setup chat;                /* of a causal language model */
    struct label_map labels;               /* of the classifier; n 0 for other tasks */
    int32_t max_length, max_target_length; /* the latter: 0 where rows have no target */
    int32_t special_ids[TOKEN_SPECIALS];   /* what batches_masking points to */

    struct session_adapter adapter;
    struct hash128 base; /* of the weights that an adapter does not train */

    struct dataset train, data; /* data: --eval-data, or --data of eval and predict */
    bool has_train, has_data;
    float *class_weights;      /* (num_labels) of --class-weights; NULL: none */
    struct eval_loader *eval;  /* over data */
    struct row_stream *stream; /* prediction of texts: what is read instead of data, as it comes */
    struct dataset_options stream_data;
    struct question_options questions;
    struct prompts prompts;       /* of generation, */
    struct beam_settings beams;   /* and how it searches */
    int64_t row;                  /* within the stream's block: the one whose prediction the caller is being given, */
    int64_t row_words;            /* and its words, where a task gives each its own, */
    const char *row_text;         /* or the text that the model has written for it, */
    const struct answer *answers; /* (n_answers) or the answers to the question */
    int n_answers;
    struct {
        int64_t tokens;
        int32_t rows;
    } eval_most; /* of a batch of an evaluation */

    /* Micro-batches of so many rows have so many tokens at most, in training: for each way to cut a step. */
    struct {
        int64_t rows;
        struct token_count tokens;
    } largest[LARGEST_MOST];
    int n_largest;
    /* Resumed from a checkpoint before which steps had other rows, or may have had: the order is not known yet. */
    bool rows_moved;
    bool has_checkpoint; /* from which the run will be resumed */

    /* Of a run of several processes (train/session/processes/processes.h). */
    struct ranks *processes; /* NULL: there is this one */
    struct rank here;        /* which of them this is */
    bool follows;            /* it is not the first: it neither prints nor writes */
    bool stops;              /* all have agreed to stop */
    int beside, local;       /* processes on this machine, and which of them this is */
    int64_t room;            /* bytes that an arena may have on each of them */
    struct distant
        *distant; /* (here.n) what each of them has alone: train/session/processes/distant.h; NULL: there is this one */

    struct gpus gpus;                /* one for each rank */
    struct compile_settings compile; /* what was asked for */
    struct choices choices;          /* what fit_plan has chosen besides */
    struct fit_table *table;         /* of a plan for a budget (train/fit/table.h); NULL: none */
    struct recompute_set *recompute; /* that choices points to; NULL: none */
    /* Rows of a micro-batch and how many make a step: as asked, or as fit_plan cuts them. */
    int64_t micro_rows, micro_batches;
    /* What fit_plan began with. */
    struct {
        struct choices choices;
        int64_t rows, times;
    } asked;
    /* Which algorithms of the checkpoint to resume cannot be had here; code 0: none is missing. */
    struct snug_err refused;
    struct ckpt_memory memory; /* how checkpoints reach the arena of a device; ctx NULL for host memory */
    struct run run;
    struct stepper stepper;
    struct team *team;        /* the ranks beside this run; NULL: none, or not opened (train/team.h) */
    struct forecast forecast; /* of the run's time */
    json_t *option_changes;   /* of the run that was resumed, before and now: train/option_change.h */
    struct ckpt_dir output;   /* of a training run: train/output_dir.h */
    enum ckpt_use output_use;
    bool opened_dir, opened_stepper, opened_output;
    bool loading; /* a load has begun; where it is not `loaded`, it has failed */
    bool loaded;  /* the weights are in the arena, those of the model folder or what training made of them */
};

int session_open(struct session *s, const struct io *io, const struct options *o, bool own_loop,
                 struct session_events events, const struct stop_flag *stop, struct snug_err *err);
/* Allocates the arena; does nothing if it is there. Errors as session_load. */
int session_alloc(struct session *s, struct snug_err *err);
/* Allocates the arena and reads the weights; does nothing if they are there. SNUG_ERR_USAGE after a load that failed, and
 * after a save that was abandoned and still reads the arena: such a session cannot be used any more. */
int session_load(struct session *s, struct snug_err *err);
void session_close(struct session *s); /* also after a failure */

void session_note(const struct session *s, const char *format, ...) __attribute__((format(printf, 2, 3)));
void session_note_line(void *session, const char *line); /* the same, as a callback */
struct ckpt_notes session_notes(struct session *s);      /* the same for checkpoints */

#endif
