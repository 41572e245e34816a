/* Each row of the tables of refused settings, in the config.json of a well-known model of its family (published.json): what the row says is
 * refused by its name, and what is not refused is read. */
#include "model/refused.h"
#include "model/model.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static json_t *published(void)
{
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/model/published.json", getenv("SNUG_SOURCE"));
    json_t *all = json_load_file(path, 0, NULL);
    assert_non_null(all);
    return all;
}

/* Of a model of this type. */
static json_t *config_of(json_t *all, const char *type)
{
    const char *name;
    json_t *model;
    json_object_foreach(json_object_get(all, "models"), name, model)
    {
        json_t *config = json_object_get(model, "config");
        if (!strcmp(json_string_value(json_object_get(config, "model_type")), type))
            return config;
    }
    fail_msg("published.json has no model of type %s", type);
    return NULL;
}

/* The nth value of row's key: first those that are refused, behind which `*taken` are others. NULL: there are no more. */
static json_t *value_of(const struct refused *row, const struct model_config *c, int n, bool *taken)
{
    bool is_switch = row->kind == REFUSED_TRUE || row->kind == REFUSED_FALSE;
    *taken = n > 0;
    if (is_switch)
        return n < 2 ? json_boolean((row->kind == REFUSED_TRUE) == (n == 0)) : NULL;
    switch (row->kind) {
    case REFUSED_PRESENT:
        return n == 0 ? json_pack("{s:i}", "bits", 4) : n == 1 ? json_object() : n == 2 ? json_null() : NULL;
    case REFUSED_ABOVE_0:
        return n < 2 ? json_real(n == 0 ? 0.25 : 0) : NULL;
    case REFUSED_UNLIKE:
        return n < 2 ? json_integer(refused_number(row, c) + (n == 0)) : NULL;
    default:
        return n == 0                                    ? json_string("something else")
               : n <= REFUSED_WORDS && row->words[n - 1] ? json_string(row->words[n - 1])
                                                         : NULL;
    }
}

/* own: the row is of the architecture's table, whose settings may be a part of config.json. */
static void check_row(const char *type, json_t *config, const struct refused *row, bool own)
{
    struct snug_err err;
    struct model_config c;
    bool taken;
    if (model_config_read(config, type, &c, &err))
        fail_msg("%s: %s", type, err.text);
    for (int n = 0;; n++) {
        json_t *value = value_of(row, &c, n, &taken), *changed = json_deep_copy(config);
        struct model_config read;
        if (!value) {
            json_decref(changed);
            break;
        }
        json_object_set_new(own ? model_settings(c.arch, changed) : changed, row->key, value);
        enum snug_code code = model_config_read(changed, type, &read, &err);
        if (taken && code)
            fail_msg("%s: %s", type, err.text);
        if (!taken && (code != SNUG_ERR_INPUT || !strstr(err.text, row->key)))
            fail_msg("%s: %s is not refused by its name", type, row->key);
        json_decref(changed);
    }
}

static void rows_are_refused(void **state)
{
    (void)state;
    json_t *all = published();
    for (int i = 0; model_archs[i]; i++) {
        const struct model_arch *a = model_archs[i];
        json_t *config = config_of(all, a->model_type);
        for (const struct refused *row = refused_everywhere; row->key; row++) {
            check_row(a->model_type, config, row, false);
            check_row(a->model_type, config, row, true);
        }
        for (const struct refused *row = a->refused; row && row->key; row++)
            check_row(a->model_type, config, row, true);
    }
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_refused)};
    return cmocka_run_group_tests_name("refused", tests, NULL, NULL);
}
