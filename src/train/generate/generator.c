#include "train/generate/generator.h"

#include "base/str.h"

#include <string.h>

enum { CONFIG_BYTES = 1 << 20 };

static void add_stop(struct generator *g, json_t *id)
{
    if (json_is_integer(id) && g->n_stops < CHAT_ENDS && json_integer_value(id) >= 0 &&
        json_integer_value(id) < g->s->model.vocab_size)
        g->stops[g->n_stops++] = (int32_t)json_integer_value(id);
}

/* eos_token_id of generation_config.json, else of config.json: a number or a list. */
static void read_stops(struct generator *g, json_t *generation, json_t *config)
{
    json_t *ids = json_object_get(generation, "eos_token_id");
    if (!ids || json_is_null(ids))
        ids = json_object_get(config, "eos_token_id");
    add_stop(g, ids);
    for (size_t i = 0; i < json_array_size(ids); i++)
        add_stop(g, json_array_get(ids, i));
}

/* A token id of generation_config.json, else of config.json; -1: there is none. */
static int read_token(const struct generator *g, json_t *generation, const char *path, const char *key, int64_t *id,
                      struct snug_err *err)
{
    bool own = json_object_get(generation, key);
    *id = -1;
    return json_get_int(own ? generation : g->s->dir.config, own ? path : g->s->dir.config_path, key, false, 0,
                        g->s->model.vocab_size - 1, id, err);
}

/* A translator's text begins with its language, or its decoder reads that first: the place that targets have it in. Without the option
 * the model's own files go before the tokenizer's. */
static void heed_language(struct generator *g)
{
    bool leads = false;
    int32_t id = g->s->tokenizer ? tokenizer_target_language(g->s->tokenizer, &leads) : -1;
    int64_t *to = leads ? &g->forced_first : &g->start;
    if (id >= 0 && (*to < 0 || g->s->o->target_lang))
        *to = id;
}

/* An encoder-decoder's text may have to begin with a token, a language, say; any text that gets as long as it may can have to end
 * with one. What the decoder reads first is none of its text. */
static int read_forced(struct generator *g, json_t *generation, const char *path, struct snug_err *err)
{
    TRY(read_token(g, generation, path, "decoder_start_token_id", &g->start, err));
    TRY(read_token(g, generation, path, "forced_bos_token_id", &g->forced_first, err));
    TRY(read_token(g, generation, path, "forced_eos_token_id", &g->forced_last, err));
    if (model_task(&g->s->model)->converses)
        g->forced_first = -1;
    heed_language(g);
    if (g->start < 0)
        g->start = g->s->model.writes_after;
    return SNUG_OK;
}

static int read_rules(struct generator *g, json_t *generation, const char *path, struct snug_err *err)
{
    struct rules *r = &g->rules;
    *r = (struct rules){.penalty = 1, .stops = g->stops, .n_stops = g->n_stops};
    const struct {
        const char *name;
        int64_t *to;
    } keys[] = {{"no_repeat_ngram_size", &r->no_repeat}, {"min_length", &r->least}, {"min_new_tokens", &r->new_least}};
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++) {
        json_t *from = json_object_get(generation, keys[i].name) ? generation : g->s->dir.config;
        json_t *x = json_object_get(from, keys[i].name);
        if (x && !json_is_null(x))
            TRY(json_get_int(from, from == generation ? path : g->s->dir.config_path, keys[i].name, false, 0, 1 << 24,
                             keys[i].to, err));
    }
    if (r->new_least) /* goes before the other, as in transformers */
        r->least = 0;
    json_t *from = json_object_get(generation, "repetition_penalty") ? generation : g->s->dir.config;
    json_t *x = json_object_get(from, "repetition_penalty");
    if (x && !json_is_null(x))
        TRY(json_get_real(from, from == generation ? path : g->s->dir.config_path, "repetition_penalty", false, 1e-6,
                          1e6, &r->penalty, err));
    return SNUG_OK;
}

/* What transformers would heed and this does not. */
static int note_unheeded(const struct generator *g, json_t *generation, struct snug_err *err)
{
    static const struct {
        const char *name;
        double idle; /* of no effect */
    } keys[] = {{"num_beams", 1}, {"encoder_no_repeat_ngram_size", 0}};
    struct str line = {0};
    for (size_t i = !g->s->o->do_sample; i < sizeof keys / sizeof *keys; i++) {
        json_t *x = json_object_get(generation, keys[i].name);
        x = x ? x : json_object_get(g->s->dir.config, keys[i].name);
        if (json_is_number(x) && json_number_value(x) != keys[i].idle)
            str_printf(&line, "%s%s %g", line.n ? ", " : "", keys[i].name, json_number_value(x));
    }
    static const char *const others[] = {"suppress_tokens", "begin_suppress_tokens",
                                         "bad_words_ids",   "sequence_bias",
                                         "stop_strings",    "exponential_decay_length_penalty"};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
        json_t *x = json_object_get(generation, others[i]);
        if (x && !json_is_null(x) && (!json_is_array(x) || json_array_size(x)))
            str_printf(&line, "%s%s", line.n ? ", " : "", others[i]);
    }
    int code = str_check(&line, err);
    if (!code && line.n)
        session_note(g->s, "not heeded, though the model's folder has it: %s", str_text(&line));
    str_free(&line);
    return code;
}

static int read_sampling(struct generator *g, json_t *generation, const char *path, struct snug_err *err)
{
    const struct options *o = g->s->o;
    struct sampling *p = &g->sampling;
    *p = (struct sampling){.on = o->do_sample, .temperature = 1, .top_k = 50, .top_p = 1, .seed = o->seed};
    if (!o->do_sample)
        return SNUG_OK;
    TRY(json_get_real(generation, path, "temperature", false, 1e-6, 1e6, &p->temperature, err));
    TRY(json_get_int(generation, path, "top_k", false, 0, 1 << 24, &p->top_k, err));
    TRY(json_get_real(generation, path, "top_p", false, 1e-9, 1, &p->top_p, err));
    if (option_given(o, temperature))
        p->temperature = o->temperature;
    if (option_given(o, top_k))
        p->top_k = o->top_k;
    if (option_given(o, top_p))
        p->top_p = o->top_p;
    return SNUG_OK;
}

int generator_read(struct generator *g, struct snug_err *err)
{
    json_t *generation = NULL;
    char *path = model_dir_file(&g->s->dir, "generation_config.json");
    if (!path)
        return err_no_memory(err, strlen(g->s->dir.path));
    int code = io_exists(g->s->io, path) ? json_read_object(g->s->io, path, CONFIG_BYTES, &generation, err) : SNUG_OK;
    if (!code) {
        read_stops(g, generation, g->s->dir.config);
        if (!g->n_stops)
            read_stops(g, NULL, model_settings(g->s->model.arch, g->s->dir.config));
        code = read_sampling(g, generation, path, err);
    }
    if (!code)
        code = read_forced(g, generation, path, err);
    if (!code && g->s->o->command == CMD_GENERATE) /* --eval-samples would say it each time */
        code = note_unheeded(g, generation, err);
    if (!g->n_stops && g->s->tokenizer && tokenizer_special(g->s->tokenizer, TOKEN_EOS) >= 0)
        g->stops[g->n_stops++] = tokenizer_special(g->s->tokenizer, TOKEN_EOS);
    if (!code)
        code = read_rules(g, generation, path, err);
    json_decref(generation);
    mem_free(path);
    return code;
}
