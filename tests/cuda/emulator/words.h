/* words.h: the words of a PTX text, and its declarations. */
#ifndef EMULATOR_WORDS_H
#define EMULATOR_WORDS_H

#include "ptx.h"

/* A part of the text. */
struct word {
    const char *at;
    size_t n;
};

/* Ends the program with a line about the text there. */
_Noreturn void bad_ptx(const char *what, const char *at);
/* p with room for one more than n elements of this size. */
void *grown(void *p, size_t n, size_t *room, size_t size);

const char *skip_space(const char *p); /* and comments */
/* The word at *p, which is moved behind it. */
struct word next_word(const char **p);
bool take_char(const char **p, char c); /* whether it comes next, and goes behind it then */
bool word_is(struct word w, const char *text);
bool words_equal(struct word a, struct word b);
uint64_t word_number(struct word w); /* the bits of 12, 0x1f, 0f3F800000, 0d3FF0000000000000 */
enum ptx_type type_named(struct word w);

struct declaration {
    struct word name;
    enum ptx_type type;
    uint64_t align, count; /* 1 for what is no array; 0 for one of unknown size */
    bool ranged;           /* NAME<count>: registers */
};

/* Reads what follows a state space (".reg", ".shared"). */
struct declaration declaration(const char **p);
/* Its place behind `used` bytes, which grow by it. */
uint32_t take_room(uint32_t *used, const struct declaration *d);

#endif
