/* Which checkpoint to resume from. Only names and contents decide: no pointer file, no time stamp. */
#include "checkpoint/internal.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

/* Why nothing was found, for the one line of the error. */
struct search {
    const struct io *io;
    const char *dir;
    int flags;
    struct ckpt_notes notes;
    struct arena arena;
    size_t passed_over;
    bool only_io;         /* every one passed over could not be read */
    struct snug_err last; /* what was wrong with the highest one */
};

static void take(const struct io *io, char *path, struct ckpt_manifest *m, struct ckpt_found *found)
{
    *found = (struct ckpt_found){.io = io,
                                 .path = path,
                                 .step = m->step,
                                 .world_size = m->world_size,
                                 .bytes = m->bytes,
                                 .n_files = m->n_files + 1,
                                 .manifest = m};
    memcpy(found->state_hash, m->state_hash, sizeof found->state_hash);
}

/* SNUG_OK: it is good, and `found` has it. SNUG_ERR_CHECKPOINT or SNUG_ERR_IO: not this one; *fatal when none other
 * should be taken instead. */
static int examine(const struct io *io, const char *path, int64_t step, int flags, struct ckpt_found *found,
                   bool *fatal, struct snug_err *err)
{
    struct ckpt_manifest *m = mem_alloc(sizeof *m);
    char *copy = mem_strdup(path);
    int code = m && copy ? ckpt_verify(io, path, flags & CKPT_QUICK, m, err) : err_no_memory(err, sizeof *m);
    if (!code && step >= 0 && m->step != step)
        code = err_set(err, SNUG_ERR_CHECKPOINT, CKPT_MANIFEST ": is of step %lld", (long long)m->step);
    *fatal = code && (code == SNUG_ERR_ENV || (m && m->format > CKPT_FORMAT));
    if (!code) {
        take(io, copy, m, found);
        return SNUG_OK;
    }
    if (m)
        ckpt_manifest_free(m);
    mem_free(m);
    mem_free(copy);
    return code;
}

/* Does the folder hold what the HF Trainer leaves? `inside` is true for a checkpoint-N folder itself. */
static bool is_hf_folder(const struct io *io, struct arena *a, const char *dir)
{
    static const char *const marks[] = {"trainer_state.json", "optimizer.pt"};
    for (size_t i = 0; i < 2; i++) {
        char *path = arena_printf(a, "%s/%s", dir, marks[i]);
        if (path && io_exists(io, path))
            return true;
    }
    return false;
}

static bool holds_hf_checkpoint(struct search *s)
{
    const char *const *names;
    size_t n;
    if (is_hf_folder(s->io, &s->arena, s->dir))
        return true;
    if (io_list(s->io, s->dir, &s->arena, &names, &n, NULL))
        return false;
    for (size_t i = 0; i < n; i++)
        if (!strncmp(names[i], "checkpoint-", 11)) {
            char *path = arena_printf(&s->arena, "%s/%s", s->dir, names[i]);
            if (path && is_hf_folder(s->io, &s->arena, path))
                return true;
        }
    return false;
}

static void note_unfinished(struct search *s)
{
    const char *const *names;
    size_t n;
    if (io_list(s->io, s->dir, &s->arena, &names, &n, NULL))
        return;
    for (size_t i = 0; i < n; i++)
        if (!strncmp(names[i], ".tmp-step-", 10)) {
            ckpt_note(s->notes, "ignored %s/%s: a save that was interrupted", s->dir, names[i]);
            return;
        }
}

/* "a, b, c and 5 more": the first names that are not hidden. */
static void show_names(const char *const *names, size_t n, struct str *out)
{
    enum { SHOWN = 3 };
    size_t seen = 0;
    for (size_t i = 0; i < n; i++)
        if (names[i][0] != '.' && ++seen <= SHOWN)
            str_printf(out, "%s%s", seen > 1 ? ", " : "", names[i]);
    if (seen > SHOWN)
        str_printf(out, " and %zu more", seen - SHOWN);
}

static int nothing_there(struct search *s, struct snug_err *err)
{
    const char *advice =
        s->flags & CKPT_READ
            ? "give the output folder of a run, or one of its step-N folders"
            : "leave out --resume-from-checkpoint, or give \"auto\" to start fresh where there is none";
    const char *const *names;
    struct str has = {0};
    size_t n;
    if (!io_list(s->io, s->dir, &s->arena, &names, &n, NULL))
        show_names(names, n, &has);
    int code = has.n ? err_set(err, SNUG_ERR_CHECKPOINT, "no checkpoint in %s: no folder step-N is there, but %s; %s",
                               s->dir, str_text(&has), advice)
                     : err_set(err, SNUG_ERR_CHECKPOINT, "no checkpoint in %s, which is empty; %s", s->dir, advice);
    str_free(&has);
    return code;
}

/* The folder that was named is not there: what is, beside it. */
static int absent(struct search *s, int errnum, struct snug_err *err)
{
    struct str has = {0};
    struct ckpt_step *steps;
    size_t n = strlen(s->dir), n_steps;
    while (n > 0 && s->dir[n - 1] == '/')
        n--;
    while (n > 0 && s->dir[n - 1] != '/')
        n--;
    char *parent = n > 1 ? arena_strndup(&s->arena, s->dir, n - 1) : arena_strdup(&s->arena, n ? "/" : ".");
    if (parent && !ckpt_list(s->io, parent, &s->arena, &steps, &n_steps, NULL)) {
        const char **names = arena_alloc(&s->arena, n_steps * sizeof *names);
        for (size_t i = 0; names && i < n_steps; i++)
            names[i] = steps[i].name;
        if (names)
            show_names(names, n_steps, &has);
    }
    int code = has.n ? err_set(err, SNUG_ERR_CHECKPOINT, "no checkpoint %s: %s; in %s there is %s", s->dir,
                               strerror(errnum), parent, str_text(&has))
                     : err_set(err, SNUG_ERR_CHECKPOINT, "no checkpoint in %s: %s; give an output folder%s", s->dir,
                               strerror(errnum),
                               s->flags & CKPT_READ ? " or one of its step-N folders"
                                                    : ", one of its step-N folders, or \"auto\"");
    str_free(&has);
    return code;
}

static int none_found(struct search *s, struct snug_err *err)
{
    char none[48] = "its only checkpoint is not";
    if (s->passed_over > 1)
        snprintf(none, sizeof none, "none of its %zu checkpoints is", s->passed_over);
    if (s->passed_over)
        return err_set(err, s->only_io ? SNUG_ERR_IO : SNUG_ERR_CHECKPOINT,
                       "%s: %s usable; %s; nothing was deleted, start anew in another --output-dir", s->dir, none,
                       s->last.text);
    if (holds_hf_checkpoint(s))
        return err_set(err, SNUG_ERR_CHECKPOINT,
                       "%s: HF Trainer optimizer state is pickle and is not read; use --model to start from its "
                       "weights",
                       s->dir);
    note_unfinished(s);
    if (s->flags & CKPT_AUTO)
        return SNUG_OK;
    return nothing_there(s, err);
}

/* Highest step first; the first good one wins. */
static int search_folder(struct search *s, struct ckpt_found *found, struct snug_err *err)
{
    struct ckpt_step *steps;
    size_t n;
    TRY(ckpt_list(s->io, s->dir, &s->arena, &steps, &n, err));
    s->only_io = true;
    for (size_t i = 0; i < n; i++) {
        char *path = arena_printf(&s->arena, "%s/%s", s->dir, steps[i].name);
        struct snug_err why = {0};
        bool fatal;
        if (!path)
            return err_no_memory(err, strlen(s->dir));
        if (steps[i].symlink) {
            ckpt_note(s->notes, "ignored %s: a symbolic link; name it to resume from it", path);
            continue;
        }
        int code = examine(s->io, path, steps[i].step, s->flags, found, &fatal, &why);
        if (!code)
            return SNUG_OK;
        if (fatal)
            return err_set(err, code, "%s: %s", path, why.text);
        ckpt_note(s->notes, "skipped %s: %s", path, why.text);
        if (!s->passed_over++)
            err_set(&s->last, code, "%s: %s", steps[i].name, why.text);
        s->only_io = s->only_io && code == SNUG_ERR_IO;
    }
    return none_found(s, err);
}

/* One step folder is meant when its name is step-N or when a manifest lies in it. */
static bool is_step_folder(struct search *s, int64_t *step)
{
    char *copy = arena_strdup(&s->arena, s->dir), *manifest = arena_printf(&s->arena, "%s/" CKPT_MANIFEST, s->dir);
    *step = -1;
    if (!copy || !manifest)
        return false;
    for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/';)
        copy[--n] = 0;
    const char *slash = strrchr(copy, '/');
    if (ckpt_parse_step(slash ? slash + 1 : copy, step))
        return true;
    *step = -1;
    return io_exists(s->io, manifest);
}

int ckpt_find(const struct io *io, const char *from, int flags, struct ckpt_notes notes, struct ckpt_found *found,
              struct snug_err *err)
{
    struct search s = {.io = io, .dir = from, .flags = flags, .notes = notes};
    struct stat st;
    int64_t step;
    bool fatal;
    int code;
    *found = (struct ckpt_found){0};
    if (io->stat(io, from, &st) < 0) {
        int errnum = errno;
        if (errnum != ENOENT && errnum != ENOTDIR)
            return err_errno(err, SNUG_ERR_IO, from, "open the folder", errnum);
        code = flags & CKPT_AUTO ? SNUG_OK : absent(&s, errnum, err);
        arena_free(&s.arena);
        return code;
    }
    if (!S_ISDIR(st.st_mode))
        return err_set(err, SNUG_ERR_CHECKPOINT, "no checkpoint in %s: it is not a folder; give an output folder",
                       from);
    if (is_step_folder(&s, &step)) {
        struct snug_err why = {0};
        code = examine(io, from, step, flags, found, &fatal, &why);
        if (code)
            code = err_set(err, code, "%s: %s", from, why.text);
    } else {
        code = search_folder(&s, found, err);
    }
    arena_free(&s.arena);
    return code;
}

void ckpt_found_free(struct ckpt_found *found)
{
    if (found->manifest)
        ckpt_manifest_free(found->manifest);
    mem_free(found->manifest);
    mem_free(found->path);
    *found = (struct ckpt_found){0};
}
