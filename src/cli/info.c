/* snug info: what this build and this machine have. */
#include "backend/backend.h"
#include "backend/processor.h"
#include "base/machine.h"
#include "base/size.h"
#include "base/str.h"
#include "cli/commands.h"
#include "cli/terminal.h"
#include "cpu/isa.h"
#include "cuda/libraries/nvml.h"
#include "cuda/sheet.h"

#include <gnu/libc-version.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>
#include <utf8proc.h>
#include <xxhash.h>
#include <yaml.h>
#include <zlib.h>
#include <zstd.h>

struct library {
    const char *name;
    char version[32];
};

enum { MAX_LIBRARIES = 8 };

static size_t libraries(struct library list[MAX_LIBRARIES])
{
    size_t n = 0;
    list[n] = (struct library){.name = "jansson"};
    snprintf(list[n++].version, sizeof list->version, "%s", jansson_version_str());
    list[n] = (struct library){.name = "PCRE2"};
    pcre2_config(PCRE2_CONFIG_VERSION, list[n].version); /* at most 24 bytes, "10.42 2022-12-11" */
    n++;
    list[n] = (struct library){.name = "utf8proc"};
    snprintf(list[n++].version, sizeof list->version, "%s", utf8proc_version());
    list[n] = (struct library){.name = "xxHash"};
    unsigned x = XXH_versionNumber();
    snprintf(list[n++].version, sizeof list->version, "%u.%u.%u", x / 10000, x / 100 % 100, x % 100);
    list[n] = (struct library){.name = "libyaml"};
    snprintf(list[n++].version, sizeof list->version, "%s", yaml_get_version_string());
    list[n] = (struct library){.name = "zlib"};
    snprintf(list[n++].version, sizeof list->version, "%s", zlibVersion());
    list[n] = (struct library){.name = "zstd"};
    snprintf(list[n++].version, sizeof list->version, "%s", ZSTD_versionString());
    list[n] = (struct library){.name = "glibc"};
    snprintf(list[n++].version, sizeof list->version, "%s", gnu_get_libc_version());
    return n;
}

enum { MAX_GPUS = 16, MAX_NAMES = 32 };

struct facts {
    char cpu[PROCESSOR_NAME_MAX];
    const char *kernels; /* for which instruction set */
    const char *features[MAX_NAMES];
    size_t n_features;
    struct library libraries[MAX_LIBRARIES];
    size_t n_libraries;
    int64_t total, available, limit; /* bytes of memory; limit -1: none */
    struct nvml_memory gpus[MAX_GPUS];
    int n_gpus;
};

/* What the driver knows, whether this build can compute there or not. */
static void find_gpus(struct facts *f)
{
    struct nvml *n;
    if (nvml_open(&n))
        return;
    for (int i = 0; i < nvml_devices(n) && f->n_gpus < MAX_GPUS; i++)
        f->n_gpus += !nvml_read(n, i, getpid(), &f->gpus[f->n_gpus]);
    nvml_close(n);
}

static void append_json(struct str *s, const struct facts *f)
{
    str_printf(s, "{\"version\":\"" SNUG_VERSION "\",\"devices\":[%s\"cpu\",\"reference\"],\"compute_capabilities\":[",
               backend_cuda_arch(0) ? "\"cuda\"," : "");
    for (int i = 0, arch; (arch = backend_cuda_arch(i)); i++)
        str_printf(s, "%s\"%d.%d\"", i ? "," : "", arch / 10, arch % 10);
    str_append(s, "],\"cpu\":{\"name\":");
    str_json(s, f->cpu);
    str_append(s, ",\"kernels\":");
    str_json(s, f->kernels);
    str_append(s, ",\"usable_kernels\":[");
    const struct cpu_isa *isa;
    for (int i = 0; (isa = cpu_isa_usable(i)); i++)
        str_printf(s, "%s\"%s\"", i ? "," : "", isa->name);
    str_printf(s, "],\"cores\":%ld,\"usable\":%d,\"instruction_sets\":[", sysconf(_SC_NPROCESSORS_ONLN),
               machine_cpus());
    for (size_t i = 0; i < f->n_features; i++)
        str_printf(s, "%s\"%s\"", i ? "," : "", f->features[i]);
    str_append(s, "]},\"gpus\":[");
    for (int i = 0; i < f->n_gpus; i++) {
        str_append(s, i ? ",{\"name\":" : "{\"name\":");
        str_json(s, f->gpus[i].name);
        str_printf(s, ",\"total_bytes\":%lld,\"used_bytes\":%lld,\"driver\":", (long long)f->gpus[i].total_bytes,
                   (long long)f->gpus[i].used_bytes);
        str_json(s, f->gpus[i].driver);
        str_append(s, "}");
    }
    str_printf(s, "],\"memory\":{\"total_bytes\":%lld,\"available_bytes\":%lld,\"limit_bytes\":", (long long)f->total,
               (long long)f->available);
    str_printf(s, f->limit < 0 ? "null" : "%lld", (long long)f->limit);
    str_append(s, "},\"planned_gpus\":[");
    for (int i = 0; gpu_sheet_at(i); i++)
        str_printf(s, "%s\"%s\"", i ? "," : "", gpu_sheet_at(i)->name);
    str_append(s, "],\"libraries\":{");
    for (size_t i = 0; i < f->n_libraries; i++)
        str_printf(s, "%s\"%s\":\"%s\"", i ? "," : "", f->libraries[i].name, f->libraries[i].version);
    str_append(s, "}}\n");
}

static void append_text(struct str *s, const struct facts *f)
{
    char size[SIZE_TEXT_MAX], other[SIZE_TEXT_MAX];
    str_append(s, "snug       " SNUG_VERSION "\ndevices    ");
    for (int i = 0, arch; (arch = backend_cuda_arch(i)); i++)
        str_printf(s, "%s%d.%d", i ? " " : "cuda (kernels for ", arch / 10, arch % 10);
    str_printf(s, "%scpu, reference\ncpu        %s, %d of %ld cores\n", backend_cuda_arch(0) ? "), " : "", f->cpu,
               machine_cpus(), sysconf(_SC_NPROCESSORS_ONLN));
    str_append(s, "           ");
    for (size_t i = 0; i < f->n_features; i++)
        str_printf(s, "%s%s", i ? " " : "", f->features[i]);
    str_printf(s, "\n           runs kernels for %s; SNUG_CPU_ISA chooses among ", f->kernels);
    const struct cpu_isa *isa;
    for (int i = 0; (isa = cpu_isa_usable(i)); i++)
        str_printf(s, "%s%s", i ? ", " : "", isa->name);
    for (int i = 0; i < f->n_gpus; i++)
        str_printf(s, "\n%s%s, %s, %s in use, driver %s", i ? "           " : "gpu        ", f->gpus[i].name,
                   size_text(f->gpus[i].total_bytes, size), size_text(f->gpus[i].used_bytes, other), f->gpus[i].driver);
    if (f->n_gpus && !backend_cuda_arch(0))
        str_append(s, "\n           not used: this build has no CUDA; build with -Dcuda=enabled where nvcc is");
    str_printf(s, "\nmemory     %s, %s available", size_text(f->total, size), size_text(f->available, other));
    if (f->limit >= 0)
        str_printf(s, ", limit of this process %s", size_text(f->limit, size));
    str_append(s, "\nplans for  ");
    for (int i = 0; gpu_sheet_at(i); i++)
        str_printf(s, "%s%s", i ? ", " : "", gpu_sheet_at(i)->name);
    str_append(s, " (snug plan --gpu)\nlibraries  ");
    for (size_t i = 0; i < f->n_libraries; i++)
        str_printf(s, "%s%s %s", i ? ", " : "", f->libraries[i].name, f->libraries[i].version);
    str_append(s, "\n");
}

int run_info(struct options *o, const struct arguments *args, struct snug_err *err)
{
    (void)args;
    struct facts f = {
        .total = machine_memory_bytes(), .available = machine_memory_available(), .limit = machine_memory_limit()};
    processor_name(f.cpu);
    TRY(backend_check(BACKEND_CPU, err));
    f.kernels = backend_cpu()->kernels(backend_cpu());
    f.n_features = processor_features(f.features, MAX_NAMES);
    f.n_libraries = libraries(f.libraries);
    find_gpus(&f);
    struct str s = {0};
    (o->json ? append_json : append_text)(&s, &f);
    int code = str_check(&s, err);
    if (!code && o->json)
        fputs(str_text(&s), stdout);
    else if (!code)
        print_wrapped(stdout, str_text(&s), 11);
    str_free(&s);
    return code;
}
