/* SPDX-License-Identifier: Apache-2.0 */
/* Runs nodes and graphs on the reference kernels, one after the other, each result in memory of its own: slow, simple
   and right. For folding, proofs, checking and tests. */
#ifndef TENON_EVAL_EVAL_H
#define TENON_EVAL_EVAL_H

#include "ops/op.h"

/* One node without nested graphs on concrete operands (NULL: absent). Results are dense tensors that the caller
   releases; on failure none is left. TN_UNSUPPORTED for a control op. */
tn_status eval_node(Context *ctx, Arena *scratch, const Node *node, const Tensor *const *in, Tensor *out);

/* A whole graph, nested graphs included. `inputs` has one tensor an input (NULL: its default); `outputs` one an
   output, released by the caller. */
tn_status eval_graph(Context *ctx, const Graph *graph, const Tensor *const *inputs, Tensor *outputs);

/* ---- with a memory (memo.c) ---------------------------------------------------------------------------------- */

/* Remembers results by what they were computed from: the op, its attributes and the contents of its operands. So when a
   graph was changed a little and is run again, only what the change touched is computed; and whether a value is the same
   as in another run is known from a number. Nodes with nested graphs are run as a whole. */
typedef struct Memo Memo;
/* Of the results up to `max_bytes` are kept, those used longest ago go first; what is wanted again is computed again. */
tn_status memo_new(Context *ctx, uint64_t max_bytes, Memo **out);
void memo_free(Memo *memo);                 /* NULL is ignored */
uint64_t memo_n_computed(const Memo *memo); /* nodes that were run, all in all */

/* What the outputs of a root graph need, computed for these inputs (NULL: its default). The graph must not change, and
   inputs and memo must stay, as long as the run is asked. On failure *failed is the node, or NULL. */
typedef struct MemoRun MemoRun;
tn_status memo_run(Memo *memo, const Graph *graph, const Tensor *const *inputs, MemoRun **out, const Node **failed);
void memo_run_free(MemoRun *run); /* NULL is ignored */
/* Whether an output needs the value. The others cannot be asked for. */
bool memo_has(const MemoRun *run, const Value *value);
/* Equal in two runs of one memo: equal type, sizes and bits. */
uint64_t memo_contents(const MemoRun *run, const Value *value);
/* To be released. */
tn_status memo_value(MemoRun *run, const Value *value, Tensor *out);
/* Whether random numbers decide the value. They are drawn by a node's name, so two runs may be compared as long as the
   second number, which stands for the set of those names, is the same. */
bool memo_is_random(const MemoRun *run, const Value *value);
uint64_t memo_random(const MemoRun *run);

#endif
