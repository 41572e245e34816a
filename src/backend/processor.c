#include "backend/processor.h"

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#if defined __x86_64__
#include <cpuid.h>
#elif defined __aarch64__
#include <sys/auxv.h>
#endif

#if defined __x86_64__

/* The parts of the register file that the operating system saves (Intel SDM vol. 1, 13.3): without them the
 * instructions are there and must not be used. */
enum { XCR_AVX = 0x6, XCR_AVX512 = 0xE6, XCR_AMX = 0x60000 };

static uint64_t xgetbv0(void)
{
    uint32_t low, high;
    __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
    return (uint64_t)high << 32 | low;
}

/* cpuid leaf, sub-leaf, register (0 eax … 3 edx) and bit of what kernels choose by. */
static const struct {
    const char *name;
    uint32_t leaf, sub, reg, bit, xcr;
} features[] = {
    {"sse4.2", 1, 0, 2, 20, 0},
    {"avx", 1, 0, 2, 28, XCR_AVX},
    {"f16c", 1, 0, 2, 29, XCR_AVX},
    {"fma", 1, 0, 2, 12, XCR_AVX},
    {"avx2", 7, 0, 1, 5, XCR_AVX},
    {"avx512f", 7, 0, 1, 16, XCR_AVX512},
    {"avx512dq", 7, 0, 1, 17, XCR_AVX512},
    {"avx512bw", 7, 0, 1, 30, XCR_AVX512},
    {"avx512vl", 7, 0, 1, 31, XCR_AVX512},
    {"avx512vnni", 7, 0, 2, 11, XCR_AVX512},
    {"avx512bf16", 7, 1, 0, 5, XCR_AVX512},
    {"avx512fp16", 7, 0, 3, 23, XCR_AVX512},
    {"amx-tile", 7, 0, 3, 24, XCR_AMX},
    {"amx-bf16", 7, 0, 3, 22, XCR_AMX},
};

size_t processor_features(const char *names[], size_t room)
{
    uint32_t r[4];
    size_t n = 0;
    bool saves = __get_cpuid(1, &r[0], &r[1], &r[2], &r[3]) && r[2] >> 27 & 1;
    uint64_t xcr = saves ? xgetbv0() : 0;
    for (size_t i = 0; i < sizeof features / sizeof *features && n < room; i++)
        if (__get_cpuid_count(features[i].leaf, features[i].sub, &r[0], &r[1], &r[2], &r[3]) &&
            r[features[i].reg] >> features[i].bit & 1 && (xcr & features[i].xcr) == features[i].xcr)
            names[n++] = features[i].name;
    return n;
}

void processor_name(char name[PROCESSOR_NAME_MAX])
{
    uint32_t r[12] = {0};
    for (uint32_t i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002u + i, &r[4 * i], &r[4 * i + 1], &r[4 * i + 2], &r[4 * i + 3]))
            break;
    memcpy(name, r, 48);
    name[48] = 0;
    size_t n = strlen(name);
    while (n && name[n - 1] == ' ')
        name[--n] = 0;
    memmove(name, name + strspn(name, " "), strlen(name + strspn(name, " ")) + 1);
}

#elif defined __aarch64__

/* Bits of what Linux tells programs (Documentation/arch/arm64/elf_hwcaps.rst). */
static const struct {
    const char *name;
    unsigned long kind;
    int bit;
} features[] = {
    {"asimd", AT_HWCAP, 1},  {"asimddp", AT_HWCAP, 20}, {"sve", AT_HWCAP, 22},      {"sve2", AT_HWCAP2, 1},
    {"i8mm", AT_HWCAP2, 13}, {"bf16", AT_HWCAP2, 14},   {"svebf16", AT_HWCAP2, 12}, {"sme", AT_HWCAP2, 23},
};

size_t processor_features(const char *names[], size_t room)
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof features / sizeof *features && n < room; i++)
        if (getauxval(features[i].kind) >> features[i].bit & 1)
            names[n++] = features[i].name;
    return n;
}

/* Implementer and part number in the register MIDR_EL1, which Linux reads for a program where HWCAP_CPUID says so. */
static const struct {
    unsigned implementer, part;
    const char *name;
} parts[] = {
    {0x41, 0xD03, "Cortex-A53"},  {0x41, 0xD08, "Cortex-A72"},  {0x41, 0xD0B, "Cortex-A76"},
    {0x41, 0xD0C, "Neoverse N1"}, {0x41, 0xD40, "Neoverse V1"}, {0x41, 0xD49, "Neoverse N2"},
    {0x41, 0xD4F, "Neoverse V2"}, {0x41, 0xD84, "Neoverse V3"}, {0x41, 0xD8E, "Neoverse N3"},
    {0xC0, 0xAC3, "Ampere 1"},    {0xC0, 0xAC4, "Ampere 1A"},   {0x46, 0x001, "A64FX"},
};

void processor_name(char name[PROCESSOR_NAME_MAX])
{
    enum { HAS_CPUID = 1 << 11 };
    uint64_t midr;
    strcpy(name, "unknown");
    if (!(getauxval(AT_HWCAP) & HAS_CPUID))
        return;
    __asm__("mrs %0, MIDR_EL1" : "=r"(midr));
    unsigned implementer = midr >> 24 & 0xFF, part = midr >> 4 & 0xFFF;
    snprintf(name, PROCESSOR_NAME_MAX, "arm64, implementer 0x%02x, part 0x%03x", implementer, part);
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (parts[i].implementer == implementer && parts[i].part == part)
            strcpy(name, parts[i].name);
}

#else

size_t processor_features(const char *names[], size_t room)
{
    (void)names;
    (void)room;
    return 0;
}

void processor_name(char name[PROCESSOR_NAME_MAX])
{
    strcpy(name, "unknown");
}

#endif
