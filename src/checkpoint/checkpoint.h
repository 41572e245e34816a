/* checkpoint.h: saving, finding and loading the state of a run, so that killing it at any instant never costs more than
 * the work since the last checkpoint that was reported complete.
 *
 * A checkpoint is a list of named tensors and one JSON document:
 *
 *     OUT/.lock                     flock of the running process; pid, host and start time inside
 *     OUT/step-00001200/            complete: MANIFEST.json with the size and the XXH3-128 of every file and tensor,
 *                                   state.json, rank-0000.safetensors
 *     OUT/latest                    -> the newest one, for people; never read
 *     OUT/.tmp-step-…  .trash-step-…   being written, being deleted; removed by the next run
 *     OUT/.bad-step-…               moved aside because its name was needed; never removed
 *
 * A run:  ckpt_dir_open, ckpt_find (when resuming: ckpt_load_state, ckpt_compare, ckpt_load_tensors),
 *         ckpt_dir_need_bytes, ckpt_dir_clear (when overwriting), ckpt_saver_new,
 *         then at optimizer steps ckpt_save_begin; at the end ckpt_save_wait, ckpt_saver_free, ckpt_dir_close.
 *
 * Nothing here knows what is trained. Nothing prints: lines for the user go through a struct ckpt_notes. */
#ifndef CHECKPOINT_CHECKPOINT_H
#define CHECKPOINT_CHECKPOINT_H

#include "base/dtype.h"
#include "base/hash.h"
#include "base/io.h"
#include "base/signals.h"
#include "format/safetensors.h"

#include <jansson.h>

/* One-line messages, without a newline at the end. A saver calls `fn` from its writer thread too, but never from two
 * threads at once. fn NULL: nobody listens. */
struct ckpt_notes {
    void (*fn)(void *ctx, const char *line);
    void *ctx;
};

/* How to reach tensors that are not in host memory: copies of `bytes` bytes that are over on return. */
struct ckpt_memory {
    int (*get)(void *ctx, void *to_host, const void *from, int64_t bytes, struct snug_err *err);
    int (*put)(void *ctx, void *to, const void *from_host, int64_t bytes, struct snug_err *err);
    void *ctx;
};

/* `data` is memory of dtype_bytes(dtype, product of shape) bytes, the caller's. Names are unique. */
struct ckpt_tensor {
    const char *name;
    enum dtype dtype;
    int ndim;
    int64_t shape[ST_MAX_DIMS]; /* outermost first */
    void *data;
    const struct ckpt_memory *memory; /* where data lies; NULL: host memory */
};

/* Bytes on disk of a checkpoint of these tensors and `state_bytes` of JSON, rounded up generously for headers. */
int64_t ckpt_disk_bytes(const struct ckpt_tensor *tensors, size_t n, size_t state_bytes);
/* Host memory that a saver takes for its copy of these tensors, at the first save, until it is freed; in_place: of a save in place. */
int64_t ckpt_snapshot_bytes(const struct ckpt_tensor *tensors, size_t n, bool in_place);

/* ---- State hash: what two runs compare. ------------------------------------------------------------------------- */

/* XXH3-128 over the tensors in the order of their names, then the document as canonical JSON. The member "about" of the
 * document is left out: it is for what a resumed run compares or shows (options, versions, paths), not for what
 * training computes with. */
int ckpt_state_hash(const struct ckpt_tensor *tensors, size_t n, const json_t *state, struct hash128 *out,
                    struct snug_err *err);

/* ---- The output folder. ----------------------------------------------------------------------------------------- */

/* A folder that is held by its descriptor. Through its `io`, calls for its path (as it was given) and for what is below
 * reach that very folder, also when its name is gone or is another folder's by now. Counted: who keeps it drops it. */
struct ckpt_folder;
int ckpt_folder_hold(const struct io *io, const char *path, struct ckpt_folder **out, struct snug_err *err);
const struct io *ckpt_folder_io(const struct ckpt_folder *f); /* as long as somebody holds f */
/* SNUG_ERR_IO when the folder does not stand under its path any more: it was deleted, or renamed to what is said. NULL
 * is SNUG_OK. */
int ckpt_folder_check(const struct ckpt_folder *f, struct snug_err *err);
/* A name in the output folder `dir` for what becomes its file `name` when it is whole. The next run removes what a dead one has left. */
char *ckpt_temporary(struct arena *a, const char *dir, const char *name);
struct ckpt_folder *ckpt_folder_keep(struct ckpt_folder *f); /* gives f; NULL is fine, here and below */
void ckpt_folder_drop(struct ckpt_folder *f);

enum ckpt_use {
    CKPT_FRESH,     /* another run in the folder is refused: SNUG_ERR_USAGE */
    CKPT_RESUME,    /* the folder's own run goes on */
    CKPT_OVERWRITE, /* another run may be there; it stays until ckpt_dir_clear */
};

struct ckpt_dir {
    const struct io *io; /* the held folder's, once it is opened */
    const struct io *base;
    struct ckpt_folder *folder;
    char *path;
    struct ckpt_notes notes;
    int lock_fd;
    bool locked;
    int made; /* folders that this run made, the folder and parents: they go again when nothing came into them */
};

/* Before anything else is done: refuses "/", the model folder, a place inside a data folder (SNUG_ERR_USAGE; both may
 * be NULL) or inside a checkpoint, and another run's folder; makes the folder and its parents; takes the lock (held by
 * another process: SNUG_ERR_IO with pid and host); writes, renames and deletes a probe file; removes what dead runs left;
 * notes a file system that needs care. On failure everything is undone. */
int ckpt_dir_open(const struct io *io, const char *path, enum ckpt_use use, const char *model_dir,
                  const char *const *data_paths, size_t n_data, struct ckpt_notes notes, struct ckpt_dir *dir,
                  struct snug_err *err);

/* SNUG_ERR_USAGE where another run has left a checkpoint or a model in the folder: what CKPT_FRESH asks. */
int ckpt_dir_unused(const struct ckpt_dir *dir, struct snug_err *err);
/* Whether a folder named step-N is in it, whole or not. */
bool ckpt_dir_has_steps(const struct ckpt_dir *dir);

/* Whether the disk has room for `kept` checkpoints of `bytes`, for one more that is being written, and for the model in the
 * end; if not, SNUG_ERR_IO with the numbers. `kept` is the largest number of checkpoints that are there when a save begins;
 * complete ones in the folder count. -1: the run writes no checkpoint. */
int ckpt_dir_need_bytes(const struct ckpt_dir *dir, int64_t bytes, int64_t kept, int64_t model_bytes,
                        struct snug_err *err);

/* CKPT_OVERWRITE, once the new run is sure to start: deletes the old run's checkpoints and moves aside step folders
 * that are not wholly ours. */
int ckpt_dir_clear(const struct ckpt_dir *dir, struct snug_err *err);

void ckpt_dir_close(struct ckpt_dir *dir); /* also after a failed open */

/* ---- Saving. ---------------------------------------------------------------------------------------------------- */

struct ckpt_config {
    const struct io *io;
    const char *output_dir; /* its lock is held */
    /* Held, with its `io`: a save into a folder that is not there any more fails. NULL: nobody holds it. */
    struct ckpt_folder *folder;
    const char *synced_file;      /* beside the checkpoints, on the disk before one of them appears; or NULL */
    int64_t total_limit;          /* keep the newest so many, 0: all; 1 keeps 2 and says so */
    bool read_back;               /* drop the page cache and compare all hashes before reporting a checkpoint */
    const struct stop_flag *stop; /* a second signal abandons the save; NULL: none */
    struct ckpt_notes notes;
    double patience_s; /* "still writing" after so long; 0: 60 s */
};

struct ckpt_saver;
int ckpt_saver_new(const struct ckpt_config *config, struct ckpt_saver **out, struct snug_err *err);

/* Copies tensors and document and gives the copy to a writer thread; the caller may go on changing both. Waits first
 * for the save before, if that is still running. best_step, or -1: never deleted by retention.
 * An error of the save before is returned here (or by ckpt_save_wait), once, and then this save has not begun: a run
 * that goes on after a failed save notes the error and calls again. The writer notes
 * "checkpoint of step N complete: …" when, and only when, it will survive. */
int ckpt_save_begin(struct ckpt_saver *s, int64_t step, int64_t best_step, const struct ckpt_tensor *tensors, size_t n,
                    const json_t *state, struct snug_err *err);

/* Both in one, without the copy and its memory, but for tensors that do not lie in the host's: for a caller that has
 * nothing else to do. After SNUG_STOPPED (see below) the tensors' memory must stay: a writer that hangs in the disk
 * still reads it. */
int ckpt_save_in_place(struct ckpt_saver *s, int64_t step, int64_t best_step, const struct ckpt_tensor *tensors,
                       size_t n, const json_t *state, struct snug_err *err);

/* Until nothing is being written. SNUG_ERR_IO: the save failed, older checkpoints are as they were. SNUG_STOPPED: a
 * second signal came and the save was abandoned. */
int ckpt_save_wait(struct ckpt_saver *s, struct snug_err *err);

/* Deletes what total_limit leaves no place for, as after a save of `step`. Nothing is being written. */
void ckpt_saver_retain(struct ckpt_saver *s, int64_t step, int64_t best_step);

bool ckpt_save_busy(struct ckpt_saver *s);
int64_t ckpt_saved_step(struct ckpt_saver *s); /* the newest reported complete by this saver, or -1 */

/* Waits for the writer; its errors are lost. After SNUG_STOPPED it does not wait for a writer that hangs in the disk. Such a
 * writer frees the saver in the end, and notes and publishes nothing more; a folder that it was renaming into place may
 * still appear, complete. It goes on using the config's `io`, unless that is the held folder's, and after
 * ckpt_save_in_place the tensors. */
void ckpt_saver_free(struct ckpt_saver *s);

/* ---- Resuming. -------------------------------------------------------------------------------------------------- */

/* A checkpoint that was verified. All zero: none. */
struct ckpt_found {
    const struct io *io;
    char *path; /* the step folder; NULL: nothing to resume from, start fresh */
    int64_t step, world_size, bytes;
    size_t n_files;      /* verified, the manifest too */
    char state_hash[33]; /* hex */
    struct ckpt_manifest *manifest;
};

enum {
    CKPT_AUTO = 1,  /* no checkpoint at all is success with path NULL */
    CKPT_QUICK = 2, /* manifest, names and sizes only; contents are still checked when loaded */
    CKPT_READ = 4,  /* nothing is resumed: errors give no advice on that */
};

/* `from` is an output folder (the highest step that verifies wins; each one passed over is noted with folder, file,
 * tensor and reason) or one step folder. SNUG_ERR_CHECKPOINT when there is none or none is good, or when the newest was
 * written by a newer version; SNUG_ERR_IO when the folder cannot be read. */
int ckpt_find(const struct io *io, const char *from, int flags, struct ckpt_notes notes, struct ckpt_found *found,
              struct snug_err *err);

/* The document, as a new reference. */
int ckpt_load_state(const struct ckpt_found *found, json_t **state, struct snug_err *err);

/* Fills every tensor's data, one after another, checking each against its hash. Names, dtypes and shapes must be
 * exactly those of the checkpoint (SNUG_ERR_CHECKPOINT names the first difference, before anything is filled). */
int ckpt_load_tensors(const struct ckpt_found *found, const struct ckpt_tensor *tensors, size_t n,
                      struct snug_err *err);

/* SNUG_ERR_CHECKPOINT with the first difference, old -> new, among the members `keys` (in this order, each compared
 * down to its leaves) of two documents. What is in the member "options" is named as on the command line. `path` is for
 * the message, and `option` what else may be done than to start anew; NULL: nothing. */
int ckpt_compare(const char *path, const json_t *old_state, const json_t *new_state, const char *option,
                 const char *const *keys, size_t n_keys, struct snug_err *err);

void ckpt_found_free(struct ckpt_found *found);

#endif
