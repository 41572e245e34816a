/* generator.h: what runs while texts are generated, for the files that do it: generate.c (the steps), generator.c (what the model's folder
 * says of them). */
#ifndef TRAIN_GENERATE_GENERATOR_H
#define TRAIN_GENERATE_GENERATOR_H

#include "snug/snug.h"
#include "train/generate/beams.h"
#include "train/generate/rules.h"
#include "train/generate/sampling.h"
#include "train/generate/telling.h"
#include "train/session/session.h"

struct sequence_state {
    int32_t *ids; /* (cache_rows + 1): the prompt and what follows it */
    int64_t n, n_prompt, cached;
    int64_t prompt; /* which; -1: none yet */
    bool runs;
    int64_t source, source_read; /* of an encoder-decoder: tokens of the prompt, all or none of which are read */
};

/* What a prompt has become, until its turn to be told. */
struct result {
    int32_t *ids; /* (n): the prompt and what follows it */
    int64_t n, n_prompt;
    bool stopped; /* by an end token */
    bool ended;
};

struct generator {
    struct session *s;
    struct sampling sampling;
    struct rules rules;
    int32_t stops[CHAT_ENDS];
    int n_stops;
    int64_t start;                     /* what a decoder reads first, where prompts are sources */
    int64_t forced_first, forced_last; /* tokens that a text begins and ends with; -1: any */
    int64_t B; /* places: as many as the program has room for, and no more than prompts have beams */
    struct sequence_state *places; /* (B) */
    struct result *results;        /* (prompts) */
    int64_t next;                  /* prompt that no place has had */
    int64_t told;                  /* prompt that is being told */
    struct telling telling;        /* its text */
    float *logits;                 /* (B,V) */
    struct candidate *candidates;
    /* With beams, of which so many places in a row have a prompt together. */
    int64_t beams;
    struct beams *searches;    /* (B / beams); NULL: there are none */
    int32_t *cache_at;         /* (B, cache_rows): which row of all caches each token's is */
    int32_t *source_at, *kept; /* (B); (beams, cache_rows + 1): room for places that change */
    const int32_t **kept_ids;  /* (beams) */
    int32_t *inputs;           /* ids (T), positions (T), cu (B+1), past (B), sample (B); */
    int32_t *sources;          /* ids (S), positions (S), cu (B+1), rows (B); NULL: prompts are no sources */
    int (*piece)(void *ctx, const struct snug_piece *p);
    void *ctx;
};

/* Sampling, rules, stops, the first and forced tokens, from the options and generation_config.json, else config.json. */
int generator_read(struct generator *g, struct snug_err *err);

#endif
