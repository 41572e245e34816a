/* options.h: what the user asks for. table.h has one row for every option; from it come struct options below,
 * the command line, --help, the keys of --config files, docs/options.md and what a checkpoint records.
 *
 *     struct options o;
 *     options_init(&o, CMD_TRAIN);
 *     code = options_parse(&o, &io_posix, argc, argv, &args, err);     the command line, and the --config file it names
 *     code = options_set(&o, "learning_rate", "1e-4", err);            or one by one, as a library
 *     code = options_check(&o, err);                                   what must be given, what excludes what
 *     ... o.learning_rate ...
 *     options_free(&o);
 *
 * Every refusal is SNUG_ERR_USAGE with one line naming the option, the value and what is possible. Numbers are read
 * whole, in the C locale, and checked against their range. */
#ifndef OPTIONS_OPTIONS_H
#define OPTIONS_OPTIONS_H

#include "backend/backend.h"
#include "data/files/format.h"
#include "data/order.h"
#include "model/task.h"
#include "pass/pass.h"

#include <jansson.h>

/* The commands that take options. */
enum command_bit {
    CMD_TRAIN = 1 << 0,
    CMD_EVAL = 1 << 1,
    CMD_PREDICT = 1 << 2,
    CMD_PLAN = 1 << 3,
    CMD_BENCH = 1 << 4,
    CMD_INFO = 1 << 5,
    CMD_INSPECT = 1 << 6,
    CMD_TOKENIZE = 1 << 7,
    CMD_DEBUG_JSON = 1 << 8,
    CMD_DEBUG_DATA = 1 << 9,
    CMD_DEBUG_GRAD = 1 << 10,
    CMD_DEBUG_OPTIM = 1 << 11,
    CMD_DEBUG_DOCS = 1 << 12,
    CMD_EXPORT = 1 << 13,
    CMD_GENERATE = 1 << 14,
    CMD_MERGE = 1 << 15,
    CMD_REPORT = 1 << 16,
    CMD_COMPARE = 1 << 17,
};
enum { N_COMMANDS = 18 };
const char *command_name(unsigned bit); /* "train", "debug grad", … */

/* The words of WORD options: the enumerator is the member's value, the text is what is typed. First those whose list
 * belongs to what does it: the member's value is an enum model_task, problem, order_kind, … */
#define WORDS_TASK(W) W(MODEL_AUTO, "auto") MODEL_TASKS(W)
#define WORDS_PROBLEM(W) W(PROBLEM_AUTO, "auto") MODEL_PROBLEMS(W)
#define WORDS_SAMPLING ORDERS
#define WORD_OF_OPTIM(W, id, word, update, bits) W(id, word)
#define WORDS_OPTIM(W) OPTIMIZERS(WORD_OF_OPTIM, W)
#define WORDS_MUON_RATE MUON_RATES
#define WORDS_QUANT_TYPE QUANT_TYPES
#define WORDS_DEVICE BACKENDS
#define WORDS_FORMAT TABLE_FORMATS

#define WORDS_UTF8(W) W(UTF8_ERROR, "error") W(UTF8_REPLACE, "replace")
#define WORDS_EMPTY(W) W(EMPTY_KEEP, "keep") W(EMPTY_ERROR, "error")
#define WORDS_NAN_POLICY(W) W(NAN_STOP, "stop") W(NAN_SKIP, "skip")
#define WORDS_SCHEDULE(W)                                                                                              \
    W(SCHEDULE_LINEAR, "linear")                                                                                       \
    W(SCHEDULE_COSINE, "cosine")                                                                                       \
    W(SCHEDULE_COSINE_WITH_RESTARTS, "cosine_with_restarts")                                                           \
    W(SCHEDULE_POLYNOMIAL, "polynomial")                                                                               \
    W(SCHEDULE_CONSTANT, "constant")                                                                                   \
    W(SCHEDULE_CONSTANT_WITH_WARMUP, "constant_with_warmup")                                                           \
    W(SCHEDULE_INVERSE_SQRT, "inverse_sqrt")                                                                           \
    W(SCHEDULE_REDUCE_ON_PLATEAU, "reduce_lr_on_plateau")                                                              \
    W(SCHEDULE_COSINE_WITH_MIN_LR, "cosine_with_min_lr")                                                               \
    W(SCHEDULE_COSINE_WARMUP_WITH_MIN_LR, "cosine_warmup_with_min_lr")                                                 \
    W(SCHEDULE_WARMUP_STABLE_DECAY, "warmup_stable_decay")                                                             \
    W(SCHEDULE_GREEDY, "greedy")
#define WORDS_RAMP(W) W(RAMP_LINEAR, "linear") W(RAMP_COSINE, "cosine") W(RAMP_1_SQRT, "1-sqrt")
#define WORDS_BEAMS_END(W) W(BEAMS_WORSE, "false") W(BEAMS_FULL, "true") W(BEAMS_NEVER, "never") /* ORDER beams_end */
#define WORDS_MODE(W) W(MODE_MIN, "min") W(MODE_MAX, "max")
#define WORDS_THRESHOLD(W) W(THRESHOLD_REL, "rel") W(THRESHOLD_ABS, "abs")
#define WORDS_KEEP(W) W(KEEP_AUTO, "auto") W(KEEP_RESIDENT, "resident") W(KEEP_TRANSIENT, "transient")
#define WORDS_OFFLOAD(W) W(OFFLOAD_AUTO, "auto") W(OFFLOAD_NONE, "none") W(OFFLOAD_CPU, "cpu")
#define WORDS_OFFLOAD_STATES(W) WORDS_OFFLOAD(W) W(OFFLOAD_DISK, "disk")
#define WORDS_DTYPE(W)                                                                                                 \
    W(DTYPE_FP32, "fp32")                                                                                              \
    W(DTYPE_BF16, "bf16") W(DTYPE_PURE_BF16, "pure-bf16") W(DTYPE_FP16, "fp16") W(DTYPE_TF32, "tf32")
#define WORDS_OUTTYPE(W) W(OUTTYPE_F16, "f16") W(OUTTYPE_BF16, "bf16") W(OUTTYPE_Q8_0, "q8_0") W(OUTTYPE_F32, "f32")
#define WORDS_GRADIENTS(W) W(GRADIENTS_FP32, "fp32") W(GRADIENTS_MODEL, "model")
#define WORDS_WHEN(W) W(WHEN_NO, "no") W(WHEN_STEPS, "steps") W(WHEN_EPOCH, "epoch")
#define DUMP_WORD(W, name, programs) W(DUMP_##name, #name)
#define WORDS_DUMP(W) W(DUMP_NONE, "none") W(DUMP_build, "build") PASSES(DUMP_WORD, W)
#define WORDS_SAVE(W) W(SAVE_NO, "no") W(SAVE_STEPS, "steps") W(SAVE_EPOCH, "epoch") W(SAVE_BEST, "best")

/* The enumerators of the others get OPT_ in front: OPT_NAN_STOP, OPT_DTYPE_BF16, … */
#define OPT_WORD_ID(id, text) OPT_##id,
enum { WORDS_UTF8(OPT_WORD_ID) };
enum { WORDS_EMPTY(OPT_WORD_ID) };
enum { WORDS_NAN_POLICY(OPT_WORD_ID) };
enum { WORDS_SCHEDULE(OPT_WORD_ID) };
enum { WORDS_RAMP(OPT_WORD_ID) };
enum { WORDS_MODE(OPT_WORD_ID) };
enum { WORDS_THRESHOLD(OPT_WORD_ID) };
enum { WORDS_KEEP(OPT_WORD_ID) };
enum { WORDS_OFFLOAD_STATES(OPT_WORD_ID) };
enum { WORDS_DTYPE(OPT_WORD_ID) };
enum { WORDS_OUTTYPE(OPT_WORD_ID) };
enum { WORDS_GRADIENTS(OPT_WORD_ID) };
enum { WORDS_WHEN(OPT_WORD_ID) };
enum { WORDS_SAVE(OPT_WORD_ID) };
enum { WORDS_DUMP(OPT_WORD_ID) };
#undef OPT_WORD_ID

/* A number of steps, or a share of all steps of the run. One of the two is 0. */
struct opt_steps {
    int64_t steps;
    double ratio; /* above 0, below 1 */
};
int64_t opt_steps_of(struct opt_steps s, int64_t all_steps); /* ceil(ratio * all_steps), as transformers does */

/* Files. `first` is NULL while unset. */
struct opt_paths {
    const char *first;
    const char *const *more; /* (n_more): those behind it */
    size_t n_more;
};

/* Texts, of an option that may be given again and again. */
struct opt_texts {
    const char *const *items; /* (n) */
    size_t n;
};

/* Row numbers: OPTION_learning_rate, … A key of a KWARGS option has its parent in front: OPTION_optim_args_momentum. */
enum option_id {
#define OPT(type, name, ...) OPTION_##name,
#define OPT_SUB(parent, type, name, ...) OPTION_##parent##_##name,
#define OPT_SECTION(id, title) OPTION_SECTION_##id,
#include "options/table.h"
    N_OPTIONS,
};

/* Where a value came from; a later one replaces an earlier one. */
enum option_source { FROM_DEFAULT, FROM_CHECK, FROM_ENV, FROM_DEEPSPEED, FROM_CONFIG, FROM_SET, FROM_LINE };

/* One member per row, with the row's name. Strings belong to the struct and are NULL while unset. A number whose
 * default is "none" is 0 while unset: option_given tells 0 from unset. */
struct options {
#define OPT_MEMBER_BOOL(name) bool name;
#define OPT_MEMBER_INT(name) int64_t name;
#define OPT_MEMBER_UINT(name) uint64_t name;
#define OPT_MEMBER_REAL(name) double name;
#define OPT_MEMBER_STEPS(name) struct opt_steps name;
#define OPT_MEMBER_BYTES(name) int64_t name;
#define OPT_MEMBER_CHAR(name) char name;
#define OPT_MEMBER_STR(name) const char *name;
#define OPT_MEMBER_PATHS(name) struct opt_paths name;
#define OPT_MEMBER_TEXTS(name) struct opt_texts name;
#define OPT_MEMBER_WORD(name) int name; /* an enumerator of its list above */
#define OPT_MEMBER_KWARGS(name)         /* has no value of its own, only its keys have */
#define OPT(type, name, ...) OPT_MEMBER_##type(name)
#define OPT_SUB(parent, type, name, ...) OPT_MEMBER_##type(parent##_##name)
#include "options/table.h"

    unsigned command;                /* the enum command_bit it is for */
    unsigned char source[N_OPTIONS]; /* enum option_source */
    const char *from[N_OPTIONS];     /* how it was given: "--bf16", "args.json: bf16"; NULL if it was not */
    char **notes;                    /* lines for the user, without a newline: older spellings, what was ignored */
    size_t n_notes, notes_cap;
    bool deepspeed_read; /* the file of --deepspeed */
    struct arena arena;
};

/* The public handle (snug.h) is this struct and nothing more. */
struct snug_options {
    struct options o;
};

/* Whether a value was given, or filled in by options_check. */
#define option_given(o, name) ((o)->source[OPTION_##name] != FROM_DEFAULT)

/* Whether the user asks for something with row OPTION_i: a config file that spells out a default does not. */
bool option_asks(const struct options *o, int i);

/* The first row that asks for something without effect where option `other` is `word`; -1: none. */
int options_idle(const struct options *o, int other, const char *word);

/* The defaults. Nothing is allocated. */
void options_init(struct options *o, unsigned command);
void options_free(struct options *o);

/* Arguments that are not options, in their order; the array is the struct's. */
struct arguments {
    const char **items;
    size_t n;
};

/* `argv` after the command's name: --name value, --name=value, flags also bare; hyphens or underscores; "--" ends the
 * options. A --config file among them is read first. `args` may be NULL where the command takes none. */
int options_parse(struct options *o, const struct io *io, int argc, char *const *argv, struct arguments *args,
                  struct snug_err *err);

/* One option by its name or another spelling; the text is as on the command line. */
int options_set(struct options *o, const char *name, const char *text, struct snug_err *err);

/* The same from the environment: `variable` is one of options_env(0), options_env(1), … until NULL. */
const char *options_env(int i);
const char *options_env_option(int i); /* the option's name */
int options_set_env(struct options *o, const char *variable, const char *text, struct snug_err *err);

/* A JSON object with members named as the options, such as a saved TrainingArguments, or the same in YAML. Members that
 * another command takes are skipped, null is unset. Not readable: SNUG_ERR_IO; not JSON or YAML: SNUG_ERR_INPUT. */
int options_read_config(struct options *o, const struct io *io, const char *path, struct snug_err *err);

/* After everything was given: the file that --deepspeed names, once. It gives options that were not given; what says otherwise than another
 * option is refused. Errors as those of options_read_config; of options_parse this is part. */
int options_read_deepspeed(struct options *o, const struct io *io, struct snug_err *err);

/* Then: what is needed, what excludes what, what has no effect. Fills in what follows from other
 * options: data_seed; with evaluations eval_steps, metric_for_best_model, greater_is_better. */
int options_check(struct options *o, struct snug_err *err);

/* Whether this is one of several processes, and not the first: what is printed is the first one's. */
static inline bool options_follows(const struct options *o)
{
    return o->num_processes > 1 && o->process_index > 0;
}

/* What --dtype stores numbers in. tf32 is DT_F32: only products round. */
enum dtype options_dtype(const struct options *o);

/* The layers of a segment whose activations are computed again, by --recompute or --gradient-checkpointing; 0: none. */
enum { RECOMPUTE_AUTO = -1, RECOMPUTE_UNKNOWN = -2 };
int options_recompute(const struct options *o);

/* Whether activations go to the host's memory, a word of OFFLOAD: --offload-activations, or what checkpointing is told. */
int options_activations(const struct options *o);

/* Whether --report-to names it, or all. */
bool options_report_to(const struct options *o, const char *name);

/* A new object of all options of the command; results_only: only of those that results depend on. It is what a
 * checkpoint records and compares; options_read_config takes it back. Unset is null. */
int options_to_json(const struct options *o, bool results_only, json_t **out, struct snug_err *err);

/* An object of options as the text of a file: a line for each, numbers as short as they can be read back. */
struct str;
void options_json_text(const json_t *object, struct str *out);
void options_json_value(const json_t *v, struct str *out); /* one of them, without a line break */

/* ---- The table as data, for --help, documentation and completion. ----------------------------------------------- */

enum option_type {
    OPTION_BOOL,  /* flag: bare, or true, or false */
    OPTION_INT,   /* whole number */
    OPTION_UINT,  /* whole number from 0 to 2^64-1 */
    OPTION_REAL,  /* decimal number */
    OPTION_STEPS, /* whole number of steps, or below 1 a share of all */
    OPTION_BYTES, /* as size_read has it; below 1 MiB only with a unit */
    OPTION_CHAR,  /* one ASCII character, or tab */
    OPTION_STR,
    OPTION_PATHS, /* one or more files: on the command line several arguments, elsewhere also a JSON array */
    OPTION_TEXTS, /* a text; given again, one more */
    OPTION_WORD,
    OPTION_KWARGS, /* {"key": value, …} or key=value,… */
    OPTION_SECTION /* no option: starts a section of --help; `name` is its title, all else is 0 */
};

struct option_row {
    enum option_type type;
    const char *name;   /* with underscores; of a key: without its parent */
    int parent;         /* row of the KWARGS option, or -1 */
    const char *unset;  /* the default as it would be typed, or "none" */
    const char *domain; /* interval "[0, 1)", words "a|b", or what --help calls the value */
    unsigned commands;  /* enum command_bit */
    unsigned needed;    /* of those, where it must be given */
    bool result;        /* results depend on it */
    size_t offset;      /* of the member */
    const char *help;
};
extern const struct option_row option_rows[N_OPTIONS];

enum spelling_kind { SPELLING_SHORT, SPELLING_HABIT, SPELLING_OLDER, SPELLING_RATIO };
struct option_spelling {
    enum spelling_kind kind;
    const char *spelling;
    int option;
    const char *value; /* what `true` gives; NULL: the value is passed on */
};
extern const struct option_spelling option_spellings[];
extern const size_t n_option_spellings;

/* What --help shows, and hints; other words for a value, words that are lacking, what an option needs, what serves the
 * same, the environment, and the names of TrainingArguments that are ignored or refused (`*` at the end of a name stands
 * for anything). */
struct option_value {
    int option;
    const char *spelling, *value, *note;
};
struct option_lacking {
    int option;
    const char *words, *why; /* "a|b|c" */
};
struct option_needs {
    int option, other;
    const char *values; /* "a|b|c", or "*" for any */
};
struct option_either {
    int option, other;
};
struct option_foreign {
    const char *name, *off, *why;
};
struct option_usual {
    int option;
    unsigned commands;
};
struct option_hint {
    const char *name;
    unsigned commands; /* that have no such option */
    const char *what;
};
extern const struct option_usual option_usuals[];
extern const struct option_hint option_hints[];
extern const size_t n_option_usuals, n_option_hints;
extern const struct option_value option_values[];
extern const struct option_lacking option_lackings[];
extern const struct option_needs option_needs[];
extern const struct option_needs option_serves[];
extern const struct option_either option_eithers[];
extern const struct option_foreign options_accepted[], options_refused[];
extern const size_t n_option_values, n_option_lackings, n_option_needs, n_option_serves, n_option_eithers,
    n_options_accepted, n_options_refused;

/* "--learning-rate"; `buf` is returned. */
enum { OPTION_NAME_MAX = 80 };
const char *option_flag(const char *name, char buf[OPTION_NAME_MAX]);

/* Whether `word` is one of "a|b|c"; its place in *index, which may be NULL. */
bool word_in(const char *word, const char *words, int *index);

/* The one of n names that `typed` most likely meant, or NULL when none is near. */
const char *nearest_name(const char *typed, const char *const *names, size_t n);

#endif
