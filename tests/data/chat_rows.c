/* Conversations as ids and masks: chat_rows.jsonl has what transformers gives (chat_rows.py). SNUG_GOLDEN_CHAT may name a
 * larger file of the same kind. */
#include "data/chat_rows.h"
#include "dataset_help.h"

#include <stdio.h>

static struct chat_setup setup_of(const struct tokenizer *t, const struct chat_template *template, json_t *row)
{
    static const char *const keys[] = {"bos", "eos"};
    struct chat_setup c = {.template = template, .model = "MODEL", .assistant_only = true, .completion_only = true};
    for (int i = 0; i < 2; i++)
        if (json_is_string(json_object_get(row, keys[i])))
            c.tokens[c.n_tokens++] =
                (struct chat_variable){i ? "eos_token" : "bos_token", json_string_value(json_object_get(row, keys[i]))};
    size_t i;
    json_t *end;
    c.ends[c.n_ends++] = tokenizer_id(t, json_string_value(json_object_get(row, "eos")));
    json_array_foreach(json_object_get(row, "ends"), i, end) c.ends[c.n_ends++] =
        tokenizer_id(t, json_string_value(end));
    return c;
}

/* The template without {% generation %}. */
static char *without_generation(const char *template)
{
    static const char *const tags[] = {"{% generation %}", "{% endgeneration %}"};
    char *copy = strdup(template);
    for (int i = 0; i < 2; i++)
        for (char *at; (at = strstr(copy, tags[i]));)
            memmove(at, at + strlen(tags[i]), strlen(at + strlen(tags[i])) + 1);
    return copy;
}

static bool same_row(json_t *row, const struct tokenizer *t, const char *text)
{
    struct columns columns = {0};
    struct chat_template *template;
    struct chat_buf b = {0};
    struct snug_err e = {0};
    json_t *ids = json_object_get(row, "ids"), *mask = json_object_get(row, "mask");
    assert_int_equal(columns_add(&columns, "f", "messages", &e), 0);
    columns_find_form(&columns);
    assert_int_equal(columns.form, ROWS_MESSAGES);
    assert_int_equal(chat_template_open("chat_template", text, strlen(text), &template, &e), 0);
    struct chat_setup c = setup_of(t, template, row);
    int code = chat_row_encode(&c, t, 0, &columns, row, &b, &e);
    bool same = !code && b.n == json_array_size(ids);
    for (size_t i = 0; same && i < b.n; i++)
        same = b.ids[i] == json_integer_value(json_array_get(ids, i)) &&
               b.mask[i] == json_integer_value(json_array_get(mask, i));
    if (!same) {
        printf("%s: %s %s\n", text, e.text, json_string_value(json_object_get(row, "family")));
        for (size_t i = 0; i < b.n && !code; i++)
            printf(" %d/%d:%d", (int)b.ids[i], b.mask[i], (int)json_integer_value(json_array_get(mask, i)));
        printf("\n");
    }
    chat_buf_free(&b);
    chat_template_close(template);
    columns_free(&columns);
    return same;
}

static void masks(void **state)
{
    (void)state;
    char name[512];
    int rows = 0, differ = 0;
    const char *golden = getenv("SNUG_GOLDEN_CHAT"), *root = getenv("SNUG_SOURCE");
    snprintf(name, sizeof name, "%s/tests/data/chat_rows.jsonl", root);
    FILE *f = fopen(golden ? golden : name, "r");
    assert_non_null(f);
    for (json_t *row; (row = json_loadf(f, JSON_DISABLE_EOF_CHECK, NULL)); rows++) {
        struct tokenizer *t;
        struct snug_err e;
        const char *template = json_string_value(json_object_get(row, "template"));
        const char *folder = json_string_value(json_object_get(row, "family"));
        snprintf(name, sizeof name, *folder == '/' ? "%.0s%s" : "%s/tests/tokenizer/recorded/families/%s", root,
                 folder);
        assert_int_equal(tokenizer_open(&io_posix, name, &t, &e), 0);
        differ += !same_row(row, t, template);
        char *bare = without_generation(template);
        if (json_is_true(json_object_get(row, "prefixes")))
            differ += !same_row(row, t, bare);
        free(bare);
        tokenizer_close(t);
        json_decref(row);
    }
    fclose(f);
    assert_true(rows >= 30);
    assert_int_equal(differ, 0);
}

/* ---- from files ---- */

/* A word is a token of the fixture tokenizer "uncased"; what its texts say does not matter here. */
static const char bare_template[] =
    "{% for m in messages %}{{ ' hello ' if m.role == 'user' else ' world ' }}{{ m.content }}"
    "{{ ' [SEP] ice' if m.role == 'assistant' }}{% endfor %}{{ ' world ' if add_generation_prompt }}";
static struct chat_template *template;
static struct chat_setup chat;

static struct dataset_options chat_options(void)
{
    struct snug_err e;
    struct dataset_options o = options(TASK_CAUSAL_LM);
    if (!template)
        assert_int_equal(chat_template_open("chat_template", bare_template, strlen(bare_template), &template, &e), 0);
    chat = (struct chat_setup){.template = template,
                               .model = "MODEL",
                               .tokens = {{"eos_token", "[SEP]"}},
                               .n_tokens = 1,
                               .ends = {tokenizer_special(tokenizer, TOKEN_SEP)},
                               .n_ends = 1,
                               .assistant_only = true,
                               .completion_only = true};
    o.chat = &chat;
    return o;
}

/* "- + +": what is learned of a row. */
static void check_mask(const struct dataset *d, int64_t row, const char *want)
{
    char got[256] = "";
    for (int64_t i = d->offsets[row]; i < d->offsets[row + 1]; i++)
        snprintf(got + strlen(got), sizeof got - strlen(got), "%s%c", *got ? " " : "",
                 !d->loss_mask || d->loss_mask[i] ? '+' : '-');
    assert_string_equal(got, want);
}

static void forms(void **state)
{
    (void)state;
    struct dataset_options o = chat_options();
    write_data("m.jsonl",
               "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}\n");
    o.path = path;
    struct dataset d = opened(&o);
    check_mask(&d, 0, "- - - + + -"); /* hello a world | b [SEP] | ice */
    dataset_close(&d);
    write_data("c.jsonl",
               "{\"conversations\":[{\"from\":\"human\",\"value\":\"a\"},{\"from\":\"gpt\",\"value\":\"b\"}]}\n");
    d = opened(&o);
    check_mask(&d, 0, "- - - + + -");
    dataset_close(&d);
    chat.assistant_only = false;
    d = opened(&o);
    check_mask(&d, 0, "+ + + + + +");
    dataset_close(&d);
    write_data("p.jsonl", "{\"prompt\":[{\"role\":\"user\",\"content\":\"a\"}],\"completion\":[{\"role\":\"assistant\","
                          "\"content\":\"b\"}]}\n");
    d = opened(&o);
    check_mask(&d, 0, "- - - + + +");
    dataset_close(&d);
}

/* unsloth #416, trl #1623: the end of an answer is learned, also where the padding token is the same one. Nothing asks what PAD is. */
static void the_end_is_learned(void **state)
{
    (void)state;
    struct dataset_options o = chat_options();
    write_data(
        "p.jsonl",
        "{\"prompt\":\"hello\",\"completion\":\" world\"}\n{\"prompt\":\"hello\",\"completion\":\" world [SEP]\"}\n");
    o.path = path;
    struct dataset d = opened(&o);
    int32_t end = tokenizer_special(tokenizer, TOKEN_SEP);
    for (int64_t row = 0; row < 2; row++) {
        int64_t at =
            0; /* of the first [SEP]: written once, behind the completion; the fixture's template adds another */
        for (int64_t i = d.offsets[row]; i < d.offsets[row + 1] && !at; i++)
            at = d.ids[i] == end ? i : 0;
        assert_true(at && d.loss_mask[at] && d.loss_mask[at - 1] && !d.loss_mask[at - 2]);
        assert_int_equal(dataset_length(&d, row), 5); /* [CLS] hello world [SEP] [SEP] */
    }
    dataset_close(&d);
}

/* Of a folder with tokenizer.json alone, where generation_config.json names the end. transformers' tokenizer class knows it there. */
static void an_end_that_only_the_model_names(void **state)
{
    (void)state;
    struct dataset_options o = chat_options();
    chat.n_tokens = 0;
    write_data("p.jsonl", "{\"prompt\":\"hello\",\"completion\":\" world\"}\n");
    o.path = path;
    struct dataset d = opened(&o);
    int32_t end = tokenizer_special(tokenizer, TOKEN_SEP);
    assert_int_equal(dataset_length(&d, 0), 5); /* [CLS] hello world [SEP] [SEP] */
    assert_true(d.ids[3] == end && d.loss_mask[3] && d.ids[4] == end);
    dataset_close(&d);
}

static void rows_without_a_target(void **state)
{
    (void)state;
    struct dataset_options o = chat_options();
    write_data("m.jsonl",
               "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n"
               "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}\n"
               "{\"messages\":[{\"role\":\"user\",\"content\":\"a a a a a a a "
               "a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}\n");
    o.path = path;
    o.max_length = 6;
    struct dataset d = opened(&o);
    assert_int_equal(d.n_rows, 1);
    assert_int_equal(d.no_target, 2);
    assert_non_null(strstr(notes, "2 rows have nothing to learn within 6 tokens, and are left out"));
    dataset_close(&d);
}

/* Where a conversation goes on, answers end in another way than where it ends: shown by what begins the next one, if all begin alike. */
static void ends_within(void **state)
{
    (void)state;
    static const char rest[] = "{{ m.content }}{% if m.role == 'assistant' %}{{ ' [SEP]' if loop.last and not "
                               "add_generation_prompt else ' ice' }}{% endif %}{% endfor %}";
    static const struct {
        const char *first, *prompt, *mask;
    } cases[] = {
        {" world ", "{{ ' world ' if add_generation_prompt }}", "- - - + + - - - + +"},
        {" world ", "{{ (' world ' if loop_role == 'user' else ' hello ') if add_generation_prompt }}", NULL},
        {"{{ ' world ice ' if loop.last and not add_generation_prompt else ' world ' }}",
         "{{ ' world ' if add_generation_prompt }}", "- - - + + - - - + + +"},
        {"{{ ' world ice ' if loop.first or loop.index == 2 and messages|length == 2 else ' world ' }}",
         "{{ ' world ' if add_generation_prompt }}", NULL},
    };
    write_data("m.jsonl",
               "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"},"
               "{\"role\":\"user\",\"content\":\"a\"},{\"role\":\"assistant\",\"content\":\"b\"}]}\n");
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dataset_options o = chat_options();
        struct chat_template *own;
        struct snug_err e;
        struct dataset d;
        char text[1024];
        snprintf(text, sizeof text,
                 "{%% set loop_role = messages[-1].role %%}{%% for m in messages %%}{%% if m.role == 'user' %%} hello "
                 "{%% else %%}%s{%% endif %%}%s%s",
                 cases[i].first, rest, cases[i].prompt);
        assert_int_equal(chat_template_open("chat_template", text, strlen(text), &own, &e), 0);
        chat.template = own;
        o.path = path;
        if (cases[i].mask) {
            d = opened(&o);
            check_mask(&d, 0, cases[i].mask);
            dataset_close(&d);
        } else {
            assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_INPUT);
            assert_non_null(
                strstr(e.text, "its first 2 messages alone have other tokens than within the conversation"));
        }
        chat_template_close(own);
    }
}

static void refused(void **state)
{
    (void)state;
    static const struct {
        const char *row, *message;
    } cases[] = {
        {"{\"messages\":[]}", ":1: 'messages' is an empty list; give at least one message, or leave the row out"},
        {"{\"messages\":[{\"content\":\"a\"}]}", ":1: a message's 'role' is absent; give user, assistant or system"},
        {"{\"conversations\":[{\"from\":\"nobody\",\"value\":\"a\"}]}",
         ":1: a turn's 'from' is \"nobody\"; human, gpt and system are known"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":{}}",
         ":1: 'tools' is an object; a list of tools was expected, or a text with one in JSON"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"tools\":\"[\"}",
         ":1: 'tools' is \"[\"; a list of tools was expected"},
        {"{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}],\"chat_template_kwargs\":[]}",
         ":1: 'chat_template_kwargs' is an array; an object was expected"},
        {"{\"prompt\":\"a\",\"completion\":1}", ":1: 'completion' is 1; give two strings, or two lists of messages"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct dataset_options o = chat_options();
        struct dataset d;
        struct snug_err e;
        write_data("x.jsonl", cases[i].row);
        o.path = path;
        assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_INPUT);
        if (!strstr(e.text, cases[i].message))
            fail_msg("%s", e.text);
    }
    struct dataset_options o = chat_options();
    struct dataset d;
    struct snug_err e;
    chat.template = NULL;
    write_data("x.jsonl", "{\"messages\":[{\"role\":\"user\",\"content\":\"a\"}]}\n");
    o.path = path;
    assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_INPUT);
    assert_non_null(
        strstr(e.text, "messages need a chat template, and MODEL has none; give one with --chat-template FILE"));
}

/* Blocks of plain text, as run_clm.py makes them: the rest is left out. */
static void blocks(void **state)
{
    (void)state;
    struct dataset_options o = options(TASK_CAUSAL_LM);
    write_data("t.txt", "hello world\nice\nhello hello hello\n");
    o.path = path;
    o.block_size = 4;
    struct dataset d = opened(&o);
    struct dataset whole = {0};
    o.block_size = 0;
    whole = opened(&o);
    assert_int_equal(d.n_rows, whole.n_tokens / 4); /* the fixture has no EOS */
    assert_memory_equal(d.ids, whole.ids, (size_t)d.n_tokens * sizeof *d.ids);
    for (int64_t row = 0; row < d.n_rows; row++)
        assert_int_equal(dataset_length(&d, row), 4);
    dataset_close(&d);
    dataset_close(&whole);
}

static int free_all(void **state)
{
    chat_template_close(template);
    return tear_down(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks),
        cmocka_unit_test(forms),
        cmocka_unit_test(the_end_is_learned),
        cmocka_unit_test(an_end_that_only_the_model_names),
        cmocka_unit_test(blocks),
        cmocka_unit_test(ends_within),
        cmocka_unit_test(refused),
        cmocka_unit_test(rows_without_a_target),
    };
    return cmocka_run_group_tests_name("chat_rows", tests, set_up, free_all);
}
