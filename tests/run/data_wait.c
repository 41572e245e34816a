/* A run measures how long it waited for data: little while batches are laid out in time, nearly all of the time where
 * that is slow. The linker puts __wrap_batch_fill in the place of batch_fill, in which the loader's thread spends
 * its time. */
#include "here.h"

#include "data/batch.h"

#include <math.h>
#include <time.h>

enum { STEPS = 8, SLOW_MS = 60 };

void __real_batch_fill(struct batch_buffer *buffer, const struct dataset *d, const int64_t *rows, int32_t n,
                       const int32_t *samples, int64_t epoch, const struct masker *masker, struct batch *b);
void __wrap_batch_fill(struct batch_buffer *buffer, const struct dataset *d, const int64_t *rows, int32_t n,
                       const int32_t *samples, int64_t epoch, const struct masker *masker, struct batch *b);

static bool slow;
static const char *data;

void __wrap_batch_fill(struct batch_buffer *buffer, const struct dataset *d, const int64_t *rows, int32_t n,
                       const int32_t *samples, int64_t epoch, const struct masker *masker, struct batch *b)
{
    if (slow)
        nanosleep(&(struct timespec){.tv_nsec = SLOW_MS * 1000000L}, NULL);
    __real_batch_fill(buffer, d, rows, n, samples, epoch, masker, b);
}

/* STEPS steps of micro-batches of two rows; the seconds that they waited. */
static double waited(const struct device *on, const char *out, const char *accumulation)
{
    struct snug_summary summary = train_to_the_end(
        LISTS(ARGS("--model", fixture("golden/trainer/init"), "--train-data", data, "--output-dir", out),
              ARGS("--batch-size", "2", "--gradient-accumulation-steps", accumulation, "--max-steps", "8"),
              ARGS("--logging-steps", "4", "--save-strategy", "no", "--threads", "1"),
              ARGS("--device", on->name, "--dtype", on->dtype)));
    json_t *log = read_whole_log(out), *last = json_array_get(log, json_array_size(log) - 1);
    double share = json_number_value(json_object_get(last, "data_wait"));
    double samples = STEPS * 2 * strtod(accumulation, NULL),
           rate = json_number_value(json_object_get(last, "samples_per_second"));
    assert_int_equal(json_integer_value(json_object_get(last, "step")), STEPS);
    assert_true(share > 0 && share < 1);
    assert_true(fabs(share * samples / rate / summary.data_wait_seconds - 1) < 1e-6);
    assert_true(summary.data_wait_seconds < summary.seconds);
    json_decref(log);
    return summary.data_wait_seconds;
}

/* A folder of its own for every device. */
static const char *name(int device, const char *what)
{
    char text[32];
    snprintf(text, sizeof text, "%s%d", what, device);
    return join(folder, text);
}

static void test_data_wait(void **state)
{
    (void)state;
    data = make_rows(folder, 96, 12, 1, true);
    const double slow_seconds = STEPS * SLOW_MS * 1e-3;
    for (int i = 0; i < n_devices(); i++) {
        slow = false;
        double fast = waited(device(i), name(i, "fast"), "1");
        slow = true;
        double one = waited(device(i), name(i, "one"), "1"), two = waited(device(i), name(i, "two"), "2");
        print_message("%s %s: %d steps waited %.4f s for data, %.3f and %.3f s for slow data\n", device(i)->name,
                      device(i)->dtype, STEPS, fast, one, two);
        /* A step computes for a millisecond: the bounds hold on a machine of which others take nearly everything. */
        assert_true(one > 0.25 * slow_seconds && two > 0.25 * 2 * slow_seconds);
        assert_true(fast < one && fast < two);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_data_wait)};
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
