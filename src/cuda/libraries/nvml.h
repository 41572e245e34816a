/* nvml.h: what NVIDIA's driver says of a device: memory in use, name, version. Through NVML (libnvidia-ml.so.1, a part
 * of the driver), which is looked for when it is asked: a build without CUDA has this too, and a machine without the
 * library simply has no such numbers. No call here makes a CUDA context, or takes memory of the device.
 *
 * Devices are counted as CUDA counts them, CUDA_VISIBLE_DEVICES included. (CUDA puts the fastest device first, NVML
 * goes by the bus: where the models differ, CUDA_DEVICE_ORDER=PCI_BUS_ID makes the two agree.) */
#ifndef CUDA_LIBRARIES_NVML_H
#define CUDA_LIBRARIES_NVML_H

#include "base/err.h"

#include <sys/types.h>

struct nvml_memory {
    int64_t total_bytes;
    int64_t used_bytes;    /* of the whole device: every process, and what the driver keeps for itself */
    int64_t process_bytes; /* of one process; -1: not told, as in most containers */
    char name[96];         /* "NVIDIA H200" */
    char driver[80];       /* "580.95.05" */
};

/* This process on one device, once. SNUG_ERR_ENV: there is no such library or device; *out is then all 0. */
int nvml_memory(int device, struct nvml_memory *out);

/* The same for whoever asks often: opening takes milliseconds. *out is NULL where there is no library. */
struct nvml;
int nvml_open(struct nvml **out);
int nvml_devices(const struct nvml *n); /* that are visible; 0 for NULL */
int nvml_read(const struct nvml *n, int device, pid_t process, struct nvml_memory *out);
void nvml_close(struct nvml *n); /* NULL is fine */

#endif
