#include "output/languages.h"

#include "format/json.h"

#include <stdlib.h>

enum { LIMIT = 64 << 20 };

const char *const language_files[LANGUAGES_FILES] = {
    [LANGUAGES_TOKENIZER] = "tokenizer_config.json", [LANGUAGES_GENERATION] = "generation_config.json"};

static int read_file(const struct io *io, const char *folder, const char *name, json_t **o, struct snug_err *err)
{
    struct str path = {0};
    str_printf(&path, "%s/%s", folder, name);
    int code = str_check(&path, err);
    if (!code && io_exists(io, str_text(&path)))
        code = json_read_object(io, str_text(&path), LIMIT, o, err);
    else if (!code)
        *o = json_object();
    str_free(&path);
    return code || *o ? code : err_no_memory(err, 1 << 10);
}

/* What the tokenizer's file then says. */
static int set_of_tokenizer(json_t *o, const char *source, const char *target)
{
    return (source && json_object_set_new(o, "src_lang", json_string(source))) ||
           (target && json_object_set_new(o, "tgt_lang", json_string(target)));
}

/* Where a generated text has its language: the first token of it, or the one before it. */
static int set_of_generation(json_t *o, const struct tokenizer *t)
{
    bool leads = false;
    int32_t id = tokenizer_target_language(t, &leads);
    return json_object_set_new(o, leads ? "forced_bos_token_id" : "decoder_start_token_id", json_integer(id));
}

int languages_texts(const struct io *io, const char *folder, const struct tokenizer *t, const char *source,
                    const char *target, char *texts[LANGUAGES_FILES], struct snug_err *err)
{
    const bool wanted[LANGUAGES_FILES] = {source || target, target != NULL};
    for (int i = 0; i < LANGUAGES_FILES; i++) {
        json_t *o = NULL;
        texts[i] = NULL;
        if (!wanted[i])
            continue;
        TRY(read_file(io, folder, language_files[i], &o, err));
        int failed = i == LANGUAGES_TOKENIZER ? set_of_tokenizer(o, source, target) : set_of_generation(o, t);
        char *dumped = failed ? NULL : json_dumps(o, JSON_INDENT(2) | JSON_ENSURE_ASCII | JSON_REAL_PRECISION(17));
        json_decref(o);
        texts[i] = dumped ? mem_strdup(dumped) : NULL;
        free(dumped);
        if (!texts[i])
            return err_no_memory(err, 1 << 16);
    }
    return SNUG_OK;
}
