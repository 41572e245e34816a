#include "world.h"

#include <unistd.h>

char weights[WEIGHTS];

const struct served model[5] = {
    {"config.json", CONFIG_TEXT, CONFIG_TAG, CONFIG, false},
    {"README.md", "# a model", "18a86dfb7a92d6bb5fc4a3a6df3acb1c22c6f0be", 9, false},
    {"pytorch_model.bin", "x", "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881", 1, true},
    {"tokenizer.json", TOKENS_TEXT, TOKENS_TAG, TOKENS, false},
    {"model.safetensors", weights, WEIGHTS_TAG, WEIGHTS, true}};

static void note(void *ctx, const char *line)
{
    struct world *w = ctx;
    strncat(w->notes, line, sizeof w->notes - strlen(w->notes) - 2);
    strcat(w->notes, "\n");
}

static void progress(void *ctx, const struct hub_progress *p)
{
    struct world *w = ctx;
    assert_in_range(p->done, 0, p->total);
    w->done = p->done;
    w->total = p->total;
    if (++w->told == w->stop_after)
        w->stop.signal = 2;
}

void open_world(struct world *w)
{
    char endpoint[64];
    *w = (struct world){.server = {.repository = "org/model", .commit = COMMIT, .files = model, .n_files = 5},
                        .io = io_posix};
    w->events = (struct hub_events){.note = note, .progress = progress, .ctx = w, .stop = &w->stop, .pause = 1e-3};
    make_folder(w->cache);
    for (int i = 0; i < WEIGHTS; i++)
        weights[i] = (char)(((int64_t)i * i + 7 * i) >> 3);
    server_start(&w->server);
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d/", w->server.port);
    unsetenv("HF_HUB_OFFLINE");
    setenv("HF_ENDPOINT", endpoint, 1);
    setenv("HF_HUB_CACHE", w->cache, 1);
    setenv("HF_HOME", w->cache, 1);
    setenv("no_proxy", "*", 1);
    unsetenv("HF_TOKEN");
    unsetenv("HF_HUB_OFFLINE");
}

void close_world(struct world *w)
{
    server_end(&w->server);
    arena_free(&w->arena);
    remove_tree(w->cache);
    unsetenv("HF_HUB_OFFLINE");
    unsetenv("HF_TOKEN");
}

int get(struct world *w, const char *text, enum hub_part part)
{
    struct hub_wish wish = {.text = text, .part = part};
    assert_true(hub_name_read(text, false, &wish.name));
    w->err.text[0] = w->notes[0] = 0;
    return hub_get(&wish, &w->io, &w->events, &w->arena, &w->paths, &w->n, &w->err);
}

void expect(struct world *w, int code, const char *text)
{
    char endpoint[64];
    snprintf(endpoint, sizeof endpoint, "http://127.0.0.1:%d", w->server.port);
    int got = get(w, "org/model", HUB_MODEL);
    char *at = strstr(w->err.text, endpoint);
    if (at) {
        memmove(at + 3, at + strlen(endpoint), strlen(at + strlen(endpoint)) + 1);
        memcpy(at, "HUB", 3);
    }
    assert_string_equal(w->err.text, text);
    assert_int_equal(got, code);
}

const char *at(const struct world *w, const char *path)
{
    return in(w->cache, path);
}

void expect_link(const struct world *w, const char *path, const char *target)
{
    char got[256] = "";
    ssize_t n = readlink(at(w, path), got, sizeof got - 1);
    assert_int_equal(n, strlen(target));
    assert_string_equal(got, target);
}

int names_in(const char *dir)
{
    return count_names(dir, "") - 2; /* "." and ".." */
}

void expect_bytes(const char *path, const char *bytes, size_t n)
{
    size_t length;
    char *text = read_text(path, &length);
    assert_int_equal(length, n);
    assert_memory_equal(text, bytes, n);
    free(text);
}

void expect_model(struct world *w)
{
    assert_int_equal(w->n, 1);
    assert_string_equal(w->paths[0], at(w, CACHE "/snapshots/" COMMIT));
    expect_bytes(in(w->paths[0], "config.json"), CONFIG_TEXT, CONFIG);
    expect_bytes(in(w->paths[0], "tokenizer.json"), TOKENS_TEXT, TOKENS);
    expect_bytes(in(w->paths[0], "model.safetensors"), weights, WEIGHTS);
}
