/* --offload-optimizer disk: states in a file change no bit, on any number of ranks, and the plan knows where every byte is. */
#include "processes.h"

#include <linux/magic.h>
#include <sys/vfs.h>

/* A folder on a disk: the tests' own may lie in memory. NULL: there is none. And a model most of whose states are large enough for it. */
static const char *disk, *wide;

static json_t *summary(void)
{
    size_t n;
    char *text = read_text(said(), &n);
    json_t *o = json_loads(strstr(text, "{\"first_step\""), JSON_DISABLE_EOF_CHECK, NULL);
    free(text);
    assert_non_null(o);
    return o;
}

static double summed(const char *name)
{
    json_t *o = summary();
    double x = number(o, name);
    json_decref(o);
    return x;
}

/* Whether this machine has such a disk; says so where it has not. */
static bool has_disk(void)
{
    if (!disk)
        print_message("skipped: neither the tests' folder nor this one is on a disk\n");
    return disk;
}

#define WIDE "--init-from-config", "--model", wide, "--train-data", rows, "--learning-rate", "1e-3"
#define STEPS "--json", "--max-steps", "5", "--save-steps", "2", "--logging-steps", "1"
#define ON_DISK "--offload-optimizer", "disk", "--offload-dir", disk

/* Of states that are as large as their weight, factored, in codes; clipped or updated by layer; accumulated; of some weights. */
static void states_on_disk_have_the_same_bits(void **state)
{
    (void)state;
    const char *const *const ways[] = {
        ARGS("--batch-size", "4"),
        ARGS("--batch-size", "4", "--max-grad-norm", "0"),
        ARGS("--batch-size", "2", "--gradient-accumulation-steps", "2", "--optim", "ademamix"),
        ARGS("--batch-size", "4", "--optim", "muon", "--freeze", "*.self.query.*"),
        ARGS("--batch-size", "4", "--optim", "schedule_free_adamw"),
    };
    for (int d = 0; d < n_devices() && has_disk(); d++)
        for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
            const char *near = train("near", device(d), ARGS(WIDE, STEPS, "--offload-optimizer", "none"), ways[i]);
            double arena = summed("arena_bytes"), copy = summed("checkpoint_bytes");
            assert_true(summed("disk_bytes") == 0);
            const char *far = train("far", device(d), ARGS(WIDE, STEPS, ON_DISK), ways[i]);
            double bytes = summed("disk_bytes"), here = summed("arena_bytes");
            assert_true(bytes > 0 && here < arena && (!is_host(device(d)) || here + bytes == arena));
            assert_true(is_host(device(d)) ? summed("checkpoint_bytes") == 0
                                           : summed("checkpoint_bytes") <= copy - bytes);
            assert_same_run(near, far);
            const char *back = train("back", device(d),
                                     ARGS(WIDE, STEPS, "--offload-optimizer", "none", "--resume-from-checkpoint",
                                          join(far, "step-00000002"), "--require-bitexact"),
                                     ways[i]);
            assert_true(same_bytes(join(near, "model.safetensors"), join(back, "model.safetensors")));
            const char *forth = train("forth", device(d),
                                      ARGS(WIDE, STEPS, ON_DISK, "--resume-from-checkpoint",
                                           join(near, "step-00000002"), "--require-bitexact"),
                                      ways[i]);
            assert_true(same_bytes(join(near, "model.safetensors"), join(forth, "model.safetensors")));
        }
}

/* Threads and processes each have a file of their own, with all states or with those of their weights. */
static void ranks_have_files_of_their_own(void **state)
{
    (void)state;
    const struct device *on = a_device();
    for (int stage = 0; stage < 3 && has_disk(); stage++) {
        const char *number = stage == 0 ? "0" : stage == 1 ? "1" : "3";
        const char *const *way = ranks(on, 2, ARGS("--batch-size", "4", "--zero-stage", number));
        const char *near = train("near", on, ARGS(WIDE, STEPS), way);
        const char *far = train("far", on, ARGS(WIDE, STEPS, ON_DISK), way);
        assert_same_run(near, far);
        if (!is_host(on) && backend_cuda_count() < 2)
            continue;
        struct processes_run r = start_processes(
            2, ARGS("train", "--output-dir", join(folder, "processes"), "--device", on->name, "--dtype", on->dtype,
                    "--log-hash", "--threads", "1", WIDE, STEPS, ON_DISK, "--batch-size", "4", "--zero-stage", number));
        processes_wait(&r);
        assert_true(r.status[0] == 0 && r.status[1] == 0);
        assert_same_run(near, join(folder, "processes"));
        remove_tree(join(folder, "processes"));
    }
}

/* What the disk has not is known before anything is made; a plan for a GPU that is elsewhere asks no disk here. */
static void a_disk_that_will_not_do_is_refused(void **state)
{
    (void)state;
    const char *const *run = ARGS("train", WIDE, "--output-dir", join(folder, "refused"), "--max-steps", "1");
    expect_snug(2, said(), run, ARGS("--offload-optimizer", "disk"));
    assert_true(file_has(said(), "--offload-optimizer disk: no folder is given; add --offload-dir DIR"));
    expect_snug(2, said(), run, ARGS("--offload-dir", folder));
    assert_true(file_has(said(), "--offload-dir: no effect with --offload-optimizer auto"));
    expect_snug(3, said(), run, ARGS("--offload-optimizer", "disk", "--offload-dir", join(folder, "absent")));
    assert_true(file_has(said(), "there is no such folder; make it, or give another"));
    expect_snug(3, said(), run, ARGS("--offload-optimizer", "disk", "--offload-dir", rows));
    assert_true(file_has(said(), "there is no such folder; make it, or give another"));
    struct statfs fs;
    if (!statfs("/dev/shm", &fs) && fs.f_type == TMPFS_MAGIC) {
        expect_snug(2, said(), run, ARGS("--offload-optimizer", "disk", "--offload-dir", "/dev/shm"));
        assert_true(file_has(said(), "lies in memory; give a folder on a disk"));
    }
    assert_true(access(join(folder, "refused"), F_OK) != 0);
    expect_snug(0, said(),
                ARGS("plan", "--json", "--gpu", "rtx3090", "--model", fixture("../bench/models/llama-3.1-8b"),
                     "--train-data", "synthetic:8x512", "--batch-size", "1", "--max-steps", "4"),
                ARGS("--pure-bf16", "--offload-optimizer", "disk", "--offload-dir", "/absent"));
    assert_true(file_has(said(), "\"disk_bytes\":32"));
}

/* Of an adapter, whose states are small, nothing is in a file, and a note says so. */
static void small_states_stay_in_memory(void **state)
{
    (void)state;
    if (!has_disk())
        return;
    train("small", device(0), ARGS(WIDE, STEPS, ON_DISK), ARGS("--batch-size", "4", "--use-peft", "--lora-r", "2"));
    assert_true(summed("disk_bytes") == 0);
    assert_true(file_has(said(), "no optimizer state is large enough for a file; all stay in memory"));
}

/* A run that does not fit is told that it would with a disk. */
static void a_refusal_names_the_disk(void **state)
{
    (void)state;
    expect_snug(4, said(),
                ARGS("plan", "--device", "cpu", "--init-from-config", "--model", fixture("../bench/models/bert-large"),
                     "--train-data", "synthetic:8x64", "--batch-size", "1", "--max-steps", "4"),
                ARGS("--memory-budget", "3GiB", "--recompute", "off"));
    assert_true(file_has(said(), "with --offload-optimizer disk --offload-dir DIR: 2."));
    assert_true(file_has(said(), "it fits with --offload-optimizer disk --offload-dir DIR"));
}

static int open_disk(void **state)
{
    static char here[] = "offload-XXXXXX";
    struct statfs fs;
    set_up(state);
    wide = join(folder, "wide");
    assert_int_equal(mkdir(wide, 0700), 0);
    write_text(wide, "config.json",
               "{\"model_type\": \"bert\", \"architectures\": [\"BertForSequenceClassification\"], \"vocab_size\": 80, "
               "\"hidden_size\": 64, \"num_hidden_layers\": 2, \"num_attention_heads\": 4, \"intermediate_size\": 128, "
               "\"max_position_embeddings\": 64}");
    if (!statfs(folder, &fs) && fs.f_type != TMPFS_MAGIC)
        disk = folder;
    else if (!statfs(".", &fs) && fs.f_type != TMPFS_MAGIC)
        disk = mkdtemp(here);
    return 0;
}

static int close_disk(void **state)
{
    if (disk && disk != folder)
        rmdir(disk);
    return close_folder(state);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(states_on_disk_have_the_same_bits),  cmocka_unit_test(ranks_have_files_of_their_own),
        cmocka_unit_test(a_disk_that_will_not_do_is_refused), cmocka_unit_test(small_states_stay_in_memory),
        cmocka_unit_test(a_refusal_names_the_disk),
    };
    return cmocka_run_group_tests_name("disk", tests, open_disk, close_disk);
}
