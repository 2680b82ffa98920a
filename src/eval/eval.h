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

#endif
