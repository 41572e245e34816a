/* folder.h: where a chat template comes from. */
#ifndef CHAT_FOLDER_H
#define CHAT_FOLDER_H

#include "chat/template.h"

/* The template of a model folder, as transformers finds it: chat_template.jinja, else chat_template.json, else
 * "chat_template" of tokenizer_config.json; of several with names the one called "default". *out NULL: there is none. */
int chat_template_of_folder(const struct io *io, const char *dir, struct chat_template **out, struct snug_err *err);

/* "chat_template" of an object such as tokenizer_config.json holds; *out NULL: it has none. `path` is for messages. */
int chat_template_of_json(json_t *file, const char *path, struct chat_template **out, struct snug_err *err);

/* A file: Jinja, or JSON with a member "chat_template". */
int chat_template_of_file(const struct io *io, const char *path, struct chat_template **out, struct snug_err *err);

#endif
