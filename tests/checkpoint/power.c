/* Checkpoints when the power fails (after ALICE, Pillai et al., OSDI 2014). A session is recorded: every write,
 * rename, fsync and so on, and when a checkpoint was reported complete. Then the disk as it may look after a crash is
 * made, many times. What was fsynced is there. Of what was not, any part may be: any subset of the pending changes of a
 * folder, any subset of the pending writes of a file, each whole or torn, with zeros where a file grew. In every state
 * the newest checkpoint that had been reported complete, or a later one, must be found and must load. */
#include "power_record.h"

static void on_note(void *ctx, const char *line)
{
    (void)ctx;
    long step;
    if (sscanf(line, "checkpoint of step %ld complete", &step) == 1)
        LOCKED(add_op(OP_COMPLETE)->step = step);
}

/* ---- The disk after a crash. */

static uint64_t seed;

static uint32_t random_below(uint32_t n)
{
    seed += 0x9E3779B97F4A7C15u; /* splitmix64 */
    uint64_t z = (seed ^ seed >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return (uint32_t)((z ^ z >> 31) % n);
}

static void write_to(struct inode *f, const struct op *op, size_t bytes)
{
    assert_true(op->at + bytes <= MAX_BYTES);
    memcpy(f->data + op->at, op->data, bytes);
    if (op->at + bytes > f->bytes)
        f->bytes = op->at + bytes;
}

static void resize(struct inode *f, size_t bytes)
{
    assert_true(bytes <= MAX_BYTES);
    if (bytes > f->bytes)
        memset(f->data + f->bytes, 0, bytes - f->bytes);
    f->bytes = bytes;
}

static void apply(struct inode *disk, const struct op *op, bool torn)
{
    switch (op->kind) {
    case OP_ADD:
        set_entry(&disk[op->dir], op->name, op->ino);
        break;
    case OP_REMOVE:
        drop_entry(&disk[op->dir], op->name);
        break;
    case OP_RENAME:
        drop_entry(&disk[op->dir], op->name);
        set_entry(&disk[op->dir], op->to, op->ino);
        break;
    case OP_WRITE:
        if (torn) { /* the size is known already, of the bytes only a part */
            if (op->at + op->bytes > disk[op->ino].bytes)
                resize(&disk[op->ino], op->at + op->bytes);
            write_to(&disk[op->ino], op, random_below((uint32_t)op->bytes));
        } else {
            write_to(&disk[op->ino], op, op->bytes);
        }
        break;
    case OP_SIZE:
        resize(&disk[op->ino], op->at);
        break;
    default:
        break;
    }
}

static bool changes_folder(const struct op *op)
{
    return op->kind <= OP_RENAME;
}

/* Is op i on the disk for certain when the power fails before op `crash`? */
static bool is_durable(int i, int crash)
{
    int ino = changes_folder(&rec.ops[i]) ? rec.ops[i].dir : rec.ops[i].ino;
    for (int s = i + 1; s < crash; s++)
        if (rec.ops[s].kind == OP_SYNC && rec.ops[s].ino == ino)
            return true;
    return false;
}

/* keep: of 100 pending changes so many survive; over 100 all do, whole. */
static void crash_disk(struct inode *disk, int crash, uint32_t keep)
{
    for (int i = 0; i < rec.n_inodes; i++) {
        disk[i] = (struct inode){.folder = rec.live[i].folder};
        memcpy(disk[i].target, rec.live[i].target, sizeof disk[i].target);
    }
    for (int i = 0; i < crash; i++) {
        const struct op *op = &rec.ops[i];
        if (op->kind == OP_SYNC || op->kind == OP_COMPLETE)
            continue;
        if (is_durable(i, crash) || keep > 100)
            apply(disk, op, false);
        else if (random_below(100) < keep)
            apply(disk, op, random_below(3) == 0);
    }
}

static void make_real(const struct inode *disk, int ino, const char *path)
{
    for (int i = 0; i < disk[ino].n_entries; i++) {
        const struct entry *e = &disk[ino].entries[i];
        const struct inode *n = &disk[e->ino];
        char to[300];
        snprintf(to, sizeof to, "%s/%s", path, e->name);
        if (n->folder) {
            assert_int_equal(mkdir(to, 0777), 0);
            make_real(disk, e->ino, to);
        } else if (n->target[0]) {
            assert_int_equal(symlink(n->target, to), 0);
        } else {
            int fd = open(to, O_WRONLY | O_CREAT | O_EXCL, 0666);
            assert_true(fd >= 0);
            assert_int_equal(write(fd, n->data, n->bytes), n->bytes);
            close(fd);
        }
    }
}

/* The newest step reported before op `crash`, 0: none. */
static long reported_before(int crash)
{
    long step = 0;
    for (int i = 0; i < crash; i++)
        if (rec.ops[i].kind == OP_COMPLETE)
            step = rec.ops[i].step;
    return step;
}

/* A folder that is being deleted has lost its name before it loses its files. */
static void assert_no_half_folder(const char *dir, const struct inode *disk, int crash)
{
    for (int i = 0; i < disk[0].n_entries; i++) {
        const struct entry *e = &disk[0].entries[i];
        struct ckpt_found found;
        struct snug_err err = {0};
        if (strncmp(e->name, "step-", 5) || !disk[e->ino].n_entries)
            continue;
        if (ckpt_find(&io_posix, in(dir, e->name), 0, (struct ckpt_notes){0}, &found, &err))
            fail_msg("power lost before call %d: %s", crash, err.text);
        ckpt_found_free(&found);
    }
}

/* A checkpoint records how long the log is: so far it is on the disk. */
static void assert_logged(const char *dir, int64_t steps)
{
    struct stat st;
    size_t n, at = 0;
    if (stat(in(dir, "log.jsonl"), &st) < 0) {
        assert_int_equal(steps, 0);
        return;
    }
    char *text = read_text(in(dir, "log.jsonl"), &n), line[32];
    for (int64_t step = 1; step <= steps; step++) {
        at += (size_t)snprintf(line, sizeof line, "line of step %lld\n", (long long)step);
        if (at > n || memcmp(text + at - strlen(line), line, strlen(line)) != 0)
            fail_msg("step %lld was found, but not its line", (long long)step);
    }
    free(text);
}

static void check_state(struct inode *disk, int crash, uint32_t keep, uint64_t at_seed)
{
    char dir[64];
    struct ckpt_found found;
    struct ckpt_dir lock;
    struct snug_err err = {0};
    long reported = reported_before(crash);
    make_folder(dir);
    make_real(disk, 0, dir);
    int code = ckpt_find(&io_posix, dir, reported ? 0 : CKPT_AUTO, (struct ckpt_notes){0}, &found, &err);
    if (code || found.step < reported)
        fail_msg("power lost before call %d of %d, %u %% kept, seed %llu: step %ld was reported, found %lld: %s", crash,
                 rec.n_ops, keep, (unsigned long long)at_seed, reported, (long long)found.step, err.text);
    if (found.path)
        assert_loads(&found);
    assert_logged(dir, found.path ? found.step : 0);
    ckpt_found_free(&found);
    assert_no_half_folder(dir, disk, crash);
    /* And the next run can start: nothing left behind stands in its way. */
    struct faulty plain;
    faulty_init(&plain);
    if (ckpt_dir_open(&plain.io, dir, CKPT_RESUME, NULL, NULL, 0, (struct ckpt_notes){0}, &lock, &err))
        fail_msg("power lost before call %d: the next start: %s", crash, err.text);
    assert_int_equal(count_names(dir, ".tmp-") + count_names(dir, ".trash-"), 0);
    ckpt_dir_close(&lock);
    remove_tree(dir);
}

/* Steps 1 to 5, a line of a log before each, two kept, one of them saved a second time over a damaged folder. */
static void record_session(void)
{
    struct ckpt_dir dir;
    struct ckpt_notes notes = {on_note, NULL};
    struct ckpt_config config = {.output_dir = rec.out, .synced_file = "log.jsonl", .total_limit = 2, .notes = notes};
    struct ckpt_saver *saver;
    struct ckpt_tensor tensors[TINY_TENSORS];
    struct tiny t;
    assert_int_equal(ckpt_dir_open(&rec.io, rec.out, CKPT_FRESH, NULL, NULL, 0, notes, &dir, NULL), 0);
    config.io = dir.io, config.folder = dir.folder;
    assert_int_equal(ckpt_saver_new(&config, &saver, NULL), 0);
    tiny_start(&t);
    tiny_tensors(&t, tensors);
    int log = dir.io->open(dir.io, in(rec.out, "log.jsonl"), O_WRONLY | O_CREAT, 0666);
    int64_t bytes = 0;
    assert_true(log >= 0);
    assert_int_equal(io_fsync_dir(dir.io, rec.out, NULL), 0);
    while (t.step < 5) {
        char line[32];
        tiny_step(&t);
        size_t n = (size_t)snprintf(line, sizeof line, "line of step %lld\n", (long long)t.step);
        assert_int_equal(io_write_at(dir.io, log, "log", line, n, bytes, NULL), 0);
        bytes += (int64_t)n;
        if (t.step == 4)
            assert_int_equal(rec.io.mkdir(&rec.io, in(rec.out, "step-00000004"), 0777), 0);
        json_t *doc = tiny_state(&t);
        assert_int_equal(ckpt_save_begin(saver, t.step, -1, tensors, TINY_TENSORS, doc, NULL), 0);
        json_decref(doc);
        assert_int_equal(ckpt_save_wait(saver, NULL), 0);
    }
    ckpt_saver_free(saver);
    close(log);
    ckpt_dir_close(&dir);
    assert_int_equal(reported_before(rec.n_ops), 5);
}

static void every_crash_state_is_good(void **state)
{
    (void)state;
    static struct inode disk[MAX_INODES];
    make_folder(rec.out);
    rec.io = io_posix;
    rec.io.open = rec_open;
    rec.io.pwrite = rec_pwrite;
    rec.io.fallocate = rec_fallocate;
    rec.io.ftruncate = rec_ftruncate;
    rec.io.fsync = rec_fsync;
    rec.io.rename = rec_rename;
    rec.io.rename_new = rec_rename_new;
    rec.io.mkdir = rec_mkdir;
    rec.io.rmdir = rec_rmdir;
    rec.io.unlink = rec_unlink;
    rec.io.symlink = rec_symlink;
    rec.live[0].folder = true;
    rec.n_inodes = 1;
    pthread_mutex_init(&rec.lock, NULL);
    record_session();
    const char *wanted = getenv("SNUG_TEST_SEED");
    seed = wanted ? strtoull(wanted, NULL, 10) : 1;
    print_message("seed %llu\n", (unsigned long long)seed);
    long states = 0;
    for (int crash = 0; crash <= rec.n_ops; crash++)
        for (int i = 0; i < STATES_A_POINT; i++, states++) {
            static const uint32_t keeps[8] = {0, 101, 10, 30, 50, 70, 90, 95};
            uint64_t at_seed = seed;
            crash_disk(disk, crash, keeps[i % 8]);
            check_state(disk, crash, keeps[i % 8], at_seed);
        }
    print_message("%ld crash states of %d calls\n", states, rec.n_ops);
    remove_tree(rec.out);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_crash_state_is_good),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
