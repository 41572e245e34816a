/* sanitized.h: whether a sanitizer watches, which makes everything about ten times slower; loops are shorter then. */
#ifndef TESTS_SANITIZED_H
#define TESTS_SANITIZED_H

/* gcc's and clang's ways to say so. */
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
#define SANITIZED 1
#elif defined __has_feature
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED 1
#endif
#endif
#ifndef SANITIZED
#define SANITIZED 0
#endif

#endif
