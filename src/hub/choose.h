/* choose.h: which files of a repository are needed. */
#ifndef HUB_CHOOSE_H
#define HUB_CHOOSE_H

#include "hub/get.h"

/* Paths below a repository, each of them safe (hub_path_is_safe); the texts are somebody else's. */
struct file_names {
    const char **items;
    size_t n, cap;
};
int file_names_add(struct file_names *l, const char *name, struct snug_err *err);
bool file_names_have(const struct file_names *l, const char *name);
void file_names_free(struct file_names *l);

#define WEIGHTS_INDEX "model.safetensors.index.json"

/* Of `all`, in *chosen; where that has WEIGHTS_INDEX, its shards come on top. SNUG_ERR_INPUT: the repository has nothing of the
 * kind, or more than one choice. */
int choose_files(const struct hub_wish *w, const struct file_names *all, struct file_names *chosen,
                 struct snug_err *err);

/* choose_rows.c: the same for rows. */
int choose_rows(const struct hub_wish *w, const struct file_names *all, struct file_names *chosen,
                struct snug_err *err);

#endif
