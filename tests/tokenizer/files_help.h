/* files_help.h: tokenizers from files in memory, and tokenizer.json with one thing changed. */
#ifndef TEST_TOKENIZER_FILES_HELP_H
#define TEST_TOKENIZER_FILES_HELP_H

#include "../memory_io.h"
#include "tokenizer/tokenizer.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { MOST_FILES = 4 };

struct file {
    const char *name, *content;
};

/* Opens the files of a folder "m"; a NULL name ends them. */
static inline int open_folder(const struct file *files, struct tokenizer **t, struct snug_err *err)
{
    char paths[MOST_FILES][64];
    struct memory_file f[MOST_FILES];
    struct memory_io m;
    size_t n = 0;
    for (; n < MOST_FILES && files[n].name; n++) {
        snprintf(paths[n], sizeof paths[n], "m/%s", files[n].name);
        f[n] = (struct memory_file){paths[n], files[n].content, strlen(files[n].content)};
    }
    memory_io_init(&m, f, n);
    int code = tokenizer_open(&m.io, "m", t, err);
    assert_int_equal(m.open_files, 0);
    return code;
}

static const char good_json[] =
    "{\"version\":\"1.0\",\"truncation\":null,\"padding\":null,"
    "\"added_tokens\":[{\"id\":1,\"content\":\"[UNK]\",\"single_word\":false,\"lstrip\":false,\"rstrip\":false,"
    "\"normalized\":false,\"special\":true}],"
    "\"normalizer\":{\"type\":\"BertNormalizer\",\"clean_text\":true,\"handle_chinese_chars\":true,"
    "\"strip_accents\":null,\"lowercase\":true},"
    "\"pre_tokenizer\":{\"type\":\"BertPreTokenizer\"},"
    "\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":[{\"SpecialToken\":{\"id\":\"[CLS]\",\"type_id\":0}"
    "},"
    "{\"Sequence\":{\"id\":\"A\",\"type_id\":0}}],\"pair\":[{\"Sequence\":{\"id\":\"A\",\"type_id\":0}},"
    "{\"Sequence\":{\"id\":\"B\",\"type_id\":1}}],"
    "\"special_tokens\":{\"[CLS]\":{\"id\":\"[CLS]\",\"ids\":[2],\"tokens\":[\"[CLS]\"]}}},"
    "\"decoder\":{\"type\":\"WordPiece\",\"prefix\":\"##\",\"cleanup\":true},"
    "\"model\":{\"type\":\"WordPiece\",\"unk_token\":\"[UNK]\",\"continuing_subword_prefix\":\"##\","
    "\"max_input_chars_per_word\":100,\"vocab\":{\"[PAD]\":0,\"[UNK]\":1,\"[CLS]\":2,\"a\":3,\"##a\":4}}}";

static inline json_t *step(json_t *o, const char *name)
{
    return json_is_array(o) ? json_array_get(o, (size_t)atoi(name)) : json_object_get(o, name);
}

static inline char *changed(const char *at, const char *value)
{
    char path[128], *rest = path, *name;
    json_t *root = json_loads(good_json, 0, NULL), *o = root;
    assert_non_null(root);
    snprintf(path, sizeof path, "%s", at);
    while ((name = strsep(&rest, ".")) && rest)
        o = step(o, name);
    json_t *new = value ? json_loads(value, JSON_DECODE_ANY, NULL) : NULL;
    assert_true(!value || new);
    if (!new)
        json_object_del(o, name);
    else if (json_is_object(o))
        json_object_set_new(o, name, new);
    else if ((size_t)atoi(name) == json_array_size(o))
        json_array_append_new(o, new);
    else
        json_array_set_new(o, (size_t)atoi(name), new);
    char *text = json_dumps(root, 0);
    json_decref(root);
    return text;
}

#endif
