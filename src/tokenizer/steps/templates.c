/* Post-processors: where the special tokens of one text and of a pair stand. */
#include "tokenizer/steps/step.h"

#include <string.h>

static int get_ids(struct tokenizer *t, json_t *list, const char *name, struct template_part *part,
                   struct snug_err *err)
{
    size_t n = json_array_size(list);
    int32_t *ids = arena_alloc(&t->arena, n * sizeof *ids);
    if (!ids)
        return err_no_memory(err, n * sizeof *ids);
    for (size_t i = 0; i < n; i++) {
        char text[64];
        json_t *id = json_array_get(list, i);
        json_int_t value = json_is_integer(id) ? json_integer_value(id) : -1;
        if (value < 0 || (uint64_t)value >= t->n_tokens)
            return err_set(err, SNUG_ERR_INPUT, "%s: post_processor: \"%s\" has id %s; the vocabulary has 0 to %zu",
                           t->path, name, json_value_text(id, text), t->n_tokens - 1);
        ids[i] = (int32_t)value;
    }
    part->ids = ids;
    part->n_ids = n;
    return 0;
}

/* {"Sequence": {"id": "A", "type_id": 0}} or {"SpecialToken": {"id": "[CLS]", "type_id": 0}} */
static int read_part(struct tokenizer *t, json_t *o, json_t *specials, struct template_part *part, struct snug_err *err)
{
    json_t *sequence = json_object_get(o, "Sequence"), *special = json_object_get(o, "SpecialToken");
    json_t *body = sequence ? sequence : special;
    if (json_object_size(o) != 1 || !json_is_object(body))
        return err_set(err, SNUG_ERR_INPUT,
                       "%s: post_processor: a part is neither Sequence nor SpecialToken; correct it", t->path);
    TRY(ONLY_KEYS_OF(t, body, "post_processor", err, "id", "type_id"));
    const char *id;
    int64_t type_id = 0;
    TRY(json_get_string(body, t->path, "id", true, &id, err));
    TRY(json_get_int(body, t->path, "type_id", true, 0, UINT8_MAX, &type_id, err));
    part->type_id = (int32_t)type_id;
    if (sequence) {
        if (strcmp(id, "A") && strcmp(id, "B"))
            return err_set(err, SNUG_ERR_INPUT, "%s: post_processor: Sequence id \"%s\" is neither \"A\" nor \"B\"",
                           t->path, id);
        part->kind = *id == 'A' ? PART_A : PART_B;
        return 0;
    }
    part->kind = PART_SPECIAL;
    json_t *ids = json_object_get(json_object_get(specials, id), "ids");
    if (!json_is_array(ids))
        return err_set(err, SNUG_ERR_INPUT, "%s: post_processor: \"%s\" is not in its special_tokens; add its ids",
                       t->path, id);
    return get_ids(t, ids, id, part, err);
}

static int read_template(struct tokenizer *t, json_t *processor, const char *key, struct template *form,
                         struct snug_err *err)
{
    json_t *list = json_object_get(processor, key), *o;
    if (!json_is_array(list))
        return err_set(err, SNUG_ERR_INPUT, "%s: post_processor.%s is not an array; correct the file", t->path, key);
    *form = (struct template){.n_parts = json_array_size(list)};
    form->parts = arena_alloc(&t->arena, form->n_parts * sizeof *form->parts);
    if (!form->parts)
        return err_no_memory(err, form->n_parts * sizeof *form->parts);
    bool has[2] = {false};
    size_t i, added = 0;
    json_array_foreach(list, i, o)
    {
        TRY(read_part(t, o, json_object_get(processor, "special_tokens"), &form->parts[i], err));
        if (form->parts[i].kind != PART_SPECIAL)
            has[form->parts[i].kind] = true;
        added += form->parts[i].n_ids;
    }
    bool pair = form == &t->pair;
    if (!has[PART_A] || has[PART_B] != pair)
        return err_set(err, SNUG_ERR_INPUT, "%s: post_processor.%s must hold %s; correct the file", t->path, key,
                       pair ? "both sequences, A and B" : "sequence A and not B");
    form->added = added > 1000000 ? 1000000 : (int)added;
    return 0;
}

/* ["[SEP]", 102] of BertProcessing */
static int read_name_and_id(struct tokenizer *t, json_t *processor, const char *key, struct template_part *part,
                            struct snug_err *err)
{
    json_t *two = json_object_get(processor, key);
    if (json_array_size(two) != 2 || !json_is_string(json_array_get(two, 0)))
        return err_set(err, SNUG_ERR_INPUT, "%s: post_processor.%s is not [\"token\", id]; correct the file", t->path,
                       key);
    json_t *list = json_pack("[O]", json_array_get(two, 1));
    if (!list)
        return err_no_memory(err, sizeof(json_int_t));
    part->kind = PART_SPECIAL;
    int code = get_ids(t, list, json_string_value(json_array_get(two, 0)), part, err);
    json_decref(list);
    return code;
}

/* Steps of a Sequence come one by one; two that place special tokens would have to be nested. */
static int only_template(struct tokenizer *t, struct snug_err *err)
{
    if (t->has_template)
        return err_set(err, SNUG_ERR_INPUT, "%s: post_processor: two of its steps add tokens, which is not supported",
                       t->path);
    t->has_template = true;
    return 0;
}

/* "[CLS] A [SEP]" and "[CLS] A [SEP] B [SEP]"; `seps` stand between the texts of a pair. */
static int cls_and_sep(struct tokenizer *t, json_t *o, int seps, int32_t type_b, struct snug_err *err)
{
    struct template_part cls = {0}, sep = {0}, a = {.kind = PART_A}, b = {.kind = PART_B, .type_id = type_b}, end;
    TRY(only_template(t, err));
    TRY(read_name_and_id(t, o, "cls", &cls, err));
    TRY(read_name_and_id(t, o, "sep", &sep, err));
    end = sep;
    end.type_id = type_b;
    struct template_part all[] = {cls, a, sep, cls, a, sep, sep, b, end}, *parts = arena_alloc(&t->arena, sizeof all);
    if (!parts)
        return err_no_memory(err, sizeof all);
    memcpy(parts, all, sizeof all);
    if (seps == 1)
        memmove(parts + 6, parts + 7, 2 * sizeof *parts);
    t->single = (struct template){parts, 3, 2};
    t->pair = (struct template){parts + 3, (size_t)(4 + seps), 2 + seps};
    return 0;
}

int post_processor_BertProcessing_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    (void)state;
    TRY(ONLY_KEYS(t, o, "post_processor", err, "sep", "cls"));
    return cls_and_sep(t, o, 1, 1, err);
}

/* trim_offsets and add_prefix_space of a ByteLevel: they change no ids. Two steps of a Sequence take away what either would. */
static int read_trimming(struct tokenizer *t, json_t *o, struct snug_err *err)
{
    bool trims = true, but_one = true;
    TRY(json_get_bool(o, t->path, "trim_offsets", false, &trims, err));
    TRY(json_get_bool(o, t->path, "add_prefix_space", false, &but_one, err));
    if (trims)
        t->trims_but_one = but_one && (!t->trims_places || t->trims_but_one);
    t->trims_places |= trims;
    return SNUG_OK;
}

int post_processor_RobertaProcessing_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    (void)state;
    TRY(ONLY_KEYS(t, o, "post_processor", err, "sep", "cls", "trim_offsets", "add_prefix_space"));
    TRY(read_trimming(t, o, err));
    return cls_and_sep(t, o, 2, 0, err);
}

int post_processor_TemplateProcessing_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    (void)state;
    TRY(ONLY_KEYS(t, o, "post_processor", err, "single", "pair", "special_tokens"));
    TRY(only_template(t, err));
    TRY(read_template(t, o, "single", &t->single, err));
    return read_template(t, o, "pair", &t->pair, err);
}

int post_processor_ByteLevel_read(struct tokenizer *t, json_t *o, void **state, struct snug_err *err)
{
    (void)state;
    TRY(ONLY_KEYS(t, o, "post_processor", err, "add_prefix_space", "trim_offsets", "use_regex"));
    return read_trimming(t, o, err);
}

int tokenizer_default_template(struct tokenizer *t, struct snug_err *err)
{
    if (t->has_template)
        return 0;
    struct template_part *parts = arena_alloc(&t->arena, 2 * sizeof *parts);
    if (!parts)
        return err_no_memory(err, 2 * sizeof *parts);
    parts[0].kind = PART_A;
    parts[1] = (struct template_part){.kind = PART_B, .type_id = 1};
    t->single = (struct template){parts, 1, 0};
    t->pair = (struct template){parts, 2, 0};
    return 0;
}

int tokenizer_bos_eos_template(struct tokenizer *t, int32_t bos, int32_t eos, struct snug_err *err)
{
    const int32_t given[2] = {bos, eos};
    int32_t *ids = arena_alloc(&t->arena, sizeof given);
    struct template_part *parts = arena_alloc(&t->arena, 9 * sizeof *parts);
    if (!ids || !parts)
        return err_no_memory(err, 9 * sizeof *parts);
    memcpy(ids, given, sizeof given);
    size_t n = 0, single = 0;
    for (int32_t text = 0; text < 3; text++) { /* the single one's, then the two of the pair */
        int32_t type = text == 2;
        if (bos >= 0)
            parts[n++] = (struct template_part){PART_SPECIAL, type, &ids[0], 1};
        parts[n++] = (struct template_part){.kind = text == 2 ? PART_B : PART_A, .type_id = type};
        if (eos >= 0)
            parts[n++] = (struct template_part){PART_SPECIAL, type, &ids[1], 1};
        if (text == 0)
            single = n;
    }
    int added = (bos >= 0) + (eos >= 0);
    t->single = (struct template){parts, single, added};
    t->pair = (struct template){parts + single, n - single, 2 * added};
    return 0;
}
