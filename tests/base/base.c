/* base/: error texts, hashes, Philox. */
#include "../folder.h"
#include "base/err.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/machine.h"
#include "base/mem.h"
#include "base/philox.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

/* Random123 1.14, tests/kat_vectors: philox4x32 10. */
static void philox_known_answers(void **state)
{
    (void)state;
    struct philox r = philox4x32((struct philox){{0, 0, 0, 0}}, 0, 0);
    uint32_t zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
    assert_memory_equal(r.w, zero, sizeof zero);
    r = philox4x32((struct philox){{~0u, ~0u, ~0u, ~0u}}, ~0u, ~0u);
    uint32_t ones[4] = {0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd};
    assert_memory_equal(r.w, ones, sizeof ones);
    r = philox4x32((struct philox){{0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}}, 0xa4093822, 0x299f31d0);
    uint32_t pi[4] = {0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1};
    assert_memory_equal(r.w, pi, sizeof pi);
}

static void *plain_realloc(void *ctx, void *p, size_t bytes)
{
    ++*(int *)ctx;
    return realloc(p, bytes);
}

static void *no_memory(void *ctx, void *p, size_t bytes)
{
    (void)ctx, (void)p, (void)bytes;
    return NULL;
}

static void plain_free(void *ctx, void *p)
{
    (void)ctx;
    free(p);
}

/* A piece is aligned and zero, in memory only where it was touched, and from the caller's allocator if there is one. */
static void large_pieces_come_as_they_are_touched(void **state)
{
    (void)state;
    enum { MB = 1 << 20, BYTES = 256 * MB };
    int64_t before = machine_memory_resident();
    char *p = mem_map(BYTES);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 64, 0);
    assert_true(machine_memory_resident() - before < 16 * MB);
    assert_int_equal(p[0] | p[BYTES / 2] | p[BYTES - 1], 0);
    memset(p, 1, 64 * MB);
    int64_t touched = machine_memory_resident() - before;
    assert_in_range(touched, 60 * MB, 80 * MB);
    mem_unmap(p);
    assert_true(machine_memory_resident() - before < 16 * MB);
    mem_unmap(NULL);
    int calls = 0;
    mem_set_ops(&(struct mem_ops){.realloc = plain_realloc, .free = plain_free, .ctx = &calls});
    p = mem_map(1000);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 64, 0);
    memset(p, 1, 1000);
    assert_int_equal(calls, 1);
    mem_unmap(p);
    mem_set_ops(&(struct mem_ops){.realloc = no_memory, .free = plain_free, .ctx = NULL});
    assert_null(mem_map(1000));
    mem_set_ops(NULL);
}

/* XXH3-128 of nothing, from the xxHash specification. */
static void hash_known_answer(void **state)
{
    (void)state;
    char hex[33];
    hash_hex(hash_bytes("", 0), hex);
    assert_string_equal(hex, "99aa06d3014798d86001c324468d497f");
    struct hash_state *h = hash_new();
    hash_add(h, "ab", 2);
    hash_add(h, "c", 1);
    struct hash128 pieces = hash_end(h), whole = hash_bytes("abc", 3);
    assert_true(pieces.high == whole.high && pieces.low == whole.low);
}

static void error_text_is_one_clean_line(void **state)
{
    (void)state;
    struct snug_err e;
    assert_int_equal(err_set(&e, SNUG_ERR_INPUT, "a\nb\xff: %d", 7), 3);
    assert_string_equal(e.text, "a\\x0Ab\\xFF: 7");
    err_set(&e, SNUG_ERR_INPUT,
            "\xC2\x9B"
            "2J \x7F\xC2\xA0\xC3\x9B");
    assert_string_equal(e.text, "\\xC2\\x9B2J \\x7F\xC2\xA0\xC3\x9B");
    char path[4000];
    memset(path, 'p', sizeof path - 1);
    path[sizeof path - 1] = 0;
    err_set(&e, SNUG_ERR_IO, "%s: cannot open", path);
    assert_true(strlen(e.text) <= 225);
    assert_non_null(strstr(e.text, "..."));
    assert_non_null(strstr(e.text, "cannot open"));
}

static void files_are_replaced_whole(void **state)
{
    (void)state;
    char dir[] = "/tmp/snug-base-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/f", dir);
    struct snug_err e;
    assert_int_equal(io_write_file(&io_posix, path, "one", 3, &e), 0);
    assert_int_equal(io_write_file(&io_posix, path, "three", 5, &e), 0);
    char *text;
    size_t n;
    assert_int_equal(io_read_file(&io_posix, path, 100, &text, &n, &e), 0);
    assert_int_equal(n, 5);
    assert_string_equal(text, "three");
    mem_free(text);
    assert_int_equal(io_read_file(&io_posix, path, 4, &text, &n, &e), SNUG_ERR_INPUT);
    assert_int_equal(io_read_file(&io_posix, dir, 4, &text, &n, &e), SNUG_ERR_INPUT);
    unlink(path);
    assert_int_equal(rmdir(dir), 0); /* no temporary file is left */
}

static void folders_are_listed_in_order(void **state)
{
    (void)state;
    char dir[] = "/tmp/snug-list-XXXXXX", path[64];
    assert_non_null(mkdtemp(dir));
    const char *made[] = {"b", ".a", "B", "a"}, *want[] = {".a", "B", "a", "b"};
    struct snug_err e;
    for (int i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", dir, made[i]);
        assert_int_equal(io_write_file(&io_posix, path, "", 0, &e), 0);
    }
    struct arena a = {0};
    const char *const *names;
    size_t n;
    assert_int_equal(io_list(&io_posix, dir, &a, &names, &n, &e), 0);
    assert_int_equal(n, 4);
    for (int i = 0; i < 4; i++) {
        assert_string_equal(names[i], want[i]);
        snprintf(path, sizeof path, "%s/%s", dir, want[i]);
        unlink(path);
    }
    assert_int_equal(io_list(&io_posix, dir, &a, &names, &n, &e), 0);
    assert_int_equal(n, 0);
    assert_int_equal(rmdir(dir), 0);
    assert_int_equal(io_list(&io_posix, dir, &a, &names, &n, &e), SNUG_ERR_IO);
    assert_non_null(strstr(e.text, "No such file"));
    arena_free(&a);
}

static void folders_are_made_where_nothing_else_is(void **state)
{
    (void)state;
    char root[64];
    struct snug_err e;
    make_folder(root);
    assert_int_equal(io_make_dirs(&io_posix, in(root, "a/b"), &e), 0);
    assert_int_equal(io_make_dirs(&io_posix, in(root, "a/b/"), &e), 0);
    assert_int_equal(io_make_dirs(&io_posix, "/", &e), 0);
    assert_int_equal(io_make_dirs(&io_posix, "", &e), SNUG_ERR_INPUT);
    write_text(root, "file", "x");
    assert_int_equal(io_make_dirs(&io_posix, in(root, "file"), &e), SNUG_ERR_IO);
    assert_non_null(strstr(e.text, "file: cannot create the folder: Not a directory"));
    assert_int_equal(io_make_dirs(&io_posix, in(root, "file/c"), &e), SNUG_ERR_IO);
    assert_int_equal(symlink("nowhere", in(root, "link")), 0);
    assert_int_equal(io_make_dirs(&io_posix, in(root, "link"), &e), SNUG_ERR_IO);
    remove_tree(root);
}

static void put(const char *root, const char *path, const char *text)
{
    char p[256];
    struct snug_err e;
    snprintf(p, sizeof p, "%s/%s", root, path);
    char *slash = strrchr(p, '/');
    *slash = 0;
    assert_int_equal(io_make_dirs(&io_posix, p, &e), 0);
    *slash = '/';
    assert_int_equal(io_write_file(&io_posix, p, text, strlen(text), &e), 0);
}

/* A job's limit is that of its group or of one above; what is left of it is less by what its processes hold. */
static void limits_of_control_groups(void **state)
{
    (void)state;
    char root[64];
    make_folder(root);
    assert_int_equal(machine_groups(root).limit, -1);
    assert_int_equal(machine_groups(root).left, -1);
    put(root, "proc/self/cgroup", "0::/jobs/7/step\n");
    put(root, "sys/fs/cgroup/jobs/7/step/memory.max", "max\n");
    put(root, "sys/fs/cgroup/jobs/7/step/memory.current", "5000\n");
    assert_int_equal(machine_groups(root).limit, -1);
    put(root, "sys/fs/cgroup/jobs/7/memory.max", "9000\n");
    assert_int_equal(machine_groups(root).limit, 9000);
    assert_int_equal(machine_groups(root).left, 9000);
    put(root, "sys/fs/cgroup/jobs/7/memory.current", "6000\n");
    put(root, "sys/fs/cgroup/jobs/7/memory.stat", "file 3500\ninactive_file 3000\nactive_file 500\n");
    assert_int_equal(machine_groups(root).left, 6500);
    put(root, "sys/fs/cgroup/jobs/memory.max", "10000\n");
    put(root, "sys/fs/cgroup/jobs/memory.current", "8000\n");
    assert_int_equal(machine_groups(root).limit, 9000);
    assert_int_equal(machine_groups(root).left, 2000);
    put(root, "sys/fs/cgroup/jobs/memory.current", "10001\n");
    assert_int_equal(machine_groups(root).left, 0);
    put(root, "sys/fs/cgroup/memory.max", "400\n"); /* of a container: its own group is the root it sees */
    assert_int_equal(machine_groups(root).limit, 400);
    remove_tree(root);
    make_folder(root);
    put(root, "proc/self/cgroup", "9:name=systemd:/x\n4:cpu,memory:/jobs/7\n0::/\n");
    put(root, "sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1\n");
    put(root, "sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
    put(root, "sys/fs/cgroup/memory/jobs/7/memory.limit_in_bytes", "7000\n");
    put(root, "sys/fs/cgroup/memory/jobs/7/memory.usage_in_bytes", "6000\n");
    put(root, "sys/fs/cgroup/memory/jobs/7/memory.stat",
        "inactive_file 1\ntotal_inactive_file 3000\ntotal_active_file 100\n");
    assert_int_equal(machine_groups(root).limit, 7000);
    assert_int_equal(machine_groups(root).left, 4100);
    remove_tree(root);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(philox_known_answers),     cmocka_unit_test(large_pieces_come_as_they_are_touched),
        cmocka_unit_test(hash_known_answer),        cmocka_unit_test(error_text_is_one_clean_line),
        cmocka_unit_test(files_are_replaced_whole), cmocka_unit_test(folders_are_listed_in_order),
        cmocka_unit_test(limits_of_control_groups), cmocka_unit_test(folders_are_made_where_nothing_else_is),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
