/* train/forecast/answers: how often --eval-samples calls the program of generation, by hand. */
#include "train/forecast/answers.h"

#include "train/session/session.h"

#include <setjmp.h>
#include <stdarg.h>

#include <cmocka.h>

/* Three prompts of 5, 10 and 15 tokens, two at once, which read eight tokens a call and have 40 places. */
static struct answers answers_to(int64_t max_new_tokens)
{
    static size_t begins[] = {0, 5, 15, 30};
    struct options o = {.max_new_tokens = max_new_tokens};
    struct session s = {.o = &o, .prompts = {.n = 3, .begins = begins}};
    struct answers a;
    struct snug_err err;
    s.compile.generate_max = (struct dims){.T = 16, .B = 2};
    s.compile.cache_rows = 40;
    assert_int_equal(answers_open(&a, &s, &err), 0);
    return a;
}

static void prompts_are_read_in_pieces_and_answers_written_one_by_one(void **state)
{
    (void)state;
    struct answers a = answers_to(21); /* 10 tokens on the average: two pieces; the last token is not read */
    const struct batch *read = &a.batch[ANSWERS_READ], *write = &a.batch[ANSWERS_WRITE];
    assert_true(a.calls[ANSWERS_READ] == 1.5 * 2 && a.calls[ANSWERS_WRITE] == 1.5 * 20);
    assert_true(read->T == 16 && read->B == 2 && read->cu_seqlens[1] == 8 && read->past[1] == 0);
    assert_true(read->positions[7] == 7 && read->positions[8] == 0);
    assert_true(write->T == 2 && write->cu_seqlens[2] == 2 && write->past[1] == 20 && write->positions[1] == 20);
    answers_close(&a);
}

static void an_answer_ends_where_the_cache_does(void **state)
{
    (void)state;
    struct answers a = answers_to(1000);
    assert_true(a.calls[ANSWERS_WRITE] == 1.5 * 29 && a.batch[ANSWERS_WRITE].past[0] == 24);
    answers_close(&a);
    a = answers_to(1);
    assert_true(a.calls[ANSWERS_READ] == 3 && a.calls[ANSWERS_WRITE] == 0);
    answers_close(&a);
}

static void without_prompts_nothing_is_asked(void **state)
{
    (void)state;
    struct session s = {0};
    struct answers a;
    struct snug_err err;
    assert_int_equal(answers_open(&a, &s, &err), 0);
    assert_true(a.calls[ANSWERS_READ] == 0 && a.calls[ANSWERS_WRITE] == 0);
    answers_close(&a);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(prompts_are_read_in_pieces_and_answers_written_one_by_one),
        cmocka_unit_test(an_answer_ends_where_the_cache_does),
        cmocka_unit_test(without_prompts_nothing_is_asked),
    };
    return cmocka_run_group_tests_name("answers", tests, NULL, NULL);
}
