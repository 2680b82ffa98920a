/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of nodes: copied into the model's arena, kept sorted by name. */
#include "ir/ir_int.h"

static int compare_names(Str a, Str b) {
    size_t n = a.n < b.n ? a.n : b.n;
    int c = n ? memcmp(a.s, b.s, n) : 0;
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

/* The place of the first attribute whose name is not less. */
static uint32_t place_of(const Node *node, Str name) {
    uint32_t i = 0;
    while (i < node->n_attrs && compare_names(node->attrs[i].name, name) < 0) i++;
    return i;
}

const Attr *node_attr(const Node *node, Str name) {
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (str_equal(node->attrs[i].name, name)) return &node->attrs[i];
    return NULL;
}

/* ---- copying ------------------------------------------------------------------------------------------------- */

static size_t element_size(AttrKind kind) {
    switch (kind) {
    case ATTR_INTS: return sizeof(int64_t);
    case ATTR_FLOATS: return sizeof(float);
    case ATTR_STRINGS: return sizeof(Str);
    case ATTR_INT_LISTS: return sizeof(IntList);
    case ATTR_TENSORS:
    case ATTR_GRAPHS:
    case ATTR_TYPES: return sizeof(void *);
    default: return 0;
    }
}

static void *copy_array(Arena *arena, const void *data, size_t n, size_t size) {
    void *copy = arena_array_(arena, n, size, alignof(int64_t));
    if (copy && n) memcpy(copy, data, n * size);
    return copy;
}

static tn_status copy_text(Arena *arena, Str *s) {
    char *copy = arena_strndup(arena, s->n ? s->s : "", s->n);
    if (!copy) return TN_OUT_OF_MEMORY;
    s->s = copy;
    return TN_OK;
}

/* Makes `attr`, a shallow copy, one whose contents lie in the arena. */
static tn_status own_contents(Model *model, Attr *attr) {
    Arena *arena = &model->arena;
    if (attr->kind == ATTR_STRING) return copy_text(arena, &attr->s);
    size_t size = element_size(attr->kind);
    if (size == 0) return TN_OK;
    void *data = copy_array(arena, attr->ints, attr->n, size);
    if (!data) return TN_OUT_OF_MEMORY;
    attr->ints = data;
    if (attr->kind == ATTR_STRINGS) {
        Str *strings = data;
        for (size_t i = 0; i < attr->n; i++) TRY(copy_text(arena, &strings[i]));
    }
    if (attr->kind == ATTR_INT_LISTS) {
        IntList *lists = data;
        for (size_t i = 0; i < attr->n; i++) {
            lists[i].data = copy_array(arena, lists[i].data, lists[i].n, sizeof(int64_t));
            if (!lists[i].data) return TN_OUT_OF_MEMORY;
        }
    }
    return TN_OK;
}

static void adopt_graphs(Node *node, const Attr *attr) {
    if (attr->kind == ATTR_GRAPH) attr->graph->owner = node;
    if (attr->kind == ATTR_GRAPHS)
        for (size_t i = 0; i < attr->n; i++) attr->graphs[i]->owner = node;
}

/* ---- setting ------------------------------------------------------------------------------------------------- */

/* The array has room for a power of two, so only at those lengths it may be full. */
static tn_status make_room(Node *node) {
    uint32_t n = node->n_attrs;
    if (n & (n - 1)) return TN_OK;
    Attr *bigger = arena_array(&node->graph->model->arena, Attr, n ? 2 * (size_t)n : 1);
    if (!bigger) return TN_OUT_OF_MEMORY;
    if (n) memcpy(bigger, node->attrs, n * sizeof *bigger);
    node->attrs = bigger;
    return TN_OK;
}

tn_status node_set_attr(Node *node, const Attr *attr) {
    Model *model = node->graph->model;
    Attr copy = *attr;
    copy.name = model_str(model, attr->name);
    if (!copy.name.s) return TN_OUT_OF_MEMORY;
    TRY(own_contents(model, &copy));
    uint32_t i = place_of(node, copy.name);
    if (i == node->n_attrs || !str_equal(node->attrs[i].name, copy.name)) {
        TRY(make_room(node));
        memmove(&node->attrs[i + 1], &node->attrs[i], (node->n_attrs++ - i) * sizeof *node->attrs);
    }
    node->attrs[i] = copy;
    adopt_graphs(node, &copy);
    model->state_edits++;
    return TN_OK;
}

void node_remove_attr(Node *node, Str name) {
    uint32_t i = place_of(node, name);
    if (i == node->n_attrs || !str_equal(node->attrs[i].name, name)) return;
    memmove(&node->attrs[i], &node->attrs[i + 1], (--node->n_attrs - i) * sizeof *node->attrs);
    node->graph->model->state_edits++;
}

tn_status node_set_int(Node *node, const char *name, int64_t value) {
    return node_set_attr(node, &(Attr){.name = str_of(name), .kind = ATTR_INT, .i = value});
}

tn_status node_set_float(Node *node, const char *name, float value) {
    return node_set_attr(node, &(Attr){.name = str_of(name), .kind = ATTR_FLOAT, .f = value});
}

tn_status node_set_string(Node *node, const char *name, Str value) {
    return node_set_attr(node, &(Attr){.name = str_of(name), .kind = ATTR_STRING, .s = value});
}

tn_status node_set_ints(Node *node, const char *name, const int64_t *values, size_t n) {
    return node_set_attr(node, &(Attr){.name = str_of(name), .kind = ATTR_INTS, .n = n, .ints = values});
}

tn_status node_set_tensor(Node *node, const char *name, Tensor *value) {
    return node_set_attr(node, &(Attr){.name = str_of(name), .kind = ATTR_TENSOR, .tensor = value});
}

tn_status node_set_graph(Node *node, const char *name, Graph *graph) {
    return node_set_attr(node, &(Attr){.name = str_of(name), .kind = ATTR_GRAPH, .graph = graph});
}

Graph *node_graph(const Node *node, size_t k) {
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const Attr *a = &node->attrs[i];
        size_t n = a->kind == ATTR_GRAPH ? 1 : a->kind == ATTR_GRAPHS ? a->n : 0;
        if (k < n) return a->kind == ATTR_GRAPH ? a->graph : a->graphs[k];
        k -= n;
    }
    return NULL;
}
