/* Any bytes as a token cache. The first byte chooses what the cache is for; the magic, the key and, with its highest bit,
 * the checksum are made right, so that what stands behind them is looked at. What is believed must be data of the run. */
#include "data/tokens/token_cache.h"
#include "rows.h"

#include <string.h>

enum { KEY = 8, CHECKSUM = 24, BEHIND_CHECKSUM = 40 }; /* the beginning of token_cache.c's header */

static void repair(char *file, size_t bytes, struct hash128 key, bool checksum)
{
    if (bytes < BEHIND_CHECKSUM)
        return;
    memcpy(file, "snugtok", 8);
    memcpy(file + KEY, &key, sizeof key);
    if (!checksum)
        return;
    memset(file + CHECKSUM, 0, sizeof key);
    struct hash128 sum = hash_bytes(file, bytes);
    memcpy(file + CHECKSUM, &sum, sizeof sum);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const enum data_task tasks[] = {TASK_CLASS,     TASK_REGRESSION, TASK_MULTI_LABEL,
                                           TASK_CAUSAL_LM, TASK_UNLABELED,  TASK_MASKED_LM};
    static char *names[] = {"text", "x", "y"};
    static struct label_map given;
    if (size < 1 || size > 65536)
        return 0;
    if (!given.n)
        MUST(!label_map_init(&given, (const char *const[]){"a", "b"}, 2, "m", NULL));
    enum data_task task = tasks[(data[0] & 15) % 6];
    bool several = data[0] >> 4 & 1 && (task == TASK_REGRESSION || task == TASK_MULTI_LABEL);
    struct columns columns = {.names = names, .n = 3, .pair = -1, .labels = (int[]){1, 2}, .n_labels = several ? 2 : 1};
    struct dataset_options o = {.path = "f.csv",
                                .task = task,
                                .tokenizer = small_tokenizer(),
                                .max_length = 6,
                                .labels = data[0] >> 5 & 1 ? &given : NULL,
                                .ignore_label = data[0] >> 6 & 1 ? "-1" : NULL};
    struct hash128 key = {1, 2};
    char *file = malloc(size);
    MUST(file);
    memcpy(file, data + 1, size - 1);
    repair(file, size - 1, key, data[0] >> 7);
    struct memory_file in = {"k.tokens", file, size - 1};
    struct memory_io m;
    struct dataset d;
    struct snug_err why;
    memory_io_init(&m, &in, 1);
    bool believed = token_cache_load(&m.io, "k.tokens", key, &o, task, &columns, &d, &why);
    MUST(m.open_files == 0 && believed == !why.code);
    if (believed) {
        MUST(d.task == task);
        must_be_rows(&d, &o);
        MUST(!o.labels || !d.num_labels || d.num_labels == 2);
        dataset_close(&d);
    } else {
        MUST(strncmp(why.text, "k.tokens: ", 10) == 0);
    }
    free(file);
    return 0;
}
