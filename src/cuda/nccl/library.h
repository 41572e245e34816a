/* library.h: NCCL, by which GPUs of several processes exchange: a table of functions, looked up when the processes connect. The prototypes
 * stand here, since NVIDIA's toolkit has neither the library nor its header: they are of a package of their own. */
#ifndef CUDA_NCCL_LIBRARY_H
#define CUDA_NCCL_LIBRARY_H

#include "base/err.h"

#include <stddef.h>

struct CUstream_st;
struct ncclComm;

/* What processes know each other by: made by one of them, and passed by value, as NCCL has it. */
struct nccl_id {
    char internal[128];
};

enum { NCCL_SUCCESS = 0, NCCL_CUDA_ERROR = 1 }; /* results */
enum { NCCL_BYTES = 0 };                        /* a type of data: ncclInt8 */

/* What is used of it, as of 2.13; each is called by its name without the prefix: nccl->Send(...). Results are 0 or an error. */
#define NCCL_FUNCTIONS(F)                                                                                              \
    F(GetVersion, int, (int *version))                                                                                 \
    F(GetUniqueId, int, (struct nccl_id * id))                                                                         \
    F(CommInitRank, int, (struct ncclComm * *comm, int n, struct nccl_id id, int me))                                  \
    F(CommDestroy, int, (struct ncclComm * comm))                                                                      \
    F(CommAbort, int, (struct ncclComm * comm))                                                                        \
    F(GetErrorString, const char *, (int result))                                                                      \
    F(GetLastError, const char *, (struct ncclComm * comm))                                                            \
    F(GroupStart, int, (void))                                                                                         \
    F(GroupEnd, int, (void))                                                                                           \
    F(Send, int, (const void *data, size_t n, int type, int to, struct ncclComm *comm, struct CUstream_st *stream))    \
    F(Recv, int, (void *data, size_t n, int type, int from, struct ncclComm *comm, struct CUstream_st *stream))

struct nccl_library {
    void *handle;
    int version; /* such as 22809 for 2.28.9 */
#define F(name, result, parameters) result(*name) parameters;
    NCCL_FUNCTIONS(F)
#undef F
};

/* SNUG_ERR_ENV: there is no libnccl.so.2 where cuda/libraries/open.h looks, or it lacks a function. It stays open until the process
 * ends: its threads may be at work. */
int nccl_library_open(struct nccl_library *nccl, struct snug_err *err);

#endif
