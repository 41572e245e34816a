/* What the driver says of devices: read through a stand-in for its library (fake_nvml.c), and on a machine that has
 * none.
 */
#include "cuda/libraries/nvml.h"

#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { FIRST = 0, SECOND = 1 };

static void without_the_library_there_are_no_numbers(void **state)
{
    (void)state;
    void *real = dlopen("libnvidia-ml.so.1", RTLD_NOW);
    if (real) {
        dlclose(real);
        skip();
    }
    struct nvml_memory m = {.used_bytes = 1};
    struct nvml *n;
    assert_int_equal(nvml_memory(0, &m), SNUG_ERR_ENV);
    assert_int_equal(m.used_bytes, 0);
    assert_int_equal(nvml_open(&n), SNUG_ERR_ENV);
    assert_null(n);
    assert_int_equal(nvml_devices(n), 0);
    assert_int_equal(nvml_read(n, 0, 1, &m), SNUG_ERR_ENV);
    nvml_close(n);
}

/* The loader knows a library by the name inside it: once the stand-in is loaded, NVML's name means it. */
static int load_stand_in(void **state)
{
    assert_non_null(getenv("SNUG_FAKE_NVML"));
    *state = dlopen(getenv("SNUG_FAKE_NVML"), RTLD_NOW);
    assert_non_null(*state);
    return 0;
}

static int unload(void **state)
{
    unsetenv("CUDA_VISIBLE_DEVICES");
    unsetenv("FAKE_NVML_FAILS");
    return dlclose(*state);
}

static void memory_name_and_driver(void **state)
{
    (void)state;
    struct nvml_memory m;
    assert_int_equal(nvml_memory(SECOND, &m), SNUG_OK);
    assert_int_equal(m.total_bytes, 48000000000);
    assert_int_equal(m.used_bytes, 7000000000);
    assert_int_equal(m.process_bytes, -1); /* this process is not on it */
    assert_string_equal(m.name, "NVIDIA Second");
    assert_string_equal(m.driver, "999.12.34");
    assert_int_equal(nvml_memory(2, &m), SNUG_ERR_ENV);
    assert_int_equal(nvml_memory(-1, &m), SNUG_ERR_ENV);
}

static void memory_of_a_process(void **state)
{
    (void)state;
    struct nvml_memory m;
    struct nvml *n;
    assert_int_equal(nvml_open(&n), SNUG_OK);
    assert_int_equal(nvml_devices(n), 2);
    assert_int_equal(nvml_read(n, SECOND, 41, &m), SNUG_OK);
    assert_int_equal(m.process_bytes, 2000000000);
    assert_int_equal(nvml_read(n, SECOND, 42, &m), SNUG_OK);
    assert_int_equal(m.process_bytes, -1); /* the driver does not tell */
    assert_int_equal(nvml_read(n, FIRST, 41, &m), SNUG_OK);
    assert_int_equal(m.process_bytes, -1);
    nvml_close(n);
}

static void devices_are_counted_as_cuda_does(void **state)
{
    (void)state;
    static const struct {
        const char *visible;
        int devices;
        const char *name; /* of device 0, NULL: there is none */
    } cases[] = {
        {"1", 1, "NVIDIA Second"},
        {"1,0", 2, "NVIDIA Second"},
        {"0", 1, "NVIDIA First"},
        {" 1 , 0", 2, "NVIDIA Second"},
        {"GPU-22222222-0000-0000-0000-000000000002", 1, "NVIDIA Second"},
        {"0,-1,1", 1, "NVIDIA First"}, /* what stands behind a device that is not there is invisible */
        {"7", 0, NULL},
        {"", 0, NULL},
        {"-1", 0, NULL},
    };
    struct nvml *n;
    assert_int_equal(nvml_open(&n), SNUG_OK);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct nvml_memory m;
        setenv("CUDA_VISIBLE_DEVICES", cases[i].visible, 1);
        assert_int_equal(nvml_devices(n), cases[i].devices);
        assert_int_equal(nvml_read(n, 0, 1, &m), cases[i].name ? SNUG_OK : SNUG_ERR_ENV);
        assert_string_equal(m.name, cases[i].name ? cases[i].name : "");
    }
    nvml_close(n);
}

/* The command finds the stand-in as it finds the real one: on the loader's path. */
static void snug_info_names_the_devices(void **state)
{
    (void)state;
    char folder[1024], command[4096], text[8192] = "";
    const char *library = getenv("SNUG_FAKE_NVML");
    snprintf(folder, sizeof folder, "%.*s", (int)(strrchr(library, '/') - library), library);
    snprintf(command, sizeof command, "LD_LIBRARY_PATH='%s' CUDA_VISIBLE_DEVICES=1,0 '%s' info --json", folder,
             getenv("SNUG_COMMAND"));
    FILE *f = popen(command, "r");
    assert_non_null(f);
    assert_true(fread(text, 1, sizeof text - 1, f) > 0);
    assert_int_equal(pclose(f), 0);
    assert_non_null(strstr(text, "\"gpus\":[{\"name\":\"NVIDIA Second\",\"total_bytes\":48000000000,"
                                 "\"used_bytes\":7000000000,\"driver\":\"999.12.34\"},"
                                 "{\"name\":\"NVIDIA First\",\"total_bytes\":24000000000,"));
}

static void a_driver_that_fails(void **state)
{
    (void)state;
    struct nvml_memory m;
    setenv("FAKE_NVML_FAILS", "init", 1);
    assert_int_equal(nvml_memory(0, &m), SNUG_ERR_ENV);
    setenv("FAKE_NVML_FAILS", "memory", 1);
    assert_int_equal(nvml_memory(0, &m), SNUG_ERR_ENV);
    setenv("FAKE_NVML_FAILS", "processes", 1);
    assert_int_equal(nvml_memory(SECOND, &m), SNUG_OK);
    assert_int_equal(m.process_bytes, -1);
    setenv("FAKE_NVML_FAILS", "name", 1);
    assert_int_equal(nvml_memory(SECOND, &m), SNUG_OK);
    assert_string_equal(m.name, "");
    assert_string_equal(m.driver, "999.12.34");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(without_the_library_there_are_no_numbers),
        cmocka_unit_test_setup_teardown(memory_name_and_driver, load_stand_in, unload),
        cmocka_unit_test_setup_teardown(memory_of_a_process, load_stand_in, unload),
        cmocka_unit_test_setup_teardown(devices_are_counted_as_cuda_does, load_stand_in, unload),
        cmocka_unit_test(snug_info_names_the_devices),
        cmocka_unit_test_setup_teardown(a_driver_that_fails, load_stand_in, unload),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
