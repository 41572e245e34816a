/* snug generate: what follows each prompt, as it is written. */
#include "base/str.h"
#include "cli/commands.h"
#include "cli/screen.h"

#include <errno.h>
#include <string.h>

struct writer {
    bool json;
    struct str text; /* of the prompt so far, for JSON */
    struct snug_err *err;
};

static int put(struct writer *w, const char *bytes, size_t n)
{
    if (fwrite(bytes, 1, n, stdout) == n && !fflush(stdout))
        return SNUG_OK;
    if (errno == EPIPE) { /* the reader has what it wanted: nothing to say */
        err_set(w->err, SNUG_ERR_IO, "%s", "");
        return SNUG_ERR_IO;
    }
    return err_set(w->err, SNUG_ERR_IO, "standard output: not all could be written: %s", strerror(errno));
}

static int put_object(struct writer *w, const struct snug_piece *p)
{
    struct str line = {0};
    str_printf(&line, "{\"prompt\":%lld,\"text\":", (long long)p->prompt);
    str_json_str(&line, &w->text);
    str_append(&line, ",\"ids\":[");
    for (int64_t i = 0; i < p->n_ids; i++)
        str_printf(&line, "%s%d", i ? "," : "", p->ids[i]);
    str_printf(&line, "],\"finish_reason\":\"%s\"}\n", p->stopped ? "stop" : "length");
    int code = str_check(&line, w->err);
    if (!code)
        code = put(w, str_text(&line), line.n);
    str_free(&line);
    str_free(&w->text);
    return code;
}

static int put_piece(void *ctx, const struct snug_piece *p)
{
    struct writer *w = ctx;
    if (!w->json)
        TRY(put(w, p->text, p->text_bytes));
    if (!w->json)
        return p->ended ? put(w, "\n", 1) : SNUG_OK;
    str_append_n(&w->text, p->text, p->text_bytes);
    return p->ended ? put_object(w, p) : str_check(&w->text, w->err);
}

int run_generate(struct options *o, const struct arguments *args, struct snug_err *err)
{
    struct cli_session c = {0};
    struct writer w = {.json = o->json, .err = err};
    (void)args;
    int code = cli_open(&c, o, err);
    if (!code)
        code = snug_generate(c.session, put_piece, &w, err);
    str_free(&w.text);
    return cli_close(&c, code);
}
