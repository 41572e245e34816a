/* Which columns of a table hold words and their tags. */
#include "data/files/table.h"

static bool is_list(const struct table *t, int column)
{
    return json_is_array(json_object_get(t->object, t->columns.names[column]));
}

int word_columns_find(struct table *t, enum table_labels labels, struct snug_err *err)
{
    struct columns found = t->columns;
    bool asked = t->o->task == TASK_TOKEN_CLASS || t->format == FORMAT_CONLL, objects = table_has_objects(t);
    if (asked && !objects)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: %s has no words with tags; give .jsonl or .parquet with \"tokens\" and \"tags\", or .conll "
                       "with a word "
                       "and its tag on each line",
                       t->path, data_format_names[t->format]);
    if (!objects || !(asked || t->o->words || labels == TABLE_LABELS_IF_ANY))
        return SNUG_OK;
    bool words = columns_find_words(&found, t->o, labels != TABLE_NO_LABELS);
    bool shown = words && is_list(t, found.turns) && found.n_labels == 1 && is_list(t, found.labels[0]);
    if (words && (asked || (t->o->words && is_list(t, found.turns)) || shown))
        t->columns = found;
    if (asked && !words)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: no column with a usual name for the words, such as 'tokens'; name one with --text-column",
                       t->path);
    if (words && labels == TABLE_LABELS && t->columns.n_labels != 1)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: no column with a usual name for the tags, such as 'tags'; name one with --label-column",
                       t->path);
    return SNUG_OK;
}
