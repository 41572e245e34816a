/* foreign.h: what a data file is when it is none that snug reads, and how to make one of it. */
#ifndef DATA_FILES_FOREIGN_H
#define DATA_FILES_FOREIGN_H

#include "base/io.h"

enum { FOREIGN_HEAD_BYTES = 64 }; /* of the beginning of a file are enough */

/* SNUG_ERR_INPUT, saying what it is and the line that converts it, when the first n bytes are those of such a file. */
int foreign_refuse(const char *path, const char *head, size_t n, struct snug_err *err);

/* The same for a file that is not open; SNUG_OK too when it cannot be read. */
int foreign_refuse_file(const struct io *io, const char *path, struct snug_err *err);

#endif
