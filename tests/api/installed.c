/* What others write: built against the installed library by tests/api/install. Its arena_alloc is not the library's. */
#include <snug/snug.h>
#include <stdio.h>

int arena_alloc(void)
{
    return 42;
}

int main(void)
{
    struct snug_err err = {0};
    snug_options *o = NULL;
    if (snug_options_new("train", &o, &err) || snug_options_set(o, "learning_rate", "2e-5", &err))
        return fprintf(stderr, "%s\n", err.text), 1;
    snug_options_free(o);
    printf("%s %d\n", snug_version(), arena_alloc());
    return 0;
}
