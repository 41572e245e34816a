/* Ids and decoded texts of whole families of tokenizers, as Hugging Face's tokenizers library gives them. recorded/families has a
 * few hundred rows a family (recorded/families.py). A folder of the full recordings, in SNUG_GOLDEN, is read too where there is one:
 * thousands of rows a family, and every code point of Unicode. */
#include "base/mem.h"
#include "tokenizer/steps/steps.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

#include <dirent.h>
#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct family {
    const char *name;
    struct tokenizer *t;
    struct token_buf buf;
    int rows, differ;
};

static const char *string_at(json_t *row, const char *key, size_t *n)
{
    json_t *s = json_object_get(row, key);
    *n = json_string_length(s);
    return json_string_value(s);
}

static bool same_ids(json_t *want, const int32_t *got, size_t n)
{
    bool same = json_array_size(want) == n;
    for (size_t i = 0; same && i < n; i++)
        same = json_integer_value(json_array_get(want, i)) == got[i];
    return same;
}

static bool encodes(struct family *f, json_t *row, const char *first, const char *second)
{
    size_t n[2];
    const char *a = string_at(row, first, &n[0]), *b = string_at(row, second, &n[1]);
    json_t *types = json_object_get(row, "type_ids");
    int64_t most = json_integer_value(json_object_get(row, "max_length"));
    bool bare = !strcmp(json_string_value(json_object_get(row, "kind")), "no special tokens");
    struct snug_err e = {0};
    int code = !strcmp(json_string_value(json_object_get(row, "kind")), "target")
                   ? tokenizer_encode_target(f->t, a, n[0], most, &f->buf, &e)
                   : tokenizer_encode(f->t, a, n[0], b, n[1], most, &f->buf, &e);
    bool same = !code && (bare ? same_ids(json_object_get(row, "ids"), f->buf.pieces, f->buf.n_pieces)
                               : same_ids(json_object_get(row, "ids"), f->buf.ids, f->buf.n));
    if (types)
        same = same && same_ids(types, f->buf.type_ids, f->buf.n);
    if (!same && f->differ < 3) {
        printf("   got %s", e.text);
        for (size_t i = 0; !code && i < f->buf.n; i++)
            printf(" %d", f->buf.ids[i]);
        printf("\n");
    }
    return same;
}

static bool decodes(struct family *f, json_t *ids, json_t *want, bool skip_special)
{
    size_t n = json_array_size(ids);
    int32_t *list = mem_alloc((n + 1) * sizeof *list);
    struct str text = {0};
    struct snug_err e = {0};
    for (size_t i = 0; i < n; i++)
        list[i] = (int32_t)json_integer_value(json_array_get(ids, i));
    int code = tokenizer_decode(f->t, list, n, skip_special, &text, &e);
    bool same =
        !code && text.n == json_string_length(want) && !memcmp(str_text(&text), json_string_value(want), text.n);
    if (!same && f->differ < 3)
        printf("   decoded %s \"%s\"\n", e.text, str_text(&text));
    str_free(&text);
    mem_free(list);
    return same;
}

/* What rows do not concern is passed over: words, offsets, strategies that nobody asks for. */
static void check_row(struct family *f, json_t *row, const char *line)
{
    const char *kind = json_string_value(json_object_get(row, "kind"));
    const char *strategy = json_string_value(json_object_get(row, "strategy"));
    const char *direction = json_string_value(json_object_get(row, "direction"));
    json_t *ids = json_object_get(row, "ids"), *plain = json_object_get(row, "decoded"),
           *skipped = json_object_get(row, "decoded_skip_special");
    bool same = true;
    if (!ids || (strategy && (strcmp(strategy, "longest_first") || strcmp(direction, "right"))))
        return;
    if (!strcmp(kind, "text") || !strcmp(kind, "no special tokens") || !strcmp(kind, "target"))
        same = encodes(f, row, "text", "");
    else if (!strcmp(kind, "pair") || !strcmp(kind, "truncated pair"))
        same = encodes(f, row, "a", "b");
    else if (strcmp(kind, "decode") != 0)
        return;
    if (plain)
        same = same && decodes(f, ids, plain, false);
    if (skipped)
        same = same && decodes(f, ids, skipped, true);
    f->rows++;
    if (!same && f->differ++ < 3)
        printf("%s differs: %.600s\n", f->name, line);
}

static void check_line(struct family *f, const char *line, const char *text_line)
{
    json_t *row = json_loads(line, JSON_ALLOW_NUL, NULL),
           *with = text_line ? json_loads(text_line, JSON_ALLOW_NUL, NULL) : NULL;
    assert_non_null(row);
    if (with)
        json_object_update(row, with);
    if (!json_object_get(row, "kind"))
        json_object_set_new(row, "kind", json_string("text"));
    check_row(f, row, text_line ? text_line : line);
    json_decref(with);
    json_decref(row);
}

static FILE *open_gz(const char *dir, const char *name)
{
    char command[4600];
    snprintf(command, sizeof command, "gzip -dc '%s/%s'", dir, name);
    FILE *f = popen(command, "r");
    assert_non_null(f);
    return f;
}

static void check_lines(struct family *f, FILE *rows, FILE *texts)
{
    char *line = NULL, *text = NULL;
    size_t cap = 0, text_cap = 0;
    while (getline(&line, &cap, rows) > 0) {
        if (texts)
            assert_true(getline(&text, &text_cap, texts) > 0);
        check_line(f, line, text);
    }
    free(line);
    free(text);
}

static bool open_family(struct family *f, const char *dir)
{
    struct snug_err e;
    const char *slash = strrchr(dir, '/');
    *f = (struct family){.name = slash ? slash + 1 : dir};
    if (tokenizer_open(&io_posix, dir, &f->t, &e)) {
        printf("%s: %s\n", f->name, e.text);
        return false;
    }
    return true;
}

static void close_family(struct family *f)
{
    tokenizer_close(f->t);
    token_buf_free(&f->buf);
}

/* CRC-32 as zlib's. */
static uint32_t crc32_of(uint32_t crc, const char *s, size_t n)
{
    crc = ~crc;
    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned char)s[i];
        for (int k = 0; k < 8; k++)
            crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320 : 0);
    }
    return ~crc;
}

static int check_code_points(struct family *f, FILE *file)
{
    unsigned first, want;
    int differ = 0;
    struct snug_err e;
    while (fscanf(file, "%x %x", &first, &want) == 2) {
        uint32_t crc = 0;
        for (uint32_t c = first; c < first + 256; c++) {
            char text[8], line[512];
            if (tokenizer_encode(f->t, text, (size_t)utf8_encode(c, text), NULL, 0, 0, &f->buf, &e))
                fail_msg("%s, U+%04X: %s", f->name, c, e.text);
            int n = snprintf(line, sizeof line, "%X: ", c);
            for (size_t i = 0; i < f->buf.n_pieces; i++)
                n += snprintf(line + n, sizeof line - (size_t)n, "%s%d", i ? " " : "", f->buf.pieces[i]);
            crc = crc32_of(crc, line, (size_t)n);
            crc = crc32_of(crc, "\n", 1);
        }
        if (crc != want && differ++ < 3)
            printf("%s: code points from U+%04X on differ\n", f->name, first);
    }
    return differ;
}

/* Calls `check` for each folder in `dir` that has `file_name`; how many there were. */
static int each_folder(const char *dir, const char *file_name, int (*check)(const char *folder, const char *dir),
                       int *wrong)
{
    struct dirent **names;
    int n = scandir(dir, &names, NULL, alphasort), folders = 0;
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        char folder[4400], file[4500];
        snprintf(folder, sizeof folder, "%s/%s", dir, names[i]->d_name);
        snprintf(file, sizeof file, "%s/%s", folder, file_name);
        const char *only = getenv("FAMILY");
        FILE *f = names[i]->d_name[0] == '.' || (only && strcmp(only, names[i]->d_name)) ? NULL : fopen(file, "r");
        if (f) {
            fclose(f);
            folders++;
            *wrong += check(folder, dir) != 0;
        }
        free(names[i]);
    }
    free(names);
    return folders;
}

static int check_recorded(const char *folder, const char *dir)
{
    (void)dir;
    struct family f;
    char path[4500];
    if (!open_family(&f, folder))
        return 1;
    snprintf(path, sizeof path, "%s/rows.jsonl", folder);
    FILE *rows = fopen(path, "r");
    assert_non_null(rows);
    check_lines(&f, rows, NULL);
    fclose(rows);
    close_family(&f);
    assert_true(f.rows > 50);
    return f.differ;
}

static int check_full(const char *folder, const char *dir)
{
    struct family f;
    char own[4096];
    /* That file has ids which the library does not give, so snug refuses it: recorded/families.py has corrected them. */
    snprintf(own, sizeof own, "%s/tests/tokenizer/recorded/families/added_tokens", getenv("SNUG_SOURCE"));
    if (!open_family(&f, strstr(folder, "/added_tokens") ? own : folder))
        return 1;
    FILE *texts = open_gz(dir, "strings.jsonl.gz"), *rows = open_gz(folder, "expected.jsonl.gz"),
         *more = open_gz(folder, "more.jsonl.gz"), *points = open_gz(folder, "codepoints.txt.gz");
    check_lines(&f, rows, texts);
    check_lines(&f, more, NULL);
    int blocks = check_code_points(&f, points);
    pclose(texts);
    pclose(rows);
    pclose(more);
    pclose(points);
    close_family(&f);
    printf("%-22s %d rows, %d differ; %d of 4344 blocks of code points differ\n", f.name, f.rows, f.differ, blocks);
    return f.differ + blocks;
}

static void recorded_families(void **state)
{
    (void)state;
    char dir[4096];
    int wrong = 0;
    snprintf(dir, sizeof dir, "%s/tests/tokenizer/recorded/families", getenv("SNUG_SOURCE"));
    assert_true(each_folder(dir, "tokenizer.json", check_recorded, &wrong) > 10);
    assert_int_equal(wrong, 0);
}

/* Folders with a model of SentencePiece alone, as classes of transformers read them (recorded/record_sentencepiece.py). */
static void recorded_sentencepiece(void **state)
{
    (void)state;
    char dir[4096];
    int wrong = 0;
    snprintf(dir, sizeof dir, "%s/tests/tokenizer/recorded/sentencepiece", getenv("SNUG_SOURCE"));
    assert_int_equal(each_folder(dir, "config.json", check_recorded, &wrong), 17);
    assert_int_equal(wrong, 0);
}

/* Folders of translators: vocab.json and models of SentencePiece for sources and targets (recorded/record_translators.py). */
static void recorded_translators(void **state)
{
    (void)state;
    char dir[4096];
    int wrong = 0;
    snprintf(dir, sizeof dir, "%s/tests/tokenizer/recorded/translators", getenv("SNUG_SOURCE"));
    assert_int_equal(each_folder(dir, "vocab.json", check_recorded, &wrong), 6);
    assert_int_equal(wrong, 0);
}

/* Marks the types that a section names, those of a Sequence too. */
static void mark_types(json_t *section, const char *const *types, bool *seen)
{
    const char *type = json_string_value(json_object_get(section, "type")), *key;
    json_t *value, *step;
    size_t k;
    for (size_t i = 0; type && types[i]; i++)
        seen[i] = seen[i] || !strcmp(types[i], type);
    json_object_foreach(section, key, value) json_array_foreach(value, k, step) mark_types(step, types, seen);
}

#define STEP(x, T) #T,
static const char
    *const normalizers[] = {NORMALIZERS(STEP, ) NULL},
           *const pre_tokenizers[] = {PRE_TOKENIZERS(STEP, ) NULL}, *const models[] = {MODELS(STEP, ) NULL},
           *const post_processors[] = {POST_PROCESSORS(STEP, ) NULL}, *const decoders[] = {DECODERS(STEP, ) NULL};
#undef STEP
static const struct {
    const char *section;
    const char *const *types;
} sections[] = {{"normalizer", normalizers},
                {"pre_tokenizer", pre_tokenizers},
                {"model", models},
                {"post_processor", post_processors},
                {"decoder", decoders}};
enum { SECTIONS = sizeof sections / sizeof *sections, MOST_TYPES = 64 };
static bool seen[SECTIONS][MOST_TYPES];

static int mark_steps(const char *folder, const char *dir)
{
    (void)dir;
    char path[4500];
    snprintf(path, sizeof path, "%s/tokenizer.json", folder);
    json_t *o = json_load_file(path, 0, NULL);
    assert_non_null(o);
    for (int i = 0; i < SECTIONS; i++)
        mark_types(json_object_get(o, sections[i].section), sections[i].types, seen[i]);
    json_decref(o);
    return 0;
}

static void every_step_has_a_recording(void **state)
{
    (void)state;
    char dir[4096];
    int wrong = 0;
    snprintf(dir, sizeof dir, "%s/tests/tokenizer/recorded/families", getenv("SNUG_SOURCE"));
    each_folder(dir, "tokenizer.json", mark_steps, &wrong);
    for (int i = 0; i < SECTIONS; i++)
        for (int k = 0; sections[i].types[k]; k++)
            if (!seen[i][k] && ++wrong)
                printf("no folder of recorded/families has the %s %s\n", sections[i].section, sections[i].types[k]);
    assert_int_equal(wrong, 0);
}

static void full_recordings(void **state)
{
    (void)state;
    char dir[4096];
    int wrong = 0;
    if (!getenv("SNUG_GOLDEN")) {
        print_message(
            "SNUG_GOLDEN names no folder of full recordings; tests/tokenizer/recorded/families is what was compared\n");
        skip();
    }
    snprintf(dir, sizeof dir, "%s/tokenizers", getenv("SNUG_GOLDEN"));
    assert_true(each_folder(dir, "tokenizer.json", check_full, &wrong) > 0);
    assert_int_equal(wrong, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(recorded_families),    cmocka_unit_test(recorded_sentencepiece),
        cmocka_unit_test(recorded_translators), cmocka_unit_test(every_step_has_a_recording),
        cmocka_unit_test(full_recordings),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
