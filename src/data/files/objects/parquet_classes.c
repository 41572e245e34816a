/* Names of classes. The datasets library writes the types of its columns into the footer, under the key "huggingface":
 *
 *     {"info": {"features": {"label": {"names": ["sad", "glad"], "_type": "ClassLabel"},
 *                            "tags": {"feature": {"names": ["O", "B-PER"], "_type": "ClassLabel"}, "_type": "List"}}}}
 *
 * A struct is an object of such types, or in older files a list with one of them. */
#include "data/files/objects/parquet.h"

#include "format/json.h"

#include <string.h>

struct naming {
    struct parquet_footer *footer;
    const struct parquet_leaf *leaves;
    struct snug_err *err;
};

static bool is_class(json_t *feature, json_t *names)
{
    const char *type = json_string_value(json_object_get(feature, "_type"));
    size_t i;
    json_t *name;
    json_array_foreach(names, i, name) if (!json_is_string(name)) return false;
    return type && !strcmp(type, "ClassLabel") && json_array_size(names);
}

static int name_leaf(const struct naming *n, json_t *feature, struct parquet_node *node)
{
    json_t *list = json_object_get(feature, "names");
    if (!is_class(feature, list) || n->leaves[node->leaf].meaning != PARQUET_WHOLE)
        return SNUG_OK;
    size_t count = json_array_size(list);
    const char **names = arena_alloc(&n->footer->arena, count * sizeof *names);
    for (size_t i = 0; names && i < count; i++)
        if (!(names[i] = arena_strdup(&n->footer->arena, json_string_value(json_array_get(list, i)))))
            names = NULL;
    if (!names)
        return err_no_memory(n->err, count * sizeof *names);
    node->names = names;
    node->n_names = count;
    return SNUG_OK;
}

static int name_node(const struct naming *n, json_t *feature, struct parquet_node *node);

/* A list of structs in features may be a struct of lists in the file: then `item` is the type of what is in them. */
static int name_struct(const struct naming *n, json_t *feature, struct parquet_node *node)
{
    json_t *item = json_object_get(feature, "feature");
    bool of_lists = json_is_object(item) && json_is_string(json_object_get(feature, "_type"));
    for (int i = 0; i < node->n_children; i++) {
        struct parquet_node *child = &node->children[i];
        json_t *type = json_object_get(of_lists ? item : feature, child->name);
        bool inner = of_lists && child->kind == PARQUET_LIST;
        TRY(name_node(n, type, inner ? child->children : child));
    }
    return SNUG_OK;
}

static int name_node(const struct naming *n, json_t *feature, struct parquet_node *node)
{
    if (node->kind == PARQUET_LEAF)
        return name_leaf(n, feature, node);
    if (node->kind == PARQUET_STRUCT)
        return name_struct(n, feature, node);
    json_t *item = json_is_array(feature) ? json_array_get(feature, 0) : json_object_get(feature, "feature");
    return name_node(n, item, node->children);
}

int parquet_find_classes(struct parquet_footer *f, struct parquet_schema *schema, struct snug_err *err)
{
    const struct parquet_key *keys = f->keys.items;
    struct naming n = {.footer = f, .leaves = schema->leaves, .err = err};
    int code = SNUG_OK;
    for (size_t i = 0; i < f->keys.n && !code; i++) {
        json_t *meta;
        bool is_it = keys[i].key.n == strlen("huggingface") && !memcmp(keys[i].key.s, "huggingface", keys[i].key.n);
        if (!is_it || json_parse(keys[i].value.s, keys[i].value.n, "huggingface", &meta, NULL))
            continue;
        code = name_struct(&n, json_object_get(json_object_get(meta, "info"), "features"), &schema->root);
        json_decref(meta);
    }
    return code;
}

const char *const *parquet_classes(const struct parquet *p, const char *column, size_t *n)
{
    const struct parquet_node *root = &p->schema.root, *node = NULL;
    for (int i = 0; i < root->n_children && !node; i++)
        if (!strcmp(root->children[i].name, column))
            node = &root->children[i];
    if (node && node->kind == PARQUET_LIST)
        node = node->children;
    *n = node ? node->n_names : 0;
    return node ? node->names : NULL;
}
