/* Which algorithms products use: measured, recorded, taken from a checkpoint. */
#include "products_help.h"

static json_t *choice_of(json_t *choices, const char *op, int64_t N, bool add)
{
    size_t i;
    json_t *o, *found = NULL;
    json_array_foreach(choices, i, o) if (!strcmp(json_string_value(json_object_get(o, "op")), op) &&
                                          json_integer_value(json_object_get(o, "N")) == N &&
                                          json_boolean_value(json_object_get(o, "add")) == add &&
                                          json_object_get(o, "algo")) found = o;
    return found;
}

/* The tuning step measures each product once; other numbers of rows take the choice of the nearest that was measured;
 * results are as right as before. */
static void tuned(void **state)
{
    (void)state;
    struct snug_err err = {0};
    json_t *none = json_array(), *choices;
    struct form f = {.type = DT_BF16, .wide = DT_BF16, .bias = true, .act = ACT_gelu_tanh, .slope = true, .add = true};
    struct cuda_product_node nodes[7] = {
        {.op = OP_linear}, {.op = OP_linear_dx}, {.op = OP_linear_dw}, {.op = OP_norm}};
    struct tensor x = {.shape = {512, 256}, .ndim = 2, .dtype = DT_BF16}, y = x, w = x, b = x;
    w.shape[0] = y.shape[1] = b.shape[0] = 192;
    b.ndim = 1;
    b.dtype = DT_F32;
    nodes[0].args.linear = (struct args_linear){.x = x, .w = w, .b = b, .y = y, .slope = y, .act = ACT_gelu_tanh};
    nodes[1].args.linear_dx = (struct args_linear_dx){.dy = y, .w = w, .dx = x};
    nodes[1].args.linear_dx.dx.add = true;
    nodes[2].args.linear_dw = (struct args_linear_dw){.dy = y, .x = x, .dw = w};
    nodes[4] = nodes[1];
    nodes[5] = nodes[2];
    nodes[5].args.linear_dw.dy.shape[0] = 0; /* no rows: nothing to measure */
    b.shape[0] = 256;
    nodes[6].op = OP_linear_dx_act;
    nodes[6].args.linear_dx_act = (struct args_linear_dx_act){.dy = y, .w = w, .slope = x, .du = x, .dbias = b};
    assert_int_equal(algorithms_import(products, none, "none", &err), 0);
    must(cuda_products_tune(products, nodes, 7, false, &(struct cuda_tuning){0}, &err), &err, "tuning");
    assert_int_equal(cuda_products_unmeasured(products), 0);
    assert_int_equal(algorithms_export(products, ALGORITHMS_MEASURED, &choices, &err), 0);
    assert_non_null(choice_of(choices, "linear_dx", 512, true));
    json_decref(choices);
    check_linear(512, 256, 192, &f);
    check_dx(512, 256, 192, &f);
    check_linear(400, 256, 192, &f);
    check_dx(400, 256, 192, &f);
    f.act = ACT_gelu;
    f.add = false;
    check_dx(512, 256, 192, &f);
    check_dx(400, 256, 192, &f);
    f.add = true;
    assert_int_equal(cuda_products_unmeasured(products), 0);
    assert_int_equal(algorithms_export(products, ALGORITHMS_ALL, &choices, &err), 0);
    assert_true(json_equal(json_object_get(choice_of(choices, "linear_dx", 512, true), "algo"),
                           json_object_get(choice_of(choices, "linear_dx", 400, true), "algo")));
    json_decref(choices);
    check_dw(512, 256, 192, &f);
    assert_int_equal(cuda_products_unmeasured(products), 1); /* this one adds; the one that was measured does not */
    json_decref(none);
}

/* What was chosen comes back from its JSON and gives the same table. */
static void choices_travel(void **state)
{
    (void)state;
    struct snug_err err = {0};
    json_t *before, *after;
    struct form f = {.type = DT_BF16, .wide = DT_BF16, .bias = true};
    check_linear(512, 256, 192, &f);
    check_dx(512, 256, 192, &f);
    check_dw(512, 256, 192, &f);
    assert_int_equal(algorithms_export(products, ALGORITHMS_ALL, &before, &err), 0);
    assert_true(json_array_size(before) >= 3);
    assert_int_equal(algorithms_import(products, before, "choices.json", &err), 0);
    check_linear(512, 256, 192, &f);
    assert_int_equal(algorithms_export(products, ALGORITHMS_ALL, &after, &err), 0);
    assert_true(json_equal(before, after));
    json_decref(after);
    json_object_set_new(json_array_get(before, 0), "op", json_string("attention"));
    assert_int_equal(algorithms_import(products, before, "choices.json", &err), SNUG_ERR_INPUT);
    assert_string_equal(err.text, "choices.json: products: \"attention\" is no matrix product");
    json_decref(before);
}

static json_t *exported(enum algorithms_which which)
{
    struct snug_err err = {0};
    json_t *choices;
    assert_int_equal(algorithms_export(products, which, &choices, &err), 0);
    return choices;
}

/* What a checkpoint recorded stands in the place of what was measured here, is not measured again, and does not get into
 * the profile; what cuBLASLt does not take is counted and left out. Times do not tell choices apart, algorithms do. */
static void recorded_choices_stand(void **state)
{
    (void)state;
    struct snug_err err = {0};
    struct tensor x = {.shape = {512, 256}, .ndim = 2, .dtype = DT_BF16}, y = x, w = x;
    w.shape[0] = y.shape[1] = 192;
    struct cuda_product_node node = {.op = OP_linear_dx, .args.linear_dx = {.dy = y, .w = w, .dx = x}};
    struct cuda_product product = cuda_product_of(products, OP_linear_dx, &node.args, false);
    json_t *none = json_array(), *all;
    char name[128];
    int refused;
    assert_int_equal(algorithms_import(products, none, "none", &err), 0);
    must(cuda_products_tune(products, &node, 1, false, &(struct cuda_tuning){0}, &err), &err, "tuning");
    json_t *mine = exported(ALGORITHMS_MEASURED), *recorded = json_deep_copy(mine);
    assert_int_equal(json_array_size(mine), 1);
    all = exported(ALGORITHMS_OF_RUN);
    assert_int_equal(json_array_size(all), 0); /* nobody asked for it */
    json_decref(all);
    cuda_products_workspace(products, &product);
    struct hash128 before = algorithms_hash(products);
    assert_true(before.low != 0);

    json_object_set_new(json_array_get(recorded, 0), "us", json_real(4321));
    must(algorithms_add_recorded(products, recorded, "state.json", &refused, name, &err), &err, "taking choices");
    must(cuda_products_tune(products, &node, 1, false, &(struct cuda_tuning){0}, &err), &err, "tuning");
    assert_int_equal(refused, 0);
    cuda_products_workspace(products, &product);
    struct hash128 after = algorithms_hash(products);
    assert_true(after.low == before.low && after.high == before.high);
    all = exported(ALGORITHMS_OF_RUN);
    assert_true(json_equal(all, recorded));
    json_decref(all);
    all = exported(ALGORITHMS_MEASURED);
    assert_true(json_equal(all, mine));
    json_decref(all);
    check_dx(512, 256, 192, &(struct form){.type = DT_BF16, .wide = DT_BF16});

    /* an algorithm for bf16, said to be one for F32 */
    json_object_set_new(json_array_get(recorded, 0), "in", json_string("F32"));
    json_object_set_new(json_array_get(recorded, 0), "out", json_string("F32"));
    assert_int_equal(algorithms_import(products, none, "none", &err), 0);
    must(algorithms_add_recorded(products, recorded, "state.json", &refused, name, &err), &err, "taking choices");
    assert_int_equal(refused, 1);
    assert_string_equal(name, "linear_dx 512x256x192 F32>F32");
    all = exported(ALGORITHMS_ALL);
    assert_int_equal(json_array_size(all), 0);
    json_decref(all);
    json_decref(mine);
    json_decref(recorded);
    json_decref(none);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(choices_travel),
        cmocka_unit_test(tuned),
        cmocka_unit_test(recorded_choices_stand),
    };
    return with_products(tests, sizeof tests / sizeof *tests);
}
