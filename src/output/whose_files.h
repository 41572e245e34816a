/* whose_files.h: before a run writes into a folder, whether what it would replace there is a user's. */
#ifndef OUTPUT_WHOSE_FILES_H
#define OUTPUT_WHOSE_FILES_H

#include "base/err.h"
#include "base/io.h"

enum file_rule {
    FILE_LOG,     /* ours by what is in it */
    FILE_RESULT,  /* config.json, model.safetensors: ours where the folder's run goes on */
    FILE_CARRIED, /* ours where the folder's run has a result, or where it is what would be copied, byte for byte */
    FILE_RECORD,  /* training_args.json: ours by what is in it */
    FILE_JSON,    /* ours by what is in it (output/own_json.h) */
    FILE_PICTURE, /* by OWN_PICTURE at its beginning */
    FILE_OTHER,   /* never ours: a part of a model that the one to be written has not */
};

struct whose_file {
    const char *name;
    enum file_rule rule;
};

struct whose_folder {
    const struct io *io;
    const char *path;
    const char *source;       /* the folder that FILE_CARRIED files come from */
    const char *const *never; /* (n_never) files that are never replaced, such as the data: paths, NULL is none */
    size_t n_never;
    bool model;     /* a model is written: other parts of one (export_part) are in the way, unless `goes_on` */
    bool goes_on;   /* a run's checkpoints are there, and it is resumed */
    bool overwrite; /* whatever is not needed for this run may be replaced */
};

/* SNUG_ERR_USAGE naming the first of the files (those that are there) that is not the run's to replace. A folder, a
 * device, or a file of `never` is not, whatever was said; a link only with overwrite, and the log never. */
int whose_files_check(const struct whose_folder *f, const struct whose_file *files, size_t n, struct snug_err *err);

#endif
