/* page.h: the sections of a page, in its order. Each appends nothing where the runs have nothing for it. */
#ifndef REPORT_PAGE_H
#define REPORT_PAGE_H

#include "report/facts.h"

#include "base/str.h"

void page_begin(const struct facts *runs, size_t n, const char *standing,
                struct str *out); /* standing: as in report_page */
int page_curves(const struct facts *runs, size_t n, struct str *out, struct snug_err *err);
void page_evaluations(const struct facts *runs, size_t n, struct str *out);
void page_classes(const struct facts *f, struct str *out); /* of one run */
void page_mistakes(const struct facts *f, struct str *out);
/* Of one run: a chart among those of the machine; a section. */
void page_memory(const struct facts *f, struct str *out);
void page_environment(const struct facts *f, struct str *out);
void page_samples(const struct facts *runs, size_t n, struct str *out);
void page_ops(const struct facts *f, struct str *out); /* of one run */
int page_options(const struct facts *runs, size_t n, struct str *out, struct snug_err *err);
void page_end(const struct facts *runs, size_t n, struct str *out);

#endif
