/* Runs every line of messages.txt with the real command: exit code, the one line on stderr, nothing on stdout, nothing
 * left behind. What does not match is printed as the line that would, so that a changed message is a reviewed change.
 */
#include "base/str.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum {
    LONGEST = 240,   /* bytes of a line on stderr, without "snug: " */
    TIME_LIMIT = 60, /* seconds; rules of time have tests of their own */
    OUTPUT = 16384,  /* bytes kept of a stream */
};

struct outcome {
    int code;
    char out[OUTPUT], err[OUTPUT]; /* err: without "snug: " on each line, line breaks between as \n */
    const char *complaint;         /* a rule that was broken, or NULL */
};

static char scratch[] = "/tmp/snug-messages-XXXXXX";
static char bin[64];

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}

static int remove_tree(const char *path)
{
    return nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static const char *leftover;

/* Temporary names of io_write_file and of checkpoints, and an output folder that a failed command made. */
static int find_leftover(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    static char name[256];
    (void)st;
    (void)kind;
    const char *base = path + ftw->base;
    if (strstr(base, ".tmp-") || strstr(base, ".trash-") || (ftw->level == 1 && strcmp(base, "out") == 0)) {
        snprintf(name, sizeof name, "%s", base);
        leftover = name;
    }
    return 0;
}

static void read_stream(const char *path, char text[OUTPUT])
{
    FILE *f = fopen(path, "r");
    size_t n = f ? fread(text, 1, OUTPUT - 1, f) : 0;
    text[n] = 0;
    if (f)
        fclose(f);
}

/* In place: every `from` becomes `to`, which is not longer. */
static void replace(char *text, const char *from, const char *to)
{
    size_t n = strlen(from), k = strlen(to);
    for (char *at = text; n && (at = strstr(at, from)); at += k) {
        memcpy(at, to, k);
        memmove(at + k, at + n, strlen(at + n) + 1);
    }
}

/* Checks the form of each line and takes "snug: " away. */
static void clean_lines(struct outcome *o)
{
    static char clean[OUTPUT];
    size_t w = 0;
    for (char *line = o->err, *end; *line; line = end) {
        end = strchr(line, '\n');
        if (!end) {
            o->complaint = "the last line on stderr has no end";
            return;
        }
        *end++ = 0;
        if (strncmp(line, "snug: ", 6) != 0)
            o->complaint = "a line on stderr does not begin with 'snug: '";
        else
            line += 6;
        size_t n = strlen(line);
        if (n > LONGEST)
            o->complaint = "a line is longer than 240 bytes";
        for (size_t i = 0, step; i < n; i += step)
            if (!(step = (size_t)utf8_sequence(line + i, n - i)) || (unsigned char)line[i] < ' ') {
                o->complaint = "a line has a control character or is not UTF-8";
                break;
            }
        w += (size_t)snprintf(clean + w, sizeof clean - w, "%s%s", w ? "\\n" : "", line);
        if (w >= sizeof clean) {
            o->complaint = "too much on stderr";
            return;
        }
    }
    clean[w] = 0;
    memcpy(o->err, clean, sizeof clean);
}

/* Runs `command` in a new folder. */
static void run(const char *command, struct outcome *o)
{
    char cwd[96], out[96], err[96];
    *o = (struct outcome){0};
    snprintf(cwd, sizeof cwd, "%s/case", scratch);
    snprintf(out, sizeof out, "%s/stdout", scratch);
    snprintf(err, sizeof err, "%s/stderr", scratch);
    assert_int_equal(mkdir(cwd, 0777), 0);
    pid_t pid = fork();
    if (pid == 0) {
        int in = open("/dev/null", O_RDONLY), to = open(out, O_WRONLY | O_CREAT | O_TRUNC, 0666),
            errors = open(err, O_WRONLY | O_CREAT | O_TRUNC, 0666);
        if (chdir(cwd) < 0 || dup2(in, 0) < 0 || dup2(to, 1) < 0 || dup2(errors, 2) < 0)
            _exit(126);
        for (int fd = 3; fd < 64; fd++)
            close(fd);
        signal(SIGPIPE, SIG_DFL);
        alarm(TIME_LIMIT);
        execl("/bin/sh", "sh", "-c", command, (char *)NULL);
        _exit(126);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    o->code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    read_stream(out, o->out);
    read_stream(err, o->err);
    replace(o->err, cwd, "$PWD");
    replace(o->err, getenv("SNUG_SOURCE"), "$SRC");
    clean_lines(o);
    leftover = NULL;
    nftw(cwd, find_leftover, 16, FTW_PHYS);
    if (o->code && leftover)
        o->complaint = "something is left behind";
    if (o->code && *o->out)
        o->complaint = "there is something on stdout";
    remove_tree(cwd);
}

/* One line of messages.txt. False when it is not as expected; then it has been said. */
static bool check_line(char *line)
{
    char *id = line + strspn(line, " "), *end = id + strcspn(id, " ");
    if (!*end || !strstr(end, " => ")) {
        print_error("no case: %s\n", line);
        return false;
    }
    *end = 0;
    char *command = end + 1 + strspn(end + 1, " "), *arrow = strstr(command, " => ");
    *arrow = 0;
    char *text;
    long code = strtol(arrow + 4, &text, 10);
    text += strspn(text, " ");
    struct outcome o;
    run(command, &o);
    if (o.code == code && strcmp(o.err, text) == 0 && !o.complaint)
        return true;
    print_error("%s %s => %ld %s\n  gave:\n%s %s => %d %s\n", id, command, code, text, id, command, o.code, o.err);
    if (o.complaint)
        print_error("  %s\n", o.complaint);
    if (o.code && *o.out)
        print_error("  stdout: %.200s\n", o.out);
    return false;
}

static void messages(void **state)
{
    (void)state;
    char path[512], *line = NULL;
    size_t cap = 0;
    int failed = 0, cases = 0;
    snprintf(path, sizeof path, "%s/tests/cli/messages.txt", getenv("SNUG_SOURCE"));
    FILE *f = fopen(path, "r");
    assert_non_null(f);
    for (ssize_t n; (n = getline(&line, &cap, f)) >= 0;) {
        line[strcspn(line, "\n")] = 0;
        if (!*line || *line == '#')
            continue;
        cases++;
        failed += !check_line(line);
    }
    free(line);
    fclose(f);
    print_message("%d cases\n", cases);
    if (failed)
        fail_msg("%d of %d cases of tests/cli/messages.txt failed", failed, cases);
}

/* `snug` is found on the PATH, $SRC is the source tree, and nothing of the caller's settings comes along. */
static int set_up(void **state)
{
    (void)state;
    char link[96], path[4096];
    if (!mkdtemp(scratch))
        return -1;
    snprintf(bin, sizeof bin, "%s/bin", scratch);
    snprintf(link, sizeof link, "%s/snug", bin);
    snprintf(path, sizeof path, "%s:%s", bin, getenv("PATH"));
    if (mkdir(bin, 0777) < 0 || symlink(getenv("SNUG_COMMAND"), link) < 0)
        return -1;
    setenv("PATH", path, 1);
    setenv("SRC", getenv("SNUG_SOURCE"), 1);
    setenv("HOME", scratch, 1);
    setenv("LC_ALL", "C", 1);
    unsetenv("SNUG_THREADS");
    unsetenv("SNUG_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return remove_tree(scratch);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(messages)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
