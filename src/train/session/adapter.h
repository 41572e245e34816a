/* adapter.h: the adapter (LoRA) that a session trains, or that it puts on its model: --use-peft, --adapter. */
#ifndef TRAIN_SESSION_ADAPTER_H
#define TRAIN_SESSION_ADAPTER_H

#include "adapter/match.h"
#include "format/model_dir.h"

struct session;

struct session_adapter {
    bool wanted;
    json_t *doc; /* as in adapter_config.json */
    struct adapter_config config;
    struct adapter_set set;
    struct model_dir dir; /* of --adapter */
    bool opened_dir;
};

/* Opens the folder of --adapter, and takes what it knows of the task's head into the configuration of the model's folder: the number of
 * labels and their names. To be called before that is read. */
int session_adapter_open(struct session *s, struct snug_err *err);

/* With the task and its labels known: decides which layers have adapters, tells it in a note, and puts them into the settings to
 * compile. SNUG_ERR_INPUT where the folder's tensors are not those of such an adapter. */
int session_adapter_match(struct session *s, struct snug_err *err);

/* The result's adapter_config.json; mem_free'd by the caller. */
int session_adapter_text(const struct session *s, char **text, struct snug_err *err);

/* The folder's tensor of weight `name`; NULL: none, or no folder. */
const struct model_tensor *session_adapter_tensor(const struct session *s, const char *name);

void session_adapter_close(struct session *s);

#endif
