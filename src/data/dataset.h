/* dataset.h: rows of token ids and their labels, in memory, or, when they are too many for it, in files that are mapped.
 *
 *     train.csv ─▶ table ─▶ tokenizer ─▶ struct dataset ─▶ loader ─▶ struct batch
 *
 * A dataset is read once, before the first step, and never changed: what happens to the file afterwards does not reach
 * the run. Tokens made from text are kept in a cache file (token_cache.h). */
#ifndef DATA_DATASET_H
#define DATA_DATASET_H

#include "base/files/scratch.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/stop.h"
#include "data/labels.h"
#include "model/task.h"

struct tokenizer;
struct chat_setup;
struct questions;
struct question_options;

enum { DATASET_IN_MEMORY = 64 << 20 };
enum { IGNORE_INDEX = -100 }; /* a target that does not count, as in PyTorch */

enum label_form {
    LABELS_NONE,
    LABELS_NAMES,   /* names of classes, or lists of them */
    LABELS_NUMBERS, /* ids of classes, or lists of them */
    LABELS_VECTORS, /* num_labels numbers per row */
};

/* Where arrays lie in files instead of memory: the token cache's, or one without a name for each. */
struct dataset_files {
    const struct io *io;
    char *dir;         /* the folder where more could be made */
    int64_t in_memory; /* bytes of tokens that would stay in memory */
    struct mapping maps[6];
    int n_maps; /* 0: there are none */
};

struct dataset {
    const char *path; /* dataset_options' own, for messages */
    enum data_task task;
    int64_t n_rows, n_tokens;
    int32_t longest;  /* tokens of the longest row; every row has at least one */
    int32_t max_id;   /* greatest id */
    int32_t max_type; /* greatest type */
    int64_t *offsets; /* (n_rows + 1): row r is ids[offsets[r]] up to ids[offsets[r + 1]] */
    int32_t *ids;     /* (n_tokens) */
    uint8_t *types;   /* (n_tokens), or NULL: all 0 */
    int32_t *classes; /* (n_rows), TASK_CLASS */
    float *values;    /* (n_rows, num_labels), TASK_REGRESSION and TASK_MULTI_LABEL */
    /* (n_tokens). Language models: the label of the same token, not shifted; or NULL. TASK_TOKEN_CLASS: the class of the word
     * whose first token it is, else IGNORE_INDEX. TASK_SPAN: 1 where the answer starts, 2 where it ends, 3 where both, else 0. */
    int32_t *targets;
    int32_t *words;     /* (n_tokens), rows of words without labels: which word's first token it is, else -1; or NULL */
    uint8_t *loss_mask; /* (n_tokens), causal language models: 1 where the token is learned; NULL: every one is */
    int32_t *sources;   /* (n_rows), TASK_SEQ2SEQ: a row begins with so many tokens of its source; its target follows */
    int32_t num_labels; /* 0 without labels per row or word */
    int32_t start_id;   /* TASK_SEQ2SEQ: what a decoder reads before the target's tokens; -1: the last of them */

    enum label_form label_form;  /* as written in the file */
    struct label_map labels;     /* names of the classes, when num_labels is not 0 */
    int64_t truncated;           /* rows cut at max_length */
    int64_t empty;               /* rows with an empty text */
    int64_t ignored;             /* rows that were left out for their label (ignore_label) */
    int64_t no_target;           /* rows that were left out because the mask leaves nothing to learn */
    struct hash128 fingerprint;  /* of content, columns, tokenizer, max_length and label map */
    struct questions *questions; /* questions/questions.h: what the rows are windows of; NULL: rows are no such */
    void *block;                 /* one piece of memory that owns the arrays, or NULL: each is its own, */
    struct dataset_files files;  /* or lies in one of these. They are not written to. */
};

struct dataset_options {
    const char *path;              /* .csv .tsv .json .jsonl .parquet .txt .safetensors, or "synthetic:ROWSxLENGTH" */
    const char *const *more_paths; /* (n_more_paths): tables of the same columns; their rows follow those of `path` */
    size_t n_more_paths;
    bool standard_input; /* tables, see row_stream.h: the rows come from there, and `path` is what messages call it */
    enum data_task task;
    const struct tokenizer *tokenizer; /* needed for text */
    int32_t max_length;                /* tokens of a row at most, special ones included; longer ones are cut */
    int32_t vocab_size;                /* ids of safetensors must lie below; synthetic ids are drawn below it */

    /* Text. A column left NULL is looked for under the usual names (columns.c). label_column "a,b,c": a column for each
     * label, of 0 and 1 for TASK_MULTI_LABEL, of numbers for TASK_REGRESSION. */
    const char *text_column, *text_pair_column, *label_column, *target_column;
    char delimiter; /* 0: a comma, in .tsv a tab */
    bool empty_is_error;

    bool sources; /* TASK_UNLABELED: a row is a source, without its target; source_prefix is for these too */
    bool words;   /* rows are words: of a list, or what stands between white space in a text */
    const struct chat_setup *chat; /* TASK_CAUSAL_LM: rows may be conversations (chat_rows.h); NULL: only texts */
    const struct question_options *questions; /* tables are questions and contexts; NULL: they are not */
    /* TASK_SEQ2SEQ: what stands before each source (NULL: nothing); tokens of a target at most, as max_length is of a source; what the
     * decoder begins with. */
    const char *source_prefix;
    int32_t max_target_length, start_id;
    int32_t block_size; /* TASK_CAUSAL_LM: texts are joined and cut into rows of so many tokens; 0: a text is a row */

    /* Labels. With `labels` (of the training data, or of the model) every label must be one of them; without, they are
     * made from the data. num_labels: how many there must be; 0: as many as the data have (synthetic: 2). */
    const struct label_map *labels;
    int32_t num_labels;
    const char *misfit; /* for messages: what to do about labels that are not the model's; NULL: the usual advice */
    const char *ignore_label; /* rows with this label (in any of the label columns) are left out; NULL: none */

    uint64_t seed;         /* synthetic */
    int threads;           /* for tokenizing; the result is the same for any number; 0: one per CPU */
    const char *cache_dir; /* as base/cache_dir.h wants it */
    int64_t
        in_memory; /* bytes of tokens of text that are kept in memory; more lie in the cache's file. 0: DATASET_IN_MEMORY */

    const struct stop_flag *stop; /* looked at while files are read and tokenized; NULL: never */

    /* Gets each thing worth saying once, as one line: the label map, empty and cut rows, a cache that was remade. */
    void (*note)(void *ctx, const char *line);
    void *note_ctx;
};

/* What labels the rows of a file have, from its header and the first row; no tokenizer is needed. */
struct dataset_look {
    enum data_task labels; /* TASK_UNLABELED: none; TASK_AUTO: of a kind that only reading shows */
    bool names;            /* the first label is a name, or begins with one */
    bool guessed;          /* the labels' column was found by a name that is not snug's own; reading says which it is */
    bool synthetic;        /* rows are made with whatever labels are asked for */
    char column[64];       /* that holds the labels, or several, perhaps cut; "" where there are none */
    char others[80]; /* names of the columns that are neither text nor labels, perhaps cut; "" where there are none */
};
int dataset_look(const struct io *io, const struct dataset_options *o, struct dataset_look *look, struct snug_err *err);

/* Whether the file has targets, of sources: a table with the columns of both, a safetensors file whose labels are rows of ids. */
bool dataset_has_targets(const struct io *io, const struct dataset_options *o);

/* Reads everything. dataset_close gives it back; after a failure nothing is left to close.
 * TASK_AUTO: in safetensors, labels (N) of integers are classes, (N) of floats regression, (N, K) multi-label; in text, classes,
 * or with several label columns multi-label.
 * SNUG_ERR_INPUT names file, line (or row, counted from 0) and value. SNUG_ERR_IO: reading fails, or the file changes meanwhile.
 * SNUG_STOPPED: `stop` was set. */
int dataset_open(const struct io *io, const struct dataset_options *o, struct dataset *d, struct snug_err *err);
void dataset_close(struct dataset *d);

/* Pages of files that were read go out of the process's memory. For whoever has gone through many rows. */
void dataset_release(const struct dataset *d);

/* What a checkpoint records, to find that the data are not those of the first part of the run. */
struct hash128 dataset_fingerprint(const struct dataset *d);

/* Tokens of its source; 0 where rows have none. */
static inline int32_t dataset_source(const struct dataset *d, int64_t row)
{
    return d->sources ? d->sources[row] : 0;
}

/* All of them. */
static inline int32_t dataset_length(const struct dataset *d, int64_t row)
{
    return (int32_t)(d->offsets[row + 1] - d->offsets[row]);
}

#endif
