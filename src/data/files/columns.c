#include "data/files/columns.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

/* The names of columns that data sets on the hub and on Kaggle and transformers' own examples use, the likelier first. A
 * pair comes before its first half alone. */
static const struct {
    const char *text, *pair;
} usual_texts[] = {
    {"text", "text_pair"},
    {"text", NULL},
    {"sentence1", "sentence2"},
    {"question1", "question2"},
    {"premise", "hypothesis"},
    {"question", "sentence"},
    {"query", "passage"},
    {"text_a", "text_b"},
    {"sentence", NULL},
    {"utterance", NULL},
    {"content", NULL},
    {"review", NULL},
    {"text1", "text2"},
    {"sentence_a", "sentence_b"},
    {"question", "answer"},
    {"question", "context"},
    {"question", "passage"},
    {"query", "document"},
    {"claim", "evidence"},
    {"title", "body"},
    {"title", "description"},
    {"title", "abstract"},
    {"subject", "body"},
    {"tweet", NULL},
    {"tweet_text", NULL},
    {"message", NULL},
    {"comment_text", NULL},
    {"comment", NULL},
    {"review_text", NULL},
    {"review_body", NULL},
    {"body", NULL},
    {"post", NULL},
    {"posts", NULL},
    {"sms", NULL},
    {"full_text", NULL},
    {"clean_text", NULL},
    {"question_text", NULL},
    {"document", NULL},
    {"article", NULL},
    {"headline", NULL},
    {"title", NULL},
    {"description", NULL},
    {"abstract", NULL},
    {"excerpt", NULL},
    {"summary", NULL},
    {"phrase", NULL},
    {"statement", NULL},
    {"question", NULL},
    {"query", NULL},
};
/* What is a target only where targets are asked for. */
#define TARGET_LABEL "label"
/* Of sources and targets, in the same order: transformers' examples, and data sets of summaries, answers and corrections. */
static const struct {
    const char *source, *target;
} usual_targets[] = {
    {"source", "target"},
    {"article", "highlights"},
    {"document", "summary"},
    {"dialogue", "summary"},
    {"text", "summary"},
    {"article", "summary"},
    {"article", "abstract"},
    {"text", "target"},
    {"input", "output"},
    {"input", "target"},
    {"input_text", "target_text"},
    {"inputs", "targets"},
    {"question", "answer"},
    {"prompt", "completion"},
    {"instruction", "output"},
    {"instruction", "response"},
    {"prompt", "response"},
    {"src", "tgt"},
    {"text", "title"},
    {"body", "title"},
    {"text", "headline"},
    {"text", TARGET_LABEL},
};
static const char *const usual_labels[] = {
    "label",
    "labels",
    "category",
    "target",
    "intent",
    "class",
    "score",
    "sentiment",
    "emotion",
    "gold_label",
    "topic",
    "rating",
    "stars",
    "genre",
    "tag",
    "polarity",
    "label_text",
    "label_name",
    "class_label",
    "class_index",
    "class_name",
    "is_duplicate",
    "similarity",
    "similarity_score",
    "relatedness_score",
};

/* ---- the names ---- */

static int find_exactly(const struct columns *c, const char *name)
{
    for (int i = 0; i < c->n; i++)
        if (strcmp(c->names[i], name) == 0)
            return i;
    return -1;
}

int columns_add(struct columns *c, const char *path, const char *name, struct snug_err *err)
{
    if (*name && find_exactly(c, name) >= 0)
        return err_set(err, SNUG_ERR_INPUT, "%s:1: two columns are called '%s'; rename one", path, name);
    char *copy = arena_strdup(&c->arena, name);
    if (!copy || !MEM_GROW(c->names, c->names_cap, (size_t)c->n + 1))
        return err_no_memory(err, strlen(name) + 1);
    c->names[c->n++] = copy;
    return SNUG_OK;
}

void columns_free(struct columns *c)
{
    mem_free(c->names);
    arena_free(&c->arena);
    *c = (struct columns){0};
}

json_t *columns_value(json_t *row, const char *name)
{
    json_t *value = json_object_get(row, name);
    char outer[256];
    for (const char *dot = strchr(name, '.'); !value && dot; dot = strchr(dot + 1, '.')) {
        int n = snprintf(outer, sizeof outer, "%.*s", (int)(dot - name), name);
        value = n < (int)sizeof outer ? columns_value(json_object_get(row, outer), dot + 1) : NULL;
    }
    return value;
}

/* ---- those that an option names ---- */

/* As written; else in another case, if only one column is called so. */
static int find_named(const struct columns *c, const char *name)
{
    int found = find_exactly(c, name), others = 0;
    for (int i = 0; i < c->n && found < 0; i++)
        others += strcasecmp(c->names[i], name) == 0;
    for (int i = 0; i < c->n && found < 0 && others == 1; i++)
        if (strcasecmp(c->names[i], name) == 0)
            found = i;
    return found;
}

static int no_column(const struct columns *c, const char *path, const char *name, struct snug_err *err)
{
    struct str list = {0};
    columns_listed(c, &list);
    int code = str_check(&list, err);
    if (!code)
        code = err_set(err, SNUG_ERR_INPUT, "%s: no column '%s'; there are: %s", path, name, str_text(&list));
    str_free(&list);
    return code;
}

static int named(struct columns *c, const char *path, const char *name, int *column, struct snug_err *err)
{
    *column = find_named(c, name);
    if (*column < 0 && columns_value(c->row, name)) {
        TRY(columns_add(c, path, name, err));
        *column = c->n - 1;
    }
    return *column < 0 ? no_column(c, path, name, err) : SNUG_OK;
}

static int add_label(struct columns *c, const char *path, const char *name, struct snug_err *err)
{
    int column;
    TRY(named(c, path, name, &column, err));
    for (int i = 0; i < c->n_labels; i++)
        if (c->labels[i] == column)
            return err_set(err, SNUG_ERR_USAGE, "--label-column: '%s' is there twice; name each column once", name);
    c->labels[c->n_labels++] = column;
    return SNUG_OK;
}

/* A column of just this name, commas and all; else a name between each two commas. */
static int named_labels(struct columns *c, const char *path, const char *names, struct snug_err *err)
{
    if (find_named(c, names) >= 0 || !strchr(names, ','))
        return add_label(c, path, names, err);
    struct arena a = {0};
    char *list = arena_strdup(&a, names);
    int code = list ? SNUG_OK : err_no_memory(err, strlen(names) + 1);
    for (char *name = list, *next; name && !code; name = next) {
        if ((next = strchr(name, ',')))
            *next++ = 0;
        name += strspn(name, " ");
        for (size_t n = strlen(name); n && name[n - 1] == ' '; n--)
            name[n - 1] = 0;
        code = add_label(c, path, name, err); /* each column once, so there is room */
    }
    arena_free(&a);
    return code;
}

/* ---- those with usual names ---- */

/* Without regard to case, and to what stands between words: "Review Text" is review_text. */
static bool is_called(const char *column, const char *name)
{
    for (;; column++, name++) {
        column += strspn(column, "_- ");
        name += strspn(name, "_- ");
        if (tolower((unsigned char)*column) != tolower((unsigned char)*name))
            return false;
        if (!*column)
            return true;
    }
}

bool columns_has(const struct columns *c, int column)
{
    bool taken = column == c->text || column == c->pair;
    for (int i = 0; i < c->n_labels; i++)
        taken |= c->labels[i] == column;
    return taken;
}

/* other_than: no column that this has; NULL: any. */
static int find_usual(const struct columns *c, const char *name, const struct columns *other_than)
{
    int found = find_exactly(c, name);
    for (int i = 0; i < c->n && (found < 0 || (other_than && columns_has(other_than, found))); i++)
        found = is_called(c->names[i], name) && !(other_than && columns_has(other_than, i)) ? i : -1;
    return found;
}

int columns_find_usual(const struct columns *c, const char *name)
{
    return find_usual(c, name, NULL);
}

static void guess_text(struct columns *c, bool pair_too)
{
    for (size_t i = 0; i < sizeof usual_texts / sizeof *usual_texts; i++) {
        int text = find_usual(c, usual_texts[i].text, c);
        int pair = usual_texts[i].pair ? find_usual(c, usual_texts[i].pair, c) : -1;
        if (text < 0 || (usual_texts[i].pair && (pair < 0 || !pair_too)))
            continue;
        c->text = text;
        c->pair = pair_too ? pair : c->pair;
        c->text_guessed = strcmp(c->names[text], "text") || (pair >= 0 && strcmp(c->names[pair], "text_pair"));
        return;
    }
}

/* The first pair of usual names that fits what is named, of which both columns are there. */
static void guess_target(struct columns *c, bool source_too, bool target_too)
{
    for (size_t i = 0; i < sizeof usual_targets / sizeof *usual_targets; i++) {
        int source = source_too ? find_usual(c, usual_targets[i].source, NULL) : c->text;
        int target = target_too ? find_usual(c, usual_targets[i].target, NULL) : c->pair;
        if (source < 0 || target < 0 || source == target)
            continue;
        c->text = source;
        c->pair = target;
        c->text_guessed = strcmp(c->names[source], "source") || strcmp(c->names[target], "target");
        c->target_is_label = target_too && !strcmp(usual_targets[i].target, TARGET_LABEL);
        return;
    }
}

/* The source becomes the text, the target its pair. */
static int find_target(struct columns *c, const struct dataset_options *o, struct snug_err *err)
{
    if (o->text_column)
        TRY(named(c, o->path, o->text_column, &c->text, err));
    if (o->target_column)
        TRY(named(c, o->path, o->target_column, &c->pair, err));
    if (!o->text_column || !o->target_column)
        guess_target(c, !o->text_column, !o->target_column);
    return SNUG_OK;
}

/* As the source of a pair of usual names, or with a source's name alone, or as any text. */
static int find_source(struct columns *c, const struct dataset_options *o, struct snug_err *err)
{
    if (o->text_column)
        return named(c, o->path, o->text_column, &c->text, err);
    guess_target(c, true, true);
    c->pair = -1;
    for (size_t i = 0; i < sizeof usual_targets / sizeof *usual_targets && c->text < 0; i++) {
        c->text = find_usual(c, usual_targets[i].source, NULL);
        c->text_guessed = i > 0;
    }
    if (c->text < 0)
        guess_text(c, false);
    return SNUG_OK;
}

static void guess_label(struct columns *c)
{
    for (size_t i = 0; i < sizeof usual_labels / sizeof *usual_labels && !c->n_labels; i++) {
        int label = find_usual(c, usual_labels[i], c);
        if (label >= 0)
            c->labels[c->n_labels++] = label;
    }
    const char *name = c->n_labels ? c->names[c->labels[0]] : "label";
    c->label_guessed = strcmp(name, "label") && strcmp(name, "labels");
}

int columns_find(struct columns *c, const struct dataset_options *o, bool labels, struct snug_err *err)
{
    c->text = c->pair = -1;
    size_t most = (size_t)c->n + 1 + (o->label_column ? strlen(o->label_column) : 0); /* with those in objects */
    c->labels = arena_alloc(&c->arena, most * sizeof *c->labels);
    if (!c->labels)
        return err_no_memory(err, most * sizeof *c->labels);
    if (o->task == TASK_SEQ2SEQ)
        return find_target(c, o, err);
    if (o->sources)
        return find_source(c, o, err);
    if (labels && o->label_column)
        TRY(named_labels(c, o->path, o->label_column, err));
    if (o->text_pair_column)
        TRY(named(c, o->path, o->text_pair_column, &c->pair, err));
    if (o->text_column)
        TRY(named(c, o->path, o->text_column, &c->text, err));
    else
        guess_text(c, !o->text_pair_column);
    if (labels && !o->label_column)
        guess_label(c);
    return SNUG_OK;
}

void columns_find_form(struct columns *c)
{
    static const struct {
        const char *name;
        enum row_form form;
    } names[] = {{"messages", ROWS_MESSAGES},
                 {"conversations", ROWS_CONVERSATIONS},
                 {"conversation", ROWS_CONVERSATIONS},
                 {"prompt", ROWS_PROMPT}};
    c->completion = find_exactly(c, "completion");
    for (size_t i = 0; i < sizeof names / sizeof *names && c->form == ROWS_TEXT; i++) {
        c->turns = find_exactly(c, names[i].name);
        if (c->turns >= 0 && (names[i].form != ROWS_PROMPT || c->completion >= 0))
            c->form = names[i].form;
    }
}

bool columns_find_words(struct columns *c, const struct dataset_options *o, bool labels)
{
    static const char *const words[] = {"tokens", "words"};
    static const char *const tags[] = {"tags", "ner_tags", "labels", "label", "ner", "tag", "pos_tags", "bio_tags"};
    int column = o->text_column ? c->text : -1, tag = -1;
    for (size_t i = 0; i < sizeof words / sizeof *words && column < 0; i++)
        column = find_usual(c, words[i], NULL);
    if (column < 0)
        return false;
    c->form = ROWS_WORDS;
    c->turns = column;
    c->text = c->pair = -1;
    c->text_guessed = false;
    if (!labels || o->label_column)
        return true;
    c->n_labels = 0;
    for (size_t i = 0; i < sizeof tags / sizeof *tags && tag < 0; i++)
        tag = find_usual(c, tags[i], NULL);
    if (tag >= 0)
        c->labels[c->n_labels++] = tag;
    c->label_guessed = tag >= 0 && strcmp(c->names[tag], "tags");
    return true;
}

void columns_listed(const struct columns *c, struct str *s)
{
    for (int i = 0; i < c->n; i++)
        str_printf(s, "%s%s", i ? ", " : "", *c->names[i] ? c->names[i] : "(no name)");
}
