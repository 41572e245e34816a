/* internal.h: what the files of the checkpoint code share: names, the manifest, verifying, removing. */
#ifndef CHECKPOINT_INTERNAL_H
#define CHECKPOINT_INTERNAL_H

#include "base/str.h"
#include "checkpoint/checkpoint.h"

#define CKPT_MANIFEST "MANIFEST.json"
#define CKPT_STATE "state.json"
#define CKPT_TENSORS "rank-0000.safetensors"

enum { CKPT_FORMAT = 1, CKPT_PIECE_BYTES = 4 << 20 };

/* ---- names (names.c) */

#define CKPT_MAX_STEP 999999999999999999 /* 18 digits, far from overflow */

/* "step-" and digits only, in range. */
bool ckpt_parse_step(const char *name, int64_t *step);
/* "PREFIX.<32 hex digits>", of 128 random bits: a name that nobody else has. */
char *ckpt_unique_name(struct arena *a, const char *prefix);
/* A name of ours in an output folder that only a dead run can have left behind. */
bool ckpt_is_leftover(const char *name);

void ckpt_note(struct ckpt_notes notes, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- hashes (hash.c) */

/* Indices of `tensors` in the order of their names. */
int ckpt_order(const struct ckpt_tensor *tensors, size_t n, size_t *order, struct snug_err *err);
int64_t ckpt_tensor_bytes(const struct ckpt_tensor *t);
int ckpt_get(const struct ckpt_tensor *t, void *to_host, struct snug_err *err); /* a copy of its data */
/* Canonical JSON of the document without "about". */
int ckpt_canonical(const json_t *state, struct str *out, struct snug_err *err);
/* From the hash of each tensor; `tensors` in the order of their names. */
struct hash128 ckpt_combine(const struct ckpt_tensor *tensors, const struct hash128 *hashes, size_t n,
                            const char *canonical, size_t bytes, struct hash_state *h);

/* ---- the manifest (manifest.c) */

struct ckpt_file {
    const char *name, *hash; /* hash: 32 hex digits */
    int64_t bytes;
};

struct ckpt_entry {
    const char *name, *file, *hash;
};

struct ckpt_manifest {
    json_t *json; /* owns the strings */
    int64_t step, world_size, format;
    const char *state_hash;
    struct ckpt_file *files; /* without the manifest itself */
    size_t n_files;
    struct ckpt_entry *tensors; /* sorted by name */
    size_t n_tensors;
    int64_t bytes; /* of all files with the manifest */
    struct arena arena;
};

/* The text of a manifest, complete with its own hash as the last member. */
int ckpt_manifest_write(const struct ckpt_manifest *m, struct str *text, struct snug_err *err);

/* Reads and checks the manifest of a step folder. SNUG_ERR_CHECKPOINT with a text that starts at the file name when it
 * is absent, damaged, or not to be trusted; m->format is above CKPT_FORMAT when a newer snug wrote it. Free it also
 * after a failure. */
int ckpt_manifest_read(const struct io *io, const char *step_dir, struct ckpt_manifest *m, struct snug_err *err);
void ckpt_manifest_free(struct ckpt_manifest *m);
const struct ckpt_entry *ckpt_manifest_tensor(const struct ckpt_manifest *m, const char *name); /* NULL if absent */
const struct ckpt_file *ckpt_manifest_file(const struct ckpt_manifest *m, const char *name);

/* ---- verifying (verify.c) */

/* The manifest, then names and sizes (nothing missing, nothing extra), then, unless `quick`, every file's content.
 * SNUG_ERR_CHECKPOINT with file, tensor and reason; SNUG_ERR_IO when something cannot be read. Free m always. */
int ckpt_verify(const struct io *io, const char *step_dir, bool quick, struct ckpt_manifest *m, struct snug_err *err);

/* ---- folders (step_folders.c) */

/* Deletes the files of ours in folder `path`, then the folder. False, with the folder still there, when something else
 * is in it or the system refuses. */
bool ckpt_remove_folder(const struct io *io, const char *path);

/* Deletes a checkpoint by way of .trash-: verified before (names and sizes). */
int ckpt_delete(const struct io *io, const char *output_dir, const char *name, struct snug_err *err);
/* Renames OUT/name to OUT/.bad-name.<uuid>; `to` gets the new name in `a`. */
int ckpt_move_aside(const struct io *io, const char *output_dir, const char *name, struct arena *a, char **to,
                    struct snug_err *err);

/* Whether a link is one that snug made for the newest checkpoint. */
bool ckpt_is_latest(const struct io *io, const char *path);

/* A step folder in an output folder; a symlink or a file of such a name is none. */
struct ckpt_step {
    int64_t step;
    const char *name;
    bool symlink;
};
/* Highest step first, in memory of `a`. */
int ckpt_list(const struct io *io, const char *output_dir, struct arena *a, struct ckpt_step **steps, size_t *n,
              struct snug_err *err);

/* ---- the lock (lock.c) */

bool ckpt_same_file(const struct stat *a, const struct stat *b);
/* Is it proved that no other host uses the file system? `say`: names it when it needs care. */
bool ckpt_is_one_host(const struct io *io, const char *path, struct ckpt_notes notes, bool say);
/* Takes dir->path/.lock; ckpt_dir_close gives it back. SNUG_ERR_IO: another process has it, or it cannot be had. */
int ckpt_lock(struct ckpt_dir *dir, struct snug_err *err);

/* ---- writing (write.c), in whatever thread */

struct ckpt_image {
    int64_t step, best_step;
    struct ckpt_tensor *tensors; /* in the order of their names, data in the snapshot */
    size_t n;
    struct str state, canonical;
};

int ckpt_write(const struct ckpt_config *config, const struct ckpt_image *image, struct snug_err *err);
void ckpt_retain(const struct ckpt_config *config, int64_t step, int64_t best_step);

#endif
