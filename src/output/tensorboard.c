/* An event file is a sequence of records: length (8 bytes, little-endian), its checksum, a message, its checksum. The message
 * is an Event of TensorFlow's event.proto, in the encoding of protocol buffers. Of it only what a scalar takes is needed, five
 * fields of four messages, so they are written here by hand:
 *     Event    1 wall_time (double)  2 step (int64)  3 file_version (string)  5 summary (Summary)  7 session_log
 *              10 source_metadata (SourceMetadata: 1 writer, string)
 *     Summary  1 value (Value: 1 tag (string), 2 simple_value (float))        SessionLog  1 status (1: START)
 * A number that is 0 is left out. */
#include "output/tensorboard.h"

#include "format/protobuf.h"

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---- Messages. ---- */

/* What is 0 is left out. */
static void put_number(struct str *m, int field, int64_t x)
{
    if (x)
        proto_number(m, field, x);
}

/* ---- Records. ---- */

static uint32_t crc32c(const char *bytes, size_t n)
{
    uint32_t crc = UINT32_MAX;
    for (size_t i = 0; i < n; i++) {
        crc ^= (unsigned char)bytes[i];
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0);
    }
    return ~crc;
}

/* A checksum of data that hold checksums themselves is turned and moved, as TFRecord has it. */
static uint32_t masked(uint32_t crc)
{
    return (crc >> 15 | crc << 17) + 0xa282ead8u;
}

/* Takes `event`, and empties it. */
static void put_record(struct str *out, struct str *event)
{
    size_t at = out->n;
    proto_little(out, event->n, 8);
    if (!out->failed)
        proto_little(out, masked(crc32c(out->s + at, 8)), 4);
    str_append_n(out, str_text(event), event->n);
    proto_little(out, masked(crc32c(str_text(event), event->n)), 4);
    out->failed |= event->failed;
    str_free(event);
}

static void put_beginning(struct str *out, double time, int64_t from_step)
{
    struct str event = {0}, source = {0}, status = {0};
    proto_double(&event, 1, time);
    proto_text(&event, 3, "brain.Event:2");
    proto_text(&source, 1, "snug");
    proto_message(&event, 10, &source);
    put_record(out, &event);
    if (from_step < 0)
        return;
    proto_double(&event, 1, time);
    put_number(&event, 2, from_step);
    put_number(&status, 1, 1);
    proto_message(&event, 7, &status);
    put_record(out, &event);
}

static void put_scalar(struct str *out, double time, int64_t step, const char *tag, double x)
{
    struct str event = {0}, summary = {0}, value = {0};
    proto_text(&value, 1, tag);
    proto_float(&value, 2, (float)x);
    proto_message(&summary, 1, &value);
    proto_double(&event, 1, time);
    put_number(&event, 2, step);
    proto_message(&event, 5, &summary);
    put_record(out, &event);
}

/* ---- The file. ---- */

/* Letters of a host's name that are no trouble in that of a file. */
static void host_name(char *name, size_t room)
{
    if (gethostname(name, room) || !*name)
        snprintf(name, room, "localhost");
    name[room - 1] = 0;
    for (char *c = name; *c; c++)
        if (*c == '/' || *c == ' ')
            *c = '-';
}

void tensorboard_run_name(double time, char name[80])
{
    char host[48];
    time_t seconds = (time_t)time;
    struct tm now;
    localtime_r(&seconds, &now);
    static const char *const months[] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                         "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};
    host_name(host, sizeof host);
    snprintf(name, 80, "%s%02d_%02d-%02d-%02d_%s", months[now.tm_mon], now.tm_mday, now.tm_hour, now.tm_min, now.tm_sec,
             host);
}

double tensorboard_time(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* What was written in part is written over. */
static int write_out(struct tensorboard *t, struct snug_err *err)
{
    if (!t->waiting.n)
        return SNUG_OK;
    TRY(io_write_at(t->io, t->fd, t->path, t->waiting.s, t->waiting.n, t->bytes, err));
    t->bytes += (int64_t)t->waiting.n;
    str_free(&t->waiting);
    return SNUG_OK;
}

/* The Trainer's name, with a number behind it where two files are begun in one second. */
static int create(struct tensorboard *t, const char *dir, double time, struct snug_err *err)
{
    char host[48];
    host_name(host, sizeof host);
    for (int n = 0; t->fd < 0; n++) {
        struct str path = {0};
        str_printf(&path, "%s/events.out.tfevents.%010lld.%s.%d.%d", dir, (long long)time, host, (int)getpid(), n);
        TRY(str_check(&path, err));
        mem_free(t->path);
        t->path = path.s;
        t->fd = t->io->open(t->io, t->path, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
        if (t->fd < 0 && (errno != EEXIST || n == 1000))
            return err_errno(err, SNUG_ERR_IO, t->path, "open", errno);
    }
    return SNUG_OK;
}

int tensorboard_open(struct tensorboard *t, const struct io *io, const char *dir, double time, int64_t from_step,
                     void (*note)(void *ctx, const char *line), void *ctx, struct snug_err *err)
{
    *t = (struct tensorboard){.io = io, .fd = -1, .note = note, .ctx = ctx};
    TRY(io_make_dirs(io, dir, err));
    TRY(create(t, dir, time, err));
    put_beginning(&t->waiting, time, from_step);
    TRY(str_check(&t->waiting, err));
    return write_out(t, err);
}

/* As the Trainer names it: eval_loss is eval/loss, loss is train/loss. */
static const char *tag_of(const char *name, struct str *tag)
{
    bool evaluated = !strncmp(name, "eval_", 5);
    str_printf(tag, "%s/%s", evaluated ? "eval" : "train", evaluated ? name + 5 : name);
    return str_text(tag);
}

/* Numbers that are not finite are words in the log. */
static bool is_number(const json_t *v, double *x)
{
    const char *word = json_string_value(v);
    *x = json_number_value(v);
    if (!word)
        return json_is_number(v);
    if (strcmp(word, "NaN") != 0 && strcmp(word, "Infinity") != 0 && strcmp(word, "-Infinity") != 0)
        return false;
    *x = strtod(word, NULL);
    return true;
}

void tensorboard_line(struct tensorboard *t, double time, const char *json)
{
    struct str records = {0}, tag = {0};
    struct snug_err err;
    json_t *line = t->fd < 0 ? NULL : json_loads(json, 0, NULL), *value;
    const char *name;
    double x;
    if (!line)
        return;
    int64_t step = json_integer_value(json_object_get(line, "step"));
    json_object_foreach(line, name, value)
    {
        if (strcmp(name, "step") != 0 && is_number(value, &x))
            put_scalar(&records, time, step, tag_of(name, &tag), x);
        records.failed |= tag.failed;
        str_free(&tag);
    }
    json_decref(line);
    if (!records.failed) /* whole lines only */
        str_append_n(&t->waiting, str_text(&records), records.n);
    str_free(&records);
    if (write_out(t, &err) && !t->said && t->note) {
        t->note(t->ctx, err.text);
        t->said = true;
    }
}

void tensorboard_close(struct tensorboard *t)
{
    if (t->io && t->fd >= 0) {
        write_out(t, NULL);
        t->io->close(t->io, t->fd);
    }
    str_free(&t->waiting);
    mem_free(t->path);
    *t = (struct tensorboard){.fd = -1};
}

void tensorboard_remove(struct tensorboard *t)
{
    if (t->io && t->fd >= 0)
        t->io->unlink(t->io, t->path);
    tensorboard_close(t);
}
