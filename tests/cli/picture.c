/* snug plan --picture and --anatomy through the real command: what they tell adds up to the arena to the byte, and says the same
 * in all forms; the picture is XML that needs nothing else, and is there whole or not at all. */
#include "../run/command.h"
#include "xml.h"

#include <sys/stat.h>
#include <unistd.h>

static long long number(json_t *o, const char *key)
{
    if (!json_is_integer(json_object_get(o, key)))
        fail_msg("%s is no integer", key);
    return json_integer_value(json_object_get(o, key));
}

/* What `snug plan` prints. */
static json_t *plan_json(const char *const *options)
{
    expect_snug(0, said(), options, ARGS("--json"));
    return said_object();
}

/* The bytes of a line of the legend; 0 where there is none. */
static long long in_picture(const char *svg, const char *name)
{
    char key[80];
    snprintf(key, sizeof key, "data-name=\"%s\" data-bytes=\"", name);
    const char *at = strstr(svg, key);
    return at ? strtoll(at + strlen(key), NULL, 10) : 0;
}

/* Sums of JSON's three lists: by component, by layer with components of its own, by what makes it. */
static void check_sums(json_t *o, long long gap)
{
    const char *name;
    json_t *part, *bytes;
    size_t i;
    long long layers = 0, held = 0, components = 0;
    json_object_foreach(json_object_get(o, "components"), name, part)
    {
        long long in_layers = 0, in_held = 0;
        json_t *item;
        json_array_foreach(json_object_get(o, "layers"), i, item)
        {
            bytes = json_object_get(item, "components");
            in_layers += number(bytes, name);
        }
        json_array_foreach(json_object_get(o, "held"), i,
                           item) if (!strcmp(json_string_value(json_object_get(item, "component")), name)) in_held +=
            number(item, "bytes");
        assert_int_equal(in_layers, json_integer_value(part));
        assert_int_equal(in_held, json_integer_value(part));
        components += json_integer_value(part);
    }
    json_array_foreach(json_object_get(o, "layers"), i, part) layers += number(part, "bytes");
    json_array_foreach(json_object_get(o, "held"), i, part)
    {
        held += number(part, "bytes");
        assert_true(*json_string_value(json_object_get(part, "made_by")));
    }
    assert_int_equal(components + gap, number(o, "arena_bytes"));
    assert_int_equal(layers + gap, number(o, "arena_bytes"));
    assert_int_equal(held + gap, number(o, "arena_bytes"));
}

static void check_plan(const char *const *options)
{
    size_t n;
    const char *file = join(folder, "a.svg"), *name, *complaint;
    json_t *o = plan_json(options), *part;
    expect_snug(0, said(), options, ARGS("--picture", file, "--overwrite-output"));
    char *svg = read_text(file, &n);
    if ((complaint = xml_complaint(svg, n)))
        fail_msg("%s", complaint);
    long long sum = in_picture(svg, "gap of the packing");
    check_sums(o, sum);
    json_object_foreach(json_object_get(o, "components"), name, part)
    {
        assert_int_equal(in_picture(svg, name), json_integer_value(part));
        sum += json_integer_value(part);
    }
    assert_int_equal(sum, number(o, "arena_bytes"));
    assert_int_equal(in_picture(svg, "arena"), number(o, "arena_bytes"));
    assert_non_null(strstr(svg, "<title "));
    assert_non_null(strstr(svg, "<desc "));
    assert_non_null(strstr(svg, "prefers-color-scheme:dark"));
    assert_null(strstr(svg, "<script"));
    assert_null(strstr(svg, "href"));
    free(svg);
    json_decref(o);
}

#define PLAN "plan", "--model", fixture("golden/trainer/init"), "--device", "cpu", "--threads", "2"

static void all_forms_add_up(void **state)
{
    (void)state;
    const char *rows = make_rows(folder, 24, 12, 3, true);
    check_plan(ARGS(PLAN, "--train-data", rows, "--batch-size", "8"));
    check_plan(ARGS(PLAN, "--train-data", rows, "--batch-size", "4", "--gradient-accumulation-steps", "2", "--bf16"));
    check_plan(ARGS(PLAN, "--train-data", rows, "--batch-size", "8", "--recompute", "layer", "--max-grad-norm", "0"));
    check_plan(ARGS(PLAN, "--train-data", rows, "--eval-data", rows, "--eval-strategy", "epoch", "--batch-size", "1",
                    "--optim", "adafactor", "--per-device-eval-batch-size", "24"));
    check_plan(ARGS(PLAN, "--train-data", rows, "--batch-size", "8", "--use-peft"));
}

/* The words: each layer is a line, and the last line of the table is all of them. */
static void the_anatomy_has_all_layers(void **state)
{
    (void)state;
    const char *model = make_deeper(folder, "golden/trainer/init", 5);
    expect_snug(
        0, said(),
        ARGS("plan", "--model", model, "--init-from-config", "--num-labels", "3", "--device", "cpu", "--anatomy"),
        NULL);
    size_t n;
    char *text = read_text(said(), &n), *table = strstr(text, "\nlayers at the peak"), name[32];
    assert_non_null(table);
    for (int l = 1; l <= 5; l++) {
        snprintf(name, sizeof name, "\n  layer %d ", l);
        assert_non_null(strstr(table, name));
    }
    assert_null(strstr(table, "\n  layer 6 "));
    assert_non_null(strstr(table, "\n  embeddings "));
    assert_non_null(strstr(table, "\n  head "));
    assert_non_null(strstr(table, "\n  all "));
    assert_non_null(strstr(table, "exp_avg_sq"));
    free(text);
}

static void a_picture_is_there_whole_or_not_at_all(void **state)
{
    (void)state;
    struct stat st;
    const char *file = join(folder, "b.svg"), *other = join(folder, "b.png");
    expect_snug(2, said(), ARGS(PLAN, "--picture", other), NULL);
    assert_true(file_has(said(), ".svg") && stat(other, &st));
    expect_snug(2, said(), ARGS(PLAN, "--picture", file, "--dump", "grad"), NULL);
    assert_true(stat(file, &st) != 0);
    expect_snug(3, said(), ARGS("plan", "--model", join(folder, "none"), "--picture", file), NULL);
    assert_true(stat(file, &st) != 0);
    expect_snug(0, said(), ARGS(PLAN, "--picture", file), NULL);
    assert_true(!stat(file, &st) && file_has(said(), "picture written to"));
    expect_snug(2, said(), ARGS(PLAN, "--picture", file, "--max-length", "8"), NULL);
    assert_true(file_has(said(), "b.svg"));
    struct stat after;
    assert_true(!stat(file, &after) && after.st_size == st.st_size && after.st_ino == st.st_ino);
    expect_snug(5, said(), ARGS(PLAN, "--picture", join(folder, "no/where.svg")), NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_forms_add_up),
        cmocka_unit_test(the_anatomy_has_all_layers),
        cmocka_unit_test(a_picture_is_there_whole_or_not_at_all),
    };
    return cmocka_run_group_tests_name("picture", tests, open_folder, close_folder);
}
