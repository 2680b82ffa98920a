/* SPDX-License-Identifier: Apache-2.0 */
/* include/tenon/graph.h over the IR: handles are the IR's own objects. */
#include "ops/op.h"
#include "session/session.h"

static Graph *graph_of(const tn_graph *g) { return (Graph *)g; }
static Node *node_of(const tn_node *n) { return (Node *)n; }
static Value *value_of(const tn_value *v) { return (Value *)v; }
static const char *text_of(Str s) { return s.s ? s.s : ""; }

/* ---- text ---------------------------------------------------------------------------------------------------- */

tn_status give_text(tn_status status, Text *text, char **out) {
    if (status == TN_OK) status = text->status;
    if (status == TN_OK) {
        *out = mem_alloc(&allocator_default, text->n + 1, 1);
        if (!*out) status = TN_OUT_OF_MEMORY;
        if (status == TN_OK && text->n) memcpy(*out, text->s, text->n);
    }
    text_free(text);
    return status;
}

tn_status tn_model_text(const tn_model *model, char **text) {
    if (!model || !text) return fail(TN_INVALID_ARGUMENT, "model or text is NULL");
    Text t;
    text_init(&t, &model->ctx->allocator);
    return give_text(model_print(model->ir, NULL, &t), &t, text);
}

tn_status tn_model_dot(const tn_model *model, char **text) {
    if (!model || !text) return fail(TN_INVALID_ARGUMENT, "model or text is NULL");
    Text t;
    text_init(&t, &model->ctx->allocator);
    return give_text(model_dot(model->ir, &t), &t, text);
}

tn_status tn_value_text(const tn_value *value, char **text) {
    if (!value || !text) return fail(TN_INVALID_ARGUMENT, "value or text is NULL");
    Text t;
    text_init(&t, &value_of(value)->graph->model->ctx->allocator);
    return give_text(value_print(value_of(value), NULL, &t), &t, text);
}

tn_status tn_model_from_text(tn_context *context, const char *text, tn_model **model) {
    if (!context || !text || !model) return fail(TN_INVALID_ARGUMENT, "context, text or model is NULL");
    Model *ir;
    TRY(model_parse(context_of(context), str_of(text), NULL, STR("text"), &ir));
    tn_status status = infer_model(ir);
    if (status == TN_OK) return model_handle(context_of(context), ir, model);
    model_free(ir);
    return status;
}

tn_status tn_model_new(tn_context *context, const char *name, tn_model **model) {
    if (!context || !model) return fail(TN_INVALID_ARGUMENT, "context or model is NULL");
    Model *ir;
    TRY(model_new(context_of(context), &ir));
    if (name && !(ir->main->name = model_str(ir, str_of(name))).s) {
        model_free(ir);
        return TN_OUT_OF_MEMORY;
    }
    return model_handle(context_of(context), ir, model);
}

tn_status tn_model_clone(const tn_model *model, tn_model **copy) {
    if (!model || !copy) return fail(TN_INVALID_ARGUMENT, "model or copy is NULL");
    Model *ir;
    TRY(model_clone(model->ir, &ir));
    TRY(model_handle(model->ctx, ir, copy));
    atomic_store(&(*copy)->exposed, atomic_load(&model->exposed));
    return TN_OK;
}

tn_status tn_model_verify(const tn_model *model) {
    return model ? model_verify(model->ir) : fail(TN_INVALID_ARGUMENT, "model is NULL");
}

tn_status tn_model_infer(tn_model *model) {
    if (!model) return fail(TN_INVALID_ARGUMENT, "model is NULL");
    TRY(model_verify(model->ir)); /* inference relies on what it checks */
    return infer_model(model->ir);
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

tn_graph *tn_model_graph(const tn_model *model) {
    if (!model) return NULL;
    atomic_store(&((tn_model *)model)->exposed, true);
    return (tn_graph *)model->ir->main;
}
const char *tn_graph_name(const tn_graph *graph) { return graph ? text_of(graph_of(graph)->name) : ""; }
size_t tn_graph_n_inputs(const tn_graph *graph) { return graph ? graph_of(graph)->inputs.len : 0; }

tn_value *tn_graph_input(const tn_graph *graph, size_t i) {
    return i < tn_graph_n_inputs(graph) ? (tn_value *)graph_of(graph)->inputs.data[i] : NULL;
}

size_t tn_graph_n_outputs(const tn_graph *graph) { return graph ? graph_n_outputs(graph_of(graph)) : 0; }

tn_value *tn_graph_output(const tn_graph *graph, size_t i) {
    return i < tn_graph_n_outputs(graph) ? (tn_value *)graph_output(graph_of(graph), i) : NULL;
}

size_t tn_graph_n_nodes(const tn_graph *graph) { return graph ? graph_of(graph)->n_nodes : 0; }
tn_node *tn_graph_first(const tn_graph *graph) { return graph ? (tn_node *)graph_of(graph)->first : NULL; }
tn_node *tn_node_next(const tn_node *node) { return node ? (tn_node *)node_of(node)->next : NULL; }
tn_graph *tn_node_owner(const tn_node *node) { return node ? (tn_graph *)node_of(node)->graph : NULL; }
const char *tn_node_op(const tn_node *node) { return node ? node_of(node)->op->name : ""; }

const char *tn_node_domain(const tn_node *node) {
    return node && node_of(node)->op->domain ? node_of(node)->op->domain : "";
}

const char *tn_node_name(const tn_node *node) { return node ? text_of(node_of(node)->loc) : ""; }
size_t tn_node_n_operands(const tn_node *node) { return node ? node_of(node)->n_operands : 0; }
tn_value *tn_node_operand(const tn_node *node, size_t i) {
    return node ? (tn_value *)node_operand(node_of(node), i) : NULL;
}
size_t tn_node_n_results(const tn_node *node) { return node ? node_of(node)->n_results : 0; }
tn_value *tn_node_result(const tn_node *node, size_t i) {
    return node ? (tn_value *)node_result(node_of(node), i) : NULL;
}
tn_graph *tn_node_graph(const tn_node *node, size_t k) {
    return node ? (tn_graph *)node_graph(node_of(node), k) : NULL;
}
size_t tn_node_n_attrs(const tn_node *node) { return node ? node_of(node)->n_attrs : 0; }

const char *tn_node_attr_name(const tn_node *node, size_t i) {
    return i < tn_node_n_attrs(node) ? text_of(node_of(node)->attrs[i].name) : NULL;
}

/* The node's own attribute or, where it has none, the schema's row; exactly one is set on success. */
static tn_status find_attr(const tn_node *node, const char *name, AttrKind kind, const Attr **attr,
                           const AttrSpec **spec) {
    if (!node || !name) return fail(TN_INVALID_ARGUMENT, "node or name is NULL");
    *attr = node_attr(node_of(node), str_of(name));
    *spec = *attr ? NULL : op_attr_spec(node_of(node)->op, str_of(name));
    if (!*attr && (!*spec || (*spec)->flags & ATTR_REQUIRED))
        return fail(TN_NOT_FOUND, "%s has no attribute \"%s\"", node_of(node)->op->name, name);
    if ((*attr ? (*attr)->kind : (*spec)->kind) != kind)
        return fail(TN_INVALID_ARGUMENT, "attribute \"%s\" of %s is of another kind", name, node_of(node)->op->name);
    return TN_OK;
}

tn_status tn_node_get_int(const tn_node *node, const char *name, int64_t *value) {
    const Attr *attr;
    const AttrSpec *spec;
    TRY(find_attr(node, name, ATTR_INT, &attr, &spec));
    *value = attr ? attr->i : spec->i;
    return TN_OK;
}

tn_status tn_node_get_float(const tn_node *node, const char *name, double *value) {
    const Attr *attr;
    const AttrSpec *spec;
    TRY(find_attr(node, name, ATTR_FLOAT, &attr, &spec));
    *value = attr ? (double)attr->f : spec->f;
    return TN_OK;
}

tn_status tn_node_get_string(const tn_node *node, const char *name, const char **text, size_t *length) {
    const Attr *attr;
    const AttrSpec *spec;
    TRY(find_attr(node, name, ATTR_STRING, &attr, &spec));
    Str s = attr ? attr->s : str_of(spec->s ? spec->s : "");
    *text = text_of(s);
    if (length) *length = s.n;
    return TN_OK;
}

tn_status tn_node_get_ints(const tn_node *node, const char *name, const int64_t **values, size_t *n) {
    const Attr *attr;
    const AttrSpec *spec;
    TRY(find_attr(node, name, ATTR_INTS, &attr, &spec));
    *values = attr ? attr->ints : NULL;
    *n = attr ? attr->n : 0;
    return TN_OK;
}

const char *tn_value_name(const tn_value *value) { return value ? text_of(value_of(value)->name) : ""; }
tn_node *tn_value_def(const tn_value *value) { return value ? (tn_node *)value_of(value)->def : NULL; }
tn_graph *tn_value_owner(const tn_value *value) { return value ? (tn_graph *)value_of(value)->graph : NULL; }

size_t tn_value_n_uses(const tn_value *value) {
    size_t n = 0;
    for (const Use *u = value ? value_of(value)->uses : NULL; u; u = u->next) n++;
    return n;
}

tn_status tn_value_get_info(const tn_value *value, tn_value_info *info) {
    if (!value || !info) return fail(TN_INVALID_ARGUMENT, "value or info is NULL");
    const Value *v = value_of(value);
    fill_value_info(v->graph->model, v->name, v->type, info);
    return TN_OK;
}

/* Becomes a tensor that callers can read as it lies. */
static tn_status make_plain(Context *ctx, Tensor *t) {
    Tensor plain;
    if (t->buffer && tensor_is_dense(t) && t->offset == 0 && !tensor_is_misaligned(t)) return TN_OK;
    TRY(tensor_new(ctx, t->dtype, t->rank, t->dims, &plain));
    tn_status status = copy_dense(t, plain.data, 0, ctx->pool);
    tensor_release(status == TN_OK ? t : &plain);
    if (status == TN_OK) *t = plain;
    return status;
}

tn_tensor *payload_handle(Context *ctx, const Tensor *payload) {
    Tensor t;
    tn_tensor *out = NULL;
    if (!payload) return NULL;
    payload_hold(payload, &t);
    bool made = buffer_keep(t.buffer) == TN_OK && make_plain(ctx, &t) == TN_OK && tensor_handle(ctx, &t, &out) == TN_OK;
    if (!made) tensor_release(&t);
    return made ? out : NULL;
}

tn_tensor *tn_value_constant(const tn_value *value) {
    return value ? payload_handle(value_of(value)->graph->model->ctx, value_constant(value_of(value))) : NULL;
}

/* ---- changing ------------------------------------------------------------------------------------------------ */

tn_status tn_graph_add_input(tn_graph *graph, const char *name, tn_dtype dtype, int rank, const int64_t *dims,
                             tn_value **value) {
    if (!graph || !name || !value || (rank > 0 && !dims)) return fail(TN_INVALID_ARGUMENT, "an argument is NULL");
    if (rank > TN_MAX_RANK) return fail(TN_SHAPE, "rank %d is more than %d", rank, TN_MAX_RANK);
    Shape s = shape_unknown();
    if (rank >= 0) s.rank = rank;
    for (int i = 0; i < rank; i++) s.dims[i] = dims[i] < 0 ? DIM_UNKNOWN : dims[i];
    Model *model = graph_of(graph)->model;
    const Type *type = type_tensor(model, dtype, &s);
    if (!type) return TN_OUT_OF_MEMORY;
    return graph_add_input(graph_of(graph), str_of(name), type, (Value **)value);
}

tn_status tn_graph_add_input_typed(tn_graph *graph, const char *name, const char *type, tn_value **value) {
    if (!graph || !name || !type || !value) return fail(TN_INVALID_ARGUMENT, "an argument is NULL");
    const Type *parsed;
    TRY(type_parse(graph_of(graph)->model, str_of(type), &parsed));
    return graph_add_input(graph_of(graph), str_of(name), parsed, (Value **)value);
}

tn_status tn_graph_new_nested(tn_graph *around, const char *name, tn_graph **graph) {
    if (!around || !graph) return fail(TN_INVALID_ARGUMENT, "around or graph is NULL");
    return graph_new_nested(graph_of(around), str_of(name ? name : ""), (Graph **)graph);
}

tn_status tn_graph_erase(tn_graph *graph) {
    if (!graph) return fail(TN_INVALID_ARGUMENT, "graph is NULL");
    if (graph_of(graph) == graph_of(graph)->model->main)
        return fail(TN_INVALID_ARGUMENT, "the main graph of a model cannot be erased");
    if (graph_of(graph)->owner)
        return fail(TN_STATE, "a node holds the graph: take it out with tn_node_take_graph first, or erase the node");
    graph_erase(graph_of(graph));
    return TN_OK;
}

tn_status tn_graph_add_output(tn_graph *graph, tn_value *value, const char *name) {
    if (!graph || !value) return fail(TN_INVALID_ARGUMENT, "graph or value is NULL");
    if (!value_visible_in(value_of(value), graph_of(graph)))
        return fail(TN_INVALID_ARGUMENT, "the value is not visible in this graph");
    return graph_add_output(graph_of(graph), value_of(value), str_of(name ? name : ""));
}

tn_status tn_graph_add_constant(tn_graph *graph, const tn_tensor *tensor, const char *name, tn_value **value) {
    if (!graph || !tensor || !value) return fail(TN_INVALID_ARGUMENT, "an argument is NULL");
    Graph *g = graph_of(graph);
    Tensor *payload;
    Node *node;
    TRY(model_tensor(g->model, &payload));
    *payload = tensor->t;
    buffer_ref(payload->buffer);
    TRY(const_new(g, payload, str_of(name ? name : ""), &node));
    node_append(node);
    *value = (tn_value *)node->results[0];
    Shape s = shape_make(payload->rank, payload->dims);
    const Type *type = type_tensor(g->model, payload->dtype, &s);
    if (!type) return TN_OUT_OF_MEMORY;
    node->results[0]->type = type;
    return TN_OK;
}

tn_status tn_graph_add_node(tn_graph *graph, const char *op, tn_value *const *operands, size_t n_operands,
                            size_t n_results, tn_node *before, tn_node **node) {
    if (!graph || !op || !node || (n_operands && !operands)) return fail(TN_INVALID_ARGUMENT, "an argument is NULL");
    const OpSchema *schema = op_named(str_of(op));
    OpHint hint;
    if (!schema) return fail(TN_UNSUPPORTED, "there is no op \"%s\"%s", op, op_hint(str_of(op), &hint));
    for (size_t i = 0; i < n_operands; i++)
        if (operands[i] && !value_visible_in(value_of(operands[i]), graph_of(graph)))
            return fail(TN_INVALID_ARGUMENT, "operand %zu of %s is not visible in this graph", i, op);
    if (before && node_of(before)->graph != graph_of(graph))
        return fail(TN_INVALID_ARGUMENT, "the node to stand before is in another graph");
    Node *made;
    TRY(node_new(graph_of(graph), schema, (Value *const *)operands, n_operands, n_results, &made));
    if (before) node_insert_before(made, node_of(before));
    else node_append(made);
    *node = (tn_node *)made;
    return TN_OK;
}

tn_status tn_node_set_int(tn_node *node, const char *name, int64_t value) {
    return node && name ? node_set_int(node_of(node), name, value) : fail(TN_INVALID_ARGUMENT, "an argument is NULL");
}

tn_status tn_node_set_float(tn_node *node, const char *name, double value) {
    return node && name ? node_set_float(node_of(node), name, (float)value)
                        : fail(TN_INVALID_ARGUMENT, "an argument is NULL");
}

tn_status tn_node_set_string(tn_node *node, const char *name, const char *text, size_t length) {
    if (!node || !name || (length && !text)) return fail(TN_INVALID_ARGUMENT, "an argument is NULL");
    return node_set_string(node_of(node), name, (Str){text, length});
}

tn_status tn_node_set_ints(tn_node *node, const char *name, const int64_t *values, size_t n) {
    if (!node || !name || (n && !values)) return fail(TN_INVALID_ARGUMENT, "an argument is NULL");
    return node_set_ints(node_of(node), name, values, n);
}

tn_status tn_node_set_operand(tn_node *node, size_t i, tn_value *value) {
    if (!node || i >= node_of(node)->n_operands) return fail(TN_OUT_OF_RANGE, "the node has no operand %zu", i);
    if (value && !value_visible_in(value_of(value), node_of(node)->graph))
        return fail(TN_INVALID_ARGUMENT, "the value is not visible in the node's graph");
    return node_set_operand(node_of(node), i, value_of(value));
}

tn_status tn_value_rename(tn_value *value, const char *name) {
    return value && name ? value_set_name(value_of(value), str_of(name))
                         : fail(TN_INVALID_ARGUMENT, "an argument is NULL");
}

tn_status tn_value_replace(tn_value *value, tn_value *with) {
    if (!value || !with || value_of(value)->graph->model != value_of(with)->graph->model)
        return fail(TN_INVALID_ARGUMENT, "a value is NULL or of another model");
    value_replace(value_of(value), value_of(with));
    return TN_OK;
}

tn_status tn_node_erase(tn_node *node) {
    if (!node) return fail(TN_INVALID_ARGUMENT, "node is NULL");
    const Node *n = node_of(node);
    for (uint32_t i = 0; i < n->n_results; i++)
        if (n->results[i]->uses) return fail(TN_STATE, "result %u of the node is still read: replace it first", i);
    node_erase(node_of(node));
    return TN_OK;
}

bool tn_node_is_alive(const tn_node *node) { return node && node_of(node)->graph; }
bool tn_graph_is_alive(const tn_graph *graph) { return graph && graph_is_alive(graph_of(graph)); }

bool tn_value_is_alive(const tn_value *value) {
    if (!value) return false;
    const Value *v = value_of(value);
    return v->def ? v->def->graph != NULL : graph_is_alive(v->graph);
}
