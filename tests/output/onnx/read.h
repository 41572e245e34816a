/* read.h: an ONNX file read back, by the numbers of fields of onnx.proto. What is not there, or is there twice, fails the test. */
#ifndef TESTS_OUTPUT_ONNX_READ_H
#define TESTS_OUTPUT_ONNX_READ_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { RANK = 6, FLOAT = 1, INT64 = 7, BOOL = 9, INPUTS = 8, OUTPUTS = 4, NAME = 200 };

/* Of any type: numbers as doubles, which have room for those that occur. */
struct array {
    char name[NAME];
    int type, rank;
    int64_t shape[RANK], n;
    double *x;
    bool beside; /* its bytes are in the other file */
};

struct operation {
    char op[40], in[INPUTS][NAME], out[OUTPUTS][NAME];
    int n_in, n_out, n_ints;
    bool has_attr;
    char attr[40];
    int64_t i, ints[RANK];
    double f;
};

struct end {
    char name[NAME], dim_name[RANK][40]; /* "" where the size is `dim` */
    int type, rank;
    int64_t dim[RANK];
};

struct onnx_file {
    int64_t ir, opset;
    struct operation *nodes;
    struct array *tensors;
    struct end inputs[4], outputs[4];
    size_t n_nodes, n_tensors;
    int n_inputs, n_outputs;
};

void read_onnx(const char *folder, struct onnx_file *f); /* folder/model.onnx */
void free_onnx(struct onnx_file *f);

#endif
