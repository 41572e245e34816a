/* Folders of translators: models of SentencePiece that cut texts, and a vocab.json that numbers the pieces, as MarianTokenizer (source.spm,
 * target.spm) and M2M100Tokenizer (sentencepiece.bpe.model) of transformers read them. Neither has a tokenizer.json: a text goes through
 * SentencePiece's own library there, and through native.h here. */
#include "tokenizer/spm/native.h"
#include "tokenizer/unicode.h"

#include <string.h>

enum { LIMIT = 256 * 1024 * 1024 };

struct family {
    const char *class, *model_type;    /* that has the class where no file names one */
    const char *source, *target;       /* target NULL: one model for both */
    const char *names[TOKEN_SPECIALS]; /* where no file names others */
    bool codes;                        /* ">>fr<<" before a text is a token */
    bool languages;                    /* tokens behind vocab.json, and one before each text */
    const char *behind_special;        /* in a decoded text */
    bool no_marks;                     /* "▁" is a blank there also in what is no piece */
};

static const struct family families[] = {
    {.class = "MarianTokenizer",
     .model_type = "marian",
     .source = "source.spm",
     .target = "target.spm",
     .names = {[TOKEN_UNK] = "<unk>", [TOKEN_PAD] = "<pad>", [TOKEN_EOS] = "</s>"},
     .codes = true,
     .behind_special = " ",
     .no_marks = true},
    {.class = "M2M100Tokenizer",
     .model_type = "m2m_100",
     .source = "sentencepiece.bpe.model",
     .names = {[TOKEN_UNK] = "<unk>",
               [TOKEN_SEP] = "</s>",
               [TOKEN_PAD] = "<pad>",
               [TOKEN_BOS] = "<s>",
               [TOKEN_EOS] = "</s>"},
     .languages = true,
     .behind_special = ""},
};
enum { FAMILIES = sizeof families / sizeof *families };

/* "language_codes" of tokenizer_config.json, and the languages of the tokens "__af__" … in the order of their ids. */
static const struct codes {
    const char *name, *list;
} language_codes[] = {
    {"m2m100", "af am ar ast az ba be bg bn br bs ca ceb cs cy da de el en es et fa ff fi fr fy ga gd gl gu ha he hi "
               "hr ht hu hy id ig ilo is it ja jv ka kk km kn ko lb lg ln lo lt lv mg mk ml mn mr ms my ne nl no ns oc "
               "or pa pl ps pt ro ru sd si sk sl so sq sr ss su sv sw ta th tl tn tr uk ur uz vi wo xh yi yo zh zu"},
    {"wmt21", "en ha is ja cs ru zh de"},
};

struct folder {
    const struct family *family;
    struct spm_native source, target; /* target: all zero where the source's does for both */
};

static const struct spm_native *model_for(const struct folder *f, bool target)
{
    return target && f->family->target ? &f->target : &f->source;
}

/* ---- the steps ---- */

/* Bytes of a code before the text. */
static size_t code_bytes(struct text text)
{
    if (text.n < 4 || memcmp(text.s, ">>", 2) != 0)
        return 0;
    for (size_t i = 2; i + 2 <= text.n; i++)
        if (!memcmp(text.s + i, "<<", 2))
            return i + 2;
    return 0;
}

static int encode(const void *state, struct encoder *e, struct text text)
{
    const struct folder *f = state;
    const struct spm_native *n = model_for(f, e->target);
    size_t code = f->family->codes ? code_bytes(text) : 0;
    struct text_buf *normal = &e->s->normal[0];
    if (code)
        TRY(push_token(e, spm_native_id(n, e->t, text.s, code), text, 0, code));
    text_start(normal, e->placed);
    TRY(spm_native_normalize(n, e, text_part(text, code, text.n), normal));
    return spm_native_cut(n, e, text_done(normal));
}

static void hash(const void *state, struct hash_state *h)
{
    const struct folder *f = state;
    spm_native_hash(&f->source, h);
    if (f->family->target)
        spm_native_hash(&f->target, h);
}

static void free_folder(void *state)
{
    struct folder *f = state;
    spm_native_free(&f->source);
    spm_native_free(&f->target);
}

static bool is_special(const struct tokenizer *t, struct text token)
{
    int32_t index = trie_find(&t->added_ids, token.s, token.n);
    return index >= 0 && t->added[index].special;
}

/* As str.strip of Python: what it takes for a blank are White_Space and U+001C to U+001F. */
static bool is_blank(const struct tokenizer *t, uint32_t c)
{
    return char_flags(t->flags, c) & CHAR_SPACE || (c >= 0x1C && c <= 0x1F);
}

static struct span stripped(const struct tokenizer *t, const struct text_buf *b)
{
    struct span s = {0, b->n, false};
    uint32_t c;
    for (int bytes; s.start < s.end; s.start += (size_t)bytes) {
        bytes = utf8_decode(b->s + s.start, &c);
        if (!is_blank(t, c))
            break;
    }
    for (int bytes; s.end > s.start; s.end -= (size_t)bytes) {
        bytes = utf8_back(b->s, s.end);
        utf8_decode(b->s + s.end - bytes, &c);
        if (!is_blank(t, c))
            break;
    }
    return s;
}

static void marks_to_blanks(struct text_buf *b)
{
    size_t kept = 0;
    for (size_t i = 0; i < b->n;) {
        bool mark = b->n - i >= SPM_BLANK_BYTES && !memcmp(b->s + i, SPM_BLANK, SPM_BLANK_BYTES);
        b->s[kept++] = mark ? ' ' : b->s[i];
        i += mark ? SPM_BLANK_BYTES : 1;
    }
    b->n = kept;
}

/* What stands between special tokens is a text of its own. The source's model joins also what is of the target's language, as in
 * transformers 5. */
static int decode(const void *state, struct encoder *e, struct words *w)
{
    const struct folder *f = state;
    const char *behind = f->family->behind_special;
    struct text_buf *to = words_next_text(e, w);
    size_t from = 0;
    for (size_t i = 0; i < w->n; i++) {
        struct text token = word_text(w, i);
        if (!is_special(e->t, token))
            continue;
        TRY(spm_native_join(&f->source, e, w, from, i, to));
        TRY(text_append(to, token.s, token.n, e->err));
        TRY(text_append(to, behind, strlen(behind), e->err));
        from = i + 1;
    }
    TRY(spm_native_join(&f->source, e, w, from, w->n, to));
    if (f->family->no_marks)
        marks_to_blanks(to);
    words_begin(e, w);
    TRY(words_add(e, w, stripped(e->t, to)));
    words_took_text(w, to);
    words_end(e, w);
    return SNUG_OK;
}

static const struct step_type model_step = {
    .name = "SentencePiece", .encode = encode, .hash = hash, .free = free_folder};
static const struct step_type decoder_step = {.name = "SentencePiece", .decode = decode};

/* ---- reading ---- */

/* What changes ids and is not there. */
static int check_config(const struct tokenizer_config *c, struct snug_err *err)
{
    int separate;
    json_t *kwargs = json_object_get(c->config, "sp_model_kwargs");
    TRY(tokenizer_config_flag(c, "separate_vocabs", &separate, err));
    if (separate == 1)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: separate_vocabs true is not supported; use a model with one vocabulary", c->path);
    if (json_object_size(kwargs))
        return err_set(err, SNUG_ERR_INPUT, "%s: sp_model_kwargs is not empty, which is not supported; remove it",
                       c->path);
    return SNUG_OK;
}

static int choose_codes(const struct tokenizer_config *c, const struct codes **codes, struct snug_err *err)
{
    const char *name = "m2m100";
    if (c->config)
        TRY(json_get_string(c->config, c->path, "language_codes", false, &name, err));
    for (size_t i = 0; i < sizeof language_codes / sizeof *language_codes; i++)
        if (!strcmp(language_codes[i].name, name)) {
            *codes = &language_codes[i];
            return SNUG_OK;
        }
    return err_set(err, SNUG_ERR_INPUT, "%s: language_codes is \"%s\"; use m2m100 or wmt21", c->path, name);
}

/* The languages' tokens get the ids behind those of the file. */
static int add_languages(struct tokenizer *t, const struct tokenizer_config *c, json_t *vocab, struct snug_err *err)
{
    const struct codes *codes = NULL;
    char token[16];
    TRY(choose_codes(c, &codes, err));
    t->first_language = (int32_t)json_object_size(vocab);
    for (const char *at = codes->list; *at;) {
        size_t n = strcspn(at, " ");
        snprintf(token, sizeof token, "__%.*s__", (int)n, at);
        if (json_object_get(vocab, token))
            return err_set(err, SNUG_ERR_INPUT, "%s: has the token %s, which %s adds itself; remove it", t->path, token,
                           "M2M100Tokenizer");
        if (json_object_set_new(vocab, token, json_integer((json_int_t)json_object_size(vocab))))
            return err_no_memory(err, sizeof token);
        t->n_languages++;
        at += n + (at[n] == ' ');
    }
    return SNUG_OK;
}

static int read_vocab(struct tokenizer *t, const struct io *io, const struct tokenizer_config *c,
                      const struct family *f, struct snug_err *err)
{
    json_t *vocab;
    TRY(json_read_object(io, t->path, LIMIT, &vocab, err));
    int code = f->languages ? add_languages(t, c, vocab, err) : SNUG_OK;
    if (!code)
        code = tokenizer_read_ids(t, vocab, err);
    json_decref(vocab);
    return code;
}

/* One that a file names gets its flags from there, later. */
static int read_special(struct tokenizer *t, const struct tokenizer_config *c, const struct family *f,
                        enum special_token which, struct snug_err *err)
{
    struct added_token token;
    const char *path;
    TRY(tokenizer_config_token(c, which, &token, &path, err));
    if (!path)
        token.content = f->names[which];
    if (!token.content)
        return SNUG_OK;
    t->special[which] = trie_find(&t->vocab, token.content, strlen(token.content));
    if (t->special[which] < 0)
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: %s is missing; add it, or name the token that stands for it as %s in tokenizer_config.json",
                       t->path, token.content, special_token_keys[which]);
    return path ? SNUG_OK : tokenizer_add_token(t, token, -1, t->path, err);
}

static int read_specials(struct tokenizer *t, const struct tokenizer_config *c, const struct family *f,
                         struct snug_err *err)
{
    for (int i = 0; i < TOKEN_SPECIALS; i++)
        TRY(read_special(t, c, f, (enum special_token)i, err));
    static const enum special_token needed[] = {TOKEN_UNK, TOKEN_EOS};
    for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
        if (t->special[needed[i]] < 0)
            return err_set(err, SNUG_ERR_INPUT, "%s: %s is null, but %s needs it; name a token", c->path,
                           special_token_keys[needed[i]], f->class);
    return SNUG_OK;
}

static int add_models(struct tokenizer *t, const struct io *io, const char *dir, const struct family *family,
                      struct snug_err *err)
{
    void *state;
    struct folder *f = step_state(t, sizeof *f, &state, err);
    const char *source = arena_printf(&t->arena, "%s/%s", dir, family->source),
               *target = arena_printf(&t->arena, "%s/%s", dir, family->target ? family->target : "");
    if (!f)
        return SNUG_ERR_ENV;
    if (!source || !target)
        return err_no_memory(err, strlen(dir) + 32);
    f->family = family;
    TRY(tokenizer_push_step(t, STEP_MODEL, (struct step){&model_step, f}, err));
    TRY(tokenizer_push_step(t, STEP_DECODER, (struct step){&decoder_step, f}, err));
    TRY(spm_native_open(io, source, t, t->special[TOKEN_UNK], &f->source, err));
    return family->target ? spm_native_open(io, target, t, t->special[TOKEN_UNK], &f->target, err) : SNUG_OK;
}

/* "A </s>" or "__en__ A </s>", and the same of "A B". */
static int set_template(struct tokenizer *t, struct template *form, bool pair, int32_t language, struct snug_err *err)
{
    struct template_part *parts = arena_alloc(&t->arena, 4 * sizeof *parts);
    int32_t *ids = arena_alloc(&t->arena, 2 * sizeof *ids);
    size_t n = 0;
    if (!parts || !ids)
        return err_no_memory(err, 4 * sizeof *parts);
    ids[0] = language;
    ids[1] = t->special[TOKEN_EOS];
    if (language >= 0)
        parts[n++] = (struct template_part){.kind = PART_SPECIAL, .ids = ids, .n_ids = 1};
    parts[n++] = (struct template_part){.kind = PART_A};
    if (pair)
        parts[n++] = (struct template_part){.kind = PART_B};
    parts[n++] = (struct template_part){.kind = PART_SPECIAL, .ids = ids + 1, .n_ids = 1};
    *form = (struct template){parts, n, language >= 0 ? 2 : 1};
    return SNUG_OK;
}

static int read_folder(struct tokenizer *t, const struct io *io, const struct tokenizer_config *c,
                       const struct family *f, struct snug_err *err)
{
    TRY(check_config(c, err));
    TRY(read_vocab(t, io, c, f, err));
    TRY(read_specials(t, c, f, err));
    TRY(add_models(t, io, c->dir, f, err));
    int32_t language = f->languages ? tokenizer_id(t, "__en__") : -1;
    TRY(set_template(t, &t->single, false, language, err));
    TRY(set_template(t, &t->pair, true, language, err));
    t->has_template = true;
    return SNUG_OK;
}

/* *lacks: which of its files is not there, NULL: all are. *has_source: the first of them is, under a name of the class's own. */
static int find_files(struct tokenizer *t, const struct io *io, const char *dir, const struct family *f,
                      const char **lacks, bool *has_source, struct snug_err *err)
{
    const char *const names[] = {f->source, f->target ? f->target : f->source, "vocab.json"};
    *lacks = NULL;
    for (int i = 0; i < 3; i++) {
        bool has;
        const char *path = arena_printf(&t->arena, "%s/%s", dir, names[i]);
        if (!path)
            return err_no_memory(err, strlen(dir) + 32);
        TRY(tokenizer_has_file(io, path, &has, err));
        *has_source = i ? *has_source : has && f->target;
        *lacks = has ? *lacks : path;
        t->path = path;
    }
    return SNUG_OK;
}

static bool may_be(const struct family *f, const struct tokenizer_config *c)
{
    return c->class ? !strcmp(c->class, f->class) : !c->model_type || !strcmp(c->model_type, f->model_type);
}

int tokenizer_read_translator(struct tokenizer *t, const struct io *io, const struct tokenizer_config *c, bool *is_one,
                              const char **lacks, struct snug_err *err)
{
    *is_one = false;
    *lacks = NULL;
    for (int i = 0; i < FAMILIES && !*is_one; i++) {
        const char *lack;
        bool has_source = false;
        if (!may_be(&families[i], c))
            continue;
        TRY(find_files(t, io, c->dir, &families[i], &lack, &has_source, err));
        *is_one = !lack;
        if (c->class || has_source)
            *lacks = lack;
        TRY(*is_one ? read_folder(t, io, c, &families[i], err) : SNUG_OK);
    }
    return SNUG_OK;
}
