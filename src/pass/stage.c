/* stage: what updates use of the host's memory, or of a file, comes to the device before them and goes back behind them, in buffers that
 * are used in turn. Updates that follow one another are cut into groups; the copies of one run beside the updates of another. */
#include "graph/lanes.h"
#include "pass/node_list.h"
#include "pass/pass.h"

#include <stdlib.h>
#include <string.h>

enum {
    GROUP_BYTES = 32 << 20, /* of a group, but for a tensor that is larger: long enough for the link's full rate */
    PIECE_BYTES = 32 << 20, /* between a file and the device at a time */
    LEAST_BUFFERS = 2
};

/* Updates first … end-1, all of one op and one rank. */
struct group {
    int first, end, rank;
    int come_before; /* the node before which its copies to the device stand */
    int64_t bytes;   /* that are copied */
    int moves, n_moves;
};

struct move {
    int far, near; /* the value in the host's memory or on disk, and its place in a buffer */
    bool returns;
};

struct buffer {
    int value[DT_COUNT]; /* by dtype; 0: none */
    int64_t elements[DT_COUNT];
    int user;   /* the last group of the rank at hand that has it, as index + 1; 0: none */
    int common; /* likewise of those that all ranks do, which come first */
};

struct stage {
    struct graph *g;
    struct group *groups;
    struct move *moves;
    struct buffer *buffers;
    size_t cap_groups, cap_moves, cap_buffers;
    int n_groups, n_moves, n_buffers;
    /* In the host's memory, for a piece on its way from or to a file; 0: there is none. */
    int between[LANE_COUNT][DT_COUNT];
    int used;         /* buffers that the rank at hand has used: the first ones */
    int common;       /* groups that all ranks do */
    int common_used;  /* buffers that these have used */
    int *returned;    /* by value: the node before which it has come back from an update; 0: it has not yet */
    int64_t *taken;   /* by node: the most bytes that live then or later, without buffers */
    int64_t most;     /* more may not live at once for the sake of a buffer that could be done without */
    int64_t buffered; /* bytes of all buffers */
    int earliest;     /* no copy stands before this node */
};

static void failed(struct stage *s)
{
    if (!s->g->err.code)
        err_no_memory(&s->g->err, (unsigned long long)s->g->n_nodes * sizeof(struct node));
}

/* That a rank has. */
static int64_t elements_of(const struct value *v)
{
    return v->shards ? value_shard(v, -1).n : value_elements(v, (struct dims){0});
}

static int64_t bytes_of(const struct value *v)
{
    return dtype_bytes(v->dtype, elements_of(v));
}

/* Whether a slot of an update is for a buffer. */
static bool is_far(const struct stage *s, const struct node *n, int slot)
{
    const struct value *v = graph_value(s->g, n->u.slot[slot]);
    if (!n->u.slot[slot] || !op_is_update(n->op) || v->pitch || v->view)
        return false;
    return v->memory == MEMORY_DISK || (v->memory == MEMORY_HOST && bytes_of(v) >= COPY_LEAST_BYTES);
}

static int64_t far_bytes(const struct stage *s, const struct node *n)
{
    int64_t bytes = 0;
    for (int i = 0; i < node_op(n)->n_slots; i++)
        bytes += is_far(s, n, i) ? bytes_of(graph_value(s->g, n->u.slot[i])) : 0;
    return bytes;
}

static int64_t aligned_elements(const struct value *v)
{
    const int64_t align = 256; /* elements of one byte begin where any value may */
    return (elements_of(v) + align - 1) / align * align;
}

/* ---- groups ---- */

/* Runs of updates of one op, with those between them that need no copy: a GPU does a run in one launch. */
static void find_groups(struct stage *s)
{
    struct group *x = NULL;
    for (int k = 1; k < s->g->n_nodes; k++) {
        const struct node *n = &s->g->nodes[k];
        int64_t bytes = far_bytes(s, n);
        bool goes_on = x && x->end == k && x->rank == n->rank && s->g->nodes[x->first].op == n->op;
        if (!op_is_update(n->op))
            continue;
        if (goes_on && (!x->bytes || x->bytes + bytes <= GROUP_BYTES)) {
            x->end = k + 1;
            x->bytes += bytes;
            continue;
        }
        s->n_groups -= x && !x->bytes; /* it needs no copy at all */
        if (!MEM_GROW(s->groups, s->cap_groups, (size_t)s->n_groups + 1)) {
            failed(s);
            return;
        }
        x = &s->groups[s->n_groups++];
        *x = (struct group){.first = k, .end = k + 1, .rank = n->rank, .bytes = bytes};
    }
    s->n_groups -= x && !x->bytes;
}

/* ---- buffers ---- */

/* Elements of each dtype that a group wants. */
static void find_wanted(const struct stage *s, const struct group *x, int64_t wanted[DT_COUNT])
{
    memset(wanted, 0, DT_COUNT * sizeof *wanted);
    for (int k = x->first; k < x->end; k++)
        for (int i = 0; i < node_op(&s->g->nodes[k])->n_slots; i++)
            if (is_far(s, &s->g->nodes[k], i)) {
                const struct value *v = graph_value(s->g, s->g->nodes[k].u.slot[i]);
                wanted[v->dtype] += aligned_elements(v);
            }
}

/* Bytes by which a buffer must grow for what is wanted; NULL: one that is not there yet. */
static int64_t growth(const struct buffer *b, const int64_t wanted[DT_COUNT])
{
    int64_t bytes = 0;
    for (int t = 0; t < DT_COUNT; t++) {
        int64_t more = wanted[t] - (b ? b->elements[t] : 0);
        bytes += more > 0 ? dtype_bytes((enum dtype)t, more) : 0;
    }
    return bytes;
}

static void enlarge(struct stage *s, struct buffer *b, const int64_t wanted[DT_COUNT], int layer)
{
    s->buffered += growth(b, wanted);
    for (int t = 0; t < DT_COUNT; t++) {
        if (wanted[t] <= b->elements[t])
            continue;
        b->elements[t] = wanted[t];
        if (!b->value[t]) {
            b->value[t] = graph_add_value(s->g, NULL, ROLE_WORKSPACE, (enum dtype)t, 1, &DIM(0));
            graph_value(s->g, b->value[t])->layer = layer;
        }
        graph_value(s->g, b->value[t])->shape[0].c = wanted[t];
    }
}

/* The first node, not before `from`, from which on buffers of so many bytes have room; n_nodes: there is none. */
static int room_from(const struct stage *s, int64_t bytes, int from)
{
    int k = from;
    while (k < s->g->n_nodes && s->taken[k] + bytes > s->most)
        k++;
    return k;
}

/* That which was used longest ago, of those that this rank has used. */
static struct buffer *find_oldest(const struct stage *s)
{
    struct buffer *oldest = s->buffers;
    for (int i = 1; i < s->used; i++)
        if (s->buffers[i].user < oldest->user)
            oldest = &s->buffers[i];
    return oldest;
}

/* The groups before it are those that all ranks do, with or without those of another rank, which use the same buffers. */
static void begin_rank(struct stage *s, int group)
{
    bool first = s->groups[group - 1].rank == 0;
    s->common = first ? group : s->common;
    s->common_used = first ? s->used : s->common_used;
    s->used = s->common_used;
    for (int i = 0; i < s->n_buffers; i++) {
        struct buffer *b = &s->buffers[i];
        b->common = first ? b->user : b->common;
        b->user = b->common;
    }
}

/* The group before x of those that x's rank does. */
static const struct group *group_before(const struct stage *s, const struct group *x)
{
    bool follows = x > s->groups && x[-1].rank == x->rank;
    return follows ? x - 1 : s->common ? &s->groups[s->common - 1] : NULL;
}

/* The node before which all that x copies has come back from updates of groups before it. */
static int last_return(const struct stage *s, const struct group *x)
{
    int last = 0;
    for (int k = x->first; k < x->end; k++)
        for (int i = 0; i < node_op(&s->g->nodes[k])->n_slots; i++)
            if (is_far(s, &s->g->nodes[k], i) && s->returned[s->g->nodes[k].u.slot[i]] > last)
                last = s->returned[s->g->nodes[k].u.slot[i]];
    return last;
}

/* A buffer for group x, and the place of its copies to the device: the next buffer where there is room for it before another is free, else
 * that which was used longest ago, behind what it was used for. */
static struct buffer *choose_buffer(struct stage *s, struct group *x, const int64_t wanted[DT_COUNT])
{
    const struct group *before = group_before(s, x);
    int from = before ? before->come_before : s->earliest, back = last_return(s, x);
    from = back > from ? back : from;
    struct buffer *next = s->used < s->n_buffers ? &s->buffers[s->used] : NULL;
    int early = room_from(s, s->buffered + growth(next, wanted), from);
    if (s->used >= LEAST_BUFFERS && early > s->groups[find_oldest(s)->user - 1].end) {
        next = find_oldest(s);
        int free = s->groups[next->user - 1].end;
        x->come_before = free > from ? free : from;
        return next;
    }
    int latest = before && before->first > back ? before->first : x->first; /* beside the updates of the group before */
    x->come_before = early < latest ? early : latest;
    s->used++;
    if (next)
        return next;
    if (!MEM_GROW(s->buffers, s->cap_buffers, (size_t)s->n_buffers + 1)) {
        failed(s);
        return NULL;
    }
    s->buffers[s->n_buffers] = (struct buffer){0};
    return &s->buffers[s->n_buffers++];
}

/* The updates of x have their slots in the buffer from now on. */
static void use_buffer(struct stage *s, struct group *x, const struct buffer *b)
{
    int64_t at[DT_COUNT] = {0};
    x->moves = s->n_moves;
    for (int k = x->first; k < x->end; k++)
        for (int i = 0; i < node_op(&s->g->nodes[k])->n_slots && !s->g->err.code; i++) {
            struct node *n = &s->g->nodes[k];
            int far = n->u.slot[i];
            if (!is_far(s, n, i))
                continue;
            if (!MEM_GROW(s->moves, s->cap_moves, (size_t)s->n_moves + 1)) {
                failed(s);
                return;
            }
            const struct value v = *graph_value(s->g, far);
            n->u.slot[i] = graph_add_slice(s->g, NULL, b->value[v.dtype], at[v.dtype], v.ndim, v.shape);
            graph_value(s->g, n->u.slot[i])->shards = v.shards;
            graph_value(s->g, n->u.slot[i])->chunk = v.chunk;
            at[v.dtype] += aligned_elements(&v);
            s->moves[s->n_moves++] = (struct move){far, n->u.slot[i], node_writes(n, i)};
            if (node_writes(n, i))
                s->returned[far] = x->end;
        }
    x->n_moves = s->n_moves - x->moves;
}

static void give_buffers(struct stage *s)
{
    for (int i = 0; i < s->n_groups && !s->g->err.code; i++) {
        struct group *x = &s->groups[i];
        int64_t wanted[DT_COUNT];
        if (i && x[-1].rank != x->rank)
            begin_rank(s, i);
        find_wanted(s, x, wanted);
        struct buffer *b = choose_buffer(s, x, wanted);
        if (!b)
            return;
        b->user = i + 1;
        enlarge(s, b, wanted, s->g->nodes[x->first].layer);
        use_buffer(s, x, b);
    }
}

/* ---- nodes ---- */

/* So many elements of `id` from `at` on. */
static int piece_of(struct stage *s, int id, int64_t at, int64_t elements)
{
    return graph_add_slice(s->g, NULL, id, at, 1, &DIM(elements));
}

/* Room for `elements` at least. */
static int room_between(struct stage *s, const struct node *n, enum dtype type, int64_t elements)
{
    int *room = &s->between[n->lane][type];
    if (!*room)
        *room = graph_add_value(s->g, NULL, ROLE_WORKSPACE, type, 1, &DIM(0));
    struct value *v = graph_value(s->g, *room);
    v->memory = MEMORY_HOST;
    v->layer = n->layer;
    v->shape[0].c = elements > v->shape[0].c ? elements : v->shape[0].c;
    return *room;
}

/* Piece by piece, by way of the host's memory. */
static void append_pages(struct stage *s, struct node_list *l, const struct move *m, struct node n)
{
    const struct value v = *graph_value(s->g, m->far);
    const int64_t all = elements_of(&v), most = PIECE_BYTES / dtype_bytes(v.dtype, 1);
    const bool in = n.lane == LANE_IN;
    for (int64_t at = 0; at < all && !s->g->err.code; at += most) {
        int64_t elements = all - at < most ? all - at : most;
        int far = piece_of(s, m->far, at, elements), near = piece_of(s, m->near, at, elements);
        int between = piece_of(s, room_between(s, &n, v.dtype, elements), 0, elements);
        struct node page = n;
        page.op = OP_page;
        page.u.page = (struct op_page){.x = in ? far : between, .y = in ? between : far, .out = !in};
        n.u.move = (struct op_move){.x = in ? between : near, .y = in ? near : between};
        node_list_append(s->g, l, in ? &page : &n);
        node_list_append(s->g, l, in ? &n : &page);
    }
}

static void append_moves(struct stage *s, struct node_list *l, const struct group *x, enum lane lane)
{
    for (int i = x->moves; i < x->moves + x->n_moves; i++) {
        const struct move *m = &s->moves[i];
        const struct value *far = graph_value(s->g, m->far);
        bool in = lane == LANE_IN;
        struct node n = {.op = OP_move, .lane = lane, .rank = x->rank, .layer = far->layer};
        n.u.move = (struct op_move){.x = in ? m->far : m->near, .y = in ? m->near : m->far};
        if (!in && !m->returns)
            continue;
        if (far->memory == MEMORY_DISK)
            append_pages(s, l, m, n);
        else
            node_list_append(s->g, l, &n);
    }
}

static int by_place(const void *a, const void *b)
{
    const struct group *const *x = a, *const *y = b;
    return (*x)->come_before != (*y)->come_before ? (*x)->come_before - (*y)->come_before : (*x)->first - (*y)->first;
}

static void insert_moves(struct stage *s)
{
    struct node_list l = {0};
    const struct group **coming = mem_alloc((size_t)s->n_groups * sizeof *coming);
    if (!coming) {
        failed(s);
        return;
    }
    for (int i = 0; i < s->n_groups; i++)
        coming[i] = &s->groups[i];
    qsort(coming, (size_t)s->n_groups, sizeof *coming, by_place);
    for (int k = 1, came = 0, gone = 0; k < s->g->n_nodes; k++) {
        for (; came < s->n_groups && coming[came]->come_before <= k; came++)
            append_moves(s, &l, coming[came], LANE_IN);
        node_list_append(s->g, &l, &s->g->nodes[k]);
        for (; gone < s->n_groups && s->groups[gone].end == k + 1; gone++)
            append_moves(s, &l, &s->groups[gone], LANE_OUT);
    }
    mem_free(coming);
    node_list_finish(s->g, &l);
}

/* ---- room ---- */

static int first_backward(const struct graph *g)
{
    int k = 1;
    while (k < g->n_nodes && !g->nodes[k].backward)
        k++;
    return k < g->n_nodes ? k : 0;
}

static bool find_room(struct stage *s, const struct pass_settings *p)
{
    s->taken = lives_bytes(s->g, p->choices.micro);
    s->returned = mem_alloc((size_t)s->g->n_values * sizeof *s->returned);
    if (!s->taken || !s->returned)
        return false;
    for (int k = s->g->n_nodes - 1; k > 0; k--)
        s->taken[k] = s->taken[k] > s->taken[k + 1] ? s->taken[k] : s->taken[k + 1];
    s->most = p->choices.prefetch ? s->taken[1] > p->beside_bytes ? s->taken[1] : p->beside_bytes : 0;
    s->earliest = first_backward(s->g) + 1;
    return true;
}

void pass_stage(struct graph *g, struct pass_settings *p)
{
    struct stage s = {.g = g};
    if (!g->err.code && !p->in_host_memory)
        find_groups(&s);
    if (!g->err.code && s.n_groups && !find_room(&s, p))
        failed(&s);
    give_buffers(&s);
    if (!g->err.code && s.n_moves)
        insert_moves(&s);
    mem_free(s.groups);
    mem_free(s.moves);
    mem_free(s.buffers);
    mem_free(s.taken);
    mem_free(s.returned);
}
