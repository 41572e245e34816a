/* WordLevel: each word is a token, or the unknown one. */
#include "tokenizer/steps/step.h"

#include <string.h>

int model_WordLevel_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    int32_t *unk = step_state(t, sizeof *unk, state, err);
    const char *name = "<unk>";
    if (!unk)
        return SNUG_ERR_ENV;
    TRY(ONLY_KEYS(t, o, "model", err, "vocab", "unk_token"));
    TRY(json_get_string(o, t->path, "unk_token", true, &name, err));
    TRY(tokenizer_read_ids(t, json_object_get(o, "vocab"), err));
    t->special[TOKEN_UNK] = *unk = trie_find(&t->vocab, name, strlen(name));
    return 0;
}

int model_WordLevel_run(const void *state, struct encoder *e, struct text word)
{
    const int32_t *unk = state;
    int32_t id = trie_find(&e->t->vocab, word.s, word.n);
    if (id < 0 && *unk < 0)
        return err_set(e->err, SNUG_ERR_INPUT, "the text holds a word that %s does not know, and it has no unk_token",
                       e->t->path);
    return push_token(e, id < 0 ? *unk : id, word, 0, word.n);
}

void model_WordLevel_hash(const void *state, struct hash_state *h)
{
    hash_add(h, state, sizeof(int32_t));
}
