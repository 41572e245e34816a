/* Runs every line of messages.txt with the real command: exit code, the one line on stderr, nothing on stdout, nothing
 * left behind, the user's files as they were. What does not match is printed as the line that would, so that a changed
 * message is a reviewed change.
 *
 * Cases find this program on their PATH under the names of main's table: `snug` writes down which files there are and
 * becomes the real command; `model` and `st` make files (make_model.c).
 */
#include "base/err.h"
#include "base/hash.h"
#include "base/str.h"
#include "make_model.h"

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
    LONGEST = 240,     /* bytes of a line on stderr, without "snug: " */
    TIME_LIMIT = 60,   /* seconds of the clock, so that a command that hangs ends */
    OUTPUT = 16384,    /* bytes kept of a stream */
    MAX_ENTRIES = 256, /* of a case's folder */
    HASHED = 1 << 20,  /* bytes of a file */
};

struct outcome {
    int code;
    char out[OUTPUT], err[OUTPUT]; /* err: without "snug: " on each line, line breaks between as \n */
    const char *complaint;         /* a rule that was broken, or NULL */
};

static char scratch[] = "/tmp/snug-messages-XXXXXX";
static char bin[64];
static const char *only = ""; /* beginning of the ids of the cases to run */

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

/* ---- what is in the folder of a case ---- */

struct entry {
    char path[256]; /* within the folder */
    struct stat st;
    struct hash128 hash;
};

struct listing {
    size_t n;
    struct entry entries[MAX_ENTRIES];
};

static struct listing *listing; /* that add_entry writes to */

static struct hash128 hash_file(const char *path)
{
    static char bytes[HASHED];
    int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    ssize_t n = fd < 0 ? 0 : read(fd, bytes, sizeof bytes);
    if (fd >= 0)
        close(fd);
    return hash_bytes(bytes, n > 0 ? (size_t)n : 0);
}

static int add_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)kind;
    if (ftw->level == 0)
        return 0;
    if (listing->n == MAX_ENTRIES)
        return -1;
    struct entry *e = &listing->entries[listing->n++];
    snprintf(e->path, sizeof e->path, "%s", path + 2); /* behind "./" */
    e->st = *st;
    if (S_ISREG(st->st_mode))
        e->hash = hash_file(path);
    return 0;
}

static void list_folder(struct listing *l)
{
    listing = l;
    l->n = 0;
    nftw(".", add_entry, 16, FTW_PHYS);
}

static const struct entry *find_entry(const struct listing *l, const char *path)
{
    for (size_t i = 0; i < l->n; i++)
        if (strcmp(l->entries[i].path, path) == 0)
            return &l->entries[i];
    return NULL;
}

/* Folders change when something comes and goes in them, which is allowed. */
static bool same_entry(const struct entry *a, const struct entry *b)
{
    return (a->st.st_mode & S_IFMT) == (b->st.st_mode & S_IFMT) &&
           (!S_ISREG(a->st.st_mode) ||
            (a->st.st_size == b->st.st_size && a->st.st_mtim.tv_sec == b->st.st_mtim.tv_sec &&
             a->st.st_mtim.tv_nsec == b->st.st_mtim.tv_nsec && !memcmp(&a->hash, &b->hash, sizeof a->hash)));
}

/* A command that does its work, wholly or until a signal or NaN, writes in `out`; one that fails changes nothing, but
 * may tidy up what an earlier one left unfinished. */
static bool works(int code)
{
    return code == 0 || code == SNUG_ERR_NUMERIC || code == SNUG_STOPPED;
}

static bool is_temporary(const char *path)
{
    return strstr(path, ".tmp-") || strstr(path, ".trash-");
}

static const char *compare_listings(const struct listing *before, const struct listing *after, int code)
{
    static char complaint[300];
    for (size_t i = 0; i < before->n; i++) {
        const struct entry *e = &before->entries[i], *now = find_entry(after, e->path);
        if (now ? same_entry(e, now) : is_temporary(e->path))
            continue;
        if (works(code) && strncmp(e->path, "out", 3) == 0)
            continue;
        snprintf(complaint, sizeof complaint, "%s %s", e->path, now ? "has changed" : "is gone");
        return complaint;
    }
    for (size_t i = 0; i < after->n; i++) {
        const char *path = after->entries[i].path;
        if (find_entry(before, path) || (works(code) && !is_temporary(path)))
            continue;
        snprintf(complaint, sizeof complaint, "%s is left behind", path);
        return complaint;
    }
    return NULL;
}

/* The name `snug` on a case's PATH: notes how the last command found the folder. */
static int become_snug(int argc, char **argv)
{
    static struct listing before;
    (void)argc;
    int saved = open(getenv("SNUG_BEFORE"), O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (saved >= 0) {
        list_folder(&before);
        if (write(saved, &before, sizeof before) != sizeof before)
            return 124;
        close(saved);
    }
    execv(getenv("SNUG_COMMAND"), argv);
    return 124;
}

/* ---- running a case ---- */

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
        if (strstr(line, "; checkpoints are as durable as that is"))
            continue; /* where this test's folder is, is not the case's matter */
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

/* The rules that need more than the streams. */
static void check_traces(const char *cwd, const char *before_path, struct outcome *o)
{
    static struct listing before, after;
    int fd = open(before_path, O_RDONLY), home = open(".", O_RDONLY | O_DIRECTORY);
    if (fd >= 0 && home >= 0 && read(fd, &before, sizeof before) == sizeof before && chdir(cwd) == 0) {
        list_folder(&after);
        const char *complaint = compare_listings(&before, &after, o->code);
        o->complaint = complaint ? complaint : o->complaint;
        if (fchdir(home) < 0)
            o->complaint = "lost";
    }
    close(fd);
    close(home);
    if (*o->out && !works(o->code))
        o->complaint = "there is something on stdout";
}

/* Runs `command` in a new folder. */
static void run(const char *command, struct outcome *o)
{
    char cwd[96], out[96], err[96], home[96], before[96];
    *o = (struct outcome){0};
    snprintf(cwd, sizeof cwd, "%s/case", scratch);
    snprintf(out, sizeof out, "%s/stdout", scratch);
    snprintf(err, sizeof err, "%s/stderr", scratch);
    snprintf(home, sizeof home, "%s/home", scratch);
    snprintf(before, sizeof before, "%s/before", scratch);
    assert_int_equal(mkdir(cwd, 0777), 0);
    assert_int_equal(mkdir(home, 0777), 0);
    unlink(before);
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
        setenv("HOME", home, 1);
        setenv("SNUG_BEFORE", before, 1);
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
    check_traces(cwd, before, o);
    remove_tree(cwd);
    remove_tree(home);
}

/* Whether `text` is as expected, where <...> stands for anything within a line. */
static bool matches(const char *wanted, const char *text)
{
    const char *any = strstr(wanted, "<...>");
    size_t n = any ? (size_t)(any - wanted) : strlen(wanted);
    if (strncmp(wanted, text, n) != 0)
        return false;
    if (!any)
        return text[n] == 0;
    for (text += n; !matches(any + 5, text); text++)
        if (!*text || strncmp(text, "\\n", 2) == 0)
            return false;
    return true;
}

/* One line of messages.txt. False when it is not as expected; then it has been said. */
static bool check_line(char *line)
{
    char *id = line + strspn(line, " "), *end = id + strcspn(id, " ");
    if (!*end || !strstr(end, " => ")) {
        fprintf(stderr, "no case: %s\n", line);
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
    if (o.code == code && matches(text, o.err) && !o.complaint)
        return true;
    fprintf(stderr, "%s %s => %ld %s\n  gave:\n%s %s => %d %s\n", id, command, code, text, id, command, o.code, o.err);
    if (o.complaint)
        fprintf(stderr, "  %s\n", o.complaint);
    if (o.code && *o.out)
        fprintf(stderr, "  stdout: %.200s\n", o.out);
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
        if (!*line || *line == '#' || strncmp(line, only, strlen(only)) != 0)
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

static const struct {
    const char *name;
    int (*main)(int argc, char **argv);
} names[] = {{"snug", become_snug}, {"model", make_model}, {"st", make_safetensors}};

enum { N_NAMES = sizeof names / sizeof *names };

/* $SRC is the source tree, and nothing of the caller's settings comes along. */
static int set_up(void **state)
{
    (void)state;
    char self[4096], link[128], path[4096];
    ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
    if (!mkdtemp(scratch) || n < 0)
        return -1;
    self[n] = 0;
    snprintf(bin, sizeof bin, "%s/bin", scratch);
    snprintf(path, sizeof path, "%s:%s", bin, getenv("PATH"));
    if (mkdir(bin, 0777) < 0)
        return -1;
    for (int i = 0; i < N_NAMES; i++) {
        snprintf(link, sizeof link, "%s/%s", bin, names[i].name);
        if (symlink(self, link) < 0)
            return -1;
    }
    setenv("PATH", path, 1);
    setenv("SRC", getenv("SNUG_SOURCE"), 1);
    setenv("TRAIN", "snug train --model m --train-data synthetic:8x4 --output-dir out", 1);
    setenv("CSV", "snug train --model m --train-data d.csv --output-dir out --batch-size 4", 1);
    setenv("SNUG_THREADS", "1", 1); /* the cases are small, and many */
    setenv("LC_ALL", "C", 1);
    unsetenv("SNUG_CACHE_DIR");
    unsetenv("XDG_CACHE_HOME");
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return remove_tree(scratch);
}

int main(int argc, char **argv)
{
    const char *slash = strrchr(argv[0], '/'), *name = slash ? slash + 1 : argv[0];
    for (int i = 0; i < N_NAMES; i++)
        if (strcmp(names[i].name, name) == 0)
            return names[i].main(argc, argv);
    only = argc > 1 ? argv[1] : "";
    const struct CMUnitTest tests[] = {cmocka_unit_test(messages)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
