/* Blocks and their threads. A thread runs until it waits for its warp or at a barrier; the lanes of a warp that name each other go
 * on together. SNUG_EMULATOR_REVERSE=1 takes threads and blocks from the last to the first: what depends on their order differs
 * then. */
#include "ptx.h"
#include "runtime.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

uint8_t *shared_memory, *param_memory;

static const struct launch *current;
static uint32_t block_at[3];

__attribute__((constructor)) static void place_memory(void)
{
    void *p =
        mmap(NULL, SHARED_BYTES + PARAM_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_32BIT, -1, 0);
    if (p == MAP_FAILED) {
        perror("emulator: memory below 4 GiB");
        exit(99);
    }
    shared_memory = p;
    param_memory = shared_memory + SHARED_BYTES;
}

void fault(const struct thread *t, const struct instruction *i, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    fprintf(stderr, "emulator: %s, block (%u,%u,%u), thread (%u,%u,%u), instruction %zu (%s): ", current->kernel->name,
            block_at[0], block_at[1], block_at[2], t->special[TID_X], t->special[TID_Y], t->special[TID_Z],
            t->frame[t->depth].pc - 1, i ? i->mnemonic : "none");
    vfprintf(stderr, format, args);
    fputc('\n', stderr);
    va_end(args);
    exit(99);
}

static bool inside(uint64_t address, size_t bytes, const void *from, size_t room)
{
    uint64_t first = (uint64_t)(uintptr_t)from;
    return address >= first && address - first + bytes <= room;
}

void check_access(const struct thread *t, const struct instruction *i, uint64_t address, size_t bytes)
{
    size_t shared = current->kernel->shared_bytes + 128 + current->shared_bytes;
    if (bytes && address % (bytes < 16 ? bytes : 16))
        fault(t, i, "address %llx is not aligned to %zu bytes", (unsigned long long)address, bytes);
    if (inside(address, bytes, shared_memory, shared) || inside(address, bytes, param_memory, PARAM_BYTES))
        return;
    for (int d = 0; d <= t->depth; d++)
        if (inside(address, bytes, t->frame[d].local, t->frame[d].f->local_bytes))
            return;
    if (!global_memory_has(address, bytes))
        fault(t, i, "%zu bytes at %llx, which is no memory of its", bytes, (unsigned long long)address);
}

static void run_thread(struct thread *t)
{
    while (t->state == RUNNING) {
        struct frame *f = &t->frame[t->depth];
        const struct instruction *i = &f->f->code[f->pc++];
        if (!i->guard || (f->registers[i->guard - 1] & 1) != i->unless)
            i->run(t, i);
    }
}

/* The lanes that the waiting thread's instruction names. */
static uint32_t lanes_named(const struct thread *t)
{
    const struct instruction *i = t->at;
    bool aligned = !strncmp(i->mnemonic, "mma", 3) || !strncmp(i->mnemonic, "ldmatrix", 8);
    return aligned ? UINT32_MAX : (uint32_t)operand(t, &i->o[i->n - 1]);
}

/* Carries out what lanes of the warp wait for, if all are there that it names. */
static bool step_warp(struct thread *warp, int lanes)
{
    for (int k = 0; k < lanes; k++) {
        struct thread *lane[32] = {0};
        if (warp[k].state != AT_WARP)
            continue;
        uint32_t named = lanes_named(&warp[k]);
        bool all = true;
        for (int j = 0; j < 32 && all; j++)
            if (named >> j & 1) {
                if (j >= lanes || warp[j].state == EXITED)
                    fault(&warp[k], warp[k].at, "lane %d, which it names, is not there", j);
                all = warp[j].state == AT_WARP && warp[j].at->run == warp[k].at->run &&
                      lanes_named(&warp[j]) == named && !strcmp(warp[j].at->mnemonic, warp[k].at->mnemonic);
                lane[j] = &warp[j];
            }
        if (!all)
            continue;
        if (!lane[k])
            fault(&warp[k], warp[k].at, "the lane does not name itself");
        warp_execute(lane);
        for (int j = 0; j < 32; j++)
            if (lane[j])
                lane[j]->state = RUNNING;
        return true;
    }
    return false;
}

/* Lets those go on for whom all have come. bar.red counts the predicates of all. */
static bool step_barriers(struct thread *threads, int n)
{
    bool moved = false;
    for (uint32_t barrier = 0; barrier < 16; barrier++) {
        uint32_t waiting = 0, present = 0, expected = 0, true_ones = 0;
        const struct instruction *red = NULL;
        for (int k = 0; k < n; k++) {
            present += threads[k].state != EXITED;
            if (threads[k].state != AT_BARRIER || threads[k].barrier != barrier)
                continue;
            waiting++;
            expected = threads[k].expected;
            if (ptx_has(threads[k].at, "red")) {
                red = threads[k].at;
                true_ones += (uint32_t)(operand(&threads[k], &red->o[red->n - 1]) & 1);
            }
        }
        if (!waiting || waiting < (expected ? expected : present))
            continue;
        if (expected && waiting > expected)
            for (int k = 0; k < n; k++)
                if (threads[k].state == AT_BARRIER && threads[k].barrier == barrier)
                    fault(&threads[k], threads[k].at, "%u threads at a barrier for %u", waiting, expected);
        for (int k = 0; k < n; k++)
            if (threads[k].state == AT_BARRIER && threads[k].barrier == barrier) {
                if (red)
                    set(&threads[k], &threads[k].at->o[0],
                        red->mode[0] == 'p'   ? true_ones
                        : red->mode[0] == 'o' ? true_ones != 0
                                              : true_ones == waiting);
                threads[k].state = RUNNING;
            }
        moved = true;
    }
    return moved;
}

static bool backwards(void)
{
    static int known = -1;
    if (known < 0)
        known = getenv("SNUG_EMULATOR_REVERSE") != NULL;
    return known;
}

static void run_block(struct thread *threads, int n)
{
    for (bool moved = true; moved;) {
        moved = false;
        for (int w = 0; w < n; w += 32) {
            int first = backwards() ? (n - 1 - w) / 32 * 32 : w, lanes = n - first < 32 ? n - first : 32;
            do
                for (int k = 0; k < lanes; k++) {
                    struct thread *t = &threads[first + (backwards() ? lanes - 1 - k : k)];
                    moved |= t->state == RUNNING;
                    run_thread(t);
                }
            while (step_warp(threads + first, lanes));
        }
        moved |= step_barriers(threads, n);
    }
    for (int k = 0; k < n; k++)
        if (threads[k].state != EXITED)
            fault(&threads[k], threads[k].at, "it waits for ever");
}

static void start_thread(struct thread *t, const struct launch *l, uint64_t *registers, uint8_t *local, uint32_t k)
{
    struct copy *copies = t->copies;
    uint32_t room = t->room_copies;
    const uint32_t *b = l->block;
    *t = (struct thread){.frame[0] = {.f = l->kernel, .registers = registers, .local = local},
                         .copies = copies,
                         .room_copies = room,
                         .special = {k % b[0], k / b[0] % b[1], k / b[0] / b[1], b[0], b[1], b[2], block_at[0],
                                     block_at[1], block_at[2], l->grid[0], l->grid[1], l->grid[2], k % 32, k / 32}};
    memset(registers, 0xff, l->kernel->registers * sizeof *registers);
    memset(local, 0xff, l->kernel->local_bytes);
}

void run_grid(const struct launch *l)
{
    const struct function *f = l->kernel;
    uint32_t n = l->block[0] * l->block[1] * l->block[2], blocks = l->grid[0] * l->grid[1] * l->grid[2];
    size_t local = (f->local_bytes + 15) / 16 * 16;
    struct thread *threads = calloc(n, sizeof *threads);
    uint64_t *registers = malloc((size_t)n * f->registers * sizeof *registers);
    uint8_t *memory = aligned_alloc(16, (n * local + 16) / 16 * 16);
    current = l;
    if (f->shared_bytes + 128 + l->shared_bytes > SHARED_BYTES || n > 1024 || !n || !threads || !registers || !memory) {
        fprintf(stderr, "emulator: %s: %u threads and %zu bytes of shared memory in a block\n", f->name, n,
                f->shared_bytes + l->shared_bytes);
        exit(99);
    }
    for (uint32_t at = 0; at < blocks; at++) {
        uint32_t b = backwards() ? blocks - 1 - at : at;
        block_at[0] = b % l->grid[0];
        block_at[1] = b / l->grid[0] % l->grid[1];
        block_at[2] = b / l->grid[0] / l->grid[1];
        memset(shared_memory, 0xff, f->shared_bytes + 128 + l->shared_bytes);
        for (uint32_t k = 0; k < n; k++)
            start_thread(&threads[k], l, registers + (size_t)k * f->registers, memory + k * local, k);
        run_block(threads, (int)n);
    }
    for (uint32_t k = 0; k < n; k++)
        free(threads[k].copies);
    free(threads);
    free(registers);
    free(memory);
}

static int paused;

int paused_grids(void)
{
    return paused;
}

void pause_grid(void)
{
    const struct launch *launch = current;
    uint32_t at[3] = {block_at[0], block_at[1], block_at[2]};
    size_t bytes = SHARED_BYTES + PARAM_BYTES; /* they lie side by side */
    uint8_t *memory = emulator_zeroed(1, bytes);
    memcpy(memory, shared_memory, bytes);
    paused++;
    emulator_unlock();
    nanosleep(&(struct timespec){.tv_nsec = 20000}, NULL);
    emulator_lock();
    paused--;
    memcpy(shared_memory, memory, bytes);
    memcpy(block_at, at, sizeof at);
    current = launch;
    free(memory);
}
