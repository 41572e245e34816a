/* From an empty tokenizer to one that can encode: the vocabulary, the added tokens, the hash. */
#include "tokenizer/char_class.h"
#include "tokenizer/regex.h"
#include "tokenizer/steps/bert.h"
#include "tokenizer/unicode.h"

#include "base/str.h"
#include "format/gguf/model.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int tokenizer_start_vocab(struct tokenizer *t, size_t n, struct snug_err *err)
{
    if (n == 0)
        return err_set(err, SNUG_ERR_INPUT, "%s: the vocabulary is empty; use a tokenizer with tokens", t->path);
    if (!MEM_GROW(t->tokens, t->tokens_cap, n))
        return err_no_memory(err, n * sizeof *t->tokens);
    memset(t->tokens, 0, n * sizeof *t->tokens);
    t->n_tokens = t->n_vocab = n;
    return 0;
}

int tokenizer_set_token(struct tokenizer *t, size_t id, const char *content, struct snug_err *err)
{
    t->tokens[id] = arena_strdup(&t->arena, content);
    if (!t->tokens[id])
        return err_no_memory(err, strlen(content) + 1);
    /* No text holds the empty token. */
    return *content ? trie_add(&t->vocab, content, strlen(content), (int32_t)id, err) : 0;
}

int tokenizer_add_token(struct tokenizer *t, struct added_token token, int64_t want_id, const char *path,
                        struct snug_err *err)
{
    if (!*token.content)
        return err_set(err, SNUG_ERR_INPUT, "%s: an added token is empty; remove it", path);
    int32_t known = tokenizer_id(t, token.content);
    token.id = known >= 0 ? known : (int32_t)t->n_tokens;
    if (want_id >= 0 && want_id != token.id)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: added token \"%s\" has id %lld, but %s %d; save the tokenizer again with transformers",
                       path, token.content, (long long)want_id,
                       known >= 0 ? "in the vocabulary it is" : "the next free id is", token.id);
    token.content = arena_strdup(&t->arena, token.content);
    if (!token.content)
        return err_no_memory(err, 1);
    int32_t index = trie_find(&t->added_ids, token.content, strlen(token.content));
    if (index >= 0) {
        t->added[index] = token;
        return 0;
    }
    if (!MEM_GROW(t->added, t->added_cap, t->n_added + 1) || !MEM_GROW(t->tokens, t->tokens_cap, t->n_tokens + 1))
        return err_no_memory(err, (t->n_tokens + 1) * sizeof *t->tokens);
    TRY(trie_add(&t->added_ids, token.content, strlen(token.content), (int32_t)t->n_added, err));
    t->added[t->n_added++] = token;
    if (known < 0)
        t->tokens[t->n_tokens++] = token.content;
    return 0;
}

int tokenizer_add_note(struct tokenizer *t, struct snug_err *err, const char *format, ...)
{
    char text[512];
    va_list ap;
    va_start(ap, format);
    vsnprintf(text, sizeof text, format, ap);
    va_end(ap);
    char *kept = arena_strdup(&t->arena, text);
    if (!kept || !MEM_GROW(t->notes, t->notes_cap, t->n_notes + 1))
        return err_no_memory(err, sizeof text);
    t->notes[t->n_notes++] = kept;
    return 0;
}

/* The sets that encoding looks for. Two tokens that look the same in normalised text would be told apart by the order
 * of a hash table in the tokenizers library, so they are refused. */
static int build_added_sets(struct tokenizer *t, struct snug_err *err)
{
    struct token_buf buf = {0};
    int code = 0;
    TRY(scratch_get(&buf, err));
    struct encoder e = {.t = t, .out = &buf, .s = buf.scratch, .err = err, .begins = true};
    t->raw.tokens = t->normal.tokens = t->added;
    for (size_t i = 0; i < t->n_added; i++) {
        struct added_token *token = &t->added[i];
        struct added_set *set = token->normalized ? &t->normal : &t->raw;
        struct text pattern = {token->content, strlen(token->content), NULL};
        if (token->normalized)
            TRY_TO(out, tokenizer_normalize(&e, pattern, &pattern));
        int32_t other = trie_find(&set->trie, pattern.s, pattern.n);
        if (pattern.n == 0)
            code = err_set(err, SNUG_ERR_INPUT,
                           "%s: added token \"%s\" is empty once normalised; remove it or set normalized false",
                           t->path, token->content);
        else if (other >= 0)
            code =
                err_set(err, SNUG_ERR_INPUT, "%s: added tokens \"%s\" and \"%s\" are equal once normalised; remove one",
                        t->path, t->added[other].content, token->content);
        else
            code = added_set_add(set, pattern.s, pattern.n, i, err);
        token->decoded = arena_strndup(&t->arena, pattern.s, pattern.n);
        if (!code && !token->decoded)
            code = err_no_memory(err, pattern.n + 1);
        if (code)
            goto out;
    }
out:
    token_buf_free(&buf);
    return code;
}

static int by_id(const void *a, const void *b)
{
    const struct added_token *x = a, *y = b;
    return x->id < y->id ? -1 : x->id > y->id;
}

static void hash_template(const struct template *form, struct hash_state *h)
{
    hash_add(h, &form->n_parts, sizeof form->n_parts);
    for (size_t i = 0; i < form->n_parts; i++) {
        const struct template_part *p = &form->parts[i];
        int32_t head[3] = {(int32_t)p->kind, p->type_id, (int32_t)p->n_ids};
        hash_add(h, head, sizeof head);
        hash_add(h, p->ids, p->n_ids * sizeof *p->ids);
    }
}

int tokenizer_rehash(struct tokenizer *t, struct snug_err *err)
{
    struct added_token *sorted = mem_alloc((t->n_added + 1) * sizeof *sorted);
    struct hash_state *h = sorted ? hash_new() : NULL;
    if (!h) {
        mem_free(sorted);
        return err_no_memory(err, (t->n_added + 1) * sizeof *sorted);
    }
    struct hash128 tables = char_tables_hash();
    hash_add(h, &tables, sizeof tables);
    uint64_t counts[2] = {t->n_vocab, t->n_added};
    hash_add(h, counts, sizeof counts);
    for (size_t id = 0; id < t->n_vocab; id++)
        hash_add(h, t->tokens[id], strlen(t->tokens[id]) + 1);
    if (t->n_added)
        memcpy(sorted, t->added, t->n_added * sizeof *sorted);
    qsort(sorted, t->n_added, sizeof *sorted, by_id); /* files list them in any order */
    for (size_t i = 0; i < t->n_added; i++) {
        const struct added_token *a = &sorted[i];
        int32_t head[5] = {a->id, a->single_word, a->lstrip, a->rstrip, a->normalized};
        hash_add(h, head, sizeof head);
        hash_add(h, a->content, strlen(a->content) + 1);
    }
    const struct bert_normalizer none = {0}, *bert = tokenizer_bert_normalizer(t), *n = bert ? bert : &none;
    const struct step *model = t->steps[STEP_MODEL].list;
    unsigned char switches[7] = {
        bert != NULL,     n->clean_text, n->handle_chinese_chars,
        n->strip_accents, n->lowercase,  tokenizer_only_step(t, STEP_PRE_TOKENIZER, "BertPreTokenizer"),
        t->truncate_left};
    hash_add(h, switches, sizeof switches);
    hash_add(h, model->type->name, strlen(model->type->name) + 1);
    model->type->hash(model->state, h);
    if (t->settings) {
        struct hash128 classes = char_class_hash();
        hash_add(h, &classes, sizeof classes);
        hash_add(h, t->settings, strlen(t->settings) + 1);
    }
    hash_template(&t->single, h);
    hash_template(&t->pair, h);
    if (t->target.n_parts)
        hash_template(&t->target, h);
    t->hash = hash_end(h);
    mem_free(sorted);
    return 0;
}

int tokenizer_finish(struct tokenizer *t, struct snug_err *err)
{
    TRY(build_added_sets(t, err));
    return tokenizer_rehash(t, err);
}

int tokenizer_has_file(const struct io *io, const char *path, bool *has, struct snug_err *err)
{
    struct stat st;
    *has = io->stat(io, path, &st) == 0;
    return *has || errno == ENOENT || errno == ENOTDIR ? 0 : err_errno(err, SNUG_ERR_IO, path, "look for it", errno);
}

/* `lacks`: a file of the class that tokenizer_config.json names. */
static int no_tokenizer(const char *dir, const char *lacks, struct snug_err *err)
{
    if (lacks)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: is missing, and there is no tokenizer.json either; save the tokenizer "
                       "with the model",
                       lacks);
    return err_set(
        err, SNUG_ERR_INPUT,
        "%s: no tokenizer: neither tokenizer.json nor vocab.txt nor a sentencepiece model is there; save the "
        "tokenizer with the model",
        dir);
}

/* The tokenizer of a GGUF file, as the files of a folder would say it. */
static int open_gguf(struct tokenizer *t, const struct io *io, const char *path, struct tokenizer_config *c,
                     struct snug_err *err)
{
    struct gguf_file f;
    json_t *o = NULL;
    t->flags = char_flags_new();
    t->path = c->path = c->map_path = arena_strdup(&t->arena, path);
    if (!t->flags || !t->path)
        return err_no_memory(err, 0x10000);
    for (int i = 0; i < TOKEN_SPECIALS; i++)
        t->special[i] = -1;
    TRY(gguf_open(io, path, &f, err));
    int code = gguf_tokenizer_config(&f, &c->config, err);
    if (!code)
        code = gguf_tokenizer(&f, &o, err);
    gguf_close(&f);
    TRY(code);
    code = json_get_string(c->config, c->path, "tokenizer_class", false, &c->class, err);
    if (!code)
        code = tokenizer_read_object(t, o, err);
    json_decref(o);
    if (!code)
        code = tokenizer_config_apply(c, io, t, true, err);
    return code ? code : tokenizer_finish(t, err);
}

static int open_files(struct tokenizer *t, const struct io *io, const char *dir, struct tokenizer_config *c,
                      struct snug_err *err)
{
    static const char *const names[] = {"tokenizer.json",  "vocab.txt",    "vocab.json", "merges.txt",
                                        "tokenizer.model", "spiece.model", "spm.model",  "sentencepiece.bpe.model"};
    enum { JSON, TXT, VOCAB, MERGES, FIRST_SPM, NAMES = FIRST_SPM + 4 };
    const char *path[NAMES], *lacks;
    bool has[NAMES], is_translator, is_berts = false;
    t->flags = char_flags_new();
    for (int i = 0; i < NAMES; i++) {
        path[i] = arena_printf(&t->arena, "%s/%s", dir, names[i]);
        if (!path[i] || !t->flags)
            return err_no_memory(err, 0x10000);
        TRY(tokenizer_has_file(io, path[i], &has[i], err));
    }
    int from = has[JSON] ? JSON : has[TXT] ? TXT : has[VOCAB] && has[MERGES] ? VOCAB : FIRST_SPM;
    while (from >= FIRST_SPM && from < NAMES && !has[from])
        from++;
    TRY(tokenizer_config_read(c, io, t, err));
    TRY(tokenizer_read_translator(t, io, c, &is_translator, &lacks, err));
    if (is_translator) {
        TRY(tokenizer_config_apply(c, io, t, true, err));
        return tokenizer_finish(t, err);
    }
    if (from != JSON)
        TRY(tokenizer_refuse_class(io, t, c, err));
    if (from == NAMES)
        return no_tokenizer(dir, lacks, err);
    t->path = path[from];
    if (from == JSON)
        TRY(tokenizer_read_json(t, io, err));
    else if (from == TXT)
        TRY(tokenizer_read_vocab(t, io, c, &is_berts, err));
    else if (from == VOCAB)
        TRY(tokenizer_read_vocab_json(t, io, path[MERGES], c, err));
    else
        TRY(tokenizer_read_sentencepiece(t, io, c, err));
    TRY(tokenizer_config_apply(c, io, t, !is_berts, err));
    return tokenizer_finish(t, err);
}

int tokenizer_open(const struct io *io, const char *model_dir, struct tokenizer **out, struct snug_err *err)
{
    struct tokenizer *t = mem_alloc(sizeof *t);
    if (!t)
        return err_no_memory(err, sizeof *t);
    struct tokenizer_config c = {.dir = model_dir};
    char *gguf;
    int code = gguf_find_file(io, model_dir, &gguf, err);
    if (!code)
        code = gguf ? open_gguf(t, io, gguf, &c, err) : open_files(t, io, model_dir, &c, err);
    mem_free(gguf);
    tokenizer_config_free(&c);
    if (code) {
        tokenizer_close(t);
        t = NULL;
    }
    *out = t;
    return code;
}

void tokenizer_close(struct tokenizer *t)
{
    if (!t)
        return;
    trie_free(&t->vocab);
    trie_free(&t->added_ids);
    trie_free(&t->raw.trie);
    trie_free(&t->normal.trie);
    for (size_t i = 0; i < t->n_regexes; i++)
        regex_free(t->regexes[i]);
    for (int kind = 0; kind < STEP_KINDS; kind++) {
        for (size_t i = 0; i < t->steps[kind].n; i++)
            if (t->steps[kind].list[i].type->free)
                t->steps[kind].list[i].type->free(t->steps[kind].list[i].state);
        mem_free(t->steps[kind].list);
    }
    mem_free(t->regexes);
    mem_free(t->tokens);
    mem_free(t->added);
    mem_free(t->notes);
    mem_free(t->flags);
    arena_free(&t->arena);
    mem_free(t);
}
