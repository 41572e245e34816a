/* data/token_cache: the second run reads what the first one made, and nothing that anybody did to the file in between
 * reaches a batch. */
#include "data/token_cache.h"
#include "../folder.h"
#include "base/cache_dir.h"
#include "data/dataset.h"
#include "tokenizer/tokenizer.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

static char dir[64], data[96], cache[96];
static struct tokenizer *tokenizer;
static char notes[4096];

static void note(void *ctx, const char *line)
{
    (void)ctx;
    snprintf(notes + strlen(notes), sizeof notes - strlen(notes), "%s\n", line);
}

static struct dataset_options options(enum data_task task)
{
    return (struct dataset_options){
        .path = data, .task = task, .tokenizer = tokenizer, .max_length = 8, .cache_dir = cache, .note = note};
}

static struct dataset opened(const struct io *io, const struct dataset_options *o)
{
    struct dataset d;
    struct snug_err e;
    notes[0] = 0;
    if (dataset_open(io, o, &d, &e))
        fail_msg("%s", e.text);
    return d;
}

static void write_data(const char *text)
{
    struct snug_err e;
    assert_int_equal(io_write_file(&io_posix, data, text, strlen(text), &e), 0);
}

/* The cache's only file, or the n-th of them; false when there are fewer. */
static bool cache_file(char path[512], int n)
{
    DIR *folder = opendir(cache);
    struct dirent *entry;
    bool found = false;
    while (folder && !found && (entry = readdir(folder)))
        if (entry->d_name[0] != '.' && n-- == 0) {
            snprintf(path, 512, "%s/%s", cache, entry->d_name);
            found = true;
        }
    if (folder)
        closedir(folder);
    return found;
}

static void empty_cache(void)
{
    char path[512];
    while (cache_file(path, 0))
        unlink(path);
}

static void check_same(const struct dataset *a, const struct dataset *b)
{
    assert_int_equal(a->task, b->task);
    assert_int_equal(a->n_rows, b->n_rows);
    assert_int_equal(a->n_tokens, b->n_tokens);
    assert_int_equal(a->longest, b->longest);
    assert_int_equal(a->max_id, b->max_id);
    assert_int_equal(a->max_type, b->max_type);
    assert_int_equal(a->truncated, b->truncated);
    assert_int_equal(a->empty, b->empty);
    assert_int_equal(a->num_labels, b->num_labels);
    assert_int_equal(a->label_form, b->label_form);
    assert_int_equal(a->labels.n, b->labels.n);
    assert_int_equal(a->labels.numbers, b->labels.numbers);
    assert_int_equal(a->labels.from_data, b->labels.from_data);
    for (int32_t i = 0; i < a->labels.n; i++)
        assert_string_equal(a->labels.names[i], b->labels.names[i]);
    assert_memory_equal(&a->fingerprint, &b->fingerprint, sizeof a->fingerprint);
    assert_memory_equal(a->offsets, b->offsets, (size_t)(a->n_rows + 1) * sizeof *a->offsets);
    assert_memory_equal(a->ids, b->ids, (size_t)a->n_tokens * sizeof *a->ids);
    assert_int_equal(a->types != NULL, b->types != NULL);
    assert_int_equal(a->classes != NULL, b->classes != NULL);
    assert_int_equal(a->values != NULL, b->values != NULL);
    if (a->types)
        assert_memory_equal(a->types, b->types, (size_t)a->n_tokens);
    if (a->classes)
        assert_memory_equal(a->classes, b->classes, (size_t)a->n_rows * sizeof *a->classes);
    if (a->values)
        assert_memory_equal(a->values, b->values, (size_t)(a->n_rows * a->num_labels) * sizeof *a->values);
}

static void second_run_recalls_the_first(void **state)
{
    (void)state;
    static const struct {
        enum data_task task;
        const char *text;
    } cases[] = {
        {TASK_CLASS, "text,label\nworld,b\n,a\nworld world world world world world world world,b\n"},
        {TASK_CLASS, "text,label\nworld,1\nice,0\n"},
        {TASK_CLASS, "sentence1,sentence2,label\nworld,ice,b\ncream,un,a\n"},
        {TASK_REGRESSION, "text,label\nworld,1.5\nice,-2\n"},
        {TASK_MULTI_LABEL, "text,label\nworld,b;a\nice,c\n"},
        {TASK_CAUSAL_LM, "text\nworld\nice\n"},
        {TASK_UNLABELED, "text\nworld\nice\n"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        empty_cache();
        write_data(cases[i].text);
        struct dataset_options o = options(cases[i].task), uncached = o;
        char path[512], first_notes[sizeof notes];
        uncached.cache_dir = "";
        struct dataset fresh = opened(&io_posix, &uncached), first = opened(&io_posix, &o);
        memcpy(first_notes, notes, sizeof notes);
        assert_true(cache_file(path, 0));
        assert_false(cache_file(path, 1)); /* no temporary file either */
        struct dataset second = opened(&io_posix, &o);
        assert_non_null(second.block);
        assert_string_equal(notes, first_notes); /* what there is to say is said each time */
        check_same(&fresh, &first);
        check_same(&fresh, &second);
        dataset_close(&fresh);
        dataset_close(&first);
        dataset_close(&second);
    }
}

static void whatever_changes_the_tokens_changes_the_file(void **state)
{
    (void)state;
    empty_cache();
    write_data("text,other,label\nworld,ice,b\nice,un,a\n");
    int n = 0;
    char path[512];
    struct dataset_options o = options(TASK_CLASS);
#define CHECK_NEW(change)                                                                                              \
    do {                                                                                                               \
        change;                                                                                                        \
        struct dataset d = opened(&io_posix, &o);                                                                      \
        assert_null(d.block);                                                                                          \
        dataset_close(&d);                                                                                             \
        assert_true(cache_file(path, n++));                                                                            \
    } while (0)
    CHECK_NEW((void)0);
    CHECK_NEW(o.max_length = 7);
    CHECK_NEW(o.text_column = "other");
    CHECK_NEW(o.text_pair_column = "text");
    CHECK_NEW(o.task = TASK_MULTI_LABEL);
    CHECK_NEW(o.task = TASK_UNLABELED);
    CHECK_NEW(write_data("text,other,label\nworld,ice,b\nice,un,c\n"));
#undef CHECK_NEW
    o.threads = 3; /* nor do threads or the time of the file matter */
    struct dataset d = opened(&io_posix, &o);
    assert_non_null(d.block);
    dataset_close(&d);
}

static char *read_cache(size_t *n)
{
    char path[512], *bytes;
    struct snug_err e;
    assert_true(cache_file(path, 0));
    assert_int_equal(io_read_file(&io_posix, path, 1 << 20, &bytes, n, &e), 0);
    return bytes;
}

static void write_cache(const char *bytes, size_t n)
{
    char path[512];
    struct snug_err e;
    assert_true(cache_file(path, 0));
    assert_int_equal(io_write_file(&io_posix, path, bytes, n, &e), 0);
}

/* Every byte changed, every length: made again, with one note, and right. */
static void damage_is_found(void **state)
{
    (void)state;
    empty_cache();
    write_data("sentence1,sentence2,label\nworld,ice,b\ncream,un,a\n");
    struct dataset_options o = options(TASK_CLASS);
    struct dataset good = opened(&io_posix, &o);
    size_t n;
    char *bytes = read_cache(&n);
    assert_in_range(n, 150, 400);
    for (size_t i = 0; i < 2 * n; i++) {
        char *bad = malloc(n);
        memcpy(bad, bytes, n);
        bad[i % n] = (char)(bad[i % n] ^ (i * 37 % 255 + 1));
        write_cache(bad, i < n ? n : i - n);
        struct dataset d = opened(&io_posix, &o);
        const char *said = strstr(notes, "the token cache is made again: ");
        assert_non_null(said);
        assert_null(strstr(said + 1, "the token cache"));
        check_same(&good, &d);
        dataset_close(&d);
        size_t healed_n;
        char *healed = read_cache(&healed_n);
        assert_int_equal(healed_n, n);
        assert_memory_equal(healed, bytes, n);
        mem_free(healed);
        free(bad);
    }
    char *longer = calloc(1, n + 1);
    memcpy(longer, bytes, n);
    write_cache(longer, n + 1);
    struct dataset d = opened(&io_posix, &o);
    assert_non_null(strstr(notes, "made again"));
    check_same(&good, &d);
    dataset_close(&d);
    free(longer);
    mem_free(bytes);
    dataset_close(&good);
}

/* Two rows of three tokens each; what comes behind their offsets and ids is the labels. */
enum {
    CHECKSUM = 24,
    N_ROWS = 40,
    TRUNCATED = 80,
    EMPTY = 88,
    IGNORED = 96,
    TASK = 104,
    FORM = 108,
    NUM_LABELS = 112,
    HEADER = 120
};
enum { IDS = HEADER + 3 * 8, LABELS = IDS + 6 * 4, NAMES = LABELS + 2 * 4 };

struct forgery {
    size_t at;
    int64_t value;
    size_t width;
};

/* Files with the right checksum and a wrong number: made by somebody else, or by another snug. */
static void check_forgeries(enum data_task task, const char *text, const struct forgery *forged, size_t n_forged)
{
    empty_cache();
    write_data(text);
    struct dataset_options o = options(task);
    struct dataset good = opened(&io_posix, &o);
    size_t n;
    char *bytes = read_cache(&n);
    for (size_t i = 0; i < n_forged; i++) {
        char *bad = malloc(n);
        memcpy(bad, bytes, n);
        memcpy(bad + forged[i].at, &forged[i].value, forged[i].width);
        memset(bad + CHECKSUM, 0, 16);
        struct hash128 sum = hash_bytes(bad, n);
        memcpy(bad + CHECKSUM, &sum, sizeof sum);
        write_cache(bad, n);
        struct dataset d = opened(&io_posix, &o);
        if (!strstr(notes, "made again"))
            fail_msg("forgery %zu of task %d is believed", i, (int)task);
        check_same(&good, &d);
        dataset_close(&d);
        free(bad);
    }
    mem_free(bytes);
    dataset_close(&good);
}

static void forgeries_are_found(void **state)
{
    (void)state;
    enum { INFINITE = 0x7F800000, NAN_BITS = 0x7FC00000, TWO = 0x40000000, BELOW_0 = (int)0xBF800000 };
#define CHECK(task, text, ...)                                                                                         \
    check_forgeries(task, text, (const struct forgery[]){__VA_ARGS__},                                                 \
                    sizeof((const struct forgery[]){__VA_ARGS__}) / sizeof(struct forgery))
    const int32_t vocabulary = tokenizer_vocab_size(tokenizer);
    CHECK(TASK_CLASS, "text,label\nworld,b\nice,a\n", {IDS + 4, vocabulary, 4}, {TRUNCATED, 1, 8}, {TRUNCATED, -1, 8},
          {EMPTY, 3, 8}, {IGNORED, 1, 8}, {NAMES, 'z', 1}, {NAMES + 2, 'a', 1}, {NAMES + 1, 'a', 1},
          {NUM_LABELS + 4, 1, 4});
    CHECK(TASK_CLASS, "text,label\nworld,b\nice,a\n", {N_ROWS, INT64_MAX, 8}, {N_ROWS, 3, 8}, {N_ROWS, -1, 8},
          {NUM_LABELS, -1, 4}, {NUM_LABELS, 1, 4}, {HEADER, 1, 8}, {HEADER + 8, 9, 8}, {HEADER + 16, 7, 8},
          {IDS, -1, 4}, {LABELS, 2, 4}, {LABELS, -1, 4}, {FORM, LABELS_NONE, 4}, {FORM, LABELS_VECTORS, 4},
          {FORM, -1, 4}, {TASK, TASK_AUTO, 4});
    CHECK(TASK_REGRESSION, "text,label\nworld,1\nice,0.5\n", {TASK, TASK_MULTI_LABEL, 4}, {TASK, TASK_CLASS, 4},
          {FORM, LABELS_NUMBERS, 4}, {LABELS, NAN_BITS, 4}, {LABELS + 4, INFINITE, 4});
    CHECK(TASK_MULTI_LABEL, "text,label\nworld,0;1\nice,1;0\n", {TASK, TASK_REGRESSION, 4}, {FORM, 4, 4},
          {LABELS, TWO, 4}, {LABELS + 12, BELOW_0, 4}, {LABELS, NAN_BITS, 4});
    CHECK(TASK_CLASS, "text,label\nworld,1\nice,0\n", {NAMES, '7', 1}, {NAMES + 2, 'x', 1});
    CHECK(TASK_CAUSAL_LM, "text\nworld\nice\n", {TASK, TASK_MASKED_LM, 4}, {TASK, TASK_UNLABELED, 4},
          {FORM, LABELS_NAMES, 4}, {NUM_LABELS, 1, 4});
#undef CHECK
}

/* A file with the right key and checksum, but made with longer rows, other labels or other columns: as if two keys had one
 * hash, or somebody gave a file the name of another. */
static void files_of_other_runs_are_found(void **state)
{
    (void)state;
    static char *label_names[] = {"a", "b"}, *other_names[] = {"a", "c"};
    struct label_map given = {.n = 2, .names = label_names}, other = {.n = 2, .names = other_names};
    write_data("text,label\nworld world world world world,b\nice,a\n");
    const struct {
        const char *what;
        int32_t max_length, num_labels;
        const struct label_map *labels;
    } runs[] = {{"shorter rows", 6, 0, NULL}, {"three labels", 8, 3, NULL}, {"other labels", 8, 0, &other}};
    struct columns columns = {.n_labels = 1};
    struct snug_err why;
    struct dataset_options o = options(TASK_CLASS);
    struct dataset made, d;
    char file[512];
    empty_cache();
    made = opened(&io_posix, &o);
    assert_true(cache_file(file, 0));
    struct hash128 key;
    size_t n;
    char *bytes = read_cache(&n);
    memcpy(&key, bytes + 8, sizeof key);
    mem_free(bytes);
    for (size_t i = 0; i < sizeof runs / sizeof *runs; i++) {
        struct dataset_options run = o;
        run.max_length = runs[i].max_length;
        run.num_labels = runs[i].num_labels;
        run.labels = runs[i].labels;
        if (token_cache_load(&io_posix, file, key, &run, TASK_CLASS, &columns, &d, &why))
            fail_msg("%s: believed", runs[i].what);
        assert_non_null(strstr(why.text, "damaged, or not of this run"));
    }
    o.labels = &given;
    assert_true(token_cache_load(&io_posix, file, key, &o, TASK_CLASS, &columns, &d, &why));
    assert_int_equal(d.n_tokens, made.n_tokens);
    dataset_close(&d);
    dataset_close(&made);
}

static int other_users_fstat(const struct io *io, int fd, struct stat *st)
{
    (void)io;
    int failed = io_posix.fstat(&io_posix, fd, st);
    st->st_uid = geteuid() + 1;
    return failed;
}

static void files_of_other_users_are_not_read(void **state)
{
    (void)state;
    empty_cache();
    write_data("text,label\nworld,b\nice,a\n");
    struct dataset_options o = options(TASK_CLASS);
    struct dataset good = opened(&io_posix, &o);
    struct io io = io_posix;
    io.fstat = other_users_fstat;
    struct dataset d = opened(&io, &o);
    assert_null(d.block);
    assert_non_null(strstr(notes, ".tokens: belongs to another user ("));
    check_same(&good, &d);
    dataset_close(&d);
    dataset_close(&good);
}

static char made_names[2][512];
static int n_made;

static int naming_open(const struct io *io, const char *path, int flags, mode_t mode)
{
    (void)io;
    if (flags & O_CREAT) {
        assert_true(flags & O_EXCL);
        snprintf(made_names[n_made++ % 2], sizeof made_names[0], "%s", path);
    }
    return io_posix.open(&io_posix, path, flags, mode);
}

static void write_old(const char *name, int hours)
{
    char p[512];
    struct snug_err e;
    struct stat now;
    snprintf(p, sizeof p, "%s/%s", cache, name);
    assert_int_equal(io_write_file(&io_posix, p, "x", 1, &e), 0);
    assert_int_equal(stat(p, &now), 0);
    const struct timespec times[2] = {{.tv_sec = now.st_mtim.tv_sec - hours * 3600 - 60},
                                      {.tv_sec = now.st_mtim.tv_sec - hours * 3600 - 60}};
    assert_int_equal(utimensat(AT_FDCWD, p, times, 0), 0);
}

static bool is_there(const char *name)
{
    char p[512];
    snprintf(p, sizeof p, "%s/%s", cache, name);
    return access(p, F_OK) == 0;
}

/* Two stores have two names, which hold the host's; what a dead process left goes after an hour, and nothing else. */
static void temporary_files(void **state)
{
    (void)state;
    char host[256] = "";
    struct dataset_options o = options(TASK_CLASS);
    struct io io = io_posix;
    io.open = naming_open;
    gethostname(host, sizeof host - 1);
    for (int i = 0; i < 2; i++) {
        empty_cache();
        write_data(i ? "text,label\nworld,b\nice,a\n" : "text,label\nworld,b\nice,c\n");
        if (i) {
            write_old("0123.tokens.tmp-77", 1);
            write_old("4567.tokens.tmp-host-77-0123456789abcdef", 30);
            write_old("89ab.tokens.tmp-host-78-0123456789abcdef", 0);
            write_old("cdef.tokens", 30);
            write_old("profile.json", 30);
        }
        struct dataset d = opened(&io, &o);
        dataset_close(&d);
    }
    assert_int_equal(n_made, 2);
    assert_non_null(strstr(made_names[0], host));
    assert_string_not_equal(strstr(made_names[0], ".tmp-"), strstr(made_names[1], ".tmp-"));
    assert_false(is_there("0123.tokens.tmp-77"));
    assert_false(is_there("4567.tokens.tmp-host-77-0123456789abcdef"));
    assert_true(is_there("89ab.tokens.tmp-host-78-0123456789abcdef"));
    assert_true(is_there("cdef.tokens"));
    assert_true(is_there("profile.json"));
}

struct failing {
    int calls, fail_at;
};

static bool fails(const struct io *io)
{
    struct failing *f = io->ctx;
    errno = EIO;
    return f->calls++ == f->fail_at;
}

static int failing_open(const struct io *io, const char *path, int flags, mode_t mode)
{
    return fails(io) ? -1 : io_posix.open(&io_posix, path, flags, mode);
}

static ssize_t failing_pread(const struct io *io, int fd, void *buf, size_t bytes, off_t at)
{
    return fails(io) ? -1 : io_posix.pread(&io_posix, fd, buf, bytes, at);
}

static ssize_t failing_pwrite(const struct io *io, int fd, const void *buf, size_t bytes, off_t at)
{
    return fails(io) ? -1 : io_posix.pwrite(&io_posix, fd, buf, bytes, at);
}

static int failing_fstat(const struct io *io, int fd, struct stat *st)
{
    return fails(io) ? -1 : io_posix.fstat(&io_posix, fd, st);
}

static int failing_rename(const struct io *io, const char *from, const char *to)
{
    return fails(io) ? -1 : io_posix.rename(&io_posix, from, to);
}

static int failing_mkdir(const struct io *io, const char *path, mode_t mode)
{
    return fails(io) ? -1 : io_posix.mkdir(&io_posix, path, mode);
}

/* Every file call fails once, without and with a cache file: the data are right, or the data file itself could not be
 * read, which is an error; never half a cache. */
static void files_fail(void **state)
{
    (void)state;
    write_data("text,label\nworld,b\nice,a\n");
    struct dataset_options o = options(TASK_CLASS), uncached = o;
    uncached.cache_dir = "";
    struct dataset good = opened(&io_posix, &uncached);
    for (int warm = 0; warm < 2; warm++) {
        struct failing f = {0};
        bool failed = true;
        for (; failed; f.fail_at++) {
            struct io io = io_posix;
            io.open = failing_open;
            io.pread = failing_pread;
            io.pwrite = failing_pwrite;
            io.fstat = failing_fstat;
            io.rename = failing_rename;
            io.mkdir = failing_mkdir;
            io.ctx = &f;
            empty_cache();
            struct dataset d;
            if (warm) {
                d = opened(&io_posix, &o);
                dataset_close(&d);
            }
            f.calls = 0;
            struct snug_err e;
            int code = dataset_open(&io, &o, &d, &e);
            failed = f.calls > f.fail_at;
            assert_true(code == 0 || (code == SNUG_ERR_IO && strstr(e.text, data)));
            if (!code) {
                check_same(&good, &d);
                dataset_close(&d);
            }
            d = opened(&io_posix, &o);
            assert_null(strstr(notes, "made again"));
            check_same(&good, &d);
            dataset_close(&d);
        }
        assert_in_range(f.fail_at, warm ? 8 : 15, 60);
    }
    dataset_close(&good);
}

static void no_place_for_a_cache(void **state)
{
    (void)state;
    struct dataset_options o = options(TASK_CLASS);
    o.cache_dir = "/proc/snug/cache";
    write_data("text,label\nworld,b\nice,a\n");
    struct dataset d = opened(&io_posix, &o);
    assert_non_null(strstr(notes, "the token cache is not kept: /proc/snug: cannot create the folder"));
    dataset_close(&d);
}

static void default_folder(void **state)
{
    (void)state;
    struct str s = {0};
    setenv("XDG_CACHE_HOME", "/x/y", 1);
    setenv("HOME", "/home/me", 1);
    assert_int_equal(cache_dir(NULL, &s, NULL), 0);
    assert_string_equal(str_text(&s), "/x/y/snug");
    str_free(&s);
    setenv("XDG_CACHE_HOME", "relative", 1);
    cache_dir(NULL, &s, NULL);
    assert_string_equal(str_text(&s), "/home/me/.cache/snug");
    str_free(&s);
    unsetenv("HOME");
    unsetenv("XDG_CACHE_HOME");
    cache_dir(NULL, &s, NULL);
    assert_string_equal(str_text(&s), "");
    str_free(&s);
    cache_dir("/given", &s, NULL);
    assert_string_equal(str_text(&s), "/given");
    str_free(&s);
}

static int set_up(void **state)
{
    (void)state;
    char folder[4096];
    struct snug_err e;
    make_folder(dir);
    snprintf(data, sizeof data, "%s/data.csv", dir);
    snprintf(cache, sizeof cache, "%s/cache", dir);
    snprintf(folder, sizeof folder, "%s/tests/tokenizer/recorded/uncased", getenv("SNUG_SOURCE"));
    return tokenizer_open(&io_posix, folder, &tokenizer, &e);
}

static int tear_down(void **state)
{
    (void)state;
    tokenizer_close(tokenizer);
    remove_tree(dir);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(second_run_recalls_the_first),
        cmocka_unit_test(whatever_changes_the_tokens_changes_the_file),
        cmocka_unit_test(damage_is_found),
        cmocka_unit_test(forgeries_are_found),
        cmocka_unit_test(files_of_other_runs_are_found),
        cmocka_unit_test(files_of_other_users_are_not_read),
        cmocka_unit_test(temporary_files),
        cmocka_unit_test(files_fail),
        cmocka_unit_test(no_place_for_a_cache),
        cmocka_unit_test(default_folder),
    };
    return cmocka_run_group_tests_name("token_cache", tests, set_up, tear_down);
}
