/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the ONNX writer share. Everything is decided before the first byte: names, opset, where payloads
   lie. What then puts bytes runs more than once (sizes come first) and only reads. */
#ifndef TENON_FORMATS_ONNX_WRITE_INT_H
#define TENON_FORMATS_ONNX_WRITE_INT_H

#include "formats/onnx/onnx_int.h"

/* Graph outputs that cannot be the value itself: it is returned twice, under another name, or comes from outside. */
typedef struct OutputCopy {
    Str from, to;
} OutputCopy;

typedef struct GraphPlan {
    const Graph *graph;
    Str *outputs; /* names */
    OutputCopy *copies;
    size_t n_copies;
} GraphPlan;

typedef struct OnnxWriter {
    const Model *model;
    const Allocator *alloc;
    Arena arena;
    Str *names;        /* by value id; {NULL,0}: not wanted */
    Str *locs;         /* by node id: names of nodes, no two alike, as some readers want them; may be empty */
    uint64_t *offsets; /* of payloads in the data file plus 1, by value id; NULL: all are in the model file */
    Str data_file;     /* its name, without folder */
    Map taken;         /* names of values in use */
    Map taken_locs;    /* of nodes */
    Map plans;         /* per graph; the key is the pointer's bytes */
    Opsets opsets;
    size_t cap_opsets;
    int64_t opset; /* of ONNX's own domain */
    uint32_t n_unnamed;
    uint64_t constant_bytes;
    Text missing; /* ops that ONNX does not have */
} OnnxWriter;

/* Payloads smaller than this stay in the model file. */
#define EXTERNAL_MIN_BYTES 1024

/* write_plan.c */
tn_status onnx_plan(OnnxWriter *w);
const GraphPlan *onnx_graph_plan(const OnnxWriter *w, const Graph *graph);
static inline bool is_const(const Node *node) { return value_constant(node_result(node, 0)) != NULL; }

/* write_opset.c */
tn_status onnx_note_opset(OnnxWriter *w, const Node *node);
int64_t onnx_first_opset(const Model *model);
int64_t onnx_ir_version(int64_t opset);

/* write_graph.c */
bool onnx_put_model(pb_ostream_t *out, const void *writer);

/* write_tensor.c */
typedef struct TensorPut {
    const Tensor *tensor;
    Str name;
    const OnnxWriter *writer;
    bool external;
    uint64_t offset;
} TensorPut;
bool onnx_put_tensor(pb_ostream_t *out, const void *tensor_put);
size_t onnx_payload_bytes(const Tensor *t);
/* Every big constant into the file `path`, at the planned offsets. */
tn_status onnx_write_data(OnnxWriter *w, const char *path);

#endif
