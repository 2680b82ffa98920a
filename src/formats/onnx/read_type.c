/* SPDX-License-Identifier: Apache-2.0 */
/* TypeProto to a type, and how declared types and inference come together. */
#include "formats/onnx/onnx_int.h"

static tn_status read_dim(OnnxReader *r, Str bytes, Dim *out) {
    onnx_TensorShapeProto_Dimension dim;
    TRY(proto_read(&r->proto, bytes, onnx_TensorShapeProto_Dimension, &dim));
    *out = DIM_UNKNOWN;
    if (dim.has_dim_value) {
        /* exporters write -1 for what they do not know */
        if (dim.dim_value >= 0) *out = dim.dim_value;
        return TN_OK;
    }
    /* Paddle's exporter writes "?" for each size that it does not know, as if they were one. */
    if (dim.dim_param.n == 0 || str_equal(dim.dim_param, STR("?"))) return TN_OK;
    TRY(onnx_check_name(r, dim.dim_param, "a dimension's name"));
    Str name = model_str(r->model, dim.dim_param);
    if (!name.s) return TN_OUT_OF_MEMORY;
    *out = dim_symbol(&r->model->dims, name);
    return *out == DIM_UNKNOWN ? TN_OUT_OF_MEMORY : TN_OK;
}

static tn_status read_tensor_type(OnnxReader *r, Str bytes, Type *out) {
    onnx_TypeProto_Tensor tensor;
    TRY(proto_read(&r->proto, bytes, onnx_TypeProto_Tensor, &tensor));
    if (tensor.elem_type != 0 && dtype_bits((tn_dtype)tensor.elem_type) == 0)
        return fail(TN_UNSUPPORTED, "element type %d is not known", tensor.elem_type);
    out->kind = TYPE_TENSOR;
    out->dtype = (tn_dtype)tensor.elem_type;
    out->shape = shape_unknown();
    if (!tensor.shape.s) return TN_OK;
    onnx_TensorShapeProto shape;
    TRY(proto_read(&r->proto, tensor.shape, onnx_TensorShapeProto, &shape));
    if (shape.dim.len > TN_MAX_RANK)
        return fail(TN_LIMIT, "a tensor of %zu dimensions; at most %d are possible", shape.dim.len, TN_MAX_RANK);
    out->shape.rank = (int32_t)shape.dim.len;
    for (size_t i = 0; i < shape.dim.len; i++) TRY(read_dim(r, shape.dim.data[i], &out->shape.dims[i]));
    return TN_OK;
}

static tn_status read_type(OnnxReader *r, Str bytes, uint32_t depth, const Type **out);

static tn_status read_wrapped(OnnxReader *r, Str bytes, TypeKind kind, uint32_t depth, Type *out) {
    onnx_TypeProto_Wrapper wrapper;
    TRY(proto_read(&r->proto, bytes, onnx_TypeProto_Wrapper, &wrapper));
    out->kind = kind;
    return read_type(r, wrapper.elem_type, depth + 1, &out->elem);
}

static tn_status read_map_type(OnnxReader *r, Str bytes, uint32_t depth, Type *out) {
    onnx_TypeProto_Map map;
    TRY(proto_read(&r->proto, bytes, onnx_TypeProto_Map, &map));
    if (dtype_bits((tn_dtype)map.key_type) == 0) return fail(TN_UNSUPPORTED, "key type %d is not known", map.key_type);
    out->kind = TYPE_MAP;
    out->dtype = (tn_dtype)map.key_type;
    return read_type(r, map.value_type, depth + 1, &out->elem);
}

static tn_status read_type(OnnxReader *r, Str bytes, uint32_t depth, const Type **out) {
    onnx_TypeProto proto;
    Type type = {.kind = TYPE_TENSOR, .shape = shape_unknown()};
    if (depth > r->ctx->limits.max_nesting)
        return fail(TN_LIMIT, "types are nested more than %u deep", r->ctx->limits.max_nesting);
    TRY(proto_read(&r->proto, bytes, onnx_TypeProto, &proto));
    if (proto.tensor_type.s) TRY(read_tensor_type(r, proto.tensor_type, &type));
    else if (proto.sparse_tensor_type.s) return fail(TN_UNSUPPORTED, "sparse tensors are supported as constants only");
    else if (proto.sequence_type.s) TRY(read_wrapped(r, proto.sequence_type, TYPE_SEQUENCE, depth, &type));
    else if (proto.optional_type.s) TRY(read_wrapped(r, proto.optional_type, TYPE_OPTIONAL, depth, &type));
    else if (proto.map_type.s) TRY(read_map_type(r, proto.map_type, depth, &type));
    *out = type_intern(r->model, &type);
    return *out ? TN_OK : TN_OUT_OF_MEMORY;
}

tn_status onnx_read_type(OnnxReader *r, Str bytes, const Type **out) { return read_type(r, bytes, 0, out); }

tn_status onnx_read_value_info(OnnxReader *r, Str bytes, onnx_ValueInfoProto *out) {
    return proto_read(&r->proto, bytes, onnx_ValueInfoProto, out);
}

/* Operands' types as far as they are known while the model is read. */
static InferValue infer_value(const Value *value) {
    if (!value) return (InferValue){.shape = shape_unknown()};
    const Type *type = value->type;
    return (InferValue){.present = true,
                        .kind = type->kind,
                        .dtype = type->dtype,
                        .shape = type->kind == TYPE_TENSOR ? type->shape : shape_unknown(),
                        .elem = type->elem,
                        .value = value_constant(value)};
}

/* What is wrong with a node is found again, and reported, when the whole model is inferred. */
static tn_status overlook(tn_status status) {
    if (status == TN_OUT_OF_MEMORY) return status;
    diag_clear();
    return TN_OK;
}

tn_status onnx_infer_node(OnnxReader *r, Node *node) {
    if (node_graph(node, 0)) return TN_OK;
    InferValue *in = arena_array(&r->arena, InferValue, node->n_operands);
    InferValue *out = arena_array(&r->arena, InferValue, node->n_results);
    if (!in || !out) return TN_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < node->n_operands; i++) in[i] = infer_value(node_operand(node, i));
    tn_status status = op_infer(node, r->model, in, out, NULL);
    if (status != TN_OK) return overlook(status);
    for (uint32_t i = 0; i < node->n_results; i++) {
        if (out[i].kind != TYPE_TENSOR) continue;
        const Type *type = type_tensor(r->model, out[i].dtype, &out[i].shape);
        if (!type) return TN_OUT_OF_MEMORY;
        node->results[i]->type = type;
    }
    return TN_OK;
}

static bool says_little(const Type *type) {
    return type->kind == TYPE_TENSOR && (type->dtype == TN_UNDEFINED || type->shape.rank < 0);
}

/* Exporters declare wrong types: where they contradict what inference found, that stands. */
static tn_status apply_hint(OnnxReader *r, const TypeHint *hint, bool *changed) {
    const Type *said, *merged;
    tn_status status = onnx_read_type(r, hint->type, &said);
    if (status == TN_OK) status = type_merge(r->model, hint->value->type, said, &merged);
    if (status != TN_OK) return overlook(status);
    if (merged != hint->value->type) *changed = true;
    hint->value->type = merged;
    return TN_OK;
}

/* Values that inference leaves open get what the file says of them. */
static tn_status apply_hints(OnnxReader *r, bool outputs, bool *changed) {
    for (size_t i = 0; i < r->hints.len; i++) {
        const TypeHint *hint = &r->hints.data[i];
        if (hint->output == outputs && (outputs || says_little(hint->value->type))) TRY(apply_hint(r, hint, changed));
    }
    return TN_OK;
}

tn_status onnx_infer(OnnxReader *r) {
    bool changed = false;
    TRY(infer_model(r->model));
    TRY(apply_hints(r, false, &changed));
    if (changed) TRY(infer_model(r->model));
    return apply_hints(r, true, &changed);
}
