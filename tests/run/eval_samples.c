/* --eval-samples: answers to rows of the evaluation data are those that snug generate gives, and training does not notice them. */
#include "../port.h"
#include "command.h"

#include <math.h>
#include <sys/stat.h>

static const char *model, *rows;

static void put_file(const char *dir, const char *name, const char *text)
{
    FILE *f = fopen(join(dir, name), "w");
    assert_non_null(f);
    fputs(text, f);
    assert_int_equal(fclose(f), 0);
}

static int make_model(void **state)
{
    size_t n;
    int code = open_folder(state);
    model = join(folder, "model");
    assert_int_equal(mkdir(model, 0700), 0);
    char *tokenizer = read_text(fixture("tokenizer/recorded/families/qwen2/tokenizer.json"), &n);
    put_file(model, "tokenizer.json", tokenizer);
    free(tokenizer);
    put_file(model, "tokenizer_config.json", "{\"eos_token\":\"<|im_end|>\"}");
    put_file(model, "chat_template.jinja",
             "{% for m in messages %}{{ '<|im_start|>' + m.role + '\n' + m.content + '<|im_end|>\n' }}{% endfor %}"
             "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}");
    put_file(model, "config.json",
             "{\"model_type\":\"llama\",\"architectures\":[\"LlamaForCausalLM\"],\"vocab_size\":1400,"
             "\"max_position_embeddings\":96,\"hidden_size\":32,\"intermediate_size\":48,\"num_hidden_layers\":2,"
             "\"num_attention_heads\":4,\"num_key_value_heads\":2,\"rms_norm_eps\":1e-6}");
    put_file(
        folder, "rows.jsonl",
        "{\"messages\":[{\"role\":\"user\",\"content\":\"When will my card arrive?\"},"
        "{\"role\":\"assistant\",\"content\":\"Soon.\"}]}\n"
        "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"no\"},"
        "{\"role\":\"user\",\"content\":\"b\"},{\"role\":\"assistant\",\"content\":\"Yes, it\\nis\"}]}\n"
        "{\"messages\":[{\"role\":\"user\",\"content\":\"x y z\"},{\"role\":\"assistant\",\"content\":\"1 2 3\"}]}\n"
        "{\"messages\":[{\"role\":\"user\",\"content\":\"c\"},{\"role\":\"assistant\",\"content\":\"d\"}]}\n");
    rows = join(folder, "rows.jsonl");
    return code;
}

/* What a training run is told: its folder, the device, the kind of run. */
static const char *const *run_of(const char *out, const struct device *on, const char *const *kind)
{
    static const char *args[64];
    size_t n = 0;
    remove_tree(out);
    const char *const *const lists[] = {
        ARGS("train", "--model", model, "--init-from-config", "--train-data", rows, "--eval-data", rows, "--output-dir",
             out, "--assistant-only-loss", "--device", on->name, "--dtype", on->dtype, "--cache-dir", folder),
        ARGS("--batch-size", "2", "--eval-strategy", "steps", "--eval-steps", "2", "--save-steps", "2",
             "--logging-steps", "1", "--log-hash", "--learning-rate", "1e-2"),
        kind};
    for (size_t l = 0; l < sizeof lists / sizeof *lists; l++)
        for (const char *const *a = lists[l]; *a; a++)
            args[n++] = *a;
    args[n] = NULL;
    return args;
}

static const char *train(const char *name, const struct device *on, const char *const *kind, const char *const *more)
{
    const char *out = join(folder, name);
    expect_snug(0, said(), run_of(out, on, kind), more);
    return out;
}

static bool is_sample(json_t *line)
{
    return json_object_get(line, "eval_sample");
}

/* The log's lines that are samples, or the others. */
static json_t *lines(const char *out, bool samples)
{
    json_t *all = read_log(out), *some = json_array(), *line;
    size_t i;
    json_array_foreach(all, i, line) if (is_sample(line) == samples) json_array_append(some, line);
    json_decref(all);
    return some;
}

static const char *text_of(json_t *line, const char *name)
{
    return json_string_value(json_object_get(line, name));
}

static void training_does_not_notice(void **state)
{
    (void)state;
    const char *const *const kinds[] = {ARGS("--max-steps", "4", "--gradient-accumulation-steps", "2"),
                                        ARGS("--max-steps", "4", "--use-peft", "--lora-r", "2")};
    for (int d = 0; d < n_devices(); d++)
        for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
            const char *plain = train("plain", device(d), kinds[k], NULL);
            const char *with = train("with", device(d), kinds[k], ARGS("--eval-samples", "3", "--max-new-tokens", "5"));
            const char *file = k ? "adapter_model.safetensors" : "model.safetensors";
            assert_true(same_bytes(join(plain, file), join(with, file)));
            json_t *a = lines(plain, false), *b = lines(with, false), *samples = lines(with, true);
            assert_int_equal(json_array_size(a), 6);
            assert_true(json_equal(a, b)); /* with the hash of the whole state at each step */
            assert_int_equal(json_array_size(samples), 6);
            json_decref(a);
            json_decref(b);
            json_decref(samples);
        }
}

/* Two processes with weights of their own. */
static const char *processes(const struct device *on, const char *const *kind)
{
    const char *out = join(folder, "processes");
    const char *const *args = run_of(out, on, kind);
    char at[32];
    pid_t pid[2];
    snprintf(at, sizeof at, "127.0.0.1:%d", free_port());
    for (int k = 0; k < 2; k++)
        pid[k] = start_snug(
            join(folder, k ? "said-1" : "said-0"), args,
            ARGS("--num-processes", "2", "--main-process", at, "--process-index", k ? "1" : "0", "--zero-stage", "3"));
    for (int k = 0; k < 2; k++)
        assert_int_equal(end_of(pid[k]), 0);
    return out;
}

/* Weights that lie on several ranks answer like those that each has whole, whether the ranks are threads or processes. */
static void ranks_answer_alike(void **state)
{
    (void)state;
    const char *const *kind =
        ARGS("--max-steps", "4", "--eval-samples", "3", "--max-new-tokens", "5", "--threads", "1");
    for (int d = 0; d < n_devices(); d++) {
        if (!is_host(device(d)))
            continue;
        const char *none = train("none", device(d), kind, ARGS("--ranks", "2"));
        const char *all = train("all", device(d), kind, ARGS("--ranks", "2", "--zero-stage", "3"));
        json_t *a = lines(none, true), *b = lines(all, true);
        assert_int_equal(json_array_size(a), 6);
        assert_true(json_equal(a, b));
        assert_true(same_bytes(join(none, "model.safetensors"), join(all, "model.safetensors")));
        json_decref(b);
        const char *several = processes(device(d), kind);
        b = lines(several, true);
        assert_true(json_equal(a, b));
        assert_true(same_bytes(join(none, "model.safetensors"), join(several, "model.safetensors")));
        json_decref(a);
        json_decref(b);
    }
}

/* Three of four rows, spread evenly, are the first three. The prompt is all that stands before the last answer. */
static void samples_are_of_the_rows(void **state)
{
    (void)state;
    static const char *const expected[] = {"Soon.", "Yes, it\nis", "1 2 3"};
    const char *out =
        train("rows", one_device(), ARGS("--max-steps", "4"), ARGS("--eval-samples", "3", "--max-new-tokens", "5"));
    json_t *samples = lines(out, true);
    assert_int_equal(json_array_size(samples), 6);
    for (size_t i = 0; i < 6; i++) {
        json_t *line = json_array_get(samples, i);
        assert_int_equal(json_integer_value(json_object_get(line, "step")), i < 3 ? 2 : 4);
        assert_int_equal(json_integer_value(json_object_get(line, "eval_sample")), i % 3);
        assert_string_equal(text_of(line, "expected"), expected[i % 3]);
    }
    assert_string_equal(
        text_of(json_array_get(samples, 1), "prompt"),
        "<|im_start|>user\na<|im_end|>\n<|im_start|>assistant\nno<|im_end|>\n<|im_start|>user\nb<|im_end|>\n"
        "<|im_start|>assistant\n");
    json_decref(samples);
}

/* What snug generate writes with the result, to the same prompts. */
static void answers_are_those_of_generate(void **state)
{
    (void)state;
    const char *out =
        train("result", one_device(), ARGS("--max-steps", "40"), ARGS("--eval-samples", "4", "--max-new-tokens", "7"));
    json_t *samples = lines(out, true);
    put_file(folder, "prompts.jsonl",
             "{\"messages\":[{\"role\":\"user\",\"content\":\"When will my card arrive?\"}]}\n"
             "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"no\"},"
             "{\"role\":\"user\",\"content\":\"b\"}]}\n"
             "{\"messages\":[{\"role\":\"user\",\"content\":\"x y z\"}]}\n"
             "{\"messages\":[{\"role\":\"user\",\"content\":\"c\"}]}\n");
    expect_snug(0, said(),
                ARGS("generate", "--model", out, "--data", join(folder, "prompts.jsonl"), "--json", "--max-new-tokens",
                     "7", "--device", one_device()->name, "--dtype", one_device()->dtype),
                NULL);
    size_t n, at = json_array_size(samples) - 4;
    char *text = read_text(said(), &n), *rest = strchr(text, '{'), *line;
    bool wrote = false;
    while (rest && (line = strsep(&rest, "\n")) && *line) {
        json_t *o = json_loads(line, 0, NULL), *sample = json_array_get(samples, at++);
        assert_string_equal(text_of(o, "text"), text_of(sample, "generated"));
        assert_string_equal(text_of(o, "finish_reason"), text_of(sample, "finish_reason"));
        wrote |= *text_of(o, "text");
        json_decref(o);
    }
    assert_int_equal(at, json_array_size(samples));
    assert_true(wrote);
    free(text);
    json_decref(samples);
}

/* A resumed run logs what the whole run did. */
static void a_resumed_run_answers_again(void **state)
{
    (void)state;
    const char *const *more = ARGS("--eval-samples", "2", "--max-new-tokens", "5");
    const char *whole = train("whole", one_device(), ARGS("--max-steps", "4"), more),
               *resumed = join(folder, "resumed");
    json_t *a = lines(whole, true);
    remove_tree(resumed);
    const char *again = train("resumed", one_device(),
                              ARGS("--max-steps", "4", "--resume-from-checkpoint", join(whole, "step-00000002")), more);
    json_t *b = lines(again, true);
    assert_int_equal(json_array_size(b), 2);
    for (size_t i = 0; i < 2; i++)
        assert_true(json_equal(json_array_get(a, 2 + i), json_array_get(b, i)));
    json_decref(a);
    json_decref(b);
}

static json_t *plan(const char *const *more)
{
    expect_snug(0, said(),
                ARGS("plan", "--model", model, "--train-data", rows, "--eval-data", rows, "--device", "cpu", "--json",
                     "--batch-size", "2", "--assistant-only-loss", "--cache-dir", folder),
                more);
    return said_object();
}

static json_int_t number(json_t *o, const char *name)
{
    return json_integer_value(json_object_get(o, name));
}

/* The cache lies where the values of a step do: the arena grows only if generation needs more than a step. */
static void the_plan_has_the_cache(void **state)
{
    (void)state;
    json_t *without = plan(NULL), *with = plan(ARGS("--eval-samples", "4", "--max-new-tokens", "40"));
    json_t *programs = json_object_get(with, "programs"), *p = NULL;
    size_t i;
    json_int_t transient = 0;
    json_array_foreach(programs, i, p) transient =
        number(p, "transient_bytes") > transient ? number(p, "transient_bytes") : transient;
    p = json_array_get(programs, json_array_size(programs) - 1);
    assert_string_equal(text_of(p, "name"), "generation");
    /* Row 1's prompt is the longest. Keys and values: 2 layers, 4 sequences, 2 heads of 8 numbers, 4 bytes. */
    json_int_t tokens = number(p, "max_tokens") / 4 + 40;
    assert_true(number(p, "transient_bytes") >= 2 * 2 * 4 * tokens * 2 * 8 * 4);
    assert_int_equal(number(with, "arena_bytes"), number(with, "persistent_bytes") + transient);
    assert_int_equal(number(with, "checkpoint_bytes"), number(without, "checkpoint_bytes"));
    json_decref(with);
    json_decref(without);
}

/* On a GPU that is known by its data sheet, so that no clock is asked. */
static double evaluation_seconds(const char *max_new_tokens)
{
    expect_snug(0, said(),
                ARGS("plan", "--json", "--model", model, "--train-data", rows, "--eval-data", rows, "--gpu", "h100",
                     "--bf16", "--cache-dir", folder),
                ARGS("--assistant-only-loss", "--eval-strategy", "steps", "--eval-steps", "2", "--eval-samples", "4",
                     "--max-new-tokens", max_new_tokens));
    json_t *o = said_object();
    double seconds = json_number_value(json_object_get(json_object_get(o, "time"), "evaluation_seconds"));
    json_decref(o);
    return seconds;
}

/* Answers of 80 tokens are 79 calls of the program, answers of 41 tokens 40; what else an evaluation does is the same. */
static void the_forecast_has_the_time_of_answers(void **state)
{
    (void)state;
    double one = evaluation_seconds("1"), some = evaluation_seconds("41"), many = evaluation_seconds("80");
    if (!(one > 0 && some > 10 * one && fabs((many - one) / (some - one) - 79. / 40) < 0.05))
        fail_msg("%.3g s with long answers, %.3g s with shorter ones, %.3g s with one token", many, some, one);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(training_does_not_notice),
        cmocka_unit_test(ranks_answer_alike),
        cmocka_unit_test(samples_are_of_the_rows),
        cmocka_unit_test(answers_are_those_of_generate),
        cmocka_unit_test(a_resumed_run_answers_again),
        cmocka_unit_test(the_plan_has_the_cache),
        cmocka_unit_test(the_forecast_has_the_time_of_answers),
    };
    return cmocka_run_group_tests_name("eval_samples", tests, make_model, close_folder);
}
