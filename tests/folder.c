#include "folder.h"

#include <dirent.h>
#include <ftw.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

void make_folder(char path[64])
{
    const char *tmp = getenv("TMPDIR");
    if (!tmp) /* memory, where there is some: thousands of small folders are made and removed */
        tmp = access("/dev/shm", W_OK | X_OK) == 0 ? "/dev/shm" : "/tmp";
    snprintf(path, 64, "%.40s/snug-test-XXXXXX", tmp);
    assert_non_null(mkdtemp(path));
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *at)
{
    (void)st, (void)kind, (void)at;
    return remove(path);
}

void remove_tree(const char *path)
{
    nftw(path, remove_one, 16, FTW_DEPTH | FTW_PHYS);
}

char folder[64];

int open_folder(void **state)
{
    (void)state;
    make_folder(folder);
    return 0;
}

int close_folder(void **state)
{
    (void)state;
    remove_tree(folder);
    return 0;
}

int count_names(const char *dir, const char *prefix)
{
    DIR *d = opendir(dir);
    assert_non_null(d);
    int n = 0;
    for (struct dirent *e; (e = readdir(d));)
        n += !strncmp(e->d_name, prefix, strlen(prefix));
    closedir(d);
    return n;
}

const char *in(const char *dir, const char *name)
{
    static char buffers[8][512];
    static int next;
    char *b = buffers[next++ % 8];
    snprintf(b, sizeof buffers[0], "%s/%s", dir, name);
    return b;
}

void write_text(const char *dir, const char *name, const char *text)
{
    FILE *f = fopen(in(dir, name), "wb");
    if (!f)
        fail_msg("%s/%s: cannot be written", dir, name);
    fputs(text, f);
    fclose(f);
}

char *read_text(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        fail_msg("%s: cannot be opened", path);
    assert_int_equal(fseek(f, 0, SEEK_END), 0);
    *n = (size_t)ftell(f);
    rewind(f);
    char *text = malloc(*n + 1);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, *n, f), *n);
    text[*n] = 0;
    fclose(f);
    return text;
}

bool same_bytes(const char *path, const char *other)
{
    size_t n, m;
    char *a = read_text(path, &n), *b = read_text(other, &m);
    bool same = n == m && !memcmp(a, b, n);
    free(a);
    free(b);
    return same;
}
