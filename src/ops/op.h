/* SPDX-License-Identifier: Apache-2.0 */
/* What an op's file is written against (contexts of inference, regions and reference kernels), and what the rest of
   the engine asks of ops: infer a node, lower it to regions. The schema itself, OpSchema, stands in ir/ir.h. */
#ifndef TENON_OPS_OP_H
#define TENON_OPS_OP_H

#include "geom/geom.h"
#include "ir/ir.h"

/* ---- inference ----------------------------------------------------------------------------------------------- */

/* What is known of a value. The same struct serves the compiler (dims may be expressions, contents partly known) and
   the running program (everything concrete). */
typedef struct InferValue {
    bool present; /* false: an optional operand that is absent */
    TypeKind kind;
    tn_dtype dtype;      /* TN_UNDEFINED: not known */
    Shape shape;         /* of a tensor */
    const Type *elem;    /* of a sequence or optional */
    const Tensor *value; /* contents, where known; else NULL */
    const Dim *content;  /* contents of a small integer tensor as dims, some maybe DIM_UNKNOWN; NULL: not known */
    int32_t n_content;
} InferValue;

/* Integer tensors of up to this many elements carry contents as dims. */
#define CONTENT_MAX 64

struct InferCtx {
    const Node *node;
    Model *model;   /* NULL while a program runs: everything is concrete, nothing is interned */
    DimTable *dims; /* NULL likewise */
    int n_in, n_out;
    const InferValue *in;
    InferValue *out;
    Dim (*content_out)[CONTENT_MAX]; /* storage for contents that infer sets; NULL at run time */
};

/* Operand i (absent when beyond the last). */
static inline bool has_input(const InferCtx *c, int i) { return i < c->n_in && c->in[i].present; }
static inline const Shape *in_shape(const InferCtx *c, int i) { return &c->in[i].shape; }
static inline tn_dtype in_dtype(const InferCtx *c, int i) { return c->in[i].dtype; }
static inline bool rank_known(const InferCtx *c, int i) { return c->in[i].shape.rank >= 0; }
/* The contents of a small integer operand as dims (constants read, symbolic contents passed on). False: not known at
   all; single elements may still be DIM_UNKNOWN. More than `max` elements: false. An absent operand: false. */
bool in_content(const InferCtx *c, int i, Dim *out, int max, int *n);
/* The same, when every element is a number. */
bool in_ints(const InferCtx *c, int i, int64_t *out, int max, int *n);

/* Results. A shape_unknown() result says nothing. */
void set_shape(InferCtx *c, int out, const Shape *shape);
void set_dtype(InferCtx *c, int out, tn_dtype dtype);
void set_type(InferCtx *c, int out, tn_dtype dtype, const Shape *shape);
void set_like(InferCtx *c, int out, int in);                       /* element type, shape and kind of an operand */
void set_content(InferCtx *c, int out, const Dim *content, int n); /* ignored when n > CONTENT_MAX */
void set_unknown_rank(InferCtx *c, int out, int rank);             /* rank known, dims not; rank < 0: nothing known */

/* axis in -rank..rank-1 made non-negative; else TN_OUT_OF_RANGE that names attribute or operand `what`. */
tn_status normal_axis(int64_t axis, int rank, const char *what, int *out);
/* A list of distinct axes, made non-negative and sorted into a bit mask. */
tn_status normal_axes(const int64_t *axes, size_t n, int rank, const char *what, uint32_t *mask);
/* The multidirectional broadcast of two shapes (numpy's rule, symbols allowed); TN_SHAPE when impossible. */
tn_status broadcast_shapes(DimTable *dims, const Shape *a, const Shape *b, Shape *out);
/* Infer of ops whose single result is the broadcast of all operands, dtype by group. */
tn_status infer_broadcast(InferCtx *c);
/* The product of dims [from, to). */
Dim dims_product(DimTable *dims, const Shape *s, int from, int to);
/* a and b must be equal where both are known; returns the better known. */
tn_status dims_must_match(Dim a, Dim b, const char *what, Dim *out);

/* ---- regions ------------------------------------------------------------------------------------------------- */

struct RegionCtx {
    const Node *node;
    int n_in, n_out;
    const Tensor *const *in;          /* NULL: absent. Dims and strides are concrete; data only where contents decide */
    const Tensor *out;                /* dense results, shapes only */
    RegionList *lists;                /* one a result, on an arena */
    const void *fill[OP_MAX_OUTPUTS]; /* one element for what no region covers; NULL: zero */
    bool declined;                    /* set: run the reference kernel instead (say, too many regions) */
};
static inline bool region_has_input(const RegionCtx *c, int i) { return i < c->n_in && c->in[i]; }
/* The whole of input `in`, in its own order, becomes the whole of output `out` (reshape and its like). */
tn_status region_whole(RegionCtx *c, int out, int in);
/* A box over output `out`'s dims with source `in`, source strides zero: the caller sets them. */
Region region_over(const RegionCtx *c, int out, int in);
tn_status add_region(RegionCtx *c, int out, const Region *region);

/* ---- lowering ------------------------------------------------------------------------------------------------ */

struct LowerCtx {
    Node *node;
    Value *out[OP_MAX_OUTPUTS]; /* to be set: what stands for each result that is read */
    bool loops;                 /* counted loops may be made; else what wants one is made of regions, or declined */
    bool declined;              /* set: the node stays as it is */
    bool in_f32; /* sums of products of small integers are made in f32, where they are exact; else the node stays */
    tn_status status; /* the first failure; the functions that make nodes do nothing after it */
    Arena scratch;
    Graph *into; /* where nodes are made, at the end; NULL: in front of the node */
};
/* What a node becomes by its op's `lower`, in its place, with or without counted loops; erases it. *lowered false: declined,
   and nothing has changed. */
tn_status op_lower(Node *node, bool loops, bool *lowered);
/* Of a product of small integers by constants: as a product of f32, where every sum is exact whatever its order. */
tn_status op_lower_in_f32(Node *node, bool *lowered);
/* Whether a node has operands of 16-bit floats, and may have f32 in their place. */
bool lower_may_widen(const Node *node);
/* The same node on f32 then, between casts: what it is made of rounds once, as it does. `operands`: what it reads, as f32
   where it is there already; NULL: casts. */
tn_status lower_widened(Node *node, Value *const *operands, bool *widened);
/* The same node with all results that its op has, where it has some of the optional ones. */
tn_status lower_completed(Node *node, bool *completed);
/* A node of which nobody reads an element: constants without elements. */
tn_status lower_empty(Node *node, bool *lowered);

/* ---- reference kernels --------------------------------------------------------------------------------------- */

/* What runs kernels: the evaluator or a program. */
typedef struct KernelHost {
    /* Runs a nested graph of the node. `in` binds the graph's inputs; captures are found by the host. Results lie in
       the host's memory until the next run of the same graph from the same place; `out[i]` are views of them. */
    tn_status (*run_graph)(struct KernelHost *host, const Graph *graph, const Tensor *in, size_t n_in, Tensor *out,
                           size_t n_out);
    /* Memory for a result whose shape was not known before; fills *out with a dense tensor. */
    tn_status (*alloc_output)(struct KernelHost *host, int index, tn_dtype dtype, int rank, const int64_t *dims,
                              Tensor *out);
    /* A result that the kernel brings with it (a sequence, an optional, a part of one), whose shape inference did not
       know: `value` has a buffer, whose reference the host takes over, also when it fails. */
    tn_status (*give_output)(struct KernelHost *host, int index, Tensor *value);
    /* Non-zero status when the run is to stop (cancelled, deadline). */
    tn_status (*poll)(struct KernelHost *host);
} KernelHost;

struct KernelCtx {
    const Node *node;
    int n_in, n_out;
    const Tensor *const *in; /* NULL: absent */
    Tensor *out;             /* dense, ready, unless data is NULL: then the kernel calls kernel_alloc_output */
    const bool *out_wanted;  /* false: an optional result that nobody reads; out[i] may lack data. NULL: all */
    const void *kept;        /* what the op's `keep` made of this node; NULL: it is to be made */
    int way;                 /* of the kernel's, in which it is to be done; 0: as it likes */
    Context *context;
    Pool *pool;     /* NULL: one thread */
    Arena *scratch; /* reset by the host after each kernel */
    KernelHost *host;
};
static inline bool kernel_has_input(const KernelCtx *c, int i) { return i < c->n_in && c->in[i]; }
/* Whether somebody reads result i. */
static inline bool output_wanted(const KernelCtx *c, int i) {
    return i < c->n_out && (!c->out_wanted || c->out_wanted[i]);
}
tn_status kernel_alloc_output(KernelCtx *c, int i, int rank, const int64_t *dims); /* dtype as in c->out[i] */
tn_status kernel_give_output(KernelCtx *c, int i, Tensor *value);
tn_status kernel_poll(KernelCtx *c);

/* An operand as a dense array of the compute type: its own memory when it is that already, else a scratch copy.
   The type classes: f32 (f32 f16 bf16 f8 ...), f64, i64 (all integers and BOOL; u64 keeps its bits). */
tn_status dense_f32(KernelCtx *c, int i, const float **out);
tn_status dense_f64(KernelCtx *c, int i, const double **out);
tn_status dense_i64(KernelCtx *c, int i, const int64_t **out);
/* A dense operand in its own element type (copied when strided). Strings are lent: the array takes no references. */
tn_status dense_bytes(KernelCtx *c, int i, const void **out);
/* Any reading into dense memory of its element type, from element `dst_offset` on; strings get references. */
tn_status copy_dense(const Tensor *src, void *dst, int64_t dst_offset, Pool *pool);
/* Where to write a result of the compute type; *_done stores it when the element type is another. */
tn_status result_f32(KernelCtx *c, int i, float **out);
tn_status result_f64(KernelCtx *c, int i, double **out);
tn_status result_i64(KernelCtx *c, int i, int64_t **out);
void result_f32_done(KernelCtx *c, int i, const float *data);
void result_f64_done(KernelCtx *c, int i, const double *data);
void result_i64_done(KernelCtx *c, int i, const int64_t *data);
/* A few integers of a small operand (axes, pads, shapes). */
tn_status kernel_ints(KernelCtx *c, int i, int64_t *out, int64_t max, int64_t *n);
/* scratch memory, zeroed */
#define kernel_scratch(c, T, n) arena_array((c)->scratch, T, (n))

/* parallel_for over the kernel's pool, with poll between ranges; the first failure is returned. */
tn_status kernel_parallel(KernelCtx *c, int64_t n, double cost, RangeFn fn, void *arg);

/* ---- what the engine asks of ops ----------------------------------------------------------------------------- */

/* What is known of a concrete operand. */
InferValue infer_concrete(const Tensor *t, bool contents);

/* Runs a node's inference on `in`; fills `out` (n_results of them): element types by group, then the op's infer, or
   like operand 0. Errors carry node and op. Storage for contents may be NULL. */
tn_status op_infer(const Node *node, Model *model, const InferValue *in, InferValue *out,
                   Dim (*content_out)[CONTENT_MAX]);

/* Before a kernel runs: whether result i is known well enough. Only kernels of ops with OP_DYNAMIC_OUT or OP_CONTROL make
   memory for results whose shape does not follow from concrete operands. */
tn_status op_check_known(const Node *node, uint32_t i, const InferValue *found);

/* Types and contents of all values of a model, in order, nested graphs included: sets Value.type to what follows from
   inputs and what the model declares (merged; a contradiction is an error that names the node). */
tn_status infer_model(Model *model);
/* The same from the types of the inputs alone: what is declared of the sizes of other values may be wrong and is dropped, so
   passes may build on what types say afterwards. */
tn_status infer_from_inputs(Model *model);
/* What is certain, for passes that build on it: what follows from the graph and from what is checked of inputs when they
   are given. Declared types of other values may be wrong and do not count. Sizes of inputs that have neither a number nor
   a name are symbols of their own. Types stay as they are. A size that Reshape is given is taken not to be 0. */
typedef struct InferFacts {
    const InferValue *values; /* by value id */
    size_t n;                 /* values that were made later have none */
    Arena arena;
} InferFacts;
tn_status infer_facts(Model *model, InferFacts *out);
void infer_facts_free(InferFacts *facts);
/* Types of the results of one node that a pass made, from its operands' types and constants; what infer_model finds of
   contents further up is not seen. Not for nodes with nested graphs. */
tn_status infer_node(Node *node);

/* Fills *out with a constant of a type with fewer bits as f32, less a number. Where it has many elements these are made whenever
   their bytes are needed, as while kernels pack them, so that they never stand beside both the model's and the packed ones. */
tn_status widened_constant(Context *ctx, const Value *v, float less, Tensor *out);
/* Whether it is a tn.Fused, and its body's nodes in its place. What the body takes as inputs are then the operands, and the
   names of the results are its own values' again. */
bool node_is_fused(const Node *node);
tn_status fused_inline(Node *fused);
/* How often a Loop runs its body, as far as constants tell: at least and at most (INT64_MAX: no bound is known). */
typedef struct LoopTrips {
    int64_t least, most;
} LoopTrips;
LoopTrips loop_trips(const Node *loop);
/* The condition that a Loop's body is given: true whenever the body runs. */
bool is_loop_condition(const Value *value);
/* The regions of a node's results on concrete operands; *declined when a kernel has to do it. `lists` has n_out
   entries, each with its arena set. */
tn_status op_regions(const Node *node, const Tensor *const *in, int n_in, const Tensor *out, int n_out,
                     RegionList *lists, const void **fill, bool *declined);
/* Floating-point operations of one run. */
double op_flops(const Node *node, const Shape *in, const Shape *out);
/* Whether a node gives the same results whenever its operands are the same, and has no nested graph. */
bool op_is_pure(const OpSchema *op);

/* ---- ops that come while the process runs (op_table.c) ------------------------------------------------------- */

/* The table of now and `n` more ops, which must stay; found by others once it is published. TN_INVALID_ARGUMENT for a
   name that is taken. One thread at a time. */
typedef struct OpTable OpTable;
tn_status op_table_extend(const OpSchema *const *more, size_t n, OpTable **out);
void op_table_publish(OpTable *table);
void op_table_discard(OpTable *table); /* one that was not published; NULL is ignored */

#endif
