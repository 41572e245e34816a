#include "data/tokens/token_cache.h"

#include "data/dataset_parts.h"
#include "tokenizer/tokenizer.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* Without padding, and little-endian as every machine that snug is built for. */
struct header {
    char magic[8];
    struct hash128 key, checksum;
    int64_t n_rows, n_tokens, n_label_bytes, n_type_bytes, n_name_bytes;
    int64_t truncated, empty, ignored, no_target;
    int32_t task, label_form, num_labels, masked;
};
_Static_assert(sizeof(struct header) == 128, "the cache's header has no padding");

static const char magic[8] = "snugtok";

#define ENDING ".tokens"
enum { OLD_SECONDS = 3600, PIECE_BYTES = 8 << 20 };

int token_cache_file(const char *dir, struct hash128 key, struct str *path, struct snug_err *err)
{
    char hex[33];
    hash_hex(key, hex);
    str_printf(path, "%s/%s" ENDING, dir, hex);
    return str_check(path, err);
}

/* ---- storing ---- */

struct part {
    const void *data;
    size_t bytes;
};

static int64_t label_bytes(const struct dataset *d)
{
    return d->classes   ? d->n_rows * (int64_t)sizeof *d->classes
           : d->sources ? d->n_rows * (int64_t)sizeof *d->sources
           : d->values  ? d->n_rows * d->num_labels * (int64_t)sizeof *d->values
           : d->targets ? d->n_tokens * (int64_t)sizeof *d->targets
                        : 0;
}

/* Parts may lie in files, and are gone through in pieces, whose pages go again. */
static size_t piece_of(const struct part *p, size_t done)
{
    return p->bytes - done < PIECE_BYTES ? p->bytes - done : PIECE_BYTES;
}

static struct hash128 checksum_of(const struct part *parts, int n, const struct dataset *d, bool *failed)
{
    struct hash_state *h = hash_new();
    *failed = !h;
    if (!h)
        return (struct hash128){0};
    for (int i = 0; i < n; i++)
        for (size_t done = 0, bytes; done < parts[i].bytes; done += bytes) {
            bytes = piece_of(&parts[i], done);
            hash_add(h, (const char *)parts[i].data + done, bytes);
            dataset_release(d);
        }
    return hash_end(h);
}

static int write_part(const struct io *io, int fd, const char *tmp, const struct part *p, const struct dataset *d,
                      int64_t at, struct snug_err *err)
{
    for (size_t done = 0, bytes; done < p->bytes; done += bytes) {
        bytes = piece_of(p, done);
        TRY(io_write_at(io, fd, tmp, (const char *)p->data + done, bytes, at + (int64_t)done, err));
        dataset_release(d);
    }
    return SNUG_OK;
}

static int write_parts(const struct io *io, const char *tmp, const char *path, const struct part *parts, int n,
                       const struct dataset *d, struct snug_err *err)
{
    int fd = io->open(io, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
    if (fd < 0)
        return err_errno(err, SNUG_ERR_IO, tmp, "create", errno);
    int code = SNUG_OK;
    int64_t at = 0;
    for (int i = 0; i < n && !code; i++) {
        code = write_part(io, fd, tmp, &parts[i], d, at, err);
        at += (int64_t)parts[i].bytes;
    }
    if (io->close(io, fd) < 0 && !code)
        code = err_errno(err, SNUG_ERR_IO, tmp, "close", errno);
    if (!code && io->rename(io, tmp, path) < 0)
        code = err_errno(err, SNUG_ERR_IO, path, "rename into place", errno);
    if (code)
        io->unlink(io, tmp);
    return code;
}

static int store(const struct io *io, const char *path, struct hash128 key, const struct dataset *d,
                 const struct str *names, const char *tmp, struct snug_err *err)
{
    struct header h = {
        .key = key,
        .n_rows = d->n_rows,
        .n_tokens = d->n_tokens,
        .n_label_bytes = label_bytes(d),
        .n_type_bytes = d->types ? d->n_tokens : 0,
        .n_name_bytes = (int64_t)names->n,
        .truncated = d->truncated,
        .empty = d->empty,
        .ignored = d->ignored,
        .no_target = d->no_target,
        .masked = d->loss_mask != NULL,
        .task = (int32_t)d->task,
        .label_form = (int32_t)d->label_form,
        .num_labels = d->num_labels,
    };
    memcpy(h.magic, magic, sizeof magic);
    struct part parts[] = {
        {&h, sizeof h},
        {d->offsets, (size_t)(d->n_rows + 1) * sizeof *d->offsets},
        {d->ids, (size_t)d->n_tokens * sizeof *d->ids},
        {d->classes   ? (const void *)d->classes
         : d->sources ? (const void *)d->sources
         : d->values  ? (const void *)d->values
                      : d->targets,
         (size_t)h.n_label_bytes},
        {d->types, (size_t)h.n_type_bytes},
        {d->loss_mask, d->loss_mask ? (size_t)d->n_tokens : 0},
        {str_text(names), names->n},
    };
    enum { PARTS = sizeof parts / sizeof *parts };
    bool failed;
    h.checksum = checksum_of(parts, PARTS, d, &failed);
    if (failed)
        return err_no_memory(err, 1024);
    return write_parts(io, tmp, path, parts, PARTS, d, err);
}

/* Files that a dead process left. Their age is by the clock of the file system, which `now` is from. */
static void remove_old(const struct io *io, const char *dir, struct timespec now)
{
    struct arena a = {0};
    const char *const *names;
    size_t n = 0;
    struct stat st;
    if (io_list(io, dir, &a, &names, &n, NULL))
        n = 0;
    for (size_t i = 0; i < n; i++) {
        const char *path = strstr(names[i], ENDING SCRATCH_MARK) ? arena_printf(&a, "%s/%s", dir, names[i]) : NULL;
        if (path && io->lstat(io, path, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
            now.tv_sec - st.st_mtim.tv_sec > OLD_SECONDS)
            io->unlink(io, path);
    }
    arena_free(&a);
}

int token_cache_store(const struct io *io, const char *path, struct hash128 key, const struct dataset *d,
                      struct snug_err *err)
{
    struct str names = {0}, tmp = {0}, dir = {0};
    struct stat st;
    for (int32_t i = 0; i < d->labels.n; i++)
        str_append_n(&names, d->labels.names[i], strlen(d->labels.names[i]) + 1);
    scratch_name(&tmp, path);
    const char *slash = strrchr(path, '/');
    str_append_n(&dir, path, slash ? (size_t)(slash - path) : 0);
    int code = SNUG_OK;
    if (names.failed || tmp.failed || dir.failed)
        code = err_no_memory(err, tmp.n);
    if (!code && dir.n)
        code = io_make_dirs(io, str_text(&dir), err);
    if (!code)
        code = store(io, path, key, d, &names, str_text(&tmp), err);
    if (!code && io->stat(io, path, &st) == 0)
        remove_old(io, dir.n ? str_text(&dir) : ".", st.st_mtim);
    str_free(&names);
    str_free(&tmp);
    str_free(&dir);
    return code;
}

/* ---- loading ---- */

static int damaged(const char *path, struct snug_err *err)
{
    return err_set(err, SNUG_ERR_INPUT, "%s: damaged, or not of this run", path);
}

static bool same(struct hash128 a, struct hash128 b)
{
    return a.high == b.high && a.low == b.low;
}

/* Of a file that another user could write the numbers may be right and the tokens wrong. */
static int check_owner(const struct io *io, int fd, const char *path, struct snug_err *err)
{
    struct stat st;
    if (io->fstat(io, fd, &st) < 0)
        return err_errno(err, SNUG_ERR_IO, path, "stat", errno);
    return st.st_uid == geteuid() ? SNUG_OK
                                  : err_set(err, SNUG_ERR_INPUT, "%s: belongs to another user (%ld), and is not read",
                                            path, (long)st.st_uid);
}

/* In memory, or mapped where it is large: then d->files has it. */
static int take_file(const struct io *io, int fd, const char *path, int64_t size, int64_t in_memory, struct dataset *d,
                     struct snug_err *err)
{
    if (size <= in_memory) {
        d->block = mem_realloc(NULL, (size_t)size);
        return d->block ? io_read_at(io, fd, path, d->block, (size_t)size, 0, err)
                        : err_no_memory(err, (unsigned long long)size);
    }
    const char *slash = strrchr(path, '/');
    d->files = (struct dataset_files){.io = io, .in_memory = in_memory, .dir = mem_strdup(path)};
    if (!d->files.dir)
        return err_no_memory(err, strlen(path));
    d->files.dir[slash ? slash - path : 0] = 0;
    void *p = io->map(io, fd, (size_t)size, IO_MAP_READ);
    if (!p)
        return err_errno(err, SNUG_ERR_ENV, path, "map", errno);
    d->files.maps[d->files.n_maps++] = (struct mapping){.p = p, .bytes = (size_t)size};
    return SNUG_OK;
}

static int open_file(const struct io *io, const char *path, int64_t in_memory, struct dataset *d, char **bytes,
                     int64_t *size, struct snug_err *err)
{
    int fd;
    TRY(io_open_read(io, path, &fd, size, err));
    int code = check_owner(io, fd, path, err);
    if (!code)
        code = take_file(io, fd, path, *size, in_memory, d, err);
    io->close(io, fd);
    *bytes = d->files.n_maps ? d->files.maps[0].p : d->block;
    return code;
}

static bool form_fits(int32_t form, enum data_task task)
{
    if (!task_has_classes(task))
        return form == LABELS_NONE;
    if (task == TASK_REGRESSION)
        return form == LABELS_VECTORS;
    return form == LABELS_NAMES || form == LABELS_NUMBERS || (form == LABELS_VECTORS && task == TASK_MULTI_LABEL);
}

static bool in_range(int64_t x, int64_t low, int64_t high)
{
    return x >= low && x <= high;
}

/* The header's numbers against what is asked for, each other and the file's size, before any is used. */
static bool sizes_fit(const struct header *h, const struct dataset_options *o, enum data_task task, int64_t size)
{
    const int64_t most = (int64_t)1 << 40;
    bool labeled = task_has_classes(task), ignores = task_has_label(task) && o->ignore_label;
    int64_t wanted = o->labels ? o->labels->n : o->num_labels;
    if (h->task != (int32_t)task || !form_fits(h->label_form, task) ||
        !in_range(h->masked, 0, task == TASK_CAUSAL_LM) ||
        !in_range(h->num_labels, labeled, labeled ? LABELS_MAX : 0) || (labeled && wanted && h->num_labels != wanted) ||
        !in_range(h->n_rows, 1, most) || !in_range(h->n_tokens, h->n_rows, most) ||
        !in_range(h->n_name_bytes, 0, most) || !in_range(h->truncated, 0, h->n_rows) ||
        !in_range(h->empty, 0, h->n_rows) || !in_range(h->ignored, 0, ignores ? most : 0) ||
        !in_range(h->no_target, 0, h->masked || task == TASK_SEQ2SEQ ? most : 0))
        return false;
    int64_t labels = task == TASK_CLASS || task == TASK_SEQ2SEQ ? 4 * h->n_rows
                     : task == TASK_TOKEN_CLASS                 ? 4 * h->n_tokens
                                                                : 4 * h->n_rows * h->num_labels;
    return h->n_label_bytes == labels && (h->n_type_bytes == 0 || h->n_type_bytes == h->n_tokens) &&
           size == (int64_t)sizeof *h + 8 * (h->n_rows + 1) + 4 * h->n_tokens + labels + h->n_type_bytes +
                       h->masked * h->n_tokens + h->n_name_bytes;
}

static bool check(const char *block, int64_t size, struct hash128 key, const struct dataset_options *o,
                  enum data_task task, const struct dataset *d, struct header *h)
{
    if (size < (int64_t)sizeof *h)
        return false;
    memcpy(h, block, sizeof *h);
    if (memcmp(h->magic, magic, sizeof magic) != 0 || !same(h->key, key) || !sizes_fit(h, o, task, size))
        return false;
    struct hash128 stated = h->checksum;
    h->checksum = (struct hash128){0};
    struct part parts[] = {{h, sizeof *h}, {block + sizeof *h, (size_t)size - sizeof *h}};
    bool failed;
    struct hash128 found = checksum_of(parts, 2, d, &failed);
    return !failed && same(stated, found);
}

static bool tokens_fit(const struct dataset *d, int64_t from, int64_t to, int32_t vocabulary)
{
    for (int64_t i = from; i < to; i++)
        if (d->ids[i] < 0 || d->ids[i] >= vocabulary)
            return false;
    for (int64_t i = from; d->loss_mask && i < to; i++)
        if (d->loss_mask[i] > 1)
            return false;
    return true;
}

/* A checksum says that the bytes are those that were written, not that snug wrote them, for this run. */
static bool rows_fit(const struct dataset *d, const struct dataset_options *o)
{
    int64_t full = 0;
    int32_t vocabulary = tokenizer_vocab_size(o->tokenizer);
    if (d->offsets[0] != 0 || d->offsets[d->n_rows] != d->n_tokens)
        return false;
    for (int64_t row = 0; row < d->n_rows; row++) {
        if (d->offsets[row + 1] <= d->offsets[row] || d->offsets[row + 1] > d->n_tokens)
            return false;
        int64_t length = d->offsets[row + 1] - d->offsets[row], source = d->sources ? d->sources[row] : length;
        int64_t target = length - source;
        if (d->sources && (source < 1 || target < 1))
            return false;
        if ((o->max_length && source > o->max_length) || (o->max_target_length && target > o->max_target_length))
            return false;
        full += source == o->max_length || (d->sources && target == o->max_target_length);
    }
    for (int64_t i = 0, end; i < d->n_tokens; i = end) {
        end = d->n_tokens - i < DATASET_STRETCH ? d->n_tokens : i + DATASET_STRETCH;
        if (!tokens_fit(d, i, end, vocabulary))
            return false;
        dataset_release(d);
    }
    return d->truncated <= full; /* what is cut has just that length */
}

static bool labels_fit(const struct dataset *d)
{
    for (int64_t row = 0; row < d->n_rows && d->classes; row++)
        if ((uint32_t)d->classes[row] >= (uint32_t)d->num_labels)
            return false;
    for (int64_t i = 0; d->targets && i < d->n_tokens; i++)
        if (d->targets[i] != IGNORE_INDEX && (uint32_t)d->targets[i] >= (uint32_t)d->num_labels)
            return false;
    for (int64_t i = 0; d->values && i < d->n_rows * d->num_labels; i++)
        if (!isfinite(d->values[i]) || (d->task == TASK_MULTI_LABEL && !(d->values[i] >= 0 && d->values[i] <= 1)))
            return false;
    return true;
}

static bool same_names(const struct label_map *a, const struct label_map *b)
{
    for (int32_t i = 0; i < a->n; i++)
        if (strcmp(a->names[i], b->names[i]) != 0)
            return false;
    return a->n == b->n;
}

/* Those of the run, or what the data can have shown: names in the order of their bytes, or the numbers of the classes, or
 * the names of the columns. */
static bool names_fit(const struct dataset *d, const struct dataset_options *o, const struct columns *columns)
{
    const struct label_map *m = &d->labels;
    if (o->labels)
        return same_names(m, o->labels);
    if (columns->n_labels > 1) {
        for (int32_t i = 0; i < m->n; i++)
            if (m->n != columns->n_labels || strcmp(m->names[i], columns->names[columns->labels[i]]) != 0)
                return false;
        return true;
    }
    if (d->label_form != LABELS_NAMES)
        return m->numbers;
    for (int32_t i = 1; i < m->n; i++)
        if (strcmp(m->names[i - 1], m->names[i]) >= 0)
            return false;
    return true;
}

static int bind_names(struct dataset *d, const struct header *h, const char *names, const char *path,
                      struct snug_err *err)
{
    struct arena a = {0};
    const char **list = arena_alloc(&a, (size_t)h->num_labels * sizeof *list);
    int code = list ? SNUG_OK : err_no_memory(err, (size_t)h->num_labels * sizeof *list);
    const char *end = names + h->n_name_bytes;
    for (int32_t i = 0; i < h->num_labels && !code; i++) {
        const char *zero = memchr(names, 0, (size_t)(end - names));
        if (!zero)
            code = damaged(path, err);
        list[i] = names;
        names = zero ? zero + 1 : names;
    }
    if (!code && names != end)
        code = damaged(path, err);
    if (!code)
        code = label_map_init(&d->labels, list, h->num_labels, path, err);
    arena_free(&a);
    return code;
}

/* What follows from the rest is not in the file. */
static void complete_names(struct dataset *d, const struct dataset_options *o)
{
    d->labels.from_data = !o->labels || o->labels->from_data;
    if (o->labels)
        d->labels.numbers = o->labels->numbers;
    else if (d->label_form == LABELS_NAMES)
        d->labels.numbers = false;
}

/* d has the file's bytes already. */
static int bind(struct dataset *d, char *block, const struct header *h, const struct dataset_options *o,
                const struct columns *columns, const char *path, struct snug_err *err)
{
    d->task = (enum data_task)h->task;
    d->n_rows = h->n_rows;
    d->n_tokens = h->n_tokens;
    d->num_labels = h->num_labels;
    d->label_form = (enum label_form)h->label_form;
    d->truncated = h->truncated;
    d->empty = h->empty;
    d->ignored = h->ignored;
    d->no_target = h->no_target;
    char *at = block + sizeof *h;
    d->offsets = (int64_t *)at;
    at += 8 * (h->n_rows + 1);
    d->ids = (int32_t *)at;
    at += 4 * h->n_tokens;
    if (h->task == TASK_CLASS)
        d->classes = (int32_t *)at;
    else if (h->task == TASK_SEQ2SEQ)
        d->sources = (int32_t *)at;
    else if (h->task == TASK_TOKEN_CLASS)
        d->targets = (int32_t *)at;
    else if (h->n_label_bytes)
        d->values = (float *)at;
    at += h->n_label_bytes;
    if (h->n_type_bytes)
        d->types = (uint8_t *)at;
    at += h->n_type_bytes;
    if (h->masked)
        d->loss_mask = (uint8_t *)at;
    at += h->masked * h->n_tokens;
    if (!rows_fit(d, o) || !labels_fit(d))
        return damaged(path, err);
    if (h->num_labels) {
        TRY(bind_names(d, h, at, path, err));
        if (!names_fit(d, o, columns))
            return damaged(path, err);
        complete_names(d, o);
    }
    return dataset_measure(d, path, err);
}

bool token_cache_load(const struct io *io, const char *path, struct hash128 key, const struct dataset_options *o,
                      enum data_task task, const struct columns *columns, struct dataset *d, struct snug_err *why)
{
    char *bytes;
    int64_t size;
    struct header h;
    *d = (struct dataset){0};
    *why = (struct snug_err){0};
    if (!io_exists(io, path))
        return false;
    int code = open_file(io, path, o->in_memory ? o->in_memory : DATASET_IN_MEMORY, d, &bytes, &size, why);
    if (!code && !check(bytes, size, key, o, task, d, &h))
        code = damaged(path, why);
    if (!code)
        code = bind(d, bytes, &h, o, columns, path, why);
    if (code)
        dataset_close(d);
    else if (d->files.n_maps) /* the checks went through it in order; rows come in any */
        madvise(d->files.maps[0].p, d->files.maps[0].bytes, MADV_RANDOM);
    return !code;
}
