#include "data/dataset.h"

#include "base/cache_dir.h"
#include "data/dataset_parts.h"
#include "data/files/columns.h"
#include "data/files/source.h"
#include "data/files/table.h"
#include "data/questions/questions.h"
#include "data/tokens/token_cache.h"
#include "tokenizer/tokenizer.h"

#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static void free_array(const struct dataset *d, void *array)
{
    for (int i = 0; i < d->files.n_maps; i++) {
        const char *start = d->files.maps[i].p;
        if ((const char *)array >= start && (const char *)array < start + d->files.maps[i].bytes)
            return;
    }
    mem_free(array);
}

void dataset_close(struct dataset *d)
{
    void *const arrays[] = {d->offsets, d->ids,   d->types,     d->classes, d->values,
                            d->targets, d->words, d->loss_mask, d->sources};
    for (size_t i = 0; i < sizeof arrays / sizeof *arrays && !d->block; i++)
        free_array(d, arrays[i]);
    mem_free(d->block);
    for (int i = 0; i < d->files.n_maps; i++)
        mapping_close(&d->files.maps[i]);
    mem_free(d->files.dir);
    questions_free(d->questions);
    label_map_free(&d->labels);
    *d = (struct dataset){0};
}

struct hash128 dataset_fingerprint(const struct dataset *d)
{
    return d->fingerprint;
}

void dataset_release(const struct dataset *d)
{
    for (int i = 0; i < d->files.n_maps; i++)
        mapping_release(&d->files.maps[i]);
}

static void measure_tokens(struct dataset *d, int64_t from, int64_t to)
{
    for (int64_t i = from; i < to; i++)
        d->max_id = d->ids[i] > d->max_id ? d->ids[i] : d->max_id;
    for (int64_t i = from; i < to && d->types; i++)
        d->max_type = d->types[i] > d->max_type ? d->types[i] : d->max_type;
}

int dataset_measure(struct dataset *d, const char *path, struct snug_err *err)
{
    d->longest = d->max_id = d->max_type = 0;
    if (d->n_rows < 1)
        return err_set(err, SNUG_ERR_INPUT, "%s: 0 rows with tokens; give some data", path);
    for (int64_t row = 0; row < d->n_rows; row++) {
        int64_t length = d->offsets[row + 1] - d->offsets[row];
        struct place p = {.path = path, .n = row, .is_row = true};
        if (length < 1)
            return err_at(err, SNUG_ERR_INPUT, p, "no tokens; the tokenizer makes none of its text");
        if (length > INT_MAX)
            return err_at(err, SNUG_ERR_INPUT, p, "%lld tokens; use --max-length", (long long)length);
        d->longest = length > d->longest ? (int32_t)length : d->longest;
    }
    for (int64_t i = 0, end; i < d->n_tokens; i = end) {
        end = d->n_tokens - i < DATASET_STRETCH ? d->n_tokens : i + DATASET_STRETCH;
        measure_tokens(d, i, end);
        dataset_release(d);
    }
    return SNUG_OK;
}

struct token_store_options dataset_store(const struct io *io, const struct dataset_options *o, const char *dir)
{
    return (struct token_store_options){
        .io = io, .dir = dir, .in_memory = o->in_memory ? o->in_memory : DATASET_IN_MEMORY};
}

int dataset_settle(const struct dataset_options *o, struct token_store *s, struct snug_err *err)
{
    bool no_folder;
    struct snug_err why;
    TRY(token_store_settle(s, &no_folder, &why, err));
    if (no_folder)
        dataset_note(o, "all tokens stay in memory: %s", why.text);
    return SNUG_OK;
}

/* ---- what is worth saying ---- */

void dataset_note(const struct dataset_options *o, const char *format, ...)
{
    if (!o->note)
        return;
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    struct snug_err line; /* the same rules as for errors: one line of clean UTF-8 */
    if (o->n_more_paths)
        err_set(&line, SNUG_OK, "%s and %zu more: %s", o->path, o->n_more_paths, text);
    else
        err_set(&line, SNUG_OK, "%s: %s", o->path, text);
    o->note(o->note_ctx, line.text);
}

/* "0 = a, 1 = b, 2 = c, ..., 76 = z" */
static void list_labels(const struct label_map *m, struct str *s)
{
    for (int32_t i = 0; i < m->n; i++) {
        if (i == 3 && m->n > 5) {
            str_append(s, ", ...");
            i = m->n - 1;
        }
        str_printf(s, "%s%d = %s", i ? ", " : "", (int)i, m->names[i]);
    }
}

static int32_t first_without_rows(const struct dataset *d)
{
    char *seen = d->classes ? mem_alloc((size_t)d->num_labels) : NULL;
    if (!seen)
        return -1;
    for (int64_t row = 0; row < d->n_rows; row++)
        seen[d->classes[row]] = 1;
    int32_t i = 0;
    while (i < d->num_labels && seen[i])
        i++;
    mem_free(seen);
    return i < d->num_labels ? i : -1;
}

static void note_labels(const struct dataset_options *o, const struct dataset *d)
{
    if (!d->num_labels || (o->labels && o->labels->from_data))
        return; /* said for the training data */
    int32_t absent = first_without_rows(d);
    struct str s = {0};
    list_labels(&d->labels, &s);
    if (o->labels && d->label_form == LABELS_NUMBERS && !d->labels.numbers)
        dataset_note(o, "labels are numbers, taken as the model's ids: %s", str_text(&s));
    else if (!o->labels && d->label_form == LABELS_NAMES)
        dataset_note(o, "%d labels, sorted by name: %s", (int)d->num_labels, str_text(&s));
    else if (!o->labels && d->label_form == LABELS_NUMBERS && absent >= 0)
        dataset_note(o, "labels are numbers and keep their value: %d classes, 0 to %d; no row has %d",
                     (int)d->num_labels, (int)d->num_labels - 1, (int)absent);
    else if (!o->labels && d->label_form == LABELS_NUMBERS)
        dataset_note(o, "labels are numbers and keep their value: %d classes, 0 to %d", (int)d->num_labels,
                     (int)d->num_labels - 1);
    else if (!o->labels && d->label_form == LABELS_VECTORS && d->labels.n > 1 && !d->labels.numbers)
        dataset_note(o, "%d labels, a column each: %s", (int)d->num_labels, str_text(&s));
    else if (!o->labels && d->task == TASK_MULTI_LABEL)
        dataset_note(o, "a value for each of %d labels per row", (int)d->num_labels);
    str_free(&s);
}

/* What was guessed is said, once: not again for the data to evaluate on. */
static void note_columns(const struct dataset_options *o, const struct columns *c)
{
    if (o->labels && o->labels->from_data)
        return;
    if (c->form == ROWS_PROMPT)
        dataset_note(o, "rows are prompts and completions; --text-column reads a text instead");
    else if (c->form == ROWS_WORDS && c->label_guessed && c->n_labels)
        dataset_note(o, "the tags are the column '%s', by its name; --label-column chooses another",
                     c->names[c->labels[0]]);
    else if (o->task == TASK_SEQ2SEQ && c->text_guessed)
        dataset_note(o,
                     "sources are the column '%s' and targets '%s', by their names; --text-column and --target-column "
                     "choose others",
                     c->names[c->text], c->names[c->pair]);
    else if (c->form != ROWS_TEXT && c->form != ROWS_WORDS)
        dataset_note(o, "rows are conversations, in '%s'; --text-column reads a text instead", c->names[c->turns]);
    const char *label = c->label_guessed && c->form == ROWS_TEXT ? c->names[c->labels[0]] : NULL;
    if (o->task == TASK_SEQ2SEQ)
        return;
    if (c->text_guessed && c->pair >= 0)
        dataset_note(o, "the texts are the columns '%s' and '%s', by their names; --text-column chooses others",
                     c->names[c->text], c->names[c->pair]);
    else if (c->text_guessed)
        dataset_note(o, "the text is the column '%s', by its name; --text-column chooses another", c->names[c->text]);
    if (label)
        dataset_note(o, "the label is the column '%s', by its name; --label-column chooses another", label);
}

void dataset_note_rows(const struct dataset_options *o, const struct dataset *d)
{
    if (d->ignored)
        dataset_note(o, "%lld of %lld rows have the label '%s' and are left out (--ignore-label)",
                     (long long)d->ignored, (long long)(d->ignored + d->n_rows), o->ignore_label);
    else if (o->ignore_label && task_has_label(d->task))
        dataset_note(o, "no row has the label '%s' (--ignore-label)", o->ignore_label);
    if (d->empty)
        dataset_note(o, "%lld rows have an empty text%s", (long long)d->empty,
                     task_is_lm(d->task) ? "" : ", and are kept");
    if (d->no_target)
        dataset_note(o, "%lld rows have nothing to learn within %d tokens, and are left out", (long long)d->no_target,
                     (int)o->max_length);
    if (d->truncated)
        dataset_note(o, "%lld of %lld rows (%.1f %%) were longer than %d tokens and are cut (--max-length)",
                     (long long)d->truncated, (long long)d->n_rows, 100.0 * (double)d->truncated / (double)d->n_rows,
                     (int)o->max_length);
}

/* ---- identity ---- */

static void add_hash(struct str *s, struct hash128 h)
{
    char hex[33];
    hash_hex(h, hex);
    str_printf(s, "%s ", hex);
}

static void add_names(struct str *s, const struct label_map *m)
{
    for (int32_t i = 0; m && i < m->n; i++)
        str_json(s, m->names[i]);
}

static int hash_of(struct str *s, struct hash128 *h, struct snug_err *err)
{
    int code = str_check(s, err);
    *h = hash_bytes(str_text(s), s->n);
    str_free(s);
    return code;
}

static int make_fingerprint(const struct dataset_options *o, const struct dataset_origin *origin, struct dataset *d,
                            struct snug_err *err)
{
    struct str s = {0};
    add_hash(&s, origin->content);
    add_hash(&s, o->tokenizer ? tokenizer_hash(o->tokenizer) : (struct hash128){0});
    add_hash(&s, origin->columns);
    str_printf(&s, "%d %d ", (int)d->task, (int)o->max_length);
    add_names(&s, &d->labels);
    if (d->ignored)
        str_printf(&s, " %lld ignored", (long long)d->ignored);
    return hash_of(&s, &d->fingerprint, err);
}

/* Everything that decides what is read from a text file. */
static int cache_key(const struct dataset_options *o, enum data_task task, const struct dataset_origin *origin,
                     struct hash128 *key, struct snug_err *err)
{
    const char *dot = strrchr(o->path, '.');
    struct str s = {0};
    str_printf(&s, "format %d task %d max_length %d num_labels %d delimiter %d ", TOKEN_CACHE_FORMAT, (int)task,
               (int)o->max_length, (int)o->num_labels, o->delimiter);
    add_hash(&s, origin->content);
    add_hash(&s, origin->columns);
    add_hash(&s, tokenizer_hash(o->tokenizer));
    str_json(&s, dot ? dot : "");
    str_json(&s, o->ignore_label ? o->ignore_label : "");
    if (o->labels)
        str_printf(&s, "labels %d %d ", o->labels->from_data, o->labels->numbers);
    add_names(&s, o->labels);
    return hash_of(&s, key, err);
}

/* ---- opening ---- */

static int read_text(const struct io *io, struct text_reading *r, const struct dataset_options *o, const char *dir,
                     const struct hash128 *content, struct dataset *d, struct snug_err *err)
{
    struct dataset_origin origin = {0};
    TRY(text_reading_finish(r, io, dir, d, &origin, err));
    TRY(dataset_measure(d, o->path, err));
    if (content && (content->high != origin.content.high || content->low != origin.content.low))
        return err_set(err, SNUG_ERR_IO, "%s: changed while it was read; start again", o->path);
    return make_fingerprint(o, &origin, d, err);
}

/* What was stored takes the place of the files that it was made of. Where that fails they do as well. */
static void recall(const struct io *io, const char *path, struct hash128 key, const struct dataset_options *o,
                   const struct text_reading *r, struct dataset *d)
{
    struct dataset stored;
    struct snug_err why;
    if (!token_cache_load(io, path, key, o, text_reading_task(r), text_reading_columns(r), &stored, &why))
        return;
    stored.fingerprint = d->fingerprint;
    dataset_close(d);
    *d = stored;
}

/* The cache is a convenience: what goes wrong with it is said, but is no error. */
static int read_or_recall(const struct io *io, const struct dataset_options *o, struct text_reading *r,
                          const char *cache_dir, struct dataset *d, struct snug_err *err)
{
    struct dataset_origin origin = {0};
    struct hash128 key;
    struct snug_err why = {0};
    struct str path = {0};
    enum data_task task = text_reading_task(r);
    TRY(table_hash_files(io, o, &origin.content, err));
    TRY(text_reading_hash_columns(r, &origin.columns, err));
    TRY(cache_key(o, task, &origin, &key, err));
    TRY(token_cache_file(cache_dir, key, &path, err));
    int code = SNUG_OK;
    bool hit = token_cache_load(io, str_text(&path), key, o, task, text_reading_columns(r), d, &why);
    if (hit && d->empty && o->empty_is_error) {
        dataset_close(d); /* reading finds the row */
        hit = false;
    }
    if (!hit) {
        if (why.code)
            dataset_note(o, "the token cache is made again: %s", why.text);
        code = read_text(io, r, o, cache_dir, &origin.content, d, err);
        if (!code && token_cache_store(io, str_text(&path), key, d, &why))
            dataset_note(o, "the token cache is not kept: %s", why.text);
        else if (!code && d->files.n_maps)
            recall(io, str_text(&path), key, o, r, d);
    } else {
        code = make_fingerprint(o, &origin, d, err);
    }
    str_free(&path);
    return code;
}

/* Windows over contexts. They are made again each time: an evaluation needs the texts. */
static int open_questions(const struct io *io, const struct dataset_options *o, struct dataset *d, struct snug_err *err)
{
    struct dataset_origin origin = {0};
    struct str dir = {0};
    if (!o->tokenizer)
        return err_set(err, SNUG_ERR_USAGE, "%s: text needs a tokenizer", o->path);
    int code = cache_dir(o->cache_dir, &dir, err);
    if (!code)
        code = questions_read(io, o, dir.n ? str_text(&dir) : NULL, d, &origin.content, err);
    str_free(&dir);
    TRY(code);
    TRY(dataset_measure(d, o->path, err));
    origin.columns = hash_bytes(&o->questions->doc_stride, sizeof o->questions->doc_stride);
    dataset_note(o, "questions: %lld; windows over their contexts, of at most %d tokens: %lld",
                 (long long)d->questions->n, (int)o->max_length, (long long)d->n_rows);
    return make_fingerprint(o, &origin, d, err);
}

static int open_text(const struct io *io, const struct dataset_options *o, struct dataset *d, struct snug_err *err)
{
    if (!o->tokenizer)
        return err_set(err, SNUG_ERR_USAGE, "%s: text needs a tokenizer", o->path);
    struct str dir = {0};
    struct text_reading *r;
    TRY(text_reading_open(io, o, &r, err));
    int code = cache_dir(o->cache_dir, &dir, err);
    if (!code && dir.n)
        code = read_or_recall(io, o, r, str_text(&dir), d, err);
    else if (!code)
        code = read_text(io, r, o, NULL, NULL, d, err);
    if (!code)
        note_columns(o, text_reading_columns(r));
    text_reading_close(r);
    str_free(&dir);
    return code;
}

static int open_other(const struct io *io, const struct dataset_options *o, bool synthetic, struct dataset *d,
                      struct snug_err *err)
{
    struct dataset_origin origin = {0};
    struct str dir = {0};
    if (o->n_more_paths)
        return err_set(err, SNUG_ERR_USAGE,
                       "%s: several files must be tables (.csv, .tsv, .json, .jsonl, .parquet, .txt)", o->path);
    int code = synthetic ? dataset_make_synthetic(o, d, &origin, err) : cache_dir(o->cache_dir, &dir, err);
    if (!code && !synthetic)
        code = dataset_read_safetensors(io, o, dir.n ? str_text(&dir) : NULL, d, &origin, err);
    str_free(&dir);
    TRY(code);
    TRY(dataset_measure(d, o->path, err));
    return make_fingerprint(o, &origin, d, err);
}

int dataset_open(const struct io *io, const struct dataset_options *o, struct dataset *d, struct snug_err *err)
{
    *d = (struct dataset){0};
    enum data_format format = FORMAT_UNKNOWN;
    if (!o->questions || !o->questions->n_texts)
        TRY(data_format_of(io, o->path, &format, err));
    bool other = format == FORMAT_SAFETENSORS || format == FORMAT_SYNTHETIC;
    int code = other          ? open_other(io, o, format == FORMAT_SYNTHETIC, d, err)
               : o->questions ? open_questions(io, o, d, err)
                              : open_text(io, o, d, err);
    if (code) {
        dataset_close(d);
        return code;
    }
    if (format != FORMAT_SYNTHETIC)
        note_labels(o, d);
    dataset_note_rows(o, d);
    d->path = o->path;
    d->start_id = o->start_id;
    return SNUG_OK;
}
