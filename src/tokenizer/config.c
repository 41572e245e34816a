/* What transformers keeps beside the vocabulary: tokenizer_config.json, special_tokens_map.json and added_tokens.json.
 * Keys that do not concern ids are left alone. */
#include "tokenizer/steps/bert.h"

#include <stdlib.h>
#include <string.h>

enum { LIMIT = 64 * 1024 * 1024 };

const char *const special_token_keys[TOKEN_SPECIALS] = {
#define SPECIAL(id, key, bert) key,
    SPECIAL_TOKENS(SPECIAL)
#undef SPECIAL
};
static const char *const special_token_names[TOKEN_SPECIALS] = {
#define SPECIAL(id, key, bert) bert,
    SPECIAL_TOKENS(SPECIAL)
#undef SPECIAL
};

static int read_beside(const struct tokenizer_config *c, const struct io *io, struct tokenizer *t, const char *name,
                       const char **path, json_t **o, struct snug_err *err)
{
    *path = arena_printf(&t->arena, "%s/%s", c->dir, name);
    if (!*path)
        return err_no_memory(err, strlen(c->dir) + strlen(name));
    bool has;
    TRY(tokenizer_has_file(io, *path, &has, err));
    return has ? json_read_object(io, *path, LIMIT, o, err) : 0;
}

int tokenizer_config_read(struct tokenizer_config *c, const struct io *io, struct tokenizer *t, struct snug_err *err)
{
    for (int i = 0; i < TOKEN_SPECIALS; i++)
        t->special[i] = -1;
    TRY(read_beside(c, io, t, "tokenizer_config.json", &c->path, &c->config, err));
    TRY(read_beside(c, io, t, "special_tokens_map.json", &c->map_path, &c->map, err));
    TRY(read_beside(c, io, t, "config.json", &c->model_path, &c->model, err));
    if (c->config)
        TRY(json_get_string(c->config, c->path, "tokenizer_class", false, &c->class, err));
    if (c->model && !c->class)
        TRY(json_get_string(c->model, c->model_path, "tokenizer_class", false, &c->class, err));
    return c->model ? json_get_string(c->model, c->model_path, "model_type", false, &c->model_type, err) : 0;
}

void tokenizer_config_free(struct tokenizer_config *c)
{
    json_decref(c->config);
    json_decref(c->map);
    json_decref(c->model);
}

int tokenizer_config_flag(const struct tokenizer_config *c, const char *key, int *flag, struct snug_err *err)
{
    json_t *value = json_object_get(c->config, key);
    bool on = false;
    *flag = value ? FLAG_NULL : FLAG_ABSENT;
    if (value && !json_is_null(value)) {
        TRY(json_get_bool(c->config, c->path, key, true, &on, err));
        *flag = on;
    }
    return 0;
}

/* A token is "text" or {"content": "text", flags}. `token` holds the defaults of the flags. */
static int read_token(json_t *value, const char *path, const char *key, struct added_token *token, struct snug_err *err)
{
    char text[64];
    if (json_is_string(value)) {
        token->content = json_string_value(value);
        return 0;
    }
    if (!json_is_object(value))
        return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s; a token was expected", path, key,
                       json_value_text(value, text));
    TRY(json_get_string(value, path, "content", true, &token->content, err));
    TRY(json_get_bool(value, path, "single_word", false, &token->single_word, err));
    TRY(json_get_bool(value, path, "lstrip", false, &token->lstrip, err));
    TRY(json_get_bool(value, path, "rstrip", false, &token->rstrip, err));
    TRY(json_get_bool(value, path, "special", false, &token->special, err));
    return json_get_bool(value, path, "normalized", false, &token->normalized, err);
}

int tokenizer_config_token(const struct tokenizer_config *c, enum special_token which, struct added_token *token,
                           const char **path, struct snug_err *err)
{
    const char *key = special_token_keys[which];
    json_t *in_config = json_object_get(c->config, key), *in_map = json_object_get(c->map, key);
    json_t *value = in_config ? in_config : in_map;
    *path = in_config ? c->path : in_map ? c->map_path : NULL;
    *token = (struct added_token){.content = value ? NULL : special_token_names[which], .special = true};
    return value && !json_is_null(value) ? read_token(value, *path, key, token, err) : 0;
}

int tokenizer_config_special(const struct tokenizer_config *c, enum special_token which, const char **name,
                             struct snug_err *err)
{
    struct added_token token;
    const char *path;
    TRY(tokenizer_config_token(c, which, &token, &path, err));
    *name = token.content;
    return 0;
}

/* In transformers the classes with a BertNormalizer put these three of tokenizer_config.json into it, whatever
 * tokenizer.json says; the generic class does not. They have defaults there too, so that a tokenizer.json that keeps
 * upper case needs a do_lower_case beside it: here the file's word counts, and the user is told. */
static int apply_normalizer(const struct tokenizer_config *c, struct tokenizer *t, struct snug_err *err)
{
    static const char *const words[] = {"null", "false", "true"};
    bool generic = c->class && (!strcmp(c->class, "PreTrainedTokenizerFast") || !strcmp(c->class, "TokenizersBackend"));
    struct bert_normalizer *n = tokenizer_bert_normalizer(t);
    if (generic || !n)
        return 0;
    int lower = n->lowercase, han = n->handle_chinese_chars;
    const struct {
        const char *key, *in_json;
        int *value;
    } options[] = {{"do_lower_case", "lowercase", &lower},
                   {"tokenize_chinese_chars", "handle_chinese_chars", &han},
                   {"strip_accents", "strip_accents", &n->stated_accents}};
    for (size_t i = 0; i < sizeof options / sizeof *options; i++) {
        int stated;
        TRY(tokenizer_config_flag(c, options[i].key, &stated, err));
        if (stated == FLAG_ABSENT || stated == *options[i].value ||
            (stated == FLAG_NULL && options[i].value != &n->stated_accents))
            continue;
        TRY(tokenizer_add_note(t, err, "%s: %s %s wins over %s %s in tokenizer.json, as in transformers", c->path,
                               options[i].key, words[stated + 1], options[i].in_json, words[*options[i].value + 1]));
        *options[i].value = stated;
    }
    if (!lower && !json_object_get(c->config, "do_lower_case"))
        TRY(tokenizer_add_note(t, err,
                               "%s: keeps upper case; transformers would not, unless tokenizer_config.json has "
                               "\"do_lower_case\": false",
                               t->path));
    n->lowercase = lower;
    n->handle_chinese_chars = han;
    bert_normalizer_init(n, t->flags);
    return 0;
}

struct numbered {
    long long id;
    json_t *token;
};

static int by_number(const void *a, const void *b)
{
    const struct numbered *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

/* "added_tokens_decoder": {"30522": {"content": "<new>", flags}, …}; tokens get their ids in this order. */
static int apply_added_tokens(const struct tokenizer_config *c, struct tokenizer *t, struct snug_err *err)
{
    json_t *o = json_object_get(c->config, "added_tokens_decoder"), *value;
    if (!o || json_is_null(o))
        return 0;
    if (!json_is_object(o))
        return err_set(err, SNUG_ERR_INPUT, "%s: added_tokens_decoder is not an object; correct the file", c->path);
    size_t n = 0;
    struct numbered *list = arena_alloc(&t->arena, json_object_size(o) * sizeof *list);
    if (!list)
        return err_no_memory(err, json_object_size(o) * sizeof *list);
    const char *key;
    json_object_foreach(o, key, value)
    {
        char *end;
        list[n] = (struct numbered){strtoll(key, &end, 10), value};
        if (*key < '0' || *key > '9' || *end || list[n].id > INT32_MAX)
            return err_set(err, SNUG_ERR_INPUT, "%s: added_tokens_decoder has the key \"%s\"; an id was expected",
                           c->path, key);
        n++;
    }
    qsort(list, n, sizeof *list, by_number);
    for (size_t i = 0; i < n; i++) {
        struct added_token token = {0};
        TRY(json_get_bool(list[i].token, c->path, "special", false, &token.special, err));
        token.normalized = !token.special;
        TRY(read_token(list[i].token, c->path, "added_tokens_decoder", &token, err));
        TRY(tokenizer_add_token(t, token, list[i].id, c->path, err));
    }
    return 0;
}

/* The named ones. One that the configuration names becomes an added token, so that it is found in text; BERT's names
 * count as named in the class that reads vocab.txt. */
static int apply_special(const struct tokenizer_config *c, struct tokenizer *t, enum special_token which,
                         bool from_json, struct snug_err *err)
{
    struct added_token token;
    const char *path;
    TRY(tokenizer_config_token(c, which, &token, &path, err));
    bool counts = path || !from_json;
    if (!token.content)
        return 0;
    int32_t id = tokenizer_id(t, token.content);
    if (id < 0 && counts) {
        bool needed = which == TOKEN_UNK || which == TOKEN_SEP || which == TOKEN_PAD || which == TOKEN_CLS;
        if (needed)
            return err_set(err, SNUG_ERR_INPUT, "%s: %s \"%s\" is missing in the vocabulary of %s; add it", path,
                           special_token_keys[which], token.content, t->path);
        return tokenizer_add_note(t, err, "%s: has no %s \"%s\"; in a text it is nothing special", t->path,
                                  special_token_keys[which], token.content);
    }
    if (t->special[which] < 0)
        t->special[which] = id;
    bool added = trie_find(&t->added_ids, token.content, strlen(token.content)) >= 0;
    return counts && !added ? tokenizer_add_token(t, token, -1, t->path, err) : 0;
}

static int apply_more_special(const struct tokenizer_config *c, struct tokenizer *t, const char *key,
                              struct snug_err *err)
{
    json_t *list = json_object_get(c->config, key), *value;
    const char *path = list ? c->path : c->map_path, *name;
    if (!list)
        list = json_object_get(c->map, key);
    json_t *values = json_array();
    if (!values)
        return err_no_memory(err, 1);
    int code = 0;
    size_t i;
    json_array_foreach(list, i, value) /* nothing when it is no array */
        json_array_append(values, value);
    json_object_foreach(list, name, value) /* {"image_token": "<image>"} */
        json_array_append(values, value);
    json_array_foreach(values, i, value)
    {
        struct added_token token = {.special = true};
        TRY_TO(out, read_token(value, path, key, &token, err));
        if (trie_find(&t->added_ids, token.content, strlen(token.content)) < 0)
            TRY_TO(out, tokenizer_add_token(t, token, -1, path, err));
    }
out:
    json_decref(values);
    return code;
}

/* Old folders have a list of tokens and ids; it may only repeat what the other files say. */
static int check_added_tokens_file(const struct tokenizer_config *c, const struct io *io, struct tokenizer *t,
                                   struct snug_err *err)
{
    const char *path, *token;
    json_t *o = NULL, *id;
    TRY(read_beside(c, io, t, "added_tokens.json", &path, &o, err));
    int code = 0;
    json_object_foreach(o, token, id)
    {
        if (!json_is_integer(id) || json_integer_value(id) != tokenizer_id(t, token)) {
            code = err_set(err, SNUG_ERR_INPUT,
                           "%s: token \"%s\" is not in %s with that id; save the tokenizer again with transformers",
                           path, token, t->path);
            break;
        }
    }
    json_decref(o);
    return code;
}

static int apply_limits(const struct tokenizer_config *c, struct tokenizer *t, struct snug_err *err)
{
    const char *side = NULL;
    TRY(json_get_string(c->config, c->path, "truncation_side", false, &side, err));
    if (side && strcmp(side, "left") && strcmp(side, "right"))
        return err_set(err, SNUG_ERR_INPUT, "%s: truncation_side is \"%s\"; use \"left\" or \"right\"", c->path, side);
    if (side)
        t->truncate_left = *side == 'l';
    json_t *max = json_object_get(c->config, "model_max_length"); /* 1e30 stands for none */
    if (json_is_number(max) && json_number_value(max) >= 1 && json_number_value(max) < 1e12)
        t->max_length = (int64_t)json_number_value(max);
    return 0;
}

/* Of a translator's class, which goes by these whatever the post-processor has. Without a place for it there is no language. */
static int apply_languages(const struct tokenizer_config *c, struct tokenizer *t, struct snug_err *err)
{
    const char *source = NULL, *target = NULL;
    TRY(json_get_string(c->config, c->path, "src_lang", false, &source, err));
    TRY(json_get_string(c->config, c->path, "tgt_lang", false, &target, err));
    return (source || target) && tokenizer_has_languages(t) ? tokenizer_apply_languages(t, source, target, err)
                                                            : SNUG_OK;
}

int tokenizer_config_apply(const struct tokenizer_config *c, const struct io *io, struct tokenizer *t, bool from_json,
                           struct snug_err *err)
{
    int split;
    TRY(tokenizer_config_flag(c, "split_special_tokens", &split, err));
    if (split == 1)
        return err_set(err, SNUG_ERR_INPUT, "%s: split_special_tokens true is not supported; set it to false", c->path);
    if (from_json)
        TRY(apply_normalizer(c, t, err));
    TRY(apply_added_tokens(c, t, err));
    for (int i = 0; i < TOKEN_SPECIALS; i++)
        TRY(apply_special(c, t, (enum special_token)i, from_json, err));
    TRY(apply_more_special(c, t, "additional_special_tokens", err));
    TRY(apply_more_special(c, t, "extra_special_tokens", err));
    TRY(check_added_tokens_file(c, io, t, err));
    if (c->config)
        TRY(apply_languages(c, t, err));
    return c->config ? apply_limits(c, t, err) : 0;
}
