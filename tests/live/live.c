/* The page of a run while it goes on, asked for over plain sockets: who has the address sees what the log says, nobody else sees
 * anything, and nothing can be changed. */
#include "live/live.h"

#include "../cli/xml.h"
#include "../run/command.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#define LOG                                                                                                            \
    "{\"step\": 1, \"epoch\": 0.5, \"loss\": 2.125, \"learning_rate\": 0.001}\n"                                       \
    "{\"step\": 2, \"epoch\": 1.0, \"loss\": 1.0625, \"learning_rate\": 0.0005}\n"

struct page {
    char *text; /* status line, headers, an empty line, the body */
    const char *body;
    size_t body_n;
    int status;
};

/* The socket's error, or 0 and the socket. */
static int reach(const char *host, int port, int *out)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    assert_int_equal(inet_pton(AF_INET, host, &to.sin_addr), 1);
    *out = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(*out >= 0);
    if (!connect(*out, (struct sockaddr *)&to, sizeof to))
        return 0;
    int error = errno;
    close(*out);
    return error;
}

/* What the server says to these bytes until it closes the connection. */
static char *say(int port, const char *request, size_t *n)
{
    int s;
    size_t room = 4 << 20;
    char *text = calloc(1, room + 1);
    ssize_t got;
    assert_non_null(text);
    assert_int_equal(reach("127.0.0.1", port, &s), 0);
    assert_int_equal(send(s, request, strlen(request), MSG_NOSIGNAL), strlen(request));
    for (*n = 0; *n < room && (got = read(s, text + *n, room - *n)) > 0; *n += (size_t)got)
        ;
    close(s);
    return text;
}

static struct page ask(int port, const char *method, const char *path)
{
    char request[512];
    size_t n;
    snprintf(request, sizeof request,
             "%s %s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", method, path);
    struct page p = {.text = say(port, request, &n)};
    const char *end = strstr(p.text, "\r\n\r\n");
    assert_int_equal(sscanf(p.text, "HTTP/1.1 %d", &p.status), 1);
    assert_non_null(end);
    p.body = end + 4;
    p.body_n = n - (size_t)(p.body - p.text);
    return p;
}

static void expect(int port, const char *method, const char *path, int status, const char *part)
{
    struct page p = ask(port, method, path);
    assert_int_equal(p.status, status);
    if (!strstr(p.text, part))
        fail_msg("%s %s: no '%s' in:\n%.2000s", method, path, part, p.text);
    free(p.text);
}

static int split(const char *address, const char **path)
{
    int port, at = 0;
    assert_int_equal(sscanf(address, "http://127.0.0.1:%d%n", &port, &at), 1);
    *path = address + at;
    return port;
}

/* The server of a run whose output folder is empty. */
struct served {
    struct live *live;
    char path[128];
    int port;
};

static struct served serve(int port)
{
    struct served v;
    struct snug_err err;
    const char *path;
    unlink(in(folder, "log.jsonl"));
    if (live_open(&io_posix, folder, port, &v.live, &err))
        fail_msg("%s", err.text);
    v.port = split(live_address(v.live), &path);
    snprintf(v.path, sizeof v.path, "%s", path);
    return v;
}

static void page_follows_the_run(void **state)
{
    static const char doctype[] = "<!DOCTYPE html>\n";
    (void)state;
    struct served v = serve(0);
    const char *complaint;
    expect(v.port, "GET", v.path, 200, "<p>The run begins.</p>");
    live_progress(v.live, 2, 10, 65.2);
    live_close(v.live, false);

    v = serve(0);
    live_progress(v.live, 1, 10, 3600);
    expect(v.port, "GET", v.path, 200, "<p>Nothing is logged yet.</p>");
    live_close(v.live, false);

    v = serve(0);
    write_text(folder, "log.jsonl", LOG);
    live_progress(v.live, 2, 10, 65.2);
    struct page p = ask(v.port, "GET", v.path);
    assert_int_equal(p.status, 200);
    assert_non_null(strstr(p.text, "\r\nContent-Type: text/html; charset=utf-8\r\n"));
    assert_non_null(strstr(p.text, "\r\nRefresh: 5\r\n"));
    assert_non_null(strstr(p.text, "\r\nCache-Control: no-store\r\n"));
    assert_non_null(strstr(p.text, "\r\nContent-Security-Policy: default-src 'none'; style-src 'unsafe-inline';"));
    assert_null(strstr(p.text, "Access-Control-Allow"));
    assert_non_null(strstr(p.body, "<strong>Step 2 of 10, 0:01:05 left.</strong>"));
    assert_non_null(strstr(p.body, "1.0625"));
    assert_true(!strncmp(p.body, doctype, strlen(doctype)));
    if ((complaint = xml_complaint(p.body + strlen(doctype), p.body_n - strlen(doctype))))
        fail_msg("%s", complaint);
    free(p.text);
    live_close(v.live, false);
}

static void nobody_else_sees_it(void **state)
{
    (void)state;
    struct served v = serve(0), other = serve(0);
    char path[256];
    int s;
    assert_int_equal(strlen(v.path), 34);
    assert_string_not_equal(v.path, other.path);
    expect(v.port, "GET", "/", 404, "No such page");
    expect(v.port, "GET", other.path, 404, "No such page");
    for (size_t i = 1; i < strlen(v.path); i++) { /* one letter of it wrong, and each beginning of it */
        snprintf(path, sizeof path, "%s", v.path);
        path[i] = path[i] == '0' ? '1' : '0';
        expect(v.port, "GET", path, 404, "No such page");
        snprintf(path, sizeof path, "%.*s", (int)i, v.path);
        expect(v.port, "GET", path, 404, "No such page");
    }
    snprintf(path, sizeof path, "%slog.jsonl", v.path);
    expect(v.port, "GET", path, 404, "No such page");
    assert_int_equal(reach("127.0.0.2", v.port, &s), ECONNREFUSED);
    live_close(other.live, false);
    live_close(v.live, false);
}

static void it_is_only_read(void **state)
{
    static const char *const methods[] = {"POST", "PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "BREW"};
    (void)state;
    size_t n;
    struct served v = serve(0);
    write_text(folder, "log.jsonl", LOG);
    live_progress(v.live, 2, 10, 1);
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++)
        expect(v.port, methods[i], v.path, 405, "\r\nAllow: GET, HEAD\r\n");
    struct page p = ask(v.port, "HEAD", v.path);
    assert_int_equal(p.status, 200);
    assert_int_equal(p.body_n, 0);
    free(p.text);
    char *said_to_noise = say(v.port, "\r\n\r\nwhat is this\r\n\r\n", &n);
    assert_null(strstr(said_to_noise, "200"));
    free(said_to_noise);
    assert_int_equal(count_names(folder, "log.jsonl"), 1);
    char *log = read_text(in(folder, "log.jsonl"), &n);
    assert_string_equal(log, LOG);
    free(log);
    expect(v.port, "GET", v.path, 200, "Step 2 of 10");
    live_close(v.live, false);
}

static void a_port_that_is_taken_is_told(void **state)
{
    (void)state;
    struct served v = serve(0);
    struct live *second;
    struct snug_err err;
    char text[256];
    assert_int_equal(live_open(&io_posix, folder, v.port, &second, &err), SNUG_ERR_USAGE);
    assert_null(second);
    snprintf(
        text, sizeof text,
        "--live: port %d of 127.0.0.1 cannot be listened on: Address already in use; give another --live-port, or 0 "
        "for any",
        v.port);
    assert_string_equal(err.text, text);
    live_close(v.live, false);
    struct served again = serve(v.port);
    assert_int_equal(again.port, v.port);
    live_close(again.live, false);
}

static void *end_run(void *live)
{
    live_close(live, true);
    return NULL;
}

/* Who looks when the run ends is told so, by a page that does not ask for itself any more. */
static void the_end_is_shown(void **state)
{
    (void)state;
    pthread_t thread;
    struct served v = serve(0);
    int s;
    write_text(folder, "log.jsonl", LOG);
    live_progress(v.live, 10, 10, 0);
    expect(v.port, "GET", v.path, 200, "Step 10 of 10, 0:00:00 left.");
    assert_int_equal(pthread_create(&thread, NULL, end_run, v.live), 0);
    bool ended = false;
    while (!ended) {
        struct page p = ask(v.port, "GET", v.path);
        ended = strstr(p.body, "The run has ended, after step 10.");
        assert_int_equal(ended, !strstr(p.text, "\r\nRefresh:"));
        free(p.text);
    }
    assert_int_equal(pthread_join(thread, NULL), 0);
    assert_int_equal(reach("127.0.0.1", v.port, &s), ECONNREFUSED);
}

/* The word behind `before` in what a command has said so far. */
static bool said_after(const char *before, char *word, size_t room)
{
    size_t n;
    char *text = read_text(said(), &n), *at = strstr(text, before);
    bool whole = at && strchr(at, '\n');
    if (whole)
        snprintf(word, room, "%.*s", (int)strcspn(at + strlen(before), "\n"), at + strlen(before));
    free(text);
    return whole;
}

static void a_run_is_watched(void **state)
{
    (void)state;
    const char *rows = make_rows(folder, 24, 12, 3, true), *out = in(folder, "watched"), *path;
    char address[128];
    write_text(folder, "said", "");
    pid_t pid = start_snug(said(),
                           ARGS("train", "--model", fixture("golden/trainer/init"), "--train-data", rows,
                                "--batch-size", "4", "--max-steps", "100000000", "--device", "cpu", "--threads", "1",
                                "--logging-steps", "5", "--save-strategy", "no", "--live", "--output-dir", out),
                           NULL);
    while (!said_after("the page of this run: ", address, sizeof address))
        assert_int_equal(kill(pid, 0), 0);
    int port = split(address, &path), tries = 0;
    for (bool learns = false; !learns; tries++) {
        struct page p = ask(port, "GET", path);
        assert_int_equal(p.status, 200);
        learns = strstr(p.body, " of 100000000, ") && strstr(p.body, "gradient norm");
        free(p.text);
        usleep(100000);
        assert_true(tries < 600);
    }
    assert_int_equal(kill(pid, SIGTERM), 0);
    assert_int_equal(end_of(pid), 75); /* stopped, to be gone on with */
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(page_follows_the_run), cmocka_unit_test(nobody_else_sees_it),
        cmocka_unit_test(it_is_only_read),      cmocka_unit_test(a_port_that_is_taken_is_told),
        cmocka_unit_test(the_end_is_shown),     cmocka_unit_test(a_run_is_watched),
    };
    return cmocka_run_group_tests(tests, open_folder, close_folder);
}
