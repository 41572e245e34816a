/* every_fault.h: a reader of files, while one of its file calls fails, and then while one of its allocations fails; for every one. */
#ifndef TESTS_EVERY_FAULT_H
#define TESTS_EVERY_FAULT_H

#include "../failing_memory.h"
#include "../memory_io.h"

#include "base/err.h"

/* read(io): an error of the call's kind where one failed, and no file left open. */
static inline void survives_every_fault_of(const struct memory_file *file,
                                           int (*read)(const struct io *io, struct snug_err *err))
{
    struct memory_io m;
    struct snug_err err;
    for (int k = 1;; k++) {
        memory_io_init(&m, file, 1);
        m.fail_call = k;
        int code = read(&m.io, &err);
        assert_int_equal(m.open_files, 0);
        if (m.calls < k)
            break;
        assert_int_equal(code, SNUG_ERR_IO);
    }
    struct failing_memory memory;
    for (long k = 1;; k++) {
        memory_io_init(&m, file, 1);
        failing_memory_set(&memory, k, false);
        int code = read(&m.io, &err);
        bool hit = failing_memory_hit(&memory);
        mem_set_ops(NULL);
        assert_int_equal(m.open_files, 0);
        assert_int_equal(code, hit ? SNUG_ERR_ENV : 0);
        if (!hit)
            break;
    }
}

#endif
