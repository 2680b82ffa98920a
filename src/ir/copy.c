/* SPDX-License-Identifier: Apache-2.0 */
/* Copies graphs into a model: what inlining, cloning and mutating share. Its stack is its own, so nesting costs no C
   stack. */
#include "ir/ir_int.h"

void copier_init(Copier *c, const Model *from, Model *to) {
    const Allocator *a = model_allocator(to);
    *c = (Copier){.from = from, .to = to, .allocator = a};
    c->values.allocator = c->types.allocator = c->tensors.allocator = a;
}

void copier_free(Copier *c) {
    ptrmap_free(&c->values);
    mem_free(c->allocator, c->by_id, c->n_ids * sizeof *c->by_id);
    ptrmap_free(&c->types);
    ptrmap_free(&c->tensors);
    vec_free(c->allocator, &c->stack);
    vec_free(c->allocator, &c->operands);
}

/* ---- values, types, payloads --------------------------------------------------------------------------------- */

static Value bound_to_nothing;

tn_status copier_bind(Copier *c, const Value *old, Value *value) {
    if (!c->by_id) return ptrmap_set(&c->values, old, value);
    c->by_id[old->id] = value ? value : &bound_to_nothing;
    return TN_OK;
}

static bool is_bound(const Copier *c, const Value *old, Value **out) {
    *out = NULL;
    if (c->by_id) {
        Value *found = c->by_id[old->id];
        if (found != &bound_to_nothing) *out = found;
        return found != NULL;
    }
    const PtrMapSlot *slot = ptrmap_find(&c->values, old);
    if (slot) *out = slot->value;
    return slot != NULL;
}

tn_status copier_value(Copier *c, const Value *old, Value **out) {
    *out = NULL;
    bool bound = old && is_bound(c, old, out);
    if (*out && (*out)->def && !(*out)->def->graph)
        return fail(TN_STATE, "what became of \"%s\" was erased, but is read",
                    old->name.n ? old->name.s : "a value without a name");
    if (!old || bound) return TN_OK;
    if (c->from != c->to)
        return fail(TN_INVALID_ARGUMENT, "\"%s\" is read by a graph that is copied, but stands outside of it",
                    old->name.n ? old->name.s : "a value without a name");
    *out = (Value *)old;
    return TN_OK;
}

/* The mapped operands of a node, in c->operands. */
static tn_status copier_operands(Copier *c, const Node *node) {
    TRY(vec_reserve(c->allocator, &c->operands, node->n_operands));
    for (uint32_t i = 0; i < node->n_operands; i++) TRY(copier_value(c, node->operands[i].value, &c->operands.data[i]));
    c->operands.len = node->n_operands;
    return TN_OK;
}

/* Recursion over element types is bounded by type_intern. */
static tn_status copier_type(Copier *c, const Type *old, const Type **out) {
    *out = old;
    if (!old || c->from == c->to) return TN_OK;
    const PtrMapSlot *slot = ptrmap_find(&c->types, old);
    if (slot) {
        *out = slot->value;
        return TN_OK;
    }
    Type copy = *old;
    for (int i = 0; i < copy.shape.rank; i++) {
        copy.shape.dims[i] = dim_import(&c->to->dims, &c->from->dims, old->shape.dims[i]);
        if (copy.shape.dims[i] == DIM_UNKNOWN && old->shape.dims[i] != DIM_UNKNOWN) return TN_OUT_OF_MEMORY;
    }
    TRY(copier_type(c, old->elem, &copy.elem));
    const Type *interned = type_intern(c->to, &copy);
    if (!interned) return TN_OUT_OF_MEMORY;
    TRY(ptrmap_set(&c->types, old, (void *)interned));
    *out = interned;
    return TN_OK;
}

static tn_status copy_value_type(Copier *c, const Value *old, const Type **out) {
    TRY(copier_type(c, old->type, out));
    return c->type ? c->type(c->user, old, out) : TN_OK;
}

/* Payloads without a buffer of their own point into what the old model keeps. */
static tn_status keep_buffers(Copier *c) {
    if (c->kept_buffers) return TN_OK;
    for (size_t i = 0; i < c->from->buffers.len; i++) TRY(model_keep(c->to, c->from->buffers.data[i]));
    c->kept_buffers = true;
    return TN_OK;
}

static tn_status copy_payload(Copier *c, Tensor *old, Tensor **out) {
    *out = old;
    if (!old || c->from == c->to) return TN_OK;
    const PtrMapSlot *slot = ptrmap_find(&c->tensors, old);
    if (slot) {
        *out = slot->value;
        return TN_OK;
    }
    if (!old->buffer && old->data) TRY(keep_buffers(c));
    Tensor *copy;
    TRY(model_tensor(c->to, &copy));
    TRY(ptrmap_set(&c->tensors, old, copy));
    *copy = *old;
    buffer_ref(old->buffer);
    *out = copy;
    return TN_OK;
}

/* ---- attributes ---------------------------------------------------------------------------------------------- */

static tn_status push_frame(Copier *c, const Graph *from, Graph *to) {
    return vec_push(c->allocator, &c->stack, (CopyFrame){.from = from, .to = to, .next = from->first});
}

static tn_status copy_nested(Copier *c, const Graph *old, Node *owner, Graph **out) {
    TRY(graph_new(c->to, owner, old->name, out));
    return push_frame(c, old, *out);
}

static tn_status copy_pointer(Copier *c, const Attr *attr, size_t i, Node *node, void **out) {
    Tensor *tensor;
    Graph *graph;
    const Type *type;
    switch (attr->kind) {
    case ATTR_TENSORS:
        TRY(copy_payload(c, attr->tensors[i], &tensor));
        *out = tensor;
        return TN_OK;
    case ATTR_GRAPHS:
        TRY(copy_nested(c, attr->graphs[i], node, &graph));
        *out = graph;
        return TN_OK;
    default:
        TRY(copier_type(c, attr->types[i], &type));
        *out = (void *)type;
        return TN_OK;
    }
}

/* Lists of pointers; `attr` gets a list of its own. */
static tn_status copy_pointers(Copier *c, Attr *attr, Node *node) {
    void **list = arena_array(&c->to->arena, void *, attr->n);
    if (!list) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < attr->n; i++) TRY(copy_pointer(c, attr, i, node, &list[i]));
    attr->tensors = (Tensor **)list;
    return TN_OK;
}

static tn_status copy_attr(Copier *c, const Attr *old, Node *node) {
    Attr attr = *old;
    switch (old->kind) {
    case ATTR_TENSOR: TRY(copy_payload(c, old->tensor, &attr.tensor)); break;
    case ATTR_TYPE: TRY(copier_type(c, old->type, &attr.type)); break;
    case ATTR_GRAPH: TRY(copy_nested(c, old->graph, node, &attr.graph)); break;
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_TYPES: TRY(copy_pointers(c, &attr, node)); break;
    default: break;
    }
    return node_set_attr(node, &attr);
}

/* ---- nodes --------------------------------------------------------------------------------------------------- */

static tn_status fill_node(Copier *c, const Node *old, Node *node) {
    Str loc = old->loc;
    if (c->location && loc.n) TRY(c->location(c->user, &loc));
    node->loc = c->by_id && !c->location ? model_same_str(c->to, loc) : model_str(c->to, loc);
    if (!node->loc.s) return TN_OUT_OF_MEMORY;
    size_t first = c->stack.len;
    for (uint32_t i = 0; i < old->n_attrs; i++) TRY(copy_attr(c, &old->attrs[i], node));
    for (uint32_t i = 0; i < old->n_results; i++) {
        TRY(copy_value_type(c, old->results[i], &node->results[i]->type));
        Str name = old->results[i]->name;
        TRY(c->by_id ? value_set_same_name(node->results[i], name) : value_set_name(node->results[i], name));
        TRY(copier_bind(c, old->results[i], node->results[i]));
    }
    /* Nested graphs were pushed in order; the first is to be copied first. */
    for (size_t i = first, j = c->stack.len; i + 1 < j; i++, j--) {
        CopyFrame frame = c->stack.data[i];
        c->stack.data[i] = c->stack.data[j - 1];
        c->stack.data[j - 1] = frame;
    }
    return TN_OK;
}

static tn_status copy_node(Copier *c, const Node *old, Graph *into) {
    bool done = false;
    Node *node;
    TRY(copier_operands(c, old));
    if (c->node) TRY(c->node(c->user, c, old, into, &done));
    if (done) return TN_OK;
    TRY(node_new(into, old->op, c->operands.data, c->operands.len, old->n_results, &node));
    node_append(node);
    return fill_node(c, old, node);
}

/* ---- graphs -------------------------------------------------------------------------------------------------- */

static tn_status copy_inputs(Copier *c, const Graph *from, Graph *to) {
    for (size_t i = 0; i < from->inputs.len; i++) {
        const Value *old = from->inputs.data[i];
        const Type *type;
        Value *value;
        Tensor *payload;
        TRY(copy_value_type(c, old, &type));
        TRY(graph_add_input(to, old->name, type, &value));
        TRY(copy_payload(c, graph_input_default(from, i), &payload));
        if (payload) TRY(graph_set_input_default(to, i, payload));
        if (c->input) TRY(c->input(c->user, old, &value));
        TRY(copier_bind(c, old, value));
    }
    return TN_OK;
}

static tn_status copy_outputs(Copier *c, const Graph *from, Graph *to) {
    for (size_t i = 0; i < graph_n_outputs(from); i++) {
        Value *value;
        TRY(copier_value(c, graph_output(from, i), &value));
        TRY(graph_add_output(to, value, from->output_names.data[i]));
        to->output_names.data[i] = model_str(to->model, from->output_names.data[i]); /* the value may have another */
        if (!to->output_names.data[i].s) return TN_OUT_OF_MEMORY;
    }
    return TN_OK;
}

static tn_status run(Copier *c) {
    while (c->stack.len > 0) {
        CopyFrame *top = &c->stack.data[c->stack.len - 1];
        const Node *node = top->next;
        const Graph *from = top->from;
        Graph *to = top->to;
        bool open = top->open;
        if (node == from->first && !open) TRY(copy_inputs(c, from, to));
        if (node) {
            top->next = node->next;
            TRY(copy_node(c, node, to));
            continue;
        }
        c->stack.len--;
        if (!open) TRY(copy_outputs(c, from, to));
        if (!open && c->graph) TRY(c->graph(c->user, from, to));
    }
    return TN_OK;
}

tn_status copy_graph(Copier *c, const Graph *from, Graph *to) {
    TRY(push_frame(c, from, to));
    return run(c);
}

tn_status copy_body(Copier *c, const Graph *from, Graph *to) {
    TRY(push_frame(c, from, to));
    c->stack.data[c->stack.len - 1].open = true;
    return run(c);
}

tn_status copy_model_shell(Copier *c) {
    const Model *from = c->from;
    Model *to = c->to;
    TRY(model_copy_strings(to, from));
    c->n_ids = (size_t)from->n_values + 1;
    if (!(c->by_id = mem_alloc(c->allocator, c->n_ids * sizeof *c->by_id, alignof(Value *)))) return TN_OUT_OF_MEMORY;
    to->file = model_str(to, from->file);
    to->main->name = model_str(to, from->main->name);
    if (!to->file.s || !to->main->name.s) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i + 1 < from->metadata.len; i += 2)
        TRY(model_set_metadata(to, from->metadata.data[i], from->metadata.data[i + 1]));
    return keep_buffers(c);
}
