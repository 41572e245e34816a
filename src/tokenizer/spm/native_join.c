/* Pieces to text as SentencePiece does it (its sentencepiece_processor.cc, Decode): "▁" becomes a blank, the one before the text goes,
 * bytes become characters, and what is no piece stays what it is. */
#include "tokenizer/spm/native.h"

#include <string.h>

struct joined {
    const struct spm_native *n;
    struct encoder *e;
    struct text_buf *out;
    size_t start;            /* of the text in `out` */
    struct text_buf *bytes;  /* that are no characters yet */
    bool begins, took_blank; /* a blank before the text may go; the last piece has lost one */
};

static int byte_of(struct text piece)
{
    unsigned value;
    char text[8] = {0};
    if (piece.n != 6)
        return -1;
    memcpy(text, piece.s, 6);
    return sscanf(text, "<0x%2X>", &value) == 1 ? (int)value : -1;
}

static int end_bytes(struct joined *j)
{
    struct text_buf *b = j->bytes;
    for (size_t i = 0; i < b->n;) {
        int length = utf8_sequence(b->s + i, b->n - i);
        TRY(length ? text_append(j->out, b->s + i, (size_t)length, j->e->err)
                   : text_append(j->out, "\xEF\xBF\xBD", 3, j->e->err));
        i += length ? (size_t)length : 1;
    }
    text_start(b, false);
    return SNUG_OK;
}

static int add_with_blanks(struct joined *j, struct text piece)
{
    for (size_t i = 0; i < piece.n;) {
        bool blank = piece.n - i >= SPM_BLANK_BYTES && !memcmp(piece.s + i, SPM_BLANK, SPM_BLANK_BYTES);
        TRY(text_append(j->out, blank ? " " : piece.s + i, 1, j->e->err));
        i += blank ? SPM_BLANK_BYTES : 1;
    }
    return SNUG_OK;
}

static int add_known(struct joined *j, struct text piece)
{
    const struct spm *m = &j->n->spm;
    bool blank = piece.n >= SPM_BLANK_BYTES && !memcmp(piece.s, SPM_BLANK, SPM_BLANK_BYTES);
    if (j->begins && blank && (m->dummy_prefix || m->removes_blanks)) {
        piece = text_part(piece, SPM_BLANK_BYTES, piece.n);
        j->took_blank = !m->removes_blanks; /* else the next one goes too */
    }
    return add_with_blanks(j, piece);
}

static int add(struct joined *j, struct text piece)
{
    int32_t i = trie_find(&j->n->pieces, piece.s, piece.n);
    enum spm_type type = i < 0 ? SPM_UNKNOWN : j->n->spm.pieces[i].type;
    int value = type == SPM_BYTE ? byte_of(piece) : -1;
    if (value >= 0) {
        char c = (char)value;
        return text_append(j->bytes, &c, 1, j->e->err);
    }
    TRY(end_bytes(j));
    j->begins = j->begins && !j->took_blank && j->out->n == j->start;
    j->took_blank = false;
    if (type == SPM_CONTROL)
        return SNUG_OK;
    if (type == SPM_UNKNOWN && i >= 0)
        return text_append(j->out, j->n->spm.unk_surface, strlen(j->n->spm.unk_surface), j->e->err);
    return type == SPM_UNKNOWN ? text_append(j->out, piece.s, piece.n, j->e->err) : add_known(j, piece);
}

int spm_native_join(const struct spm_native *n, struct encoder *e, const struct words *w, size_t from, size_t to,
                    struct text_buf *out)
{
    struct joined j = {.n = n, .e = e, .out = out, .start = out->n, .bytes = &e->s->normal[0], .begins = true};
    text_start(j.bytes, false);
    for (size_t i = from; i < to; i++)
        TRY(add(&j, word_text(w, i)));
    return end_bytes(&j);
}
