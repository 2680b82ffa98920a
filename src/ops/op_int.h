/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/ops share among themselves: strided iteration for reference kernels. */
#ifndef TENON_OPS_OP_INT_H
#define TENON_OPS_OP_INT_H

#include "ops/op.h"

/* A result and up to a few operands walked together: operands broadcast to the result's dims, neighbours merged, the
   innermost run handed to a call-back as (offset, stride) pairs. */
#define WALK_MAX 4
typedef struct Walk {
    int n; /* operands; the last one is the (dense) result */
    int rank;
    int64_t dims[TN_MAX_RANK];
    int64_t strides[WALK_MAX][TN_MAX_RANK]; /* in elements; 0 where an operand is broadcast */
    int64_t base[WALK_MAX];
    int64_t inner; /* length of a run */
    int64_t outer; /* number of runs */
} Walk;
/* operands[n - 1] gives the dims; the others must broadcast to it. TN_SHAPE otherwise. */
tn_status walk_operands(Walk *w, int n, const Tensor *const *operands);
/* Offsets of run number `run` for each operand. Inner strides are w->strides[k][w->rank - 1]. */
void walk_offsets(const Walk *w, int64_t run, int64_t *offsets);

/* The compute class of an element type. */
typedef enum Class { CLASS_F32, CLASS_F64, CLASS_INT, CLASS_COMPLEX, CLASS_STRING } Class;
Class class_of(tn_dtype dtype); /* f16, bf16 and smaller floats are CLASS_F32; BOOL is CLASS_INT */

/* Loops over elements that do not depend on each other even where result and operand are the same memory. */
#if defined(__clang__)
#define EACH(i, n) for (int64_t i = 0; i < (n); i++)
#else
#define EACH(i, n) _Pragma("GCC ivdep") for (int64_t i = 0; i < (n); i++)
#endif

/* The most elements that one call of a chunk function gets. */
#define CHUNK 1024

/* A stream of elements in the order of a dense result: an operand broadcast to the result's dims. */
typedef struct Stream {
    const Tensor *tensor;
    Walk walk;
    Class class;
    tn_dtype direct; /* the element type whose memory is an array of the compute type already */
} Stream;
/* TN_SHAPE when `tensor` does not broadcast to `like`'s dims. */
tn_status stream_init(Stream *s, const Tensor *tensor, const Tensor *like, Class class);
/* Elements [at, at + n) as an array of the compute type (float, double, int64_t, pairs of double, RcString *): the
   operand's own memory where it is that already, else `buffer`, which has room for n. */
const void *stream_read(const Stream *s, int64_t at, int64_t n, void *buffer);

/* Element-wise kernels: chunks of the result's positions are loaded into arrays of the compute type, `fn` works on
   them, the result is stored. x[k] are arrays of float, double, int64_t, pairs of double by class; absent operands are
   NULL. Chunks may be split over threads. The result may share memory with an operand of the same reading. */
typedef void (*ChunkFn)(const void *user, void *y, const void *const *x, int64_t n);
typedef struct ElementwiseFns {
    ChunkFn f32, f64, i64; /* NULL: TN_UNSUPPORTED for that class */
    ChunkFn u64;           /* of TN_U64, whose bits look like int64_t; NULL: i64 does for it too */
} ElementwiseFns;
/* Inputs 0..n-1 to result 0; all loaded as class `in`, stored as class `out`. `cost`: nanoseconds of one element. */
tn_status run_elementwise(KernelCtx *c, int n, Class in, Class out, ChunkFn fn, const void *user, double cost);
/* The same on tensors and classes of the caller's choice; in[k] may be NULL. */
tn_status run_elementwise_on(KernelCtx *c, int n, const Tensor *const *in, const Class *in_class, const Tensor *out,
                             Class out_class, ChunkFn fn, const void *user, double cost);
/* The function that fits operand 0's element type, with the class of operand and result that follow from it. */
tn_status run_by_class(KernelCtx *c, int n, const ElementwiseFns *fns, const void *user, double cost);
/* The same with a result of integers or booleans. */
tn_status run_to_int(KernelCtx *c, int n, const ElementwiseFns *fns, const void *user, double cost);
/* Any number of operands: the accumulator starts as operand 0, then fn(user, acc, {acc, operand}, n) for each other one,
   then `finish` (may be NULL) on the accumulator in place. Rounds once, at the end. */
tn_status run_fold(KernelCtx *c, const ElementwiseFns *fns, const ElementwiseFns *finish, const void *user,
                   double cost);

/* Arrays of a compute type from and to memory of element type `dtype`, at offset + i*stride. */
void class_load(Class class, void *dst, tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n);
void class_store(Class class, tn_dtype dtype, void *data, int64_t offset, int64_t stride, const void *src, int64_t n);
int class_size(Class class); /* bytes of one element of the compute type */

/* Contents of small integer tensors through arithmetic (content.c). */

/* a / b and a % b as ONNX's Div (towards zero) and Mod (fmod: sign of a; else of b) have it for integers. */
Dim content_div(DimTable *dims, Dim a, Dim b);
Dim content_mod(DimTable *dims, Dim a, Dim b, bool fmod);
/* The number of elements of result 0, whose shape is set; -1 when that is not known or above CONTENT_MAX. */
int content_count(const InferCtx *c);
/* Sets result 0's contents to fn(a, b) of operands ia and ib, one of which may be a single element. Does nothing where
   contents are not known. The result's shape must be set before. */
typedef Dim (*ContentFn)(const InferCtx *c, Dim a, Dim b);
void content_binary(InferCtx *c, int ia, int ib, ContentFn fn);
void content_unary(InferCtx *c, Dim (*fn)(const InferCtx *c, Dim a));

/* Control flow (control.c): before a nested graph of a node is inferred, its inputs get what the node's operands `in` say
   of them (n_operands of them). `sizes_stay`: values carried from turn to turn are taken to keep the sizes they begin
   with, which the caller checks when the body is inferred. */
tn_status control_bind_body(const Node *node, Model *model, const InferValue *in, Graph *body, bool sizes_stay);
/* How many values a turn of the body hands to the next: its inputs from *in on get its outputs from *out on. */
int control_carried(const Node *node, int *in, int *out);
bool control_is_loop(const Node *node); /* NULL is none */
/* Of a Loop's or Scan's results that grow slice by slice: leaves out the slices' sizes unless there is one for certain,
   since with none they are what the body declares. */
void control_forget_slices(const Node *node, InferValue *out);

#endif
