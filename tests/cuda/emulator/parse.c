/* Functions in PTX. They are parsed when they are first used: of the project's thousands of kernels a test runs a few. */
#include "modules.h"
#include "runtime.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

struct symbol {
    struct word name;
    struct operand is;
    size_t label; /* an instruction, for a label */
    bool is_label;
};

/* Names of a function; those of an inner block are dropped behind it. */
struct scope {
    struct symbol *all;
    size_t n, room;
};

struct parser {
    struct function *f;
    struct scope names, shared; /* shared: variables of the module that it uses */
    size_t room;
    int module;
};

static struct symbol *find(struct scope *s, struct word name)
{
    for (size_t i = s->n; i-- > 0;)
        if (words_equal(s->all[i].name, name))
            return &s->all[i];
    return NULL;
}

static struct symbol *define(struct scope *s, struct word name, struct operand is)
{
    s->all = grown(s->all, s->n, &s->room, sizeof *s->all);
    s->all[s->n] = (struct symbol){.name = name, .is = is};
    return &s->all[s->n++];
}

static uint64_t shared_address(uint32_t at)
{
    return (uint64_t)(uintptr_t)(shared_memory + at);
}

/* A name that the function does not declare: a variable of the module. */
static struct operand outside(struct parser *p, struct word name)
{
    struct symbol *known = find(&p->shared, name);
    if (known)
        return known->is;
    struct place *v = module_variable(p->module, name);
    if (!v)
        bad_ptx("an unknown name", name.at);
    if (v->address)
        return (struct operand){.kind = OPERAND_CONSTANT, .value = v->address};
    const char *text = v->text;
    next_word(&text);
    struct declaration d = declaration(&text);
    return define(
               &p->shared, name,
               (struct operand){.kind = OPERAND_CONSTANT, .value = shared_address(take_room(&p->f->shared_bytes, &d))})
        ->is;
}

/* %r12 is the 12th of the registers that were declared as %r<40>. */
static bool numbered(struct scope *s, struct word name, struct operand *out)
{
    size_t n = name.n;
    while (n && isdigit((unsigned char)name.at[n - 1]))
        n--;
    struct symbol *range = n && n < name.n ? find(s, (struct word){name.at, n}) : NULL;
    if (!range || range->is.kind != OPERAND_REGISTER)
        return false;
    *out = range->is;
    out->index += (uint32_t)word_number((struct word){name.at + n, name.n - n});
    return true;
}

static bool special_named(struct word w, struct operand *out)
{
    static const char *const names[] = {"%tid.x",    "%tid.y",    "%tid.z",   "%ntid.x",  "%ntid.y",
                                        "%ntid.z",   "%ctaid.x",  "%ctaid.y", "%ctaid.z", "%nctaid.x",
                                        "%nctaid.y", "%nctaid.z", "%laneid",  "%warpid"};
    for (uint32_t i = 0; i < SPECIALS; i++)
        if (word_is(w, names[i])) {
            *out = (struct operand){.kind = OPERAND_SPECIAL, .index = i};
            return true;
        }
    return false;
}

static struct operand named(struct parser *p, struct word w)
{
    struct operand o = {0};
    if (word_is(w, "_"))
        return (struct operand){.kind = OPERAND_REGISTER, .index = 0}; /* a register that nobody reads */
    if (special_named(w, &o))
        return o;
    struct symbol *s = find(&p->names, w);
    if (s)
        return s->is;
    return numbered(&p->names, w, &o) ? o : outside(p, w);
}

static void put_operand(struct instruction *i, struct operand o)
{
    if (i->n == MAX_OPERANDS)
        bad_ptx("too many operands", i->mnemonic);
    i->o = emulator_resize(i->o, (size_t)(i->n + 1), sizeof *i->o);
    i->o[i->n++] = o;
}

static void read_operand(struct parser *p, struct instruction *i, const char **at)
{
    if (take_char(at, '{')) {
        if (!strncmp(i->mnemonic, "mov", 3))
            i->width = i->n ? 0 : 2; /* the vector is what is read, or what is written */
        do
            read_operand(p, i, at);
        while (take_char(at, ','));
        take_char(at, '}');
        return;
    }
    bool address = take_char(at, '['), negated = take_char(at, '!'), minus = take_char(at, '-');
    struct word w = next_word(at);
    struct operand o = {.kind = OPERAND_CONSTANT};
    if (isdigit((unsigned char)w.at[0]))
        o.value = word_number(w);
    else
        o = named(p, w);
    o.value = minus ? -o.value : o.value;
    o.negated = negated;
    if (address && take_char(at, '+')) {
        minus = take_char(at, '-');
        uint64_t v = word_number(next_word(at));
        o.value += minus ? -v : v;
    }
    if (address)
        take_char(at, ']');
    put_operand(i, o);
    if (take_char(at, '|'))
        read_operand(p, i, at);
}

static const struct function *function_named(struct word name, int module);

/* call (results), name, (arguments): the addresses of both are the callee's parameters, results first. */
static void read_call(struct parser *p, struct instruction *i, const char **at)
{
    for (int part = 0; *skip_space(*at) != ';'; part++)
        if (take_char(at, '(')) {
            do
                read_operand(p, i, at);
            while (take_char(at, ','));
            take_char(at, ')');
            take_char(at, ',');
        } else {
            i->callee = function_named(next_word(at), p->module);
            take_char(at, ',');
        }
}

static bool one_of(struct word w, const char *list)
{
    for (const char *p = list; *p;) {
        size_t n = strcspn(p, " ");
        if (words_equal(w, (struct word){p, n}))
            return true;
        p += n + strspn(p + n, " ");
    }
    return false;
}

static void copy_word(char *to, size_t room, struct word w)
{
    if (w.n < room) {
        memcpy(to, w.at, w.n);
        to[w.n] = 0;
    }
}

static void read_mnemonic(struct instruction *i, struct word w)
{
    copy_word(i->mnemonic, sizeof i->mnemonic, w);
    if (!i->mnemonic[0])
        bad_ptx("a long name", w.at);
    char opcode[32] = {0};
    copy_word(opcode, sizeof opcode, (struct word){w.at, strcspn(i->mnemonic, ".")});
    i->run = ptx_instruction(opcode);
    i->width = 1;
    if (!i->run)
        bad_ptx("an instruction that is not known", i->mnemonic);
    for (size_t at = strlen(opcode); at < w.n;) {
        struct word part = {w.at + at + 1, strcspn(i->mnemonic + at + 1, ".")};
        at += part.n + 1;
        enum ptx_type type = type_named(part);
        if (type && !i->type)
            i->type = (uint8_t)type;
        else if (type && !i->from)
            i->from = (uint8_t)type;
        else if (word_is(part, "cc"))
            i->carries = true;
        else if (word_is(part, "v2") || word_is(part, "v4"))
            i->width = (uint8_t)(part.at[1] - '0');
        else if (one_of(part, "eq ne lt le gt ge equ neu ltu leu gtu geu lo hi ls hs num nan") &&
                 !strncmp(opcode, "set", 3))
            copy_word(i->compare, sizeof i->compare, part);
        else if (one_of(part, "rn rz rm rp rni rzi rmi rpi rna"))
            copy_word(i->rounding, sizeof i->rounding, part);
        else if (one_of(part, "lo hi wide up down bfly idx ballot any all uni popc add min max and or xor"))
            copy_word(i->mode, sizeof i->mode, part);
    }
}

bool ptx_has(const struct instruction *i, const char *modifier)
{
    size_t n = strlen(modifier);
    for (const char *p = strchr(i->mnemonic, '.'); p; p = strchr(p + 1, '.'))
        if (!strncmp(p + 1, modifier, n) && (p[1 + n] == '.' || !p[1 + n]))
            return true;
    return false;
}

static struct instruction *add_instruction(struct parser *p)
{
    struct function *f = p->f;
    f->code = grown(f->code, f->n, &p->room, sizeof *f->code);
    f->code[f->n] = (struct instruction){0};
    return &f->code[f->n++];
}

static void read_instruction(struct parser *p, struct word w, const char **at)
{
    struct instruction *i = add_instruction(p);
    if (w.at[0] == '@') {
        i->unless = take_char(at, '!');
        i->guard = 1 + named(p, next_word(at)).index;
        w = next_word(at);
    }
    read_mnemonic(i, w);
    if (!strncmp(i->mnemonic, "bra", 3)) {
        struct word label = next_word(at);
        i->o = emulator_zeroed(1, sizeof *i->o);
        i->o[0] = (struct operand){.value = (uint64_t)(uintptr_t)label.at, .index = (uint32_t)label.n};
    } else if (!strncmp(i->mnemonic, "call", 4))
        read_call(p, i, at);
    else
        while (*skip_space(*at) != ';') {
            read_operand(p, i, at);
            take_char(at, ',');
        }
    take_char(at, ';');
}

static void read_declaration(struct parser *p, struct word space, const char **at)
{
    do {
        struct declaration d = declaration(at);
        struct operand o = {.kind = OPERAND_REGISTER, .index = p->f->registers};
        if (word_is(space, ".reg"))
            p->f->registers += (uint32_t)d.count;
        else if (word_is(space, ".shared"))
            o = (struct operand){.kind = OPERAND_CONSTANT, .value = shared_address(take_room(&p->f->shared_bytes, &d))};
        else
            o = (struct operand){.kind = OPERAND_LOCAL, .value = take_room(&p->f->local_bytes, &d)};
        define(&p->names, d.name, o);
    } while (take_char(at, ','));
    take_char(at, ';');
}

/* The jumps of an inner block, before its labels are forgotten. */
static void resolve(struct parser *p, size_t from)
{
    for (size_t k = from; k < p->f->n; k++) {
        struct instruction *i = &p->f->code[k];
        if (strncmp(i->mnemonic, "bra", 3) || !i->o)
            continue;
        struct symbol *s = find(&p->names, (struct word){(const char *)(uintptr_t)i->o[0].value, i->o[0].index});
        if (!s || !s->is_label)
            continue;
        i->target = (uint32_t)s->label;
        free(i->o);
        i->o = NULL;
    }
}

static void read_block(struct parser *p, const char **at)
{
    size_t names = p->names.n, from = p->f->n;
    while (!take_char(at, '}')) {
        if (take_char(at, '{')) {
            read_block(p, at);
            continue;
        }
        struct word w = next_word(at);
        if (word_is(w, ".reg") || word_is(w, ".shared") || word_is(w, ".local") || word_is(w, ".param"))
            read_declaration(p, w, at);
        else if (w.at[0] == '.')
            *at += strcspn(*at, ";") + 1; /* .pragma */
        else if (w.at[0] != ';' && take_char(at, ':')) {
            struct symbol *s = define(&p->names, w, (struct operand){0});
            s->is_label = true;
            s->label = p->f->n;
        } else if (w.at[0] != ';')
            read_instruction(p, w, at);
    }
    resolve(p, from);
    p->names.n = names;
}

static void read_params(struct parser *p, const char **at, bool kernel)
{
    while (!take_char(at, ')')) {
        struct word w = next_word(at);
        if (word_is(w, ","))
            continue;
        struct declaration d = declaration(at);
        uint32_t offset = take_room(&p->f->param_bytes, &d);
        struct operand o = {.kind = OPERAND_CONSTANT, .value = (uint64_t)(uintptr_t)(param_memory + offset)};
        if (!kernel)
            o = (struct operand){.kind = OPERAND_PARAM, .index = p->f->n_params};
        if (p->f->n_params == sizeof p->f->param_offset / sizeof *p->f->param_offset)
            bad_ptx("too many parameters", w.at);
        p->f->param_offset[p->f->n_params] = offset;
        p->f->param_size[p->f->n_params++] = p->f->param_bytes - offset;
        define(&p->names, d.name, o);
    }
}

static const struct function *parsed(struct place *place)
{
    if (place->parsed)
        return place->parsed;
    struct parser p = {.f = emulator_zeroed(1, sizeof *p.f), .module = place->module};
    const char *at = place->text;
    place->parsed = p.f;
    p.f->registers = 1;
    p.f->name = strndup(place->name.at, place->name.n);
    bool returns = take_char(&at, '(');
    if (returns)
        read_params(&p, &at, false);
    next_word(&at);
    const char *body = place->body;
    bool kernel = strncmp(place->text - 6, ".entry", 6) == 0;
    if (take_char(&at, '('))
        read_params(&p, &at, kernel);
    take_char(&body, '{');
    read_block(&p, &body);
    free(p.names.all);
    free(p.shared.all);
    for (size_t k = 0; k < p.f->n; k++)
        if (!strncmp(p.f->code[k].mnemonic, "bra", 3) && p.f->code[k].o)
            bad_ptx("a label that is not there", (const char *)(uintptr_t)p.f->code[k].o[0].value);
    add_instruction(&p)->run = ptx_instruction("ret");
    return p.f;
}

static const struct function *function_named(struct word name, int module)
{
    struct place *f = module_function(module, name);
    if (!f)
        bad_ptx("an unknown function", name.at);
    return parsed(f);
}

const struct function *ptx_kernel(const char *name)
{
    struct place *f = module_function(0, (struct word){name, strlen(name)});
    if (!f)
        bad_ptx("no kernel of this name in the PTX", name);
    return parsed(f);
}
