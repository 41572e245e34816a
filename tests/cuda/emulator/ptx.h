/* ptx.h: a kernel in PTX, NVIDIA's assembly language of threads, and what runs it on a processor: threads of a block take turns,
 * one instruction after the other, so that the kernels of src/cuda/kernels and src/cuda/attention are tested where there is no GPU.
 *
 * All address spaces are the host's: an address in global, local and parameter space is a pointer, and one in shared memory
 * too, since it lies below 4 GiB, where 32 bits hold it. What the ISA leaves undefined ends the program with a line: reading
 * or writing what was not allocated, a barrier that never completes, lanes missing in an instruction of a whole warp. Copies of
 * cp.async arrive when they are waited for, not before, and shared memory starts with bytes that are no number.
 *
 * The instructions are those that nvcc makes of the project's kernels for compute capability 8.0, not all of the ISA (PTX ISA 9.0,
 * docs.nvidia.com/cuda/parallel-thread-execution). One that is not known ends the program, by its name. */
#ifndef EMULATOR_PTX_H
#define EMULATOR_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum ptx_type {
    PTX_NONE,
    PTX_PRED,
    PTX_B8,
    PTX_B16,
    PTX_B32,
    PTX_B64,
    PTX_U8,
    PTX_U16,
    PTX_U32,
    PTX_U64,
    PTX_S8,
    PTX_S16,
    PTX_S32,
    PTX_S64,
    PTX_F16,
    PTX_F32,
    PTX_F64,
    PTX_F16X2,
    PTX_BF16,
    PTX_BF16X2,
    PTX_TF32,
    PTX_E4M3X2
};

enum operand_kind {
    OPERAND_REGISTER, /* index; in an address, value is added */
    OPERAND_CONSTANT, /* value: a number, or the address of a variable */
    OPERAND_LOCAL,    /* the frame's own memory from value on */
    OPERAND_PARAM,    /* of a function that was called: argument index, value is added */
    OPERAND_SPECIAL,  /* index: enum special */
};

enum special {
    TID_X,
    TID_Y,
    TID_Z,
    NTID_X,
    NTID_Y,
    NTID_Z,
    CTAID_X,
    CTAID_Y,
    CTAID_Z,
    NCTAID_X,
    NCTAID_Y,
    NCTAID_Z,
    LANEID,
    WARPID,
    SPECIALS
};

struct operand {
    uint8_t kind;
    bool negated; /* of a predicate */
    uint32_t index;
    uint64_t value;
};

struct thread;
struct instruction;
typedef void instruction_fn(struct thread *, const struct instruction *);

enum { MAX_OPERANDS = 24, MAX_MODIFIERS = 12 };

struct instruction {
    instruction_fn *run;
    const char *name;         /* of the opcode: "ld" */
    char mnemonic[72];        /* "ld.global.nc.v4.u32" */
    uint8_t type, from;       /* the first type that the mnemonic names, and the second: cvt.TYPE.FROM */
    uint8_t width;            /* of a vector: 1, 2, 4 */
    uint8_t n;                /* operands, vectors flattened */
    char compare[4], mode[8]; /* of setp and of shfl, vote, redux, mul: "lt", "bfly", "wide" */
    char rounding[4];
    bool carries;    /* .cc: the carry is kept */
    bool unless;     /* the guard is negated */
    uint32_t guard;  /* 1 + register, or 0 */
    uint32_t target; /* of a branch */
    const struct function *callee;
    struct operand *o;
};

struct function {
    char *name;
    struct instruction *code;
    size_t n;
    uint32_t registers, local_bytes, shared_bytes;
    uint32_t n_params;
    uint32_t param_offset[64], param_size[64];
    uint32_t param_bytes;
};

/* Reads all PTX that the text holds (what cuobjdump --dump-ptx prints, one module after the other). The text stays the caller's and
 * must live on. */
void ptx_read(const char *text);

/* The kernel of that name, parsed at its first use; ends the program where there is none. */
const struct function *ptx_kernel(const char *name);
/* Whether an instruction has this word behind one of its dots. */
bool ptx_has(const struct instruction *i, const char *modifier);
/* How it is carried out; NULL: not known. */
instruction_fn *ptx_instruction(const char *opcode);
int ptx_bytes(enum ptx_type type);

/* Where shared memory and the parameters of a kernel lie. */
enum { SHARED_BYTES = 256 << 10, PARAM_BYTES = 32 << 10 };
extern uint8_t *shared_memory, *param_memory;

/* ---- Threads. */

enum thread_state { RUNNING, AT_WARP, AT_BARRIER, EXITED };

struct frame {
    const struct function *f;
    uint64_t *registers;
    uint8_t *local;
    uint64_t argument[16];
    size_t pc;
};

struct copy {
    void *to;
    const void *from;
    uint32_t bytes, filled; /* read, and zeros behind them up to `filled` */
    uint32_t group;
};

struct thread {
    enum thread_state state;
    struct frame frame[4]; /* of the kernel and of what it calls */
    int depth;
    uint32_t special[SPECIALS];
    bool carry;
    const struct instruction *at; /* which it waits at */
    uint32_t barrier, expected;   /* of AT_BARRIER */
    struct copy *copies;          /* that were not waited for */
    uint32_t n_copies, room_copies, groups;
};

static inline uint64_t operand(const struct thread *t, const struct operand *o)
{
    const struct frame *f = &t->frame[t->depth];
    switch (o->kind) {
    case OPERAND_REGISTER:
        return o->negated ? !(f->registers[o->index] & 1) : f->registers[o->index] + o->value;
    case OPERAND_LOCAL:
        return (uint64_t)(uintptr_t)f->local + o->value;
    case OPERAND_PARAM:
        return f->argument[o->index] + o->value;
    case OPERAND_SPECIAL:
        return t->special[o->index];
    default:
        return o->value;
    }
}

static inline void set(struct thread *t, const struct operand *o, uint64_t value)
{
    t->frame[t->depth].registers[o->index] = value;
}

/* Ends the program with the kernel, the block, the thread and the instruction. */
_Noreturn void fault(const struct thread *t, const struct instruction *i, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* Checks that an instruction may touch these bytes. */
void check_access(const struct thread *t, const struct instruction *i, uint64_t address, size_t bytes);

/* An instruction of a whole warp: all lanes that take part wait at it. lane[k]: NULL where lane k does not. */
void warp_execute(struct thread *lane[32]);

/* Runs all blocks of a grid, one after the other. */
struct launch {
    const struct function *kernel;
    uint32_t grid[3], block[3];
    size_t shared_bytes; /* beside those that the kernel declares */
};
void run_grid(const struct launch *l);
/* Of an instruction of a kernel that waits for the host or for another thread's kernel: lets them go on for a while. */
void pause_grid(void);
int paused_grids(void); /* that wait */

/* Global memory: what the host allocated, and variables of modules (runtime.c). */
void global_memory_add(uint64_t address, size_t bytes);
bool global_memory_has(uint64_t address, size_t bytes);

#endif
