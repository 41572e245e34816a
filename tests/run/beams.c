/* --num-beams: what transformers finds with beams (tests/golden/generate/beams.py), however many prompts run together, from
 * options and from the model's folder. */
#include "command.h"

#include <sys/stat.h>
#include <unistd.h>

enum { NAME = 64 };

/* A folder with the files of the fixture, and this generation_config.json. */
static const char *copy_model(const char *name, json_t *config)
{
    static const char *const files[] = {"config.json", "model.safetensors"};
    char from[NAME];
    const char *dir = join(folder, name);
    remove_tree(dir);
    assert_int_equal(mkdir(dir, 0700), 0);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        snprintf(from, sizeof from, "golden/generate/%s/%s", name, files[i]);
        assert_int_equal(symlink(fixture(from), join(dir, files[i])), 0);
    }
    assert_int_equal(json_dump_file(config, join(dir, "generation_config.json"), 0), 0);
    return dir;
}

/* As option --NAME VALUE, or NULL. */
static const char *option(json_t *settings, const char *name, char text[NAME])
{
    json_t *x = json_object_get(settings, name);
    if (json_is_string(x))
        return json_string_value(x);
    if (json_is_boolean(x))
        return json_is_true(x) ? "true" : "false";
    snprintf(text, NAME, "%g", json_number_value(x));
    return x ? text : NULL;
}

/* The lines of `snug generate` against a recorded run; null: transformers' choices were too close. */
static void compare(json_t *run)
{
    size_t n, i = 0, compared = 0;
    char *text = read_text(said(), &n), *rest = strchr(text, '{'), *line;
    json_t *wanted = json_object_get(run, "ids");
    while (rest && (line = strsep(&rest, "\n")) && *line) {
        json_t *o = json_loads(line, 0, NULL), *want = json_array_get(wanted, i++);
        compared += json_is_array(want);
        if (json_is_array(want) && !json_equal(want, json_object_get(o, "ids")))
            fail_msg("prompt %zu of %s: %s", i - 1, json_dumps(json_object_get(run, "settings"), 0), line);
        json_decref(o);
    }
    assert_int_equal(i, json_array_size(wanted));
    assert_true(compared > i / 2);
    free(text);
}

static void as_transformers(void **state)
{
    static const char *const names[] = {"t5", "bart", "mbart", "gpt2", "mistral", "lfm2"};
    static const char *const at_once[] = {"1", "3", "8", "2"};
    (void)state;
    for (size_t m = 0; m < sizeof names / sizeof *names; m++) {
        char path[NAME], beams[NAME], penalty[NAME], end[NAME];
        snprintf(path, sizeof path, "golden/generate/%s/beams.json", names[m]);
        json_t *runs = json_load_file(fixture(path), 0, NULL), *run, *settings;
        snprintf(path, sizeof path, "golden/generate/%s/prompts.jsonl", names[m]);
        size_t r;
        assert_int_equal(json_array_size(runs), 4);
        json_array_foreach(runs, r, run)
        {
            settings = json_object_get(run, "settings");
            bool by_options = (m + r) % 2;
            json_t *config = by_options ? json_object() : json_copy(settings);
            json_t *own =
                json_load_file(join(fixture(join("golden/generate", names[m])), "generation_config.json"), 0, NULL);
            json_object_update_missing(config, own);
            for (const char *const *key = ARGS("no_repeat_ngram_size", "min_new_tokens", "repetition_penalty"); *key;
                 key++)
                if (json_object_get(settings, *key)) /* which no option says */
                    json_object_set(config, *key, json_object_get(settings, *key));
            const char *model = copy_model(names[m], config);
            for (int d = 0; d < n_devices(); d++)
                if (is_fp32(device(d))) {
                    const char *args[24];
                    size_t n = 0;
                    for (const char *const *a =
                             ARGS("generate", "--model", model, "--data", fixture(path), "--json", "--max-new-tokens",
                                  "12", "--device", device(d)->name, "--per-device-eval-batch-size", at_once[r]);
                         *a; a++)
                        args[n++] = *a;
                    const struct {
                        const char *flag, *value;
                    } options[] = {{"--num-beams", option(settings, "num_beams", beams)},
                                   {"--length-penalty", option(settings, "length_penalty", penalty)},
                                   {"--early-stopping", option(settings, "early_stopping", end)}};
                    for (size_t i = 0; i < 3 && by_options; i++)
                        if (options[i].value) {
                            args[n++] = options[i].flag;
                            args[n++] = options[i].value;
                        }
                    args[n] = NULL;
                    expect_snug(0, said(), args, NULL);
                    compare(run);
                }
            json_decref(own);
            json_decref(config);
        }
        json_decref(runs);
    }
}

/* One beam is no search; and what is drawn needs none, whatever the folder says. */
static void one_beam_is_greedy(void **state)
{
    (void)state;
    json_t *config = json_load_file(fixture("golden/generate/t5/generation_config.json"), 0, NULL);
    json_object_set_new(config, "num_beams", json_integer(4));
    const char *model = copy_model("t5", config), *prompts = fixture("golden/generate/t5/prompts.jsonl");
    expect_snug(0, said(), ARGS("generate", "--model", model, "--data", prompts, "--json", "--max-new-tokens", "12"),
                ARGS("--num-beams", "1", "--device", "cpu"));
    size_t n, k;
    char *got = read_text(said(), &n), *want = read_text(fixture("golden/generate/t5/expected.jsonl"), &k);
    for (char *g = strchr(got, '{'), *w = want, *line; g && w && (line = strsep(&g, "\n")) && *line;) {
        json_t *o = json_loads(line, 0, NULL), *ids = json_loads(strsep(&w, "\n"), 0, NULL);
        assert_true(json_equal(ids, json_object_get(o, "ids")));
        json_decref(ids);
        json_decref(o);
    }
    free(got);
    free(want);
    expect_snug(0, said(), ARGS("generate", "--model", model, "--data", prompts, "--json", "--max-new-tokens", "2"),
                ARGS("--do-sample", "--device", "cpu"));
    assert_true(file_has(said(), "not heeded, though the model's folder has it: num_beams 4"));
    json_decref(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(as_transformers), cmocka_unit_test(one_beam_is_greedy)};
    return cmocka_run_group_tests_name("beams", tests, open_folder, close_folder);
}
