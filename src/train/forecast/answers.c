#include "train/forecast/answers.h"

#include "train/session/session.h"

/* B sequences with a source of `rows` tokens, which the first of each prompt's beams reads where `reads`. Gives what lies behind its
 * arrays. */
static int32_t *lay_sources(struct batch *b, int32_t *ints, int64_t rows, int64_t beams, bool reads)
{
    int64_t B = b->B, S = reads ? B / beams * rows : 0;
    int32_t *ids = ints, *positions = ids + S, *cu = positions + S, *whole = cu + B + 1;
    for (int64_t i = 0; i < S; i++)
        positions[i] = (int32_t)(i % rows);
    for (int64_t i = 0; i <= B; i++)
        cu[i] = (int32_t)(reads ? (i + beams - 1) / beams * rows : 0);
    for (int64_t i = 0; i < B; i++)
        whole[i] = (int32_t)rows;
    b->S = (int32_t)S;
    b->source_ids = ids;
    b->source_positions = positions;
    b->source_cu_seqlens = cu;
    b->source_rows = whole;
    return whole + B;
}

/* B sequences of `each` new tokens behind `past` others. Gives what lies behind its arrays. */
static int32_t *lay(struct batch *b, int32_t *ints, int64_t B, int64_t each, int64_t past)
{
    int64_t T = B * each;
    int32_t *ids = ints, *positions = ids + T, *cu = positions + T, *behind = cu + B + 1, *sample = behind + B;
    for (int64_t i = 0; i < T; i++)
        positions[i] = (int32_t)(past + i % each);
    for (int64_t i = 0; i <= B; i++)
        cu[i] = (int32_t)(i * each);
    for (int64_t i = 0; i < B; i++) {
        behind[i] = (int32_t)past;
        sample[i] = (int32_t)i;
    }
    *b = (struct batch){.T = (int32_t)T,
                        .B = (int32_t)B,
                        .ids = ids, /* zeros, which every vocabulary has */
                        .positions = positions,
                        .cu_seqlens = cu,
                        .past = behind,
                        .sample = sample};
    return sample + B;
}

int answers_open(struct answers *a, const struct session *s, struct snug_err *err)
{
    const struct prompts *p = &s->prompts;
    const struct compile_settings *c = &s->compile;
    *a = (struct answers){0};
    if (!p->n || s->run.where.generate < 0)
        return SNUG_OK;
    int64_t B = c->generate_max.B, most = c->generate_max.T / B, length = (int64_t)(p->begins[p->n] / p->n);
    int64_t source = c->source_rows ? length : 0;
    length = c->source_rows || length < 1 ? 1 : length > c->cache_rows ? c->cache_rows : length;
    int64_t piece = length < most ? length : most, left = c->cache_rows - length;
    int64_t written = s->o->max_new_tokens < left ? s->o->max_new_tokens : left; /* the last one is not read */
    int64_t beams = c->beams > 1 ? c->beams : 1;
    double rounds = (double)p->n / (double)(B / beams);
    a->calls[ANSWERS_READ] = rounds * (double)((length + piece - 1) / piece);
    a->calls[ANSWERS_WRITE] = rounds * (double)(written > 1 ? written - 1 : 0);
    a->ints = mem_alloc((size_t)(2 * B * (piece + 1 + source) + 2 * (5 * B + 2)) * sizeof *a->ints);
    if (!a->ints)
        return err_no_memory(err, (size_t)(B * piece) * sizeof *a->ints);
    int32_t *rest = lay(&a->batch[ANSWERS_READ], a->ints, B, piece, 0);
    rest = lay(&a->batch[ANSWERS_WRITE], rest, B, 1, left > 0 ? length + (written - 1) / 2 : length - 1);
    if (!source)
        return SNUG_OK;
    rest = lay_sources(&a->batch[ANSWERS_READ], rest, source, beams, true);
    lay_sources(&a->batch[ANSWERS_WRITE], rest, source, beams, false);
    return SNUG_OK;
}

void answers_close(struct answers *a)
{
    mem_free(a->ints);
}
