/* terminal.h: the terminal that a person looks at: how wide it is, and text laid out for that width. */
#ifndef CLI_TERMINAL_H
#define CLI_TERMINAL_H

#include "base/str.h"

#include <stdio.h>

/* Whether a line can be drawn again and again there: a terminal, and TERM does not say that it is a dumb one. */
bool terminal_redraws(int fd);

/* Columns of the terminal `fd`, asked anew each time, since windows change; 80 where it does not say. 0: no
 * terminal, or a dumb one, whose lines are left as they are. */
int terminal_columns(int fd);

/* Columns that n bytes of valid UTF-8 take. */
int text_columns(const char *text, size_t n);

/* Appends as much of `text`, valid UTF-8, as `columns` columns hold; where that is not all, it ends in an ellipsis. */
void text_cut(struct str *out, const char *text, int columns);

/* `text` as a cell of a table: in exactly `columns` columns, cut or filled with blanks, and with what a terminal could take
 * for a command escaped. columns 0: as long as it is. */
void text_cell(struct str *out, const char *text, int columns);
int text_cell_columns(const char *text); /* that all of it takes */

/* Appends `text`, one line without its end, broken between words so that no line has more than `columns` columns, but
 * for a single word that does; lines after the first begin with `indent` blanks. A number stays with the word behind it,
 * both sides of a "=" stay together, and so does what stands between two pairs of blanks, where they can. 0 columns: not
 * broken. */
void wrap_text(struct str *out, const char *text, int columns, int indent);

/* Prints whole lines; where `f` is a terminal, each wrapped to its width. */
void print_wrapped(FILE *f, const char *lines, int indent);

#endif
