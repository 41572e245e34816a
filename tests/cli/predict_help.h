/* predict_help.h: small models that answer texts, and their answers. */
#ifndef TESTS_CLI_PREDICT_HELP_H
#define TESTS_CLI_PREDICT_HELP_H

#include "../run/command.h"

/* Folders of BERTs whose words are letters: of the classes no, perhaps and yes; of a number; of several labels. */
extern const char *model, *regression, *labels;
int open_models(void **state); /* makes them, in the test's folder; close_folder ends it */

char *read_file(const char *path); /* until the next call; NULL: it is not there */

/* What `snug predict` prints with the model folder `with`. Asserts that it ends well. The text is there until the
 * next read_file. */
const char *predict(const char *with, const char *const *args);

/* The i-th line that is no note; free'd by the caller. NULL: there are fewer. */
char *line(const char *text, int i);

#define LINE_IS(text, i, wanted)                                                                                       \
    do {                                                                                                               \
        char *line_ = line(text, i);                                                                                   \
        assert_non_null(line_);                                                                                        \
        assert_string_equal(line_, wanted);                                                                            \
        free(line_);                                                                                                   \
    } while (0)

/* The i-th line, of --json. A new reference. */
json_t *row(const char *text, int i);

#endif
