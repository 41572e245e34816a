/* Where huggingface_hub's variables lead. */
#include "hub/environment.h"

#include "../folder.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const char *const variables[] = {"HF_HOME",        "HF_HUB_CACHE",           "HF_ENDPOINT",
                                        "HF_TOKEN",       "HUGGING_FACE_HUB_TOKEN", "HF_TOKEN_PATH",
                                        "HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE",   "XDG_CACHE_HOME",
                                        "SSL_CERT_FILE",  "REQUESTS_CA_BUNDLE",     "CURL_CA_BUNDLE"};

/* Of "NAME=VALUE" texts; all others are unset. HOME is "/home/me", where nothing lies. */
static int read_environment(struct hub_environment *e, struct snug_err *err, const char *const *set)
{
    for (size_t i = 0; i < sizeof variables / sizeof *variables; i++)
        unsetenv(variables[i]);
    setenv("HOME", "/home/me", 1);
    for (; *set; set++) {
        char *name = strdup(*set), *value = strchr(name, '=');
        *value++ = 0;
        setenv(name, value, 1);
        free(name);
    }
    err->text[0] = 0;
    return hub_environment_read(&io_posix, e, err);
}

#define SET(...) ((const char *const[]){__VA_ARGS__, NULL})

static void expect(const char *const *set, const char *cache, const char *endpoint, const char *token, bool offline)
{
    struct hub_environment e;
    struct snug_err err;
    assert_int_equal(read_environment(&e, &err, set), 0);
    assert_string_equal(str_text(&e.cache), cache);
    assert_string_equal(str_text(&e.endpoint), endpoint);
    assert_string_equal(str_text(&e.token), token);
    assert_int_equal(e.offline, offline);
    hub_environment_free(&e);
}

static void refuse(const char *const *set, const char *text)
{
    struct hub_environment e;
    struct snug_err err;
    assert_int_equal(read_environment(&e, &err, set), SNUG_ERR_USAGE);
    assert_string_equal(err.text, text);
    hub_environment_free(&e);
}

/* As constants.py of huggingface_hub 2.4 has them. */
static void test_values(void **state)
{
    (void)state;
    const char *hub = "https://huggingface.co";
    char token_path[128];
    expect(SET("HF_HOME="), "/home/me/.cache/huggingface/hub", hub, "", false);
    expect(SET("XDG_CACHE_HOME=/c"), "/c/huggingface/hub", hub, "", false);
    expect(SET("XDG_CACHE_HOME=/c", "HF_HOME=/h"), "/h/hub", hub, "", false);
    expect(SET("HF_HOME=~/hf"), "/home/me/hf/hub", hub, "", false);
    expect(SET("HF_HOME=/h", "HF_HUB_CACHE=/d/e"), "/d/e", hub, "", false);
    expect(SET("HF_HOME=", "HF_ENDPOINT=http://mirror:80//"), "/home/me/.cache/huggingface/hub", "http://mirror:80", "",
           false);
    expect(SET("HF_HOME=/h", "HF_TOKEN= hf_a \n", "HUGGING_FACE_HUB_TOKEN=hf_b"), "/h/hub", hub, "hf_a", false);
    expect(SET("HF_HOME=/h", "HF_HUB_OFFLINE=on"), "/h/hub", hub, "", true);
    expect(SET("HF_HOME=/h", "HF_HUB_OFFLINE=0", "TRANSFORMERS_OFFLINE=YES"), "/h/hub", hub, "", true);
    write_text(folder, "a-token", "hf_file\n");
    snprintf(token_path, sizeof token_path, "HF_TOKEN_PATH=%s/a-token", folder);
    expect(SET("HF_HOME=/h", token_path), "/h/hub", hub, "hf_file", false);
    expect(SET("HF_HOME=/h", token_path, "HF_TOKEN=hf_c"), "/h/hub", hub, "hf_c", false);
}

static void test_refused(void **state)
{
    (void)state;
    refuse(SET("HF_ENDPOINT=huggingface.co"),
           "HF_ENDPOINT: 'huggingface.co' is not an address; give one that begins with https://");
    refuse(SET("HF_TOKEN=hf_a\r\nHost: evil"),
           "HF_TOKEN: a token has letters, digits and underscores only; set it anew");
    refuse(SET("HF_TOKEN=hf a"), "HF_TOKEN: a token has letters, digits and underscores only; set it anew");
    refuse(SET("HOME="), "HOME is not set, so there is no place for downloads; set HF_HOME to a folder");
}

static void test_certificates(void **state)
{
    (void)state;
    struct hub_environment e;
    struct snug_err err;
    assert_int_equal(read_environment(&e, &err, SET("CURL_CA_BUNDLE=/c.pem", "REQUESTS_CA_BUNDLE=/r.pem")), 0);
    assert_string_equal(str_text(&e.certificates), "/r.pem");
    hub_environment_free(&e);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_refused),
        cmocka_unit_test(test_certificates),
    };
    return cmocka_run_group_tests_name("hub/environment", tests, open_folder, close_folder);
}
