#include "cpu/isa.h"

#include "backend/backend.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#if defined __x86_64__
#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>
#elif defined __aarch64__
#include <sys/auxv.h>
#endif

#if defined __x86_64__

/* ---- what src/cpu/meson.build compiles for ---- */

static bool has_avx2(void)
{
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
}

static bool has_avx512(void)
{
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") &&
           __builtin_cpu_supports("avx512vl");
}

static bool has_avx512bf16(void)
{
    return has_avx512() && __builtin_cpu_supports("avx512bf16");
}

/* AMD's processors make as many vdpbf16ps as fused multiply-adds, each of twice the work (1.8 times on Zen 5). Intel's make half as
 * many, which gains nothing that the rest of a product would not lose. Nothing is measured here: other programs would decide then
 * which bits a run has. */
static bool vdpbf16ps_pays(void)
{
    return __builtin_cpu_is("amd");
}

/* The tiles are in the processor, and the operating system knows of them (Intel SDM vol. 1, 13.3: bits 17 and 18). */
static bool processor_has_amx(void)
{
    uint32_t a, b, c, d, low, high;
    enum { AMX_BF16 = 1 << 22, AMX_TILE = 1 << 24, TILE_STATE = 3 << 17 };
    if (!has_avx512bf16() || !__get_cpuid_count(7, 0, &a, &b, &c, &d) || !(d & AMX_BF16) || !(d & AMX_TILE))
        return false;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (low & TILE_STATE) == TILE_STATE;
}

/* Linux gives 8 KiB more of state to the threads of a process that asks (Documentation/arch/x86/xstate.rst). */
static bool has_amx(void)
{
    enum { ARCH_REQ_XCOMP_PERM = 0x1023, TILE_DATA = 18 };
    return processor_has_amx() && syscall(SYS_arch_prctl, ARCH_REQ_XCOMP_PERM, TILE_DATA) == 0;
}

static bool refuses_amx(void)
{
    return processor_has_amx() && !has_amx();
}

#else

static bool refuses_amx(void)
{
    return false;
}

#endif

#if defined __aarch64__

/* Linux tells what the processor has (Documentation/arch/arm64/elf_hwcaps.rst). */
static bool has_neon_bf16(void)
{
    enum { BF16 = 1 << 14 };
    return getauxval(AT_HWCAP2) & BF16;
}

#endif

static bool always(void)
{
    return true;
}

/* ---- the choice ---- */

#define NO_AMX "the processor has AMX, but this system does not let programs use it"

/* ORDER isa: fastest last */
static const struct row {
    struct cpu_isa isa;
    bool (*usable)(void);
    bool (*pays)(void); /* against the one before it */
} rows[] = {
#if defined __aarch64__
    {{"neon", &cpu_kernels_neon}, always, always},
    {{"neonbf16", &cpu_kernels_neonbf16}, has_neon_bf16, always},
#else
    {{"generic", &cpu_kernels_generic}, always, always},
#endif
#if defined __x86_64__
    {{"avx2", &cpu_kernels_avx2}, has_avx2, always},
    {{"avx512", &cpu_kernels_avx512}, has_avx512, always},
    {{"avx512bf16", &cpu_kernels_avx512bf16}, has_avx512bf16, vdpbf16ps_pays},
    {{"amx", &cpu_kernels_amx}, has_amx, always},
#endif
};

enum { ROWS = sizeof rows / sizeof *rows };

/* Of those that a build leaves out the kernels are NULL (absent.c). */
static bool usable(const struct row *row)
{
    return row->isa.kernels->run[OP_linear] && row->usable();
}

const struct cpu_isa *cpu_isa_usable(int i)
{
    for (int r = 0; r < ROWS; r++)
        if (usable(&rows[r]) && i-- == 0)
            return &rows[r].isa;
    return NULL;
}

/* What SNUG_CPU_ISA says; NULL: nothing. */
static const char *wanted(void)
{
    const char *name = getenv("SNUG_CPU_ISA");
    return name && *name ? name : NULL;
}

/* NULL: a name that is not there. */
static const struct cpu_isa *choose(void)
{
    const char *name = wanted();
    for (int r = ROWS - 1; r >= 0; r--)
        if (usable(&rows[r]) && (name ? !strcmp(rows[r].isa.name, name) : rows[r].pays()))
            return &rows[r].isa;
    return NULL;
}

/* Whoever skips this gets the slowest kernels for a name that is not there. */
int backend_cpu_check(struct snug_err *err)
{
    const struct cpu_isa *isa;
    char names[64] = "";
    if (choose())
        return SNUG_OK;
    if (!strcmp(wanted(), "amx") && refuses_amx())
        return err_set(err, SNUG_ERR_USAGE, "SNUG_CPU_ISA: 'amx' is not there; " NO_AMX "; leave SNUG_CPU_ISA out");
    for (int i = 0; (isa = cpu_isa_usable(i)); i++)
        strcat(strcat(names, i ? ", " : ""), isa->name);
    return err_set(err, SNUG_ERR_USAGE, "SNUG_CPU_ISA: '%s' is not there; this processor has kernels for %s", wanted(),
                   names);
}

/* Every thread that gets here first chooses the same, unless two kinds of kernels are as fast as each other: then the
 * first choice stands. */
const struct cpu_isa *cpu_isa_chosen(void)
{
    static _Atomic(const struct cpu_isa *) chosen;
    const struct cpu_isa *isa = atomic_load(&chosen), *none = NULL;
    if (!isa) {
        isa = choose();
        isa = isa ? isa : &rows[0].isa;
        if (!atomic_compare_exchange_strong(&chosen, &none, isa))
            isa = none;
    }
    return isa;
}

const char *cpu_isa_note(void)
{
    return !wanted() && refuses_amx() ? NO_AMX "; products in bf16 are slower" : NULL;
}
