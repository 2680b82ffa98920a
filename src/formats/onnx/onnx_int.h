/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the ONNX reader share. A model is read in one walk: names are resolved as nodes come, functions
   are inlined where they are called, and each node is brought to the newest opset's meaning before it is made. */
#ifndef TENON_FORMATS_ONNX_ONNX_INT_H
#define TENON_FORMATS_ONNX_ONNX_INT_H

#include "formats/common/common.h"
#include "formats/onnx/onnx.h"
#include "formats/onnx/onnx.pb.h"
#include "ops/op.h"

/* The newest opset whose meaning the IR has. */
#define ONNX_OPSET_NEWEST 28
/* For rows of the upgrade table that hold for every opset: names that no longer exist, forms that are put in order. */
#define ONNX_OPSET_ANY INT64_MAX

/* Ops of training; the one that is no op of the IR is Gradient. */
#define ONNX_TRAINING "ai.onnx.preview.training"

typedef struct Opset {
    Str domain; /* "" for ONNX's own */
    int64_t version;
} Opset;
typedef struct Opsets {
    Opset *data;
    size_t n;
} Opsets;

typedef struct OnnxFunction {
    onnx_FunctionProto proto;
    Opsets opsets;
} OnnxFunction;

/* A file of external data, mapped once. */
typedef struct ExternalFile {
    Str location;
    Buffer *bytes;
} ExternalFile;

/* What the file says about a value's type, for when inference does not find it. */
typedef struct TypeHint {
    Value *value;
    Str type;    /* a TypeProto */
    bool output; /* of the main graph */
} TypeHint;

typedef struct OnnxReader {
    ProtoReader proto;
    Context *ctx;
    const Allocator *alloc;
    Arena arena; /* for lists of places in the file; what one node needs is given back after it */
    Model *model;
    Buffer *bytes;
    const char *path, *folder; /* may be NULL */
    int64_t ir_version;
    Opsets opsets;
    Map functions;    /* function_key -> OnnxFunction */
    Str main;         /* the main GraphProto */
    bool infer;       /* types are wanted while nodes are read: upgrades of opsets below 13, gradients */
    bool sort;        /* bring nodes into an order where operands come first */
    bool undefined;   /* a name was read that nothing before it defines */
    bool unsupported; /* an op is not known: a scan of the whole file then names all of them */
    uint64_t n_nodes; /* read so far */
    uint64_t n_made;  /* nodes of functions, once for each call; those that gradients look at and make */
    VEC(ExternalFile) files;
    VEC(TypeHint) hints;
} OnnxReader;

/* Attributes that are graphs: read once the node that owns them is there. */
typedef struct GraphAttr {
    Str name;
    ProtoList graphs;
    bool list;
    struct Scope *scope; /* where the graph's free names are looked up */
} GraphAttr;

/* One call of a function: what its attribute references stand for. */
typedef struct Call {
    const struct Call *outer;
    const OnnxFunction *function;
    const Attr *attrs;
    size_t n_attrs;
    const GraphAttr *graphs;
    size_t n_graphs;
    Str loc;
    int depth;
} Call;

/* The names of one graph, or of one call of a function (whose nodes go into the caller's graph). */
typedef struct Scope {
    OnnxReader *reader;
    struct Scope *outer; /* NULL for the main graph and functions */
    Graph *graph;
    Map values;        /* those that the model does not know by these names */
    VEC(uint64_t) own; /* of the main graph: a bit for each value that its own name stands for, by id */
    const Opsets *opsets;
    const Call *call; /* NULL outside functions */
    int depth;
} Scope;

/* A node under construction: what upgrades change before it is made. */
typedef struct Draft {
    Scope *scope;
    OnnxReader *reader;
    Str domain, type, overload, loc;
    int64_t opset; /* of the domain, as the file has it */
    Value **operands;
    size_t n_operands, cap_operands;
    Str *outputs; /* names, "" where the result is not wanted */
    size_t n_outputs;
    Value **results; /* set by an upgrade that made the nodes itself; else NULL */
    Attr *attrs;
    size_t n_attrs, cap_attrs;
    GraphAttr *graphs;
    size_t n_graphs;
} Draft;

/* read.c */
tn_status onnx_read(Context *ctx, Buffer *bytes, const char *path, const char *folder, Model **out);
/* TN_MALFORMED unless it is UTF-8 without NUL. `what` names it in the message. */
tn_status onnx_check_name(const OnnxReader *r, Str name, const char *what);
tn_status onnx_read_opsets(OnnxReader *r, const ProtoList *list, Opsets *out);
/* The version of a domain, 0 when it is not imported. */
int64_t onnx_opset(const Opsets *opsets, Str domain);
/* "" for "ai.onnx". */
Str onnx_domain(Str domain);
/* Text for messages, ended with NUL, on the reader's arena. */
const char *onnx_text(OnnxReader *r, Str s);

/* read_scope.c */
extern Value *const onnx_absent; /* what a name stands for whose caller gave nothing */
void onnx_scope_start(Scope *scope, OnnxReader *r, Scope *outer, Graph *graph);
void onnx_scope_end(Scope *scope);
tn_status onnx_define(Scope *scope, Str name, Value *value);
/* NULL for an absent operand. */
tn_status onnx_resolve(Scope *scope, Str name, Value **out);

/* read_graph.c */
tn_status onnx_read_graph(OnnxReader *r, Str bytes, Scope *outer, Node *owner, Graph **out);
tn_status onnx_read_nodes(Scope *scope, const ProtoList *nodes);

/* read_sort.c: the nodes in an order where operands come before users. */
tn_status onnx_sort(OnnxReader *r, ProtoList *nodes);

/* read_node.c */
tn_status onnx_read_node(Scope *scope, Str bytes);
/* Makes the draft's node and binds its results. */
tn_status onnx_finish(Draft *d);
/* Counts n more nodes that the file does not spell out. TN_LIMIT when they are out of proportion to it. */
tn_status onnx_count_made(OnnxReader *r, uint64_t n);

/* read_attr.c */
tn_status onnx_read_attr(Draft *d, Str bytes);
/* NULL when the draft has no such attribute. */
Attr *onnx_attr(const Draft *d, const char *name);
tn_status onnx_set_attr(Draft *d, Attr attr);
void onnx_remove_attr(Draft *d, const char *name);

/* read_const.c: Constant becomes Const. */
tn_status onnx_read_constant(Draft *d);

/* read_scan.c: TN_UNSUPPORTED that names every op of the file that is not known. */
tn_status onnx_report_unsupported(OnnxReader *r);

/* read_type.c */
tn_status onnx_read_type(OnnxReader *r, Str bytes, const Type **out);
tn_status onnx_read_value_info(OnnxReader *r, Str bytes, onnx_ValueInfoProto *out);
/* infer_model, then what the file says for values that it leaves open. */
tn_status onnx_infer(OnnxReader *r);
/* Sets the types of one node's results, where inference finds them. */
tn_status onnx_infer_node(OnnxReader *r, Node *node);

/* tensor.c, tensor_sparse.c, tensor_external.c */
tn_status onnx_decode_tensor(OnnxReader *r, Str bytes, Tensor *out, Str *name); /* the caller's to release */
tn_status onnx_read_tensor(OnnxReader *r, Str bytes, Tensor **out, Str *name);
tn_status onnx_read_sparse_tensor(OnnxReader *r, Str bytes, Tensor **out, Str *name);
tn_status onnx_tensor_shape(OnnxReader *r, const ProtoRun *dims, tn_dtype dtype, const char *name, Tensor *out,
                            size_t *bytes);
tn_status onnx_tensor_memory(OnnxReader *r, Tensor *t);                  /* for a tensor whose shape is set */
tn_status onnx_keep_tensor(OnnxReader *r, Tensor *tensor, Tensor **out); /* releases it when that fails */
tn_status onnx_external_data(OnnxReader *r, const onnx_TensorProto *proto, const char *name, size_t bytes, Tensor *t);

/* functions.c */
tn_status onnx_read_functions(OnnxReader *r, const ProtoList *functions);
const OnnxFunction *onnx_find_function(OnnxReader *r, Str domain, Str name, Str overload);
tn_status onnx_call(Draft *d, const OnnxFunction *function);

/* gradient.c: Gradient becomes nodes that compute it. */
bool onnx_is_gradient(Str domain, Str type);
tn_status onnx_gradient(Draft *d);

/* upgrade.c: brings a draft to the newest opset's meaning. */
tn_status onnx_upgrade(Draft *d);
bool onnx_is_upgraded(Str type); /* whether a row of the table is for that op */

/* upgrade_make.c: what upgrades build with */
tn_status onnx_set_operand(Draft *d, size_t i, Value *value); /* NULL: absent, as those put in before it */
/* A node before the draft's; its one result. */
tn_status onnx_make(Draft *d, const char *op, Value *const *operands, size_t n, const Attr *attrs, size_t n_attrs,
                    Value **out);
tn_status onnx_make_ints(Draft *d, const int64_t *values, size_t n, bool scalar, Value **out);
/* A scalar of `like`'s element type. */
tn_status onnx_make_scalar(Draft *d, double value, Value *like, Value **out);
/* Constant floats as f32[n]. */
tn_status onnx_make_floats(Draft *d, const float *values, size_t n, Value **out);
int onnx_rank(const Value *value); /* -1: not known */
tn_status onnx_rename(Draft *d, const char *type);

static inline Attr onnx_int_attr(const char *name, int64_t value) {
    return (Attr){.name = str_of(name), .kind = ATTR_INT, .i = value};
}
static inline Attr onnx_text_attr(const char *name, const char *value) {
    return (Attr){.name = str_of(name), .kind = ATTR_STRING, .s = str_of(value)};
}

/* upgrade_*.c: rows of the table */
typedef tn_status (*UpgradeFn)(Draft *d);
typedef struct UpgradeRow {
    const char *op;
    int64_t below; /* for models of an opset below this */
    UpgradeFn fn;
} UpgradeRow;

/* write.c */
tn_status onnx_write(const Model *model, const char *path);

#endif
