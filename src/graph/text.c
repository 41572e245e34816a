/* The text of a graph, one line a value or node; what graph_print writes, graph_parse reads:
 *
 *     %3 weight F32[768,768] "dense.weight" layer=13 in keep
 *     %4 weight F32[768] "b" layer=1 slice=%3+768
 *     %5 activation BF16[T,50257] layer=13 pitch=50304
 *     %6 weight F32[2,768] "out.weight" layer=13 init=normal:0.02:-1:head in keep
 *     linear(x=%1 w=%3 b=%4 y=%5) act=tanh in_out=0 layer=13 backward
 *
 * of=KIND:WEIGHT, as in of=grad:%3; pitch=, pad_rows=, rank= and memory=host as in struct value; init=KIND:STD:ZERO ROW, with :head for
 * what a task adds.
 * A node may have workspace=%7, rank=, lane= and waits=%7, as in lane=in, beside its attributes.
 * Dimensions are sums of those in graph/dim.h and numbers, such as B+1. A gradient that is added into is written dx+=%7. Flags of a
 * value: exact, in, out, keep, group, table, frozen, row, norm (see struct value; in, out, keep: live_in, live_out, persists).
 * '#' starts a comment. */
#include "base/str.h"
#include "graph/graph.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ORDER role */
static const char *const role_names[ROLE_COUNT] = {"activation", "input", "weight", "state",
                                                   "gradient",   "copy",  "scalar", "workspace"};

/* ORDER init */
static const char *const init_names[INIT_COUNT] = {"none",  "zero",    "one",   "normal", "uniform",
                                                   "first", "lengths", "sines", "slopes"};

/* ORDER lane */
static const char *const lane_names[LANE_COUNT] = {"compute", "in", "out", "sums"};
static const char *const memory_names[MEMORY_COUNT] = {"device", "host", "disk"};

/* The members of struct value that are true or not, and their words in a text. */
#define VALUE_FLAGS(F)                                                                                                 \
    F(exact, "exact")                                                                                                  \
    F(live_in, "in")                                                                                                   \
    F(live_out, "out")                                                                                                 \
    F(persists, "keep")                                                                                                \
    F(group, "group")                                                                                                  \
    F(table, "table")                                                                                                  \
    F(frozen, "frozen")                                                                                                \
    F(row, "row")                                                                                                      \
    F(norm, "norm")                                                                                                    \
    F(view, "view")

static void put_dim(struct str *p, struct dim d)
{
    const char *plus = "";
    for (int i = 0; i < DIMS; i++) {
        if (!d.times.of[i])
            continue;
        str_printf(p, "%s", plus);
        if (d.times.of[i] != 1)
            str_printf(p, "%lld", (long long)d.times.of[i]);
        str_printf(p, "%s", dimension_table[i].name);
        plus = "+";
    }
    if (d.c || !*plus)
        str_printf(p, "%s%lld", plus, (long long)d.c);
}

static void put_value(struct str *p, const struct graph *g, int id)
{
    const struct value *v = graph_value(g, id);
    str_printf(p, "%%%d %s %s[", id, role_names[v->role], dtype_name(v->dtype));
    for (int i = 0; i < v->ndim; i++) {
        str_printf(p, "%s", i ? "," : "");
        put_dim(p, v->shape[i]);
    }
    str_printf(p, "]");
    if (v->name)
        str_printf(p, " \"%s\"", v->name);
    str_printf(p, " layer=%d", v->layer);
    if (v->base)
        str_printf(p, " slice=%%%d+%lld", v->base, (long long)v->at);
    if (v->kin)
        str_printf(p, " of=%s:%%%d", kin_names[v->kin], v->of);
    if (v->pitch)
        str_printf(p, " pitch=%lld", (long long)v->pitch);
    if (v->pad_rows)
        str_printf(p, " pad_rows=%lld", (long long)v->pad_rows);
    if (v->rank)
        str_printf(p, " rank=%d", v->rank);
    if (v->shards)
        str_printf(p, " shards=%dx%lld", v->shards, (long long)v->chunk);
    if (v->memory)
        str_printf(p, " memory=%s", memory_names[v->memory]);
    if (v->init.kind)
        str_printf(p, " init=%s:%.17g:%lld%s", init_names[v->init.kind], v->init.std, (long long)v->init.zero_row,
                   v->init.head ? ":head" : "");
#define PUT_FLAG(member, word)                                                                                         \
    if (v->member)                                                                                                     \
        str_append(p, " " word);
    VALUE_FLAGS(PUT_FLAG)
#undef PUT_FLAG
    str_append(p, "\n");
}

static void put_attr(struct str *p, const struct node *n, int i)
{
    const struct attr_info *a = &node_op(n)->attrs[i];
    int64_t k;
    double x;
    memcpy(&k, node_attr(n, i), sizeof k);
    memcpy(&x, node_attr(n, i), sizeof x);
    if (a->kind == ATTR_REAL)
        str_printf(p, " %s=%.17g", a->name, x);
    else if (a->kind == ATTR_ACT)
        str_printf(p, " %s=%s", a->name, act_names[k]);
    else
        str_printf(p, " %s=%lld", a->name, (long long)k);
}

static void put_node(struct str *p, const struct node *n)
{
    const struct op_info *op = node_op(n);
    str_printf(p, "%s(", op->name);
    const char *space = "";
    for (int i = 0; i < op->n_slots; i++) {
        if (!n->u.slot[i])
            continue;
        str_printf(p, "%s%s%s=%%%d", space, op->slots[i].name, n->add >> i & 1 ? "+" : "", n->u.slot[i]);
        space = " ";
    }
    str_printf(p, ")");
    for (int i = 0; i < op->n_attrs; i++)
        put_attr(p, n, i);
    if (n->workspace)
        str_printf(p, " workspace=%%%d", n->workspace);
    if (n->rank)
        str_printf(p, " rank=%d", n->rank);
    if (n->lane)
        str_printf(p, " lane=%s", lane_names[n->lane]);
    if (n->waits)
        str_printf(p, " waits=%%%d", n->waits);
    str_printf(p, " layer=%d%s\n", n->layer, n->backward ? " backward" : "");
}

/* A value that has not been printed, behind what it is columns of. */
static void put_once(struct str *p, const struct graph *g, int id, bool *printed)
{
    if (!id || printed[id])
        return;
    put_once(p, g, g->values[id].base, printed);
    printed[id] = true;
    put_value(p, g, id);
}

int graph_print(const struct graph *g, struct arena *a, char **text, struct snug_err *err)
{
    struct str p = {0};
    bool *printed = mem_alloc((size_t)g->n_values);
    if (!printed)
        return err_no_memory(err, (unsigned long long)g->n_values);
    for (int i = 1; i < g->n_values; i++)
        if (g->values[i].role != ROLE_ACTIVATION && (printed[i] = true))
            put_value(&p, g, i);
    for (int k = 1; k < g->n_nodes; k++) {
        const struct node *n = &g->nodes[k];
        for (int i = 0; i < node_op(n)->n_slots; i++)
            put_once(&p, g, n->u.slot[i], printed);
        put_node(&p, n);
    }
    mem_free(printed);
    int code = str_check(&p, err);
    *text = code ? NULL : arena_strdup(a, str_text(&p));
    str_free(&p);
    return code ? code : *text ? SNUG_OK : err_no_memory(err, p.n + 1);
}

/* Reading: a cursor over one line. Every take_* gives false (and leaves the place) where the text does not fit. */
struct reader {
    struct graph *g;
    const char *s;
    int line;
    struct snug_err *err;
};

static int bad(struct reader *r, const char *wanted)
{
    int n = (int)strcspn(r->s, "\n");
    return err_set(r->err, SNUG_ERR_INPUT, "graph text:%d: \"%.*s\": %s was expected", r->line, n < 40 ? n : 40, r->s,
                   wanted);
}

static void skip_blanks(struct reader *r)
{
    while (*r->s == ' ')
        r->s++;
}

static bool take(struct reader *r, const char *word)
{
    size_t n = strlen(word);
    if (strncmp(r->s, word, n))
        return false;
    r->s += n;
    return true;
}

static bool take_word(struct reader *r, char *to, size_t room)
{
    size_t n = strspn(r->s, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    if (!n || n >= room)
        return false;
    memcpy(to, r->s, n);
    to[n] = 0;
    r->s += n;
    return true;
}

static bool take_int(struct reader *r, int64_t *to)
{
    char *end;
    errno = 0;
    long long k = strtoll(r->s, &end, 10);
    if (end == r->s || errno)
        return false;
    r->s = end;
    *to = k;
    return true;
}

static bool take_real(struct reader *r, double *to)
{
    char *end;
    *to = strtod(r->s, &end);
    bool taken = end != r->s;
    r->s = end;
    return taken;
}

static bool take_id(struct reader *r, int *to)
{
    const char *start = r->s;
    int64_t k;
    if (take(r, "%") && take_int(r, &k) && k >= 1 && k <= 1 << 24) {
        *to = (int)k;
        return true;
    }
    r->s = start;
    return false;
}

/* Its place in the table, or -1. */
static int take_dimension(struct reader *r)
{
    const char *start = r->s;
    char word[32];
    bool taken = take_word(r, word, sizeof word);
    for (int i = 0; taken && i < DIMS; i++)
        if (!strcmp(dimension_table[i].name, word))
            return i;
    r->s = start;
    return -1;
}

static bool take_dim(struct reader *r, struct dim *d)
{
    *d = (struct dim){0};
    do {
        int64_t k = 1;
        bool number = *r->s >= '0' && *r->s <= '9';
        if (number && !take_int(r, &k))
            return false;
        int i = take_dimension(r);
        if (i >= 0)
            d->times.of[i] += k;
        else if (number)
            d->c += k;
        else
            return false;
    } while (take(r, "+"));
    return true;
}

/* One of n names; its place, or -1. */
static int take_name(struct reader *r, const char *const *names, int n)
{
    const char *start = r->s;
    char word[32];
    bool taken = take_word(r, word, sizeof word);
    for (int i = 0; taken && i < n; i++)
        if (!strcmp(names[i], word))
            return i;
    r->s = start;
    return -1;
}

static int read_init(struct reader *r, struct init *init)
{
    int kind = take_name(r, init_names, INIT_COUNT);
    if (kind < 0 || !take(r, ":") || !take_real(r, &init->std) || !take(r, ":") || !take_int(r, &init->zero_row))
        return bad(r, "kind:std:zero row");
    init->kind = (enum init_kind)kind;
    init->head = take(r, ":head");
    return SNUG_OK;
}

/* role dtype[shape] */
static int read_type(struct reader *r, struct value *v)
{
    char word[32];
    skip_blanks(r);
    int role = take_name(r, role_names, ROLE_COUNT);
    if (role < 0)
        return bad(r, "a role");
    skip_blanks(r);
    const char *start = r->s;
    int dtype = take_word(r, word, sizeof word) ? dtype_from_name(word) : -1;
    if (dtype < 0 || !take(r, "[")) {
        r->s = start;
        return bad(r, "dtype[");
    }
    v->role = (enum role)role;
    v->dtype = (enum dtype)dtype;
    while (v->ndim < MAX_DIMS && take_dim(r, &v->shape[v->ndim])) {
        v->ndim++;
        if (!take(r, ","))
            break;
    }
    return take(r, "]") ? SNUG_OK : bad(r, "a dimension or ]");
}

/* The name begins behind its first quote. */
static int read_name(struct reader *r, const char **name)
{
    size_t n = strcspn(r->s, "\"\n");
    *name = arena_strndup(&r->g->arena, r->s, n);
    r->s += n;
    return *name && take(r, "\"") ? SNUG_OK : bad(r, "the end of the name");
}

static bool take_flag(struct reader *r, struct value *v)
{
#define TAKE_FLAG(member, word)                                                                                        \
    if (take(r, word))                                                                                                 \
        return v->member = true;
    VALUE_FLAGS(TAKE_FLAG)
#undef TAKE_FLAG
    return false;
}

static int read_property(struct reader *r, struct value *v)
{
    int64_t k;
    if (take(r, "layer=") && take_int(r, &k))
        v->layer = (int)k;
    else if (take(r, "slice=")) {
        if (!take_id(r, &v->base) || !take(r, "+") || !take_int(r, &v->at))
            return bad(r, "%base+offset");
    } else if (take(r, "of=")) {
        int kin = take_name(r, kin_names, KIN_COUNT);
        if (kin < 0 || !take(r, ":") || !take_id(r, &v->of))
            return bad(r, "kind:%weight");
        v->kin = (enum kin)kin;
    } else if (take(r, "pitch=")) {
        if (!take_int(r, &v->pitch))
            return bad(r, "elements from row to row");
    } else if (take(r, "pad_rows=")) {
        if (!take_int(r, &v->pad_rows))
            return bad(r, "rows");
    } else if (take(r, "rank=")) {
        if (!take_int(r, &k))
            return bad(r, "a number");
        v->rank = (int)k;
    } else if (take(r, "shards=")) {
        if (!take_int(r, &k) || !take(r, "x") || !take_int(r, &v->chunk))
            return bad(r, "a number x elements");
        v->shards = (int)k;
    } else if (take(r, "memory=")) {
        int memory = take_name(r, memory_names, MEMORY_COUNT);
        if (memory < 0)
            return bad(r, "a memory");
        v->memory = (enum memory)memory;
    } else if (take(r, "init="))
        return read_init(r, &v->init);
    else if (!take_flag(r, v))
        return bad(r, "a property of a value");
    return SNUG_OK;
}

static int read_value(struct reader *r)
{
    int id;
    const char *line = r->s, *name = NULL;
    struct value v = {0};
    struct graph *g = r->g;
    if (!take_id(r, &id))
        return bad(r, "a value id");
    if (id < g->n_values && g->values[id].ndim) {
        r->s = line;
        return bad(r, "a value that is not there yet");
    }
    TRY(read_type(r, &v));
    for (skip_blanks(r); *r->s && *r->s != '\n' && *r->s != '#'; skip_blanks(r))
        TRY(take(r, "\"") ? read_name(r, &name) : read_property(r, &v));
    if (!MEM_GROW(g->values, g->cap_values, (size_t)id + 1))
        return err_no_memory(r->err, (unsigned long long)id * sizeof v);
    while (g->n_values <= id)
        g->values[g->n_values++] = (struct value){0};
    g->values[id] = v;
    if (name)
        graph_set_name(g, id, name);
    return graph_ok(g, r->err);
}

static int find_op(const char *word)
{
    for (int i = 1; i < OP_COUNT; i++)
        if (!strcmp(op_table[i].name, word))
            return i;
    return 0;
}

static int read_slot(struct reader *r, struct node *n)
{
    char word[32];
    const struct op_info *op = node_op(n);
    const char *start = r->s;
    int i = take_word(r, word, sizeof word) ? 0 : op->n_slots;
    while (i < op->n_slots && strcmp(op->slots[i].name, word))
        i++;
    if (i == op->n_slots) {
        r->s = start;
        return bad(r, "a slot of this op");
    }
    if (take(r, "+"))
        n->add |= 1u << i;
    if (!take(r, "=") || !take_id(r, &n->u.slot[i]))
        return bad(r, "=%id");
    return SNUG_OK;
}

static int read_attr(struct reader *r, struct node *n)
{
    char word[32];
    const struct op_info *op = node_op(n);
    const char *start = r->s;
    int64_t k = 0;
    double x;
    if (!take_word(r, word, sizeof word))
        return bad(r, "an attribute");
    if (!strcmp(word, "backward")) {
        n->backward = true;
        return SNUG_OK;
    }
    if (!take(r, "="))
        return bad(r, "=");
    if (!strcmp(word, "workspace"))
        return take_id(r, &n->workspace) ? SNUG_OK : bad(r, "a value");
    if (!strcmp(word, "waits"))
        return take_id(r, &n->waits) ? SNUG_OK : bad(r, "a value");
    if (!strcmp(word, "lane")) {
        int lane = take_name(r, lane_names, LANE_COUNT);
        n->lane = lane > 0 ? (enum lane)lane : LANE_COMPUTE;
        return lane >= 0 ? SNUG_OK : bad(r, "a lane");
    }
    if (!strcmp(word, "layer") || !strcmp(word, "rank")) {
        if (!take_int(r, &k))
            return bad(r, "a number");
        *(*word == 'l' ? &n->layer : &n->rank) = (int)k;
        return SNUG_OK;
    }
    int i = 0;
    while (i < op->n_attrs && strcmp(op->attrs[i].name, word))
        i++;
    if (i == op->n_attrs) {
        r->s = start;
        return bad(r, "an attribute of this op");
    }
    if (op->attrs[i].kind == ATTR_REAL) {
        if (!take_real(r, &x))
            return bad(r, "a number");
        memcpy(node_attr(n, i), &x, sizeof x);
        return SNUG_OK;
    }
    if (op->attrs[i].kind == ATTR_ACT) {
        k = take_name(r, act_names, ACT_COUNT);
        if (k < 0)
            return bad(r, "an activation");
    } else if (!take_int(r, &k))
        return bad(r, "a whole number");
    memcpy(node_attr(n, i), &k, sizeof k);
    return SNUG_OK;
}

static int read_node(struct reader *r)
{
    char word[32];
    struct node n = {0};
    const char *start = r->s;
    n.op = take_word(r, word, sizeof word) ? (enum op)find_op(word) : OP_none;
    if (!n.op || !take(r, "(")) {
        r->s = start;
        return bad(r, "an op and (");
    }
    for (skip_blanks(r); !take(r, ")"); skip_blanks(r))
        TRY(read_slot(r, &n));
    for (skip_blanks(r); *r->s && *r->s != '\n' && *r->s != '#'; skip_blanks(r))
        TRY(read_attr(r, &n));
    struct graph *g = r->g;
    if (!MEM_GROW(g->nodes, g->cap_nodes, (size_t)g->n_nodes + 1))
        return err_no_memory(r->err, sizeof n);
    g->nodes[g->n_nodes++] = n;
    return SNUG_OK;
}

int graph_parse(struct graph *g, const char *text, struct snug_err *err)
{
    struct reader r = {.g = g, .s = text, .line = 1, .err = err};
    for (; *r.s; r.line++) {
        skip_blanks(&r);
        if (*r.s == '%')
            TRY(read_value(&r));
        else if (*r.s != '\n' && *r.s != '#' && *r.s)
            TRY(read_node(&r));
        r.s += strcspn(r.s, "\n");
        r.s += *r.s == '\n';
    }
    return graph_check(g, "text", err);
}
