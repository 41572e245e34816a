/* Cutting a normalised text into pieces as SentencePiece does it (its unigram_model.cc, EncodeOptimized, and bpe_model.cc). Sums of
 * scores are floats over the whole text, one of two equal ways is the one that was found first, and unknown characters that follow one
 * another are one piece. */
#include "tokenizer/spm/native.h"
#include "tokenizer/steps/merge.h"
#include "tokenizer/unicode.h"

#include <string.h>

static const float unknown_penalty = 10, user_bonus = 0.1F; /* of its library 0.2.3 */

/* ---- pieces to ids ---- */

/* Unknown characters that are not an id yet: bytes start to end of the text; none where both are equal. */
struct unknown {
    size_t start, end;
};

int32_t spm_native_id(const struct spm_native *n, const struct tokenizer *t, const char *piece, size_t bytes)
{
    int32_t added = trie_find(&t->added_ids, piece, bytes), id = trie_find(&t->vocab, piece, bytes);
    return added >= 0 ? t->added[added].id : id >= 0 ? id : n->unk_id;
}

static int push_unknown(const struct spm_native *n, struct encoder *e, struct text text, struct unknown *u)
{
    if (u->start == u->end)
        return SNUG_OK;
    TRY(push_token(e, spm_native_id(n, e->t, text.s + u->start, u->end - u->start), text, u->start, u->end));
    u->start = u->end;
    return SNUG_OK;
}

static int push_bytes(const struct spm_native *n, struct encoder *e, struct text text, size_t start, size_t end)
{
    for (size_t i = start; i < end; i++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", (unsigned char)text.s[i]);
        TRY(push_token(e, spm_native_id(n, e->t, name, 6), text, start, end));
    }
    return SNUG_OK;
}

static int push_piece_of(const struct spm_native *n, struct encoder *e, struct text text, struct unknown *u,
                         size_t start, size_t end, int32_t piece)
{
    if (piece == n->unk && !n->spm.byte_fallback) {
        u->start = u->start == u->end ? start : u->start;
        u->end = end;
        return SNUG_OK;
    }
    TRY(push_unknown(n, e, text, u));
    return piece == n->unk ? push_bytes(n, e, text, start, end) : push_token(e, n->ids[piece], text, start, end);
}

/* ---- Unigram ---- */

/* Sums are floats, in a double. */
static void offer(struct lattice_node *to, float score, size_t from, int32_t piece)
{
    if (to->from == SIZE_MAX || (double)score > to->score)
        *to = (struct lattice_node){(double)score, from, piece};
}

/* A piece of a user counts for more than what it could be cut into, whose scores are below 0. */
static float score_of(const struct spm_native *n, int32_t piece, size_t bytes)
{
    const struct spm_piece *p = &n->spm.pieces[piece];
    return p->type == SPM_USER_DEFINED ? user_bonus * (float)(bytes - 1) : (float)p->score;
}

static bool can_stand(const struct spm_native *n, int32_t piece)
{
    enum spm_type type = n->spm.pieces[piece].type;
    return type == SPM_NORMAL || type == SPM_USER_DEFINED;
}

static void find_paths(const struct spm_native *n, struct lattice_node *nodes, struct text text)
{
    const float unk_score = n->lowest - unknown_penalty;
    for (size_t i = 0; i <= text.n; i++)
        nodes[i] = (struct lattice_node){0, SIZE_MAX, -1};
    for (size_t at = 0, bytes; at < text.n; at += bytes) {
        bytes = (size_t)utf8_sequence(text.s + at, text.n - at);
        bool alone = false;
        float before = (float)nodes[at].score;
        uint32_t node = TRIE_ROOT;
        for (size_t i = at; i < text.n && (node = trie_step(&n->pieces, node, (unsigned char)text.s[i])); i++) {
            int32_t piece = n->pieces.values[node];
            if (piece < 0 || !can_stand(n, piece))
                continue;
            offer(&nodes[i + 1], score_of(n, piece, i + 1 - at) + before, at, piece);
            alone = alone || i + 1 - at == bytes;
        }
        if (!alone)
            offer(&nodes[at + bytes], unk_score + before, at, n->unk);
    }
}

/* The path is known from its end. Turned round: a node on it then has where its piece ends, and which piece that is. */
static void turn_path(struct lattice_node *nodes, size_t end)
{
    size_t next = SIZE_MAX;
    int32_t next_id = -1;
    for (size_t at = end;;) {
        struct lattice_node node = nodes[at];
        nodes[at].from = next;
        nodes[at].id = next_id;
        next = at;
        next_id = node.id;
        if (at == 0)
            return;
        at = node.from;
    }
}

static int cut_unigram(const struct spm_native *n, struct encoder *e, struct text text, struct unknown *u)
{
    struct scratch *s = e->s;
    if (!MEM_GROW(s->lattice, s->lattice_cap, text.n + 1))
        return err_no_memory(e->err, (text.n + 1) * sizeof *s->lattice);
    find_paths(n, s->lattice, text);
    turn_path(s->lattice, text.n);
    for (size_t at = 0; at < text.n; at = s->lattice[at].from)
        TRY(push_piece_of(n, e, text, u, at, s->lattice[at].from, s->lattice[at].id));
    return SNUG_OK;
}

/* ---- BPE ---- */

static bool is_user(const struct spm_native *n, int32_t piece)
{
    return n->spm.pieces[piece].type == SPM_USER_DEFINED;
}

static bool find_merge(const void *state, struct text text, const struct symbol *s, int32_t at, struct merge *m)
{
    const struct spm_native *n = state;
    int32_t next = s[at].next;
    size_t start = s[at].before < 0 ? 0 : s[s[at].before].end;
    if (is_user(n, s[at].id) || is_user(n, s[next].id))
        return false;
    int32_t piece = trie_find(&n->pieces, text.s + start, s[next].end - start);
    if (piece < 0 || !can_stand(n, piece))
        return false;
    *m = (struct merge){n->ranks[piece], at, piece};
    return true;
}

static int cut_bpe(const struct spm_native *n, struct encoder *e, struct text text, struct unknown *u)
{
    size_t count = 0, start = 0;
    for (size_t at = 0, bytes; at < text.n; at += bytes) {
        bytes = spm_native_user(n, text, at);
        if (!bytes)
            bytes = (size_t)utf8_sequence(text.s + at, text.n - at);
        int32_t piece = trie_find(&n->pieces, text.s + at, bytes);
        TRY(symbol_push(e, &count, piece < 0 ? n->unk : piece, at + bytes));
    }
    TRY(merge_all(e, text, count, find_merge, n));
    for (int32_t i = 0; i >= 0; i = e->s->symbols[i].next) {
        TRY(push_piece_of(n, e, text, u, start, e->s->symbols[i].end, e->s->symbols[i].id));
        start = e->s->symbols[i].end;
    }
    return SNUG_OK;
}

int spm_native_cut(const struct spm_native *n, struct encoder *e, struct text text)
{
    struct unknown u = {0};
    if (!text.n)
        return SNUG_OK;
    TRY(n->spm.bpe ? cut_bpe(n, e, text, &u) : cut_unigram(n, e, text, &u));
    return push_unknown(n, e, text, &u);
}
