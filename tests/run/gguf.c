/* A run that begins with a GGUF file is the run that begins with the folder that the file stands for, and ends in such a folder. */
#include "here.h"

#include "tokenizer/tokenizer.h"

static const char *lines; /* a file of text */

static void train(const char *model, const char *out, const char *const *more)
{
    train_to_the_end(LISTS(
        ARGS("--model", model, "--train-data", lines, "--output-dir", out, "--device", "cpu", "--threads", "1"), more));
}

static struct hash128 hash_of(const char *model)
{
    struct tokenizer *t;
    struct snug_err err;
    assert_int_equal(tokenizer_open(&io_posix, model, &t, &err), 0);
    struct hash128 h = tokenizer_hash(t);
    tokenizer_close(t);
    return h;
}

static void assert_same_file(const char *x, const char *y, const char *name)
{
    assert_true(same_bytes(join(x, name), join(y, name)));
}

static void check(const char *gguf)
{
    static const char *const files[] = {"config.json", "tokenizer.json", "tokenizer_config.json",
                                        "generation_config.json", "model.safetensors"};
    const char *as_it_is = join(folder, "as_it_is"), *a = join(folder, "a"), *b = join(folder, "b"),
               *two = join(folder, "two");
    train(gguf, as_it_is, ARGS("--max-steps", "1", "--learning-rate", "0"));
    struct hash128 x = hash_of(gguf), y = hash_of(as_it_is);
    assert_true(x.high == y.high && x.low == y.low);
    train(gguf, a, ARGS("--max-steps", "4", "--save-steps", "2"));
    train(as_it_is, b, ARGS("--max-steps", "4"));
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_same_file(a, b, files[i]);
    assert_false(same_bytes(join(a, "model.safetensors"), join(as_it_is, "model.safetensors")));
    expect_snug(0, said(), ARGS("export", join(a, "step-00000004"), "--output-dir", two), NULL);
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        assert_same_file(a, two, files[i]);
    remove_tree(as_it_is);
    remove_tree(a);
    remove_tree(b);
    remove_tree(two);
}

static void is_the_folder_that_it_stands_for(void **state)
{
    (void)state;
    lines = join(folder, "lines.txt");
    write_text(folder, "lines.txt",
               "the quick brown fox\nWhat is the capital of France?\nParis is 12 times\nthey won't\n");
    check(fixture("format/gguf/llama.gguf"));
    check(fixture("format/gguf/mixtral.gguf"));
    check(fixture("format/gguf/qwen3moe.gguf"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(is_the_folder_that_it_stands_for)};
    return cmocka_run_group_tests_name("gguf", tests, open_folder, close_folder);
}
