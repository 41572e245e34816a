#include "hub/choose.h"

#include "format/model_dir.h"

#include <string.h>
#include <strings.h>

int file_names_add(struct file_names *l, const char *name, struct snug_err *err)
{
    if (!MEM_GROW(l->items, l->cap, l->n + 1))
        return err_no_memory(err, (l->n + 1) * sizeof *l->items);
    l->items[l->n++] = name;
    return SNUG_OK;
}

bool file_names_have(const struct file_names *l, const char *name)
{
    for (size_t i = 0; i < l->n; i++)
        if (!strcmp(l->items[i], name))
            return true;
    return false;
}

void file_names_free(struct file_names *l)
{
    mem_free(l->items);
    *l = (struct file_names){0};
}

static int add_if_there(const char *name, const struct file_names *all, struct file_names *chosen, struct snug_err *err)
{
    return file_names_have(all, name) ? file_names_add(chosen, name, err) : SNUG_OK;
}

static const char *with_ending(const struct file_names *all, const char *ending)
{
    size_t n = strlen(ending);
    for (size_t i = 0; i < all->n; i++) {
        size_t length = strlen(all->items[i]);
        if (length > n && !strcasecmp(all->items[i] + length - n, ending))
            return all->items[i];
    }
    return NULL;
}

static int is_adapter(const struct hub_wish *w, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: is an adapter; give it as --adapter, and the model that it belongs to as --model", w->text);
}

static int no_config(const struct hub_wish *w, const struct file_names *all, struct snug_err *err)
{
    const char *gguf = with_ending(all, ".gguf");
    if (file_names_have(all, "adapter_config.json"))
        return is_adapter(w, err);
    if (gguf)
        return err_set(err, SNUG_ERR_INPUT, "%s: has GGUF files, and no config.json; name one of them, such as %s:%s",
                       w->text, w->name.repository, gguf);
    return err_set(err, SNUG_ERR_INPUT, "%s: has no config.json; give the repository of a transformers model", w->text);
}

static int no_weights(const struct hub_wish *w, const struct file_names *all, struct snug_err *err)
{
    const char *gguf = with_ending(all, ".gguf");
    if (file_names_have(all, "adapter_config.json"))
        return is_adapter(w, err);
    if (gguf)
        return err_set(err, SNUG_ERR_INPUT, "%s: has no model.safetensors; name one of its GGUF files, such as %s:%s",
                       w->text, w->name.repository, gguf);
    if (with_ending(all, ".bin") || with_ending(all, ".pt") || with_ending(all, ".h5"))
        return err_set(
            err, SNUG_ERR_INPUT,
            "%s: its weights are no safetensors, and those of PyTorch's own kind can run code; give a repository with "
            "model.safetensors",
            w->text);
    return err_set(err, SNUG_ERR_INPUT,
                   "%s: has no model.safetensors; give a repository with weights, or --init-from-config", w->text);
}

static int choose_model(const struct hub_wish *w, const struct file_names *all, struct file_names *chosen,
                        struct snug_err *err)
{
    if (!file_names_have(all, "config.json"))
        return no_config(w, all, err);
    TRY(file_names_add(chosen, "config.json", err));
    for (int i = 0; i < MODEL_DIR_CARRIED; i++)
        TRY(add_if_there(model_dir_carried[i], all, chosen, err));
    if (w->part == HUB_SETTINGS)
        return SNUG_OK;
    if (file_names_have(all, "model.safetensors"))
        return file_names_add(chosen, "model.safetensors", err);
    return file_names_have(all, WEIGHTS_INDEX) ? file_names_add(chosen, WEIGHTS_INDEX, err) : no_weights(w, all, err);
}

static int choose_adapter(const struct hub_wish *w, const struct file_names *all, struct file_names *chosen,
                          struct snug_err *err)
{
    static const char *const needed[] = {"adapter_config.json", "adapter_model.safetensors"};
    for (int i = 0; i < 2; i++) {
        if (!file_names_have(all, needed[i]))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: has no %s; give the repository of an adapter that PEFT or snug has written", w->text,
                           needed[i]);
        TRY(file_names_add(chosen, needed[i], err));
    }
    for (int i = 0; i < MODEL_DIR_CARRIED; i++)
        if (!strchr(model_dir_carried[i], '/')) /* those of tokenizers */
            TRY(add_if_there(model_dir_carried[i], all, chosen, err));
    return SNUG_OK;
}

static int choose_named(const struct hub_wish *w, const struct file_names *all, struct file_names *chosen,
                        struct snug_err *err)
{
    const char *file = w->name.file, *dot = strrchr(file, '.');
    if (!hub_wants_rows(w) && (w->part == HUB_ADAPTER || !dot || strcasecmp(dot, ".gguf") != 0))
        return err_set(err, SNUG_ERR_INPUT, "%s: of a %s only a GGUF file may be named; give %s", w->text,
                       w->part == HUB_ADAPTER ? "repository" : "model", w->name.repository);
    if (!file_names_have(all, file))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: %s has no such file; look at the names of its files, upper and lower case count", w->text,
                       w->name.repository);
    return file_names_add(chosen, file, err);
}

int choose_files(const struct hub_wish *w, const struct file_names *all, struct file_names *chosen,
                 struct snug_err *err)
{
    if (w->name.file[0])
        return choose_named(w, all, chosen, err);
    if (hub_wants_rows(w))
        return choose_rows(w, all, chosen, err);
    return w->part == HUB_ADAPTER ? choose_adapter(w, all, chosen, err) : choose_model(w, all, chosen, err);
}
