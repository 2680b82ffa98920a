/* SPDX-License-Identifier: Apache-2.0 */
/* What ops that only move data share, and how the engine asks them for their regions. */
#include "ops/op.h"

tn_status add_region(RegionCtx *c, int out, const Region *region) { return region_push(&c->lists[out], region); }

Region region_over(const RegionCtx *c, int out, int in) { return region_dense(in, c->out[out].rank, c->out[out].dims); }

/* Row-major order of the operand is row-major order of the result, so a box over the operand's dims serves whatever
   the result's dims are. */
tn_status region_whole(RegionCtx *c, int out, int in) {
    const Tensor *x = c->in[in];
    Region r = region_dense(in, x->rank, x->dims);
    for (int d = 0; d < x->rank; d++) r.src_stride[d] = x->strides[d];
    c->lists[out].covers = true;
    return add_region(c, out, &r);
}

tn_status op_regions(const Node *node, const Tensor *const *in, int n_in, const Tensor *out, int n_out,
                     RegionList *lists, const void **fill, bool *declined) {
    RegionCtx c = {.node = node, .n_in = n_in, .n_out = n_out, .in = in, .out = out, .lists = lists};
    *declined = true;
    if (!node->op->regions) return TN_OK;
    tn_status status = node->op->regions(&c);
    if (status != TN_OK) {
        diag_set_node(node->loc.n ? node->loc.s : "", node->op->name);
        return status;
    }
    for (int i = 0; i < n_out && i < OP_MAX_OUTPUTS; i++) fill[i] = c.fill[i];
    *declined = c.declined;
    return TN_OK;
}

double op_flops(const Node *node, const Shape *in, const Shape *out) {
    if (node->op->flops) return node->op->flops(node, in, out);
    double n = 1;
    for (int i = 0; i < out[0].rank; i++) n *= (double)out[0].dims[i];
    return node->op->regions ? 0 : n;
}

bool op_is_pure(const OpSchema *op) { return !(op->flags & (OP_RANDOM | OP_CONTROL)); }
