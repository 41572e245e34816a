/* checkpoint_fixture.h: an output folder with the checkpoints of steps 1, 2 and 3 in it, a new one for each test. */
#ifndef TESTS_CHECKPOINT_FIXTURE_H
#define TESTS_CHECKPOINT_FIXTURE_H

#include "help.h"

struct fixture {
    char dir[64];
    struct faulty files;
    struct lines lines; /* what saving and finding said last */
};
int fixture_open(void **state);
int fixture_close(void **state);

#define TEST(name) cmocka_unit_test_setup_teardown(name, fixture_open, fixture_close)

void file_of(struct fixture *f, int step, const char *name, char path[300]);

/* Finds from `from`, asserts the step, loads. */
void expect_step(struct fixture *f, const char *from, int flags, int64_t step);

/* Writes `bytes` zeros at `at`. */
void damage(const char *path, long at, size_t bytes);

#endif
