/* SPDX-License-Identifier: Apache-2.0 */
/* fuse-fc: mul and elementwise_add become fc. Here MatMul stands for mul, Add for elementwise_add, and Gemm for fc. The
   second tutorial, docs/first-fusion.md, goes through this file. */
#include "ops/op.h"
#include "pass/pass.h"
#include "rewrite/rewrite.h"

/* ---- when it may be done ------------------------------------------------------------------------------------- */

static bool is_matrix(const Value *value) { return value->type->kind == TYPE_TENSOR && value->type->shape.rank == 2; }

/* Gemm multiplies matrices only; MatMul also takes stacks of them. */
static bool multiplies_matrices(const Node *node) {
    return is_matrix(node->operands[0].value) && is_matrix(node->operands[1].value);
}

/* Whether the bias is repeated to the product's sizes. One that is larger would make the sum larger than the product, which
   Add does and Gemm does not. */
static bool repeats_to(const Shape *bias, const Shape *product) {
    if (bias->rank < 0 || bias->rank > product->rank) return false;
    for (int i = 1; i <= bias->rank; i++) {
        Dim d = bias->dims[bias->rank - i], whole = product->dims[product->rank - i];
        if (d != 1 && (d != whole || d == DIM_UNKNOWN)) return false;
    }
    return true;
}

static bool gemm_takes(tn_dtype dtype) {
    const OpSchema *gemm = op_find(STR(""), STR("Gemm"));
    return gemm && dtype && op_inputs(gemm)[0].types & TS(dtype);
}

static bool accept(const FuserMatch *m) {
    const Type *product = fuser_value(m, "mul")->type, *bias = fuser_value(m, "bias")->type;
    return bias->kind == TYPE_TENSOR && bias->dtype == product->dtype && gemm_takes(product->dtype) &&
           repeats_to(&bias->shape, &product->shape);
}

/* ---- what comes in its place --------------------------------------------------------------------------------- */

static tn_status make(const FuserMatch *m, Node **out) {
    Value *operands[] = {fuser_value(m, "x"), fuser_value(m, "w"), fuser_value(m, "bias")};
    const OpSchema *gemm = op_find(STR(""), STR("Gemm"));
    if (!gemm) return fail(TN_NOT_FOUND, "there is no op Gemm");
    return node_new(m->nodes[0]->graph, gemm, operands, 3, 1, out);
}

static const Fuser fuser = {
    .nodes = {{"mul", "MatMul", {"x", "w"}, multiplies_matrices}, {"add", "Add", {"mul", "bias"}, NULL}},
    .accept = accept,
    .make = make};

/* ---- the pass ------------------------------------------------------------------------------------------------ */

static bool may_change(void *run) { return pass_may_change(run); }

static tn_status run(PassRun *run, Graph *graph) {
    int64_t n_fused;
    TRY(fuser_run(&fuser, graph, may_change, run, &n_fused));
    return pass_count(run, "fused", n_fused);
}

const Pass pass_fuse_fc = {.name = "fuse-fc",
                           .summary = "make one Gemm of MatMul and Add",
                           .each_graph = true,
                           .kernels = {{"Gemm", NULL}},
                           .requires = {"infer-shapes"},
                           .keeps = {"infer-shapes"},
                           .run = run};
