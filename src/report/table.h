/* table.h: a table of a page, in a section with a title.
 *     table_begin(out, "Classes");
 *     table_head(out, "class"); …        the columns
 *     table_body(out);
 *     table_row(out, "yes"); table_value(out, v); …; table_row_end(out);
 *     table_end(out);                                                                     */
#ifndef REPORT_TABLE_H
#define REPORT_TABLE_H

#include "base/str.h"

#include <jansson.h>

void table_begin(struct str *out, const char *title); /* the title: no text of others */
void table_head(struct str *out, const char *text);
void table_body(struct str *out);
void table_row(struct str *out, const char *name); /* NULL: none in front */
void table_value(struct str *out, const json_t *v);
void table_number(struct str *out, const json_t *v); /* the same, with four digits of what is not whole */
void table_row_end(struct str *out);
void table_end(struct str *out);

#endif
