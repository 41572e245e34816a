/* The algorithms that a device's profile keeps, taken without a device: all of them, or none where one cannot be read. */
#include "../folder.h"
#include "cuda/device.h"
#include "cuda/products/algorithms_json.h"
#include "cuda/products/cublaslt.h"
#include "cuda/products/products.h"
#include "cuda/profile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

/* A product of our own: it has no algorithm. */
#define PRODUCT(op, N)                                                                                                 \
    "{\"op\":\"" op "\",\"N\":" N                                                                                      \
    ",\"I\":64,\"O\":64,\"in\":\"BF16\",\"out\":\"BF16\",\"in_out\":false,\"add\":false,"                              \
    "\"tf32\":false,\"act\":\"none\",\"own\":true,\"used\":true,\"align\":16,\"us\":2.5,\"workspace\":0}"

static const struct cuda_profile_device h200 = {"H200", 90, 132, 1000, 7};

static void open_without_device(struct cuda *d)
{
    struct snug_err err = {0};
    *d = (struct cuda){0};
    assert_int_equal(cuda_products_open_absent(7, true, &d->call.products, &err), 0);
    assert_int_equal(cuda_profile_open(&io_posix, folder, &h200, &d->measured.profile, &err), 0);
}

static void close_all(struct cuda *d)
{
    cuda_profile_close(d->measured.profile);
    cuda_products_close(d->call.products);
}

static size_t n_taken(const struct cuda *d, enum algorithms_which which)
{
    json_t *all;
    struct snug_err err;
    assert_int_equal(algorithms_export(d->call.products, which, &all, &err), 0);
    size_t n = json_array_size(all);
    json_decref(all);
    return n;
}

static void of_a_profile(void **state)
{
    (void)state;
    static const struct {
        const char *products;
        size_t taken;
        const char *why; /* behind the file: where the profile is the caller's own, and not a cache */
    } rows[] = {
        {"", 0, NULL},
        {PRODUCT("linear", "8") "," PRODUCT("linear", "16"), 2, NULL},
        {"1", 0, ": products: an entry is no object"},
        {"{}", 0, ": op is absent"},
        {PRODUCT("linear", "8") ",{}", 0, ": op is absent"},
        {PRODUCT("linear", "8") "," PRODUCT("linear", "0"), 0, ": N is 0"},
        {PRODUCT("linear", "8") "," PRODUCT("norm", "8"), 0, ": products: \"norm\" is no matrix product"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        struct cuda d;
        struct snug_err err = {0};
        char path[256], text[2048];
        open_without_device(&d);
        strcpy(path, cuda_profile_path(d.measured.profile));
        close_all(&d);
        int n =
            snprintf(text, sizeof text,
                     "{\"format\":\"snug-device-profile\",\"version\":2,\"device\":\"H200\",\"arch\":90,"
                     "\"multiprocessors\":132,\"free_bytes\":1,\"cublaslt\":7,\"products\":[%s],\"times\":{\"a\":3}}",
                     rows[i].products);
        assert_int_equal(io_write_file(&io_posix, path, text, (size_t)n, &err), 0);

        open_without_device(&d);
        int code = cuda_measured_take(&d, path, &err);
        assert_int_equal(code, rows[i].why ? SNUG_ERR_INPUT : SNUG_OK);
        if (rows[i].why && (strncmp(err.text, path, strlen(path)) ||
                            strncmp(err.text + strlen(path), rows[i].why, strlen(rows[i].why))))
            fail_msg("%s, not \"%s\"", err.text, rows[i].why);
        close_all(&d);

        open_without_device(&d);
        if (cuda_measured_take_kept(&d, &err))
            fail_msg("%s", err.text);
        assert_int_equal(n_taken(&d, ALGORITHMS_MEASURED), rows[i].taken);
        assert_int_equal(json_array_size(cuda_profile_products(d.measured.profile)),
                         rows[i].taken); /* what a save will write */
        assert_true(cuda_profile_time(d.measured.profile, "a") == 3);
        close_all(&d);
    }
}

/* What another process has measured meanwhile stands; all of it, or none where one cannot be read. */
static void of_another_process(void **state)
{
    (void)state;
    static const char one[] = "[" PRODUCT("linear", "8") "," PRODUCT("linear", "16") "]";
    struct snug_err err = {0};
    json_t *mine = json_loads(one, 0, NULL), *news = json_loads("[" PRODUCT("linear", "16") "]", 0, NULL);
    assert_int_equal(json_object_set_new(json_array_get(news, 0), "us", json_real(7)), 0);
    assert_int_equal(json_array_append_new(news, json_loads(PRODUCT("linear_dx", "8"), 0, NULL)), 0);
    assert_int_equal(json_array_append_new(news, json_loads(PRODUCT("norm", "8"), 0, NULL)), 0);
    assert_int_equal(algorithms_merge(mine, news, &err), SNUG_ERR_INPUT);
    json_t *before = json_loads(one, 0, NULL);
    assert_true(json_equal(mine, before));
    assert_int_equal(json_array_remove(news, 2), 0);
    assert_int_equal(algorithms_merge(mine, news, &err), SNUG_OK);
    assert_int_equal(json_array_size(mine), 3);
    assert_true(json_equal(json_array_get(mine, 0), json_array_get(before, 0)));
    assert_true(json_equal(json_array_get(mine, 1), json_array_get(news, 0)));
    assert_true(json_equal(json_array_get(mine, 2), json_array_get(news, 1)));
    json_decref(mine);
    json_decref(news);
    json_decref(before);
}

/* What a checkpoint recorded, also with an algorithm of cuBLASLt's, which no library is there to ask about. */
static void of_a_checkpoint(void **state)
{
    (void)state;
    struct cuda d;
    struct snug_err err = {0};
    char text[2048], name[128], algo[2 * sizeof(cublasLtMatmulAlgo_t) + 1];
    int refused;
    memset(algo, '0', sizeof algo - 1);
    algo[sizeof algo - 1] = 0;
    snprintf(text, sizeof text,
             "[{\"op\":\"linear\",\"N\":8,\"I\":64,\"O\":64,\"in\":\"BF16\",\"out\":\"BF16\",\"in_out\":false,"
             "\"add\":false,\"tf32\":false,\"act\":\"none\",\"own\":false,\"used\":true,\"align\":16,\"us\":2.5,"
             "\"workspace\":0,\"algo\":\"%s\"}]",
             algo);
    json_t *recorded = json_loads(text, 0, NULL);
    assert_non_null(recorded);
    open_without_device(&d);
    if (algorithms_add_recorded(d.call.products, recorded, "a checkpoint", &refused, name, &err))
        fail_msg("%s", err.text);
    assert_int_equal(refused, 0);
    assert_int_equal(n_taken(&d, ALGORITHMS_ALL), 1);
    close_all(&d);
    json_decref(recorded);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(of_a_profile), cmocka_unit_test(of_another_process),
                                       cmocka_unit_test(of_a_checkpoint)};
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
