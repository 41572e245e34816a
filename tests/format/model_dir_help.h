/* model_dir_help.h: model folders on disk, made of files in a table. */
#ifndef TEST_FORMAT_MODEL_DIR_HELP_H
#define TEST_FORMAT_MODEL_DIR_HELP_H

#include "../failing_memory.h"
#include "../memory_io.h"
#include "format/model_dir.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#define BYTES(s) s, sizeof s - 1
#define TENSOR(name, dtype, shape, from, to)                                                                           \
    "\"" name "\":{\"dtype\":\"" dtype "\",\"shape\":[" shape "],\"data_offsets\":[" from "," to "]}"
#define F32_AT_0(name) TENSOR(name, "F32", "1", "0", "4")

static char top[] = "/tmp/snug-model_dir-XXXXXX", root[64], dir[96];

/* What a case puts into the folder. */
enum kind {
    END,
    TEXT,   /* the bytes */
    ST,     /* a safetensors file: a header, then `data` zero bytes */
    LINK,   /* a symbolic link to the text */
    FOLDER, /* */
    FIFO,
};

struct file {
    enum kind kind;
    const char *name, *text;
    size_t bytes, data;
};

#define CONFIG                                                                                                         \
    {                                                                                                                  \
        TEXT, "config.json", BYTES("{\"model_type\":\"bert\"}"), 0                                                     \
    }
#define CONFIG_TEXT(s)                                                                                                 \
    {                                                                                                                  \
        TEXT, "config.json", BYTES(s), 0                                                                               \
    }
#define SINGLE(header, data)                                                                                           \
    {                                                                                                                  \
        ST, "model.safetensors", BYTES(header), data                                                                   \
    }
#define SINGLE_TEXT(s)                                                                                                 \
    {                                                                                                                  \
        TEXT, "model.safetensors", BYTES(s), 0                                                                         \
    }
#define GOOD SINGLE("{" F32_AT_0("w") "}", 4)
#define INDEX(s)                                                                                                       \
    {                                                                                                                  \
        TEXT, "model.safetensors.index.json", BYTES(s), 0                                                              \
    }
#define MAP(s) INDEX("{\"weight_map\":{" s "}}")
#define SHARD(name, header, data)                                                                                      \
    {                                                                                                                  \
        ST, name, BYTES(header), data                                                                                  \
    }
#define A SHARD("a.safetensors", "{" F32_AT_0("w") "}", 4)
#define B SHARD("b.safetensors", "{" F32_AT_0("v") "}", 4)

static inline void write_bytes(const char *path, const void *bytes, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    fwrite(bytes, 1, n, f);
    fclose(f);
}

static inline void put(const char *folder, const struct file *f)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, f->name);
    if (f->kind == TEXT) {
        write_bytes(path, f->text, f->bytes);
    } else if (f->kind == LINK) {
        assert_int_equal(symlink(f->text, path), 0);
    } else if (f->kind == FOLDER) {
        assert_int_equal(mkdir(path, 0777), 0);
    } else if (f->kind == FIFO) {
        assert_int_equal(mkfifo(path, 0666), 0);
    } else {
        char *all = calloc(8 + f->bytes + f->data, 1);
        all[0] = (char)f->bytes, all[1] = (char)(f->bytes >> 8);
        memcpy(all + 8, f->text, f->bytes);
        write_bytes(path, all, 8 + f->bytes + f->data);
        free(all);
    }
}

/* As in the hub's cache: top/models--a--b (root) has the model folder of a case, snapshots/rev (dir), and around it blobs
 * and another snapshot; top/outside is not of the model. */
static inline int make_root(void **state)
{
    static const struct file outside = A, blob = {ST, "0123", BYTES("{" F32_AT_0("w") "}"), 4},
                             link = {LINK, "link", "0123", 0, 0},
                             astray = {LINK, "astray", "../../outside/a.safetensors", 0, 0};
    char path[128];
    (void)state;
    assert_non_null(mkdtemp(top));
    snprintf(path, sizeof path, "%s/outside", top);
    mkdir(path, 0777);
    put(path, &outside);
    snprintf(root, sizeof root, "%s/models--a--b", top);
    mkdir(root, 0777);
    snprintf(path, sizeof path, "%s/snapshots", root);
    mkdir(path, 0777);
    snprintf(path, sizeof path, "%s/snapshots/other", root);
    mkdir(path, 0777);
    put(path, &outside);
    snprintf(path, sizeof path, "%s/blobs", root);
    mkdir(path, 0777);
    put(path, &blob);
    put(path, &link);
    put(path, &astray);
    snprintf(dir, sizeof dir, "%s/snapshots/rev", root);
    return 0;
}

static inline void remove_tree(const char *path)
{
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", path);
    assert_int_equal(system(command), 0);
}

static inline int remove_root(void **state)
{
    (void)state;
    remove_tree(top);
    return 0;
}

static inline void fill(const struct file *files, size_t n)
{
    assert_int_equal(mkdir(dir, 0777), 0);
    for (size_t i = 0; i < n && files[i].kind; i++)
        put(dir, &files[i]);
}

/* All notes of one open, and how many. */
struct notes {
    char text[1024];
    int n;
};

static inline void take_note(void *ctx, const char *line)
{
    struct notes *notes = ctx;
    assert_true(strlen(line) < 240 && !strchr(line, '\n'));
    notes->n++;
    snprintf(notes->text, sizeof notes->text, "%s", line);
}

static inline int open_files_now(void)
{
    int n = 0;
    for (int fd = 0; fd < 256; fd++) {
        struct stat st;
        n += fstat(fd, &st) == 0;
    }
    return n;
}

#endif
