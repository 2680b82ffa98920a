/* SPDX-License-Identifier: Apache-2.0 */
/* Upgrades of the ops of networks. */
#include "formats/onnx/upgrade_int.h"

/* The operand's shape as an operand: a constant where it is known. */
static tn_status shape_of(Draft *d, Value *value, Value **out) {
    const Type *type = value->type;
    if (type->kind == TYPE_TENSOR && shape_is_known(&type->shape))
        return onnx_make_ints(d, type->shape.dims, (size_t)type->shape.rank, false, out);
    return onnx_make(d, "Shape", &value, 1, NULL, 0, out);
}

/* Until 13 the operand was taken as a matrix, dimensions before `axis` its rows and the others its columns. */
tn_status upgrade_softmax(Draft *d) {
    Attr axis = onnx_int_attr("axis", 1);
    Attr last = onnx_int_attr("axis", -1);
    Value *x, *y, *shape;
    tn_status status;
    TRY(need_operands(d, 1));
    take_attr(d, "axis", ATTR_INT, &axis, &status);
    TRY(status);
    x = d->operands[0];
    int rank = onnx_rank(x);
    axis.name = STR("axis");
    if (rank > 0 && (axis.i == rank - 1 || axis.i == -1)) return onnx_set_attr(d, last);
    const char *op = str_equal(d->type, STR("Hardmax"))      ? "Hardmax"
                     : str_equal(d->type, STR("LogSoftmax")) ? "LogSoftmax"
                                                             : "Softmax";
    TRY(shape_of(d, x, &shape));
    TRY(onnx_make(d, "Flatten", &x, 1, &axis, 1, &y));
    TRY(onnx_make(d, op, &y, 1, &last, 1, &y));
    d->operands[0] = y;
    TRY(onnx_set_operand(d, 1, shape));
    TRY(onnx_set_attr(d, onnx_int_attr("allowzero", 1)));
    return onnx_rename(d, "Reshape");
}

/* Models are run, not trained: what remains is the operand itself. The mask had its element type until 10. */
tn_status upgrade_dropout(Draft *d) {
    TRY(need_operands(d, 1));
    onnx_remove_attr(d, "ratio");
    onnx_remove_attr(d, "is_test");
    if (d->opset >= 10 || d->n_outputs < 2 || d->outputs[1].n == 0) return TN_OK;
    Value *x = d->operands[0], *shape, *one;
    d->results = arena_array(&d->reader->arena, Value *, d->n_outputs);
    if (!d->results) return TN_OUT_OF_MEMORY;
    if (d->n_outputs > 2) return fail(TN_INVALID_MODEL, "too many results");
    TRY(onnx_make(d, "Identity", &x, 1, NULL, 0, &d->results[0]));
    TRY(shape_of(d, x, &shape));
    TRY(onnx_make_scalar(d, 1, x, &one));
    return onnx_make(d, "Expand", (Value *[]){one, shape}, 2, NULL, 0, &d->results[1]);
}

/* One scale, bias, mean and variance for each position of an example: (x - mean) / sqrt(var + epsilon) * scale + bias,
   broadcast over the batch. */
static tn_status normalise_positions(Draft *d) {
    Attr epsilon = {.f = 1e-5f};
    Value *e, *s, *y;
    tn_status status;
    TRY(need_operands(d, 5));
    take_attr(d, "epsilon", ATTR_FLOAT, &epsilon, &status);
    TRY(status);
    onnx_remove_attr(d, "momentum");
    TRY(onnx_make_scalar(d, epsilon.f, d->operands[4], &e));
    TRY(onnx_make(d, "Add", (Value *[]){d->operands[4], e}, 2, NULL, 0, &s));
    TRY(onnx_make(d, "Sqrt", &s, 1, NULL, 0, &s));
    TRY(onnx_make(d, "Sub", (Value *[]){d->operands[0], d->operands[3]}, 2, NULL, 0, &y));
    TRY(onnx_make(d, "Div", (Value *[]){y, s}, 2, NULL, 0, &y));
    TRY(onnx_make(d, "Mul", (Value *[]){y, d->operands[1]}, 2, NULL, 0, &y));
    d->operands[0] = y;
    d->operands[1] = d->operands[2];
    d->n_operands = 2;
    return onnx_rename(d, "Add");
}

/* Who asked for more than the first result was training. The two saved statistics are gone; nothing but a gradient
   reads them. */
tn_status upgrade_batch_norm(Draft *d) {
    Attr spatial = {.i = 1};
    tn_status status;
    bool training = false;
    onnx_remove_attr(d, "is_test");
    take_attr(d, "spatial", ATTR_INT, &spatial, &status);
    TRY(status);
    for (size_t i = 1; i < d->n_outputs; i++) training = training || d->outputs[i].n;
    if (!training && d->n_outputs > 1) d->n_outputs = 1;
    if (!spatial.i) {
        if (training) return fail(TN_UNSUPPORTED, "training with spatial = 0");
        return normalise_positions(d);
    }
    if (!training) return TN_OK;
    if (d->n_outputs > 3) d->n_outputs = 3;
    return onnx_set_attr(d, onnx_int_attr("training_mode", 1));
}

/* [groups] to [channels]: each element as often as a group has channels. */
static tn_status spread_over_channels(Draft *d, Value *per_group, Value **out) {
    static const int64_t one = 1, flat = -1;
    Value *axis, *channels, *groups, *width, *row, *shape, *list;
    Attr cut[] = {onnx_int_attr("end", 2), onnx_int_attr("start", 1)};
    Attr join = onnx_int_attr("axis", 0);
    TRY(onnx_make_ints(d, &one, 1, false, &axis));
    TRY(onnx_make(d, "Shape", d->operands, 1, cut, 2, &channels));
    TRY(onnx_make(d, "Shape", &per_group, 1, NULL, 0, &groups));
    TRY(onnx_make(d, "Div", (Value *[]){channels, groups}, 2, NULL, 0, &width));
    TRY(onnx_make(d, "Concat", (Value *[]){axis, width}, 2, &join, 1, &shape));
    TRY(onnx_make(d, "Unsqueeze", (Value *[]){per_group, axis}, 2, NULL, 0, &row));
    TRY(onnx_make(d, "Expand", (Value *[]){row, shape}, 2, NULL, 0, &row));
    TRY(onnx_make_ints(d, &flat, 1, false, &list));
    return onnx_make(d, "Reshape", (Value *[]){row, list}, 2, NULL, 0, out);
}

/* Scale and bias were one for each group, and are one for each channel. */
tn_status upgrade_group_norm(Draft *d) {
    TRY(need_operands(d, 3));
    TRY(spread_over_channels(d, d->operands[1], &d->operands[1]));
    return spread_over_channels(d, d->operands[2], &d->operands[2]);
}

/* The exponent was a float. */
tn_status upgrade_lp_pool(Draft *d) {
    Attr p;
    tn_status status;
    if (!take_attr(d, "p", ATTR_FLOAT, &p, &status)) return status;
    if (p.f != (float)(int)p.f || p.f < 1 || p.f > 1e6f)
        return fail(TN_UNSUPPORTED, "pooling with the norm p = %g", (double)p.f);
    return onnx_set_attr(d, onnx_int_attr("p", (int64_t)p.f));
}

/* Whether Y is made follows from whether it is named. */
tn_status upgrade_recurrent(Draft *d) {
    onnx_remove_attr(d, "output_sequence");
    return TN_OK;
}

tn_status upgrade_dft(Draft *d) {
    Attr axis = {.i = 1};
    Value *value;
    tn_status status;
    if (draft_operand(d, 2)) return TN_OK;
    take_attr(d, "axis", ATTR_INT, &axis, &status);
    TRY(status);
    TRY(onnx_make_ints(d, &axis.i, 1, true, &value));
    return onnx_set_operand(d, 2, value);
}
