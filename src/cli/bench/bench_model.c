#include "base/io.h"
#include "cli/bench/bench.h"

#include <errno.h>
#include <ftw.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

/* The shapes of well-known models, as in the config.json files that their authors published. */
#define BERT(hidden, layers, heads, intermediate)                                                                      \
    "{\"architectures\": [\"BertForSequenceClassification\"], \"model_type\": \"bert\", \"vocab_size\": 30522, "       \
    "\"hidden_size\": " hidden ", \"num_hidden_layers\": " layers ", \"num_attention_heads\": " heads ", "             \
    "\"intermediate_size\": " intermediate ", \"max_position_embeddings\": 512, \"type_vocab_size\": 2, "              \
    "\"hidden_act\": \"gelu\", \"hidden_dropout_prob\": 0.1, \"attention_probs_dropout_prob\": 0.1, "                  \
    "\"initializer_range\": 0.02, \"layer_norm_eps\": 1e-12, \"pad_token_id\": 0}\n"
#define GPT2(width, layers, heads)                                                                                     \
    "{\"architectures\": [\"GPT2LMHeadModel\"], \"model_type\": \"gpt2\", \"vocab_size\": 50257, \"n_embd\": " width   \
    ", \"n_layer\": " layers ", \"n_head\": " heads ", \"n_positions\": 1024, \"n_ctx\": 1024, "                       \
    "\"activation_function\": \"gelu_new\", \"attn_pdrop\": 0.1, \"embd_pdrop\": 0.1, \"resid_pdrop\": 0.1, "          \
    "\"initializer_range\": 0.02, \"layer_norm_epsilon\": 1e-05, \"bos_token_id\": 50256, \"eos_token_id\": 50256}\n"

static const struct {
    const char *name, *config;
} models[] = {
    {"bert-base", BERT("768", "12", "12", "3072")},
    {"bert-large", BERT("1024", "24", "16", "4096")},
    {"gpt2", GPT2("768", "12", "12")},
    {"gpt2-medium", GPT2("1024", "24", "16")},
};

enum { N_MODELS = sizeof models / sizeof *models };

void bench_model_names(struct str *out)
{
    for (size_t i = 0; i < N_MODELS; i++)
        str_printf(out, "%s%s", i ? ", " : "", models[i].name);
}

static int unknown_model(const char *name, struct snug_err *err)
{
    struct str names = {0};
    bench_model_names(&names);
    err_set(err, SNUG_ERR_USAGE, "--model: '%s' is no folder and no built-in model; built in are %s", name,
            str_text(&names));
    str_free(&names);
    return SNUG_ERR_USAGE;
}

int bench_model_write(const char *name, const char *dir, struct snug_err *err)
{
    size_t i = 0;
    struct str path = {0};
    while (i < N_MODELS && strcmp(models[i].name, name))
        i++;
    if (i == N_MODELS)
        return unknown_model(name, err);
    if (mkdir(dir, 0777) < 0)
        return err_errno(err, SNUG_ERR_IO, dir, "make folder", errno);
    str_printf(&path, "%s/config.json", dir);
    int code = str_check(&path, err);
    if (!code)
        code = io_write_file(&io_posix, str_text(&path), models[i].config, strlen(models[i].config), err);
    str_free(&path);
    return code;
}

static int remove_entry(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    remove(path);
    return 0;
}

void bench_remove_tree(const char *dir)
{
    nftw(dir, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}
