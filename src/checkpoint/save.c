/* Saving beside training: the foreground copies, a thread writes the copy. One thread a save; where none can be had
 * the save is written in the foreground.
 *
 * A writer that hangs in the disk can be left behind, and then outlives the run: it uses nothing but the saver's own
 * memory and `io`. What is the caller's, the listener and the stop flag, only the foreground touches, or it is cut off
 * under its lock. */
#include "base/seconds.h"
#include "checkpoint/internal.h"

#include <assert.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { ALIGN = 64 };

struct ckpt_saver {
    struct ckpt_config config; /* the writer's: notes go through `send_note`, its stop flag is `stop` */
    char *output_dir;
    struct ckpt_notes notes; /* the caller's, under note_lock; fn NULL once the writer is left behind */
    pthread_mutex_t note_lock;
    const struct stop_flag *asked; /* the caller's */
    struct stop_flag stop;         /* what the writer is told of it */

    /* The copy. Written by the foreground while nothing runs, read by the writer. */
    struct ckpt_image image;
    struct arena names;
    char *buffer;
    size_t buffer_bytes;
    size_t *order;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    bool busy;     /* a save is being written */
    bool threaded; /* `thread` is to be joined */
    bool left;     /* the foreground has given up waiting for it */
    bool orphan;   /* and is gone: the writer frees the saver */
    pthread_t thread;
    double began;
    bool said_slow;
    int code; /* of the save before, until somebody asked */
    struct snug_err err;
    int64_t saved_step;
};

static void send_note(void *ctx, const char *line)
{
    struct ckpt_saver *s = ctx;
    pthread_mutex_lock(&s->note_lock);
    if (s->notes.fn)
        s->notes.fn(s->notes.ctx, line);
    pthread_mutex_unlock(&s->note_lock);
}

static void init_locks(struct ckpt_saver *s)
{
    pthread_condattr_t monotonic; /* a clock that is set must not change how long we wait */
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_cond_init(&s->changed, &monotonic);
    pthread_condattr_destroy(&monotonic);
    pthread_mutex_init(&s->lock, NULL);
    pthread_mutex_init(&s->note_lock, NULL);
}

int ckpt_saver_new(const struct ckpt_config *config, struct ckpt_saver **out, struct snug_err *err)
{
    struct ckpt_saver *s = mem_alloc(sizeof *s);
    *out = NULL;
    if (!s || !(s->output_dir = mem_strdup(config->output_dir))) {
        mem_free(s);
        return err_no_memory(err, sizeof *s);
    }
    s->config = *config;
    ckpt_folder_keep(s->config.folder);
    s->config.output_dir = s->output_dir;
    s->asked = config->stop;
    s->config.stop = &s->stop;
    s->notes = config->notes;
    if (s->notes.fn)
        s->config.notes = (struct ckpt_notes){send_note, s};
    if (s->config.patience_s <= 0)
        s->config.patience_s = 60;
    s->saved_step = -1;
    init_locks(s);
    if (config->total_limit == 1)
        ckpt_note(s->config.notes, "save_total_limit 1: two are kept, so that one is whole at any time");
    *out = s;
    return SNUG_OK;
}

/* ---- The copy. */

static size_t aligned(int64_t bytes)
{
    return ((size_t)bytes + ALIGN - 1) / ALIGN * ALIGN;
}

int64_t ckpt_snapshot_bytes(const struct ckpt_tensor *tensors, size_t n, bool in_place)
{
    size_t bytes = 0;
    for (size_t i = 0; i < n; i++)
        bytes += !in_place || tensors[i].memory ? aligned(ckpt_tensor_bytes(&tensors[i])) : 0;
    return bytes ? (int64_t)(bytes + ALIGN) : 0;
}

static int grow_buffer(struct ckpt_saver *s, size_t want, struct snug_err *err)
{
    if (want <= s->buffer_bytes)
        return SNUG_OK;
    mem_free(s->buffer);
    s->buffer_bytes = 0;
    s->buffer = mem_realloc(NULL, want);
    if (!s->buffer)
        return err_no_memory(err, want);
    s->buffer_bytes = want;
    return SNUG_OK;
}

static int append(const char *text, size_t n, void *to)
{
    str_append_n(to, text, n);
    return 0;
}

static int copy_document(struct ckpt_image *im, const json_t *state, struct snug_err *err)
{
    str_free(&im->state);
    str_free(&im->canonical);
    TRY(ckpt_canonical(state, &im->canonical, err));
    if (json_dump_callback(state, append, &im->state, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(17)))
        return err_no_memory(err, im->state.n);
    str_append(&im->state, "\n");
    return str_check(&im->state, err);
}

/* in_place: only what the writer, which reads host memory, does not reach. */
static int copy_tensors(struct ckpt_saver *s, bool in_place, struct snug_err *err)
{
    int64_t all = ckpt_snapshot_bytes(s->image.tensors, s->image.n, in_place);
    if (!all)
        return SNUG_OK;
    TRY(grow_buffer(s, (size_t)all, err));
    char *to = s->buffer + (ALIGN - (uintptr_t)s->buffer % ALIGN) % ALIGN;
    for (size_t i = 0; i < s->image.n; i++) {
        struct ckpt_tensor *t = &s->image.tensors[i];
        if (in_place && !t->memory)
            continue;
        int64_t bytes = ckpt_tensor_bytes(t);
        TRY(ckpt_get(t, to, err));
        t->data = to;
        t->memory = NULL;
        to += aligned(bytes);
    }
    return SNUG_OK;
}

/* The image to write: the tensors in the order of the file, where they are. */
static int take_image(struct ckpt_saver *s, const struct ckpt_tensor *tensors, size_t n, const json_t *state,
                      struct snug_err *err)
{
    struct ckpt_image *im = &s->image;
    arena_free(&s->names);
    im->n = 0;
    im->tensors = arena_alloc(&s->names, n * sizeof *im->tensors);
    s->order = arena_alloc(&s->names, n * sizeof *s->order);
    if (!im->tensors || !s->order)
        return err_no_memory(err, n * sizeof *im->tensors);
    TRY(ckpt_order(tensors, n, s->order, err));
    TRY(copy_document(im, state, err));
    for (size_t i = 0; i < n; i++) {
        struct ckpt_tensor *t = &im->tensors[i];
        *t = tensors[s->order[i]];
        if (!(t->name = arena_strdup(&s->names, t->name)))
            return err_no_memory(err, 64);
    }
    im->n = n;
    return SNUG_OK;
}

/* ---- The thread. */

static void release(struct ckpt_saver *s)
{
    pthread_cond_destroy(&s->changed);
    pthread_mutex_destroy(&s->lock);
    pthread_mutex_destroy(&s->note_lock);
    arena_free(&s->names);
    str_free(&s->image.state);
    str_free(&s->image.canonical);
    mem_free(s->buffer);
    mem_free(s->output_dir);
    ckpt_folder_drop(s->config.folder);
    mem_free(s);
}

static void *write_image(void *arg)
{
    struct ckpt_saver *s = arg;
    struct snug_err err = {0};
    int code = ckpt_write(&s->config, &s->image, &err);
    pthread_mutex_lock(&s->lock);
    s->code = code;
    s->err = err;
    if (!code)
        s->saved_step = s->image.step;
    s->busy = false;
    bool orphan = s->orphan;
    pthread_cond_broadcast(&s->changed);
    pthread_mutex_unlock(&s->lock);
    if (orphan)
        release(s);
    return NULL;
}

/* What the caller was asked, for the writer. True: to abandon the save. */
static bool tell_writer(struct ckpt_saver *s)
{
    if (stop_at_once(s->asked))
        s->stop.again = s->asked->again;
    return s->stop.again;
}

/* Sleeps until something changes or a tenth of a second has gone. The lock is held. */
static void nap(struct ckpt_saver *s)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += 100000000;
    if (t.tv_nsec >= 1000000000)
        t.tv_sec++, t.tv_nsec -= 1000000000;
    pthread_cond_timedwait(&s->changed, &s->lock, &t);
}

/* Until the writer is done; false when a second signal came and it does not end by itself in two seconds. */
static bool wait_for_writer(struct ckpt_saver *s)
{
    double asked = 0;
    pthread_mutex_lock(&s->lock);
    while (s->busy && !s->left) {
        nap(s);
        double now = seconds_now();
        if (s->busy && now - s->began > s->config.patience_s && !s->said_slow) {
            s->said_slow = true;
            pthread_mutex_unlock(&s->lock); /* the writer may be in the middle of a note */
            ckpt_note(s->config.notes, "checkpoint of step %lld still writing after %.0f s", (long long)s->image.step,
                      s->config.patience_s);
            pthread_mutex_lock(&s->lock);
        }
        if (tell_writer(s)) {
            asked = asked > 0 ? asked : now;
            s->left = s->busy && now - asked > 2;
        }
    }
    bool done = !s->busy;
    bool join = done && s->threaded;
    if (join)
        s->threaded = false;
    pthread_mutex_unlock(&s->lock);
    if (!done) {
        pthread_mutex_lock(&s->note_lock);
        s->notes.fn = NULL;
        pthread_mutex_unlock(&s->note_lock);
    }
    if (join)
        pthread_join(s->thread, NULL);
    return done;
}

int ckpt_save_wait(struct ckpt_saver *s, struct snug_err *err)
{
    if (!wait_for_writer(s))
        return err_set(err, SNUG_STOPPED, "%s: the save of step %lld was abandoned at a second signal", s->output_dir,
                       (long long)s->image.step);
    int code = s->code;
    if (code && err)
        *err = s->err;
    s->code = SNUG_OK;
    return code;
}

/* The writer starts on the image; nobody else may change it until it is done. */
static void start_writer(struct ckpt_saver *s, int64_t step, int64_t best_step)
{
    assert(step >= 0 && step <= CKPT_MAX_STEP);
    s->image.step = step;
    s->image.best_step = best_step;
    s->began = seconds_now();
    s->said_slow = false;
    s->busy = true;
    s->threaded = true;
    tell_writer(s);
    if (pthread_create(&s->thread, NULL, write_image, s) != 0) {
        s->threaded = false;
        s->config.stop = s->asked; /* here nobody else looks at it meanwhile */
        write_image(s);
        s->config.stop = &s->stop;
    }
}

int ckpt_save_begin(struct ckpt_saver *s, int64_t step, int64_t best_step, const struct ckpt_tensor *tensors, size_t n,
                    const json_t *state, struct snug_err *err)
{
    TRY(ckpt_save_wait(s, err));
    TRY(take_image(s, tensors, n, state, err));
    TRY(copy_tensors(s, false, err));
    start_writer(s, step, best_step);
    return SNUG_OK;
}

int ckpt_save_in_place(struct ckpt_saver *s, int64_t step, int64_t best_step, const struct ckpt_tensor *tensors,
                       size_t n, const json_t *state, struct snug_err *err)
{
    TRY(ckpt_save_wait(s, err));
    TRY(take_image(s, tensors, n, state, err));
    TRY(copy_tensors(s, true, err));
    start_writer(s, step, best_step);
    return ckpt_save_wait(s, err);
}

void ckpt_saver_retain(struct ckpt_saver *s, int64_t step, int64_t best_step)
{
    ckpt_retain(&s->config, step, best_step);
}

bool ckpt_save_busy(struct ckpt_saver *s)
{
    pthread_mutex_lock(&s->lock);
    bool busy = s->busy;
    pthread_mutex_unlock(&s->lock);
    return busy;
}

int64_t ckpt_saved_step(struct ckpt_saver *s)
{
    pthread_mutex_lock(&s->lock);
    int64_t step = s->saved_step;
    pthread_mutex_unlock(&s->lock);
    return step;
}

void ckpt_saver_free(struct ckpt_saver *s)
{
    if (!s)
        return;
    wait_for_writer(s);
    pthread_mutex_lock(&s->lock);
    bool orphan = s->orphan = s->busy;
    if (orphan)
        pthread_detach(s->thread);
    pthread_mutex_unlock(&s->lock);
    if (orphan)
        return;
    if (s->threaded)
        pthread_join(s->thread, NULL);
    release(s);
}
