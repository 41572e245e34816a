/* Instructions that the lanes of a warp carry out together. Fragments of matrices lie over the lanes as the ISA has them for mma
 * (section "Warp-level matrix instructions"). */
#include "numbers.h"
#include "ptx.h"

#include <string.h>

static uint64_t in(struct thread *t, int k)
{
    return operand(t, &t->at->o[k]);
}

static void must_be_all(struct thread *lane[32], const struct thread *any)
{
    for (int k = 0; k < 32; k++)
        if (!lane[k])
            fault(any, any->at, "lane %d of the warp does not take part", k);
}

/* shfl.sync.MODE.b32 d[|p], a, b, c, mask */
static void shuffle(struct thread *lane[32], const struct instruction *i)
{
    uint64_t given[32] = {0}, taken[32] = {0};
    bool inside[32] = {0};
    int first = i->n - 4;
    for (int k = 0; k < 32; k++)
        if (lane[k])
            given[k] = in(lane[k], first);
    for (int k = 0; k < 32; k++) {
        if (!lane[k])
            continue;
        int b = (int)in(lane[k], first + 1), c = (int)in(lane[k], first + 2), segment = c >> 8 & 31, clamp = c & 31,
            from;
        int most = (k & segment) | (clamp & ~segment), least = k & segment;
        switch (i->mode[0]) {
        case 'b':
            from = k ^ (b & 31);
            inside[k] = from <= most;
            break;
        case 'd':
            from = k + (b & 31);
            inside[k] = from <= most;
            break;
        case 'u':
            from = k - (b & 31);
            inside[k] = from >= most;
            break;
        default:
            from = least | (b & 31 & ~segment);
            inside[k] = from <= most;
        }
        if (!inside[k])
            from = k;
        if (!lane[from])
            fault(lane[k], i, "it reads lane %d, which does not take part", from);
        taken[k] = given[from];
    }
    for (int k = 0; k < 32; k++)
        if (lane[k]) {
            set(lane[k], &i->o[0], taken[k]);
            if (first > 1)
                set(lane[k], &i->o[1], inside[k]);
        }
}

/* vote.sync.ballot|any|all d, [!]p, mask */
static void vote(struct thread *lane[32], const struct instruction *i)
{
    uint32_t ballot = 0, taking = 0;
    for (int k = 0; k < 32; k++)
        if (lane[k]) {
            taking |= UINT32_C(1) << k;
            ballot |= (uint32_t)(in(lane[k], 1) & 1) << k;
        }
    uint64_t v = i->mode[0] == 'b' ? ballot : i->mode[1] == 'n' ? ballot != 0 : ballot == taking;
    for (int k = 0; k < 32; k++)
        if (lane[k])
            set(lane[k], &i->o[0], v);
}

/* redux.sync.MODE.u32 d, a, mask */
static void reduce(struct thread *lane[32], const struct instruction *i)
{
    uint32_t v = i->mode[1] == 'i' || i->mode[1] == 'n' ? UINT32_MAX : 0;
    for (int k = 0; k < 32; k++) {
        if (!lane[k])
            continue;
        uint32_t x = (uint32_t)in(lane[k], 1);
        if (i->type != PTX_U32 && i->type != PTX_B32)
            fault(lane[k], i, "this form of the instruction is not known");
        v = !strcmp(i->mode, "max")   ? (x > v ? x : v)
            : !strcmp(i->mode, "min") ? (x < v ? x : v)
            : !strcmp(i->mode, "add") ? v + x
            : !strcmp(i->mode, "and") ? v & x
            : !strcmp(i->mode, "or")  ? v | x
                                      : v ^ x;
    }
    for (int k = 0; k < 32; k++)
        if (lane[k])
            set(lane[k], &i->o[0], v);
}

/* match.sync.any.b32 d, a, mask: the lanes with the same value */
static void match(struct thread *lane[32], const struct instruction *i)
{
    uint32_t equal[32] = {0};
    for (int k = 0; k < 32; k++)
        for (int j = 0; j < 32; j++)
            if (lane[k] && lane[j] && in(lane[k], 1) == in(lane[j], 1))
                equal[k] |= UINT32_C(1) << j;
    for (int k = 0; k < 32; k++)
        if (lane[k])
            set(lane[k], &i->o[0], equal[k]);
}

/* ldmatrix.sync.aligned.m8n8.x4[.trans].shared.b16 {d…}, [row]: lane 8 m + r names row r of matrix m */
static void load_matrices(struct thread *lane[32], const struct instruction *i)
{
    int matrices = i->n - 1;
    bool transposed = ptx_has(i, "trans");
    uint16_t m[4][8][8];
    for (int k = 0; k < 8 * matrices; k++) {
        uint64_t row = in(lane[k], matrices);
        if (row % 16)
            fault(lane[k], i, "a row that is not aligned to 16 bytes");
        check_access(lane[k], i, row, 16);
        memcpy(m[k / 8][k % 8], (const void *)(uintptr_t)row, 16);
    }
    for (int k = 0; k < 32; k++)
        for (int j = 0; j < matrices; j++) {
            int a = k / 4, b = 2 * (k % 4);
            uint32_t low = transposed ? m[j][b][a] : m[j][a][b], high = transposed ? m[j][b + 1][a] : m[j][a][b + 1];
            set(lane[k], &i->o[j], low | high << 16);
        }
}

/* One of the two numbers that a register holds. */
static double half_of(uint64_t v, int which, enum ptx_type type)
{
    uint16_t bits = (uint16_t)(v >> 16 * which);
    return (double)(type == PTX_BF16 ? bf16_to_float(bits) : fp16_to_float(bits));
}

/* mma.sync.aligned.m16nNkK.row.col.f32.TYPE.TYPE.f32 {d0…d3}, {a0…a3}, {b0,b1}, {c0…c3}. Products and sums of the depth are exact
 * here and rounded once; a GPU truncates somewhat. */
static void multiply_matrices(struct thread *lane[32], const struct instruction *i)
{
    double a[16][16], b[16][8];
    bool tf32 = i->from == PTX_TF32;
    int depth = tf32 ? 8 : 16;
    if (i->n != 14 || i->type != PTX_F32 || !(tf32 ? ptx_has(i, "m16n8k8") : ptx_has(i, "m16n8k16")))
        fault(lane[0], i, "this form of the instruction is not known");
    for (int k = 0; k < 32; k++) {
        int g = k / 4, t = k % 4;
        for (int r = 0; r < 4; r++) { /* registers of a: rows g and g + 8, then the second half of the depth */
            uint64_t v = in(lane[k], 4 + r);
            int row = g + r % 2 * 8;
            if (tf32)
                a[row][t + r / 2 * 4] = (double)f32_of(v & 0xffffe000);
            else
                for (int h = 0; h < 2; h++)
                    a[row][2 * t + h + r / 2 * 8] = half_of(v, h, i->from);
        }
        for (int r = 0; r < 2; r++) {
            uint64_t v = in(lane[k], 8 + r);
            if (tf32)
                b[t + 4 * r][g] = (double)f32_of(v & 0xffffe000);
            else
                for (int h = 0; h < 2; h++)
                    b[2 * t + h + 8 * r][g] = half_of(v, h, i->from);
        }
    }
    for (int k = 0; k < 32; k++) {
        float d[4];
        for (int r = 0; r < 4; r++) {
            int row = k / 4 + r / 2 * 8, column = k % 4 * 2 + r % 2;
            double sum = (double)f32_of(in(lane[k], 10 + r));
            for (int j = 0; j < depth; j++)
                sum += a[row][j] * b[j][column];
            d[r] = (float)sum;
        }
        for (int r = 0; r < 4; r++)
            set(lane[k], &i->o[r], bits_f32(d[r]));
    }
}

void warp_execute(struct thread *lane[32])
{
    const struct thread *any = NULL;
    for (int k = 0; !any; k++)
        any = lane[k];
    const struct instruction *i = any->at;
    const char *m = i->mnemonic;
    if (!strncmp(m, "shfl", 4))
        shuffle(lane, i);
    else if (!strncmp(m, "vote", 4))
        vote(lane, i);
    else if (!strncmp(m, "redux", 5))
        reduce(lane, i);
    else if (!strncmp(m, "match", 5))
        match(lane, i);
    else if (!strncmp(m, "ldmatrix", 8)) {
        must_be_all(lane, any);
        load_matrices(lane, i);
    } else if (!strncmp(m, "mma", 3)) {
        must_be_all(lane, any);
        multiply_matrices(lane, i);
    } else if (strncmp(m, "bar.warp", 8))
        fault(any, i, "this form of the instruction is not known");
}
