/* Data sheets: NVIDIA's for T4 (DS-09262), A10, A10G, L4, L40S, A100 (2021), H100 and H200 SXM, B200 (DGX), and its white papers of the
 * architectures GA102, AD102 and GB202 for GeForce. What is free for an arena is less by what a context takes. */
#include "cuda/sheet.h"

#include "base/cache_dir.h"
#include "base/mem.h"
#include "cuda/facts.h"
#include "cuda/kernels.h"
#include "cuda/peers/room.h"
#include "op/linear_cross_entropy.h"
#include "op/optimizer/adafactor.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static const struct gpu_sheet sheets[] = {
    /* name, words of the driver's, arch, memory, GB/s, GB/s by PCIe, to another GPU, 16-bit, tf32, fp32 */
    {"a10", "A10", 86, 23028, 600, 31.5, 31.5, 125, 62.5, 31.2},
    {"a10g", "A10G", 86, 23028, 600, 31.5, 31.5, 70, 35, 35},
    {"a100-40gb", "A100 40GB", 80, 40960, 1555, 31.5, 300, 312, 156, 19.5},
    {"a100-80gb", "A100 80GB", 80, 81920, 2039, 31.5, 300, 312, 156, 19.5},
    {"b200", "B200", 100, 183359, 8000, 63, 900, 2250, 1125, 75},
    {"h100", "H100", 90, 81559, 3350, 63, 450, 989, 494.7, 67},
    {"h200", "H200", 90, 143771, 4800, 63, 450, 989, 494.7, 67},
    {"l4", "L4", 89, 23034, 300, 31.5, 31.5, 121, 60, 30.3},
    {"l40s", "L40S", 89, 46068, 864, 31.5, 31.5, 362, 183, 91.6},
    {"rtx3090", "RTX 3090", 86, 24576, 936, 31.5, 31.5, 71, 35.6, 35.6},
    {"rtx4090", "RTX 4090", 89, 24564, 1008, 31.5, 31.5, 165.2, 82.6, 82.6},
    {"rtx5090", "RTX 5090", 120, 32607, 1792, 63, 63, 209.5, 104.8, 104.8},
    {"t4", "T4", 75, 15360, 320, 15.8, 15.8, 65, 0, 8.1},
};

enum { SHEETS = sizeof sheets / sizeof *sheets, OLDEST_ARCH = 80, CONTEXT_MIB = 700 };
static const double giga = 1e9;

const struct gpu_sheet *gpu_sheet_at(int i)
{
    return i < SHEETS ? &sheets[i] : NULL;
}

/* Whether the name is `wanted`, but for what people write around it. */
static bool is_name(const char *wanted, const char *name)
{
    static const char *const words[] = {"nvidia", "geforce"};
    for (; *name; name++) {
        size_t skipped = *name == ' ' || *name == '-' || *name == '_';
        for (size_t i = 0; i < sizeof words / sizeof *words; i++)
            skipped = strncasecmp(name, words[i], strlen(words[i])) ? skipped : strlen(words[i]);
        while (*wanted == '-')
            wanted++;
        if (skipped)
            name += skipped - 1;
        else if (tolower((unsigned char)*name) != *wanted++)
            return false;
    }
    return !*wanted;
}

int gpu_sheet_find(const char *name, const struct gpu_sheet **out, struct snug_err *err)
{
    char names[256] = "";
    for (int i = 0; i < SHEETS; i++) {
        size_t n = strlen(names);
        if (is_name(sheets[i].name, name)) {
            *out = &sheets[i];
            return SNUG_OK;
        }
        snprintf(names + n, sizeof names - n, "%s%s", i ? ", " : "", sheets[i].name);
    }
    return err_set(err, SNUG_ERR_USAGE, "--gpu %s: is not one of %s; of another GPU take a --device-profile", name,
                   names);
}

/* Whether each word of the driver's is one of this text's, between blanks and dashes. */
static bool has_words(const struct gpu_sheet *s, const char *text)
{
    bool all = true;
    for (const char *word = s->words; all && *word;) {
        size_t length = strcspn(word, " ");
        bool found = false;
        for (const char *at = text; *at && !found; at += strcspn(at, " -"), at += *at != '\0')
            found = strcspn(at, " -") == length && !strncmp(at, word, length);
        all = found;
        word += length + (word[length] == ' ');
    }
    return all;
}

/* A file such as device-NVIDIA-A100-SXM4-80GB-8.0-cublaslt-130100.json. */
static bool is_profile(const struct gpu_sheet *s, const char *file)
{
    static const char ending[] = ".json";
    size_t n = strlen(file), end = strlen(ending);
    return !strncmp(file, "device-", strlen("device-")) && n > end && !strcmp(file + n - end, ending) &&
           has_words(s, file);
}

int gpu_sheet_profile(const struct io *io, const struct gpu_sheet *s, const char *dir, struct str *path,
                      struct snug_err *err)
{
    struct str folder = {0};
    struct arena names_arena = {0};
    const char *const *names;
    size_t n = 0;
    int code = cache_dir(dir, &folder, err);
    if (!code && folder.n && io_exists(io, folder.s))
        code = io_list(io, folder.s, &names_arena, &names, &n, err);
    for (size_t i = n; !code && i > 0 && !path->n; i--) /* the last is of the newest library */
        if (is_profile(s, names[i - 1]))
            str_printf(path, "%s/%s", folder.s, names[i - 1]);
    str_free(&folder);
    arena_free(&names_arena);
    return code ? code : str_check(path, err);
}

static struct backend_rates rates_by(const struct gpu_sheet *s, bool tf32)
{
    const double tera = 1e12, tf32_share = 0.8; /* operands of twice the bytes: less of what is promised is reached */
    return (struct backend_rates){.link = s->link_gigabytes * giga,
                                  .narrow = s->narrow * tera,
                                  .wide = (tf32 && s->tf32 > 0 ? tf32_share * s->tf32 : s->wide) * tera,
                                  .bytes = s->gigabytes * giga,
                                  .host_bytes = s->host_gigabytes * giga};
}

struct backend_rates gpu_sheet_rates(const char *name, bool tf32)
{
    for (int i = 0; i < SHEETS; i++)
        if (has_words(&sheets[i], name))
            return rates_by(&sheets[i], tf32);
    return (struct backend_rates){0};
}

struct absent {
    struct backend base;
    int64_t free_bytes;
    int ranks;
    bool scales_rows;
    char name[64], note[160];
};

static const struct absent *absent_of(const struct backend *b)
{
    return (const struct absent *)b;
}

static int no_alloc(const struct backend *b, int64_t bytes, int64_t inputs_bytes, void *images, void **p,
                    struct snug_err *err)
{
    (void)b, (void)bytes, (void)inputs_bytes, (void)images, (void)p;
    return err_set(err, SNUG_ERR_ENV, "--gpu: the GPU is not there; only plans can be made for it");
}

static int64_t free_on_gpu(const struct backend *b)
{
    return absent_of(b)->free_bytes;
}

static int no_run(const struct backend *b, const struct work *work, int n, struct snug_err *err)
{
    (void)work, (void)n;
    return no_alloc(b, 0, 0, NULL, NULL, err);
}

static const char *kernels(const struct backend *b)
{
    return absent_of(b)->name;
}

static const char *note(const struct backend *b)
{
    return absent_of(b)->note;
}

static bool together(enum op op)
{
    switch (op) {
#define ROW(name) case OP_##name:
        CUDA_BATCHED(ROW)
#undef ROW
        return true;
    default:
        return false;
    }
}

/* What the kernels ask for, or about as much: each product the most that an algorithm may want, as long as it was not measured. Other
 * kernels keep sums of a few hundred rows. */
static int64_t workspace_bytes(const struct backend *b, enum op op, const union args_any *args, int threads)
{
    enum { PRODUCT = 32 << 20, SUMS = 4 << 20 };
    const struct args_linear_cross_entropy *h = &args->linear_cross_entropy;
    const struct args_attention_bwd *a = &args->attention_bwd;
    const struct args_linear_fp8 *f = &args->linear_fp8;
    int ranks = absent_of(b)->ranks;
    (void)threads;
    switch (op) {
    case OP_linear:
    case OP_linear_dx:
    case OP_linear_dx_act:
    case OP_linear_dw:
        return PRODUCT;
    case OP_linear_fp8: /* the sums, where they are scaled behind the product */
        return PRODUCT + (f->y.add && !absent_of(b)->scales_rows ? dtype_bytes(f->y.dtype, tensor_elements(&f->y)) : 0);
    case OP_linear_cross_entropy:
        return 12 * h->x.shape[0] + dtype_bytes(h->x.dtype, head_rows(h) * (h->w.shape[0] + h->w.pad_rows)) + PRODUCT;
    case OP_attention_bwd:
        return a->heads * a->qkv.shape[0] * 8 + SUMS;
    case OP_cross_entropy:
        return 8 * args->cross_entropy.logits.shape[0];
    case OP_span_loss:
        return 8 * args->span_loss.lse.shape[0];
    case OP_embed_bwd:
        return 32 * args->embed_bwd.dy.shape[0] + SUMS;
    case OP_act_bwd:
    case OP_norm_bwd:
    case OP_rms_norm_bwd:
    case OP_rotary_bwd:
    case OP_adafactor:
    case OP_stable_adamw:
        return SUMS;
    case OP_adafactor_sums:
        return 4 * adafactor_column_tiles(args->adafactor_sums.columns) * tensor_elements(&args->adafactor_sums.row);
    case OP_all_reduce:
        return exchange_room(ranks, exchange_slot_most(ranks), op, args);
    default:
        return 0;
    }
}

static int64_t workspace_most(const struct backend *b, enum op op)
{
    int ranks = absent_of(b)->ranks;
    return op == OP_all_reduce ? exchange_room_most(ranks, exchange_slot_most(ranks)) : INT64_MAX;
}

static void close_absent(const struct backend *b)
{
    mem_free((void *)b);
}

static const struct backend_arena arena = {.alloc = no_alloc, .available = free_on_gpu};

int gpu_sheet_open(const struct gpu_sheet *s, bool tf32, int ranks, const struct backend **out, struct snug_err *err)
{
    struct absent *a = mem_alloc(sizeof *a);
    if (!a)
        return err_no_memory(err, sizeof *a);
    *a = (struct absent){.base = {.name = a->name,
                                  .facts = cuda_facts(s->arch),
                                  .rates = rates_by(s, tf32),
                                  .arena = &arena,
                                  .kernels = kernels,
                                  .run = no_run,
                                  .workspace_bytes = workspace_bytes,
                                  .takes = cuda_takes,
                                  .bucket = cuda_bucket,
                                  .workspace_most = workspace_most,
                                  .together = together,
                                  .note = note,
                                  .close = close_absent},
                         .ranks = ranks > 1 ? ranks : 1,
                         .scales_rows = cuda_scales_rows(s->arch),
                         .free_bytes = (s->memory_mib - CONTEXT_MIB) << 20};
    snprintf(a->name, sizeof a->name, "%s by its data sheet", s->name);
    bool old = s->arch < OLDEST_ARCH;
    snprintf(a->note, sizeof a->note, "memory and time on %s are estimated, by its data sheet%s", s->name,
             old ? "; snug does not run on it: its kernels want compute capability 8.0 and later" : "");
    if (old) {
        a->base.facts.narrow_types = 1u << DT_F16;
        a->base.facts.tf32 = false;
    }
    *out = &a->base;
    return SNUG_OK;
}
