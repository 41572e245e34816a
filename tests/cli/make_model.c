/* `model` and `st` of messages.txt: tiny model folders with one thing changed, so that a case stays one line.
 *
 *     model KIND [CHANGE]...
 *         KIND is bert (a classifier of 2 labels), mlm (the masked language model that it begins as) or gpt2. Makes folder m with
 *         config.json and model.safetensors, and for bert m/vocab.txt and the rows d.csv. Weights are numbers of no meaning.
 *         CHANGE is one of
 *
 *         KEY=JSON          config.json: KEY has this value, written as it stands (bare words stay bare)
 *         KEY=              config.json: KEY is left out
 *         -NAME             the tensors whose names match are left out (* as in the shell)
 *         +NAME:DTYPE:DIMS  this tensor instead of, or besides, the others, as in +classifier.bias:F32:3 or +x:I64:2,2
 *         OLD/NEW           in the tensors' names; an empty OLD is the beginning
 *         NAME@INDEX        that element is NaN
 *
 *     st HEADER [BYTES]
 *         Makes m/model.safetensors with this header behind its length, and BYTES zeros.
 */
#include "make_model.h"

#include <fnmatch.h>
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { MAX_TENSORS = 64, MAX_KEYS = 64, LAYERS = 2 };

/* ---- config.json ---- */

struct key {
    const char *name, *value;
};

static const struct key bert_keys[] = {
    {"model_type", "\"bert\""},
    {"architectures", "[\"BertForSequenceClassification\"]"},
    {"vocab_size", "16"},
    {"hidden_size", "8"},
    {"num_hidden_layers", "2"},
    {"num_attention_heads", "2"},
    {"intermediate_size", "16"},
    {"max_position_embeddings", "16"},
    {NULL, NULL},
};

static const struct key gpt2_keys[] = {
    {"model_type", "\"gpt2\""}, {"architectures", "[\"GPT2LMHeadModel\"]"},
    {"vocab_size", "16"},       {"n_embd", "8"},
    {"n_layer", "2"},           {"n_head", "2"},
    {"n_positions", "16"},      {NULL, NULL},
};

/* ---- tensors ---- */

struct tensor {
    char name[128], dtype[8];
    int ndim;
    long dims[4];
    int seed;    /* where its numbers begin */
    long nan_at; /* an element, or -1 */
};

/* Dimensions by letter: V vocabulary, P positions, T types, H hidden, Q 3 H, F feed-forward, G 4 H, N labels. Names
 * with %d are there once per layer. */
struct row {
    const char *name, *dims;
};

static const struct row bert_rows[] = {
    {"bert.embeddings.word_embeddings.weight", "VH"},
    {"bert.embeddings.position_embeddings.weight", "PH"},
    {"bert.embeddings.token_type_embeddings.weight", "TH"},
    {"bert.embeddings.LayerNorm.weight", "H"},
    {"bert.embeddings.LayerNorm.bias", "H"},
    {"bert.encoder.layer.%d.attention.self.query.weight", "HH"},
    {"bert.encoder.layer.%d.attention.self.query.bias", "H"},
    {"bert.encoder.layer.%d.attention.self.key.weight", "HH"},
    {"bert.encoder.layer.%d.attention.self.key.bias", "H"},
    {"bert.encoder.layer.%d.attention.self.value.weight", "HH"},
    {"bert.encoder.layer.%d.attention.self.value.bias", "H"},
    {"bert.encoder.layer.%d.attention.output.dense.weight", "HH"},
    {"bert.encoder.layer.%d.attention.output.dense.bias", "H"},
    {"bert.encoder.layer.%d.attention.output.LayerNorm.weight", "H"},
    {"bert.encoder.layer.%d.attention.output.LayerNorm.bias", "H"},
    {"bert.encoder.layer.%d.intermediate.dense.weight", "FH"},
    {"bert.encoder.layer.%d.intermediate.dense.bias", "F"},
    {"bert.encoder.layer.%d.output.dense.weight", "HF"},
    {"bert.encoder.layer.%d.output.dense.bias", "H"},
    {"bert.encoder.layer.%d.output.LayerNorm.weight", "H"},
    {"bert.encoder.layer.%d.output.LayerNorm.bias", "H"},
    {NULL, NULL},
};

static const struct row classifier_rows[] = {
    {"bert.pooler.dense.weight", "HH"},
    {"bert.pooler.dense.bias", "H"},
    {"classifier.weight", "NH"},
    {"classifier.bias", "N"},
    {NULL, NULL},
};

static const struct row mlm_rows[] = {
    {"cls.predictions.bias", "V"},
    {"cls.predictions.transform.dense.weight", "HH"},
    {"cls.predictions.transform.dense.bias", "H"},
    {"cls.predictions.transform.LayerNorm.weight", "H"},
    {"cls.predictions.transform.LayerNorm.bias", "H"},
    {NULL, NULL},
};

static const struct row gpt2_rows[] = {
    {"transformer.wte.weight", "VH"},
    {"transformer.wpe.weight", "PH"},
    {"transformer.h.%d.ln_1.weight", "H"},
    {"transformer.h.%d.ln_1.bias", "H"},
    {"transformer.h.%d.attn.c_attn.weight", "HQ"},
    {"transformer.h.%d.attn.c_attn.bias", "Q"},
    {"transformer.h.%d.attn.c_proj.weight", "HH"},
    {"transformer.h.%d.attn.c_proj.bias", "H"},
    {"transformer.h.%d.ln_2.weight", "H"},
    {"transformer.h.%d.ln_2.bias", "H"},
    {"transformer.h.%d.mlp.c_fc.weight", "HG"},
    {"transformer.h.%d.mlp.c_fc.bias", "G"},
    {"transformer.h.%d.mlp.c_proj.weight", "GH"},
    {"transformer.h.%d.mlp.c_proj.bias", "H"},
    {"transformer.ln_f.weight", "H"},
    {"transformer.ln_f.bias", "H"},
    {NULL, NULL},
};

struct model {
    struct key keys[MAX_KEYS];
    struct tensor tensors[MAX_TENSORS];
    int n_keys, n_tensors;
};

static void add_tensor(struct model *m, const char *format, int layer, const char *letters)
{
    static const char names[] = "VPTHQFGN";
    static const long sizes[] = {16, 16, 2, 8, 24, 16, 32, 2};
    struct tensor *t = &m->tensors[m->n_tensors];
    *t = (struct tensor){.dtype = "F32", .seed = m->n_tensors++, .nan_at = -1};
    snprintf(t->name, sizeof t->name, format, layer);
    for (; *letters; letters++)
        t->dims[t->ndim++] = sizes[strchr(names, *letters) - names];
}

static void add_keys(struct model *m, const struct key *keys)
{
    for (; keys->name; keys++)
        m->keys[m->n_keys++] = *keys;
}

static void add_rows(struct model *m, const struct row *rows)
{
    for (; rows->name; rows++)
        for (int layer = 0; layer < (strstr(rows->name, "%d") ? LAYERS : 1); layer++)
            add_tensor(m, rows->name, layer, rows->dims);
}

/* ---- changes ---- */

static void remove_tensors(struct model *m, const char *pattern)
{
    int kept = 0;
    for (int i = 0; i < m->n_tensors; i++)
        if (fnmatch(pattern, m->tensors[i].name, 0) != 0)
            m->tensors[kept++] = m->tensors[i];
    m->n_tensors = kept;
}

static void put_tensor(struct model *m, char *text)
{
    char *dtype = strchr(text, ':'), *dims = dtype ? strchr(dtype + 1, ':') : NULL;
    if (!dims)
        exit(125);
    *dtype = *dims = 0;
    remove_tensors(m, text);
    add_tensor(m, text, 0, "");
    struct tensor *t = &m->tensors[m->n_tensors - 1];
    snprintf(t->dtype, sizeof t->dtype, "%s", dtype + 1);
    for (char *d = dims + 1; *d; d += *d == ',')
        t->dims[t->ndim++] = strtol(d, &d, 10);
}

static void rename_tensors(struct model *m, const char *old, const char *new)
{
    size_t k = strlen(old), n = strlen(new);
    for (int i = 0; i < m->n_tensors; i++) {
        char *name = m->tensors[i].name, *at = strstr(name, old);
        if (!at)
            continue;
        if (strlen(name) + n >= sizeof m->tensors[i].name)
            exit(125);
        memmove(at + n, at + k, strlen(at + k) + 1);
        memcpy(at, new, n);
    }
}

static void put_nan(struct model *m, const char *name, long at)
{
    for (int i = 0; i < m->n_tensors; i++)
        if (strcmp(m->tensors[i].name, name) == 0)
            m->tensors[i].nan_at = at;
}

static void put_key(struct model *m, const char *name, const char *value)
{
    int i = 0;
    while (i < m->n_keys && strcmp(m->keys[i].name, name) != 0)
        i++;
    m->keys[i] = (struct key){name, value};
    m->n_keys += i == m->n_keys;
}

static void change(struct model *m, char *text)
{
    char *mark = strpbrk(text, "=/@");
    if (*text == '-') {
        remove_tensors(m, text + 1);
    } else if (*text == '+') {
        put_tensor(m, text + 1);
    } else if (mark) {
        char kind = *mark;
        *mark = 0;
        if (kind == '=')
            put_key(m, text, mark + 1);
        else if (kind == '/')
            rename_tensors(m, text, mark + 1);
        else
            put_nan(m, text, strtol(mark + 1, NULL, 10));
    } else {
        exit(125);
    }
}

/* ---- writing ---- */

static FILE *create(const char *path)
{
    FILE *f = fopen(path, "w");
    if (!f)
        exit(125);
    return f;
}

static void write_text(const char *path, const char *text)
{
    FILE *f = create(path);
    fputs(text, f);
    fclose(f);
}

static void write_config(const struct model *m)
{
    FILE *f = create("m/config.json");
    const char *before = "{\n";
    for (int i = 0; i < m->n_keys; i++)
        if (*m->keys[i].value) {
            fprintf(f, "%s  \"%s\": %s", before, m->keys[i].name, m->keys[i].value);
            before = ",\n";
        }
    fputs("\n}\n", f);
    fclose(f);
}

static long element_bytes(const char *dtype)
{
    static const char *const names[] = {"BOOL", "F16", "BF16", "F32", "I64", "F64", "C64"};
    static const long bytes[] = {1, 2, 2, 4, 8, 8, 8};
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        if (strcmp(names[i], dtype) == 0)
            return bytes[i];
    exit(125);
}

static long elements(const struct tensor *t)
{
    long n = 1;
    for (int i = 0; i < t->ndim; i++)
        n *= t->dims[i];
    return n;
}

static void write_values(FILE *f, const struct tensor *t)
{
    long n = elements(t);
    bool norm = strstr(t->name, "Norm.") || strstr(t->name, "ln_");
    for (long i = 0; i < n; i++) {
        float x = i == t->nan_at ? NAN : (float)(0.2 * sin(1 + 13.0 * t->seed + (double)i) + (norm && t->ndim == 1));
        if (strcmp(t->dtype, "F32") == 0)
            fwrite(&x, sizeof x, 1, f);
    }
    for (long i = 0; strcmp(t->dtype, "F32") != 0 && i < n * element_bytes(t->dtype); i++)
        fputc(0, f);
}

static void write_length(FILE *f, uint64_t n)
{
    for (int i = 0; i < 8; i++)
        fputc((int)(n >> 8 * i & 255), f);
}

static void write_weights(const struct model *m)
{
    char *header;
    size_t n;
    FILE *h = open_memstream(&header, &n), *f = create("m/model.safetensors");
    long at = 0;
    for (int i = 0; i < m->n_tensors; i++) {
        const struct tensor *t = &m->tensors[i];
        long bytes = elements(t) * element_bytes(t->dtype);
        fprintf(h, "%s\"%s\":{\"dtype\":\"%s\",\"shape\":[", i ? "," : "{", t->name, t->dtype);
        for (int d = 0; d < t->ndim; d++)
            fprintf(h, "%s%ld", d ? "," : "", t->dims[d]);
        fprintf(h, "],\"data_offsets\":[%ld,%ld]}", at, at + bytes);
        at += bytes;
    }
    fputs(m->n_tensors ? "}" : "{}", h);
    for (long pad = -ftell(h) & 7; pad > 0; pad--)
        fputc(' ', h);
    fclose(h);
    write_length(f, n);
    fwrite(header, 1, n, f);
    free(header);
    for (int i = 0; i < m->n_tensors; i++)
        write_values(f, &m->tensors[i]);
    fclose(f);
}

int make_model(int argc, char **argv)
{
    static struct model m;
    bool bert = argc > 1 && strcmp(argv[1], "bert") == 0, mlm = argc > 1 && strcmp(argv[1], "mlm") == 0;
    if (!bert && !mlm && (argc < 2 || strcmp(argv[1], "gpt2") != 0))
        return 125;
    add_keys(&m, bert || mlm ? bert_keys : gpt2_keys);
    add_rows(&m, bert || mlm ? bert_rows : gpt2_rows);
    if (bert)
        add_rows(&m, classifier_rows);
    if (mlm) {
        add_rows(&m, mlm_rows);
        put_key(&m, "architectures", "[\"BertForMaskedLM\"]");
    }
    for (int i = 2; i < argc; i++)
        change(&m, argv[i]);
    mkdir("m", 0777);
    write_config(&m);
    write_weights(&m);
    if (bert || mlm) {
        write_text("m/vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\ngood\nbad\nfine\npoor\na\nb\nc\nd\ne\nf\ng\n");
        write_text("d.csv", "text,label\ngood a,1\nbad b c,0\nfine,1\npoor d,0\n");
    }
    return 0;
}

int make_safetensors(int argc, char **argv)
{
    if (argc < 2)
        return 125;
    FILE *f = create("m/model.safetensors");
    write_length(f, strlen(argv[1]));
    fputs(argv[1], f);
    for (long i = argc > 2 ? strtol(argv[2], NULL, 10) : 0; i > 0; i--)
        fputc(0, f);
    fclose(f);
    return 0;
}
