/* tokenizer.json. Every key is known here or refused: what is skipped would change ids. */
#include "tokenizer/steps/step.h"

#include <stdlib.h>
#include <string.h>

enum { LIMIT = 256 * 1024 * 1024 };

int step_not_supported(struct tokenizer *t, const char *what, json_t *value, const char *supported,
                       struct snug_err *err)
{
    char text[64];
    return err_set(err, SNUG_ERR_INPUT, "%s: %s %s is not supported; supported: %s", t->path, what,
                   json_value_text(value, text), supported);
}

int step_only_keys(struct tokenizer *t, json_t *o, const char *what, const char *const *known, struct snug_err *err)
{
    const char *key;
    json_t *value;
    json_object_foreach(o, key, value)
    {
        bool found = false;
        for (size_t i = 0; known[i] && !found; i++)
            found = strcmp(known[i], key) == 0;
        if (!found)
            return err_set(err, SNUG_ERR_INPUT, "%s: \"%s\" in %s is not supported; remove it if it has no effect",
                           t->path, key, what);
    }
    return 0;
}

int tokenizer_section(struct tokenizer *t, json_t *o, const char *key, json_t **section, struct snug_err *err)
{
    char text[64];
    *section = json_object_get(o, key);
    if (json_is_null(*section))
        *section = NULL;
    if (*section && !json_is_object(*section))
        return err_set(err, SNUG_ERR_INPUT, "%s: \"%s\" is %s; an object {...} was expected", t->path, key,
                       json_value_text(*section, text));
    return 0;
}

int step_get_string(struct tokenizer *t, json_t *o, const char *key, bool required, const char **out,
                    struct snug_err *err)
{
    const char *text = NULL;
    TRY(json_get_string(o, t->path, key, required, &text, err));
    if (!text)
        return 0;
    *out = arena_strdup(&t->arena, text);
    return *out ? 0 : err_no_memory(err, strlen(text) + 1);
}

void *step_state(struct tokenizer *t, size_t bytes, void **state, struct snug_err *err)
{
    *state = arena_alloc(&t->arena, bytes);
    if (!*state)
        err_no_memory(err, bytes);
    return *state;
}

/* n tokens must have the ids 0 to n-1, for an embedding has a row for each. */
int tokenizer_read_ids(struct tokenizer *t, json_t *vocab, struct snug_err *err)
{
    json_t *id;
    if (!vocab && t->n_vocab) /* read from vocab.txt */
        return 0;
    if (!json_is_object(vocab))
        return err_set(err, SNUG_ERR_INPUT, "%s: model.vocab is not an object of tokens and ids; is the file complete?",
                       t->path);
    size_t n = json_object_size(vocab);
    TRY(tokenizer_start_vocab(t, n, err));
    const char *token;
    json_object_foreach(vocab, token, id)
    {
        char text[64];
        json_int_t at = json_is_integer(id) ? json_integer_value(id) : -1;
        if (at < 0 || (size_t)at >= n)
            return err_set(err, SNUG_ERR_INPUT, "%s: token \"%s\" has id %s; the ids of %zu tokens must be 0 to %zu",
                           t->path, token, json_value_text(id, text), n, n - 1);
        if (t->tokens[at])
            return err_set(err, SNUG_ERR_INPUT, "%s: tokens \"%s\" and \"%s\" both have id %lld; ids must differ",
                           t->path, t->tokens[at], token, (long long)at);
        TRY(tokenizer_set_token(t, (size_t)at, token, err));
    }
    return 0;
}

/* Old files leave the type out. */
static const char *guess_model(json_t *m)
{
    if (json_object_get(m, "merges"))
        return "BPE";
    if (json_is_array(json_object_get(m, "vocab")))
        return "Unigram";
    return json_object_get(m, "continuing_subword_prefix") && json_object_get(m, "max_input_chars_per_word")
               ? "WordPiece"
               : NULL;
}

static int read_model(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    json_t *m;
    TRY(tokenizer_section(t, o, "model", &m, err));
    if (!m)
        return err_set(err, SNUG_ERR_INPUT, "%s: has no \"model\"; is it a tokenizer?", t->path);
    return json_object_get(m, "type") ? tokenizer_read_steps(t, STEP_MODEL, m, err)
                                      : tokenizer_add_step(t, STEP_MODEL, guess_model(m), m, err);
}

static int read_section(struct tokenizer *t, json_t *o, enum step_kind kind, const char *key, struct snug_err *err)
{
    json_t *section;
    TRY(tokenizer_section(t, o, key, &section, err));
    return tokenizer_read_steps(t, kind, section, err);
}

static int read_added_tokens(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    json_t *list = json_object_get(o, "added_tokens"), *a;
    if (list && !json_is_null(list) && !json_is_array(list))
        return err_set(err, SNUG_ERR_INPUT, "%s: \"added_tokens\" is not an array; correct the file", t->path);
    size_t i;
    json_array_foreach(list, i, a)
    {
        struct added_token token = {0};
        int64_t id = 0;
        if (!json_is_object(a))
            return err_set(err, SNUG_ERR_INPUT, "%s: added_tokens[%zu] is not an object; correct the file", t->path, i);
        TRY(ONLY_KEYS_OF(t, a, "added_tokens", err, "id", "content", "single_word", "lstrip", "rstrip", "normalized",
                         "special"));
        TRY(json_get_string(a, t->path, "content", true, &token.content, err));
        TRY(json_get_int(a, t->path, "id", true, 0, INT32_MAX, &id, err));
        TRY(json_get_bool(a, t->path, "single_word", true, &token.single_word, err));
        TRY(json_get_bool(a, t->path, "lstrip", true, &token.lstrip, err));
        TRY(json_get_bool(a, t->path, "rstrip", true, &token.rstrip, err));
        TRY(json_get_bool(a, t->path, "normalized", true, &token.normalized, err));
        TRY(json_get_bool(a, t->path, "special", true, &token.special, err));
        if (trie_find(&t->added_ids, token.content, strlen(token.content)) >= 0)
            return err_set(err, SNUG_ERR_INPUT, "%s: added token \"%s\" is given twice; remove one", t->path,
                           token.content);
        TRY(tokenizer_add_token(t, token, id, t->path, err));
    }
    return 0;
}

/* Options decide about these two; only the side to cut from is taken. */
static int read_limits(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    json_t *truncation, *padding;
    TRY(tokenizer_section(t, o, "truncation", &truncation, err));
    TRY(tokenizer_section(t, o, "padding", &padding, err));
    if (truncation) {
        const char *direction = "Right";
        TRY(json_get_string(truncation, t->path, "direction", false, &direction, err));
        if (strcmp(direction, "Left") && strcmp(direction, "Right"))
            return step_not_supported(t, "truncation.direction", json_object_get(truncation, "direction"),
                                      "Left, Right", err);
        t->truncate_left = *direction == 'L';
    }
    if (!truncation && !padding)
        return 0;
    t->unused = arena_printf(&t->arena, "%s: its %s%s%s not used; --max-length decides, and nothing is padded", t->path,
                             truncation ? "truncation" : "", truncation && padding ? " and " : "",
                             padding ? (truncation ? "padding are" : "padding is") : " is");
    return t->unused ? 0 : err_no_memory(err, 512);
}

/* What the hash of a tokenizer needs to know of its normalizers and pre-tokenizers. BERT's own are hashed by their switches
 * (build.c), which old caches and checkpoints know. */
static int keep_settings(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    json_t *normalizer = json_object_get(o, "normalizer"), *split = json_object_get(o, "pre_tokenizer");
    bool plain_text = !t->steps[STEP_NORMALIZER].n || tokenizer_only_step(t, STEP_NORMALIZER, "BertNormalizer");
    bool plain_words =
        !t->steps[STEP_PRE_TOKENIZER].n || tokenizer_only_step(t, STEP_PRE_TOKENIZER, "BertPreTokenizer");
    json_t *both = json_array();
    char *text = NULL;
    if (both && (plain_text || !json_array_append(both, normalizer)) &&
        (plain_words || !json_array_append(both, split)))
        text = json_dumps(both, JSON_SORT_KEYS | JSON_COMPACT);
    t->settings = text && json_array_size(both) ? arena_strdup(&t->arena, text) : NULL;
    bool failed = !text || (json_array_size(both) && !t->settings);
    free(text);
    json_decref(both);
    return failed ? err_no_memory(err, 1) : 0;
}

int tokenizer_read_object(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    const char *version = "1.0";
    TRY(ONLY_KEYS_OF(t, o, "the file", err, "version", "truncation", "padding", "added_tokens", "normalizer",
                     "pre_tokenizer", "post_processor", "decoder", "model"));
    TRY(json_get_string(o, t->path, "version", false, &version, err));
    if (strcmp(version, "1.0"))
        return step_not_supported(t, "version", json_object_get(o, "version"), "\"1.0\"", err);
    TRY(read_model(t, o, err));
    TRY(read_section(t, o, STEP_NORMALIZER, "normalizer", err));
    TRY(read_section(t, o, STEP_PRE_TOKENIZER, "pre_tokenizer", err));
    TRY(read_added_tokens(t, o, err));
    TRY(read_section(t, o, STEP_POST_PROCESSOR, "post_processor", err));
    TRY(tokenizer_default_template(t, err));
    TRY(read_section(t, o, STEP_DECODER, "decoder", err));
    TRY(keep_settings(t, o, err));
    return read_limits(t, o, err);
}

int tokenizer_read_json(struct tokenizer *t, const struct io *io, struct snug_err *err)
{
    json_t *o;
    TRY(json_read_object(io, t->path, LIMIT, &o, err));
    int code = tokenizer_read_object(t, o, err);
    json_decref(o);
    return code;
}
