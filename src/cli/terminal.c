#include "cli/terminal.h"

#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>
#include <utf8proc.h>

bool terminal_redraws(int fd)
{
    const char *kind = getenv("TERM");
    return isatty(fd) && kind && *kind && strcmp(kind, "dumb") != 0;
}

int terminal_columns(int fd)
{
    struct winsize size = {0};
    if (!terminal_redraws(fd))
        return 0;
    return ioctl(fd, TIOCGWINSZ, &size) == 0 && size.ws_col ? size.ws_col : 80;
}

int text_columns(const char *text, size_t n)
{
    int columns = 0;
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t bytes = utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &c);
        columns += bytes > 0 ? utf8proc_charwidth(c) : 1;
        i += bytes > 0 ? (size_t)bytes : 1;
    }
    return columns;
}

void text_cut(struct str *out, const char *text, int columns)
{
    size_t all = strlen(text), fits = 0;
    if (text_columns(text, all) <= columns) {
        str_append(out, text);
        return;
    }
    for (int used = 0; fits < all;) {
        size_t n = (size_t)utf8_sequence(text + fits, all - fits);
        used += text_columns(text + fits, n);
        if (!n || used >= columns)
            break;
        fits += n;
    }
    str_append_n(out, text, fits);
    str_append(out, columns > 0 ? "…" : "");
}

void text_cell(struct str *out, const char *text, int columns)
{
    struct str clean = {0}, cell = {0};
    str_escape(&clean, text);
    if (columns)
        text_cut(&cell, str_text(&clean), columns);
    else
        str_append(&cell, str_text(&clean));
    int used = text_columns(str_text(&cell), cell.n);
    str_append(out, str_text(&cell));
    str_printf(out, "%*s", columns > used ? columns - used : 0, "");
    out->failed |= clean.failed || cell.failed;
    str_free(&clean);
    str_free(&cell);
}

int text_cell_columns(const char *text)
{
    struct str clean = {0};
    str_escape(&clean, text);
    int columns = text_columns(str_text(&clean), clean.n);
    str_free(&clean);
    return columns;
}

static bool is_digit(char c)
{
    return c >= '0' && c <= '9';
}

/* Bytes of the words at the start of `text` that belong together: a number and what stands behind it ("347 MiB"), and
 * both sides of a "=". */
static size_t piece_bytes(const char *text)
{
    size_t n = strcspn(text, " ");
    while (n && text[n] == ' ' && text[n + 1] && text[n + 1] != ' ') {
        const char *next = text + n + 1;
        bool equals = (next[0] == '=' && next[1] == ' ') || (text[n - 1] == '=' && (n == 1 || text[n - 2] == ' '));
        if (!is_digit(text[n - 1]) && !equals)
            break;
        n += 1 + strcspn(next, " ");
    }
    return n;
}

/* Bytes of `text` up to the next two blanks. */
static size_t group_bytes(const char *text)
{
    const char *end = strstr(text, "  ");
    return end ? (size_t)(end - text) : strlen(text);
}

void wrap_text(struct str *out, const char *text, int columns, int indent)
{
    bool begun = false; /* something stands on the line */
    for (int used = 0; *text;) {
        size_t blanks = strspn(text, " "), n = blanks == 2 ? group_bytes(text + 2) : piece_bytes(text + blanks);
        if (indent + text_columns(text + blanks, n) > columns)
            n = piece_bytes(text + blanks);
        if (indent + text_columns(text + blanks, n) > columns)
            n = strcspn(text + blanks, " ");
        int wide = text_columns(text + blanks, n);
        if (columns && begun && used + (int)blanks + wide > columns) {
            str_printf(out, "\n%*s", indent, "");
            used = indent + wide;
        } else {
            str_append_n(out, text, blanks);
            used += (int)blanks + wide;
        }
        str_append_n(out, text + blanks, n);
        begun = true;
        text += blanks + n;
    }
}

void print_wrapped(FILE *f, const char *lines, int indent)
{
    int columns = terminal_columns(fileno(f));
    for (const char *end; (end = strchr(lines, '\n')); lines = end + 1) {
        struct str line = {0}, wrapped = {0};
        str_append_n(&line, lines, (size_t)(end - lines));
        wrap_text(&wrapped, str_text(&line), columns, indent);
        fprintf(f, "%s\n", str_text(&wrapped));
        str_free(&line);
        str_free(&wrapped);
    }
}
