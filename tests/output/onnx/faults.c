/* output/onnx: what is left where memory or a file call fails: nothing, or what was there, or all that is new. */
#include "../../failing_memory.h"
#include "../../folder.h"
#include "../../sanitized.h"
#include "checkpoint/help.h"
#include "output/onnx/export_onnx.h"

#include <errno.h>
#include <sys/wait.h>

static const char *golden(const char *model)
{
    static char path[512];
    snprintf(path, sizeof path, "%s/tests/golden/%s", getenv("SNUG_SOURCE"), model);
    return path;
}

/* Files of so many bytes have no room for weights. */
static int export_as(const struct io *io, const char *model, const char *dir, struct snug_err *err)
{
    struct onnx_export e = {.model = golden(model), .dir = dir, .overwrite = true, .limit = 20000};
    struct onnx_report r;
    return export_onnx(io, &e, &r, err);
}

static void every_allocation_may_fail(void **state)
{
    static const char *const some[] = {"deberta_answers", "roberta", "modernbert"};
    (void)state;
    for (size_t i = 0; i < sizeof some / sizeof *some; i++) {
        struct failing_memory memory;
        bool hit = true;
        for (long k = 1; hit; k += (i ? 7 : 1) * (SANITIZED ? 13 : 1)) {
            struct snug_err err = {0};
            failing_memory_set(&memory, k, false);
            int code = export_as(&io_posix, some[i], in(folder, "failing"), &err);
            hit = failing_memory_hit(&memory);
            mem_set_ops(NULL);
            assert_true(code == (hit ? SNUG_ERR_ENV : 0) || code == 0); /* a name may do without, in a search upwards */
            assert_int_equal(count_names(folder, "failing"), !code);
            if (!code)
                remove_tree(in(folder, "failing"));
        }
    }
}

static const char *const files[] = {"model.onnx", "model.onnx_data", "config.json"};
enum { MODEL, BESIDE, CONFIG, FILES };

static bool is_that_of(const char *dir, const char *other, int file)
{
    return same_bytes(in(dir, files[file]), in(other, files[file]));
}

/* Each file is old or new, and a new model.onnx means that all is new. */
static void expect_never_half(const char *dir, const char *old, const char *new, const char *hit, long k)
{
    for (int i = 0; i < FILES; i++)
        if (!is_that_of(dir, new, i) && (!is_that_of(dir, old, i) || is_that_of(dir, new, MODEL)))
            fail_msg("%s fails at call %ld: %s is neither old nor new", hit, k, files[i]);
}

static void every_file_call_may_fail(void **state)
{
    char old[64], new[64], dir[64];
    struct snug_err err = {0};
    (void)state;
    make_folder(old);
    make_folder(new);
    assert_int_equal(export_as(&io_posix, "distilbert_tags", old, &err), 0);
    assert_int_equal(export_as(&io_posix, "bert", new, &err), 0);
    for (int i = 0; i < FILES; i++)
        assert_false(is_that_of(old, new, i));
    for (int kind = 0; kind < 3; kind++) /* once, for ever, killed */
        for (long k = 1, more = 1; more; k += SANITIZED ? 7 : 1) {
            struct faulty f;
            int code;
            make_folder(dir);
            assert_int_equal(export_as(&io_posix, "distilbert_tags", dir, &err), 0);
            faulty_init(&f);
            f.at = k, f.for_ever = kind == 1, f.errnum = k % 2 ? ENOSPC : EIO;
            f.kind = kind == 2 ? FAULT_KILL : FAULT_ERROR;
            if (kind == 2) {
                pid_t pid = fork();
                if (!pid)
                    _exit(export_as(&f.io, "bert", dir, NULL) ? 1 : 0);
                assert_int_equal(waitpid(pid, &code, 0), pid);
            } else {
                code = export_as(&f.io, "bert", dir, &err);
                if (code && !err.text[0])
                    fail_msg("%s fails at call %ld: code %d and no word", f.hit, k, code);
            }
            expect_never_half(dir, old, new, f.hit, k);
            more = code || f.hit[0];
            if (!code)
                assert_true(is_that_of(dir, new, MODEL));
            remove_tree(dir);
        }
    remove_tree(old);
    remove_tree(new);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_allocation_may_fail),
        cmocka_unit_test(every_file_call_may_fail),
    };
    return cmocka_run_group_tests_name("onnx_faults", tests, open_folder, close_folder);
}
