#include "search/recompute.h"

#include "search/links.h"
#include "search/prefixes.h"

#include <string.h>

/* What is tried is a ladder, the same whatever the budget is. Its first rungs lie between the most and the least bytes that transient
 * values may take together. Packing adds to that, now more and now less, so below them are rungs that hold ever less for the backward
 * pass. From the budget the search goes down to the first rung that fits: more budget never finds a slower one. Where layers are joined,
 * what is reckoned may be too much, and the search begins somewhat above the budget. */
enum { GRID = 256, ABOVE = 6, FLOOR = 8 };

struct job {
    struct compile_settings s;
    struct choices choices;
    struct rates rates;
    struct recompute_aim aim; /* aim.below goes down to the least so far */
    int64_t over;             /* bytes that live at once in the plan that was tried last, more than the limit */
    struct recomputed *out;
};

/* Plans of more bytes are of no use, and are not packed. */
static int64_t useful_bytes(const struct job *j)
{
    return j->aim.below - 1 > j->aim.limit ? j->aim.below - 1 : j->aim.limit;
}

static int program_of(const struct programs *where)
{
    return where->step >= 0 ? where->step : where->next >= 0 ? where->next : where->first;
}

/* Compiles the run as the choices are, and says in j->out what it takes. The plan is for plan_free, also after a failure. */
static int measure(struct job *j, struct plan *plan, struct programs *where, struct snug_err *err)
{
    j->s.trial_most = useful_bytes(j);
    TRY(compile_run(&j->s, &j->choices, plan, where, err));
    j->out->arena_bytes = plan->arena_bytes;
    const struct links links = {j->s.ranks, j->s.link_seconds};
    j->out->seconds = rates_step(&j->rates, plan, where, j->choices.accumulation) +
                      links_seconds(&links, &j->rates, plan, where, j->choices.accumulation);
    j->out->host_bytes = plan->host_bytes;
    j->out->fits = plan->arena_bytes <= j->aim.limit && plan->host_bytes <= j->aim.host;
    j->out->bound = plan->lower_bound_bytes;
    if (plan->host_bytes > j->aim.host)
        j->out->arena_bytes = j->out->bound = INT64_MAX; /* no choice of what is computed again makes that less */
    j->out->layers = plan->programs[program_of(where)].recomputed_layers;
    return SNUG_OK;
}

/* Whether the run with these sets fits; NULL: with all layers computed again. */
static int try_sets(struct job *j, const struct recompute_set *sets, struct snug_err *err)
{
    struct plan plan = {0};
    struct programs where;
    struct choices choices = j->choices;
    choices.recompute = sets;
    choices.recompute_every_n = !sets;
    j->s.trial_most = useful_bytes(j);
    int code = compile_run(&j->s, &choices, &plan, &where, err);
    j->over = plan.lower_bound_bytes - j->aim.limit;
    j->out->arena_bytes = plan.arena_bytes;
    j->out->host_bytes = plan.host_bytes;
    j->out->fits = !code && plan.arena_bytes <= j->aim.limit && plan.host_bytes <= j->aim.host;
    j->out->layers = code ? 0 : plan.programs[program_of(&where)].recomputed_layers;
    plan_free(&plan);
    return code;
}

static int64_t grid_point(const struct menu *m, const struct program *g, int i)
{
    int64_t least = m->layers.beside_most > m->layers.head_most ? m->layers.beside_most : m->layers.head_most;
    return least + (g->lower_bound_bytes - least) / GRID * i;
}

struct ladder {
    struct menu *menu;
    int next; /* of the grid; below 0, of the floor */
    struct limits floor;
};

/* The next rung down; chosen->fits false: there is none. */
static int go_down(struct ladder *l, struct recompute_set *sets, struct chosen *chosen, struct snug_err *err)
{
    chosen->fits = false;
    while (l->next >= 0 && !chosen->fits) {
        int64_t live = grid_point(l->menu, l->menu->layers.g, l->next);
        TRY(menu_choose(l->menu, (struct limits){live, INT64_MAX}, sets, chosen, err));
        l->next = chosen->fits ? l->next - 1 : -1;
        if (chosen->fits)
            l->floor = (struct limits){live, chosen->held};
    }
    while (!chosen->fits && l->floor.live && l->next >= -FLOOR) {
        int64_t held = l->floor.held / FLOOR * (FLOOR + l->next--);
        TRY(menu_choose(l->menu, (struct limits){l->floor.live, held}, sets, chosen, err));
    }
    return SNUG_OK;
}

/* What is on its way where two layers meet is reckoned as too little. The rungs that are passed over for that are half as many as there
 * are bytes too many, so none is that would fit. */
static void pass_over(struct ladder *l, int64_t bytes)
{
    while (l->next > 0 && grid_point(l->menu, l->menu->layers.g, l->next) > l->floor.live - bytes / 2)
        l->next--;
}

/* Keeps in `least` what has the fewest bytes of all that was tried and does not fit. Its sets are a copy. */
static void keep_least(struct job *j, const struct recompute_set *sets, size_t n, struct recomputed *least,
                       struct recompute_set *copy)
{
    if (j->out->arena_bytes >= least->arena_bytes)
        return;
    *least = *j->out;
    j->aim.below = least->arena_bytes;
    least->sets = copy;
    memcpy(copy, sets, n * sizeof *sets);
}

/* Whether a plan with what was chosen may be of use. Where that is wrong it is packed for nothing. */
static bool is_promising(const struct job *j, const struct plan *p, const struct chosen *c)
{
    return c->joins || c->live <= useful_bytes(j) - p->persistent_bytes;
}

/* The rung of the grid to begin with. */
static int first_rung(const struct job *j, struct menu *m, const struct plan *p, struct recompute_set *sets, int *rung,
                      struct snug_err *err)
{
    struct chosen chosen;
    int64_t room = j->aim.limit - p->persistent_bytes;
    int at = GRID;
    while (at > 0 && grid_point(m, m->layers.g, at) > room)
        at--;
    *rung = at + ABOVE;
    if (grid_point(m, m->layers.g, at) > room) /* below the ladder */
        return SNUG_OK;
    TRY(menu_choose(m, (struct limits){grid_point(m, m->layers.g, at), INT64_MAX}, sets, &chosen, err));
    if (chosen.fits && !chosen.joins)
        *rung = at;
    return SNUG_OK;
}

/* Goes down the ladder until something fits: its sets are then in `sets`. */
static int try_rungs(struct job *j, struct menu *m, const struct plan *p, struct recompute_set *sets,
                     struct recompute_set *copy, struct recomputed *least, struct snug_err *err)
{
    size_t n = (size_t)m->layers.n + 2;
    struct recompute_set *before = mem_alloc(n * sizeof *sets);
    struct ladder l = {.menu = m};
    int code = before ? first_rung(j, m, p, sets, &l.next, err) : err_no_memory(err, n * sizeof *sets);
    struct chosen chosen = {.fits = true};
    double seconds = j->out->seconds;
    for (bool tried = false; !code && chosen.fits && !j->out->fits; tried = true) {
        code = go_down(&l, sets, &chosen, err);
        if (code || !chosen.fits || (tried && !memcmp(sets, before, n * sizeof *sets)))
            continue;
        memcpy(before, sets, n * sizeof *sets);
        j->out->seconds = seconds + chosen.seconds * (double)j->choices.accumulation;
        if (j->out->seconds >= j->aim.seconds)
            break;
        if (!is_promising(j, p, &chosen))
            continue;
        code = try_sets(j, sets, err);
        if (!code && !j->out->fits)
            keep_least(j, sets, n, least, copy);
        if (j->aim.sends && j->over > 0)
            pass_over(&l, j->over);
    }
    mem_free(before);
    return code;
}

/* What it finds is in j->out. */
static int search_ladder(struct job *j, struct menu *m, const struct plan *p, struct snug_err *err)
{
    size_t n = (size_t)m->layers.n + 2;
    struct recompute_set *sets = mem_alloc(n * sizeof *sets), *copy = mem_alloc(n * sizeof *sets);
    struct recomputed least = *j->out; /* with all that is kept */
    double seconds = least.seconds;
    j->aim.below = least.arena_bytes < j->aim.below ? least.arena_bytes : j->aim.below;
    int code = sets && copy ? try_rungs(j, m, p, sets, copy, &least, err) : err_no_memory(err, n * sizeof *sets);
    if (!code && !j->out->fits &&
        j->out->seconds < j->aim.seconds) { /* the plain way, whose packing may be the better one */
        mem_free(sets);
        sets = NULL;
        j->out->every_n = 1;
        j->aim.below += least.arena_bytes == j->aim.below; /* of two that are as small it is the one to take */
        j->out->seconds = seconds + menu_all_seconds(m) * (double)j->choices.accumulation;
        code = try_sets(j, NULL, err);
        if (!code && !j->out->fits && least.arena_bytes < j->out->arena_bytes)
            *j->out = least;
    }
    if (j->out->fits && sets)
        j->out->sets = sets;
    if (j->out->sets != sets || code)
        mem_free(sets);
    if (j->out->sets != copy || code)
        mem_free(copy);
    if (code)
        j->out->sets = NULL;
    return code;
}

/* Transient bytes that every choice of what is computed again takes: what nothing of is dropped, and other programs. */
static int64_t least_bytes(const struct menu *m, const struct plan *p, const struct programs *where)
{
    int64_t least = m->layers.least;
    for (int k = 0; k < p->n_programs; k++)
        if (k != where->step && k != where->first && k != where->next && p->programs[k].lower_bound_bytes > least)
            least = p->programs[k].lower_bound_bytes;
    return least;
}

/* The plan is one in which nothing is computed again, and does not fit. */
static int search_menu(struct job *j, struct menu *m, const struct plan *p, const struct programs *where,
                       struct snug_err *err)
{
    TRY(menu_open(m, p, &p->programs[program_of(where)], err));
    m->layers.sends = j->aim.sends;
    if (m->layers.n < 1)
        return SNUG_OK;
    j->out->bound = p->persistent_bytes + least_bytes(m, p, where);
    if (j->out->bound > useful_bytes(j))
        return SNUG_OK;
    TRY(menu_list(m, &j->rates, err));
    return search_ladder(j, m, p, err);
}

int recompute_search(const struct compile_settings *s, const struct choices *choices, const struct recompute_aim *aim,
                     struct recomputed *out, struct snug_err *err)
{
    struct job j = {.s = *s, .choices = *choices, .aim = *aim, .out = out};
    struct plan plan = {0};
    struct programs where;
    struct menu menu = {0};
    *out = (struct recomputed){0};
    j.s.dump = NULL;
    j.s.trial = true;
    j.choices.recompute = NULL;
    j.choices.recompute_every_n = 0;
    j.rates = rates_of(s->backend, &s->precision, s->threads, choices->usual);
    int code = measure(&j, &plan, &where, err);
    if (!code && !out->fits && out->host_bytes <= aim->host && out->seconds < aim->seconds)
        code = search_menu(&j, &menu, &plan, &where, err);
    menu_close(&menu);
    plan_free(&plan);
    return code;
}

int recompute_measure(const struct compile_settings *s, const struct choices *choices, const struct recompute_aim *aim,
                      struct recomputed *out, struct snug_err *err)
{
    struct job j = {.s = *s,
                    .choices = *choices,
                    .rates = rates_of(s->backend, &s->precision, s->threads, choices->usual),
                    .aim = *aim,
                    .out = out};
    struct plan plan = {0};
    struct programs where;
    *out = (struct recomputed){.every_n = choices->recompute_every_n};
    j.s.dump = NULL;
    j.s.trial = true;
    int code = measure(&j, &plan, &where, err);
    plan_free(&plan);
    return code;
}
