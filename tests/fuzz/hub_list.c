/* Any bytes as the hub's answer to what a repository has: names that are taken stay below the snapshot's folder, and what is chosen of
 * them is among them. The first byte says what is wanted. */
#include "fuzz.h"
#include "hub/internal.h"

#include <string.h>

static void must_be_an_error(int code, const struct snug_err *err)
{
    MUST(code == SNUG_ERR_INPUT && err->code == code);
    MUST(strlen(err->text) > 3 && strlen(err->text) < sizeof err->text && !strchr(err->text, '\n'));
}

static void choose(const struct hub_wish *w, const struct file_names *all)
{
    struct file_names chosen = {0};
    struct snug_err err = {0};
    int code = choose_files(w, all, &chosen, &err);
    if (code)
        must_be_an_error(code, &err);
    MUST(code || chosen.n > 0);
    for (size_t i = 0; !code && i < chosen.n; i++)
        MUST(file_names_have(all, chosen.items[i]));
    file_names_free(&chosen);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum hub_part parts[] = {HUB_MODEL,      HUB_SETTINGS,  HUB_ADAPTER,
                                          HUB_TRAIN_ROWS, HUB_EVAL_ROWS, HUB_TEST_ROWS};
    if (!size)
        return 0;
    struct hub_wish w = {.text = "owner/name", .part = parts[data[0] % 6]};
    struct arena arena = {0};
    struct repository r = {.wish = &w, .arena = &arena};
    struct file_names all = {0};
    struct snug_err err = {0};
    int code = repository_read_list(&r, "https://hub/api", (const char *)data + 1, size - 1, &all, &err);
    if (code)
        must_be_an_error(code, &err);
    MUST(code || is_commit(r.commit));
    for (size_t i = 0; i < all.n; i++)
        MUST(hub_path_is_safe(all.items[i]));
    if (!code)
        choose(&w, &all);
    file_names_free(&all);
    arena_free(&arena);
    return 0;
}
