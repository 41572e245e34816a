/* ranks/shard.h: shards follow one another, are of whole chunks, and differ by one at most; which of them has most. */
#include "ranks/shard.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include <cmocka.h>

static void check(int64_t elements, int64_t chunk, int64_t ranks)
{
    int64_t end = 0, most = 0, largest = 0, least = elements;
    for (int64_t k = 0; k < ranks; k++) {
        struct shard s = shard_of(elements, chunk, ranks, k);
        assert_true(s.first == end && s.n >= 0 && (s.first % chunk == 0 || s.n == 0));
        end = s.first + s.n;
        assert_true(k == ranks - 1 || end % chunk == 0);
        largest = s.n > most ? k : largest;
        most = s.n > most ? s.n : most;
        least = s.n < least ? s.n : least;
    }
    assert_int_equal(end, elements);
    assert_true(most - least <= chunk);
    assert_int_equal(shard_of(elements, chunk, ranks, shard_largest(elements, chunk, ranks)).n, most);
    if (shard_largest(elements, chunk, ranks) != largest)
        fail_msg("%d of chunks of %d for %d ranks", (int)elements, (int)chunk, (int)ranks);
    assert_int_equal(shard_of_room(elements, elements + 7, chunk, ranks, ranks - 1).n,
                     shard_of(elements, chunk, ranks, ranks - 1).n + 7);
}

static void shards_are_all_of_it(void **state)
{
    (void)state;
    for (int64_t elements = 0; elements < 70; elements++)
        for (int64_t chunk = 1; chunk < 9; chunk++)
            for (int64_t ranks = 1; ranks < 14; ranks++)
                check(elements, chunk, ranks);
    check(INT64_C(70000000001), 65536, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(shards_are_all_of_it)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
