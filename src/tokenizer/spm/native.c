/* From a model file of SentencePiece to one that can cut texts. */
#include "tokenizer/spm/native.h"

#include <float.h>
#include <stdlib.h>
#include <string.h>

/* As many as there are bytes, where the unknown falls back to them. */
static int check_bytes(const struct spm_native *n, const char *path, struct snug_err *err)
{
    for (int i = 0; i < 256; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", i);
        int32_t piece = trie_find(&n->pieces, name, 6);
        if (piece < 0 || n->spm.pieces[piece].type != SPM_BYTE)
            return err_set(err, SNUG_ERR_INPUT, "%s: byte_fallback is true, but there is no piece %s; train it again",
                           path, name);
    }
    return SNUG_OK;
}

static int add_piece(struct spm_native *n, const struct tokenizer *t, int32_t i, const char *path, struct snug_err *err)
{
    const struct spm_piece *p = &n->spm.pieces[i];
    size_t bytes = strlen(p->text);
    int32_t twin = trie_find(&n->pieces, p->text, bytes);
    if (twin >= 0)
        return err_set(err, SNUG_ERR_INPUT, "%s: pieces %d and %d both are \"%s\"; train the model again", path, twin,
                       i, p->text);
    if (p->type == SPM_UNKNOWN && n->unk >= 0)
        return err_set(err, SNUG_ERR_INPUT, "%s: pieces %d and %d both are unknown; train the model again", path,
                       n->unk, i);
    if (p->type == SPM_UNUSED && n->spm.bpe)
        return err_set(err, SNUG_ERR_INPUT, "%s: piece \"%s\" of BPE is unused, which is not supported", path, p->text);
    if (p->type == SPM_UNKNOWN)
        n->unk = i;
    if (p->type == SPM_NORMAL && (float)p->score < n->lowest)
        n->lowest = (float)p->score;
    if (p->type == SPM_USER_DEFINED)
        TRY(trie_add(&n->users, p->text, bytes, i, err));
    n->ids[i] = spm_native_id(n, t, p->text, bytes);
    return trie_add(&n->pieces, p->text, bytes, i, err);
}

struct scored {
    double score;
    int32_t piece;
};

static int higher_first(const void *a, const void *b)
{
    const struct scored *x = a, *y = b;
    return x->score > y->score ? -1 : x->score < y->score;
}

static int rank_pieces(struct spm_native *n, struct snug_err *err)
{
    struct scored *list = mem_alloc(n->spm.n * sizeof *list);
    if (!list)
        return err_no_memory(err, n->spm.n * sizeof *list);
    for (size_t i = 0; i < n->spm.n; i++)
        list[i] = (struct scored){n->spm.pieces[i].score, (int32_t)i};
    qsort(list, n->spm.n, sizeof *list, higher_first);
    for (size_t i = 0; i < n->spm.n; i++) {
        bool same = i && list[i].score == list[i - 1].score;
        n->ranks[list[i].piece] = same ? n->ranks[list[i - 1].piece] : (int32_t)i;
    }
    mem_free(list);
    return SNUG_OK;
}

static int read_rules(struct spm_native *n, struct arena *a, const char *path, struct snug_err *err)
{
    bool good = true;
    struct charsmap *rules = arena_alloc(a, sizeof *rules);
    if (!rules)
        return err_no_memory(err, sizeof *rules);
    if (!n->spm.charsmap)
        return SNUG_OK;
    TRY(charsmap_read(rules, a, n->spm.charsmap, &good, err));
    n->rules = rules;
    return good ? SNUG_OK
                : err_set(err, SNUG_ERR_INPUT,
                          "%s: its rules of normalization are not what sentencepiece writes; is "
                          "the file complete?",
                          path);
}

int spm_native_open(const struct io *io, const char *path, struct tokenizer *t, int32_t unk_id, struct spm_native *n,
                    struct snug_err *err)
{
    TRY(spm_read(io, path, &t->arena, &n->spm, err));
    n->unk = -1;
    n->unk_id = unk_id;
    n->lowest = FLT_MAX;
    n->ids = arena_alloc(&t->arena, n->spm.n * sizeof *n->ids);
    n->ranks = arena_alloc(&t->arena, n->spm.n * sizeof *n->ranks);
    if (!n->ids || !n->ranks)
        return err_no_memory(err, n->spm.n * sizeof *n->ids);
    if (n->spm.denormalizes)
        return err_set(err, SNUG_ERR_INPUT, "%s: has a denormalizer_spec with rules, which is not supported", path);
    for (size_t i = 0; i < n->spm.n; i++)
        TRY(add_piece(n, t, (int32_t)i, path, err));
    if (n->unk < 0)
        return err_set(err, SNUG_ERR_INPUT, "%s: no piece is the unknown one; train the model again", path);
    if (n->spm.byte_fallback)
        TRY(check_bytes(n, path, err));
    TRY(rank_pieces(n, err));
    return read_rules(n, &t->arena, path, err);
}

void spm_native_free(struct spm_native *n)
{
    trie_free(&n->pieces);
    trie_free(&n->users);
    spm_free(&n->spm);
}

void spm_native_hash(const struct spm_native *n, struct hash_state *h)
{
    const struct spm *m = &n->spm;
    const unsigned char switches[6] = {m->bpe,          m->byte_fallback,  m->blanks_behind,
                                       m->dummy_prefix, m->removes_blanks, m->escapes_blanks};
    hash_add(h, switches, sizeof switches);
    hash_add(h, &m->n, sizeof m->n);
    for (size_t i = 0; i < m->n; i++) {
        int32_t type = (int32_t)m->pieces[i].type;
        hash_add(h, m->pieces[i].text, strlen(m->pieces[i].text) + 1);
        hash_add(h, &m->pieces[i].score, sizeof m->pieces[i].score);
        hash_add(h, &type, sizeof type);
    }
    if (m->charsmap)
        hash_add(h, m->charsmap, strlen(m->charsmap) + 1);
}
