#include "data/files/objects/objects.h"

struct object_kind {
    const char *called;
    int (*open)(const struct io *io, const char *path, enum data_format format, struct objects *o,
                struct snug_err *err);
    int (*open_source)(struct source *source, enum data_format format, struct objects *o, struct snug_err *err);
    int (*next)(struct objects *o, struct snug_err *err);
    struct hash128 (*hash)(const struct objects *o);
    struct source *(*source)(struct objects *o);
    void (*close)(struct objects *o);
    const char *const *(*classes)(const struct objects *o, const char *column, size_t *n); /* NULL: there are none */
};

/* ---- JSON ---- */

static int json_open(const struct io *io, const char *path, enum data_format format, struct objects *o,
                     struct snug_err *err)
{
    return jsonl_open(io, path, format == FORMAT_JSON, &o->json, err);
}

static int json_open_source(struct source *source, enum data_format format, struct objects *o, struct snug_err *err)
{
    return jsonl_open_source(source, format == FORMAT_JSON, &o->json, err);
}

static int json_next(struct objects *o, struct snug_err *err)
{
    int code = jsonl_next(&o->json, err);
    o->row = o->json.row;
    o->place = o->json.place;
    return code;
}

static struct hash128 json_hash(const struct objects *o)
{
    return jsonl_hash(&o->json);
}

static struct source *json_source(struct objects *o)
{
    return &o->json.source;
}

static void json_close(struct objects *o)
{
    jsonl_close(&o->json);
}

/* ---- CoNLL columns ---- */

static int columns_open(const struct io *io, const char *path, enum data_format format, struct objects *o,
                        struct snug_err *err)
{
    (void)format;
    return conll_open(io, path, &o->conll, err);
}

static int columns_open_source(struct source *source, enum data_format format, struct objects *o, struct snug_err *err)
{
    (void)format, (void)err;
    conll_open_source(source, &o->conll);
    return SNUG_OK;
}

static int columns_next(struct objects *o, struct snug_err *err)
{
    int code = conll_next(&o->conll, err);
    o->row = o->conll.row;
    o->place = o->conll.place;
    return code;
}

static struct hash128 columns_hash(const struct objects *o)
{
    return source_hash(&o->conll.lines.source);
}

static struct source *columns_source(struct objects *o)
{
    return &o->conll.lines.source;
}

static void columns_close(struct objects *o)
{
    conll_close(&o->conll);
}

/* ---- Parquet ---- */

static int pages_open(const struct io *io, const char *path, enum data_format format, struct objects *o,
                      struct snug_err *err)
{
    (void)format;
    return parquet_open(io, path, &o->parquet, err);
}

static int pages_next(struct objects *o, struct snug_err *err)
{
    int code = parquet_next(&o->parquet, err);
    o->row = o->parquet.row;
    o->place = o->parquet.place;
    return code;
}

static struct hash128 pages_hash(const struct objects *o)
{
    return parquet_hash(&o->parquet);
}

static struct source *no_source(struct objects *o)
{
    (void)o;
    return NULL;
}

static void pages_close(struct objects *o)
{
    parquet_close(&o->parquet);
}

static const char *const *pages_classes(const struct objects *o, const char *column, size_t *n)
{
    return parquet_classes(&o->parquet, column, n);
}

/* ---- all of them ---- */

static const struct object_kind json = {.called = "objects",
                                        .open = json_open,
                                        .open_source = json_open_source,
                                        .next = json_next,
                                        .hash = json_hash,
                                        .source = json_source,
                                        .close = json_close};
static const struct object_kind conll = {.called = "sentences",
                                         .open = columns_open,
                                         .open_source = columns_open_source,
                                         .next = columns_next,
                                         .hash = columns_hash,
                                         .source = columns_source,
                                         .close = columns_close};
static const struct object_kind parquet = {.called = "rows",
                                           .open = pages_open,
                                           .next = pages_next,
                                           .hash = pages_hash,
                                           .source = no_source,
                                           .close = pages_close,
                                           .classes = pages_classes};
static const struct object_kind *const kinds[FORMAT_COUNT] = {
    [FORMAT_JSON] = &json, [FORMAT_JSONL] = &json, [FORMAT_CONLL] = &conll, [FORMAT_PARQUET] = &parquet};

bool format_has_objects(enum data_format format)
{
    return kinds[format];
}

int objects_open(const struct io *io, const char *path, enum data_format format, struct objects *o,
                 struct snug_err *err)
{
    *o = (struct objects){0};
    TRY(kinds[format]->open(io, path, format, o, err));
    o->kind = kinds[format];
    return SNUG_OK;
}

int objects_open_source(struct source *source, enum data_format format, struct objects *o, struct snug_err *err)
{
    *o = (struct objects){.kind = kinds[format]}; /* which closes the source, also after a failure */
    return o->kind->open_source(source, format, o, err);
}

int objects_next(struct objects *o, struct snug_err *err)
{
    return o->kind->next(o, err);
}

struct hash128 objects_hash(const struct objects *o)
{
    return o->kind->hash(o);
}

const char *const *objects_classes(const struct objects *o, const char *column, size_t *n)
{
    *n = 0;
    return o->kind->classes ? o->kind->classes(o, column, n) : NULL;
}

const char *objects_called(const struct objects *o)
{
    return o->kind->called;
}

struct source *objects_source(struct objects *o)
{
    return o->kind->source(o);
}

void objects_close(struct objects *o)
{
    if (o->kind)
        o->kind->close(o);
    *o = (struct objects){0};
}

const char *objects_jq(const struct objects *o)
{
    return o->kind != &json ? NULL : o->json.is_array ? ".[] | " : "";
}

bool objects_was_only_row(struct objects *o)
{
    bool lines = o->kind == &json && !o->json.is_array && !o->json.source.is_stream;
    return lines && !jsonl_next(&o->json, NULL) && !o->json.row;
}
