/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel at the end of every list: runs any op that has a reference function. */
#include "kernel/kernel.h"
#include "ops/op.h"

static bool matches(const KernelQuery *q) { return q->node->op->reference != NULL; }

/* Element-wise functions read a chunk before they write it, so a result may replace any operand of its own reading. */
static uint32_t in_place(const Node *node) {
    return node->op->flags & OP_ELEMENTWISE ? UINT32_MAX : node->op->flags & OP_OVERWRITES0 ? 1 : 0;
}

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    (void)prepared;
    return c->node->op->reference(c);
}

const KernelDesc kernel_reference_any = {
    .name = "reference_any",
    .place = {.target = TARGET_REFERENCE},
    .match = matches,
    .strided = strided_all,
    .in_place = in_place,
    .launch = launch,
};
