/* Compiling with memory that runs out, at each chunk of an arena. */
#include "compile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h>

/* Refuses one chunk of an arena (64 KiB and a header), the k-th. */
struct chunks {
    long k, n;
};

static void *refuse_chunk(void *ctx, void *p, size_t bytes)
{
    struct chunks *c = ctx;
    bool chunk = !p && bytes > 1 << 16 && bytes <= (1 << 16) + 64;
    return chunk && ++c->n == c->k ? NULL : realloc(p, bytes);
}

static void plain_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

/* Names fill chunks as they come: with one layer more, another name is the first in its chunk. A compile that is refused
 * a chunk says so, and does not go on without the name. */
static void memory_that_runs_out_is_an_error(void **state)
{
    (void)state;
    char path[512];
    struct model_config model;
    struct snug_err err;
    snprintf(path, sizeof path, "%s/tests/golden/bert/config.json", getenv("SNUG_SOURCE"));
    json_t *config = json_load_file(path, 0, NULL);
    if (model_config_read(config, path, &model, &err))
        fail_msg("%s", err.text);
    model.problem = PROBLEM_SINGLE_LABEL;
    struct compile_settings s = {.model = &model,
                                 .backend = backend_cpu(),
                                 .threads = 2,
                                 .precision = {.wide = DT_F32, .narrow = DT_BF16, .narrow_grads = true},
                                 .train = true,
                                 .update = {.optimizer = OPTIM_ADAMW_8BIT, .max_grad_norm = 1, .state_type = DT_F32}};
    const struct choices choices = {
        .micro = {.T = 60, .B = 7}, .accumulation = 1, .recompute_every_n = 3, .copies = true};
    for (model.layers = 10; model.layers < 30; model.layers++) {
        bool hit = true;
        for (long k = 1; hit; k++) {
            struct plan plan = {0};
            struct programs where;
            struct chunks chunks = {.k = k};
            struct mem_ops ops = {.realloc = refuse_chunk, .free = plain_free, .ctx = &chunks};
            mem_set_ops(&ops);
            int code = compile_run(&s, &choices, &plan, &where, &err);
            hit = chunks.n >= k;
            if (code != (hit ? SNUG_ERR_ENV : SNUG_OK))
                fail_msg("%lld layers, chunk %ld: code %d", (long long)model.layers, k, code);
            plan_free(&plan);
            mem_set_ops(NULL);
        }
    }
    json_decref(config);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(memory_that_runs_out_is_an_error),
    };
    return cmocka_run_group_tests_name("graph-memory", tests, NULL, NULL);
}
