#include "command.h"

#include "base/mem.h"
#include "base/philox.h"

#include <fcntl.h>
#include <math.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct device devices[] = {
    {"reference", "fp32", 2e-6, 2e-4, 2e-4, 1e-9, 1e-6},
    {"cpu", "fp32", 2e-5, 2e-4, 2e-4, 1e-5, 1e-6},
    /* bf16 has 8 bits of precision: 2^-9 for each rounding, and a few dozen of them from input to gradient */
    {"cpu", "bf16", 3e-2, 1e-2, 5e-2, 1e-2, 5e-3},
    {"cuda", "fp32", 2e-5, 2e-4, 2e-4, 1e-5, 1e-6},
    /* 11 bits, 2^-12 for each rounding: of tf32 in products only, of fp16 everywhere */
    {"cuda", "tf32", 4e-3, 2e-3, 1e-2, 1e-3, 1e-3},
    {"cuda", "fp16", 5e-3, 2e-3, 1e-2, 2e-3, 1e-3},
    {"cuda", "bf16", 3e-2, 1e-2, 5e-2, 1e-2, 5e-3},
};

const char *said(void)
{
    return join(folder, "said");
}

static bool is_wanted(const struct device *d)
{
    const char *wanted = getenv("SNUG_TEST_DEVICE");
    if (!wanted || !*wanted)
        return is_host(d);
    size_t n = strlen(d->name);
    return !strncmp(wanted, d->name, n) && (!wanted[n] || (wanted[n] == ':' && !strcmp(wanted + n + 1, d->dtype)));
}

int n_devices(void)
{
    int n = 0;
    for (size_t i = 0; i < sizeof devices / sizeof *devices; i++)
        n += is_wanted(&devices[i]);
    if (!n)
        fail_msg("SNUG_TEST_DEVICE is \"%s\": no such device", getenv("SNUG_TEST_DEVICE"));
    return n;
}

const struct device *device(int i)
{
    const struct device *d = devices;
    while (!is_wanted(d) || i-- > 0)
        d++;
    return d;
}

const struct device *one_device(void)
{
    return device(n_devices() > 1);
}

bool is_fp32(const struct device *on)
{
    return !strcmp(on->dtype, "fp32");
}

bool is_host(const struct device *on)
{
    return strcmp(on->name, "cuda") != 0;
}

bool takes_model(const struct device *on, const char *name)
{
    bool takes = is_host(on) || strcmp(name, "starcoder2") != 0;
    if (!takes)
        print_message("%s on %s: skipped, its heads have 4 elements\n", name, on->name);
    return takes;
}

int loops(int n)
{
    const char *percent = getenv("SNUG_TEST_LOOPS");
    int fewer = percent ? n * atoi(percent) / 100 : n;
    return fewer > 1 ? fewer : 1;
}

/* Lives as long as the test program. */
static struct arena names;

static char **argument_list(const char *const *first, const char *const *second)
{
    size_t n = 0;
    char **argv = arena_alloc(&names, 128 * sizeof *argv);
    argv[n++] = getenv("SNUG_COMMAND");
    for (int list = 0; list < 2; list++)
        for (const char *const *a = list ? second : first; a && *a; a++)
            argv[n++] = arena_strdup(&names, *a);
    return argv;
}

static pid_t start(const char *said, const char *const *first, const char *const *second, bool traced)
{
    assert_non_null(getenv("SNUG_COMMAND"));
    char **argv = argument_list(first, second);
    int fd = open(said, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid) {
        close(fd);
        return pid;
    }
    if (dup2(fd, 1) >= 0 && dup2(fd, 2) >= 0 && (!traced || ptrace(PTRACE_TRACEME, 0, 0, 0) == 0))
        execv(argv[0], argv);
    _exit(127);
}

pid_t start_snug(const char *said, const char *const *first, const char *const *second)
{
    return start(said, first, second, false);
}

pid_t start_snug_traced(const char *said, const char *const *first, const char *const *second)
{
    return start(said, first, second, true);
}

int end_of(pid_t pid)
{
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

int snug(const char *said, const char *const *first, const char *const *second)
{
    return end_of(start_snug(said, first, second));
}

void expect_snug(int status, const char *said, const char *const *first, const char *const *second)
{
    int got = snug(said, first, second);
    if (got == status)
        return;
    size_t n;
    char *text = read_text(said, &n);
    print_error("%s\n", text);
    free(text);
    assert_int_equal(got, status);
}

json_t *said_object(void)
{
    size_t n;
    char *text = read_text(said(), &n), *object = strchr(text, '{');
    json_t *o = object ? json_loads(object, JSON_DISABLE_EOF_CHECK, NULL) : NULL;
    if (!o)
        fail_msg("no object: %s", text);
    free(text);
    return o;
}

bool file_has(const char *path, const char *part)
{
    size_t n;
    char *text = read_text(path, &n);
    bool found = strstr(text, part) != NULL;
    free(text);
    return found;
}

const char *join(const char *dir, const char *name)
{
    return arena_printf(&names, "%s/%s", dir, name);
}

const char *fixture(const char *path)
{
    assert_non_null(getenv("SNUG_SOURCE"));
    return arena_printf(&names, "%s/tests/%s", getenv("SNUG_SOURCE"), path);
}

void open_tensors(const char *path, struct st_file *f)
{
    struct snug_err err;
    if (st_open(&io_posix, path, f, &err))
        fail_msg("%s", err.text);
}

double *read_tensor(const struct st_file *f, const char *name, int64_t *n)
{
    const struct st_tensor *t = st_find(f, name);
    if (!t)
        fail_msg("%s: has no tensor %s", f->path, name);
    *n = st_elements(t);
    void *raw = malloc((size_t)t->bytes);
    double *x = malloc((size_t)*n * sizeof *x);
    assert_true(raw && x);
    assert_int_equal(st_read(f, t, raw, NULL), SNUG_OK);
    dtype_convert(x, DT_F64, raw, t->dtype, *n);
    free(raw);
    return x;
}

double norm(const double *x, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += x[i] * x[i];
    return sqrt(sum);
}

double distance(const double *x, const double *y, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++)
        sum += (x[i] - y[i]) * (x[i] - y[i]);
    return sqrt(sum);
}

void compare_tensors(const char *got, const char *expected, const char *prefix, double bound, double zero_bound)
{
    struct st_file a, b;
    open_tensors(got, &a);
    open_tensors(expected, &b);
    int compared = 0;
    for (size_t i = 0; i < b.n_tensors; i++) {
        const char *name = b.tensors[i].name;
        if (strncmp(name, prefix, strlen(prefix)))
            continue;
        int64_t n, m;
        double *want = read_tensor(&b, name, &n), *have = read_tensor(&a, name, &m);
        assert_int_equal(n, m);
        double size = norm(want, n), off = distance(have, want, n);
        bool zero = size < 1e-9;
        if (!(off <= (zero ? zero_bound : bound * size)))
            fail_msg("%s: %s is off by %.3g of %.3g, allowed %.3g", got, name, off, size, zero ? zero_bound : bound);
        compared++;
        free(want);
        free(have);
    }
    assert_true(compared > 0);
    st_close(&a);
    st_close(&b);
}

json_t *read_whole_log(const char *out)
{
    size_t n;
    char *text = read_text(join(out, "log.jsonl"), &n);
    json_t *log = json_array();
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n")) {
        json_error_t why;
        json_t *o = json_loads(line, 0, &why);
        if (!o)
            fail_msg("%s/log.jsonl: \"%s\": %s", out, line, why.text);
        json_array_append_new(log, o);
    }
    free(text);
    return log;
}

json_t *read_log(const char *out)
{
    static const char *const times[] = {"samples_per_second", "tokens_per_second",      "data_wait", "memory",
                                        "eval_runtime",       "eval_samples_per_second"};
    json_t *log = read_whole_log(out);
    for (size_t k = 0; k < json_array_size(log); k++)
        for (size_t i = 0; i < sizeof times / sizeof *times; i++)
            json_object_del(json_array_get(log, k), times[i]);
    return log;
}

const char *make_rows(const char *dir, int64_t rows, int64_t length, uint32_t seed, bool labels)
{
    enum { VOCABULARY = 37, CLASSES = 3 };
    const char *path = arena_printf(&names, "%s/rows-%u.safetensors", dir, seed);
    int32_t *ids = calloc((size_t)(rows * length), sizeof *ids), *mask = calloc((size_t)(rows * length), sizeof *mask);
    int32_t *classes = calloc((size_t)rows, sizeof *classes);
    assert_true(ids && mask && classes);
    for (int64_t i = 0; i < rows * length; i++) {
        struct philox r = philox4x32((struct philox){{(uint32_t)i, 0, 0, 0}}, seed, 0);
        struct philox size = philox4x32((struct philox){{(uint32_t)(i / length), 1, 0, 0}}, seed, 0);
        mask[i] = (uint32_t)(i % length) <= size.w[0] % (uint32_t)length;
        ids[i] = mask[i] ? (int32_t)(5 + r.w[0] % (VOCABULARY - 5)) : 0;
        if (i % length == 0)
            classes[i / length] = ids[i] % CLASSES;
    }
    struct st_tensor t[3] = {{.name = "input_ids", .dtype = DT_I32, .ndim = 2, .shape = {rows, length}},
                             {.name = "attention_mask", .dtype = DT_I32, .ndim = 2, .shape = {rows, length}},
                             {.name = "labels", .dtype = DT_I32, .ndim = 1, .shape = {rows}}};
    struct st_writer w;
    size_t n = labels ? 3 : 2;
    assert_int_equal(st_create(&io_posix, path, t, n, NULL, 0, false, &w, NULL), SNUG_OK);
    for (size_t i = 0; i < n; i++) { /* st_create has sorted them */
        const void *data = t[i].ndim == 1 ? classes : t[i].name[0] == 'i' ? ids : mask;
        assert_int_equal(st_write(&w, &t[i], 0, data, (size_t)t[i].bytes, NULL), SNUG_OK);
    }
    assert_int_equal(st_finish(&w, NULL, NULL), SNUG_OK);
    free(ids);
    free(mask);
    free(classes);
    return path;
}

const char *make_deeper(const char *dir, const char *model, int layers)
{
    const char *deeper = arena_printf(&names, "%s/%d-layers", dir, layers);
    json_t *config = json_load_file(join(fixture(model), "config.json"), 0, NULL);
    assert_non_null(config);
    const char *key = json_object_get(config, "n_layer") ? "n_layer" : "num_hidden_layers";
    assert_int_equal(json_object_set_new(config, key, json_integer(layers)), 0);
    assert_int_equal(mkdir(deeper, 0700), 0);
    assert_int_equal(json_dump_file(config, join(deeper, "config.json"), 0), 0);
    json_decref(config);
    return deeper;
}
