/* languages.h: what a result's files say of the languages that a translator was trained with. */
#ifndef OUTPUT_LANGUAGES_H
#define OUTPUT_LANGUAGES_H

#include "base/io.h"
#include "tokenizer/tokenizer.h"

enum language_file { LANGUAGES_TOKENIZER, LANGUAGES_GENERATION, LANGUAGES_FILES };
extern const char *const language_files[LANGUAGES_FILES]; /* their names */

/* The texts of both, as mem_free wants them: those of `folder`, or new ones, with what was said of source and target, and where a
 * generated text has its language. NULL: it is not changed. t: the tokenizer with these languages. */
int languages_texts(const struct io *io, const char *folder, const struct tokenizer *t, const char *source,
                    const char *target, char *texts[LANGUAGES_FILES], struct snug_err *err);

#endif
