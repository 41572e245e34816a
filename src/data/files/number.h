/* number.h: telling the numbers in a data file from names, and reading them alike in every locale. */
#ifndef DATA_FILES_NUMBER_H
#define DATA_FILES_NUMBER_H

#include <locale.h>
#include <stddef.h>

enum number_kind {
    NUMBER_NO,      /* a name */
    NUMBER_INTEGER, /* 0, 17, -3: the one way in which an integer of at most 18 digits is written */
    NUMBER_REAL,    /* 1.0, 1e-3, +1, 007 */
    NUMBER_BLANKS,  /* one of the above with blanks around it */
};

enum number_kind number_kind(const char *text, size_t bytes);

/* The value of text of the kinds INTEGER and REAL; infinite when it is too large for a double. A character that cannot
 * belong to the number, such as a 0 byte, must stand behind it. `c_locale` is a newlocale(LC_ALL_MASK, "C", 0). */
double number_value(const char *text, locale_t c_locale);

#endif
