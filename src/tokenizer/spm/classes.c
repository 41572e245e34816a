/* What a model of SentencePiece leaves open, the class of transformers decides: the sections of the tokenizer.json that it would save
 * (its 5.23: convert_slow_tokenizer.py and the classes' constructors). */
#include "tokenizer/spm/classes.h"

#include <string.h>

#define MARK "\xE2\x96\x81" /* "▁" */

/* ---- sections ---- */

static json_t *replace(const char *kind, const char *from, const char *to)
{
    return json_pack("{ss s{ss} ss}", "type", "Replace", "pattern", kind, from, "content", to);
}

static json_t *named(const char *type)
{
    return json_pack("{ss}", "type", type);
}

static json_t *sequence(const char *member, json_t *list)
{
    return json_pack("{ss so}", "type", "Sequence", member, list);
}

static json_t *metaspace(const struct spm_making *m, const char *without_prefix, bool split)
{
    const char *scheme = m->prefix_space ? "always" : without_prefix;
    return json_pack("{ss ss ss sb}", "type", "Metaspace", "replacement", MARK, "prepend_scheme", scheme, "split",
                     split);
}

static json_t *precompiled(const struct spm_making *m)
{
    return m->spm.charsmap ? json_pack("{ss ss}", "type", "Precompiled", "precompiled_charsmap", m->spm.charsmap)
                           : json_null();
}

static json_t *words_pre_tokenizer(const struct spm_making *m)
{
    return sequence("pretokenizers", json_pack("[oo]", named("WhitespaceSplit"), metaspace(m, "never", true)));
}

static json_t *words_decoder(const struct spm_making *m)
{
    return metaspace(m, "never", true);
}

static json_t *always_metaspace(const struct spm_making *m)
{
    (void)m;
    return json_pack("{ss ss ss sb}", "type", "Metaspace", "replacement", MARK, "prepend_scheme", "always", "split", 1);
}

static json_t *mbart_pre_tokenizer(const struct spm_making *m)
{
    return sequence("pretokenizers", json_pack("[oo]", named("WhitespaceSplit"), always_metaspace(m)));
}

/* One blank of several, behind the model's rules. */
static json_t *mbart50_normalizer(const struct spm_making *m)
{
    json_t *list = json_pack("[o]", replace("Regex", " {2,}", " "));
    if (m->spm.charsmap && json_array_insert_new(list, 0, precompiled(m))) {
        json_decref(list);
        return NULL;
    }
    return sequence("normalizers", list);
}

static json_t *pegasus_normalizer(const struct spm_making *m)
{
    return m->spm.charsmap ? mbart50_normalizer(m)
                           : sequence("normalizers",
                                      json_pack("[oo]", replace("Regex", "\\n", " "), replace("Regex", " {2,}", " ")));
}

static json_t *llama_pre_tokenizer(const struct spm_making *m)
{
    const char *scheme = !m->prefix_space ? "never" : m->legacy ? "always" : "first";
    return json_pack("{ss ss ss sb}", "type", "Metaspace", "replacement", MARK, "prepend_scheme", scheme, "split", 0);
}

static json_t *gemma_decoder(const struct spm_making *m)
{
    (void)m;
    return sequence("decoders", json_pack("[ooo]", replace("String", MARK, " "), named("ByteFallback"), named("Fuse")));
}

static json_t *llama_decoder(const struct spm_making *m)
{
    json_t *o = gemma_decoder(m);
    if (m->prefix_space &&
        json_array_append_new(json_object_get(o, "decoders"),
                              json_pack("{ss ss si si}", "type", "Strip", "content", " ", "start", 1, "stop", 0))) {
        json_decref(o);
        return NULL;
    }
    return o;
}

static json_t *gemma_normalizer(const struct spm_making *m)
{
    (void)m;
    return replace("String", " ", MARK);
}

static json_t *gemma_pre_tokenizer(const struct spm_making *m)
{
    (void)m;
    return json_pack("{ss s{ss} ss sb}", "type", "Split", "pattern", "String", " ", "behavior", "MergedWithPrevious",
                     "invert", 0);
}

static json_t *albert_normalizer(const struct spm_making *m)
{
    json_t *list = json_pack("[oo]", replace("String", "``", "\""), replace("String", "''", "\""));
    int failed = 0;
    if (!m->keep_accents)
        failed = json_array_append_new(list, named("NFKD")) || json_array_append_new(list, named("StripAccents"));
    if (m->lower)
        failed |= json_array_append_new(list, named("Lowercase"));
    if (m->spm.charsmap)
        failed |= json_array_append_new(list, precompiled(m));
    if (failed) {
        json_decref(list);
        return NULL;
    }
    return sequence("normalizers", list);
}

static json_t *deberta_normalizer(const struct spm_making *m)
{
    json_t *list = json_pack("[oo{ss sb sb}]", replace("Regex", "\\s{2,}|[\\n\\r\\t]", " "), named("NFC"), "type",
                             "Strip", "strip_left", 0, "strip_right", 1);
    if (m->lower && json_array_insert_new(list, 0, named("Lowercase"))) {
        json_decref(list);
        return NULL;
    }
    return sequence("normalizers", list);
}

static json_t *deberta_pre_tokenizer(const struct spm_making *m)
{
    json_t *list = json_pack("[o]", metaspace(m, "first", true));
    if (m->split_punctuation &&
        json_array_insert_new(list, 0, json_pack("{ss ss}", "type", "Punctuation", "behavior", "Isolated"))) {
        json_decref(list);
        return NULL;
    }
    return sequence("pretokenizers", list);
}

static json_t *deberta_decoder(const struct spm_making *m)
{
    return metaspace(m, "first", true);
}

/* ---- post-processors ---- */

static json_t *special_part(const struct spm_making *m, enum special_token which, int type_id)
{
    return json_pack("{s{ss si}}", "SpecialToken", "id", m->names[which], "type_id", type_id);
}

static json_t *text_part(const char *which, int type_id)
{
    return json_pack("{s{ss si}}", "Sequence", "id", which, "type_id", type_id);
}

/* Each stands for itself. */
static json_t *tokens_of(const struct spm_making *m, const enum special_token *which, int n)
{
    json_t *all = json_object();
    for (int i = 0; i < n; i++) {
        const char *name = m->names[which[i]];
        json_t *token = json_pack("{ss s[O] s[s]}", "id", name, "ids", json_object_get(m->added, name), "tokens", name);
        if (json_object_set_new(all, name, token)) {
            json_decref(all);
            return NULL;
        }
    }
    return all;
}

static json_t *template_of(json_t *single, json_t *pair, json_t *tokens)
{
    return json_pack("{ss so so so}", "type", "TemplateProcessing", "single", single, "pair", pair, "special_tokens",
                     tokens);
}

/* "A </s>" and "A </s> B </s>" */
static json_t *t5_post(const struct spm_making *m)
{
    static const enum special_token eos[] = {TOKEN_EOS};
    return template_of(json_pack("[oo]", text_part("A", 0), special_part(m, TOKEN_EOS, 0)),
                       json_pack("[oooo]", text_part("A", 0), special_part(m, TOKEN_EOS, 0), text_part("B", 0),
                                 special_part(m, TOKEN_EOS, 0)),
                       tokens_of(m, eos, 1));
}

/* "<s> A </s>" and "<s> A </s></s> B </s>" */
static json_t *roberta_post(const struct spm_making *m)
{
    static const enum special_token both[] = {TOKEN_BOS, TOKEN_EOS};
    return template_of(
        json_pack("[ooo]", special_part(m, TOKEN_BOS, 0), text_part("A", 0), special_part(m, TOKEN_EOS, 0)),
        json_pack("[oooooo]", special_part(m, TOKEN_BOS, 0), text_part("A", 0), special_part(m, TOKEN_EOS, 0),
                  special_part(m, TOKEN_EOS, 0), text_part("B", 0), special_part(m, TOKEN_EOS, 0)),
        tokens_of(m, both, 2));
}

/* "[CLS] A [SEP]" and "[CLS] A [SEP] B [SEP]", the second text of type 1 */
static json_t *bert_post(const struct spm_making *m)
{
    static const enum special_token both[] = {TOKEN_CLS, TOKEN_SEP};
    return template_of(
        json_pack("[ooo]", special_part(m, TOKEN_CLS, 0), text_part("A", 0), special_part(m, TOKEN_SEP, 0)),
        json_pack("[ooooo]", special_part(m, TOKEN_CLS, 0), text_part("A", 0), special_part(m, TOKEN_SEP, 0),
                  text_part("B", 1), special_part(m, TOKEN_SEP, 1)),
        tokens_of(m, both, 2));
}

/* "A </s>" and "A B </s>" */
static json_t *pegasus_post(const struct spm_making *m)
{
    static const enum special_token eos[] = {TOKEN_EOS};
    return template_of(json_pack("[oo]", text_part("A", 0), special_part(m, TOKEN_EOS, 0)),
                       json_pack("[ooo]", text_part("A", 0), text_part("B", 0), special_part(m, TOKEN_EOS, 0)),
                       tokens_of(m, eos, 1));
}

/* Pegasus' with a language at its place: that which the class takes where nobody says another one. */
static json_t *with_language(const struct spm_making *m, bool leads)
{
    static const char language[] = "en_XX";
    json_t *o = pegasus_post(m), *single = json_object_get(o, "single"), *pair = json_object_get(o, "pair");
    int failed = 0;
    for (int i = 0; i < 2; i++) {
        json_t *list = i ? pair : single;
        failed |= json_array_insert_new(list, leads ? 0 : json_array_size(list),
                                        json_pack("{s{ss si}}", "SpecialToken", "id", language, "type_id", 0));
    }
    failed |= json_object_set_new(
        json_object_get(o, "special_tokens"), language,
        json_pack("{ss s[O] s[s]}", "id", language, "ids", json_object_get(m->added, language), "tokens", language));
    if (failed) {
        json_decref(o);
        return NULL;
    }
    return o;
}

/* "A </s> en_XX" */
static json_t *mbart_post(const struct spm_making *m)
{
    return with_language(m, false);
}

/* "en_XX A </s>" */
static json_t *mbart50_post(const struct spm_making *m)
{
    return with_language(m, true);
}

/* ---- classes ---- */

#define MBART_LANGUAGES                                                                                                \
    "ar_AR cs_CZ de_DE en_XX es_XX et_EE fi_FI fr_XX gu_IN hi_IN it_IT ja_XX kk_KZ ko_KR lt_LT "                       \
    "lv_LV my_MM ne_NP nl_XX ro_RO ru_RU si_LK tr_TR vi_VN zh_CN"

#define FAIRSEQ_NAMES                                                                                                  \
    {                                                                                                                  \
        [TOKEN_UNK] = "<unk>", [TOKEN_BOS] = "<s>", [TOKEN_EOS] = "</s>", [TOKEN_SEP] = "</s>", [TOKEN_CLS] = "<s>",   \
        [TOKEN_PAD] = "<pad>", [TOKEN_MASK] = "<mask>"                                                                 \
    }

static const struct spm_class classes[] = {
    {.name = "LlamaTokenizer",
     .models = {"llama", "mistral", "mixtral", NULL},
     .bpe = true,
     .names = {[TOKEN_UNK] = "<unk>", [TOKEN_BOS] = "<s>", [TOKEN_EOS] = "</s>"},
     .unk = TOKEN_SPECIALS,
     .pre_tokenizer = llama_pre_tokenizer,
     .decoder = llama_decoder},
    {.name = "GemmaTokenizer",
     .models = {"gemma", "gemma2", "gemma3", "gemma3_text", NULL},
     .bpe = true,
     .names = {[TOKEN_UNK] = "<unk>",
               [TOKEN_BOS] = "<bos>",
               [TOKEN_EOS] = "<eos>",
               [TOKEN_PAD] = "<pad>",
               [TOKEN_MASK] = "<mask>"},
     .unk = TOKEN_UNK,
     .normalizer = gemma_normalizer,
     .pre_tokenizer = gemma_pre_tokenizer,
     .decoder = gemma_decoder},
    {.name = "T5Tokenizer",
     .models = {"t5", "mt5", NULL},
     .names = {[TOKEN_UNK] = "<unk>", [TOKEN_EOS] = "</s>", [TOKEN_PAD] = "<pad>"},
     .unk = TOKEN_UNK,
     .extra_ids = 100,
     .normalizer = precompiled,
     .pre_tokenizer = words_pre_tokenizer,
     .decoder = words_decoder,
     .post = t5_post},
    {.name = "XLMRobertaTokenizer",
     .models = {"xlm-roberta", NULL},
     .names = {[TOKEN_UNK] = "<unk>",
               [TOKEN_BOS] = "<s>",
               [TOKEN_EOS] = "</s>",
               [TOKEN_SEP] = "</s>",
               [TOKEN_CLS] = "<s>",
               [TOKEN_PAD] = "<pad>",
               [TOKEN_MASK] = "<mask>"},
     .unk = TOKEN_UNK,
     .skipped = 3,
     .first = {{.which = TOKEN_BOS}, {.which = TOKEN_PAD}, {.which = TOKEN_EOS}, {.which = TOKEN_UNK}},
     .n_first = 4,
     .mask_last = true,
     .normalizer = precompiled,
     .pre_tokenizer = words_pre_tokenizer,
     .decoder = words_decoder,
     .post = roberta_post},
    {.name = "CamembertTokenizer",
     .models = {"camembert", NULL},
     .names = FAIRSEQ_NAMES,
     .unk = TOKEN_UNK,
     .skipped = 1,
     .first = {{.text = "<s>NOTUSED"},
               {.which = TOKEN_PAD},
               {.text = "</s>NOTUSED"},
               {.which = TOKEN_UNK},
               {.text = "<unk>NOTUSED", .score = -100}},
     .n_first = 5,
     .mask_last = true,
     .mask_lstrip = true,
     .normalizer = precompiled,
     .pre_tokenizer = words_pre_tokenizer,
     .decoder = words_decoder,
     .post = roberta_post},
    {.name = "MBartTokenizer",
     .models = {"mbart", NULL},
     .names = FAIRSEQ_NAMES,
     .unk = TOKEN_UNK,
     .skipped = 3,
     .first = {{.which = TOKEN_BOS}, {.which = TOKEN_PAD}, {.which = TOKEN_EOS}, {.which = TOKEN_UNK}},
     .n_first = 4,
     .languages = MBART_LANGUAGES,
     .mask_last = true,
     .mask_lstrip = true,
     .pre_tokenizer = mbart_pre_tokenizer,
     .decoder = always_metaspace,
     .post = mbart_post},
    {.name = "MBart50Tokenizer",
     .models = {NULL},
     .names = FAIRSEQ_NAMES,
     .unk = TOKEN_UNK,
     .skipped = 3,
     .first = {{.which = TOKEN_CLS}, {.which = TOKEN_PAD}, {.which = TOKEN_EOS}, {.which = TOKEN_UNK}},
     .n_first = 4,
     .languages =
         MBART_LANGUAGES " "
                         "af_ZA az_AZ bn_IN fa_IR he_IL hr_HR id_ID ka_GE km_KH mk_MK ml_IN mn_MN mr_IN pl_PL ps_AF "
                         "pt_XX sv_SE sw_KE ta_IN te_IN th_TH tl_XX uk_UA ur_PK xh_ZA gl_ES sl_SI",
     .mask_last = true,
     .mask_lstrip = true,
     .normalizer = mbart50_normalizer,
     .pre_tokenizer = always_metaspace,
     .decoder = always_metaspace,
     .post = mbart50_post},
    {.name = "PegasusTokenizer",
     .models = {"pegasus", NULL},
     .names = {[TOKEN_UNK] = "<unk>", [TOKEN_EOS] = "</s>", [TOKEN_PAD] = "<pad>", [TOKEN_MASK] = "<mask_2>"},
     .unk = TOKEN_UNK,
     .skipped = 2,
     .first =
         {{.which = TOKEN_PAD}, {.which = TOKEN_EOS}, {.text = "<mask_1>", .special = true}, {.which = TOKEN_MASK}},
     .n_first = 4,
     .unknowns = 103,
     .normalizer = pegasus_normalizer,
     .pre_tokenizer = always_metaspace,
     .decoder = always_metaspace,
     .post = pegasus_post},
    {.name = "AlbertTokenizer",
     .models = {"albert", NULL},
     .names = {[TOKEN_UNK] = "<unk>",
               [TOKEN_BOS] = "[CLS]",
               [TOKEN_EOS] = "[SEP]",
               [TOKEN_SEP] = "[SEP]",
               [TOKEN_CLS] = "[CLS]",
               [TOKEN_PAD] = "<pad>",
               [TOKEN_MASK] = "[MASK]"},
     .unk = TOKEN_UNK,
     .normalizer = albert_normalizer,
     .pre_tokenizer = words_pre_tokenizer,
     .decoder = words_decoder,
     .post = bert_post},
    {.name = "DebertaV2Tokenizer",
     .models = {"deberta-v2", NULL},
     .names = {[TOKEN_UNK] = "[UNK]",
               [TOKEN_BOS] = "[CLS]",
               [TOKEN_EOS] = "[SEP]",
               [TOKEN_SEP] = "[SEP]",
               [TOKEN_CLS] = "[CLS]",
               [TOKEN_PAD] = "[PAD]",
               [TOKEN_MASK] = "[MASK]"},
     .unk = TOKEN_UNK,
     .normalizer = deberta_normalizer,
     .pre_tokenizer = deberta_pre_tokenizer,
     .decoder = deberta_decoder,
     .post = bert_post},
};

static bool is_of_model(const struct spm_class *class, const char *model_type)
{
    for (int i = 0; class->models[i]; i++)
        if (!strcmp(class->models[i], model_type))
            return true;
    return false;
}

/* "LlamaTokenizerFast" is the same class. */
static bool is_named(const struct spm_class *class, const char *name)
{
    size_t n = strlen(class->name);
    return !strncmp(class->name, name, n) && (!name[n] || !strcmp(name + n, "Fast"));
}

int spm_class_choose(struct spm_making *m, struct snug_err *err)
{
    const char *class = m->config->class, *model_type = m->config->model_type;
    for (size_t i = 0; i < sizeof classes / sizeof *classes && !m->class; i++)
        if (class ? is_named(&classes[i], class) : model_type && is_of_model(&classes[i], model_type))
            m->class = &classes[i];
    return m->class ? SNUG_OK
                    : err_set(err, SNUG_ERR_INPUT,
                              "%s: %s %s is not read from a sentencepiece model; write a tokenizer.json with "
                              "transformers: AutoTokenizer.from_pretrained(DIR).save_pretrained(DIR)",
                              m->t->path, class ? "tokenizer_class" : "model_type",
                              class        ? class
                              : model_type ? model_type
                                           : "(none)");
}
