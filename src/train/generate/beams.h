/* beams.h: a search with beams, as transformers' generate has it: the texts that are the likeliest so far go on together, and of those
 * that ended the one with the best score is the answer. A score is the sum of the tokens' log-probabilities over length^length_penalty,
 * where the length counts the end token, and not the prompt. */
#ifndef TRAIN_GENERATE_BEAMS_H
#define TRAIN_GENERATE_BEAMS_H

#include "base/err.h"

#include <stdbool.h>
#include <stdint.h>

/* When a search with as many ended texts as beams ends. ORDER beams_end */
enum beams_end {
    BEAMS_END_WORSE, /* where the best beam, at its present length, is no better than the worst of them; */
    BEAMS_END_FULL,  /* at once; */
    BEAMS_END_NEVER, /* where no length could make it better */
};

struct beam_settings {
    int64_t n; /* beams; 1: no search */
    double length_penalty;
    enum beams_end end;
};

struct session;
/* Into s->beams, from the options, else generation_config.json, else config.json. */
int beams_read(struct session *s, struct snug_err *err);

struct beam_candidate {
    double sum;
    int64_t beam;
    int32_t token;
};

struct beam_text {
    double score;
    int32_t *ids; /* (most) */
    int64_t n;
};

/* The search for one prompt's answer. */
struct beams {
    struct beam_settings s;
    int64_t most; /* tokens of a text */
    const int32_t *stops;
    int n_stops;
    double *sums;                      /* (n) of the beams' log-probabilities; -INFINITY: it is none */
    struct beam_candidate *candidates; /* (n_candidates) */
    int64_t n_candidates;
    struct beam_text *ended; /* (n + 1), the best first; n_ended of them */
    int64_t n_ended;
    bool closed; /* nothing that ends from now on is better */
    /* What beams_step says: beam i goes on from[i] with next[i]. */
    int64_t *from;
    int32_t *next;
};

int beams_open(struct beams *b, const struct beam_settings *s, int64_t most, const int32_t *stops, int n_stops,
               struct snug_err *err);
void beams_close(struct beams *b);
void beams_begin(struct beams *b);

/* One more token: log_probs (n, V) of the tokens behind each beam's text ids[i] (made). last: all texts end. False where the search
 * has ended: ended[0] is the answer. */
bool beams_step(struct beams *b, const float *log_probs, int64_t V, const int32_t *const *ids, int64_t made, bool last);

/* In place: logits (V) become log-probabilities. */
void beams_log_softmax(float *x, int64_t V);

#endif
