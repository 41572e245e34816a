/* Statements: what a template writes. */
#include "chat/eval.h"
#include "chat/template.h"

#include <string.h>

enum jump { NO_JUMP, JUMP_BREAK, JUMP_CONTINUE };

int chat_write(struct chat_run *r, const char *s, size_t n)
{
    if (r->out->n + n > CHAT_OUTPUT)
        return chat_fail(r, "writes more than %d MiB for one row", CHAT_OUTPUT >> 20);
    str_append_n(r->out, s, n);
    return SNUG_OK;
}

static int render(struct chat_run *r, const struct chat_stmt *s, enum jump *jump);

/* ---- assignments ---- */

static int assign(struct chat_run *r, const struct chat_expr *target, struct chat_value v)
{
    if (target->kind == CHAT_X_NAME)
        return chat_scope_set(r, r->scope, target->name, v);
    if (target->kind == CHAT_X_ATTR) {
        struct chat_value of;
        TRY(chat_eval(r, target->a, &of));
        if (of.kind != CHAT_NAMESPACE)
            return chat_fail(r, "'%s' of %s is set; only a namespace has what can be set", target->name,
                             chat_kind_name(of));
        return chat_dict_set(r, of.dict, chat_word(target->name), v);
    }
    const struct chat_list *items;
    TRY(chat_items(r, v, &items));
    if (items->n != (size_t)target->n_args)
        return chat_fail(r, "%zu values for %d names", items->n, target->n_args);
    for (int i = 0; i < target->n_args; i++)
        TRY(assign(r, target->args[i], items->items[i]));
    return SNUG_OK;
}

/* What `body` writes as a text, in a scope of its own. {% generation %} within it has no place in the text that is
 * rendered, so it is refused. */
static int capture(struct chat_run *r, const struct chat_stmt *body, struct chat_scope *scope, struct chat_value *out)
{
    struct str text = {0}, *out_before = r->out;
    struct chat_scope *scope_before = r->scope;
    enum jump jump = NO_JUMP;
    r->out = &text;
    r->scope = scope;
    int code = render(r, body, &jump);
    r->out = out_before;
    r->scope = scope_before;
    return chat_take_str(r, &text, code, out);
}

static int set_block(struct chat_run *r, const struct chat_stmt *s)
{
    struct chat_scope *scope;
    struct chat_value v;
    TRY(chat_scope_new(r, r->scope, &scope));
    TRY(capture(r, s->body, scope, &v));
    if (s->expr) { /* through filters */
        struct chat_scope *before = r->scope;
        TRY(chat_scope_set(r, scope, CHAT_BLOCK_VALUE, v));
        r->scope = scope;
        TRY(chat_eval(r, s->expr, &v));
        r->scope = before;
    }
    return assign(r, s->target, v);
}

/* ---- macros ---- */

static int set_arguments(struct chat_run *r, const struct chat_stmt *m, const struct chat_args *args, bool given[])
{
    for (int i = 0; i < args->n; i++) {
        int at = args->names[i] ? 0 : i;
        while (args->names[i] && at < m->n_params && strcmp(m->params[at].name, args->names[i]))
            at++;
        if (at >= m->n_params)
            return chat_fail(r, "macro '%s' gets an argument that it does not have", m->text);
        given[at] = true;
        TRY(chat_scope_set(r, r->scope, m->params[at].name, args->v[i]));
    }
    return SNUG_OK;
}

/* A parameter's default may name those that are given, and those before it. */
static int set_defaults(struct chat_run *r, const struct chat_stmt *m, const bool given[])
{
    for (int i = 0; i < m->n_params; i++) {
        struct chat_value v = chat_undefined(m->params[i].name);
        if (given[i])
            continue;
        if (m->params[i].otherwise)
            TRY(chat_eval(r, m->params[i].otherwise, &v));
        TRY(chat_scope_set(r, r->scope, m->params[i].name, v));
    }
    return SNUG_OK;
}

int chat_call_macro(struct chat_run *r, const struct chat_callable *c, const struct chat_args *args,
                    struct chat_value *out)
{
    bool given[CHAT_PARAMS] = {false};
    struct chat_scope *scope, *before = r->scope;
    TRY(chat_scope_new(r, c->scope, &scope));
    r->scope = scope;
    TRY(set_arguments(r, c->macro, args, given));
    TRY(set_defaults(r, c->macro, given));
    r->scope = before;
    if (++r->depth > CHAT_DEPTH)
        return chat_fail(r, "nested deeper than %d", CHAT_DEPTH);
    int code = capture(r, c->macro->body, scope, out);
    r->depth--;
    return code;
}

/* ---- loops ---- */

static int set_loop(struct chat_run *r, struct chat_dict *loop, const struct chat_list *items, size_t i)
{
    const struct {
        const char *name;
        struct chat_value v;
    } members[] = {
        {"index", chat_int((int64_t)i + 1)},
        {"index0", chat_int((int64_t)i)},
        {"revindex", chat_int((int64_t)(items->n - i))},
        {"revindex0", chat_int((int64_t)(items->n - i) - 1)},
        {"first", chat_bool(i == 0)},
        {"last", chat_bool(i + 1 == items->n)},
        {"length", chat_int((int64_t)items->n)},
        {"previtem", i ? items->items[i - 1] : chat_undefined("previtem")},
        {"nextitem", i + 1 < items->n ? items->items[i + 1] : chat_undefined("nextitem")},
    };
    for (size_t k = 0; k < sizeof members / sizeof *members; k++)
        TRY(chat_dict_set(r, loop, chat_word(members[k].name), members[k].v));
    return SNUG_OK;
}

/* for … in … if …: the items that pass the test are the loop's, which counts them. */
static int choose_items(struct chat_run *r, const struct chat_stmt *s, const struct chat_list **items)
{
    struct chat_value all, v;
    TRY(chat_eval(r, s->expr, &all));
    TRY(chat_items(r, all, items));
    if (!s->test)
        return SNUG_OK;
    struct chat_list *chosen;
    struct chat_scope *scope, *before = r->scope;
    TRY(chat_list_new(r, CHAT_LIST, (*items)->n, &chosen, &all));
    TRY(chat_scope_new(r, before, &scope));
    r->scope = scope;
    for (size_t i = 0; i < (*items)->n; i++) {
        TRY(assign(r, s->target, (*items)->items[i]));
        TRY(chat_eval(r, s->test, &v));
        if (chat_true(v))
            TRY(chat_list_add(r, chosen, (*items)->items[i]));
    }
    r->scope = before;
    *items = chosen;
    return SNUG_OK;
}

static int render_for(struct chat_run *r, const struct chat_stmt *s, enum jump *outer)
{
    const struct chat_list *items;
    struct chat_value loop;
    struct chat_scope *scope, *before = r->scope;
    TRY(choose_items(r, s, &items));
    if (!items->n)
        return render(r, s->orelse, outer);
    TRY(chat_scope_new(r, before, &scope));
    TRY(chat_dict_new(r, CHAT_DICT, &loop));
    r->scope = scope;
    for (size_t i = 0; i < items->n; i++) {
        enum jump jump = NO_JUMP;
        TRY(chat_step(r));
        scope->n = 0; /* what the last turn has set is gone */
        TRY(set_loop(r, loop.dict, items, i));
        TRY(chat_scope_set(r, scope, "loop", loop));
        TRY(assign(r, s->target, items->items[i]));
        TRY(render(r, s->body, &jump));
        if (jump == JUMP_BREAK)
            break;
    }
    r->scope = before;
    return SNUG_OK;
}

/* ---- the rest ---- */

/* The first body whose condition is true; elif is a further `if` in orelse. */
static int render_if(struct chat_run *r, const struct chat_stmt *s, enum jump *jump)
{
    struct chat_value v;
    for (;;) {
        TRY(chat_eval(r, s->expr, &v));
        if (chat_true(v))
            return render(r, s->body, jump);
        if (!s->orelse || s->orelse->kind != CHAT_S_IF || s->orelse->next)
            return render(r, s->orelse, jump);
        s = s->orelse;
    }
}

static int render_generation(struct chat_run *r, const struct chat_stmt *s)
{
    struct chat_rendering *g = r->rendering;
    struct chat_scope *scope, *before = r->scope;
    enum jump jump = NO_JUMP;
    if (r->out != &g->text)
        return chat_fail(r, "'generation' within a macro or a block that is set is not known to snug");
    if (!MEM_GROW(g->marks, g->marks_cap, g->n_marks + 1))
        return err_no_memory(r->err, (g->n_marks + 1) * sizeof *g->marks);
    size_t from = r->out->n;
    TRY(chat_scope_new(r, before, &scope));
    r->scope = scope;
    TRY(render(r, s->body, &jump));
    r->scope = before;
    g->marks[g->n_marks++] = (struct chat_mark){from, r->out->n};
    return SNUG_OK;
}

static int print(struct chat_run *r, const struct chat_expr *e)
{
    struct chat_value v;
    TRY(chat_eval(r, e, &v));
    TRY(chat_as_text(r, v, &v));
    return chat_write(r, v.text.s, v.text.n);
}

static int set(struct chat_run *r, const struct chat_stmt *s)
{
    struct chat_value v;
    TRY(chat_eval(r, s->expr, &v));
    return assign(r, s->target, v);
}

static int define(struct chat_run *r, const struct chat_stmt *s)
{
    struct chat_value v;
    TRY(chat_callable_new(r, (struct chat_callable){.macro = s, .scope = r->scope}, &v));
    return chat_scope_set(r, r->scope, s->text, v);
}

static int render_one(struct chat_run *r, const struct chat_stmt *s, enum jump *jump)
{
    r->line = s->line;
    switch (s->kind) {
    case CHAT_S_DATA:
        return chat_write(r, s->text, s->n);
    case CHAT_S_PRINT:
        return print(r, s->expr);
    case CHAT_S_FOR:
        return render_for(r, s, jump);
    case CHAT_S_IF:
        return render_if(r, s, jump);
    case CHAT_S_SET:
        return set(r, s);
    case CHAT_S_SET_BLOCK:
        return set_block(r, s);
    case CHAT_S_MACRO:
        return define(r, s);
    case CHAT_S_GENERATION:
        return render_generation(r, s);
    case CHAT_S_BREAK:
        *jump = JUMP_BREAK;
        return SNUG_OK;
    case CHAT_S_CONTINUE:
        *jump = JUMP_CONTINUE;
        return SNUG_OK;
    }
    return SNUG_OK;
}

static int render(struct chat_run *r, const struct chat_stmt *s, enum jump *jump)
{
    if (++r->depth > CHAT_DEPTH)
        return chat_fail(r, "nested deeper than %d", CHAT_DEPTH);
    for (; s && *jump == NO_JUMP; s = s->next) {
        TRY(chat_step(r));
        TRY(render_one(r, s, jump));
    }
    r->depth--;
    return SNUG_OK;
}

int chat_render_all(struct chat_run *r, const struct chat_stmt *s)
{
    enum jump jump = NO_JUMP;
    return render(r, s, &jump);
}
