/* tokenizer.json and tokenizer_config.json as a GGUF file's metadata. Byte-level BPE is written as it is, under the name that
 * llama.cpp has for its splits. BPE with byte fallback becomes SentencePiece's: a token's score is the rank of its merge. */
#include "format/gguf/pre.h"
#include "output/gguf/export_gguf.h"
#include "tokenizer/tokenizer.h"

#include <stdio.h>
#include <string.h>

enum { LIMIT = 256 << 20 };
/* tokenizer.ggml.token_type */
enum { NORMAL = 1, UNKNOWN, CONTROL, USER_DEFINED, UNUSED, BYTE };

struct vocabulary {
    const struct model_dir *d;
    json_t *tokenizer, *config; /* config may be NULL */
    json_t *model;              /* in tokenizer */
    bool spm;
    size_t n;      /* rows of the embeddings */
    size_t beyond; /* added tokens without a row */
    const char **tokens;
    int32_t *types;
    float *scores;
    char *path; /* of tokenizer.json, for messages */
    struct arena arena;
};

/* A file of the folder, or what stands for it; *out NULL: there is none. */
static int read_json(const struct model_dir *d, const char *name, json_t **out, struct snug_err *err)
{
    *out = NULL;
    for (size_t i = 0; i < d->n_made; i++)
        if (!strcmp(d->made[i].name, name))
            return json_parse(d->made[i].text, strlen(d->made[i].text), name, out, err);
    for (size_t i = 0; i < d->n_carried; i++)
        if (!strcmp(d->carried[i], name)) {
            char *path = model_dir_file(d, name);
            int code = path ? json_read_object(d->io, path, LIMIT, out, err) : err_no_memory(err, 256);
            mem_free(path);
            return code;
        }
    return SNUG_OK;
}

/* ---- the list of tokens ---- */

static int set_token(struct vocabulary *v, const char *text, json_t *id, int32_t type, struct snug_err *err)
{
    char value[64];
    json_int_t i = json_is_integer(id) ? json_integer_value(id) : -1;
    if (i < 0 || (size_t)i >= v->n)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: token \"%.60s\" has the id %s, and the embeddings have %zu rows; take both "
                       "from one model",
                       v->path, text, json_value_text(id, value), v->n);
    v->tokens[i] = text;
    v->types[i] = type;
    return SNUG_OK;
}

static bool is_byte(const char *text)
{
    return strlen(text) == 6 && !strncmp(text, "<0x", 3) && text[5] == '>';
}

static int list_tokens(struct vocabulary *v, struct snug_err *err)
{
    json_t *vocab = json_object_get(v->model, "vocab"), *added = json_object_get(v->tokenizer, "added_tokens"), *id,
           *token;
    const char *unk = json_string_value(json_object_get(v->model, "unk_token")), *text;
    size_t i;
    json_object_foreach(vocab, text, id) TRY(set_token(v, text, id, v->spm && is_byte(text) ? BYTE : NORMAL, err));
    json_array_foreach(added, i, token)
    {
        bool special = json_is_true(json_object_get(token, "special"));
        if (!(text = json_string_value(json_object_get(token, "content"))))
            return err_set(err, SNUG_ERR_INPUT, "%s: an added token has no content; correct the file", v->path);
        if (json_integer_value(json_object_get(token, "id")) >= (json_int_t)v->n) {
            v->beyond++; /* as Gemma 3's <image_soft_token>, which no text becomes */
            continue;
        }
        bool unknown = v->spm && unk && !strcmp(text, unk);
        TRY(set_token(v, text, json_object_get(token, "id"),
                      unknown   ? UNKNOWN
                      : special ? CONTROL
                                : USER_DEFINED,
                      err));
    }
    if (v->beyond)
        model_dir_note(v->d, "%s: %zu added tokens have no row in the embeddings and are left out", v->path, v->beyond);
    for (i = 0; i < v->n; i++)
        if (!v->tokens[i]) {
            v->types[i] = UNUSED;
            if (!(v->tokens[i] = arena_printf(&v->arena, "[PAD%zu]", i)))
                return err_no_memory(err, 32);
        }
    return SNUG_OK;
}

/* ---- merges ---- */

/* The two sides of a merge, "a b" or ["a", "b"], in new memory of the arena. */
static int merge_sides(struct vocabulary *v, json_t *merge, const char *side[2], struct snug_err *err)
{
    const char *text = json_string_value(merge), *blank = text ? strchr(text, ' ') : NULL;
    side[0] =
        blank ? arena_strndup(&v->arena, text, (size_t)(blank - text)) : json_string_value(json_array_get(merge, 0));
    side[1] = blank ? blank + 1 : json_string_value(json_array_get(merge, 1));
    if (blank && !side[0])
        return err_no_memory(err, strlen(text));
    if (!side[0] || !side[1])
        return err_set(err, SNUG_ERR_INPUT, "%s: model.merges has something else than pairs; correct the file",
                       v->path);
    return SNUG_OK;
}

static const char *merge_text(void *ctx, size_t i)
{
    return json_string_value(json_array_get(ctx, i));
}

static int put_merges(struct vocabulary *v, struct gguf_writer *w, struct snug_err *err)
{
    json_t *merges = json_object_get(v->model, "merges"), *texts = json_array(), *merge;
    size_t i;
    int code = texts ? SNUG_OK : err_no_memory(err, 64);
    json_array_foreach(merges, i, merge)
    {
        const char *side[2];
        if (code || (code = merge_sides(v, merge, side, err)))
            break;
        if (strchr(side[0], ' ') || strchr(side[1], ' '))
            code = err_set(err, SNUG_ERR_INPUT, "%s: a merge holds a blank, which a GGUF file cannot say", v->path);
        else if (json_array_append_new(texts, json_sprintf("%s %s", side[0], side[1])))
            code = err_no_memory(err, 64);
    }
    if (!code)
        gguf_put_texts(w, "tokenizer.ggml.merges", json_array_size(texts), merge_text, texts);
    json_decref(texts);
    return code;
}

/* Characters, which no merge makes, come behind all merges, in their order. */
static int put_scores(struct vocabulary *v, struct gguf_writer *w, struct snug_err *err)
{
    json_t *merges = json_object_get(v->model, "merges"), *vocab = json_object_get(v->model, "vocab"), *merge;
    size_t i, rank = json_array_size(merges);
    for (i = 0; i < v->n; i++)
        v->scores[i] = v->types[i] == NORMAL ? -(float)(rank + i) : 0;
    json_array_foreach(merges, i, merge)
    {
        const char *side[2];
        TRY(merge_sides(v, merge, side, err));
        char *whole = arena_printf(&v->arena, "%s%s", side[0], side[1]);
        if (!whole)
            return err_no_memory(err, 64);
        json_t *id = json_object_get(vocab, whole);
        size_t at = json_is_integer(id) ? (size_t)json_integer_value(id) : v->n;
        if (at < v->n && v->types[at] == NORMAL && v->scores[at] <= -(float)rank)
            v->scores[at] = -(float)i;
    }
    gguf_put_floats(w, "tokenizer.ggml.scores", v->n, v->scores);
    return SNUG_OK;
}

/* ---- how texts become words ---- */

static const char *type_name(const json_t *step)
{
    const char *name = json_string_value(json_object_get(step, "type"));
    return name ? name : "";
}

/* Whether the steps, one or a Sequence, have one of this type. */
static json_t *find_step(json_t *section, const char *list, const char *type)
{
    json_t *step;
    size_t i;
    if (!strcmp(type_name(section), type))
        return section;
    json_array_foreach(json_object_get(section, list), i, step) if (!strcmp(type_name(step), type)) return step;
    return NULL;
}

/* Blanks are "▁", with one in front of a text or not, and nothing else cuts it. */
static int put_spm(struct vocabulary *v, struct gguf_writer *w, struct snug_err *err)
{
    json_t *normalizer = json_object_get(v->tokenizer, "normalizer"),
           *pre = json_object_get(v->tokenizer, "pre_tokenizer");
    const char *scheme = json_string_value(json_object_get(pre, "prepend_scheme"));
    bool metaspace = !strcmp(type_name(pre), "Metaspace");
    /* Gemma's splits at blanks, of which the normalizer has left none. */
    bool none = !pre || json_is_null(pre) ||
                (!strcmp(type_name(pre), "Split") && find_step(normalizer, "normalizers", "Replace"));
    if (!none && !metaspace)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: pre_tokenizer \"%.40s\" with byte_fallback has no place in a GGUF file", v->path,
                       type_name(pre));
    gguf_put_text(w, "tokenizer.ggml.model", "llama");
    gguf_put_text(w, "tokenizer.ggml.pre", "default");
    gguf_put_bool(w, "tokenizer.ggml.add_space_prefix",
                  metaspace ? !scheme || strcmp(scheme, "never")
                            : find_step(normalizer, "normalizers", "Prepend") != NULL);
    return SNUG_OK;
}

static int put_byte_level(struct vocabulary *v, struct gguf_writer *w, struct snug_err *err)
{
    const struct gguf_pre *pre = gguf_pre_of(json_object_get(v->tokenizer, "pre_tokenizer"));
    char list[256];
    if (!pre)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: llama.cpp's name for this pre_tokenizer is not known; known are those of %s", v->path,
                       gguf_pre_list(list));
    gguf_put_text(w, "tokenizer.ggml.model", "gpt2");
    gguf_put_text(w, "tokenizer.ggml.pre", pre->name);
    return SNUG_OK;
}

/* ---- special tokens and the chat template ---- */

/* Where generation ends at two tokens, the other one is the end of a turn. */
static int put_end_of_turn(const struct vocabulary *v, struct gguf_writer *w, const struct tokenizer *t,
                           struct snug_err *err)
{
    json_t *generation = NULL, *id;
    size_t i;
    int32_t eos = tokenizer_special(t, TOKEN_EOS);
    TRY(read_json(v->d, "generation_config.json", &generation, err));
    json_t *ids = json_object_get(generation ? generation : v->d->config, "eos_token_id");
    bool both = false;
    json_array_foreach(ids, i, id) both |= json_integer_value(id) == eos;
    if (both && json_array_size(ids) == 2)
        gguf_put_uint(
            w, "tokenizer.ggml.eot_token_id",
            (uint32_t)json_integer_value(json_array_get(ids, json_integer_value(json_array_get(ids, 0)) == eos)));
    json_decref(generation);
    return SNUG_OK;
}

/* What the template puts round a text: a file can say one token in front and one behind. Where tokenizer_config.json names none, it is
 * what the template has. */
static int put_template(const struct vocabulary *v, struct gguf_writer *w, const struct tokenizer *t,
                        const struct token_buf *b, struct snug_err *err)
{
    size_t front = 0, all = b->n - b->n_pieces;
    while (front < all && memcmp(b->ids + front, b->pieces, b->n_pieces * sizeof *b->ids) != 0)
        front++;
    size_t behind = all - front;
    int32_t bos = tokenizer_special(t, TOKEN_BOS), eos = tokenizer_special(t, TOKEN_EOS);
    if (front > 1 || behind > 1 || (front && bos >= 0 && b->ids[0] != bos) ||
        (behind && eos >= 0 && b->ids[b->n - 1] != eos))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: post_processor has %s before a text, %zu tokens, and %s behind it, %zu; a GGUF file can "
                       "say the BOS token "
                       "before it and the EOS token behind, and no others",
                       v->path, front ? tokenizer_token(t, b->ids[0]) : "nothing", front,
                       behind ? tokenizer_token(t, b->ids[b->n - 1]) : "nothing", behind);
    if (front && bos < 0)
        gguf_put_uint(w, "tokenizer.ggml.bos_token_id", (uint32_t)b->ids[0]);
    if (behind && eos < 0)
        gguf_put_uint(w, "tokenizer.ggml.eos_token_id", (uint32_t)b->ids[b->n - 1]);
    gguf_put_bool(w, "tokenizer.ggml.add_bos_token", front);
    gguf_put_bool(w, "tokenizer.ggml.add_eos_token", behind);
    return SNUG_OK;
}

static int put_special(const struct vocabulary *v, struct gguf_writer *w, struct snug_err *err)
{
    const struct model_dir *d = v->d;
    static const struct {
        enum special_token which;
        const char *key;
    } rows[] = {{TOKEN_BOS, "tokenizer.ggml.bos_token_id"},
                {TOKEN_EOS, "tokenizer.ggml.eos_token_id"},
                {TOKEN_UNK, "tokenizer.ggml.unknown_token_id"},
                {TOKEN_PAD, "tokenizer.ggml.padding_token_id"}};
    struct tokenizer *t;
    struct token_buf buf = {0};
    TRY(tokenizer_open(d->io, d->path, &t, err));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (tokenizer_special(t, rows[i].which) >= 0)
            gguf_put_uint(w, rows[i].key, (uint32_t)tokenizer_special(t, rows[i].which));
    int code = tokenizer_encode(t, "a", 1, NULL, 0, 0, &buf, err);
    if (!code)
        code = put_template(v, w, t, &buf, err);
    if (!code)
        code = put_end_of_turn(v, w, t, err);
    token_buf_free(&buf);
    tokenizer_close(t);
    return code;
}

/* tokenizer_config.json's, of several the one called default; or a file of its own. */
static int put_chat_template(const struct vocabulary *v, struct gguf_writer *w, struct snug_err *err)
{
    json_t *stated = json_object_get(v->config, "chat_template"), *named;
    const char *text = json_string_value(stated);
    size_t i, bytes;
    bool has;
    json_array_foreach(stated, i, named)
    {
        const char *name = json_string_value(json_object_get(named, "name"));
        if (name && !strcmp(name, "default"))
            text = json_string_value(json_object_get(named, "template"));
    }
    char *file = NULL, *path = text ? NULL : model_dir_file(v->d, "chat_template.jinja");
    if (!text) {
        if (!path)
            return err_no_memory(err, 256);
        has = io_exists(v->d->io, path);
        int code = has ? io_read_file(v->d->io, path, LIMIT, &file, &bytes, err) : SNUG_OK;
        mem_free(path);
        TRY(code);
        text = file;
    }
    if (text)
        gguf_put_text(w, "tokenizer.chat_template", text);
    mem_free(file);
    return SNUG_OK;
}

/* ---- all together ---- */

static const char *token_text(void *ctx, size_t i)
{
    const struct vocabulary *v = ctx;
    return v->tokens[i];
}

/* llama.cpp normalizes nothing: NFC it leaves out of Qwen's, and a SentencePiece vocabulary's blanks it knows. */
static int check_normalizer(const struct vocabulary *v, json_t *step, struct snug_err *err)
{
    static const char *const known[] = {"", "NFC", "Sequence", "Prepend", "Replace"};
    const size_t n = v->spm ? 5 : 3;
    json_t *inner;
    size_t i = 0, k;
    while (i < n && strcmp(known[i], type_name(step)) != 0)
        i++;
    if (i == n)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: normalizer \"%.40s\" has no place in a GGUF file; keep the model as safetensors", v->path,
                       type_name(step));
    json_array_foreach(json_object_get(step, "normalizers"), k, inner) TRY(check_normalizer(v, inner, err));
    return SNUG_OK;
}

static int put_all(struct vocabulary *v, struct gguf_writer *w, struct snug_err *err)
{
    TRY(check_normalizer(v, json_object_get(v->tokenizer, "normalizer"), err));
    TRY(v->spm ? put_spm(v, w, err) : put_byte_level(v, w, err));
    TRY(list_tokens(v, err));
    gguf_put_texts(w, "tokenizer.ggml.tokens", v->n, token_text, v);
    gguf_put_ints(w, "tokenizer.ggml.token_type", v->n, v->types);
    TRY(v->spm ? put_scores(v, w, err) : put_merges(v, w, err));
    TRY(put_special(v, w, err));
    return put_chat_template(v, w, err);
}

static int read_tokenizer(struct vocabulary *v, int64_t vocab_size, struct snug_err *err)
{
    v->n = (size_t)vocab_size;
    TRY(read_json(v->d, "tokenizer.json", &v->tokenizer, err));
    TRY(read_json(v->d, "tokenizer_config.json", &v->config, err));
    if (!v->tokenizer)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: no tokenizer.json, which a GGUF file is made of; save the tokenizer with the "
                       "model",
                       v->d->path);
    v->path = arena_printf(&v->arena, "%s/tokenizer.json", v->d->path);
    v->tokens = arena_alloc(&v->arena, v->n * sizeof *v->tokens);
    v->types = arena_alloc(&v->arena, v->n * sizeof *v->types);
    v->scores = arena_alloc(&v->arena, v->n * sizeof *v->scores);
    if (!v->path || !v->tokens || !v->types || !v->scores)
        return err_no_memory(err, v->n * 16);
    v->model = json_object_get(v->tokenizer, "model");
    if (!json_is_array(json_object_get(v->model, "merges")) || !json_is_object(json_object_get(v->model, "vocab")))
        return err_set(err, SNUG_ERR_INPUT, "%s: model is %s; GGUF files are written of BPE", v->path,
                       type_name(v->model));
    v->spm = json_is_true(json_object_get(v->model, "byte_fallback"));
    return SNUG_OK;
}

int gguf_put_vocabulary(struct gguf_writer *w, const struct model_dir *d, int64_t vocab_size, struct snug_err *err)
{
    struct vocabulary v = {.d = d};
    int code = read_tokenizer(&v, vocab_size, err);
    if (!code)
        code = put_all(&v, w, err);
    json_decref(v.tokenizer);
    json_decref(v.config);
    arena_free(&v.arena);
    return code;
}
