/* Nodes that a backend runs at the same time do not depend on each other, nor on each other's memory. The backend is the
 * CPU's, which runs each group of them from its last node to its first: every run ends with the same bytes as in order.
 * The linker puts __wrap_backend_cpu in the place of backend_cpu. */
#include "here.h"

#include "backend/backend.h"

const struct backend *__real_backend_cpu(void);
const struct backend *__wrap_backend_cpu(void);

static bool reversed;
static int groups[OP_COUNT]; /* of two nodes or more that were run */

static bool together(enum op op)
{
    return op == OP_cast || op == OP_sumsq || op_is_update(op);
}

static int run_groups(const struct backend *b, const struct work *work, int n, struct snug_err *err)
{
    (void)b;
    const struct backend *cpu = __real_backend_cpu();
    for (int first = 0, end; first < n; first = end) {
        for (end = first + 1; end < n && work[end].joins; end++)
            assert_int_equal(work[end].op, work[first].op);
        groups[work[first].op] += end - first > 1;
        for (int i = end - 1; i >= first; i--)
            TRY(cpu->run(cpu, &work[i], 1, err));
    }
    return SNUG_OK;
}

const struct backend *__wrap_backend_cpu(void)
{
    static struct backend b;
    b = *__real_backend_cpu();
    if (reversed) {
        b.together = together;
        b.run = run_groups;
    }
    return &b;
}

/* Three steps; the folder. */
static const char *train(const char *name, bool in_reverse, const char *model, const char *data,
                         const char *const *more)
{
    const char *out = join(folder, name);
    reversed = in_reverse;
    remove_tree(out);
    train_to_the_end(LISTS(ARGS("--model", model, "--train-data", data, "--output-dir", out, "--max-steps", "3"),
                           ARGS("--batch-size", "4", "--learning-rate", "1e-3", "--init-from-config", "true"),
                           ARGS("--device", "cpu", "--threads", "1"), more));
    return out;
}

static void in_any_order(void **state)
{
    (void)state;
    static const struct {
        const char *options[9];
        enum op ops[2]; /* that must have run together */
    } cases[] = {
        {{"--max-grad-norm", "1"}, {OP_adamw, OP_sumsq}},
        {{"--max-grad-norm", "0"}, {OP_adamw, OP_adamw}},
        {{"--dtype", "bf16", "--weight-copies", "resident", "--gradient-accumulation-steps", "2"}, {OP_adamw, OP_cast}},
        {{"--dtype", "bf16", "--weight-copies", "transient", "--gradient-checkpointing", "true"}, {OP_adamw, OP_sumsq}},
        {{"--optim", "sgd", "--dtype", "bf16", "--max-grad-norm", "0"}, {OP_sgd, OP_sgd}},
        {{"--optim", "adafactor", "--max-grad-norm", "0"}, {OP_adafactor, OP_adafactor}},
        {{"--optim", "adafactor", "--dtype", "bf16", "--gradient-accumulation-steps", "2"}, {OP_adafactor, OP_sumsq}},
        {{"--optim", "adamw_bnb_8bit", "--optim-args", "min_8bit_size=16"}, {OP_adamw8bit, OP_sumsq}},
    };
    const char *models[] = {make_deeper(folder, "golden/trainer/init", 3), make_deeper(folder, "golden/gpt2", 2)};
    const char *data[] = {make_rows(folder, 29, 12, 1, true), make_rows(folder, 40, 12, 3, false)};
    for (int m = 0; m < 2; m++)
        for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
            memset(groups, 0, sizeof groups);
            const char *plain = train("plain", false, models[m], data[m], cases[i].options);
            const char *other = train("reversed", true, models[m], data[m], cases[i].options);
            for (int k = 0; k < 2; k++)
                if (groups[cases[i].ops[k]] == 0)
                    fail_msg("case %zu: no two %s ran together", i, op_table[cases[i].ops[k]].name);
            assert_true(same_bytes(join(plain, "model.safetensors"), join(other, "model.safetensors")));
        }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(in_any_order)};
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
