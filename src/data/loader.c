/* One thread fills a ring of windows; the caller holds one of them at a time. Whatever the thread computes depends on
 * the step alone, so its timing changes nothing. */
#include "data/loader.h"

#include "base/mem.h"

#include <assert.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Rows of a window and its micro-batches, while the first are dealt out to the second. */
struct dealt_row {
    int32_t length, source, sample; /* sample: its place in the window */
};
struct part {
    int64_t tokens, sources; /* sources: how many of the tokens are theirs */
    int32_t number;
};
struct dealer {
    struct dealt_row *rows; /* (window_rows), like what follows */
    struct part *parts;
    int32_t *part_of; /* by sample */
    int32_t *ends;    /* (window_rows + 1): of the parts, once their rows are gathered */
};

struct slot {
    struct window window;
    struct batch_buffer buffer;
    struct batch *micro; /* (accumulation) */
};

struct loader {
    struct loader_options o;
    struct masker masker;
    int64_t window_rows, epoch_rows, steps_per_epoch;
    int64_t first_rows, steps_of_first; /* of the epoch of from_step: where it ends, and its steps from there on */
    int64_t *rows;                      /* (stretch), the thread's: rows in order from rows_at on of rows_epoch */
    int64_t stretch, rows_epoch, rows_at;
    struct dealer dealer; /* the thread's, with several ranks, */
    int32_t *samples;     /* (window_rows): of the rows of each micro-batch, one after another, and */
    int64_t *dealt;       /* these rows */
    struct slot *slots;
    int32_t n_slots;
    pthread_t thread;
    bool started;

    pthread_mutex_t lock; /* guards what follows */
    pthread_cond_t changed;
    int64_t made, taken; /* windows made by the thread; windows that the caller has had, the one in use included */
    bool stop, ended;
    int code; /* the thread's failure */
    struct snug_err err;
};

/* How many of n rows are taken. */
static int64_t taken(int64_t n, int64_t drop_below)
{
    return drop_below > 0 ? n - n % drop_below : n;
}

int64_t loader_steps_per_epoch(int64_t n_rows, int32_t batch_size, int32_t accumulation, int64_t drop_below)
{
    int64_t window = (int64_t)batch_size * accumulation;
    return (taken(n_rows, drop_below) + window - 1) / window;
}

/* Sum of the n longest rows, by counting how many rows there are of each length. */
static int64_t sum_of_longest(const struct dataset *d, int64_t n)
{
    int64_t *count = mem_alloc(((size_t)d->longest + 1) * sizeof *count);
    if (!count)
        return -1;
    for (int64_t row = 0; row < d->n_rows; row++)
        count[dataset_length(d, row)]++;
    int64_t sum = 0;
    for (int64_t length = d->longest; length > 0 && n > 0; length--) {
        int64_t some = count[length] < n ? count[length] : n;
        sum += some * length;
        n -= some;
    }
    mem_free(count);
    return sum;
}

int64_t loader_max_tokens(const struct dataset *d, int32_t batch_size)
{
    return sum_of_longest(d, batch_size);
}

int64_t loader_usual_rows(const struct dataset *d, int32_t batch_size, int64_t max_tokens)
{
    int64_t rows = max_tokens * d->n_rows / d->n_tokens;
    return rows < 1 ? 1 : rows < batch_size ? rows : batch_size;
}

int loader_check_max_tokens(const struct dataset *d, int64_t max_tokens, struct snug_err *err)
{
    if (!max_tokens || d->longest <= max_tokens)
        return SNUG_OK;
    return err_set(err, SNUG_ERR_USAGE,
                   "--max-tokens-per-batch %lld: the longest row has %d tokens; use at least as many, or a smaller "
                   "--max-length",
                   (long long)max_tokens, (int)d->longest);
}

/* How many of the rows at `rows`, of which there are n, make the next micro-batch. */
static int32_t cut(const struct loader *l, const int64_t *rows, int64_t n)
{
    int32_t some = (int32_t)(n < l->o.batch_size ? n : l->o.batch_size), fit = 0;
    if (!l->o.max_tokens)
        return some;
    for (int64_t tokens = 0; fit < some; fit++) {
        tokens += dataset_length(l->o.data, rows[fit]);
        if (tokens > l->o.max_tokens)
            break;
    }
    return fit;
}

/* ---- several ranks ---- */

static int dealer_open(struct dealer *d, int64_t rows, struct snug_err *err)
{
    d->rows = mem_alloc((size_t)rows * sizeof *d->rows);
    d->parts = mem_alloc((size_t)rows * sizeof *d->parts);
    d->part_of = mem_alloc((size_t)rows * sizeof *d->part_of);
    d->ends = mem_alloc(((size_t)rows + 1) * sizeof *d->ends);
    return d->rows && d->parts && d->part_of && d->ends
               ? SNUG_OK
               : err_no_memory(err, (unsigned long long)rows * sizeof *d->parts);
}

static void dealer_close(struct dealer *d)
{
    mem_free(d->rows);
    mem_free(d->parts);
    mem_free(d->part_of);
    mem_free(d->ends);
}

static int longest_first(const void *a, const void *b)
{
    const struct dealt_row *x = a, *y = b;
    return x->length != y->length ? (x->length < y->length) - (x->length > y->length)
                                  : (x->sample > y->sample) - (x->sample < y->sample);
}

static int fewest_first(const void *a, const void *b)
{
    const struct part *x = a, *y = b;
    return x->tokens != y->tokens ? (x->tokens > y->tokens) - (x->tokens < y->tokens)
                                  : (x->number > y->number) - (x->number < y->number);
}

/* So many micro-batches of at most `size` rows does a window of n rows make: as many for each rank, where there are so many rows. */
static int32_t count_parts(int64_t n, int64_t size, int32_t ranks)
{
    int64_t each = (n + size * ranks - 1) / (size * ranks), parts = each * ranks;
    return (int32_t)(parts < n ? parts : n);
}

/* Deals the rows out to the parts, longest first: in each round the part with the fewest tokens gets the longest row. */
static void deal(struct dealer *d, const struct dataset *data, const int64_t *rows, int64_t n, int32_t parts)
{
    for (int64_t i = 0; i < n; i++)
        d->rows[i] = (struct dealt_row){
            .length = dataset_length(data, rows[i]), .source = dataset_source(data, rows[i]), .sample = (int32_t)i};
    qsort(d->rows, (size_t)n, sizeof *d->rows, longest_first);
    for (int32_t k = 0; k < parts; k++)
        d->parts[k] = (struct part){.number = k};
    for (int64_t i = 0; i < n; i++) {
        struct part *part = &d->parts[i % parts];
        if (i % parts == 0)
            qsort(d->parts, (size_t)parts, sizeof *d->parts, fewest_first);
        part->tokens += d->rows[i].length;
        part->sources += d->rows[i].source;
        d->part_of[d->rows[i].sample] = part->number;
    }
}

/* Puts the window's rows into l->dealt and l->samples, part after part. */
static void gather(struct loader *l, const int64_t *rows, int64_t n, int32_t parts)
{
    const int32_t *part_of = l->dealer.part_of;
    int32_t *ends = l->dealer.ends; /* begins, until the parts are filled */
    memset(ends, 0, ((size_t)parts + 1) * sizeof *ends);
    for (int64_t i = 0; i < n; i++)
        ends[part_of[i] + 1]++;
    for (int32_t k = 0; k < parts; k++)
        ends[k + 1] += ends[k];
    for (int64_t i = 0; i < n; i++) {
        int32_t at = ends[part_of[i]]++;
        l->samples[at] = (int32_t)i;
        l->dealt[at] = rows[i];
    }
}

/* The window's rows. Finding those of one window of ORDER_BY_LENGTH means sorting its mega-batch, so the rows of a whole
 * number of windows are kept, counted from the epoch's first. */
static int find_rows(struct loader *l, int64_t epoch, int64_t from, const int64_t **rows, struct snug_err *err)
{
    int64_t first = epoch == l->o.from_epoch ? l->o.from_row : 0;
    int64_t start = from - (from - first) % l->stretch, left = l->o.data->n_rows - start;
    if (epoch != l->rows_epoch || start != l->rows_at) {
        l->rows_epoch = -1;
        TRY(order_rows(l->o.order, epoch, start, left < l->stretch ? left : l->stretch, l->rows, err));
        l->rows_epoch = epoch;
        l->rows_at = start;
    }
    *rows = l->rows + (from - start);
    return SNUG_OK;
}

/* The place of a window, and its rows. */
static int begin_window(struct loader *l, int64_t step, struct window *w, const int64_t **rows, struct snug_err *err)
{
    int64_t since = step - l->o.from_step, epoch = l->o.from_epoch, epoch_step = since, steps = l->steps_of_first;
    int64_t from = l->o.from_row, n_rows = l->first_rows;
    if (since >= l->steps_of_first) {
        epoch += 1 + (since - l->steps_of_first) / l->steps_per_epoch;
        epoch_step = (since - l->steps_of_first) % l->steps_per_epoch;
        steps = l->steps_per_epoch;
        n_rows = l->epoch_rows;
        from = 0;
    }
    from += epoch_step * l->window_rows;
    *w = (struct window){
        .step = step,
        .epoch = epoch,
        .epoch_step = epoch_step,
        .ends_epoch = epoch_step + 1 == steps,
        .n_samples = n_rows - from < l->window_rows ? n_rows - from : l->window_rows,
    };
    return find_rows(l, epoch, from, rows, err);
}

/* One more micro-batch of the window, of n rows. */
static void lay(struct loader *l, struct slot *s, const int64_t *rows, int32_t n, const int32_t *samples)
{
    struct batch *b = &s->micro[s->window.n_micro++];
    batch_fill(&s->buffer, l->o.data, rows, n, samples, s->window.epoch, &l->masker, b);
    s->window.n_targets += b->n_targets;
    s->window.n_tokens += b->T + b->S;
}

/* A limit of tokens evens micro-batches out by itself. */
static bool deals(const struct loader_options *o)
{
    return o->ranks > 1 && !o->max_tokens;
}

static int make_window(struct loader *l, int64_t step, struct slot *s, struct snug_err *err)
{
    const int64_t *rows;
    TRY(begin_window(l, step, &s->window, &rows, err));
    s->window.micro = s->micro;
    batch_buffer_reset(&s->buffer);
    int64_t n = s->window.n_samples;
    int32_t parts = deals(&l->o) ? count_parts(n, l->o.batch_size, l->o.ranks) : 0;
    if (parts) {
        deal(&l->dealer, l->o.data, rows, n, parts);
        gather(l, rows, n, parts);
        for (int32_t k = 0, at = 0; k < parts; at = l->dealer.ends[k++])
            lay(l, s, l->dealt + at, l->dealer.ends[k] - at, l->samples + at);
        return SNUG_OK;
    }
    for (int64_t done = 0, some; done < n; done += some) {
        some = cut(l, rows + done, n - done);
        lay(l, s, rows + done, (int32_t)some, l->samples + done);
    }
    return SNUG_OK;
}

static void *run(void *arg)
{
    struct loader *l = arg;
    pthread_mutex_lock(&l->lock);
    for (int64_t step = l->o.start_step; step < l->o.end_step && !l->code; step++) {
        /* The slot of the window in use counts as taken only when the caller comes for the next one. */
        while (!l->stop && l->made - (l->taken > 0 ? l->taken - 1 : 0) == l->n_slots)
            pthread_cond_wait(&l->changed, &l->lock);
        if (l->stop)
            break;
        struct slot *slot = &l->slots[l->made % l->n_slots];
        pthread_mutex_unlock(&l->lock);
        struct snug_err err = {0};
        int code = make_window(l, step, slot, &err);
        dataset_release(l->o.data); /* other rows come next */
        pthread_mutex_lock(&l->lock);
        l->code = code;
        l->err = err;
        l->made += !code;
        pthread_cond_broadcast(&l->changed);
    }
    l->ended = true;
    pthread_cond_broadcast(&l->changed);
    pthread_mutex_unlock(&l->lock);
    return NULL;
}

static int start_thread(struct loader *l, struct snug_err *err)
{
    /* Signals are the main thread's: it is the one that knows how to save and stop. */
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int failed = pthread_create(&l->thread, NULL, run, l);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (failed)
        return err_set(err, SNUG_ERR_ENV,
                       "cannot start the data loader's thread: %s; raise the process limit (ulimit -u)",
                       strerror(failed));
    l->started = true;
    return SNUG_OK;
}

/* Of a window. */
static int64_t most_rows(const struct loader *l)
{
    return l->window_rows < l->o.data->n_rows ? l->window_rows : l->o.data->n_rows;
}

static int allocate(struct loader *l, struct snug_err *err)
{
    const struct dataset *d = l->o.data;
    int64_t rows = most_rows(l), tokens = sum_of_longest(d, rows);
    size_t slot_bytes = (size_t)l->n_slots * sizeof *l->slots;
    l->slots = mem_alloc(slot_bytes);
    l->samples = mem_alloc((size_t)rows * sizeof *l->samples);
    l->dealt = mem_alloc((size_t)rows * sizeof *l->dealt);
    if (tokens < 0 || !l->slots || !l->samples || !l->dealt)
        return err_no_memory(err, slot_bytes);
    for (int64_t i = 0; i < rows; i++)
        l->samples[i] = (int32_t)i; /* of rows that are not dealt out */
    int64_t n_micro = l->o.max_tokens || deals(&l->o) ? rows : (rows + l->o.batch_size - 1) / l->o.batch_size;
    for (int32_t i = 0; i < l->n_slots; i++) {
        l->slots[i].micro = mem_alloc((size_t)n_micro * sizeof(struct batch));
        if (!l->slots[i].micro)
            return err_no_memory(err, (size_t)n_micro * sizeof(struct batch));
        TRY(batch_buffer_open(&l->slots[i].buffer, d, tokens, rows, n_micro, err));
    }
    return SNUG_OK;
}

int loader_check(const struct dataset *d, int64_t batch_size, int64_t accumulation, int64_t drop_below,
                 struct snug_err *err)
{
    long long rows = (long long)d->n_rows, batch = batch_size, window = batch_size * accumulation;
    if (batch < 1 || accumulation < 1 || window > INT32_MAX)
        return err_set(err, SNUG_ERR_USAGE,
                       "--per-device-train-batch-size %lld times --gradient-accumulation-steps %lld is not a number of "
                       "rows from 1 to %d; use smaller ones",
                       batch, (long long)accumulation, INT32_MAX);
    if (loader_steps_per_epoch(d->n_rows, (int32_t)batch, (int32_t)accumulation, drop_below) < 1)
        return err_set(
            err, SNUG_ERR_USAGE,
            "--dataloader-drop-last: %lld rows do not fill one batch of %lld rows%s; leave the option out or "
            "use a smaller --per-device-train-batch-size",
            rows, (long long)drop_below, drop_below > batch ? ", all ranks' together" : "");
    int64_t tokens = loader_max_tokens(d, (int32_t)batch);
    if (tokens < 0)
        return err_no_memory(err, (unsigned long long)d->longest * 8);
    if (tokens > INT32_MAX)
        return err_set(err, SNUG_ERR_USAGE,
                       "a batch of %lld rows can have %lld tokens, over the limit of %d; use a smaller "
                       "--per-device-train-batch-size or --max-length",
                       batch, (long long)tokens, INT32_MAX);
    return SNUG_OK;
}

/* What finding the rows of a window takes; l is all zero. */
static int settle(struct loader *l, const struct loader_options *o, struct snug_err *err)
{
    l->o = *o;
    l->steps_per_epoch = loader_steps_per_epoch(o->data->n_rows, o->batch_size, o->accumulation, o->drop_below);
    l->epoch_rows = taken(o->data->n_rows, o->drop_below);
    l->window_rows = (int64_t)o->batch_size * o->accumulation;
    l->steps_of_first =
        loader_steps_per_epoch(o->data->n_rows - o->from_row, o->batch_size, o->accumulation, o->drop_below);
    l->first_rows = o->from_row + taken(o->data->n_rows - o->from_row, o->drop_below);
    int64_t sorted = o->order->kind == ORDER_BY_LENGTH ? o->order->mega_batch : 1;
    l->stretch = (sorted + l->window_rows - 1) / l->window_rows * l->window_rows;
    l->stretch = l->stretch < o->data->n_rows ? l->stretch : o->data->n_rows; /* the data may be less than a window */
    l->rows_epoch = -1;
    l->rows = mem_alloc((size_t)l->stretch * sizeof *l->rows);
    if (!l->rows)
        return err_no_memory(err, (size_t)l->stretch * sizeof *l->rows);
    return deals(o) ? dealer_open(&l->dealer, most_rows(l), err) : SNUG_OK;
}

/* The micro-batches of at most `size` rows of a window, the largest of which goes into *tokens if it is larger. */
static void take_largest(const struct dataset *d, const int64_t *rows, int64_t n, int64_t size,
                         struct token_count *tokens)
{
    for (int64_t i = 0; i < n;) {
        int64_t end = size < n - i ? i + size : n;
        struct token_count sum = {0};
        while (i < end)
            token_count_add(&sum, d, rows[i++]);
        token_count_raise(tokens, sum);
    }
}

static void take_dealt(struct loader *l, const int64_t *rows, int64_t n, int64_t size, struct token_count *tokens)
{
    int32_t parts = count_parts(n, size, l->o.ranks);
    deal(&l->dealer, l->o.data, rows, n, parts);
    for (int32_t k = 0; k < parts; k++) {
        const struct part *part = &l->dealer.parts[k];
        token_count_raise(tokens, (struct token_count){.T = part->tokens - part->sources, .S = part->sources});
    }
}

int loader_largest(const struct loader_options *o, const int64_t *sizes, int n, const struct stop_flag *stop,
                   struct token_count *tokens, struct snug_err *err)
{
    struct loader l = {0};
    bool all = false;
    int code = settle(&l, o, err);
    for (int i = 0; i < n; i++)
        tokens[i] = (struct token_count){0};
    for (int64_t step = o->start_step; step < o->end_step && !all && !code; step++) {
        struct window w;
        const int64_t *rows;
        if (stop_asked(stop))
            code = err_set(err, SNUG_STOPPED, "stopped by a signal while batches were sized; there is nothing to save");
        if (code || (code = begin_window(&l, step, &w, &rows, err)))
            continue;
        all = true; /* nothing larger can come */
        for (int i = 0; i < n; i++) {
            if (deals(o))
                take_dealt(&l, rows, w.n_samples, sizes[i], &tokens[i]);
            else
                take_largest(o->data, rows, w.n_samples, sizes[i], &tokens[i]);
            all &= !o->data->sources && tokens[i].T == sizes[i] * o->data->longest;
        }
    }
    mem_free(l.rows);
    dealer_close(&l.dealer);
    return code;
}

int loader_open(const struct loader_options *o, struct loader **loader, struct snug_err *err)
{
    *loader = NULL;
    TRY(loader_check(o->data, o->batch_size, o->accumulation, o->drop_below, err));
    TRY(loader_check_max_tokens(o->data, o->max_tokens, err));
    struct loader *l = mem_alloc(sizeof *l);
    if (!l)
        return err_no_memory(err, sizeof *l);
    l->n_slots = (o->prefetch > 0 ? o->prefetch : 2) + 1;
    pthread_mutex_init(&l->lock, NULL);
    pthread_cond_init(&l->changed, NULL);
    int code;
    TRY_TO(fail, settle(l, o, err));
    TRY_TO(fail, masking_open(&l->masker, o->data, &o->masking, o->seed, err));
    TRY_TO(fail, allocate(l, err));
    TRY_TO(fail, start_thread(l, err));
    *loader = l;
    return SNUG_OK;
fail:
    loader_close(l);
    return code;
}

int loader_next(struct loader *l, const struct window **w, struct snug_err *err)
{
    *w = NULL;
    pthread_mutex_lock(&l->lock);
    while (l->made == l->taken && !l->ended)
        pthread_cond_wait(&l->changed, &l->lock);
    int code = SNUG_OK;
    if (l->made > l->taken) {
        *w = &l->slots[l->taken % l->n_slots].window;
        l->taken++;
        pthread_cond_broadcast(&l->changed);
    } else if (l->code) {
        code = l->code;
        if (err)
            *err = l->err;
    }
    pthread_mutex_unlock(&l->lock);
    return code;
}

void loader_close(struct loader *l)
{
    if (!l)
        return;
    if (l->started) {
        pthread_mutex_lock(&l->lock);
        l->stop = true;
        pthread_cond_broadcast(&l->changed);
        pthread_mutex_unlock(&l->lock);
        pthread_join(l->thread, NULL);
    }
    for (int32_t i = 0; l->slots && i < l->n_slots; i++) {
        batch_buffer_close(&l->slots[i].buffer);
        mem_free(l->slots[i].micro);
    }
    mem_free(l->slots);
    mem_free(l->samples);
    mem_free(l->dealt);
    mem_free(l->rows);
    dealer_close(&l->dealer);
    masking_close(&l->masker);
    pthread_cond_destroy(&l->changed);
    pthread_mutex_destroy(&l->lock);
    mem_free(l);
}
