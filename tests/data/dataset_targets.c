/* data/dataset: rows of a source and a target, and the batches that an encoder and a decoder read. */
#include "dataset_help.h"

#include "data/loader.h"

enum { START = 1 }; /* what the decoder reads first */

static struct dataset_options pairs(void)
{
    struct dataset_options o = options(TASK_SEQ2SEQ);
    o.start_id = START;
    o.max_target_length = o.max_length;
    return o;
}

static struct dataset read_pairs(const char *name, const char *content)
{
    write_data(name, content);
    struct dataset_options o = pairs();
    return opened(&o);
}

/* Each side is tokenized by itself, special tokens and all. */
static void sides_are_tokenized_alone(void **state)
{
    static const struct {
        const char *name, *content;
    } same[] = {
        {"a.csv", "source,target\nmy card,pay\ncard,my\n"},
        {"b.jsonl",
         "{\"document\":\"my card\",\"summary\":\"pay\",\"id\":\"x\"}\n{\"document\":\"card\",\"summary\":\"my\"}\n"},
        {"c.tsv", "id\tInput\tOutput\n1\tmy card\tpay\n2\tcard\tmy\n"},
    };
    (void)state;
    int32_t card = tokenizer_id(tokenizer, "card"), my = tokenizer_id(tokenizer, "my");
    int32_t pay = tokenizer_id(tokenizer, "pay"), cls = tokenizer_id(tokenizer, "[CLS]");
    int32_t sep = tokenizer_id(tokenizer, "[SEP]");
    const int32_t want[] = {cls, my, card, sep, cls, pay, sep, cls, card, sep, cls, my, sep};
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        struct dataset d = read_pairs(same[i].name, same[i].content);
        assert_int_equal(d.n_rows, 2);
        assert_int_equal(d.n_tokens, sizeof want / sizeof *want);
        assert_memory_equal(d.ids, want, sizeof want);
        assert_int_equal(d.sources[0], 4);
        assert_int_equal(d.sources[1], 3);
        assert_int_equal(d.longest, 7);
        assert_true(i == 0 || strstr(notes, "by their names"));
        dataset_close(&d);
    }
}

/* As the hub's data of translations have them; what a member of the row itself is called comes first. */
static void columns_may_lie_in_objects(void **state)
{
    (void)state;
    struct dataset_options o = pairs();
    o.text_column = "pair.en", o.target_column = "pair.of.de";
    write_data("a.jsonl", "{\"id\":1,\"pair\":{\"en\":\"my card\",\"of\":{\"de\":\"pay\"}}}\n"
                          "{\"id\":2,\"pair\":{\"of\":{\"de\":\"my\"},\"en\":\"card\"}}\n");
    struct dataset d = opened(&o);
    assert_int_equal(d.n_rows, 2);
    assert_int_equal(d.sources[0], 4);
    assert_int_equal(d.sources[1], 3);
    assert_int_equal(d.ids[1], tokenizer_id(tokenizer, "my"));
    assert_int_equal(d.ids[5], tokenizer_id(tokenizer, "pay"));
    dataset_close(&d);
    o.target_column = "pair.en.x";
    write_data("a.jsonl", "{\"pair.en\":\"card\",\"pair\":{\"en\":{\"x\":\"pay\"}}}\n");
    d = opened(&o);
    assert_int_equal(d.ids[1], tokenizer_id(tokenizer, "card"));
    dataset_close(&d);
}

/* As transformers' shift_tokens_right makes decoder_input_ids of labels. */
static void a_decoder_reads_what_it_has_written(void **state)
{
    (void)state;
    struct dataset d = read_pairs("a.csv", "source,target\nmy card,pay\ncard,my pay card\n");
    struct batch_buffer buffer;
    struct batch b;
    assert_int_equal(batch_buffer_open(&buffer, &d, d.n_tokens, 2, 1, NULL), SNUG_OK);
    batch_fill(&buffer, &d, (const int64_t[]){1, 0}, 2, NULL, 0, NULL, &b);
    assert_int_equal(b.T, 8);
    assert_int_equal(b.S, 7);
    assert_int_equal(b.n_targets, 8);
    const int32_t *second = d.ids + d.offsets[1], *first = d.ids;
    assert_memory_equal(b.cu_seqlens, ((const int32_t[]){0, 5, 8}), 3 * sizeof(int32_t));
    assert_memory_equal(b.source_cu_seqlens, ((const int32_t[]){0, 3, 7}), 3 * sizeof(int32_t));
    assert_memory_equal(b.source_ids, second, 3 * sizeof(int32_t));
    assert_memory_equal(b.source_ids + 3, first, 4 * sizeof(int32_t));
    assert_memory_equal(b.source_positions, ((const int32_t[]){0, 1, 2, 0, 1, 2, 3}), 7 * sizeof(int32_t));
    assert_memory_equal(b.targets, second + 3, 5 * sizeof(int32_t));
    assert_memory_equal(b.targets + 5, first + 4, 3 * sizeof(int32_t));
    assert_int_equal(b.ids[0], START);
    assert_memory_equal(b.ids + 1, second + 3, 4 * sizeof(int32_t));
    assert_int_equal(b.ids[5], START);
    assert_memory_equal(b.ids + 6, first + 4, 2 * sizeof(int32_t));
    assert_memory_equal(b.positions, ((const int32_t[]){0, 1, 2, 3, 4, 0, 1, 2}), 8 * sizeof(int32_t));
    batch_buffer_close(&buffer);
    dataset_close(&d);
}

/* Long targets need not stand beside long sources. */
static void the_largest_sides_are_known(void **state)
{
    (void)state;
    struct dataset d = read_pairs("a.csv", "source,target\nmy my my my,my\nmy,my my my\nmy my,my my\n");
    struct order order;
    assert_int_equal(order_open(&order, ORDER_SEQUENTIAL, d.n_rows, 1, d.offsets, 2, NULL), 0);
    struct token_count largest[2];
    struct loader_options o = {.data = &d, .order = &order, .batch_size = 2, .accumulation = 1, .end_step = 2};
    assert_int_equal(loader_largest(&o, (const int64_t[]){2, 1}, 2, NULL, largest, NULL), SNUG_OK);
    assert_int_equal(largest[0].T, 3 + 5);
    assert_int_equal(largest[0].S, 6 + 3);
    assert_int_equal(largest[1].T, 5);
    assert_int_equal(largest[1].S, 6);
    o.ranks = 2; /* dealt out: a row each, and the last alone */
    assert_int_equal(loader_largest(&o, (const int64_t[]){1}, 1, NULL, largest, NULL), SNUG_OK);
    assert_int_equal(largest[0].T, 5);
    assert_int_equal(largest[0].S, 6);
    struct eval_loader *e;
    assert_int_equal(eval_open(&d, 8, 17, 1, &(struct masking){0}, &e, NULL), SNUG_OK);
    assert_int_equal(eval_largest(e).T, 3 + 5); /* the two longest rows; the third is over 17 tokens */
    assert_int_equal(eval_largest(e).S, 6 + 3);
    eval_close(e);
    order_close(&order);
    dataset_close(&d);
}

static void the_cache_and_a_split_keep_sources(void **state)
{
    (void)state;
    char cache[160];
    snprintf(cache, sizeof cache, "%s/cache", dir);
    write_data("c.csv", "source,target\nmy card,pay\ncard,my\n");
    struct dataset_options o = pairs();
    o.cache_dir = cache;
    struct dataset first = opened(&o), again = opened(&o);
    assert_null(first.block);
    assert_non_null(again.block);
    assert_memory_equal(again.ids, first.ids, (size_t)first.n_tokens * sizeof *first.ids);
    assert_memory_equal(again.sources, first.sources, 2 * sizeof *first.sources);
    assert_memory_equal(&again.fingerprint, &first.fingerprint, sizeof first.fingerprint);
    dataset_close(&again);
    o.source_prefix = "pay: "; /* other rows */
    again = opened(&o);
    assert_null(again.block);
    assert_int_equal(again.sources[0], 6);
    assert_int_equal(again.ids[1], tokenizer_id(tokenizer, "pay"));
    dataset_close(&again);
    o.source_prefix = NULL;
    dataset_close(&first);
    write_data("l.csv", "source,target\nmy card,pay my card\ncard,my\n");
    o.path = path;
    o.max_target_length = 4;
    first = opened(&o), again = opened(&o);
    assert_non_null(again.block);
    assert_int_equal(again.truncated, 1);
    assert_int_equal(again.offsets[1], 4 + 4);
    assert_int_equal(again.sources[0], 4);
    dataset_close(&again);
    dataset_close(&first);
}

static void labels_of_tensors_are_targets(void **state)
{
    static const int64_t labels[6] = {5, 6, -100, 7, -100, -100}, hole[6] = {5, -100, 6, 7, 8, 9};
    const struct tensor_spec specs[] = {mask_spec, ids_spec, {"labels", DT_I64, 2, {2, 3}, labels}};
    const struct tensor_spec bad[] = {mask_spec, ids_spec, {"labels", DT_I64, 2, {2, 3}, hole}};
    (void)state;
    write_tensors("t.safetensors", specs, 3);
    struct dataset_options o = pairs();
    o.tokenizer = NULL;
    struct dataset d = opened(&o), none;
    assert_int_equal(d.n_rows, 2);
    assert_int_equal(d.sources[0], 4);
    assert_int_equal(d.sources[1], 2);
    assert_int_equal(d.n_tokens, 4 + 2 + 2 + 1);
    assert_int_equal(d.ids[4], 5);
    assert_int_equal(d.ids[8], 7);
    dataset_close(&d);
    write_tensors("h.safetensors", bad, 3);
    o.path = path;
    struct snug_err e;
    assert_int_equal(dataset_open(&io_posix, &o, &none, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "stands behind -100; only the end of a target may be left out"));
}

static void what_is_missing_is_named(void **state)
{
    (void)state;
    struct snug_err e;
    struct dataset d;
    struct dataset_options o = pairs();
    o.path = write_data("a.csv", "id,words\n1,a\n");
    assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "name one with --text-column: id, words"));
    o.text_column = "id";
    assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_ERR_INPUT);
    assert_non_null(strstr(e.text, "name one with --target-column: id, words"));
    o.target_column = "words";
    assert_int_equal(dataset_open(&io_posix, &o, &d, &e), SNUG_OK);
    assert_int_equal(d.n_rows, 1);
    dataset_close(&d);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sides_are_tokenized_alone),
        cmocka_unit_test(columns_may_lie_in_objects),
        cmocka_unit_test(a_decoder_reads_what_it_has_written),
        cmocka_unit_test(the_largest_sides_are_known),
        cmocka_unit_test(the_cache_and_a_split_keep_sources),
        cmocka_unit_test(labels_of_tensors_are_targets),
        cmocka_unit_test(what_is_missing_is_named),
    };
    return cmocka_run_group_tests_name("dataset-targets", tests, set_up, tear_down);
}
