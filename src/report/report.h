/* report.h: report.html, a page of what a run did, from the files in its output folder; of several runs, side by side. One file that
 * needs nothing else: pictures are inline SVG, there is no script, and no other file or address is named. */
#ifndef REPORT_REPORT_H
#define REPORT_REPORT_H

#include "base/io.h"
#include "base/str.h"

#define REPORT_NAME "report.html"

enum { REPORT_RUNS = 8 }; /* side by side */

/* The page of runs in n folders, 1 to REPORT_RUNS of them. SNUG_ERR_INPUT where one has no log. `standing`: a sentence on where a run
 * stands that goes on, or NULL. */
int report_page(const struct io *io, const char *const *dirs, size_t n, const char *standing, struct str *out,
                struct snug_err *err);

/* The same into a file, which is there whole or not at all. A file that is there already is replaced if it is such a page; else
 * SNUG_ERR_USAGE. `tmp`: where its bytes are meanwhile, as in out_file_open_as. */
int report_write(const struct io *io, const char *const *dirs, size_t n, const char *path, const char *tmp,
                 struct snug_err *err);

#endif
