/* SPDX-License-Identifier: Apache-2.0 */
/* expand-einsum: sums over labelled dimensions become products of matrices before rules look at them, so that attention
   written with Einsum is attention, and the kernels for products run it. */
#include "ops/op.h"
#include "pass/pass.h"

static tn_status run(PassRun *run, Graph *graph) {
    const OpSchema *einsum = op_find(STR(""), STR("Einsum"));
    int64_t n = 0;
    for (Node *node = graph->first, *next, *before; node; node = next) {
        bool expanded = false;
        before = node->prev;
        const Type *type = node->op == einsum ? node->results[0]->type : NULL;
        if (type && type->kind == TYPE_TENSOR && dtype_is_float(type->dtype)) {
            if (!pass_may_change(run)) break;
            TRY(op_lower(node, false, &expanded));
        }
        /* what it became may hold one on wider floats */
        next = !expanded ? node->next : before ? before->next : graph->first;
        n += expanded;
    }
    return pass_count(run, "expanded", n);
}

const Pass pass_expand_einsum = {.name = "expand-einsum",
                                 .summary = "make products of matrices of sums over labelled dimensions",
                                 .phase = PHASE_PRE_PLACEMENT,
                                 .order = 45,
                                 .opt_level = 2,
                                 .each_graph = true,
                                 .requires = {"infer-shapes"},
                                 .keeps = {"infer-shapes"},
                                 .run = run};
