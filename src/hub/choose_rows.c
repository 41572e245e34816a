/* Files of rows by their names, with the words that the datasets library looks for. */
#include "hub/choose.h"

#include "base/files/unpack.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

enum split { TRAIN, VALIDATION, TEST, NO_SPLIT };

static bool has_word(const char *path, const char *word)
{
    size_t n = strlen(word);
    for (const char *at = path; (at = strcasestr(at, word)); at++)
        if ((at == path || !isalpha((unsigned char)at[-1])) && !isalpha((unsigned char)at[n]))
            return true;
    return false;
}

static enum split split_of(const char *path)
{
    static const struct {
        const char *word;
        enum split split;
    } words[] = {{"test", TEST},       {"testing", TEST},          {"eval", TEST},
                 {"evaluation", TEST}, {"validation", VALIDATION}, {"valid", VALIDATION},
                 {"dev", VALIDATION},  {"val", VALIDATION},        {"train", TRAIN},
                 {"training", TRAIN}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++)
        if (has_word(path, words[i].word))
            return words[i].split;
    return NO_SPLIT;
}

/* The kinds of files that have rows, the first preferred where a split is there in several; behind them all that are compressed. -1: none of
 * them. */
enum { ENDINGS = 7, KINDS = 2 * ENDINGS };
static int kind_of(const char *path)
{
    static const char *const endings[ENDINGS] = {".csv", ".tsv", ".jsonl", ".ndjson", ".parquet", ".json", ".conll"};
    static const char *const about[] = {"dataset_infos.json", "dataset_info.json", "dataset_dict.json",
                                        "state.json",         "package.json",      "config.json"};
    const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
    size_t n = unpack_name(name);
    bool packed = name[n];
    for (size_t i = 0; i < sizeof about / sizeof *about; i++)
        if (!strcmp(name, about[i]))
            return -1;
    for (int i = 0; name[0] != '.' && i < ENDINGS; i++) {
        size_t bytes = strlen(endings[i]);
        if (n > bytes && !strncasecmp(name + n - bytes, endings[i], bytes) &&
            !(packed && !strcmp(endings[i], ".parquet")))
            return packed ? ENDINGS + i : i;
    }
    return -1;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The files of a split, of one kind. */
static int take_split(const struct file_names *all, enum split split, struct file_names *chosen, struct snug_err *err)
{
    for (int kind = 0; kind < KINDS && !chosen->n; kind++)
        for (size_t i = 0; i < all->n; i++)
            if (kind_of(all->items[i]) == kind && split_of(all->items[i]) == split)
                TRY(file_names_add(chosen, all->items[i], err));
    if (chosen->n)
        qsort(chosen->items, chosen->n, sizeof *chosen->items, by_name);
    return SNUG_OK;
}

static size_t folder_length(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash ? (size_t)(slash - path) : 0;
}

/* Files of one folder are one table in pieces; those of several are often several languages or tasks. */
static int check_folder(const struct hub_wish *w, const struct file_names *chosen, struct snug_err *err)
{
    size_t n = folder_length(chosen->items[0]);
    for (size_t i = 1; i < chosen->n; i++)
        if (folder_length(chosen->items[i]) != n || strncmp(chosen->items[i], chosen->items[0], n) != 0)
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: has %d such files in several folders; name those that you mean, such as %s:%s", w->text,
                           (int)chosen->n, w->name.repository, chosen->items[0]);
    return SNUG_OK;
}

/* What stands before "-00000-of-00002" in the name of a piece; 0: it is no such name. */
static size_t stem_length(const char *path)
{
    enum { DIGITS = 5 };
    const char *of = strstr(path, "-of-");
    for (const char *next = of; next; next = strstr(next + 1, "-of-"))
        of = next;
    if (!of || of - path <= DIGITS || of[-DIGITS - 1] != '-')
        return 0;
    for (int i = 1; i <= DIGITS; i++)
        if (!isdigit((unsigned char)of[-i]))
            return 0;
    return (size_t)(of - path) - DIGITS - 1;
}

/* Pieces of one name are one table; "train_sft-00000-of-00001" is another one than "train_gen-00000-of-00001". */
static int check_pieces(const struct hub_wish *w, const struct file_names *chosen, struct snug_err *err)
{
    const char *first = chosen->items[0];
    size_t n = stem_length(first);
    for (size_t i = 1; i < chosen->n && n; i++) {
        size_t other = stem_length(chosen->items[i]);
        if (other && (other != n || strncmp(chosen->items[i], first, n) != 0))
            return err_set(err, SNUG_ERR_INPUT, "%s: has %.*s and %.*s; name the files that you mean, such as %s:%s",
                           w->text, (int)n, first, (int)other, chosen->items[i], w->name.repository, first);
    }
    return SNUG_OK;
}

static int no_rows(const struct hub_wish *w, const struct file_names *all, struct snug_err *err)
{
    const char *example = NULL, *other = NULL;
    for (size_t i = 0; i < all->n; i++) {
        const char *dot = strrchr(all->items[i], '.');
        if (!example && kind_of(all->items[i]) >= 0)
            example = all->items[i];
        if (!other && dot && (!strcasecmp(dot, ".arrow") || !strcasecmp(dot, ".gz") || !strcasecmp(dot, ".zip")))
            other = dot;
    }
    if (example)
        return err_set(err, SNUG_ERR_INPUT, "%s: no file's name says that it is for %s; name one, such as %s:%s",
                       w->text, w->part == HUB_TRAIN_ROWS ? "training" : "evaluation", w->name.repository, example);
    if (other)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: its rows are in %s files, which are not read; convert them to Parquet, CSV or JSON lines",
                       w->text, other);
    return err_set(err, SNUG_ERR_INPUT, "%s: has no file of rows; give a repository with Parquet, CSV or JSON lines",
                   w->text);
}

int choose_rows(const struct hub_wish *w, const struct file_names *all, struct file_names *chosen, struct snug_err *err)
{
    static const enum split wanted[][4] = {
        [HUB_TRAIN_ROWS] = {TRAIN, NO_SPLIT, NO_SPLIT, NO_SPLIT},
        [HUB_EVAL_ROWS] = {VALIDATION, TEST, TEST, TEST},
        [HUB_TEST_ROWS] = {TEST, VALIDATION, NO_SPLIT, TRAIN},
    };
    for (int i = 0; i < 4 && !chosen->n; i++)
        TRY(take_split(all, wanted[w->part][i], chosen, err));
    if (!chosen->n)
        return no_rows(w, all, err);
    TRY(check_folder(w, chosen, err));
    return check_pieces(w, chosen, err);
}
