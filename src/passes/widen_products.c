/* SPDX-License-Identifier: Apache-2.0 */
/* widen-products: products of 8-bit integers by constants become products of f32, which the kernels are quick at, where f32
   holds every sum that can come up. What comes out is the same to the last bit. */
#include "ops/op.h"
#include "pass/pass.h"

typedef struct Widening {
    PassRun *run;
    uint32_t first_node; /* with this id and above: made here */
    int64_t n_widened, n_shared;
} Widening;

static bool is_named(const Node *node, const char *const *names, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(node->op->name, names[i]) == 0) return true;
    return false;
}

static bool is_product(const Node *node) {
    static const char *const names[] = {"MatMulInteger", "QLinearMatMul", "MatMulIntegerToFloat",
                                        "DynamicQuantizeMatMul", "QGemm"};
    return is_named(node, names, sizeof names / sizeof *names);
}

/* ---- what several products prepare alike --------------------------------------------------------------------- */

static bool prepares(const Widening *w, const Node *node) {
    static const char *const names[] = {"Cast", "Sub", "DynamicQuantizeLinear"};
    return node->id >= w->first_node && is_named(node, names, sizeof names / sizeof *names);
}

static bool are_alike(const Node *a, const Node *b) {
    if (a->op != b->op || a->graph != b->graph || a->n_operands != b->n_operands) return false;
    for (uint32_t i = 0; i < a->n_operands; i++)
        if (node_operand(a, i) != node_operand(b, i)) return false;
    return a->results[0]->type->dtype == b->results[0]->type->dtype;
}

/* The same done earlier, by a node made here too: their attributes can only be the same. */
static Node *done_before(const Widening *w, const Node *node) {
    for (const Use *use = node_operand(node, 0)->uses; use; use = use->next) {
        Node *other = use->user;
        if (other != node && node_is_placed(other) && prepares(w, other) && are_alike(other, node) &&
            node_comes_before(other, node))
            return other;
    }
    return NULL;
}

static void share(Widening *w, Node *node) {
    Node *other = done_before(w, node);
    if (!other) return;
    for (uint32_t i = 0; i < node->n_results; i++) value_replace(node->results[i], other->results[i]);
    node_erase(node);
    w->n_shared++;
}

/* ---- the pass ------------------------------------------------------------------------------------------------ */

static tn_status widen(Widening *w, Node *node) {
    Node *before = node->prev, *behind = node->next;
    Graph *graph = node->graph;
    bool lowered;
    TRY(op_lower_in_f32(node, &lowered));
    if (!lowered) return TN_OK;
    w->n_widened++;
    for (Node *made = before ? before->next : graph->first, *next; made != behind; made = next) {
        next = made->next;
        if (prepares(w, made)) share(w, made);
    }
    return TN_OK;
}

static tn_status run(PassRun *run, Graph *graph) {
    Widening w = {.run = run, .first_node = run->model->n_nodes};
    for (Node *node = graph->first, *next; node; node = next) {
        next = node->next;
        if (is_product(node) && pass_may_change(run)) TRY(widen(&w, node));
    }
    TRY(pass_count(run, "widened", w.n_widened));
    return pass_count(run, "shared", w.n_shared);
}

const Pass pass_widen_products = {.name = "widen-products",
                                  .summary = "make products of f32 of those of 8-bit integers, where that is exact",
                                  .phase = PHASE_POST_REWRITE,
                                  .order = 840,
                                  .opt_level = 1,
                                  .each_graph = true,
                                  .targets = {"cpu"},
                                  .requires = {"infer-shapes"},
                                  .keeps = {"infer-shapes"},
                                  .run = run};
