/* tokenizer.json. Every key is known here or refused: what is skipped would change ids. */
#include "tokenizer/parts.h"

#include <string.h>

enum { LIMIT = 256 * 1024 * 1024 };

static int not_supported(struct tokenizer *t, const char *what, json_t *value, const char *supported,
                         struct snug_err *err)
{
    char text[64];
    return err_set(err, SNUG_ERR_INPUT, "%s: %s %s is not supported; supported: %s", t->path, what,
                   json_value_text(value, text), supported);
}

/* Refuses every key of `o` that `known` (a NULL ends it) does not list. `what` names the object. */
static int only_keys(struct tokenizer *t, json_t *o, const char *what, const char *const *known, struct snug_err *err)
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
#define ONLY_KEYS(t, o, what, err, ...) only_keys(t, o, what, (const char *const[]){__VA_ARGS__, NULL}, err)

/* *section: the object at `key`, NULL when it is null or absent. */
static int get_section(struct tokenizer *t, json_t *o, const char *key, json_t **section, struct snug_err *err)
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

static bool has_type(json_t *section, const char *type)
{
    json_t *t = json_object_get(section, "type");
    return json_is_string(t) && strcmp(json_string_value(t), type) == 0;
}

static int read_normalizer(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    json_t *n;
    TRY(get_section(t, o, "normalizer", &n, err));
    if (!n)
        return 0;
    if (!has_type(n, "BertNormalizer"))
        return not_supported(t, "normalizer.type", json_object_get(n, "type"), "BertNormalizer, null", err);
    TRY(ONLY_KEYS(t, n, "normalizer", err, "type", "clean_text", "handle_chinese_chars", "strip_accents", "lowercase"));
    bool strip = false;
    TRY(json_get_bool(n, t->path, "clean_text", true, &t->normalizer.clean_text, err));
    TRY(json_get_bool(n, t->path, "handle_chinese_chars", true, &t->normalizer.handle_chinese_chars, err));
    TRY(json_get_bool(n, t->path, "lowercase", true, &t->normalizer.lowercase, err));
    TRY(json_get_bool(n, t->path, "strip_accents", false, &strip, err));
    t->strip_accents = json_is_boolean(json_object_get(n, "strip_accents")) ? strip : FLAG_NULL;
    t->has_normalizer = true;
    return 0;
}

static int read_pre_tokenizer(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    json_t *p;
    TRY(get_section(t, o, "pre_tokenizer", &p, err));
    if (!p)
        return 0;
    if (!has_type(p, "BertPreTokenizer"))
        return not_supported(t, "pre_tokenizer.type", json_object_get(p, "type"), "BertPreTokenizer, null", err);
    t->has_split = true;
    return ONLY_KEYS(t, p, "pre_tokenizer", err, "type");
}

/* n tokens must have the ids 0 to n-1, for an embedding has a row for each. */
static int read_vocab(struct tokenizer *t, json_t *model, struct snug_err *err)
{
    json_t *vocab = json_object_get(model, "vocab"), *id;
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

static int read_model(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    json_t *m;
    TRY(get_section(t, o, "model", &m, err));
    if (!m)
        return err_set(err, SNUG_ERR_INPUT, "%s: has no \"model\"; is it a tokenizer?", t->path);
    /* Old files leave the type out; no other model has max_input_chars_per_word and a prefix. */
    bool untyped = !json_object_get(m, "type") && json_object_get(m, "continuing_subword_prefix") &&
                   json_object_get(m, "max_input_chars_per_word");
    if (!untyped && !has_type(m, wordpiece_model.type))
        return not_supported(t, "model.type", json_object_get(m, "type"), wordpiece_model.type, err);
    TRY(ONLY_KEYS(t, m, "model", err, "type", "unk_token", "continuing_subword_prefix", "max_input_chars_per_word",
                  "vocab"));
    const char *unk, *prefix;
    int64_t max_chars = 0;
    TRY(json_get_string(m, t->path, "unk_token", true, &unk, err));
    TRY(json_get_string(m, t->path, "continuing_subword_prefix", true, &prefix, err));
    TRY(json_get_int(m, t->path, "max_input_chars_per_word", true, 0, INT64_MAX, &max_chars, err));
    TRY(read_vocab(t, m, err));
    return wordpiece_init(t, unk, prefix, max_chars, err);
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
        TRY(ONLY_KEYS(t, a, "added_tokens", err, "id", "content", "single_word", "lstrip", "rstrip", "normalized",
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

static int get_ids(struct tokenizer *t, json_t *list, const char *name, struct template_part *part,
                   struct snug_err *err)
{
    size_t n = json_array_size(list);
    int32_t *ids = arena_alloc(&t->arena, n * sizeof *ids);
    if (!ids)
        return err_no_memory(err, n * sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        char text[64];
        json_t *id = json_array_get(list, i);
        json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (value < 0 || (uint64_t)value >= t->n_tokens)
            return err_set(err, SNUG_ERR_INPUT, "%s: post_processor: \"%s\" has id %s; the vocabulary has 0 to %zu",
                           t->path, name, json_value_text(id, text), t->n_tokens - 1);
        ids[i] = (int32_t)value;
    }
    part->ids = ids;
    part->n_ids = n;
    return 0;
}

/* {"Sequence": {"id": "A", "type_id": 0}} or {"SpecialToken": {"id": "[CLS]", "type_id": 0}} */
static int read_part(struct tokenizer *t, json_t *o, json_t *specials, struct template_part *part, struct snug_err *err)
{
    json_t *sequence = json_object_get(o, "Sequence"), *special = json_object_get(o, "SpecialToken");
    json_t *body = sequence ? sequence : special;
    if (json_object_size(o) != 1 || !json_is_object(body))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: post_processor: a part is neither Sequence nor SpecialToken; correct it", t->path);
    TRY(ONLY_KEYS(t, body, "post_processor", err, "id", "type_id"));
    const char *id;
    int64_t type_id = 0;
    TRY(json_get_string(body, t->path, "id", true, &id, err));
    TRY(json_get_int(body, t->path, "type_id", true, 0, UINT8_MAX, &type_id, err));
    part->type_id = (int32_t)type_id;
    if (sequence) {
        if (strcmp(id, "A") && strcmp(id, "B"))
            return err_set(err, SNUG_ERR_INPUT, "%s: post_processor: Sequence id \"%s\" is neither \"A\" nor \"B\"",
                           t->path, id);
        part->kind = *id == 'A' ? PART_A : PART_B;
        return 0;
    }
    part->kind = PART_SPECIAL;
    json_t *ids = json_object_get(json_object_get(specials, id), "ids");
    if (!json_is_array(ids))
        return err_set(err, SNUG_ERR_INPUT, "%s: post_processor: \"%s\" is not in its special_tokens; add its ids",
                       t->path, id);
    return get_ids(t, ids, id, part, err);
}

static int read_template(struct tokenizer *t, json_t *processor, const char *key, struct template *form,
                         struct snug_err *err)
{
    json_t *list = json_object_get(processor, key), *o;
    if (!json_is_array(list))
        return err_set(err, SNUG_ERR_INPUT, "%s: post_processor.%s is not an array; correct the file", t->path, key);
    *form = (struct template){.n_parts = json_array_size(list)};
    form->parts = arena_alloc(&t->arena, form->n_parts * sizeof *form->parts);
    if (!form->parts)
        return err_no_memory(err, form->n_parts * sizeof *form->parts);
    bool has[2] = {false};
    size_t i, added = 0;
    json_array_foreach(list, i, o)
    {
        TRY(read_part(t, o, json_object_get(processor, "special_tokens"), &form->parts[i], err));
        if (form->parts[i].kind != PART_SPECIAL)
            has[form->parts[i].kind] = true;
        added += form->parts[i].n_ids;
    }
    bool pair = form == &t->pair;
    if (!has[PART_A] || has[PART_B] != pair)
        return err_set(err, SNUG_ERR_INPUT, "%s: post_processor.%s must hold %s; correct the file", t->path, key,
                       pair ? "both sequences, A and B" : "sequence A and not B");
    form->added = added > 1000000 ? 1000000 : (int)added;
    return 0;
}

/* ["[SEP]", 102] of BertProcessing */
static int read_name_and_id(struct tokenizer *t, json_t *processor, const char *key, struct template_part *part,
                            struct snug_err *err)
{
    json_t *two = json_object_get(processor, key);
    if (json_array_size(two) != 2 || !json_is_string(json_array_get(two, 0)))
        return err_set(err, SNUG_ERR_INPUT, "%s: post_processor.%s is not [\"token\", id]; correct the file", t->path,
                       key);
    json_t *list = json_pack("[O]", json_array_get(two, 1));
    if (!list)
        return err_no_memory(err, sizeof(json_int_t));
    part->kind = PART_SPECIAL;
    int code = get_ids(t, list, json_string_value(json_array_get(two, 0)), part, err);
    json_decref(list);
    return code;
}

int tokenizer_bert_template(struct tokenizer *t, struct template_part cls, struct template_part sep,
                            struct snug_err *err)
{
    struct template_part *parts = arena_alloc(&t->arena, 8 * sizeof *parts);
    if (!parts)
        return err_no_memory(err, 8 * sizeof *parts);
    struct template_part a = {.kind = PART_A}, b = {.kind = PART_B, .type_id = 1}, sep_b = sep;
    sep_b.type_id = 1;
    memcpy(parts, (struct template_part[]){cls, a, sep, cls, a, sep, b, sep_b}, 8 * sizeof *parts);
    t->single = (struct template){parts, 3, 2};
    t->pair = (struct template){parts + 3, 5, 3};
    return 0;
}

static int no_template(struct tokenizer *t, struct snug_err *err)
{
    struct template_part *parts = arena_alloc(&t->arena, 2 * sizeof *parts);
    if (!parts)
        return err_no_memory(err, 2 * sizeof *parts);
    parts[0].kind = PART_A;
    parts[1] = (struct template_part){.kind = PART_B, .type_id = 1};
    t->single = (struct template){parts, 1, 0};
    t->pair = (struct template){parts, 2, 0};
    return 0;
}

static int read_post_processor(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    json_t *p;
    TRY(get_section(t, o, "post_processor", &p, err));
    if (!p)
        return no_template(t, err);
    if (has_type(p, "BertProcessing")) {
        struct template_part cls = {0}, sep = {0};
        TRY(ONLY_KEYS(t, p, "post_processor", err, "type", "sep", "cls"));
        TRY(read_name_and_id(t, p, "cls", &cls, err));
        TRY(read_name_and_id(t, p, "sep", &sep, err));
        return tokenizer_bert_template(t, cls, sep, err);
    }
    if (!has_type(p, "TemplateProcessing"))
        return not_supported(t, "post_processor.type", json_object_get(p, "type"),
                             "TemplateProcessing, BertProcessing, null", err);
    TRY(ONLY_KEYS(t, p, "post_processor", err, "type", "single", "pair", "special_tokens"));
    TRY(read_template(t, p, "single", &t->single, err));
    return read_template(t, p, "pair", &t->pair, err);
}

/* Options decide about these two; only the side to cut from is taken. The decoder has no part in encoding. */
static int read_the_rest(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    json_t *truncation, *padding, *decoder;
    TRY(get_section(t, o, "truncation", &truncation, err));
    TRY(get_section(t, o, "padding", &padding, err));
    TRY(get_section(t, o, "decoder", &decoder, err));
    if (decoder && !has_type(decoder, "WordPiece"))
        return not_supported(t, "decoder.type", json_object_get(decoder, "type"), "WordPiece, null", err);
    if (truncation) {
        const char *direction = "Right";
        TRY(json_get_string(truncation, t->path, "direction", false, &direction, err));
        if (strcmp(direction, "Left") && strcmp(direction, "Right"))
            return not_supported(t, "truncation.direction", json_object_get(truncation, "direction"), "Left, Right",
                                 err);
        t->truncate_left = *direction == 'L';
    }
    if (!truncation && !padding)
        return 0;
    t->unused = arena_printf(&t->arena, "%s: its %s%s%s not used; --max-length decides, and nothing is padded", t->path,
                             truncation ? "truncation" : "", truncation && padding ? " and " : "",
                             padding ? (truncation ? "padding are" : "padding is") : " is");
    return t->unused ? 0 : err_no_memory(err, 512);
}

static int read_object(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    const char *version = "1.0";
    TRY(ONLY_KEYS(t, o, "the file", err, "version", "truncation", "padding", "added_tokens", "normalizer",
                  "pre_tokenizer", "post_processor", "decoder", "model"));
    TRY(json_get_string(o, t->path, "version", false, &version, err));
    if (strcmp(version, "1.0"))
        return not_supported(t, "version", json_object_get(o, "version"), "\"1.0\"", err);
    TRY(read_model(t, o, err));
    TRY(read_normalizer(t, o, err));
    TRY(read_pre_tokenizer(t, o, err));
    TRY(read_added_tokens(t, o, err));
    TRY(read_post_processor(t, o, err));
    return read_the_rest(t, o, err);
}

int tokenizer_read_json(struct tokenizer *t, const struct io *io, struct snug_err *err)
{
    json_t *o;
    TRY(json_read_object(io, t->path, LIMIT, &o, err));
    int code = read_object(t, o, err);
    json_decref(o);
    return code;
}
