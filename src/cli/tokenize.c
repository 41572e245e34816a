/* snug tokenize: the ids of each line; with --decode, the text of the ids in each line. */
#include "base/mem.h"
#include "base/str.h"
#include "cli/commands.h"
#include "tokenizer/tokenizer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct ids {
    int32_t *list; /* (n) */
    size_t n, cap;
};

/* One line of input: its text, with U+FFFD for invalid bytes if those are to be replaced. */
static const char *clean_line(const char *text, size_t n, bool replace, struct str *clean, size_t *clean_n)
{
    *clean_n = n;
    if (!replace)
        return text;
    clean->n = 0;
    for (size_t i = 0; i < n;) {
        int len = utf8_sequence(text + i, n - i);
        str_append_n(clean, len ? text + i : "\xEF\xBF\xBD", len ? (size_t)len : 3);
        i += len ? (size_t)len : 1;
    }
    *clean_n = clean->n;
    return str_text(clean);
}

static void append_list(struct str *out, const int32_t *list, size_t n, const char *between)
{
    for (size_t i = 0; i < n; i++)
        str_printf(out, "%s%d", i ? between : "", list[i]);
}

static void append_line(struct str *out, const struct token_buf *b, bool json)
{
    if (!json) {
        append_list(out, b->ids, b->n, " ");
        str_append(out, "\n");
        return;
    }
    str_append(out, "{\"ids\":[");
    append_list(out, b->ids, b->n, ",");
    str_append(out, "],\"type_ids\":[");
    append_list(out, b->type_ids, b->n, ",");
    str_printf(out, "],\"truncated\":%s}\n", b->truncated ? "true" : "false");
}

/* The ids of a line: numbers between blanks, commas or brackets. */
static int read_ids(char *line, const struct tokenizer *t, struct ids *ids, struct snug_err *err)
{
    ids->n = 0;
    for (char *word; (word = strsep(&line, " \t\r,[]"));) {
        char *end;
        if (!*word)
            continue;
        errno = 0;
        long id = strtol(word, &end, 10);
        if (*end || errno || id < 0 || id >= tokenizer_vocab_size(t))
            return err_set(err, SNUG_ERR_INPUT, "'%s' is no token id; give whole numbers from 0 to %d", word,
                           (int)tokenizer_vocab_size(t) - 1);
        if (!MEM_GROW(ids->list, ids->cap, ids->n + 1))
            return err_no_memory(err, (ids->n + 1) * sizeof *ids->list);
        ids->list[ids->n++] = (int32_t)id;
    }
    return 0;
}

static int decode_line(const struct tokenizer *t, char *line, bool json, struct ids *ids, struct str *out,
                       struct snug_err *err)
{
    struct str text = {0};
    TRY(read_ids(line, t, ids, err));
    int code = tokenizer_decode(t, ids->list, ids->n, false, &text, err);
    if (!code && json) {
        str_append(out, "{\"text\":");
        str_json_str(out, &text);
        str_append(out, "}\n");
    } else if (!code) {
        str_escape_str(out, &text);
        str_append(out, "\n");
    }
    str_free(&text);
    return code;
}

static int tokenize_lines(const struct options *o, const struct tokenizer *t, FILE *f, const char *path,
                          struct str *out, struct snug_err *err)
{
    struct token_buf buf = {0};
    struct str clean = {0};
    struct ids ids = {0};
    char *text = NULL;
    size_t cap = 0;
    ssize_t n;
    int code = SNUG_OK;
    for (long line = 1; !code && (n = getdelim(&text, &cap, '\n', f)) >= 0; line++) {
        struct snug_err why = {0};
        size_t bytes = (size_t)n - (n > 0 && text[n - 1] == '\n');
        const char *s = clean_line(text, bytes, o->utf8 == OPT_UTF8_REPLACE, &clean, &bytes);
        code = str_check(&clean, &why);
        if (!code && o->decode) {
            text[(size_t)n - (text[n - 1] == '\n')] = 0;
            code = decode_line(t, text, o->json, &ids, out, &why);
        } else if (!code) {
            code = tokenizer_encode(t, s, bytes, NULL, 0, o->max_length, &buf, &why);
        }
        if (code == SNUG_ERR_INPUT)
            err_set(err, code, "%s:%ld: %s", path, line, why.text);
        else if (code)
            *err = why;
        else if (!o->decode)
            append_line(out, &buf, o->json);
    }
    if (!code && ferror(f))
        code = err_errno(err, SNUG_ERR_IO, path, "read", errno);
    free(text);
    str_free(&clean);
    mem_free(ids.list);
    token_buf_free(&buf);
    return code ? code : str_check(out, err);
}

int run_tokenize(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct tokenizer *t;
    TRY(tokenizer_open(&io_posix, o->model, &t, err));
    for (size_t i = 0; tokenizer_note(t, i); i++)
        print_note(tokenizer_note(t, i));
    const char *path = args->items[0];
    struct str out = {0};
    FILE *f = stdin;
    int code = SNUG_OK, fd;
    int64_t size;
    if (strcmp(path, "-") == 0) {
        path = "stdin";
    } else if (!(code = io_open_read(&io_posix, path, &fd, &size, err)) && !(f = fdopen(fd, "r"))) {
        code = err_errno(err, SNUG_ERR_IO, path, "open", errno);
        close(fd);
    }
    if (!code) {
        code = tokenize_lines(o, t, f, path, &out, err);
        if (f != stdin)
            fclose(f);
    }
    if (!code)
        fwrite(str_text(&out), 1, out.n, stdout);
    str_free(&out);
    tokenizer_close(t);
    return code;
}
