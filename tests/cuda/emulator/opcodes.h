/* opcodes.h: tables of instructions by name. */
#ifndef EMULATOR_OPCODES_H
#define EMULATOR_OPCODES_H

#include "ptx.h"

struct opcode {
    const char *name;
    instruction_fn *run;
};

/* The row of this name, or NULL. */
instruction_fn *opcode_named(const struct opcode *rows, size_t n, const char *opcode);

instruction_fn *arithmetic_instruction(const char *opcode);

#endif
