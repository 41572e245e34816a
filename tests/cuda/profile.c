/* The device profile: where it lies, what comes back from it, and files of no use. */
#include "cuda/profile.h"
#include "../folder.h"

#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static struct cuda_profile *opened(const char *dir, int64_t cublaslt)
{
    struct snug_err err = {0};
    struct cuda_profile *p;
    struct cuda_profile_device h200 = {"NVIDIA H200 (x/1)", 90, 132, INT64_C(140) << 30, cublaslt};
    if (cuda_profile_open(&io_posix, dir, &h200, &p, &err))
        fail_msg("%s", err.text);
    return p;
}

static int append(json_t *products, json_t *news, struct snug_err *err)
{
    (void)err;
    return json_array_extend(products, news);
}

static void comes_back(void **state)
{
    (void)state;
    char dir[96], path[256];
    struct snug_err err = {0};
    snprintf(dir, sizeof dir, "%s/new/snug", folder);
    struct cuda_profile *p = opened(dir, 130100);
    snprintf(path, sizeof path, "%s/device-NVIDIA-H200--x-1--9.0-cublaslt-130100.json", dir);
    assert_string_equal(cuda_profile_path(p), path);
    assert_null(cuda_profile_products(p));
    assert_true(cuda_profile_time(p, "norm 512x1024 BF16") == -1);
    assert_int_equal(cuda_profile_set_time(p, "norm 512x1024 BF16", 3.25, &err), 0);
    json_t *choices = json_pack("[{s:s}]", "op", "linear");
    assert_int_equal(cuda_profile_set_products(p, choices, &err), 0);
    assert_int_equal(cuda_profile_save(&io_posix, p, append, &err), 0);
    cuda_profile_close(p);

    p = opened(dir, 130100);
    assert_true(cuda_profile_time(p, "norm 512x1024 BF16") == 3.25);
    assert_true(json_equal(cuda_profile_products(p), choices));
    cuda_profile_close(p);
    json_decref(choices);

    p = opened(dir, 130200); /* another library: another file */
    assert_null(cuda_profile_products(p));
    cuda_profile_close(p);
}

static void folders(void **state)
{
    (void)state;
    char path[256];
    struct snug_err err = {0};
    setenv("XDG_CACHE_HOME", folder, 1);
    struct cuda_profile *p = opened(NULL, 1);
    snprintf(path, sizeof path, "%s/snug/device-NVIDIA-H200--x-1--9.0-cublaslt-1.json", folder);
    assert_string_equal(cuda_profile_path(p), path);
    cuda_profile_close(p);
    setenv("XDG_CACHE_HOME", "relative", 1);
    setenv("HOME", "/home/a", 1);
    p = opened(NULL, 1);
    assert_string_equal(cuda_profile_path(p), "/home/a/.cache/snug/device-NVIDIA-H200--x-1--9.0-cublaslt-1.json");
    cuda_profile_close(p);
    p = opened("", 1);
    assert_string_equal(cuda_profile_path(p), "");
    assert_int_equal(cuda_profile_set_time(p, "a", 1, &err), 0);
    assert_int_equal(cuda_profile_save(&io_posix, p, append, &err), 0);
    assert_true(cuda_profile_time(p, "a") == 1);
    cuda_profile_close(p);
}

#define DEVICE(format, version, arch)                                                                                  \
    "{\"format\":\"" format "\",\"version\":" #version ",\"device\":\"a\",\"arch\":" #arch                             \
    ",\"multiprocessors\":132,\"free_bytes\":1,\"cublaslt\":7"

static void of_no_use(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double time; /* of "b" */
    } files[] = {
        {DEVICE("snug-device-profile", 2, 90) ",\"products\":[],\"times\":{\"b\":3}}", 3},
        {"{\"format\": ", -1},
        {"[]", -1},
        {DEVICE("snug-device-profile", 1, 90) ",\"products\":[],\"times\":{\"b\":3}}", -1},
        {DEVICE("snug-device-profile", 2, 80) ",\"products\":[],\"times\":{\"b\":3}}", -1},
        {DEVICE("other", 2, 90) ",\"products\":[],\"times\":{\"b\":3}}", -1},
        {DEVICE("snug-device-profile", 2, 90) ",\"times\":{\"b\":3}}", -1},
        {DEVICE("snug-device-profile", 2, 90) ",\"products\":[],\"times\":{\"a\":-1,\"b\":3}}", -1},
    };
    struct snug_err err = {0};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        struct cuda_profile *p = opened(folder, 7);
        char path[256];
        strcpy(path, cuda_profile_path(p));
        cuda_profile_close(p);
        assert_int_equal(io_write_file(&io_posix, path, files[i].text, strlen(files[i].text), &err), 0);
        p = opened(folder, 7);
        assert_true(cuda_profile_time(p, "b") == files[i].time);
        assert_null(cuda_profile_products(p));
        cuda_profile_set_time(p, "c", 4, &err);
        assert_int_equal(cuda_profile_save(&io_posix, p, append, &err), 0); /* and is replaced */
        cuda_profile_close(p);
        p = opened(folder, 7);
        assert_true(cuda_profile_time(p, "b") == files[i].time && cuda_profile_time(p, "c") == 4);
        cuda_profile_close(p);
    }
}

static ssize_t no_space(const struct io *io, int fd, const void *buf, size_t bytes, off_t at)
{
    (void)io, (void)fd, (void)buf, (void)bytes, (void)at;
    errno = ENOSPC;
    return -1;
}

/* The old file stays when the new one cannot be written. */
static void full_disk(void **state)
{
    (void)state;
    struct snug_err err = {0};
    struct io full = io_posix;
    full.pwrite = no_space;
    struct cuda_profile *p = opened(folder, 8);
    cuda_profile_set_time(p, "a", 1, &err);
    assert_int_equal(cuda_profile_save(&io_posix, p, append, &err), 0);
    cuda_profile_set_time(p, "a", 2, &err);
    assert_int_equal(cuda_profile_save(&full, p, append, &err), SNUG_ERR_IO);
    cuda_profile_close(p);
    p = opened(folder, 8);
    assert_true(cuda_profile_time(p, "a") == 1);
    cuda_profile_close(p);
}

static void set(struct cuda_profile *p, const char *products, const char *time, double us)
{
    struct snug_err err = {0};
    json_t *all = json_loads(products, 0, NULL);
    assert_non_null(all);
    assert_int_equal(cuda_profile_set_products(p, all, &err), 0);
    assert_int_equal(cuda_profile_set_time(p, time, us, &err), 0);
    json_decref(all);
}

static void expect(const struct cuda_profile *p, const char *products, double a, double b)
{
    json_t *all = json_loads(products, 0, NULL);
    assert_true(json_equal(cuda_profile_products(p), all));
    assert_true(cuda_profile_time(p, "a") == a && cuda_profile_time(p, "b") == b);
    json_decref(all);
}

/* Of two processes that measure at the same time neither loses what the other has kept; what a process has read or written
 * itself is no news to it, and a file that was broken meanwhile has none. */
static void of_two_processes(void **state)
{
    (void)state;
    struct snug_err err = {0};
    struct cuda_profile *p = opened(folder, 10), *q;
    set(p, "[{\"is\":1}]", "a", 1);
    assert_int_equal(cuda_profile_save(&io_posix, p, append, &err), 0);
    q = opened(folder, 10);
    set(p, "[{\"is\":1},{\"is\":2.12345678}]", "a", 2);
    set(q, "[{\"is\":1},{\"is\":3}]", "b", 3);
    assert_int_equal(cuda_profile_save(&io_posix, p, append, &err), 0);
    assert_int_equal(cuda_profile_save(&io_posix, q, append, &err), 0);
    expect(q, "[{\"is\":1},{\"is\":3},{\"is\":2.12346}]", 1, 3);
    assert_int_equal(cuda_profile_save(&io_posix, q, append, &err), 0);
    expect(q, "[{\"is\":1},{\"is\":3},{\"is\":2.12346}]", 1, 3);
    assert_int_equal(cuda_profile_save(&io_posix, p, append, &err), 0);
    expect(p, "[{\"is\":1},{\"is\":2.12345678},{\"is\":3}]", 2, 3);
    assert_int_equal(io_write_file(&io_posix, cuda_profile_path(p), "{", 1, &err), 0);
    assert_int_equal(cuda_profile_save(&io_posix, p, append, &err), 0);
    cuda_profile_close(p);
    cuda_profile_close(q);
    p = opened(folder, 10);
    expect(p, "[{\"is\":1},{\"is\":2.12346},{\"is\":3}]", 2, 3);
    cuda_profile_close(p);
}

/* A copy of a profile says what device it is of; the most that was free on that is kept, whichever process saw it. */
static void of_a_device_elsewhere(void **state)
{
    (void)state;
    char path[256];
    struct snug_err err = {0};
    struct cuda_profile_device less = {"NVIDIA H200 (x/1)", 90, 132, 1000, 9}, more = less, read;
    struct cuda_profile *p;
    more.free_bytes = 3000;
    for (int i = 0; i < 3; i++) {
        assert_int_equal(cuda_profile_open(&io_posix, folder, i == 1 ? &more : &less, &p, &err), 0);
        strcpy(path, cuda_profile_path(p));
        assert_int_equal(cuda_profile_save(&io_posix, p, append, &err), 0);
        cuda_profile_close(p);
    }
    struct cuda_profile *q;
    assert_int_equal(cuda_profile_open(&io_posix, folder, &less, &q, &err), 0);
    more.free_bytes = 4000;
    assert_int_equal(cuda_profile_open(&io_posix, folder, &more, &p, &err), 0);
    assert_int_equal(cuda_profile_save(&io_posix, p, append, &err), 0);
    assert_int_equal(cuda_profile_save(&io_posix, q, append, &err), 0);
    cuda_profile_close(p);
    cuda_profile_close(q);
    assert_int_equal(cuda_profile_read(&io_posix, path, &read, &p, &err), 0);
    assert_string_equal(read.name, "NVIDIA H200 (x/1)");
    assert_true(read.arch == 90 && read.sms == 132 && read.free_bytes == 4000 && read.cublaslt == 9);
    cuda_profile_close(p);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(cuda_profile_read(&io_posix, path, &read, &p, &err), SNUG_ERR_INPUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(comes_back),
                                       cmocka_unit_test(folders),
                                       cmocka_unit_test(of_no_use),
                                       cmocka_unit_test(full_disk),
                                       cmocka_unit_test(of_a_device_elsewhere),
                                       cmocka_unit_test(of_two_processes)};
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
