/* What users of other programs have lost on conversations; each test names the threads. Whole runs on the reference, in
 * double precision, of a GPT-2 with random weights. */
#include "here.h"

#include <math.h>
#include <sys/stat.h>

static const char *model;

/* Seven messages' worth of rows, of uneven lengths. */
static const char *const row_texts[] = {
    "{\"messages\":[{\"role\":\"user\",\"content\":\"When will my card "
    "arrive?\"},{\"role\":\"assistant\",\"content\":\"Soon.\"}]}\n",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"It is on its way, and "
    "should be with you in "
    "two days; please wait for it, or call us\"}]}\n",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"And what about the card's PIN? I have not got it yet, and it is a "
    "week\"},"
    "{\"role\":\"assistant\",\"content\":\"no\"},{\"role\":\"user\",\"content\":\"b\"},{\"role\":\"assistant\","
    "\"content\":\"Yes!\"}]}\n",
    "{\"messages\":[{\"role\":\"user\",\"content\":\"x y z\"},{\"role\":\"assistant\",\"content\":\"1 2 3 4 5\"}]}\n",
};
enum { ROWS = sizeof row_texts / sizeof *row_texts };

static void copy(const char *from, const char *to)
{
    size_t n;
    char *text = read_text(from, &n);
    write_text(model, to, text);
    free(text);
}

static void make_model(const char *name, const char *tokenizer, const char *config)
{
    model = join(folder, name);
    assert_int_equal(mkdir(model, 0700), 0);
    copy(fixture(tokenizer), "tokenizer.json");
    write_text(model, "tokenizer_config.json", config);
    write_text(
        model, "config.json",
        "{\"model_type\":\"gpt2\",\"architectures\":[\"GPT2LMHeadModel\"],\"vocab_size\":1400,\"n_positions\":128,"
        "\"n_embd\":16,\"n_layer\":2,\"n_head\":2,\"attn_pdrop\":0,\"embd_pdrop\":0,\"resid_pdrop\":0}");
    write_text(model, "chat_template.jinja",
               "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
               "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
}

/* One step that changes nothing. */
static double loss_of(const char *file, const char *text, const char *const *more, double *norm)
{
    const char *out = join(folder, "out");
    write_text(folder, file, text);
    remove_tree(out);
    train_to_the_end(
        LISTS(ARGS("--model", model, "--init-from-config", "true", "--train-data", join(folder, file), "--device",
                   "reference", "--max-steps", "1", "--logging-steps", "1", "--save-strategy", "no", "--learning-rate",
                   "0", "--cache-dir", folder, "--assistant-only-loss", "true", "--output-dir", out),
              more));
    json_t *log = read_log(out), *first = json_array_get(log, 0);
    double loss = json_number_value(json_object_get(first, "loss"));
    *norm = json_number_value(json_object_get(first, "grad_norm"));
    json_decref(log);
    return loss;
}

static long long learned(void)
{
    long long n = 0;
    const char *at = strstr(notes, " tokens are learned");
    assert_non_null(at);
    while (at > notes && at[-1] != '\n')
        at--;
    at = strstr(at, ": ");
    assert_int_equal(sscanf(at, ": %lld of", &n), 1);
    return n;
}

static char *all_rows(void)
{
    static char all[4096];
    all[0] = 0;
    for (int i = 0; i < ROWS; i++)
        strcat(all, row_texts[i]);
    return all;
}

/* trl #3067, #1230 (packing mixes rows, a loss of 37.55 where 44.14 was right): rows that lie side by side have the loss of
 * the rows alone, weighted by their targets. */
static void packed_is_unpacked(void **state)
{
    (void)state;
    double sum = 0, norm;
    long long n = 0;
    for (int i = 0; i < ROWS; i++) {
        double loss = loss_of("one.jsonl", row_texts[i], ARGS("--batch-size", "1"), &norm);
        sum += loss * (double)learned();
        n += learned();
    }
    double together = loss_of("all.jsonl", all_rows(), ARGS("--batch-size", "4"), &norm);
    assert_int_equal(learned(), n);
    assert_true(fabs(together - sum / (double)n) < 1e-8);
}

/* unsloth #3482, axolotl #3196, trl #2604: neither loss nor gradient depends on how a batch is cut. */
static void the_cut_does_not_show(void **state)
{
    (void)state;
    double norm, other;
    double loss = loss_of("all.jsonl", all_rows(), ARGS("--batch-size", "4"), &norm);
    const char *const *const cuts[] = {
        ARGS("--batch-size", "2", "--gradient-accumulation-steps", "2"),
        ARGS("--batch-size", "1", "--gradient-accumulation-steps", "4"),
        ARGS("--batch-size", "4", "--max-tokens-per-batch", "80"),
        ARGS("--batch-size", "2", "--gradient-accumulation-steps", "2", "--max-tokens-per-batch", "70"),
    };
    for (size_t i = 0; i < sizeof cuts / sizeof *cuts; i++) {
        assert_true(fabs(loss_of("all.jsonl", all_rows(), cuts[i], &other) - loss) < 1e-8);
        assert_true(fabs(other - norm) < 1e-8 * norm);
    }
}

static int fails(const char *text, const char *const *more, struct snug_err *e)
{
    const char *out = join(folder, "out");
    write_text(folder, "f.jsonl", text);
    remove_tree(out);
    return train_here(
        LISTS(ARGS("--model", model, "--init-from-config", "true", "--train-data", join(folder, "f.jsonl"), "--device",
                   "reference", "--max-steps", "1", "--cache-dir", folder, "--output-dir", out),
              more),
        NEVER, NULL, e);
}

/* litgpt #159 (out of memory at the longest sample, hours in): a row that does not fit is refused before the first step. */
static void the_longest_row_is_known(void **state)
{
    (void)state;
    struct snug_err e;
    assert_int_equal(fails(all_rows(), ARGS("--max-tokens-per-batch", "40"), &e), SNUG_ERR_USAGE);
    assert_non_null(strstr(e.text, "--max-tokens-per-batch 40: the longest row has "));
}

/* unsloth #416, trl #1623 (EOS masked because PAD is the same token): this folder's PAD is its EOS, and each answer's end
 * counts. Where none is learned, nothing would stop the model. */
static void ends_are_learned(void **state)
{
    (void)state;
    double norm;
    struct snug_err e;
    loss_of("all.jsonl", all_rows(), ARGS("--batch-size", "4"), &norm);
    assert_non_null(strstr(notes, " 5 of them end a text (<|im_end|>)"));
    write_text(folder, "endless.jinja", "{% for m in messages %}{{ '<|im_start|>' + m.role + m.content }}{% endfor %}");
    assert_int_equal(fails(all_rows(), ARGS("--chat-template", join(folder, "endless.jinja")), &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "none is an end of text (<|im_end|>)"));
}

/* A text of one token has none to be foretold. */
static void texts_of_one_token_are_told(void **state)
{
    (void)state;
    struct snug_err e;
    double norm;
    assert_int_equal(fails("{\"text\":\"a\"}\n{\"text\":\"b\"}\n", ARGS("--batch-size", "2"), &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "no row has two tokens, so there is none to be foretold"));
    loss_of("all.jsonl", "{\"text\":\"a\"}\n{\"text\":\"When will my card arrive?\"}\n",
            ARGS("--batch-size", "2", "--assistant-only-loss", "false"), &norm);
    assert_non_null(strstr(notes, "all.jsonl: nothing is learned of 1 rows of one token"));
}

/* An option that would do nothing. */
static void texts_have_no_assistant(void **state)
{
    (void)state;
    struct snug_err e;
    assert_int_equal(fails("{\"text\":\"When will my card arrive?\"}\n", ARGS("--assistant-only-loss", "true"), &e),
                     SNUG_ERR_USAGE);
    assert_non_null(strstr(e.text, "--assistant-only-loss: "));
    assert_non_null(strstr(e.text, " holds texts, no conversations; leave it out"));
}

static void a_sample_is_shown(void **state)
{
    (void)state;
    double norm;
    loss_of("one.jsonl", row_texts[3], ARGS("--show-sample", "true"), &norm);
    assert_non_null(strstr(notes, "\n  learned "));
    assert_non_null(strstr(notes, "<|im_end|>\n  context "));
}

/* alignment-handbook #127: the text writes a begin token, and the tokenizer adds one. */
static void two_begins_are_noticed(void **state)
{
    (void)state;
    double norm;
    const char *before = model;
    make_model("llama", "tokenizer/recorded/families/llama2/tokenizer.json",
               "{\"bos_token\":\"<s>\",\"eos_token\":\"</s>\",\"pad_token\":\"</s>\"}");
    loss_of("two.jsonl",
            "{\"prompt\":\"<s> When\",\"completion\":\" now\"}\n{\"prompt\":\"When\",\"completion\":\" now\"}\n",
            ARGS("--batch-size", "1"), &norm);
    assert_non_null(strstr(notes, "1 rows begin with two '<s>'"));
    model = before;
}

static int set_up(void **state)
{
    int failed = open_folder(state);
    make_model("qwen", "tokenizer/recorded/families/qwen2/tokenizer.json",
               "{\"eos_token\":\"<|im_end|>\",\"pad_token\":\"<|im_end|>\",\"bos_token\":null}");
    return failed;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(packed_is_unpacked),          cmocka_unit_test(the_cut_does_not_show),
        cmocka_unit_test(the_longest_row_is_known),    cmocka_unit_test(ends_are_learned),
        cmocka_unit_test(texts_of_one_token_are_told), cmocka_unit_test(texts_have_no_assistant),
        cmocka_unit_test(a_sample_is_shown),           cmocka_unit_test(two_begins_are_noticed),
    };
    return cmocka_run_group_tests_name("chat", tests, set_up, close_folder);
}
