/* The table as data, and giving an option a value. */
#include "options/options.h"

#include "options/value.h"

#include <math.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* The sets of commands of table.h. */
#define TRAINING (CMD_TRAIN | CMD_PLAN)
#define TRAIN CMD_TRAIN
#define EVAL CMD_EVAL
#define PREDICT CMD_PREDICT
#define PLAN CMD_PLAN
#define GENERATE CMD_GENERATE
#define BENCH CMD_BENCH
#define ROWS (CMD_TRAIN | CMD_PLAN | CMD_EVAL | CMD_PREDICT)
#define MODEL (ROWS | CMD_GENERATE)
#define DATA (ROWS | CMD_DEBUG_DATA)
#define INFO CMD_INFO
#define EXPORT CMD_EXPORT
#define MERGE CMD_MERGE
#define INSPECT CMD_INSPECT
#define TOKENIZE CMD_TOKENIZE
#define REPORT CMD_REPORT
#define COMPARE CMD_COMPARE
#define DEBUG_DATA CMD_DEBUG_DATA
#define DEBUG_GRAD CMD_DEBUG_GRAD
#define DEBUG_OPTIM CMD_DEBUG_OPTIM
#define ALL_COMMANDS ((1u << N_COMMANDS) - 1)
#define NEED(commands) ((uint64_t)(commands) << N_COMMANDS)
#define RESULT true

#define WORD_TEXT(id, text) "|" text
#define DOMAIN_BOOL(domain) "true|false"
#define DOMAIN_INT(domain) domain
#define DOMAIN_UINT(domain) "[0, 18446744073709551615]"
#define DOMAIN_REAL(domain) domain
#define DOMAIN_STEPS(domain) domain
#define DOMAIN_BYTES(domain) domain
#define DOMAIN_CHAR(domain) domain
#define DOMAIN_STR(domain) domain
#define DOMAIN_PATHS(domain) domain
#define DOMAIN_TEXTS(domain) domain
#define DOMAIN_WORD(domain) &WORDS_##domain(WORD_TEXT)[1]
#define DOMAIN_KWARGS(domain) domain
/* A KWARGS option has no member; its row points at the start of the struct and is never followed. */
#define OFFSET_BOOL(member) offsetof(struct options, member)
#define OFFSET_INT(member) offsetof(struct options, member)
#define OFFSET_UINT(member) offsetof(struct options, member)
#define OFFSET_REAL(member) offsetof(struct options, member)
#define OFFSET_STEPS(member) offsetof(struct options, member)
#define OFFSET_BYTES(member) offsetof(struct options, member)
#define OFFSET_CHAR(member) offsetof(struct options, member)
#define OFFSET_STR(member) offsetof(struct options, member)
#define OFFSET_PATHS(member) offsetof(struct options, member)
#define OFFSET_TEXTS(member) offsetof(struct options, member)
#define OFFSET_WORD(member) offsetof(struct options, member)
#define OFFSET_KWARGS(member) 0
#define ROW(type, name, member, parent, unset, domain, commands, flags, help)                                          \
    {OPTION_##type,                                                                                                    \
     name,                                                                                                             \
     parent,                                                                                                           \
     unset,                                                                                                            \
     DOMAIN_##type(domain),                                                                                            \
     (unsigned)((commands)&ALL_COMMANDS),                                                                              \
     (unsigned)((uint64_t)(commands) >> N_COMMANDS),                                                                   \
     flags,                                                                                                            \
     OFFSET_##type(member),                                                                                            \
     help},

const struct option_row option_rows[N_OPTIONS] = {
#define OPT(type, name, unset, domain, commands, flags, help)                                                          \
    ROW(type, #name, name, -1, unset, domain, commands, flags, help)
#define OPT_SUB(parent, type, name, unset, domain, commands, flags, help)                                              \
    ROW(type, #name, parent##_##name, OPTION_##parent, unset, domain, commands, flags, help)
#define OPT_SECTION(id, title) {OPTION_SECTION, title, -1, "none", "", 0, 0, false, 0, ""},
#include "options/table.h"
};

const struct option_spelling option_spellings[] = {
#define OPT_SPELLING(kind, spelling, option, value) {SPELLING_##kind, #spelling, OPTION_##option, value},
#include "options/table.h"
};
const struct option_value option_values[] = {
#define OPT_VALUE(option, spelling, value, note) {OPTION_##option, spelling, value, note},
#include "options/table.h"
};
const struct option_lacking option_lackings[] = {
#define OPT_LACKING(option, words, why) {OPTION_##option, words, why},
#include "options/table.h"
};
const struct option_needs option_needs[] = {
#define OPT_NEEDS(option, other, values) {OPTION_##option, OPTION_##other, values},
#include "options/table.h"
};
const struct option_needs option_serves[] = {
#define OPT_SERVES(option, other, values) {OPTION_##option, OPTION_##other, values},
#include "options/table.h"
};
const struct option_usual option_usuals[] = {
#define OPT_USUAL(option, commands) {OPTION_##option, commands},
#include "options/table.h"
};
const struct option_hint option_hints[] = {
#define OPT_HINT(name, commands, what) {name, commands, what},
#include "options/table.h"
};
const struct option_either option_eithers[] = {
#define OPT_EITHER(option, other) {OPTION_##option, OPTION_##other},
#include "options/table.h"
};
const struct option_foreign options_accepted[] = {
#define OPT_ACCEPTED(name, off, why) {name, off, why},
#include "options/table.h"
};
const struct option_foreign options_refused[] = {
#define OPT_REFUSED(name, off, why) {name, off, why},
#include "options/table.h"
};
static const struct {
    const char *variable;
    int option;
} variables[] = {
#define OPT_ENV(variable, option) {variable, OPTION_##option},
#include "options/table.h"
};

#define COUNT(array) (sizeof(array) / sizeof *(array))
const size_t n_option_spellings = COUNT(option_spellings), n_option_values = COUNT(option_values),
             n_option_lackings = COUNT(option_lackings), n_option_needs = COUNT(option_needs),
             n_option_serves = COUNT(option_serves), n_option_eithers = COUNT(option_eithers),
             n_option_usuals = COUNT(option_usuals), n_option_hints = COUNT(option_hints),
             n_options_accepted = COUNT(options_accepted), n_options_refused = COUNT(options_refused);

const char *command_name(unsigned bit)
{
    static const char *const names[N_COMMANDS] = {"train",      "eval",        "predict",    "plan",       "bench",
                                                  "info",       "inspect",     "tokenize",   "debug json", "debug data",
                                                  "debug grad", "debug optim", "debug docs", "export",     "generate",
                                                  "merge",      "report",      "compare"};
    for (int i = 0; i < N_COMMANDS; i++)
        if (bit == 1u << i)
            return names[i];
    return "";
}

int64_t opt_steps_of(struct opt_steps s, int64_t all_steps)
{
    return s.ratio > 0 ? (int64_t)ceil((double)all_steps * s.ratio) : s.steps;
}

enum dtype options_dtype(const struct options *o)
{
    bool bf16 = o->dtype == OPT_DTYPE_BF16 || o->dtype == OPT_DTYPE_PURE_BF16;
    return bf16 ? DT_BF16 : o->dtype == OPT_DTYPE_FP16 ? DT_F16 : DT_F32;
}

void options_init(struct options *o, unsigned command)
{
    *o = (struct options){.command = command};
    for (int i = 0; i < N_OPTIONS; i++)
        if (strcmp(option_rows[i].unset, "none") != 0)
            (void)option_read_value(o, i, "", option_rows[i].unset, NULL); /* tests read every default */
}

void options_free(struct options *o)
{
    arena_free(&o->arena);
    mem_free(o->notes);
    *o = (struct options){0};
}

int option_note(struct options *o, struct snug_err *err, const char *format, ...)
{
    char raw[1024];
    va_list ap;
    va_start(ap, format);
    vsnprintf(raw, sizeof raw, format, ap);
    va_end(ap);
    struct snug_err clean; /* one line, of valid UTF-8 */
    err_set(&clean, SNUG_OK, "%s", raw);
    char *line = arena_strdup(&o->arena, clean.text);
    if (!line || !MEM_GROW(o->notes, o->notes_cap, o->n_notes + 1))
        return err_no_memory(err, sizeof raw);
    o->notes[o->n_notes++] = line;
    return SNUG_OK;
}

const char *option_flag(const char *name, char buf[OPTION_NAME_MAX])
{
    snprintf(buf, OPTION_NAME_MAX, "--%s", name);
    for (char *s = buf + 2; *s; s++)
        if (*s == '_')
            *s = '-';
    return buf;
}

/* ---- Giving a value. ---- */

/* Whether row `i` may be set: given once in its source, but for texts, and not by a stronger one. */
static int claim_row(struct options *o, int i, enum option_source source, const char *from, bool *claimed,
                     struct snug_err *err)
{
    bool texts = option_rows[i].type == OPTION_TEXTS;
    *claimed = false;
    if (o->source[i] == source && source != FROM_SET && !texts) {
        if (strcmp(from, o->from[i]) == 0)
            return err_set(err, SNUG_ERR_USAGE, "%s: given twice; give it once", from);
        return err_set(err, SNUG_ERR_USAGE, "%s: sets the same option as %s; give one of them", from, o->from[i]);
    }
    if (o->source[i] > source)
        return SNUG_OK;
    if (texts && o->source[i] != source)
        *(struct opt_texts *)option_member(o, i) = (struct opt_texts){0};
    o->source[i] = (unsigned char)source;
    o->from[i] = from;
    *claimed = true;
    return SNUG_OK;
}

int option_assign_key(struct options *o, int parent, enum option_source source, const char *from, const char *key,
                      const char *text, struct snug_err *err)
{
    const struct option_row *row = &option_rows[parent];
    struct option_meaning m = option_lookup_key(o, parent, key);
    if (m.kind == MEANS_ACCEPTED)
        return option_note(o, err, "%s: %s is ignored: %s", from, key, m.foreign->why);
    if (m.kind == MEANS_REFUSED)
        return err_set(err, SNUG_ERR_USAGE, "%s: %s is refused: %s", from, key, m.foreign->why);
    if (m.kind == MEANS_NOTHING) {
        char keys[512] = "";
        for (int i = 0; i < N_OPTIONS; i++)
            if (option_rows[i].parent == parent)
                snprintf(keys + strlen(keys), sizeof keys - strlen(keys), "%s%s", *keys ? ", " : "",
                         option_rows[i].name);
        return err_set(err, SNUG_ERR_USAGE, "%s: '%s' is no key of %s; there are %s", from, key, row->name, keys);
    }
    char *where = arena_printf(&o->arena, "%s %s", from, key);
    if (!where)
        return err_no_memory(err, strlen(from) + strlen(key) + 2);
    bool claimed;
    TRY(claim_row(o, m.option, source, where, &claimed, err));
    return claimed ? option_read_value(o, m.option, where, text, err) : SNUG_OK;
}

/* "momentum=0.9,nesterov=true", as the Trainer's --optim-args. */
static int assign_pairs(struct options *o, int parent, enum option_source source, const char *from, const char *text,
                        struct snug_err *err)
{
    char *copy = arena_alloc(&o->arena, strlen(text) + 1), *w = copy;
    if (!copy)
        return err_no_memory(err, strlen(text) + 1);
    for (const char *s = text; *s; s++)
        if (*s != ' ')
            *w++ = *s;
    for (char *pair = copy, *next; pair && *pair; pair = next) {
        if ((next = strchr(pair, ',')))
            *next++ = 0;
        char *value = strchr(pair, '=');
        if (!value)
            return err_set(err, SNUG_ERR_USAGE, "%s: '%s' is not KEY=VALUE; give KEY=VALUE,… or a JSON object", from,
                           pair);
        *value++ = 0;
        TRY(option_assign_key(o, parent, source, from, pair, value, err));
    }
    return SNUG_OK;
}

/* The Trainer lets warmup_steps win over warmup_ratio; so the readers of the command line and of JSON come with ratios
 * last. */
static int assign_ratio(struct options *o, int i, enum option_source source, const char *from, const char *text,
                        struct snug_err *err)
{
    double ratio;
    char flag[OPTION_NAME_MAX];
    if (!number_read(text, &ratio) || !(ratio >= 0 && ratio < 1))
        return err_set(err, SNUG_ERR_USAGE, "%s: '%s' is no share of all steps; give a number from 0 to below 1", from,
                       text);
    if (ratio == 0)
        return SNUG_OK;
    const struct opt_steps *now = option_member(o, i);
    option_flag(option_rows[i].name, flag);
    if (o->source[i] == source && (now->steps || now->ratio > 0))
        return option_note(o, err, "%s is ignored: %s wins", from, o->from[i]);
    if (o->source[i] > source)
        return SNUG_OK;
    TRY(option_read_value(o, i, from, text, err));
    o->source[i] = (unsigned char)source;
    o->from[i] = from;
    return option_note(o, err, "%s is an older spelling: it is now %s, which takes a share of all steps too", from,
                       flag);
}

/* A flag for a value, such as bf16, that is false: a weaker source that asked for that value by it is overruled. */
static int take_back(struct options *o, const struct option_meaning *m, enum option_source source, const char *from,
                     struct snug_err *err)
{
    struct options asked;
    int i = m->option;
    options_init(&asked, o->command);
    TRY(option_read_value(&asked, i, from, m->spelling->value, err));
    if (o->source[i] >= source || *(const int *)option_member(o, i) != *(const int *)option_member(&asked, i))
        return SNUG_OK;
    o->source[i] = FROM_DEFAULT;
    o->from[i] = NULL;
    return option_read_value(o, i, from, option_rows[i].unset, err);
}

int option_assign(struct options *o, const struct option_meaning *m, enum option_source source, const char *from,
                  const char *text, struct snug_err *err)
{
    int i = m->option;
    char flag[OPTION_NAME_MAX];
    option_flag(option_rows[i].name, flag);
    if (!text)
        text = "true";
    if (m->spelling && m->spelling->kind == SPELLING_RATIO)
        return assign_ratio(o, i, source, from, text, err);
    if (m->spelling && m->spelling->value) {
        bool on;
        if (!flag_read(text, &on))
            return err_set(err, SNUG_ERR_USAGE, "%s: '%s' is neither true nor false; give one of them", from, text);
        if (!on)
            return take_back(o, m, source, from, err);
        text = m->spelling->value;
    }
    bool claimed;
    TRY(claim_row(o, i, source, from, &claimed, err));
    if (!claimed)
        return SNUG_OK;
    if (option_rows[i].type != OPTION_KWARGS)
        TRY(option_read_value(o, i, from, text, err));
    else if (text[strspn(text, " \t\r\n")] == '{')
        TRY(option_assign_json_keys(o, i, source, from, text, err));
    else
        TRY(assign_pairs(o, i, source, from, text, err));
    if (m->spelling && m->spelling->kind == SPELLING_OLDER)
        return option_note(o, err, "%s is an older spelling: it is now %s%s%s", from, flag,
                           m->spelling->value ? " " : "", m->spelling->value ? m->spelling->value : "");
    return SNUG_OK;
}

/* ---- One by one. ---- */

int options_set(struct options *o, const char *name, const char *text, struct snug_err *err)
{
    char *from = arena_printf(&o->arena, "--%s", name);
    char *copy = arena_strdup(&o->arena, text);
    if (!from || !copy)
        return err_no_memory(err, strlen(name) + strlen(text) + 4);
    struct option_meaning m = option_lookup(o, name);
    TRY(option_refuse(o, &m, from, name, err));
    return m.kind == MEANS_OPTION ? option_assign(o, &m, FROM_SET, from, copy, err) : SNUG_OK;
}

const char *options_env(int i)
{
    return i >= 0 && i < (int)COUNT(variables) ? variables[i].variable : NULL;
}

const char *options_env_option(int i)
{
    return option_rows[variables[i].option].name;
}

int options_set_env(struct options *o, const char *variable, const char *text, struct snug_err *err)
{
    for (size_t i = 0; i < COUNT(variables); i++) {
        struct option_meaning m = option_lookup(o, option_rows[variables[i].option].name);
        if (strcmp(variable, variables[i].variable) != 0 || m.kind != MEANS_OPTION)
            continue;
        char *copy = arena_strdup(&o->arena, text);
        return copy ? option_assign(o, &m, FROM_ENV, variables[i].variable, copy, err)
                    : err_no_memory(err, strlen(text) + 1);
    }
    return SNUG_OK;
}
