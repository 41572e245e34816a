/* template.h: chat templates. A model's template turns messages into the text that it was trained on. It is written in
 * Jinja; snug runs as much of that language as the templates of published models use, and names what it does not know:
 *     chat_template: line 3: filter 'foo' is not known to snug
 *
 * The environment is that of transformers: Jinja 3 with trim_blocks, lstrip_blocks and loopcontrols, the functions
 * raise_exception and strftime_now, a tojson that escapes no HTML, and {% generation %} round what the assistant says.
 *
 *     text ─▶ lexer.c ─▶ parse.c, parse_expr.c: a tree (tree.h) ─▶ render.c, eval.c: values (value.h) ─▶ text
 *
 * What a template may take is bounded (eval.h): memory, steps, nesting, output. */
#ifndef CHAT_TEMPLATE_H
#define CHAT_TEMPLATE_H

#include "base/hash.h"
#include "base/io.h"
#include "base/str.h"

#include <jansson.h>
#include <stdint.h>

struct chat_template;

/* `name` is what messages call the template; it is copied. SNUG_ERR_INPUT for what is no template, or not known. */
int chat_template_open(const char *name, const char *text, size_t bytes, struct chat_template **out,
                       struct snug_err *err);
void chat_template_close(struct chat_template *t);

bool chat_template_has_generation(const struct chat_template *t); /* {% generation %} stands in it */
struct hash128 chat_template_hash(const struct chat_template *t); /* of its text */
bool chat_template_reads_clock(const struct chat_template *t);    /* strftime_now stands in it */

struct chat_variable {
    const char *name, *text;
};

struct chat_input {
    json_t *messages;              /* an array of objects */
    const char *const *more_names; /* (n_more) and JSON values of other variables of the template */
    json_t *const *more;
    size_t n_more;
    bool add_generation_prompt;
    const struct chat_variable *tokens; /* (n_tokens): "bos_token" and its text, … */
    size_t n_tokens;
    int64_t now; /* seconds since 1970, for strftime_now; it is shown in local time */
};

/* Start with {0} and use it for many renderings: memory is kept in between. */
struct chat_rendering {
    struct str text;
    struct chat_mark {
        size_t from, to; /* bytes of the text */
    } * marks;           /* (n_marks): what stood in {% generation %}, in order */
    size_t n_marks, marks_cap;
};

/* SNUG_ERR_INPUT: the template refuses the messages (raise_exception), or does with them what is an error. A template is
 * never written to, so threads share one. */
int chat_template_render(const struct chat_template *t, const struct chat_input *in, struct chat_rendering *out,
                         struct snug_err *err);
void chat_rendering_free(struct chat_rendering *r);

#endif
