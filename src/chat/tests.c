/* Tests: what stands behind 'is'. */
#include "chat/eval.h"

#include <string.h>

#define TEST(name, yes)                                                                                                \
    static int test_##name(struct chat_run *r, struct chat_value self, const struct chat_args *args,                   \
                           struct chat_value *out)                                                                     \
    {                                                                                                                  \
        (void)r, (void)args;                                                                                           \
        *out = chat_bool(yes);                                                                                         \
        return SNUG_OK;                                                                                                \
    }

TEST(defined, self.kind != CHAT_UNDEFINED)
TEST(undefined, self.kind == CHAT_UNDEFINED)
TEST(none, self.kind == CHAT_NONE)
TEST(boolean, self.kind == CHAT_BOOL)
TEST(true, self.kind == CHAT_BOOL && self.yes)
TEST(false, self.kind == CHAT_BOOL && !self.yes)
TEST(integer, self.kind == CHAT_INT)
TEST(float, self.kind == CHAT_REAL)
TEST(number, chat_is_number(self))
TEST(string, self.kind == CHAT_TEXT)
TEST(mapping, self.kind == CHAT_DICT)
TEST(callable, self.kind == CHAT_CALLABLE)
TEST(equal, chat_equal(r, self, args->v[0]))
TEST(unequal, !chat_equal(r, self, args->v[0]))
/* Python's strings and dicts have a length and items, so they are sequences to Jinja; an undefined value can be walked
 * through, and has none. */
TEST(sequence, self.kind == CHAT_TEXT || self.kind == CHAT_LIST || self.kind == CHAT_TUPLE || self.kind == CHAT_DICT ||
                   self.kind == CHAT_UNDEFINED)
TEST(iterable, self.kind == CHAT_TEXT || self.kind == CHAT_LIST || self.kind == CHAT_TUPLE || self.kind == CHAT_DICT ||
                   self.kind == CHAT_UNDEFINED)

static int test_in(struct chat_run *r, struct chat_value self, const struct chat_args *args, struct chat_value *out)
{
    bool yes;
    TRY(chat_in(r, self, args->v[0], &yes));
    *out = chat_bool(yes);
    return SNUG_OK;
}

static int divided(struct chat_run *r, struct chat_value self, int64_t by, int64_t rest, struct chat_value *out)
{
    int64_t x;
    if (self.kind == CHAT_UNDEFINED || by == 0)
        return chat_fail(r, self.kind == CHAT_UNDEFINED ? "an undefined value is divided" : "a division by 0");
    TRY(chat_int_arg(r, self, "what is divided", 0, &x));
    int64_t left = by == -1 ? 0 : x % by;
    *out = chat_bool((left != 0) == (rest != 0));
    return SNUG_OK;
}

static int test_odd(struct chat_run *r, struct chat_value self, const struct chat_args *args, struct chat_value *out)
{
    (void)args;
    return divided(r, self, 2, 1, out);
}

static int test_even(struct chat_run *r, struct chat_value self, const struct chat_args *args, struct chat_value *out)
{
    (void)args;
    return divided(r, self, 2, 0, out);
}

static int test_divisibleby(struct chat_run *r, struct chat_value self, const struct chat_args *args,
                            struct chat_value *out)
{
    int64_t by;
    TRY(chat_int_arg(r, args->v[0], "divisibleby: its number", 0, &by));
    return divided(r, self, by, 0, out);
}

#define ORDER_TEST(name, yes)                                                                                          \
    static int test_##name(struct chat_run *r, struct chat_value self, const struct chat_args *args,                   \
                           struct chat_value *out)                                                                     \
    {                                                                                                                  \
        int order;                                                                                                     \
        TRY(chat_compare(r, self, args->v[0], &order));                                                                \
        *out = chat_bool(yes);                                                                                         \
        return SNUG_OK;                                                                                                \
    }

ORDER_TEST(less, order < 0)
ORDER_TEST(greater, order > 0)
ORDER_TEST(at_most, order <= 0)
ORDER_TEST(at_least, order >= 0)

static const struct chat_function tests[] = {
    {"defined", "", test_defined, 0},
    {"undefined", "", test_undefined, 0},
    {"none", "", test_none, 0},
    {"boolean", "", test_boolean, 0},
    {"true", "", test_true, 0},
    {"false", "", test_false, 0},
    {"integer", "", test_integer, 0},
    {"float", "", test_float, 0},
    {"number", "", test_number, 0},
    {"string", "", test_string, 0},
    {"mapping", "", test_mapping, 0},
    {"callable", "", test_callable, 0},
    {"sequence", "", test_sequence, 0},
    {"iterable", "", test_iterable, 0},
    {"odd", "", test_odd, 0},
    {"even", "", test_even, 0},
    {"divisibleby", "num", test_divisibleby, 0},
    {"in", "seq", test_in, 0},
    {"eq", "b", test_equal, 0},
    {"equalto", "b", test_equal, 0},
    {"==", "b", test_equal, 0},
    {"ne", "b", test_unequal, 0},
    {"!=", "b", test_unequal, 0},
    {"lt", "b", test_less, 0},
    {"lessthan", "b", test_less, 0},
    {"gt", "b", test_greater, 0},
    {"greaterthan", "b", test_greater, 0},
    {"le", "b", test_at_most, 0},
    {"ge", "b", test_at_least, 0},
};

const struct chat_function *chat_test(const char *name)
{
    return chat_function_in(tests, sizeof tests / sizeof *tests, name);
}
