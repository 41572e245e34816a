/* folder.h: folders to work in, and the files in them. Every unit test is linked with folder.c. */
#ifndef TESTS_FOLDER_H
#define TESTS_FOLDER_H

#include <stdbool.h>
#include <stddef.h>

/* One for a whole test program: the set-up and tear-down of a group, or the first and the last thing that they do. */
extern char folder[64];
int open_folder(void **state);
int close_folder(void **state);

void make_folder(char path[64]);    /* a new one under $TMPDIR, or in memory */
void remove_tree(const char *path); /* with everything in it */
int count_names(const char *dir, const char *prefix);

const char *in(const char *dir, const char *name); /* dir/name, in one of a few static buffers */

void write_text(const char *dir, const char *name, const char *text);
char *read_text(const char *path, size_t *n); /* ends in a 0 byte behind the n; free it */
bool same_bytes(const char *path, const char *other);

#endif
