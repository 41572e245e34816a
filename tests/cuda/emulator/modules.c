/* What a text of PTX holds: where its functions and variables are. */
#include "modules.h"

#include <stdlib.h>
#include <string.h>

static struct place *places;
static size_t n_places, room_places;

static const char *behind_braces(const char *p)
{
    int depth = 0;
    for (;; p++) {
        p = skip_space(p);
        if (!*p)
            bad_ptx("a function without an end", p);
        depth += *p == '{';
        depth -= *p == '}';
        if (!depth && *p == '}')
            return p + 1;
    }
}

static struct place *add_place(struct word name, int module)
{
    places = grown(places, n_places, &room_places, sizeof *places);
    places[n_places] = (struct place){.name = name, .module = module};
    return &places[n_places++];
}

/* Its memory, with the values behind "=". */
static void read_variable(const char **p, int module)
{
    struct declaration d = declaration(p);
    size_t bytes = (size_t)ptx_bytes(d.type), n = d.count ? d.count : 1;
    uint8_t *values = aligned_alloc(64, (n * bytes + 63) / 64 * 64);
    if (!values)
        bad_ptx("no memory", d.name.at);
    memset(values, 0, n * bytes);
    global_memory_add((uint64_t)(uintptr_t)values, n * bytes);
    add_place(d.name, module)->address = (uint64_t)(uintptr_t)values;
    if (!take_char(p, '='))
        return;
    bool list = take_char(p, '{');
    for (size_t i = 0; i < n; i++) {
        bool minus = take_char(p, '-');
        uint64_t v = word_number(next_word(p));
        v = minus ? -v : v;
        memcpy(values + i * bytes, &v, bytes);
        if (!take_char(p, ','))
            break;
    }
    if (list)
        take_char(p, '}');
}

static const char *read_function(const char *p, int module)
{
    const char *start = p;
    struct word w = {0};
    take_char(&p, '('); /* what a function returns comes before its name */
    if (p != start)
        while (!take_char(&p, ')'))
            next_word(&p);
    w = next_word(&p);
    struct place *f = add_place(w, module);
    f->function = true;
    f->text = start;
    while (*(p = skip_space(p)) != '{' && *p != ';')
        p++;
    f->body = p;
    if (*p == ';') { /* only declared: its definition stands elsewhere */
        n_places--;
        return p + 1;
    }
    return behind_braces(p);
}

void ptx_read(const char *text)
{
    static int module;
    for (const char *p = skip_space(text); *p; p = skip_space(p)) {
        struct word w = next_word(&p);
        if (word_is(w, ".version"))
            module++;
        else if (word_is(w, ".entry") || word_is(w, ".func"))
            p = read_function(p, module);
        else if (word_is(w, ".global") || word_is(w, ".const"))
            read_variable(&p, module);
        else if (word_is(w, ".shared")) { /* of unknown size, or of several functions: placed where it is used */
            struct declaration d = declaration(&p);
            add_place(d.name, module)->text = w.at;
        }
    }
}

struct place *module_variable(int module, struct word name)
{
    for (size_t i = 0; i < n_places; i++)
        if (places[i].module == module && !places[i].function && words_equal(places[i].name, name))
            return &places[i];
    return NULL;
}

struct place *module_function(int module, struct word name)
{
    for (size_t i = 0; i < n_places; i++)
        if (places[i].function && (!module || places[i].module == module) && words_equal(places[i].name, name))
            return &places[i];
    return NULL;
}
