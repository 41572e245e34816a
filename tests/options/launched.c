/* options/launched: what launchers say of a process. The variables are those that their documentation names. */
#include "options/launched.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

/* NAME=VALUE, until NULL. */
static const char *const *environment;

static char *variable(const char *name)
{
    size_t n = strlen(name);
    for (const char *const *v = environment; *v; v++)
        if (!strncmp(*v, name, n) && (*v)[n] == '=')
            return (char *)(uintptr_t)(*v + n + 1);
    return NULL;
}

static void launchers_say_who_is_who(void **state)
{
    (void)state;
    static const struct {
        const char *const variables[8];
        int n, me;
        const char *at;
    } known[] = {
        {{"RANK=3", "WORLD_SIZE=8", "MASTER_ADDR=node1", "MASTER_PORT=1234"}, 8, 3, "node1:1234"},
        /* torchrun, whose agent listens on MASTER_PORT itself */
        {{"RANK=0", "WORLD_SIZE=2", "MASTER_ADDR=::1", "MASTER_PORT=1234", "TORCHELASTIC_USE_AGENT_STORE=True"},
         2,
         0,
         "::1:1235"},
        {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=4"}, 4, 1, "127.0.0.1:29500"},
        {{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2", "MASTER_ADDR=a"},
         4,
         1,
         "a:29500"},
        {{"PMI_RANK=1", "PMI_SIZE=2", "MPI_LOCALNRANKS=2"}, 2, 1, "127.0.0.1:29500"},
        {{"SLURM_PROCID=5", "SLURM_STEP_NUM_TASKS=16", "SLURM_STEP_NODELIST=gpu[03-05,09],login"},
         16,
         5,
         "gpu03:29500"},
        /* the script of sbatch, which is one process */
        {{"SLURM_PROCID=0", "SLURM_NTASKS=16", "SLURM_NODELIST=gpu[03-05]"}, 1, 0, NULL},
        {{"RANK=0", "WORLD_SIZE=1", "MASTER_ADDR=node1"}, 1, 0, NULL},
        {{"WORLD_SIZE=4"}, 1, 0, NULL},
        {{NULL}, 1, 0, NULL}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct options o;
        options_init(&o, CMD_TRAIN);
        environment = known[i].variables;
        assert_int_equal(options_launched(&o, variable, NULL), SNUG_OK);
        assert_int_equal(o.num_processes, known[i].n);
        assert_int_equal(o.process_index, known[i].me);
        if (known[i].at)
            assert_string_equal(o.main_process, known[i].at);
        else
            assert_null(o.main_process);
        options_free(&o);
    }
}

/* What is typed goes before what the environment says. */
static void what_is_typed_goes_before(void **state)
{
    (void)state;
    struct options o;
    char *const argv[] = {(char[]){"--num-processes"}, (char[]){"1"}};
    options_init(&o, CMD_TRAIN);
    environment = (const char *const[]){"RANK=3", "WORLD_SIZE=8", "MASTER_ADDR=node1", NULL};
    assert_int_equal(options_launched(&o, variable, NULL), SNUG_OK);
    assert_int_equal(options_parse(&o, &io_posix, 2, argv, NULL, NULL), SNUG_OK);
    assert_int_equal(o.num_processes, 1);
    options_free(&o);
}

static void what_cannot_be_is_refused(void **state)
{
    (void)state;
    static const struct {
        const char *const variables[6];
        const char *says;
    } wrong[] = {{{"OMPI_COMM_WORLD_RANK=1", "OMPI_COMM_WORLD_SIZE=4", "OMPI_COMM_WORLD_LOCAL_SIZE=2"},
                  "MASTER_ADDR: is not set, and mpirun does not say on which host rank 0 is"},
                 {{"RANK=1", "WORLD_SIZE=4"}, "MASTER_ADDR: is not set, and torchrun does not say"},
                 {{"RANK=1", "WORLD_SIZE=4", "MASTER_ADDR=a", "MASTER_PORT=http"}, "MASTER_PORT: 'http' is no port"},
                 {{"RANK=x", "WORLD_SIZE=4", "MASTER_ADDR=a"}, "RANK: 'x' is not a whole number"},
                 {{"RANK=1", "WORLD_SIZE=5000", "MASTER_ADDR=a"}, "WORLD_SIZE: '5000' is out of range"}};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        struct options o;
        struct snug_err err;
        options_init(&o, CMD_TRAIN);
        environment = wrong[i].variables;
        assert_int_not_equal(options_launched(&o, variable, &err), SNUG_OK);
        if (!strstr(err.text, wrong[i].says))
            fail_msg("\"%s\" is not in: %s", wrong[i].says, err.text);
        options_free(&o);
    }
}

static void the_first_host_of_a_list(void **state)
{
    (void)state;
    static const char *const lists[][2] = {{"node", "node"},
                                           {"a,b", "a"},
                                           {"gpu[1-4]", "gpu1"},
                                           {"gpu[007,009-011]x", "gpu007x"},
                                           {"r1[02-03],r2[1]", "r102"},
                                           {"n[3]-ib,n9", "n3-ib"},
                                           {"", NULL},
                                           {"gpu[", NULL},
                                           {"gpu[a]", NULL},
                                           {"r[1-2]n[3-4]", NULL}};
    for (size_t i = 0; i < sizeof lists / sizeof *lists; i++) {
        char host[64];
        bool found = launched_first_host(lists[i][0], host, sizeof host);
        assert_int_equal(found, lists[i][1] != NULL);
        if (found)
            assert_string_equal(host, lists[i][1]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(launchers_say_who_is_who), cmocka_unit_test(what_is_typed_goes_before),
        cmocka_unit_test(what_cannot_be_is_refused), cmocka_unit_test(the_first_host_of_a_list)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
