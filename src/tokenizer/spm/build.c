/* A folder with a model of SentencePiece and no tokenizer.json: what the model and its class say is made a tokenizer.json, and read. */
#include "tokenizer/spm/classes.h"

#include <string.h>

/* ---- the vocabulary ---- */

static int no_memory(const struct spm_making *m, struct snug_err *err)
{
    return err_no_memory(err, m->spm.n * 64);
}

static int add_token(struct spm_making *m, json_t *scored, const char *text, double score, struct snug_err *err)
{
    json_t *known = json_object_get(m->ids, text);
    if (known)
        return err_set(err, SNUG_ERR_INPUT, "%s: token \"%s\" is piece %lld and %zu; remove one", m->t->path, text,
                       (long long)json_integer_value(known), json_object_size(m->ids));
    json_int_t id = (json_int_t)json_object_size(m->ids);
    if (json_object_set_new(m->ids, text, json_integer(id)) ||
        (scored && json_array_append_new(scored, json_pack("[sf]", text, score))))
        return no_memory(m, err);
    return SNUG_OK;
}

static const char *extra_id(int64_t i, char name[32])
{
    snprintf(name, 32, "<extra_id_%lld>", (long long)i);
    return name;
}

static const char *numbered_unknown(int64_t i, char name[32])
{
    snprintf(name, 32, "<unk_%lld>", (long long)i);
    return name;
}

/* The first of a list with blanks between them, and what is behind it; false: it is at its end. */
static bool next_language(const char **list, char name[32])
{
    size_t n = *list ? strcspn(*list, " ") : 0;
    if (!n)
        return false;
    snprintf(name, 32, "%.*s", (int)n, *list);
    *list += n + ((*list)[n] == ' ');
    return true;
}

/* m->ids, and `scored`, [["a", -1.5], …], unless it is NULL. */
static int list_tokens(struct spm_making *m, json_t *scored, struct snug_err *err)
{
    const struct spm_class *c = m->class;
    const char *languages = c->languages;
    char name[32];
    for (int i = 0; i < c->n_first; i++)
        TRY(add_token(m, scored, c->first[i].text ? c->first[i].text : m->names[c->first[i].which], c->first[i].score,
                      err));
    for (int64_t i = 2; i < m->unknowns; i++)
        TRY(add_token(m, scored, numbered_unknown(i, name), -100, err));
    for (size_t i = (size_t)c->skipped; i < m->spm.n; i++)
        TRY(add_token(m, scored, m->spm.pieces[i].text, m->spm.pieces[i].score, err));
    while (next_language(&languages, name))
        TRY(add_token(m, scored, name, 0, err));
    if (c->mask_last)
        TRY(add_token(m, scored, m->names[TOKEN_MASK], 0, err));
    for (int64_t i = m->extra_ids - 1; i >= 0; i--)
        TRY(add_token(m, scored, extra_id(i, name), 0, err));
    return SNUG_OK;
}

/* Whatever two tokens make a third one, in the order of the third ones' ids, the shorter first part before the longer. */
static int list_merges(const struct spm_making *m, json_t *merges, struct snug_err *err)
{
    for (size_t i = 0; i < m->spm.n; i++) {
        const char *piece = m->spm.pieces[i].text;
        size_t n = strlen(piece);
        for (size_t cut = 1; cut < n; cut++) {
            if ((piece[cut] & 0xC0) == 0x80 || !json_object_get(m->ids, piece + cut))
                continue;
            if (json_object_getn(m->ids, piece, cut) &&
                json_array_append_new(merges, json_pack("[s%s]", piece, cut, piece + cut)))
                return no_memory(m, err);
        }
    }
    return SNUG_OK;
}

static int make_model(struct spm_making *m, json_t **model, struct snug_err *err)
{
    json_t *list = json_array(), *unk = NULL;
    m->ids = json_object();
    int code = list && m->ids ? list_tokens(m, m->class->bpe ? NULL : list, err) : no_memory(m, err);
    if (!code && m->class->bpe)
        code = list_merges(m, list, err);
    if (!code && m->class->unk != TOKEN_SPECIALS) {
        unk = json_object_get(m->ids, m->names[m->class->unk]);
        if (!unk)
            code = err_set(err, SNUG_ERR_INPUT,
                           "%s: has no %s; name the token for what is unknown as unk_token in "
                           "tokenizer_config.json",
                           m->t->path, m->names[m->class->unk]);
    }
    if (!code) {
        *model = m->class->bpe
                     ? json_pack("{ss sO sO ss* sb sb}", "type", "BPE", "vocab", m->ids, "merges", list, "unk_token",
                                 unk ? m->names[m->class->unk] : NULL, "fuse_unk", 1, "byte_fallback", 1)
                     : json_pack("{ss sO sO sb}", "type", "Unigram", "vocab", list, "unk_id", unk, "byte_fallback", 0);
        code = *model ? SNUG_OK : no_memory(m, err);
    }
    json_decref(list);
    return code;
}

/* ---- added tokens ---- */

static int add_added(const struct spm_making *m, json_t *list, const struct added_token *t, struct snug_err *err)
{
    json_t *known = json_object_get(m->ids, t->content);
    if (json_object_get(m->added, t->content))
        return SNUG_OK;
    json_int_t id = known ? json_integer_value(known) : m->next_id;
    json_t *token =
        json_pack("{ss sI sb sb sb sb sb}", "content", t->content, "id", id, "single_word", t->single_word, "lstrip",
                  t->lstrip, "rstrip", t->rstrip, "normalized", t->normalized, "special", t->special);
    return json_array_append_new(list, token) || json_object_set_new(m->added, t->content, json_integer(id))
               ? no_memory(m, err)
               : SNUG_OK;
}

static bool is_special(const struct spm_making *m, const char *text)
{
    for (int i = 0; i < TOKEN_SPECIALS; i++)
        if (m->names[i] && !strcmp(m->names[i], text))
            return true;
    return false;
}

static int add_special(const struct spm_making *m, json_t *list, const char *text, struct snug_err *err)
{
    const struct added_token token = {.content = text, .special = true};
    return add_added(m, list, &token, err);
}

/* Tokens of the class that are no pieces of the model. */
static int list_own(const struct spm_making *m, json_t *list, struct snug_err *err)
{
    const char *languages = m->class->languages;
    char name[32];
    for (int i = 0; i < m->class->n_first; i++)
        if (m->class->first[i].special)
            TRY(add_special(m, list, m->class->first[i].text, err));
    for (int64_t i = 2; i < m->unknowns; i++)
        TRY(add_special(m, list, numbered_unknown(i, name), err));
    while (next_language(&languages, name))
        TRY(add_special(m, list, name, err));
    for (int64_t i = m->extra_ids - 1; i >= 0; i--)
        TRY(add_special(m, list, extra_id(i, name), err));
    return SNUG_OK;
}

/* Control pieces and those that a user has defined, the class's own, and the special tokens, with the flags that
 * tokenizer_config.json gives them. Others that it names come later. */
static int list_added(struct spm_making *m, json_t *list, struct snug_err *err)
{
    /* In the order in which new ones get their ids. */
    static const enum special_token order[] = {TOKEN_BOS, TOKEN_EOS, TOKEN_UNK, TOKEN_SEP,
                                               TOKEN_PAD, TOKEN_CLS, TOKEN_MASK};
    for (size_t i = 0; i < m->spm.n; i++) {
        const struct spm_piece *p = &m->spm.pieces[i];
        const struct added_token token = {.content = p->text,
                                          .special = p->type == SPM_CONTROL || is_special(m, p->text)};
        if ((p->type == SPM_CONTROL || p->type == SPM_USER_DEFINED) && json_object_get(m->ids, p->text))
            TRY(add_added(m, list, &token, err));
    }
    TRY(list_own(m, list, err));
    m->next_id = (json_int_t)json_object_size(m->ids);
    for (size_t i = 0; i < sizeof order / sizeof *order; i++) {
        const struct added_token *token = &m->special[order[i]];
        if (!token->content || json_object_get(m->added, token->content))
            continue;
        TRY(add_added(m, list, token, err));
        m->next_id += !json_object_get(m->ids, token->content);
    }
    return SNUG_OK;
}

/* ---- all of it ---- */

static int read_flag(const struct spm_making *m, const char *key, bool otherwise, bool *flag, struct snug_err *err)
{
    int stated;
    TRY(tokenizer_config_flag(m->config, key, &stated, err));
    *flag = stated == FLAG_ABSENT || stated == FLAG_NULL ? otherwise : stated;
    return SNUG_OK;
}

static int read_settings(struct spm_making *m, struct snug_err *err)
{
    for (int i = 0; i < TOKEN_SPECIALS; i++) {
        const char *path;
        TRY(tokenizer_config_token(m->config, (enum special_token)i, &m->special[i], &path, err));
        if (!path)
            m->special[i] = (struct added_token){
                .content = m->class->names[i], .special = true, .lstrip = i == TOKEN_MASK && m->class->mask_lstrip};
        m->names[i] = m->special[i].content;
        if (!m->names[i] && m->class->names[i])
            return err_set(err, SNUG_ERR_INPUT, "%s: %s is null, but %s needs it; name a token", path,
                           special_token_keys[i], m->class->name);
    }
    m->extra_ids = m->class->extra_ids;
    if (m->extra_ids && m->config->config)
        TRY(json_get_int(m->config->config, m->config->path, "extra_ids", false, 0, 100000, &m->extra_ids, err));
    m->unknowns = m->class->unknowns;
    if (m->unknowns && m->config->config)
        TRY(json_get_int(m->config->config, m->config->path, "offset", false, 2, 100000, &m->unknowns, err));
    bool albert = !strcmp(m->class->name, "AlbertTokenizer");
    TRY(read_flag(m, "legacy", false, &m->legacy, err));
    TRY(read_flag(m, "add_prefix_space", true, &m->prefix_space, err));
    TRY(read_flag(m, "do_lower_case", albert, &m->lower, err));
    TRY(read_flag(m, "keep_accents", false, &m->keep_accents, err));
    return read_flag(m, "split_by_punct", false, &m->split_punctuation, err);
}

static int set_section(const struct spm_making *m, json_t *o, const char *key,
                       json_t *(*make)(const struct spm_making *m), struct snug_err *err)
{
    json_t *section = make ? make(m) : NULL;
    return !make || json_object_set_new(o, key, section) == 0 ? SNUG_OK : no_memory(m, err);
}

static int make_object(struct spm_making *m, json_t *o, struct snug_err *err)
{
    json_t *model = NULL, *added = json_array();
    m->added = json_object();
    int code = added && m->added ? make_model(m, &model, err) : no_memory(m, err);
    if (!code && json_object_set_new(o, "model", model))
        code = no_memory(m, err);
    if (!code)
        code = list_added(m, added, err);
    if (!code && json_object_set(o, "added_tokens", added))
        code = no_memory(m, err);
    json_decref(added);
    TRY(code);
    TRY(set_section(m, o, "normalizer", m->class->normalizer, err));
    TRY(set_section(m, o, "pre_tokenizer", m->class->pre_tokenizer, err));
    TRY(set_section(m, o, "decoder", m->class->decoder, err));
    return set_section(m, o, "post_processor", m->class->post, err);
}

static int32_t id_of(const struct spm_making *m, enum special_token which)
{
    return m->names[which] ? tokenizer_id(m->t, m->names[which]) : -1;
}

static int fill(struct spm_making *m, struct snug_err *err)
{
    bool bos, eos;
    json_t *o = json_object();
    int code = o ? make_object(m, o, err) : no_memory(m, err);
    if (!code)
        code = tokenizer_read_object(m->t, o, err);
    json_decref(o);
    TRY(code);
    for (int i = 0; i < TOKEN_SPECIALS; i++)
        m->t->special[i] = id_of(m, (enum special_token)i);
    if (m->class->post)
        return SNUG_OK;
    TRY(read_flag(m, "add_bos_token", false, &bos, err));
    TRY(read_flag(m, "add_eos_token", false, &eos, err));
    return tokenizer_bos_eos_template(m->t, bos ? m->t->special[TOKEN_BOS] : -1, eos ? m->t->special[TOKEN_EOS] : -1,
                                      err);
}

int tokenizer_read_sentencepiece(struct tokenizer *t, const struct io *io, const struct tokenizer_config *c,
                                 struct snug_err *err)
{
    struct spm_making m = {.t = t, .config = c};
    TRY(spm_class_choose(&m, err));
    TRY(spm_read(io, t->path, &t->arena, &m.spm, err));
    int code = SNUG_OK;
    if (m.spm.bpe != m.class->bpe)
        code = err_set(err, SNUG_ERR_INPUT, "%s: holds %s, but %s wants %s; name the class that the model has", t->path,
                       m.spm.bpe ? "BPE" : "Unigram", m.class->name, m.class->bpe ? "BPE" : "Unigram");
    if (!code)
        code = read_settings(&m, err);
    if (!code)
        code = fill(&m, err);
    json_decref(m.ids);
    json_decref(m.added);
    spm_free(&m.spm);
    return code;
}
