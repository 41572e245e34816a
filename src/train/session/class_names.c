#include "train/session/class_names.h"

#include "train/session/model_folder.h"

#include <stdio.h>
#include <string.h>

/* Whether all names are those that transformers gives classes without names; then names in the data take their place. */
static bool are_defaults(json_t *names)
{
    const char *id;
    json_t *name;
    json_object_foreach(names, id, name)
    {
        const char *text = json_string_value(name);
        if (!text || strncmp(text, "LABEL_", 6) || strcmp(text + 6, id))
            return false;
    }
    return true;
}

int class_names_of_model(struct session *s, struct snug_err *err)
{
    json_t *names = json_object_get(s->dir.config, "id2label");
    if (!model_task(&s->model)->classes || s->head_is_new || !json_is_object(names))
        return SNUG_OK;
    if (model_folder_head_may_go(s) && s->look.names && are_defaults(names))
        return SNUG_OK;
    const char **list = mem_alloc((size_t)s->model.num_labels * sizeof *list);
    if (!list)
        return err_no_memory(err, (unsigned long long)s->model.num_labels * sizeof *list);
    for (int64_t i = 0; i < s->model.num_labels; i++) {
        char key[24];
        snprintf(key, sizeof key, "%lld", (long long)i);
        list[i] = json_string_value(json_object_get(names, key));
    }
    int code = label_map_init(&s->labels, list, (int32_t)s->model.num_labels, s->dir.config_path, err);
    mem_free(list);
    return code;
}

int class_names_of_data(struct session *s, const struct dataset *d, struct snug_err *err)
{
    if (s->labels.n || !d->labels.n)
        return SNUG_OK;
    TRY(label_map_init(&s->labels, (const char *const *)d->labels.names, d->labels.n, "labels", err));
    s->labels.from_data = d->labels.from_data;
    s->labels.numbers = d->labels.numbers;
    s->labels.numerals = d->labels.numerals;
    return SNUG_OK;
}

const char *class_name(const struct session *s, int32_t id, char *buf)
{
    if (id >= 0 && id < s->labels.n)
        return s->labels.names[id];
    snprintf(buf, 32, "LABEL_%d", id);
    return buf;
}

int class_names_to_config(const struct session *s, json_t *config)
{
    json_t *names = json_object(), *ids = json_object();
    int failed = 0;
    for (int32_t i = 0; i < s->model.num_labels; i++) {
        char key[24], buf[32];
        snprintf(key, sizeof key, "%d", i);
        const char *name = class_name(s, i, buf);
        failed |= json_object_set_new(names, key, json_string(name));
        failed |= json_object_set_new(ids, name, json_integer(i));
    }
    failed |= json_object_set_new(config, "id2label", names);
    return failed | json_object_set_new(config, "label2id", ids);
}
