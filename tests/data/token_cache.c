/* data/token_cache: the second run reads what the first one made, and nothing that anybody did to the file in between
 * reaches a batch. */
#include "token_cache_help.h"

static void second_run_recalls_the_first(void **state)
{
    (void)state;
    static const struct {
        enum data_task task;
        const char *text;
    } cases[] = {
        {TASK_CLASS, "text,label\nworld,b\n,a\nworld world world world world world world world,b\n"},
        {TASK_CLASS, "text,label\nworld,1\nice,0\n"},
        {TASK_CLASS, "sentence1,sentence2,label\nworld,ice,b\ncream,un,a\n"},
        {TASK_REGRESSION, "text,label\nworld,1.5\nice,-2\n"},
        {TASK_MULTI_LABEL, "text,label\nworld,b;a\nice,c\n"},
        {TASK_CAUSAL_LM, "text\nworld\nice\n"},
        {TASK_UNLABELED, "text\nworld\nice\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        empty_cache();
        write_data(cases[i].text);
        struct dataset_options o = options(cases[i].task), uncached = o;
        char path[512], first_notes[sizeof notes];
        uncached.cache_dir = "";
        struct dataset fresh = opened(&io_posix, &uncached), first = opened(&io_posix, &o);
        memcpy(first_notes, notes, sizeof notes);
        assert_true(cache_file(path, 0));
        assert_false(cache_file(path, 1)); /* no temporary file either */
        struct dataset second = opened(&io_posix, &o);
        assert_non_null(second.block);
        assert_string_equal(notes, first_notes); /* what there is to say is said each time */
        check_same(&fresh, &first);
        check_same(&fresh, &second);
        dataset_close(&fresh);
        dataset_close(&first);
        dataset_close(&second);
    }
}

static void whatever_changes_the_tokens_changes_the_file(void **state)
{
    (void)state;
    empty_cache();
    write_data("text,other,label\nworld,ice,b\nice,un,a\n");
    int n = 0;
    char path[512];
    struct dataset_options o = options(TASK_CLASS);
#define CHECK_NEW(change)                                                                                              \
    do {                                                                                                               \
        change;                                                                                                        \
        struct dataset d = opened(&io_posix, &o);                                                                      \
        assert_null(d.block);                                                                                          \
        dataset_close(&d);                                                                                             \
        assert_true(cache_file(path, n++));                                                                            \
    } while (0)
    CHECK_NEW((void)0);
    CHECK_NEW(o.max_length = 7);
    CHECK_NEW(o.text_column = "other");
    CHECK_NEW(o.text_pair_column = "text");
    CHECK_NEW(o.task = TASK_MULTI_LABEL);
    CHECK_NEW(o.task = TASK_UNLABELED);
    CHECK_NEW(write_data("text,other,label\nworld,ice,b\nice,un,c\n"));
#undef CHECK_NEW
    o.threads = 3; /* nor do threads or the time of the file matter */
    struct dataset d = opened(&io_posix, &o);
    assert_non_null(d.block);
    dataset_close(&d);
}

/* Every byte changed, every length: made again, with one note, and right. */
static void damage_is_found(void **state)
{
    (void)state;
    empty_cache();
    write_data("sentence1,sentence2,label\nworld,ice,b\ncream,un,a\n");
    struct dataset_options o = options(TASK_CLASS);
    struct dataset good = opened(&io_posix, &o);
    size_t n;
    char *bytes = read_cache(&n);
    assert_in_range(n, 150, 400);
    for (size_t i = 0; i < 2 * n; i++) {
        char *bad = malloc(n);
        memcpy(bad, bytes, n);
        bad[i % n] = (char)(bad[i % n] ^ (i * 37 % 255 + 1));
        write_cache(bad, i < n ? n : i - n);
        struct dataset d = opened(&io_posix, &o);
        const char *said = strstr(notes, "the token cache is made again: ");
        assert_non_null(said);
        assert_null(strstr(said + 1, "the token cache"));
        check_same(&good, &d);
        dataset_close(&d);
        size_t healed_n;
        char *healed = read_cache(&healed_n);
        assert_int_equal(healed_n, n);
        assert_memory_equal(healed, bytes, n);
        mem_free(healed);
        free(bad);
    }
    char *longer = calloc(1, n + 1);
    memcpy(longer, bytes, n);
    write_cache(longer, n + 1);
    struct dataset d = opened(&io_posix, &o);
    assert_non_null(strstr(notes, "made again"));
    check_same(&good, &d);
    dataset_close(&d);
    free(longer);
    mem_free(bytes);
    dataset_close(&good);
}

/* Two rows of three tokens each; what comes behind their offsets and ids is the labels. */
enum {
    CHECKSUM = 24,
    N_ROWS = 40,
    TRUNCATED = 80,
    EMPTY = 88,
    IGNORED = 96,
    NO_TARGET = 104,
    TASK = 112,
    FORM = 116,
    NUM_LABELS = 120,
    MASKED = 124,
    HEADER = 128
};
enum { IDS = HEADER + 3 * 8, LABELS = IDS + 6 * 4, NAMES = LABELS + 2 * 4 };

struct forgery {
    size_t at;
    int64_t value;
    size_t width;
};

/* Files with the right checksum and a wrong number: made by somebody else, or by another snug. */
static void check_forgeries(enum data_task task, const char *text, const struct forgery *forged, size_t n_forged)
{
    empty_cache();
    write_data(text);
    struct dataset_options o = options(task);
    struct dataset good = opened(&io_posix, &o);
    size_t n;
    char *bytes = read_cache(&n);
    for (size_t i = 0; i < n_forged; i++) {
        char *bad = malloc(n);
        memcpy(bad, bytes, n);
        memcpy(bad + forged[i].at, &forged[i].value, forged[i].width);
        memset(bad + CHECKSUM, 0, 16);
        struct hash128 sum = hash_bytes(bad, n);
        memcpy(bad + CHECKSUM, &sum, sizeof sum);
        write_cache(bad, n);
        struct dataset d = opened(&io_posix, &o);
        if (!strstr(notes, "made again"))
            fail_msg("forgery %zu of task %d is believed", i, (int)task);
        check_same(&good, &d);
        dataset_close(&d);
        free(bad);
    }
    mem_free(bytes);
    dataset_close(&good);
}

static void forgeries_are_found(void **state)
{
    (void)state;
    enum { INFINITE = 0x7F800000, NAN_BITS = 0x7FC00000, TWO = 0x40000000, BELOW_0 = (int)0xBF800000 };
#define CHECK(task, text, ...)                                                                                         \
    check_forgeries(task, text, (const struct forgery[]){__VA_ARGS__},                                                 \
                    sizeof((const struct forgery[]){__VA_ARGS__}) / sizeof(struct forgery))
    const int32_t vocabulary = tokenizer_vocab_size(tokenizer);
    CHECK(TASK_CLASS, "text,label\nworld,b\nice,a\n", {IDS + 4, vocabulary, 4}, {TRUNCATED, 1, 8}, {TRUNCATED, -1, 8},
          {EMPTY, 3, 8}, {IGNORED, 1, 8}, {NAMES, 'z', 1}, {NAMES + 2, 'a', 1}, {NAMES + 1, 'a', 1},
          {NUM_LABELS + 4, 1, 4});
    CHECK(TASK_CLASS, "text,label\nworld,b\nice,a\n", {N_ROWS, INT64_MAX, 8}, {N_ROWS, 3, 8}, {N_ROWS, -1, 8},
          {NUM_LABELS, -1, 4}, {NUM_LABELS, 1, 4}, {HEADER, 1, 8}, {HEADER + 8, 9, 8}, {HEADER + 16, 7, 8},
          {IDS, -1, 4}, {LABELS, 2, 4}, {LABELS, -1, 4}, {FORM, LABELS_NONE, 4}, {FORM, LABELS_VECTORS, 4},
          {FORM, -1, 4}, {TASK, TASK_AUTO, 4});
    CHECK(TASK_REGRESSION, "text,label\nworld,1\nice,0.5\n", {TASK, TASK_MULTI_LABEL, 4}, {TASK, TASK_CLASS, 4},
          {FORM, LABELS_NUMBERS, 4}, {LABELS, NAN_BITS, 4}, {LABELS + 4, INFINITE, 4});
    CHECK(TASK_MULTI_LABEL, "text,label\nworld,0;1\nice,1;0\n", {TASK, TASK_REGRESSION, 4}, {FORM, 4, 4},
          {LABELS, TWO, 4}, {LABELS + 12, BELOW_0, 4}, {LABELS, NAN_BITS, 4});
    CHECK(TASK_CLASS, "text,label\nworld,1\nice,0\n", {NAMES, '7', 1}, {NAMES + 2, 'x', 1});
    CHECK(TASK_CAUSAL_LM, "text\nworld\nice\n", {TASK, TASK_MASKED_LM, 4}, {TASK, TASK_UNLABELED, 4}, {MASKED, 1, 4},
          {MASKED, -1, 4}, {NO_TARGET, 1, 8}, {FORM, LABELS_NAMES, 4}, {NUM_LABELS, 1, 4});
#undef CHECK
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_run_recalls_the_first),
        cmocka_unit_test(whatever_changes_the_tokens_changes_the_file),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(forgeries_are_found),
    };
    return cmocka_run_group_tests_name("token_cache", tests, set_up, tear_down);
}
