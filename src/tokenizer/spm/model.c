#include "tokenizer/spm/model.h"

#include "base/str.h"
#include "format/protobuf.h"

#include <math.h>
#include <string.h>

enum { LIMIT = 256 * 1024 * 1024 };

/* Numbers of fields in sentencepiece_model.proto. */
enum { MODEL_PIECES = 1, MODEL_TRAINER, MODEL_NORMALIZER, MODEL_DENORMALIZER = 5 };
enum { PIECE_TEXT = 1, PIECE_SCORE, PIECE_TYPE };
enum {
    TRAINER_MODEL_TYPE = 3,
    TRAINER_BLANKS_BEHIND = 24,
    TRAINER_BYTE_FALLBACK = 35,
    TRAINER_UNK_ID = 40,
    TRAINER_UNK_SURFACE = 44
};
enum { NORMALIZER_CHARSMAP = 2, NORMALIZER_DUMMY_PREFIX, NORMALIZER_REMOVES_BLANKS, NORMALIZER_ESCAPES_BLANKS };
enum { TYPE_UNIGRAM = 1, TYPE_BPE };

static int broken(const char *path, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_INPUT, "%s: not what sentencepiece writes; is the file complete?", path);
}

static bool is_text(struct proto_reader s)
{
    return s.n && utf8_prefix(s.s, s.n) == s.n;
}

static int read_piece(struct proto_reader r, const char *path, struct arena *a, struct spm *m, struct snug_err *err)
{
    struct spm_piece p = {.type = SPM_NORMAL};
    struct proto_field f;
    enum proto_read got;
    while ((got = proto_next(&r, &f)) == PROTO_READ) {
        if (f.number == PIECE_TEXT && f.kind == PROTO_BYTES) {
            if (!is_text(f.bytes))
                return err_set(err, SNUG_ERR_INPUT, "%s: piece %zu is no text; train the tokenizer again", path, m->n);
            p.text = arena_strndup(a, f.bytes.s, f.bytes.n);
            if (!p.text)
                return err_no_memory(err, f.bytes.n);
        } else if (f.number == PIECE_SCORE && f.kind == PROTO_FLOAT) {
            p.score = (double)proto_as_float(&f);
        } else if (f.number == PIECE_TYPE && f.kind == PROTO_VARINT) {
            p.type = f.value >= SPM_NORMAL && f.value <= SPM_BYTE ? (enum spm_type)f.value : SPM_NORMAL;
        }
    }
    if (got == PROTO_BROKEN || !p.text || !isfinite(p.score))
        return broken(path, err);
    if (!MEM_GROW(m->pieces, m->cap, m->n + 1))
        return err_no_memory(err, m->n * sizeof *m->pieces);
    m->pieces[m->n++] = p;
    return SNUG_OK;
}

static int read_trainer(struct proto_reader r, const char *path, struct arena *a, struct spm *m, struct snug_err *err)
{
    static const char *const words[] = {"Unigram", "BPE", "words", "characters"};
    uint64_t type = TYPE_UNIGRAM;
    struct proto_field f;
    enum proto_read got;
    while ((got = proto_next(&r, &f)) == PROTO_READ) {
        if (f.number == TRAINER_UNK_SURFACE && f.kind == PROTO_BYTES &&
            utf8_prefix(f.bytes.s, f.bytes.n) == f.bytes.n) {
            m->unk_surface = arena_strndup(a, f.bytes.s, f.bytes.n);
            if (!m->unk_surface)
                return err_no_memory(err, f.bytes.n);
        }
        if (f.kind != PROTO_VARINT)
            continue;
        if (f.number == TRAINER_MODEL_TYPE)
            type = f.value;
        else if (f.number == TRAINER_BLANKS_BEHIND)
            m->blanks_behind = f.value;
        else if (f.number == TRAINER_BYTE_FALLBACK)
            m->byte_fallback = f.value;
        else if (f.number == TRAINER_UNK_ID)
            m->unk_id = (int32_t)(uint32_t)f.value;
    }
    if (got == PROTO_BROKEN || type < TYPE_UNIGRAM || type > sizeof words / sizeof *words)
        return broken(path, err);
    m->bpe = type == TYPE_BPE;
    return type <= TYPE_BPE ? SNUG_OK
                            : err_set(err, SNUG_ERR_INPUT, "%s: is a model of %s; Unigram and BPE are supported", path,
                                      words[type - 1]);
}

static char *base64(struct proto_reader s, struct arena *a)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    char *text = arena_alloc(a, (s.n + 2) / 3 * 4 + 1), *to = text;
    for (size_t i = 0; text && i < s.n; i += 3) {
        uint32_t bits = 0;
        for (size_t k = 0; k < 3; k++)
            bits = bits << 8 | (i + k < s.n ? (unsigned char)s.s[i + k] : 0);
        for (size_t k = 0; k < 4; k++)
            *to++ = i + k > s.n ? '=' : digits[bits >> (18 - 6 * k) & 63];
    }
    return text;
}

static void read_switch(const struct proto_field *f, struct spm *m)
{
    if (f->number == NORMALIZER_DUMMY_PREFIX)
        m->dummy_prefix = f->value;
    else if (f->number == NORMALIZER_REMOVES_BLANKS)
        m->removes_blanks = f->value;
    else if (f->number == NORMALIZER_ESCAPES_BLANKS)
        m->escapes_blanks = f->value;
}

static int read_normalizer(struct proto_reader r, const char *path, struct arena *a, struct spm *m,
                           struct snug_err *err)
{
    struct proto_field f;
    enum proto_read got;
    while ((got = proto_next(&r, &f)) == PROTO_READ) {
        if (f.kind == PROTO_VARINT)
            read_switch(&f, m);
        if (f.number != NORMALIZER_CHARSMAP || f.kind != PROTO_BYTES)
            continue;
        m->charsmap = f.bytes.n ? base64(f.bytes, a) : NULL;
        if (f.bytes.n && !m->charsmap)
            return err_no_memory(err, f.bytes.n);
    }
    return got == PROTO_BROKEN ? broken(path, err) : SNUG_OK;
}

/* Whether there are any rules. */
static int read_denormalizer(struct proto_reader r, const char *path, struct spm *m, struct snug_err *err)
{
    struct proto_field f;
    enum proto_read got;
    while ((got = proto_next(&r, &f)) == PROTO_READ)
        m->denormalizes = m->denormalizes || (f.number == NORMALIZER_CHARSMAP && f.kind == PROTO_BYTES && f.bytes.n);
    return got == PROTO_BROKEN ? broken(path, err) : SNUG_OK;
}

static int read_model(struct proto_reader r, const char *path, struct arena *a, struct spm *m, struct snug_err *err)
{
    struct proto_field f;
    enum proto_read got;
    while ((got = proto_next(&r, &f)) == PROTO_READ) {
        if (f.kind != PROTO_BYTES)
            continue;
        if (f.number == MODEL_PIECES)
            TRY(read_piece(f.bytes, path, a, m, err));
        else if (f.number == MODEL_TRAINER)
            TRY(read_trainer(f.bytes, path, a, m, err));
        else if (f.number == MODEL_NORMALIZER)
            TRY(read_normalizer(f.bytes, path, a, m, err));
        else if (f.number == MODEL_DENORMALIZER)
            TRY(read_denormalizer(f.bytes, path, m, err));
    }
    return got == PROTO_BROKEN || !m->n ? broken(path, err) : SNUG_OK;
}

int spm_read(const struct io *io, const char *path, struct arena *a, struct spm *m, struct snug_err *err)
{
    char *bytes;
    size_t n;
    *m = (struct spm){
        .dummy_prefix = true, .removes_blanks = true, .escapes_blanks = true, .unk_surface = " \xE2\x81\x87 "};
    TRY(io_read_file(io, path, LIMIT, &bytes, &n, err));
    int code = read_model((struct proto_reader){bytes, n}, path, a, m, err);
    mem_free(bytes);
    if (code)
        spm_free(m);
    return code;
}

void spm_free(struct spm *m)
{
    mem_free(m->pieces);
    m->pieces = NULL;
    m->n = m->cap = 0;
}
