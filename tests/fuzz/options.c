/* Any command line, with any --config file: the first line chooses the command, the lines after it are arguments, and
 * what stands behind an empty line is the file "f". What is accepted must come back from the JSON that a checkpoint
 * records. */
#include "options/options.h"
#include "../memory_io.h"
#include "fuzz.h"

#include <string.h>

enum { MOST_ARGUMENTS = 64 };

static void must_be_a_message(const struct snug_err *e)
{
    size_t n = strlen(e->text);
    MUST(n > 3 && n < sizeof e->text && !strchr(e->text, '\n'));
}

/* The options of `o`, recorded as JSON, in a struct of their own. */
static void must_come_back(const struct options *o)
{
    struct snug_err e = {0};
    struct options again;
    json_t *a, *b;
    MUST(options_to_json(o, false, &a, &e) == SNUG_OK);
    char *text = json_dumps(a, 0);
    MUST(text);
    const struct memory_file file = {"f", text, strlen(text)};
    struct memory_io m;
    memory_io_init(&m, &file, 1);
    options_init(&again, o->command);
    int code = options_read_config(&again, &m.io, "f", &e);
    if (!code)
        code = options_check(&again, &e);
    if (code)
        fprintf(stderr, "%s\n%s\n", text, e.text);
    MUST(code == SNUG_OK);
    MUST(options_to_json(&again, false, &b, &e) == SNUG_OK);
    if (!json_equal(a, b))
        fprintf(stderr, "%s\n%s\n", text, json_dumps(b, 0));
    MUST(json_equal(a, b));
    json_decref(a);
    json_decref(b);
    free(text);
    options_free(&again);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1), *argv[MOST_ARGUMENTS], *config = NULL;
    int argc = 0;
    MUST(text);
    memcpy(text, data, size);
    text[size] = 0;
    char *rest = memchr(text, '\n', size), *end;
    unsigned bit = 1u << (rest && rest > text ? (unsigned char)text[0] % N_COMMANDS : 0);
    for (char *line = rest ? rest + 1 : text + size; line && *line && argc < MOST_ARGUMENTS; line = end) {
        if ((end = strchr(line, '\n')))
            *end++ = 0;
        argv[argc++] = line;
        if (end && *end == '\n') {
            config = end + 1;
            break;
        }
    }
    const struct memory_file file = {"f", config, config ? (size_t)(text + size - config) : 0};
    struct memory_io m;
    memory_io_init(&m, &file, config != NULL);
    struct options o;
    struct arguments args;
    struct snug_err e = {0};
    options_init(&o, bit);
    int code = options_parse(&o, &m.io, argc, argv, &args, &e);
    if (!code)
        code = options_check(&o, &e);
    MUST(code == SNUG_OK || code == SNUG_ERR_USAGE || code == SNUG_ERR_INPUT || code == SNUG_ERR_IO);
    if (code)
        must_be_a_message(&e);
    else
        must_come_back(&o);
    options_free(&o);
    free(text);
    return 0;
}
