/* Well-known models, from their published config.json: the weights are those that transformers gives each class, and those that
 * decay are the Trainer's (published.py). Nothing of their size is made. */
#include "../folder.h"
#include "model/model.h"
#include "pass/pass.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static bool is_own_weight(const struct value *v)
{
    return v->role == ROLE_WEIGHT && !v->group && !v->row && !init_is_whole(&v->init); /* BART's only row is a buffer */
}

/* transformers' shape for a weight of the first layer or of none; of the further layers, which are as the first, NULL. */
static json_t *wanted_shape(json_t *class, const char *name)
{
    json_t *shape = json_object_get(json_object_get(class, "weights"), name);
    const char *number = name;
    while ((number = strchr(number, '.')) && !(number[1] >= '1' && number[1] <= '9'))
        number++;
    if (!shape && !number)
        fail_msg("%s: not a weight of transformers' class", name);
    return shape;
}

static void compare_weight(json_t *class, const struct value *v)
{
    json_t *shape = wanted_shape(class, v->name), *kept = json_object_get(class, "not_decayed"), *name;
    size_t i;
    if (!shape)
        return;
    assert_int_equal(json_array_size(shape), v->ndim);
    for (int d = 0; d < v->ndim; d++)
        assert_int_equal(json_integer_value(json_array_get(shape, (size_t)d)), v->shape[d].c);
    bool decays = true;
    json_array_foreach(kept, i, name) decays &= strcmp(json_string_value(name), v->name) != 0;
    if (update_decays(v) != decays)
        fail_msg("%s %s", v->name, decays ? "does not decay" : "decays");
}

static enum model_task task_of(const struct model_config *c, const char *class)
{
    for (int t = MODEL_AUTO + 1; t < MODEL_COUNT; t++)
        if (model_has_task(c, (enum model_task)t) && !strcmp(c->arch->heads[t].class_name, class))
            return (enum model_task)t;
    fail_msg("%s: no task", class);
    return MODEL_AUTO;
}

static void compare_class(struct model_config c, const char *name, json_t *class)
{
    struct snug_err err;
    struct graph g;
    struct built built;
    int64_t parameters = 0;
    size_t tensors = 0, of_first = 0;
    assert_int_equal(model_set_task(&c, task_of(&c, name), "config.json", &err), SNUG_OK);
    c.problem = PROBLEM_SINGLE_LABEL;
    assert_int_equal(graph_init(&g, &err), SNUG_OK);
    if (model_build(&c, (struct build_settings){.mode = BUILD_TRAIN}, &g, &built, &err))
        fail_msg("%s: %s", name, err.text);
    for (int i = 1; i < g.n_values; i++)
        if (is_own_weight(&g.values[i])) {
            compare_weight(class, &g.values[i]);
            of_first += wanted_shape(class, g.values[i].name) != NULL;
            parameters += value_elements(&g.values[i], (struct dims){0});
            tensors++;
        }
    assert_int_equal(of_first, json_object_size(json_object_get(class, "weights")));
    assert_int_equal(tensors, json_integer_value(json_object_get(class, "tensors")));
    assert_int_equal(parameters, json_integer_value(json_object_get(class, "parameters")));
    graph_free(&g);
}

/* As published, and as transformers 5 would write it. */
static void published_models_have_their_weights(void **state)
{
    (void)state;
    char path[4096];
    snprintf(path, sizeof path, "%s/tests/model/published.json", getenv("SNUG_SOURCE"));
    json_t *all = json_load_file(path, 0, NULL), *model, *class;
    const char *name, *class_name;
    assert_non_null(all);
    for (int v5 = 0; v5 < 2; v5++)
        json_object_foreach(json_object_get(all, "models"), name, model)
        {
            struct snug_err err;
            struct model_config c;
            json_t *config = json_object_get(model, "config");
            json_object_set_new(config, v5 ? "dtype" : "torch_dtype", json_string("float32"));
            if (model_config_read(config, name, &c, &err))
                fail_msg("%s", err.text);
            assert_true(c.task != MODEL_AUTO);
            assert_int_equal(c.longest, json_integer_value(json_object_get(model, "longest")));
            json_object_foreach(json_object_get(model, "classes"), class_name, class)
                compare_class(c, class_name, class);
        }
    json_decref(all);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(published_models_have_their_weights)};
    return cmocka_run_group_tests_name("published", tests, NULL, NULL);
}
