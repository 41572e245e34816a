/* tokenizer.json and tokenizer_config.json out of a GGUF file's metadata. tokenizer.ggml.model "gpt2" is byte-level BPE with
 * merges; "llama" is SentencePiece's BPE, whose merges follow from the scores (spm_merges.c). */
#include "format/gguf/model.h"
#include "format/gguf/pre.h"
#include "format/gguf/spm_merges.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* tokenizer.ggml.token_type */
enum token_type { TOKEN_NORMAL = 1, TOKEN_UNKNOWN, TOKEN_CONTROL, TOKEN_USER_DEFINED, TOKEN_UNUSED, TOKEN_BYTE };

#define KEY(name) "tokenizer.ggml." name

/* What the metadata say; the json_t belong to the file. */
struct vocabulary {
    const struct gguf_file *f;
    bool spm;
    const struct gguf_pre *pre; /* NULL for SentencePiece */
    json_t *tokens, *types;
    size_t n;                   /* without the tokens that only fill up the table of embeddings */
    int64_t bos, eos, unk, pad; /* -1: none */
    bool add_bos, add_eos, space_prefix;
};

static enum token_type type_of(const struct vocabulary *v, size_t id)
{
    json_int_t type = v->types ? json_integer_value(json_array_get(v->types, id)) : TOKEN_NORMAL;
    return (enum token_type)(type < TOKEN_NORMAL || type > TOKEN_BYTE ? TOKEN_NORMAL : type);
}

static const char *token(const struct vocabulary *v, int64_t id)
{
    return json_string_value(json_array_get(v->tokens, (size_t)id));
}

static int get_array(const struct gguf_file *f, const char *key, bool required, size_t n, json_t **out,
                     struct snug_err *err)
{
    char text[64];
    *out = json_object_get(f->metadata, key);
    if (!*out && !required)
        return SNUG_OK;
    if (!json_is_array(*out) || (n && json_array_size(*out) != n))
        return err_set(err, SNUG_ERR_INPUT, "%s: %s is %s; expected an array of as many values as tokens" GGUF_AGAIN,
                       f->path, key, json_is_array(*out) ? "of another length" : json_value_text(*out, text));
    return SNUG_OK;
}

static int get_id(const struct vocabulary *v, const char *key, int64_t *id, struct snug_err *err)
{
    *id = -1;
    return json_get_int(v->f->metadata, v->f->path, key, false, 0, (int64_t)v->n - 1, id, err);
}

static int read_tokens(struct vocabulary *v, struct snug_err *err)
{
    TRY(get_array(v->f, KEY("tokens"), true, 0, &v->tokens, err));
    v->n = json_array_size(v->tokens);
    TRY(get_array(v->f, KEY("token_type"), false, v->n, &v->types, err));
    for (size_t i = 0; i < v->n; i++)
        if (!json_is_string(json_array_get(v->tokens, i)))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: " KEY("tokens") " has something else than a text at %zu" GGUF_AGAIN, v->f->path, i);
    while (v->n && type_of(v, v->n - 1) == TOKEN_UNUSED)
        v->n--;
    if (!v->n)
        return err_set(err, SNUG_ERR_INPUT, "%s: " KEY("tokens") " is empty" GGUF_AGAIN, v->f->path);
    return SNUG_OK;
}

static int read_vocabulary(const struct gguf_file *f, struct vocabulary *v, struct snug_err *err)
{
    const char *model = NULL, *pre = NULL;
    char list[256];
    *v = (struct vocabulary){.f = f, .space_prefix = true};
    TRY(json_get_string(f->metadata, f->path, KEY("model"), true, &model, err));
    v->spm = !strcmp(model, "llama");
    if (!v->spm && strcmp(model, "gpt2"))
        return err_set(
            err, SNUG_ERR_INPUT,
            "%s: " KEY("model") " is \"%.40s\"; supported are gpt2, llama; put a tokenizer.json beside the weights "
                                "as safetensors",
            f->path, model);
    if (!v->spm) {
        TRY(json_get_string(f->metadata, f->path, KEY("pre"), true, &pre, err));
        if (!(v->pre = gguf_pre(pre)))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: " KEY("pre") " is \"%.40s\"; supported are %s; get the model as "
                                             "safetensors",
                           f->path, pre, gguf_pre_list(list));
    }
    TRY(read_tokens(v, err));
    TRY(get_id(v, KEY("bos_token_id"), &v->bos, err));
    TRY(get_id(v, KEY("eos_token_id"), &v->eos, err));
    TRY(get_id(v, KEY("unknown_token_id"), &v->unk, err));
    TRY(get_id(v, KEY("padding_token_id"), &v->pad, err));
    v->add_bos = v->spm || v->pre->adds_bos;
    TRY(json_get_bool(f->metadata, f->path, KEY("add_bos_token"), false, &v->add_bos, err));
    TRY(json_get_bool(f->metadata, f->path, KEY("add_eos_token"), false, &v->add_eos, err));
    TRY(json_get_bool(f->metadata, f->path, KEY("add_space_prefix"), false, &v->space_prefix, err));
    return SNUG_OK;
}

/* ---- sections of tokenizer.json ---- */

/* {"token": id, …} */
static int make_vocab(const struct vocabulary *v, json_t **out, struct snug_err *err)
{
    *out = json_object();
    for (size_t i = 0; *out && i < v->n; i++) {
        const char *text = token(v, (int64_t)i);
        if (json_object_get(*out, text))
            return err_set(err, SNUG_ERR_INPUT,
                           "%s: token \"%.80s\" is in the vocabulary twice, the second time as %zu" GGUF_AGAIN,
                           v->f->path, text, i);
        if (json_object_set_new_nocheck(*out, text, json_integer((json_int_t)i)))
            return err_no_memory(err, v->n);
    }
    return *out ? SNUG_OK : err_no_memory(err, 64);
}

/* Tokens that are found in the text itself. */
static json_t *make_added(const struct vocabulary *v)
{
    json_t *list = json_array();
    for (size_t i = 0; list && i < v->n; i++) {
        enum token_type type = type_of(v, i);
        bool special = type == TOKEN_CONTROL || (type == TOKEN_UNKNOWN && v->spm);
        if (!*token(v, (int64_t)i) || (!special && type != TOKEN_USER_DEFINED))
            continue;
        if (json_array_append_new(list, json_pack("{si ss sb sb sb sb sb}", "id", (int)i, "content",
                                                  token(v, (int64_t)i), "single_word", 0, "lstrip", 0, "rstrip", 0,
                                                  "normalized", 0, "special", special))) {
            json_decref(list);
            return NULL;
        }
    }
    return list;
}

static int make_model(const struct vocabulary *v, json_t **out, struct snug_err *err)
{
    json_t *vocab = NULL, *merges = NULL;
    int code = make_vocab(v, &vocab, err);
    if (!code && v->spm) {
        json_t *scores;
        code = get_array(v->f, KEY("scores"), true, json_array_size(v->tokens), &scores, err);
        if (!code)
            code = spm_merges(v->tokens, v->types, scores, v->n, vocab, &merges, err);
    } else if (!code) {
        code = get_array(v->f, KEY("merges"), true, 0, &merges, err);
        json_incref(merges);
    }
    if (!code) {
        *out = json_pack("{ss sn so* sn sn sb sb sb sO sO}", "type", "BPE", "dropout", "unk_token",
                         v->spm && v->unk >= 0 ? json_string(token(v, v->unk)) : NULL, "continuing_subword_prefix",
                         "end_of_word_suffix", "fuse_unk", v->spm, "byte_fallback", v->spm, "ignore_merges",
                         v->pre && v->pre->ignore_merges, "vocab", vocab, "merges", merges);
        code = *out ? SNUG_OK : err_no_memory(err, 1 << 10);
    }
    json_decref(vocab);
    json_decref(merges);
    return code;
}

static json_t *template_part(const struct vocabulary *v, int64_t id, bool second)
{
    return json_pack("{s{ss si}}", "SpecialToken", "id", token(v, id), "type_id", second);
}

/* "<bos> A <eos>", and for a pair the same with B behind. Whether memory ran out; *out NULL: nothing is added. */
static int make_template(const struct vocabulary *v, json_t **out)
{
    int64_t bos = v->add_bos ? v->bos : -1, eos = v->add_eos ? v->eos : -1, ids[] = {bos, eos};
    json_t *forms[2] = {json_array(), json_array()}, *special = json_object();
    int failed = 0;
    for (int form = 0; form < 2; form++)
        for (int text = 0; text <= form; text++) {
            if (bos >= 0)
                failed |= json_array_append_new(forms[form], template_part(v, bos, text));
            failed |= json_array_append_new(
                forms[form], json_pack("{s{ss si}}", "Sequence", "id", text ? "B" : "A", "type_id", text));
            if (eos >= 0)
                failed |= json_array_append_new(forms[form], template_part(v, eos, text));
        }
    for (int i = 0; i < 2; i++)
        if (ids[i] >= 0)
            failed |= json_object_set_new(
                special, token(v, ids[i]),
                json_pack("{ss s[i] s[s]}", "id", token(v, ids[i]), "ids", (int)ids[i], "tokens", token(v, ids[i])));
    *out = NULL;
    if (!failed && (bos >= 0 || eos >= 0))
        failed = !(*out = json_pack("{ss sO sO sO}", "type", "TemplateProcessing", "single", forms[0], "pair", forms[1],
                                    "special_tokens", special));
    json_decref(forms[0]);
    json_decref(forms[1]);
    json_decref(special);
    return failed;
}

static const char spm_blank[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"\xe2\x96\x81\"}";
static const char spm_unblank[] = "{\"type\":\"Replace\",\"pattern\":{\"String\":\"\xe2\x96\x81\"},\"content\":\" \"}";
static const char spm_prepend[] = "{\"type\":\"Prepend\",\"prepend\":\"\xe2\x96\x81\"}";

/* What stands around the model. NULL: memory ran out. */
static json_t *make_steps(const struct vocabulary *v)
{
    char normalizer[512] = "null", decoder[512];
    json_t *template;
    if (make_template(v, &template))
        return NULL;
    snprintf(decoder, sizeof decoder,
             "{\"type\":\"ByteLevel\",\"add_prefix_space\":true,\"trim_offsets\":true,"
             "\"use_regex\":true}");
    if (v->spm) {
        snprintf(normalizer, sizeof normalizer,
                 v->space_prefix ? "{\"type\":\"Sequence\",\"normalizers\":[%s,%s]}" : "%s%s",
                 v->space_prefix ? spm_prepend : "", spm_blank);
        snprintf(decoder, sizeof decoder,
                 "{\"type\":\"Sequence\",\"decoders\":[%s,{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}%s]}",
                 spm_unblank, v->space_prefix ? ",{\"type\":\"Strip\",\"content\":\" \",\"start\":1,\"stop\":0}" : "");
    } else if (v->pre->nfc) {
        snprintf(normalizer, sizeof normalizer, "{\"type\":\"NFC\"}");
    }
    return json_pack("{ss sn sn so so so so*}", "version", "1.0", "truncation", "padding", "normalizer",
                     json_loads(normalizer, JSON_DECODE_ANY, NULL), "pre_tokenizer",
                     json_loads(v->spm ? "null" : v->pre->pre_tokenizer, JSON_DECODE_ANY, NULL), "decoder",
                     json_loads(decoder, 0, NULL), "post_processor", template);
}

int gguf_tokenizer(const struct gguf_file *f, json_t **tokenizer, struct snug_err *err)
{
    struct vocabulary v;
    json_t *model = NULL;
    TRY(read_vocabulary(f, &v, err));
    TRY(make_model(&v, &model, err));
    *tokenizer = make_steps(&v);
    json_t *added = make_added(&v);
    int failed = !*tokenizer || !added || json_object_set(*tokenizer, "added_tokens", added);
    failed = failed || json_object_set(*tokenizer, "model", model);
    json_decref(added);
    json_decref(model);
    if (!failed)
        return SNUG_OK;
    json_decref(*tokenizer);
    return err_no_memory(err, 1 << 10);
}

int gguf_tokenizer_config(const struct gguf_file *f, json_t **config, struct snug_err *err)
{
    struct vocabulary v;
    const char *chat = NULL;
    TRY(read_vocabulary(f, &v, err));
    TRY(json_get_string(f->metadata, f->path, "tokenizer.chat_template", false, &chat, err));
    const struct {
        const char *name;
        int64_t id;
    } special[] = {{"bos_token", v.bos}, {"eos_token", v.eos}, {"unk_token", v.unk}, {"pad_token", v.pad}};
    *config = json_pack("{ss sb sb sb ss*}", "tokenizer_class", "PreTrainedTokenizerFast", "add_bos_token", v.add_bos,
                        "add_eos_token", v.add_eos, "clean_up_tokenization_spaces", 0, "chat_template", chat);
    int failed = !*config;
    for (size_t i = 0; !failed && i < sizeof special / sizeof *special; i++)
        if (special[i].id >= 0)
            failed = json_object_set_new(*config, special[i].name, json_string(token(&v, special[i].id)));
    if (!failed)
        return SNUG_OK;
    json_decref(*config);
    return err_no_memory(err, 1 << 10);
}
