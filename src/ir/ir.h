/* SPDX-License-Identifier: Apache-2.0 */
/* The intermediate representation: dimensions, types, constants, graphs in SSA form, and what reads, writes, checks
   and walks them. Data structures first; the functions that make and change them after; then text. One model is
   changed by one thread at a time. See docs/ir.md for the language and its meaning. */
#ifndef TENON_IR_IR_H
#define TENON_IR_IR_H

#include "base/base.h"

typedef struct Model Model;
typedef struct Graph Graph;
typedef struct Node Node;
typedef struct Value Value;
typedef struct OpSchema OpSchema;

/* ---- dimensions (dim.c) -------------------------------------------------------------------------------------- */

/* One size, or one integer that decides a size. Above DIM_EXPR_END it is that number (negative ones included); below,
   an expression of the model's table. Concrete shapes therefore need no table and no allocation. */
typedef int64_t Dim;
#define DIM_UNKNOWN INT64_MIN
#define DIM_EXPR_END (INT64_MIN + ((int64_t)1 << 32))
static inline bool dim_is_const(Dim d) { return d >= DIM_EXPR_END; }

typedef enum DimOp {
    DIM_SYMBOL,
    DIM_ADD,
    DIM_SUB,
    DIM_MUL,
    DIM_FLOORDIV,
    DIM_CEILDIV,
    DIM_MOD,
    DIM_MIN,
    DIM_MAX
} DimOp;
typedef struct DimExpr {
    DimOp op;
    uint16_t depth, size; /* of the expression as a tree; bounded, so recursion over it is safe */
    Dim a, b;             /* operands; unused for a symbol */
    Str name;             /* of a symbol */
} DimExpr;
typedef struct DimTable {
    Arena *arena;
    VEC(DimExpr) exprs;
    Map symbols;     /* name -> index + 1 */
    uint32_t *slots; /* hash of expressions */
    size_t n_slots;
} DimTable;

/* A model's table is ready; these are for tables of one's own. */
void dim_table_init(DimTable *table, Arena *arena);
void dim_table_free(DimTable *table); /* what is not on the arena */
/* The symbol of that name, made on first use. DIM_UNKNOWN when memory is out (the diagnostic is set). */
Dim dim_symbol(DimTable *table, Str name);
/* a op b, simplified: constants folded (overflow or division by zero gives DIM_UNKNOWN), sums and products put in a
   canonical order, x+0, x*1, x-x, (x*c)/c and the like removed. Equal results are equal numbers. An unknown operand
   gives DIM_UNKNOWN. A NULL table may be used when both are constant. */
Dim dim_make(DimTable *table, DimOp op, Dim a, Dim b);
static inline Dim dim_add(DimTable *t, Dim a, Dim b) { return dim_make(t, DIM_ADD, a, b); }
static inline Dim dim_sub(DimTable *t, Dim a, Dim b) { return dim_make(t, DIM_SUB, a, b); }
static inline Dim dim_mul(DimTable *t, Dim a, Dim b) { return dim_make(t, DIM_MUL, a, b); }
static inline Dim dim_floordiv(DimTable *t, Dim a, Dim b) { return dim_make(t, DIM_FLOORDIV, a, b); }
static inline Dim dim_ceildiv(DimTable *t, Dim a, Dim b) { return dim_make(t, DIM_CEILDIV, a, b); }
/* NULL for constants and DIM_UNKNOWN. */
const DimExpr *dim_expr(const DimTable *table, Dim d);
/* Whether it is certain that it is not negative, whatever sizes its symbols stand for. */
bool dim_not_negative(const DimTable *table, Dim d);
/* Values of symbols, to evaluate expressions for concrete inputs. `lookup` gives DIM_UNKNOWN for an unbound symbol. */
Dim dim_eval(const DimTable *table, Dim d, Dim (*lookup)(void *user, Str symbol), void *user);
/* The same expression in another table. */
Dim dim_import(DimTable *into, const DimTable *from, Dim d);
/* `batch*2`, `(h + 1)/2`, `?`. What is printed:
     sum     = product { ("+" | "-") product }       with a space on both sides of the sign
     product = atom { ("*" | "/") atom }             / rounds down; all operators bind to the left
     atom    = integer (may be negative) | name | "(" sum ")"
             | ("min" | "max" | "mod" | "ceildiv") "(" sum ", " sum ")"
     name    = as everywhere in the language: plain, or in double quotes (those four words always)
   and `?` by itself for DIM_UNKNOWN. Making what was printed again with dim_make gives the same number. */
void dim_print(const DimTable *table, Dim d, Text *out);

/* ---- shapes and types (type.c) ------------------------------------------------------------------------------- */

/* Logical sizes. rank -1: not even the rank is known. */
typedef struct Shape {
    int32_t rank;
    Dim dims[TN_MAX_RANK];
} Shape;
bool shape_equal(const Shape *a, const Shape *b); /* same rank, same dims; unknown equals unknown */
bool shape_is_known(const Shape *s);              /* every dim is a constant >= 0 */
Shape shape_make(int rank, const int64_t *dims);
Shape shape_unknown(void);

typedef enum TypeKind { TYPE_TENSOR, TYPE_SEQUENCE, TYPE_OPTIONAL, TYPE_MAP } TypeKind;

/* How logical positions lie in memory: dimensions in the order `perm`, then `block` consecutive positions of
   dimension `block_axis` innermost (block 0: none). A NULL layout is row-major. */
typedef struct Layout {
    int32_t rank, block_axis;
    int64_t block;
    int8_t perm[TN_MAX_RANK];
} Layout;

/* real = (stored - zero) * scale, one (scale, zero) a tensor (axis -1), a slice of `axis`, or a block of it. */
typedef struct Quant {
    int32_t axis;
    int64_t block; /* 0: none */
    size_t n;
    const float *scales;
    const int64_t *zeros; /* never NULL in an interned type */
} Quant;

/* Interned: equal types of one model are the same pointer. */
typedef struct Type {
    TypeKind kind;
    tn_dtype dtype; /* of a tensor; of a map's key. TN_UNDEFINED: not known */
    Shape shape;    /* of a tensor */
    const Layout *layout;
    const Quant *quant;
    const struct Type *elem; /* of a sequence, optional, map value */
    uint64_t hash;
} Type;

/* Each returns NULL with the diagnostic set when memory is out. */
const Type *type_intern(Model *model, const Type *type); /* copies, layout and quant included */
const Type *type_tensor(Model *model, tn_dtype dtype, const Shape *shape);
const Type *type_of_kind(Model *model, TypeKind kind, const Type *elem);
/* The more precise of what both say; TN_SHAPE when they contradict. Symbols give way to numbers. */
tn_status type_merge(Model *model, const Type *a, const Type *b, const Type **out);
/* The type that a text in the form of type_print says. TN_MALFORMED names the place in the text. */
tn_status type_parse(Model *model, Str text, const Type **out);
/* f32[batch,3,224,224]. What is printed:
     type   = dtype "[" (dims separated by "," | "*") "]" [layout] [quant]    `*`: rank unknown; dtype may be `?`
            | "?" | "seq(" type ")" | "opt(" type ")" | "map(" dtype ", " type ")"
     layout = " @[" perm separated by "," [";" axis ":" block] "]"
     quant  = " quant(scale=[...]" [", zero=[...]"] [", axis=" axis] [", block=" block] ")" */
void type_print(const Model *model, const Type *type, Text *out);

/* ---- tensors (tensor.c) -------------------------------------------------------------------------------------- */

/* A strided reading of memory; strides and offset count elements. Of constants it owns the payload. */
typedef struct Tensor {
    tn_dtype dtype;
    int32_t rank;
    int64_t dims[TN_MAX_RANK];
    int64_t strides[TN_MAX_RANK];
    int64_t offset;
    TypeKind kind;  /* other than TYPE_TENSOR: `data` is an Object, the fields above say nothing */
    void *data;     /* NULL: shape known, bytes not (yet) there, unless the tensor is empty */
    Buffer *buffer; /* a counted reference that keeps `data`, or NULL where somebody else owns it */
} Tensor;

/* A sequence (its elements), an optional (none or one) or a map (keys, values) while a program runs. Never changed once
   it is made, so that sharing one costs a reference. Each item is dense and keeps its own buffer. */
typedef struct Object {
    size_t n;
    uint32_t depth; /* of objects in objects that callers nested; bounded, since they are released by recursion */
    Tensor items[];
} Object;
/* An object of n empty items, to be filled by the caller; `out` holds the only reference. */
tn_status object_new(Context *ctx, TypeKind kind, size_t n, Tensor *out);
static inline Object *object_of(const Tensor *t) { return (Object *)t->data; }
/* A dense reading that keeps its bytes: shares the buffer of `from` where it has one and is dense, else copies it. */
tn_status tensor_keep(Context *ctx, const Tensor *from, Tensor *out);

int64_t tensor_count(const Tensor *t);
bool tensor_is_dense(const Tensor *t);                                           /* row-major without gaps */
void tensor_set_dense(Tensor *t, tn_dtype dtype, int rank, const int64_t *dims); /* strides, offset 0; no data */
/* A dense tensor on a fresh buffer: TN_LIMIT beyond max_bytes. */
tn_status tensor_new(Context *ctx, tn_dtype dtype, int rank, const int64_t *dims, Tensor *out);
/* The same, of elements that are about to be written: they may be an earlier tensor's (NULL: no shelf). */
tn_status tensor_new_on(Context *ctx, Shelf *shelf, tn_dtype dtype, int rank, const int64_t *dims, Tensor *out);
/* The same on a lazy buffer; no strings. On failure the maker is still the caller's. */
tn_status tensor_new_lazy(Context *ctx, tn_dtype dtype, int rank, const int64_t *dims, const BytesMaker *maker,
                          Tensor *out);
void tensor_release(Tensor *t); /* drops the buffer; strings drop their references */
/* The elements of any reading in row-major order, in runs as long as its strides allow: all of a dense one at once,
   else the last dimension's.
       for (TensorRows r = tensor_rows(t); tensor_next_row(&r);) ... r.n elements from r.offset on, r.stride apart */
typedef struct TensorRows {
    const Tensor *t;
    int64_t offset, n, stride;
    int64_t left; /* rows after this one */
    int64_t at[TN_MAX_RANK];
} TensorRows;
TensorRows tensor_rows(const Tensor *t);
bool tensor_next_row(TensorRows *r);
/* Any reading into dense memory of its element type, on one thread; strings get references. */
void tensor_gather(const Tensor *t, void *to);
/* All n integers of a small integer tensor (any integer dtype or BOOL), row-major; TN_SHAPE when there are more than
   max, TN_INVALID_ARGUMENT when the type is another or the bytes are not there. */
tn_status tensor_ints(const Tensor *t, int64_t *out, int64_t max, int64_t *n);
/* Whether the bytes lie askew for the element type, as payloads in mapped files do. */
static inline bool tensor_is_misaligned(const Tensor *t) {
    uintptr_t size = (uintptr_t)dtype_size(t->dtype), align = size > 8 ? 8 : size ? size : 1;
    return t->data && (uintptr_t)t->data % align != 0;
}
/* Address of the element at `offset` when strides are dense and the type takes whole bytes. */
static inline void *tensor_bytes(const Tensor *t) {
    return t->data ? (char *)t->data + t->offset * dtype_size(t->dtype) : NULL;
}

/* ---- attributes ---------------------------------------------------------------------------------------------- */

typedef enum AttrKind {
    ATTR_INT,
    ATTR_FLOAT,
    ATTR_STRING,
    ATTR_TENSOR,
    ATTR_GRAPH,
    ATTR_TYPE,
    ATTR_INTS,
    ATTR_FLOATS,
    ATTR_STRINGS,
    ATTR_TENSORS,
    ATTR_GRAPHS,
    ATTR_TYPES,
    ATTR_INT_LISTS /* a list of lists: regions */
} AttrKind;

typedef struct IntList {
    const int64_t *data;
    size_t n;
} IntList;

typedef struct Attr {
    Str name; /* interned */
    AttrKind kind;
    size_t n; /* of a list */
    union {
        int64_t i;
        float f;
        Str s;
        Tensor *tensor;
        Graph *graph;
        const Type *type;
        const int64_t *ints;
        const float *floats;
        const Str *strings;
        Tensor **tensors;
        Graph **graphs;
        const Type **types;
        const IntList *lists;
    };
} Attr;

/* ---- graphs (graph.c) ---------------------------------------------------------------------------------------- */

/* One reading of a value: by a node, or by the graph's outputs (then `user` is the graph's `ret` node). */
typedef struct Use {
    Value *value; /* NULL: an optional operand that is absent */
    Node *user;
    struct Use *prev, *next; /* of the value's list */
} Use;

struct Value {
    const Type *type; /* never NULL; a tensor of unknown dtype and rank says nothing */
    Str name;         /* interned, unique in its model unless empty; names of graph inputs and outputs are API */
    Node *def;        /* NULL: a graph input */
    Graph *graph;
    uint32_t index; /* among the node's results or the graph's inputs */
    uint32_t id;    /* dense in the model, for side tables */
    Use *uses;
};

struct Node {
    const OpSchema *op;
    Graph *graph; /* that it stands in or, before it is inserted, was made for; NULL: erased */
    Node *prev, *next;
    Str loc;     /* the node's name in the model it came from; interned */
    uint32_t id; /* dense in the model */
    uint32_t n_operands, n_results, n_attrs;
    Use *operands;
    Value **results;
    Attr *attrs;    /* sorted by name */
    uint64_t order; /* increases along the list, 0: not in it; see node_comes_before */
};

struct Graph {
    Model *model;
    Node *owner;         /* the node that nests this graph; NULL for a root, and while no node holds it */
    struct Graph *outer; /* where `owner` will stand, of a graph made by graph_new_nested; NULL for a root */
    Str name;
    VEC(Value *) inputs;
    Node *first, *last; /* in an order where operands stand before users */
    Node *ret;          /* its operands are the graph's outputs; not in the list, comes after all; op_return */
    size_t n_nodes;
    VEC(Str) output_names;  /* API names of the outputs; may differ from the values' names */
    VEC(Tensor *) defaults; /* of inputs that need not be given; shorter than inputs, or NULL, where there is none */
};

struct Model {
    Context *ctx;
    Arena arena; /* everything below but constant payloads */
    DimTable dims;
    Map strings; /* interned text, with the value of that name: see model_value */
    VEC(const Type *) types;
    uint32_t *type_slots;
    size_t n_type_slots;
    const Type *type_any; /* tensor of unknown dtype and rank */
    Graph *main;
    VEC(Graph *) graphs;        /* every graph that was made, erased ones too; see model_graphs */
    uint32_t n_values, n_nodes; /* ids given so far */
    VEC(Tensor *) tensors;      /* every constant payload, released with the model */
    VEC(Buffer *) buffers;      /* mapped files that payloads point into */
    Str file;                   /* where it was read from, for messages; may be empty */
    VEC(Str) metadata;          /* key, value, key, value ...: producer, description, the model's own properties */
    /* How often the functions below changed something. Equal numbers: nothing changed in between. */
    uint64_t structure_edits; /* nodes, operands, inputs, outputs */
    uint64_t state_edits;     /* attributes, types, names */
};
static inline uint64_t model_edits(const Model *m) { return m->structure_edits + m->state_edits; }

tn_status model_new(Context *ctx, Model **out);
void model_free(Model *model); /* NULL is ignored */
/* Interned copy; the same text is the same pointer. {NULL,0} when memory is out. */
Str model_str(Model *model, Str s);
/* The value of that name, in whatever graph; NULL when there is none. */
Value *model_value(const Model *model, Str name);
/* The model keeps the buffer (takes one reference). */
tn_status model_keep(Model *model, Buffer *buffer);
/* A payload owned by the model, filled by the caller. */
tn_status model_tensor(Model *model, Tensor **out);
tn_status model_set_metadata(Model *model, Str key, Str value);
Str model_metadata(const Model *model, Str key); /* {NULL,0} when absent */
/* The graphs that stand in the model, those nested deepest first, the main graph last; on `arena`. */
tn_status model_graphs(const Model *model, Arena *arena, Graph ***graphs, size_t *n);
size_t model_node_count(const Model *model); /* in all graphs, constants included */
/* Renumbers values and nodes densely in program order, nested graphs included. */
tn_status model_compact_ids(Model *model);

/* A root graph, or one nested in `owner` (which must then hold it in an attribute). */
tn_status graph_new(Model *model, Node *owner, Str name, Graph **out);
/* A graph for a node of `outer` that is still to come: its nodes may read what is visible there. While no node holds it
   (node_set_graph), model_verify refuses a model whose values it reads. */
tn_status graph_new_nested(Graph *outer, Str name, Graph **out);
/* Takes the graph in that attribute out of its node again. TN_NOT_FOUND when there is none. */
tn_status node_take_graph(Node *node, Str name, Graph **out);
/* Erases a graph that no node holds, with all that stands in it. */
void graph_erase(Graph *graph);
static inline bool graph_is_alive(const Graph *g) { return g->ret->graph != NULL; } /* not erased with its node */
static inline Graph *graph_around(const Graph *g) { return g->owner ? g->owner->graph : g->outer; } /* NULL: a root */
tn_status graph_add_input(Graph *graph, Str name, const Type *type, Value **out);
/* What input i is when nobody gives it (ONNX: an initialiser that is also an input). The payload is the model's. */
tn_status graph_set_input_default(Graph *graph, size_t i, Tensor *payload);
Tensor *graph_input_default(const Graph *graph, size_t i); /* NULL: the input must be given */
/* Of the inputs these remain, in this order, with their defaults. The others have no uses (asserted). */
tn_status graph_choose_inputs(Graph *graph, Value *const *inputs, size_t n);
/* Appends an output; `name` empty: the value's name. */
tn_status graph_add_output(Graph *graph, Value *value, Str name);
void graph_clear_outputs(Graph *graph);
static inline size_t graph_n_outputs(const Graph *g) { return g->ret->n_operands; }
static inline Value *graph_output(const Graph *g, size_t i) { return g->ret->operands[i].value; }
int graph_depth(const Graph *graph); /* 0 for a root */

/* A node outside any graph list, for `graph`. Results have the type that says nothing and no name. */
tn_status node_new(Graph *graph, const OpSchema *op, Value *const *operands, size_t n_operands, size_t n_results,
                   Node **out);
static inline bool node_is_placed(const Node *n) { return n->graph && n->order; }
void node_append(Node *node);                     /* at the end of the graph that it was made for */
void node_insert_before(Node *node, Node *place); /* place is in a graph */
/* Detaches operands and leaves the list. Its results must have no uses (asserted). Nested graphs go with it. */
void node_erase(Node *node);
/* `place` may stand in another graph of the model, or be its `ret`. */
void node_move_before(Node *node, Node *place);
tn_status node_set_operand(Node *node, size_t i, Value *value); /* value may be NULL */
tn_status node_add_operand(Node *node, Value *value);
void node_truncate_operands(Node *node, size_t n);
/* Both in one graph. */
bool node_comes_before(const Node *a, const Node *b);
static inline Value *node_operand(const Node *n, size_t i) { return i < n->n_operands ? n->operands[i].value : NULL; }
static inline Value *node_result(const Node *n, size_t i) { return i < n->n_results ? n->results[i] : NULL; }

/* Fills the current diagnostic's node: its location, or the name of its first named result, and its op. */
void node_blame(const Node *node);

/* Attributes: setting copies into the model's arena (tensors and graphs are kept by pointer; a graph's owner becomes
   the node). */
const Attr *node_attr(const Node *node, Str name); /* NULL when absent; the schema's default is not consulted */
tn_status node_set_attr(Node *node, const Attr *attr);
void node_remove_attr(Node *node, Str name);
tn_status node_set_int(Node *node, const char *name, int64_t value);
tn_status node_set_float(Node *node, const char *name, float value);
tn_status node_set_string(Node *node, const char *name, Str value);
tn_status node_set_ints(Node *node, const char *name, const int64_t *values, size_t n);
tn_status node_set_tensor(Node *node, const char *name, Tensor *value);
tn_status node_set_graph(Node *node, const char *name, Graph *graph);
/* The k-th nested graph of a node in attribute order, list attributes included; NULL beyond the last. */
Graph *node_graph(const Node *node, size_t k);

/* Makes `name` the value's; a name that is taken gets a suffix. */
tn_status value_set_name(Value *value, Str name);
void value_set_type(Value *value, const Type *type); /* interned */
void value_replace(Value *old, Value *with);         /* every use; O(uses) */
/* The same, and `with` takes over the name of `old` unless it has one of its own: dumps before and after then speak of
   the same value. Both must mean the same, as names do. */
tn_status value_take_over(Value *old, Value *with);
bool value_has_one_use(const Value *value);
/* A Const node's payload, else NULL; of no value too. Its bytes are there from now on: see value_payload. */
const Tensor *value_constant(const Value *value);
/* The same for whoever does not read the bytes: those that are only made when they are needed stay away. */
const Tensor *value_payload(const Value *value);
/* Whether `value` may be read by a node of `graph` (defined there, or in a graph around it). */
bool value_visible_in(const Value *value, const Graph *graph);

/* Const nodes. The payload is kept by pointer. */
tn_status const_new(Graph *graph, Tensor *payload, Str name, Node **out);                       /* not inserted yet */
tn_status const_ints(Graph *graph, const int64_t *values, int64_t n, bool scalar, Value **out); /* appended; i64 */

/* A deep copy of a graph (nodes, nested graphs) into `into`'s end with inputs bound to `bindings`; outputs are
   returned. Payloads are shared. For inlining functions and cloning models. */
tn_status graph_inline(const Graph *source, Graph *into, Value *const *bindings, Value **outputs);
/* A whole copy in a new arena; payload buffers are shared. */
tn_status model_clone(const Model *model, Model **out);

/* ---- op schemas ---------------------------------------------------------------------------------------------- */

typedef struct InferCtx InferCtx;   /* ops/op.h */
typedef struct RegionCtx RegionCtx; /* ops/op.h */
typedef struct KernelCtx KernelCtx; /* ops/op.h */
typedef struct LowerCtx LowerCtx;   /* ops/op.h */

/* Sets of element types, and of kinds that are no tensor. */
typedef uint64_t TypeSet;
#define TS(dtype) ((TypeSet)1 << (dtype))
#define TS_SEQUENCE ((TypeSet)1 << 60)
#define TS_OPTIONAL ((TypeSet)1 << 61)
#define TS_MAP ((TypeSet)1 << 62)
#define TS_FLOAT (TS(TN_F32) | TS(TN_F64) | TS(TN_F16) | TS(TN_BF16))
#define TS_F8 (TS(TN_F8E4M3FN) | TS(TN_F8E4M3FNUZ) | TS(TN_F8E5M2) | TS(TN_F8E5M2FNUZ) | TS(TN_F8E8M0))
#define TS_SIGNED (TS(TN_I8) | TS(TN_I16) | TS(TN_I32) | TS(TN_I64))
#define TS_UNSIGNED (TS(TN_U8) | TS(TN_U16) | TS(TN_U32) | TS(TN_U64))
#define TS_INT (TS_SIGNED | TS_UNSIGNED)
#define TS_SUBBYTE (TS(TN_U4) | TS(TN_I4) | TS(TN_F4E2M1) | TS(TN_U2) | TS(TN_I2))
#define TS_COMPLEX (TS(TN_C64) | TS(TN_C128))
#define TS_NUMERIC (TS_FLOAT | TS_INT)
#define TS_ALL_TENSOR (TS_NUMERIC | TS_F8 | TS_SUBBYTE | TS_COMPLEX | TS(TN_BOOL) | TS(TN_STRING))
#define TS_ANY (TS_ALL_TENSOR | TS_SEQUENCE | TS_OPTIONAL | TS_MAP)

enum { OPERAND_OPTIONAL = 1, OPERAND_VARIADIC = 2 /* the last one only: one or more (zero with OPTIONAL) */ };
typedef struct OperandSpec {
    const char *name;
    TypeSet types;
    char group; /* operands with the same non-zero letter have the same element type */
    uint8_t flags;
} OperandSpec;

enum { ATTR_REQUIRED = 1 };
typedef struct AttrSpec {
    const char *name;
    AttrKind kind;
    uint8_t flags;
    int64_t i; /* defaults, by kind; a list's default is empty */
    double f;
    const char *s;
} AttrSpec;

enum { OP_MAX_IN_SPECS = 18, OP_MAX_OUT_SPECS = 8, OP_MAX_ATTR_SPECS = 24 };
#define OPERANDS(...)       \
    (const OperandSpec[]) { \
        __VA_ARGS__, { 0 }  \
    }
#define ATTRIBUTES(...)    \
    (const AttrSpec[]) {   \
        __VA_ARGS__, { 0 } \
    }

typedef enum OpKind { OP_ATOMIC, OP_DEFORMABLE, OP_COMPOSITE, OP_HOST } OpKind;

enum {
    OP_COMMUTATIVE = 1,  /* the first two operands may be swapped */
    OP_ELEMENTWISE = 2,  /* each result element depends on the broadcast operands' elements at its position only */
    OP_RANDOM = 4,       /* never folded, never shared */
    OP_CONTROL = 8,      /* runs nested graphs */
    OP_DYNAMIC_OUT = 16, /* a result's shape depends on contents even when all of content_inputs are known */
    OP_ALL_ATTRS = 32,   /* attributes are not checked against the list (constants, sub-graphs) */
    OP_OVERWRITES0 = 64, /* result 0 may lie in operand 0's memory, although it is not element-wise */
    OP_CLOSED = 128,     /* its nested graphs read nothing of the graphs around them */
    OP_LOOPS = 256,      /* what it is made of may be counted loops */
};

/* How a target runs an op: whole, by a kernel; as simpler ops and regions; or as those and counted loops. Where one cannot
   be had, the one before it is taken. */
typedef enum Lowering { LOWERING_UNSAID, LOWERING_ORIGIN, LOWERING_GEOMETRY, LOWERING_LOOP } Lowering;

#define OP_MAX_INPUTS 32
#define OP_MAX_OUTPUTS 32

/* Everything that is true of an op, whatever runs it. Declared here since verifying and parsing need it, filled in by
   src/ops, one file an op. */
struct OpSchema {
    const char *domain; /* NULL: ONNX's own; "tn": Tenon's; "com.microsoft", "ai.onnx.ml" ... */
    const char *name;
    const char *summary; /* one line for `tenon ops` */
    OpKind kind;
    uint32_t flags;
    const OperandSpec *inputs, *outputs; /* up to one without a name, or NULL: see op_inputs */
    const AttrSpec *attrs;
    /* Bit i: the contents of input i decide the results' shapes or regions. */
    uint32_t content_inputs;
    /* Bit i: only the shape of input i is read, never its bytes. */
    uint32_t shape_inputs;
    /* Result types and shapes from operand types, shapes and (where known) contents. The element type of a result
       whose spec has a group letter is already set when this is called. NULL: results are like operand 0. */
    tn_status (*infer)(InferCtx *c);
    /* The results as regions of the operands; may decline. For ops that only move data. */
    tn_status (*regions)(RegionCtx *c);
    /* Plain, obviously right, any strides of operands; results are dense. */
    tn_status (*reference)(KernelCtx *c);
    /* What `reference` would make of attributes alone, each time: on c->scratch, with no more of c than the node. Whoever runs
       a node again and again keeps it and gives it back as c->kept. NULL: nothing. */
    tn_status (*keep)(KernelCtx *c, const void **out);
    /* Simpler nodes that give the same results: from types, attributes and constants alone. For ops that a target need not
       have a kernel for; what is a plain expression stands in rules/lower.rules instead. May decline. */
    tn_status (*lower)(LowerCtx *c);
    const char *lowering; /* what they are, in a phrase */
    /* Floating-point operations of one run on concrete shapes, NULL: one for each result element. */
    double (*flops)(const Node *node, const Shape *in, const Shape *out);
};

/* Up to one without a name; never NULL. */
static inline const OperandSpec *op_inputs(const OpSchema *op) {
    static const OperandSpec none[1];
    return op->inputs ? op->inputs : none;
}
static inline const OperandSpec *op_outputs(const OpSchema *op) {
    static const OperandSpec none[1];
    return op->outputs ? op->outputs : none;
}
static inline const AttrSpec *op_attrs(const OpSchema *op) {
    static const AttrSpec none[1];
    return op->attrs ? op->attrs : none;
}

/* Whether the node's op is that one of ONNX's own domain. */
static inline bool node_is_onnx(const Node *n, const char *name) {
    return !n->op->domain && strcmp(n->op->name, name) == 0;
}
/* Whether an op of ONNX's own domain has one of these names: OP_IS_ONE_OF(node->op, "Slice", "Split"). */
bool op_is_one_of(const OpSchema *op, const char *const *names, size_t n);
#define OP_IS_ONE_OF(op, ...) \
    op_is_one_of(op, (const char *const[]){__VA_ARGS__}, sizeof((const char *const[]){__VA_ARGS__}) / sizeof(char *))
/* Of a tensor whose rank is known; else, and for NULL, -1. */
static inline int value_rank(const Value *v) { return v && v->type->kind == TYPE_TENSOR ? v->type->shape.rank : -1; }
/* Whether nodes of the graph must not read values of the graphs around it. */
static inline bool graph_is_closed(const Graph *g) { return g->owner && g->owner->op->flags & OP_CLOSED; }

/* What graph outputs are operands of; in no table. */
extern const OpSchema op_return;
/* NULL when there is no such op. An empty domain and "ai.onnx" are the same. */
const OpSchema *op_find(Str domain, Str name);
/* "com.microsoft.QGemm", "Conv": the domain ends at the last dot. */
const OpSchema *op_named(Str name);
/* The end of the message that there is no op of that name: "; did you mean \"Conv\"?", or "". */
typedef struct OpHint {
    char text[192];
} OpHint;
const char *op_hint(Str wrong, OpHint *out);
const OpSchema *const *op_table(size_t *n); /* sorted by domain, then name */
/* The schema's attribute, or NULL. */
const AttrSpec *op_attr_spec(const OpSchema *op, Str name);
/* Specs of operand and result i, the variadic last one repeated; NULL beyond. */
const OperandSpec *op_input_spec(const OpSchema *op, size_t i);
const OperandSpec *op_output_spec(const OpSchema *op, size_t i);
/* "com.microsoft.QGemm", "Conv": the name in text. */
void op_print_name(const OpSchema *op, Text *out);

/* Values of attributes, the schema's default where the node has none. For attributes that the schema declares. */
bool attr_present(const Node *node, const char *name);
int64_t attr_int(const Node *node, const char *name);
double attr_float(const Node *node, const char *name);
Str attr_string(const Node *node, const char *name);
bool attr_string_is(const Node *node, const char *name, const char *value);
IntList attr_ints(const Node *node, const char *name);    /* empty when absent */
const Attr *attr_get(const Node *node, const char *name); /* NULL when absent */
const Tensor *attr_tensor(const Node *node, const char *name);
Graph *attr_graph(const Node *node, const char *name);

/* ---- checking (verify.c) ------------------------------------------------------------------------------------- */

/* One node by itself: operand and result counts, required operands, element types against the schema and its groups,
   attributes known, present where required and of the right kind. Readers call it for each node they make. */
tn_status node_check(const Node *node);
/* Numbers that say what a model is: equal models have equal ones in this process, and two that differ most likely do not.
   `structure` covers ops, operands, inputs, outputs and nesting; `all` attributes, types, names and the addresses of
   constants too. */
typedef struct Fingerprint {
    uint64_t structure, all;
} Fingerprint;
tn_status model_fingerprint(const Model *model, Fingerprint *out);

/* The whole model: the above for each node, use lists and definitions agree, definitions stand before uses, captures
   come from graphs around, names are unique, nested graphs are owned by their node, no cycle, ids in range. */
tn_status model_verify(const Model *model);

/* ---- walking (visit.c, mutate.c) ----------------------------------------------------------------------------- */

/* A graph, its inputs, its nodes, operands before users, each once. Of a node: its location, its op, the types of its
   results, the graphs nested in it, then its own function. The order is found before the first call, on a stack of its
   own, so depth and length do not matter, and call-backs may change the graph: what they erase is not visited any more,
   what they add is not visited yet. `count` is how often the walk reached the object. A call-back's error stops it. */
typedef struct Visitor Visitor;
typedef tn_status (*VisitNodeFn)(Visitor *v, Node *node);
struct VisitOp {
    const char *op; /* "Add", "com.microsoft.QGemm" */
    VisitNodeFn fn;
};
struct Visitor {
    const struct VisitOp *ops; /* ends with a NULL op */
    VisitNodeFn node;          /* default for ops that are not in the table */
    VisitNodeFn constant;      /* Const nodes; NULL: like other nodes */
    tn_status (*input)(Visitor *v, Value *value);
    tn_status (*graph)(Visitor *v, Graph *graph);
    tn_status (*location)(Visitor *v, Str loc);
    tn_status (*op)(Visitor *v, const OpSchema *op);
    tn_status (*type)(Visitor *v, const Type *type);
    void *user;     /* the caller's context and result */
    uint32_t count; /* while a call-back runs: how often its object was reached: locations, ops and types so far, values
                       and nodes of visit_value in all, of the other two always 1 */
    uint32_t row;   /* while a function of `ops` runs: its place there */
    Node *of;       /* whose location, op or type it is; NULL: an input's type */
    Value *of_value;                               /* whose type it is */
    bool (*descend)(Visitor *v, const Node *node); /* into the graphs nested in it? NULL: yes. May change nothing */
};
tn_status visit_model(Model *model, Visitor *v);
tn_status visit_graph(Graph *graph, Visitor *v);
tn_status visit_value(Value *value, Visitor *v); /* what the value depends on, up to graph inputs */

/* Rebuilds a model: for each node in order, one before what is nested in it, its function may return the same values
   (then nothing changes), or others that it built. Each value is rebuilt once, whoever reads it. When nothing changes at
   all *out is `model` itself, else a new model. `model` must not be changed meanwhile. */
typedef struct Mutator Mutator;
/* `operands` are the already rebuilt operands in the graph under construction; sets `results` (n_results of them) to
   values that are visible in `into` and *changed, or leaves *changed false to have the node copied as it is. A result
   that nobody reads may stay NULL. What is nested in a changed node is not rebuilt. */
typedef tn_status (*MutateNodeFn)(Mutator *m, const Node *node, Graph *into, Value *const *operands, Value **results,
                                  bool *changed);
struct MutateOp {
    const char *op;
    MutateNodeFn fn;
};
struct Mutator {
    const struct MutateOp *ops; /* ends with a NULL op */
    MutateNodeFn node;          /* default for ops that are not in the table */
    MutateNodeFn constant;      /* Const nodes; NULL: like other nodes */
    /* *value is the new graph's input; readers get what it is set to. */
    tn_status (*input)(Mutator *m, const Value *input, Value **value);
    /* `fresh` has all that came of `graph`, outputs included; sets *changed when it adds to it. */
    tn_status (*graph)(Mutator *m, const Graph *graph, Graph *fresh, bool *changed);
    /* Of nodes that are copied. */
    tn_status (*location)(Mutator *m, Str *loc);
    /* Of inputs and of nodes that are copied, constants excepted, whose data say it; asked once for each type, which is
       one of `model`, the new one. */
    tn_status (*type)(Mutator *m, Model *model, const Type **type);
    void *user;
    uint32_t row; /* while a function of `ops` runs: its place there */
};
tn_status mutate_model(Model *model, Mutator *m, Model **out);

/* ---- tokens (lex.c): of the text form, and of rules, which are written in it ---------------------------------- */

typedef enum TokenKind {
    TOKEN_END = 0, /* punctuation is its own character */
    TOKEN_NAME = 256,
    TOKEN_INT, /* without a sign */
    TOKEN_FLOAT,
    TOKEN_STRING,  /* text: between the quotes, escapes untouched */
    TOKEN_VALUE,   /* %name */
    TOKEN_UNNAMED, /* %17; text: the digits */
    TOKEN_SYMBOL,  /* @name */
    TOKEN_ARROW,
    TOKEN_DOTS,
    TOKEN_BAD
} TokenKind;

typedef struct Token {
    int kind;
    bool escaped;   /* text holds backslashes */
    size_t at, end; /* where it stands */
    Str text;
    const char *problem; /* of TOKEN_BAD */
} Token;

/* The token at or after a place, blanks and comments passed over. */
Token lex(Str source, size_t from);
/* Undoes escapes; the text is the source's own where there are none. */
tn_status unescape(Arena *arena, const Token *token, Str *out);

/* ---- text (print.c, parse.c, dot.c) -------------------------------------------------------------------------- */

typedef struct PrintOptions {
    /* Called for constants too big for the text: writes a reference such as @"weights.safetensors:name" to `out`, or
       leaves it empty to have the data printed in full. NULL: an elision `...` that does not parse back. */
    tn_status (*constant)(void *user, const Tensor *payload, const Value *value, Text *out);
    void *user;
    size_t inline_elements; /* constants of at most this many elements are always printed in full; 0: 16 */
    bool no_types;          /* leaves out result types that inference finds again */
} PrintOptions;
tn_status model_print(const Model *model, const PrintOptions *options, Text *out);
tn_status graph_print(const Graph *graph, const PrintOptions *options, Text *out);
/* `value` as a fragment: what it depends on, its free variables declared first, the last expression unnamed. */
tn_status value_print(const Value *value, const PrintOptions *options, Text *out);
tn_status node_print(const Node *node, const PrintOptions *options, Text *out); /* one line */

typedef struct ParseOptions {
    /* Resolves @"file:key" to a payload. NULL: such a reference is an error. */
    tn_status (*constant)(void *user, Model *model, Str file, Str key, Tensor *payload);
    void *user;
} ParseOptions;
/* Errors name line and column. */
tn_status model_parse(Context *ctx, Str text, const ParseOptions *options, Str file, Model **out);

/* Graphviz: ops yellow boxes, values ellipses. */
tn_status model_dot(const Model *model, Text *out);

#endif
