/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel at the end of every list: runs any op that has a reference function. */
#include "kernel/kernel.h"
#include "ops/op.h"

static bool matches(const KernelQuery *q) { return q->node->op->reference != NULL; }

/* Element-wise functions read a chunk before they write it, so a result may replace any operand of its own reading. */
static uint32_t in_place(const Node *node) {
    return node->op->flags & OP_ELEMENTWISE ? UINT32_MAX : node->op->flags & OP_OVERWRITES0 ? 1 : 0;
}

/* What an op keeps of a node, which its attributes alone decide. */
typedef struct Kept {
    Arena arena;
    const void *made;
} Kept;

static void discard(Prepared *prepared, const Allocator *allocator) {
    Kept *kept = prepared->data;
    arena_free(&kept->arena);
    mem_free(allocator, kept, sizeof *kept);
}

/* A node that is wrong may never be reached: it says so when it runs. */
static tn_status prepare(const KernelQuery *q, Context *context, Prepared *out) {
    if (!q->node->op->keep) return TN_OK;
    Kept *kept = mem_alloc(&context->allocator, sizeof *kept, alignof(Kept));
    if (!kept) return TN_OUT_OF_MEMORY;
    *kept = (Kept){0};
    arena_init(&kept->arena, &context->allocator);
    KernelCtx c = {.node = q->node, .context = context, .scratch = &kept->arena};
    tn_status status = q->node->op->keep(&c, &kept->made);
    *out = (Prepared){.data = kept, .size = sizeof *kept, .release = discard};
    if (status == TN_OK) return TN_OK;
    discard(out, &context->allocator);
    *out = (Prepared){0};
    if (status == TN_OUT_OF_MEMORY) return status;
    diag_clear();
    return TN_OK;
}

static bool keeps(const KernelQuery *q, const Prepared *prepared) { return (void)q, (void)prepared, true; }

static tn_status launch(KernelCtx *c, const Prepared *prepared) {
    c->kept = prepared->data ? ((const Kept *)prepared->data)->made : NULL;
    return c->node->op->reference(c);
}

const KernelDesc kernel_reference_any = {
    .name = "reference_any",
    .place = {.target = TARGET_REFERENCE},
    .match = matches,
    .strided = strided_all,
    .in_place = in_place,
    .prepare = prepare,
    .keeps = keeps,
    .launch = launch,
};
