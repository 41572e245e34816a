/* rotary.h: rotary positions (Su et al., arXiv 2104.09864) as transformers' modeling_rope_utils: an entry of a head is turned
 * by its position times the frequency of its pair. The frequencies follow from config.json, in one of two spellings: of
 * transformers 5 (`rope_parameters`), or before (`rope_theta`, `rope_scaling`). */
#ifndef MODEL_ROTARY_H
#define MODEL_ROTARY_H

#include "format/json.h"
#include "snug/snug.h"

#include <stdint.h>

enum { ROTARY_PAIRS = 128 }; /* of a head, at most */

struct rotary {
    int64_t pairs;                  /* 0: there are no rotary positions */
    double theta;                   /* the base that frequencies are powers of, before they are scaled */
    double frequency[ROTARY_PAIRS]; /* radians a position */
    double factor;                  /* of cosines and sines */
    int64_t original;               /* of a batch with a longer row the frequencies are `longer`; 0: of none */
    double longer[ROTARY_PAIRS];
};

/* What an architecture knows. */
struct rotary_model {
    int64_t head_size, positions; /* positions: max_position_embeddings */
    double theta;                 /* where the file names none */
    double
        part; /* of a head that turns, where the file names none; 0: all, and a file's partial_rotary_factor is not looked at */
    const char *layer_type; /* the newer spelling has an object for each kind of layers; NULL: for all layers one */
    bool alpha;             /* of the type dynamic an `alpha` makes the base another one, for rows of any length */
    const char *theta_key; /* the older one has a base of its own for such layers, and does not scale them; NULL: not */
};

/* Reads config.json `o` (file `path`). SNUG_ERR_INPUT where a value is missing or out of range, or the type is not known. */
int rotary_read(json_t *o, const char *path, const struct rotary_model *m, struct rotary *out, struct snug_err *err);

/* The frequencies of a batch whose longest row has so many tokens. */
const double *rotary_frequencies(const struct rotary *r, int64_t longest);

#endif
