/* SPDX-License-Identifier: Apache-2.0 */
/* TensorScatter (ONNX 24): a cache with a run of its sequence overwritten, at a place of each batch entry's own. */
#include "ops/lower_int.h"
#include "ops/move_int.h"
#include "ops/nn_int.h"

enum { IN_CACHE, IN_UPDATE, IN_INDICES };

static tn_status read_mode(const Node *node, bool *circular) {
    *circular = attr_string_is(node, "mode", "circular");
    Str s = attr_string(node, "mode");
    if (*circular || str_equal(s, STR("linear"))) return TN_OK;
    return fail(TN_INVALID_MODEL, "mode is \"%.*s\"; linear or circular is wanted", (int)s.n, s.s);
}

static tn_status tensor_scatter_infer(InferCtx *c) {
    const Shape *x = in_shape(c, IN_CACHE), *u = in_shape(c, IN_UPDATE);
    bool circular;
    int axis;
    TRY(read_mode(c->node, &circular));
    set_shape(c, 0, x);
    if (x->rank < 0) return TN_OK;
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    if (axis == 0) return fail(TN_INVALID_MODEL, "axis is the batch");
    TRY(want_rank(c, IN_UPDATE, x->rank));
    TRY(want_vector(c, IN_INDICES, x->dims[0], false));
    for (int d = 0; u->rank >= 0 && d < x->rank; d++) {
        Dim same;
        if (d != axis) TRY(dims_must_match(x->dims[d], u->dims[d], "sizes of cache and update", &same));
        else if (dim_is_const(x->dims[d]) && dim_is_const(u->dims[d]) && u->dims[d] > x->dims[d])
            return fail(TN_SHAPE, "%lld steps do not fit into a cache of %lld", (long long)u->dims[d],
                        (long long)x->dims[d]);
    }
    return TN_OK;
}

/* Where the first step of a batch entry goes. */
static tn_status first_step(int64_t index, int64_t steps, int64_t room, bool circular, int64_t *out) {
    if (circular) {
        *out = room ? (index % room + room) % room : 0;
        return TN_OK;
    }
    *out = index;
    if (index >= 0 && index <= room - steps) return TN_OK;
    return fail(TN_OUT_OF_RANGE, "write index %lld leaves no place for %lld steps in a cache of %lld", (long long)index,
                (long long)steps, (long long)room);
}

static tn_status tensor_scatter_reference(KernelCtx *c) {
    const Tensor *x = c->in[IN_CACHE], *u = c->in[IN_UPDATE], *y = &c->out[0];
    int64_t batch = x->dims[0], middle = 1, inner = 1;
    const int64_t *indices = NULL;
    const void *update;
    bool circular;
    int axis;
    if (tensor_count(y) == 0) return TN_OK;
    TRY(read_mode(c->node, &circular));
    TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
    if (kernel_has_input(c, IN_INDICES)) TRY(dense_i64(c, IN_INDICES, &indices));
    TRY(dense_bytes(c, IN_UPDATE, &update));
    for (int d = 1; d < axis; d++) middle *= x->dims[d];
    for (int d = axis + 1; d < x->rank; d++) inner *= x->dims[d];
    int64_t room = x->dims[axis], steps = u->dims[axis];
    for (int64_t b = 0; b < batch; b++) {
        int64_t first;
        TRY(first_step(indices ? indices[b] : 0, steps, room, circular, &first));
    }
    TRY(copy_dense(x, y->data, y->offset, c->pool));
    for (int64_t k = 0; k < batch * middle; k++) {
        int64_t first = 0;
        TRY(first_step(indices ? indices[k / middle] : 0, steps, room, circular, &first));
        for (int64_t s = 0; s < steps; s++)
            copy_run(y->dtype, y->data, y->offset + (k * room + (first + s) % room) * inner, update,
                     (k * steps + s) * inner, inner);
    }
    return TN_OK;
}

const OpSchema op_TensorScatter = {
    .name = "TensorScatter",
    .summary = "Overwrites a run of a cache (ONNX 24)",
    .kind = OP_COMPOSITE,
    .flags = OP_LOOPS,
    .inputs = OPERANDS({"past_cache", TS_ALL_TENSOR, 'T'}, {"update", TS_ALL_TENSOR, 'T'},
                       {"write_indices", TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .outputs = OPERANDS({"present_cache", TS_ALL_TENSOR, 'T'}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, .i = -2}, {"mode", ATTR_STRING, .s = "linear"}),
    .infer = tensor_scatter_infer,
    .reference = tensor_scatter_reference,
    .lower = lower_tensor_scatter,
    .lowering = "tn.Loop over computed places",
};
