/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, nodes, attributes and types as protobuf messages. */
#include "formats/onnx/write_int.h"

/* One object to put, with what it belongs to. */
typedef struct Put {
    const OnnxWriter *w;
    const void *item;
    Str name;
} Put;

/* ---- types ---------------------------------------------------------------------------------------------------- */

typedef struct DimPut {
    const Model *model;
    Dim dim;
} DimPut;

static bool put_dim(pb_ostream_t *out, const void *arg) {
    const DimPut *put = arg;
    if (dim_is_const(put->dim)) return proto_put_int(out, onnx_TensorShapeProto_Dimension_dim_value_tag, put->dim);
    if (put->dim == DIM_UNKNOWN) return true;
    /* ONNX has names only: an expression becomes the name that its text is */
    Text text;
    text_init(&text, &put->model->ctx->allocator);
    dim_print(&put->model->dims, put->dim, &text);
    bool ok = text.status == TN_OK &&
              proto_put_text(out, onnx_TensorShapeProto_Dimension_dim_param_tag, (Str){text.s, text.n});
    text_free(&text);
    return ok;
}

static bool put_shape(pb_ostream_t *out, const void *arg) {
    const Put *put = arg;
    const Type *type = put->item;
    for (int i = 0; i < type->shape.rank; i++) {
        DimPut dim = {put->w->model, type->shape.dims[i]};
        if (!proto_put_message(out, onnx_TensorShapeProto_dim_tag, put_dim, &dim)) return false;
    }
    return true;
}

static bool put_tensor_type(pb_ostream_t *out, const void *arg) {
    const Put *put = arg;
    const Type *type = put->item;
    if (!proto_put_int(out, onnx_TypeProto_Tensor_elem_type_tag, type->dtype)) return false;
    return type->shape.rank < 0 || proto_put_message(out, onnx_TypeProto_Tensor_shape_tag, put_shape, put);
}

static bool put_type(pb_ostream_t *out, const void *arg);

static bool put_wrapper(pb_ostream_t *out, const void *arg) {
    const Put *put = arg;
    const Type *type = put->item;
    Put elem = {put->w, type->elem, {NULL, 0}};
    if (type->kind == TYPE_MAP)
        return proto_put_int(out, onnx_TypeProto_Map_key_type_tag, type->dtype) &&
               (!type->elem || proto_put_message(out, onnx_TypeProto_Map_value_type_tag, put_type, &elem));
    return !type->elem || proto_put_message(out, onnx_TypeProto_Wrapper_elem_type_tag, put_type, &elem);
}

static bool put_type(pb_ostream_t *out, const void *arg) {
    const Type *type = ((const Put *)arg)->item;
    switch (type->kind) {
    case TYPE_SEQUENCE: return proto_put_message(out, onnx_TypeProto_sequence_type_tag, put_wrapper, arg);
    case TYPE_OPTIONAL: return proto_put_message(out, onnx_TypeProto_optional_type_tag, put_wrapper, arg);
    case TYPE_MAP: return proto_put_message(out, onnx_TypeProto_map_type_tag, put_wrapper, arg);
    case TYPE_TENSOR: break;
    }
    return proto_put_message(out, onnx_TypeProto_tensor_type_tag, put_tensor_type, arg);
}

static bool put_value_info(pb_ostream_t *out, const void *arg) {
    const Put *put = arg;
    const Value *value = put->item;
    Put type = {put->w, value->type, {NULL, 0}};
    if (!proto_put_text(out, onnx_ValueInfoProto_name_tag, put->name)) return false;
    if (value->type->kind == TYPE_TENSOR && value->type->dtype == TN_UNDEFINED) return true;
    return proto_put_message(out, onnx_ValueInfoProto_type_tag, put_type, &type);
}

/* ---- attributes ----------------------------------------------------------------------------------------------- */

static bool put_graph(pb_ostream_t *out, const void *arg);

static bool put_one_tensor(pb_ostream_t *out, uint32_t tag, const Tensor *tensor, const OnnxWriter *w) {
    TensorPut put = {.tensor = tensor, .writer = w};
    return proto_put_message(out, tag, onnx_put_tensor, &put);
}

static bool put_item(pb_ostream_t *out, const OnnxWriter *w, const Attr *a, size_t i) {
    Put put = {.w = w};
    switch (a->kind) {
    case ATTR_INT: return proto_put_int(out, onnx_AttributeProto_i_tag, a->i);
    case ATTR_FLOAT: return proto_put_float(out, onnx_AttributeProto_f_tag, a->f);
    case ATTR_STRING: return proto_put_text(out, onnx_AttributeProto_s_tag, a->s);
    case ATTR_TENSOR: return put_one_tensor(out, onnx_AttributeProto_t_tag, a->tensor, w);
    case ATTR_GRAPH: put.item = a->graph; return proto_put_message(out, onnx_AttributeProto_g_tag, put_graph, &put);
    case ATTR_TYPE: put.item = a->type; return proto_put_message(out, onnx_AttributeProto_tp_tag, put_type, &put);
    case ATTR_INTS: return proto_put_int(out, onnx_AttributeProto_ints_tag, a->ints[i]);
    case ATTR_FLOATS: return proto_put_float(out, onnx_AttributeProto_floats_tag, a->floats[i]);
    case ATTR_STRINGS: return proto_put_text(out, onnx_AttributeProto_strings_tag, a->strings[i]);
    case ATTR_TENSORS: return put_one_tensor(out, onnx_AttributeProto_tensors_tag, a->tensors[i], w);
    case ATTR_GRAPHS:
        put.item = a->graphs[i];
        return proto_put_message(out, onnx_AttributeProto_graphs_tag, put_graph, &put);
    case ATTR_TYPES:
        put.item = a->types[i];
        return proto_put_message(out, onnx_AttributeProto_type_protos_tag, put_type, &put);
    case ATTR_INT_LISTS: break;
    }
    return false;
}

static bool put_attr(pb_ostream_t *out, const void *arg) {
    static const uint8_t types[] = {
        [ATTR_INT] = onnx_AttributeProto_AttributeType_INT,
        [ATTR_FLOAT] = onnx_AttributeProto_AttributeType_FLOAT,
        [ATTR_STRING] = onnx_AttributeProto_AttributeType_STRING,
        [ATTR_TENSOR] = onnx_AttributeProto_AttributeType_TENSOR,
        [ATTR_GRAPH] = onnx_AttributeProto_AttributeType_GRAPH,
        [ATTR_TYPE] = onnx_AttributeProto_AttributeType_TYPE_PROTO,
        [ATTR_INTS] = onnx_AttributeProto_AttributeType_INTS,
        [ATTR_FLOATS] = onnx_AttributeProto_AttributeType_FLOATS,
        [ATTR_STRINGS] = onnx_AttributeProto_AttributeType_STRINGS,
        [ATTR_TENSORS] = onnx_AttributeProto_AttributeType_TENSORS,
        [ATTR_GRAPHS] = onnx_AttributeProto_AttributeType_GRAPHS,
        [ATTR_TYPES] = onnx_AttributeProto_AttributeType_TYPE_PROTOS,
        [ATTR_INT_LISTS] = 0,
    };
    const Put *put = arg;
    const Attr *a = put->item;
    if (!proto_put_text(out, onnx_AttributeProto_name_tag, a->name)) return false;
    if (!proto_put_int(out, onnx_AttributeProto_type_tag, types[a->kind])) return false;
    size_t n = a->kind < ATTR_INTS ? 1 : a->n;
    for (size_t i = 0; i < n; i++) {
        if (!put_item(out, put->w, a, i)) return false;
    }
    return true;
}

/* ---- nodes ---------------------------------------------------------------------------------------------------- */

static bool put_node(pb_ostream_t *out, const void *arg) {
    const Put *put = arg;
    const Node *node = put->item;
    const Str *names = put->w->names;
    size_t n_in = node->n_operands, n_out = node->n_results;
    while (n_in && !node_operand(node, n_in - 1)) n_in--;
    while (n_out && !names[node->results[n_out - 1]->id].n) n_out--;
    for (size_t i = 0; i < n_in; i++) {
        const Value *value = node_operand(node, i);
        if (!proto_put_text(out, onnx_NodeProto_input_tag, value ? names[value->id] : (Str){"", 0})) return false;
    }
    for (size_t i = 0; i < n_out; i++) {
        if (!proto_put_text(out, onnx_NodeProto_output_tag, names[node->results[i]->id])) return false;
    }
    Str loc = put->w->locs[node->id];
    if (loc.n && !proto_put_text(out, onnx_NodeProto_name_tag, loc)) return false;
    if (!proto_put_text(out, onnx_NodeProto_op_type_tag, str_of(node->op->name))) return false;
    for (size_t i = 0; i < node->n_attrs; i++) {
        Put attr = {put->w, &node->attrs[i], {NULL, 0}};
        if (!proto_put_message(out, onnx_NodeProto_attribute_tag, put_attr, &attr)) return false;
    }
    return !node->op->domain || proto_put_text(out, onnx_NodeProto_domain_tag, str_of(node->op->domain));
}

static bool put_copy(pb_ostream_t *out, const void *arg) {
    const OutputCopy *copy = arg;
    return proto_put_text(out, onnx_NodeProto_input_tag, copy->from) &&
           proto_put_text(out, onnx_NodeProto_output_tag, copy->to) &&
           proto_put_text(out, onnx_NodeProto_op_type_tag, STR("Identity"));
}

/* ---- graphs --------------------------------------------------------------------------------------------------- */

static bool put_constants(pb_ostream_t *out, const OnnxWriter *w, const Graph *graph) {
    for (const Node *node = graph->first; node; node = node->next) {
        if (!is_const(node)) continue;
        const Value *value = node->results[0];
        uint64_t offset = w->offsets ? w->offsets[value->id] : 0;
        TensorPut put = {value_constant(value), w->names[value->id], w, offset > 0, offset ? offset - 1 : 0};
        if (!proto_put_message(out, onnx_GraphProto_initializer_tag, onnx_put_tensor, &put)) return false;
    }
    for (size_t i = 0; i < graph->inputs.len; i++) {
        TensorPut put = {.tensor = graph_input_default(graph, i), .writer = w};
        put.name = w->names[graph->inputs.data[i]->id];
        if (put.tensor && !proto_put_message(out, onnx_GraphProto_initializer_tag, onnx_put_tensor, &put)) return false;
    }
    return true;
}

static bool put_nodes(pb_ostream_t *out, const OnnxWriter *w, const GraphPlan *plan) {
    for (const Node *node = plan->graph->first; node; node = node->next) {
        Put put = {w, node, {NULL, 0}};
        if (!is_const(node) && !proto_put_message(out, onnx_GraphProto_node_tag, put_node, &put)) return false;
    }
    for (size_t i = 0; i < plan->n_copies; i++) {
        if (!proto_put_message(out, onnx_GraphProto_node_tag, put_copy, &plan->copies[i])) return false;
    }
    return true;
}

static bool put_graph(pb_ostream_t *out, const void *arg) {
    const OnnxWriter *w = ((const Put *)arg)->w;
    const Graph *graph = ((const Put *)arg)->item;
    const GraphPlan *plan = onnx_graph_plan(w, graph);
    if (!put_nodes(out, w, plan)) return false;
    if (!proto_put_text(out, onnx_GraphProto_name_tag, graph->name.n ? graph->name : STR("graph"))) return false;
    if (!put_constants(out, w, graph)) return false;
    for (size_t i = 0; i < graph->inputs.len; i++) {
        Put input = {w, graph->inputs.data[i], w->names[graph->inputs.data[i]->id]};
        if (!proto_put_message(out, onnx_GraphProto_input_tag, put_value_info, &input)) return false;
    }
    for (size_t i = 0; i < graph_n_outputs(graph); i++) {
        Put output = {w, graph_output(graph, i), plan->outputs[i]};
        if (!proto_put_message(out, onnx_GraphProto_output_tag, put_value_info, &output)) return false;
    }
    return true;
}

/* ---- the model ------------------------------------------------------------------------------------------------ */

static bool put_opset(pb_ostream_t *out, const void *arg) {
    const Opset *opset = arg;
    return proto_put_text(out, onnx_OperatorSetIdProto_domain_tag, opset->domain) &&
           proto_put_int(out, onnx_OperatorSetIdProto_version_tag, opset->version);
}

static bool put_property(pb_ostream_t *out, const void *arg) {
    const Str *pair = arg;
    return proto_put_text(out, onnx_StringStringEntryProto_key_tag, pair[0]) &&
           proto_put_text(out, onnx_StringStringEntryProto_value_tag, pair[1]);
}

/* Fields of the model that the reader keeps as properties. */
static const struct {
    Str key;
    uint32_t tag; /* 0: not written from there */
} fields[] = {
    {{"ir_version", 10}, 0},
    {{"opset", 5}, 0},
    {{"model_version", 13}, 0},
    {{"producer_name", 13}, onnx_ModelProto_producer_name_tag},
    {{"producer_version", 16}, onnx_ModelProto_producer_version_tag},
    {{"domain", 6}, onnx_ModelProto_domain_tag},
    {{"doc_string", 10}, onnx_ModelProto_doc_string_tag},
};

static bool put_metadata(pb_ostream_t *out, const Model *model) {
    for (size_t i = 0; i + 1 < model->metadata.len; i += 2) {
        const Str *pair = &model->metadata.data[i];
        bool field = pair->n > 6 && memcmp(pair->s, "opset ", 6) == 0;
        for (size_t k = 0; k < sizeof fields / sizeof *fields && !field; k++) {
            if (!str_equal(fields[k].key, *pair)) continue;
            field = true;
            if (fields[k].tag && !proto_put_text(out, fields[k].tag, pair[1])) return false;
        }
        if (!field && !proto_put_message(out, onnx_ModelProto_metadata_props_tag, put_property, pair)) return false;
    }
    if (model_metadata(model, STR("producer_name")).n) return true;
    return proto_put_text(out, onnx_ModelProto_producer_name_tag, STR("tenon"));
}

bool onnx_put_model(pb_ostream_t *out, const void *arg) {
    const OnnxWriter *w = arg;
    Put graph = {w, w->model->main, {NULL, 0}};
    Opset own = {{"", 0}, w->opset};
    if (!proto_put_int(out, onnx_ModelProto_ir_version_tag, onnx_ir_version(w->opset))) return false;
    if (!put_metadata(out, w->model)) return false;
    if (!proto_put_message(out, onnx_ModelProto_graph_tag, put_graph, &graph)) return false;
    if (!proto_put_message(out, onnx_ModelProto_opset_import_tag, put_opset, &own)) return false;
    for (size_t i = 0; i < w->opsets.n; i++) {
        if (!proto_put_message(out, onnx_ModelProto_opset_import_tag, put_opset, &w->opsets.data[i])) return false;
    }
    return true;
}
