/* SPDX-License-Identifier: Apache-2.0 */
/* Small changes to a graph that several passes make. */
#include "ops/op.h"
#include "rewrite/rewrite.h"

#include <stdlib.h>

/* ---- nodes --------------------------------------------------------------------------------------------------- */

/* Dropout draws only where it is asked to train. */
static bool may_drop(const Node *node) {
    const Value *training = node_operand(node, 2);
    int64_t value;
    int n;
    if (!training) return false;
    return !constant_ints(training, &value, 1, &n) || n != 1 || value != 0;
}

bool node_is_random(const Node *node) {
    if (node->op->flags & OP_RANDOM) return true;
    return !node->op->domain && strcmp(node->op->name, "Dropout") == 0 && may_drop(node);
}

static bool is_least_or_most(const Node *node) {
    return !node->op->domain && (strcmp(node->op->name, "Min") == 0 || strcmp(node->op->name, "Max") == 0);
}

bool node_may_swap(const Node *node) {
    if (!(node->op->flags & OP_COMMUTATIVE) || node->n_operands < 2) return false;
    const Type *type = node->results[0]->type;
    return !is_least_or_most(node) || dtype_is_signed_int(type->dtype) || dtype_is_unsigned_int(type->dtype);
}

bool node_is_read(const Node *node) {
    for (uint32_t i = 0; i < node->n_results; i++)
        if (node->results[i]->uses) return true;
    return false;
}

tn_status insert_ints(Node *place, const int64_t *values, int64_t n, Value **out) {
    Model *model = place->graph->model;
    Tensor *payload;
    Node *node;
    TRY(model_tensor(model, &payload));
    TRY(tensor_new(model->ctx, TN_I64, 1, &n, payload));
    if (n) memcpy(payload->data, values, (size_t)n * sizeof *values);
    TRY(const_new(place->graph, payload, (Str){NULL, 0}, &node));
    node_insert_before(node, place);
    *out = node->results[0];
    return TN_OK;
}

/* ---- rows by op ---------------------------------------------------------------------------------------------- */

static int by_op(const void *a, const void *b) {
    const OpRow *x = a, *y = b;
    uintptr_t p = (uintptr_t)x->op, q = (uintptr_t)y->op;
    if (p != q) return p < q ? -1 : 1;
    return x->row < y->row ? -1 : x->row > y->row;
}

tn_status op_rows(Arena *arena, const void *table, size_t n, size_t row_size, OpRows *out) {
    *out = (OpRows){.rows = arena_array(arena, OpRow, n + 1)};
    if (!out->rows) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        const char *row = (const char *)table + i * row_size, *name = *(const char *const *)row;
        const OpSchema *op = op_find((Str){NULL, 0}, str_of(name));
        if (!op) return fail(TN_INTERNAL, "there is no op \"%s\"", name);
        out->rows[out->n++] = (OpRow){op, row};
    }
    qsort(out->rows, out->n, sizeof *out->rows, by_op);
    return TN_OK;
}

const OpRow *op_rows_of(const OpRows *rows, const OpSchema *op) {
    size_t low = 0, high = rows->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((uintptr_t)rows->rows[middle].op < (uintptr_t)op) low = middle + 1;
        else high = middle;
    }
    return low < rows->n && rows->rows[low].op == op ? &rows->rows[low] : NULL;
}

/* ---- values -------------------------------------------------------------------------------------------------- */

tn_status replace_value(Value *old, Value *with) {
    bool keeps_name = !with->def || (node_is_random(with->def) && with->def->loc.n == 0);
    if (!keeps_name) return value_take_over(old, with);
    value_replace(old, with);
    return TN_OK;
}

bool same_tensor_type(const Type *a, const Type *b) {
    if (a->kind != TYPE_TENSOR || b->kind != TYPE_TENSOR || !a->dtype || a->dtype != b->dtype) return false;
    if (a->shape.rank < 0 || a->shape.rank != b->shape.rank) return false;
    for (int i = 0; i < a->shape.rank; i++)
        if (a->shape.dims[i] != b->shape.dims[i] || a->shape.dims[i] == DIM_UNKNOWN) return false;
    return true;
}

bool constant_ints(const Value *value, int64_t *out, int64_t max, int *n) {
    const Tensor *t = value_constant(value);
    int64_t count = 0;
    if (!t) return false;
    bool ok = tensor_ints(t, out, max, &count) == TN_OK;
    if (!ok) diag_clear();
    *n = (int)count;
    return ok;
}

/* ---- payloads ------------------------------------------------------------------------------------------------ */

static bool same_strings(const Tensor *a, const Tensor *b) {
    RcString *const *x = tensor_bytes(a), *const *y = tensor_bytes(b);
    for (int64_t i = 0; i < tensor_count(a); i++)
        if (!str_equal(rc_string_get(x[i]), rc_string_get(y[i]))) return false;
    return true;
}

static bool is_plain(const Tensor *t) {
    return t && t->kind == TYPE_TENSOR && t->data && tensor_is_dense(t) && (dtype_size(t->dtype) || !t->offset);
}

bool same_payload(const Tensor *a, const Tensor *b) {
    size_t bytes;
    if (a == b) return true;
    if (!a || !b || a->dtype != b->dtype || a->rank != b->rank) return false;
    if (memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0) return false;
    if (tensor_count(a) == 0) return true;
    if (buffer_keep(a->buffer) != TN_OK || buffer_keep(b->buffer) != TN_OK) {
        diag_clear();
        return false;
    }
    if (!is_plain(a) || !is_plain(b)) return false;
    if (a->dtype == TN_STRING) return same_strings(a, b);
    if (checked_bytes(a->dtype, tensor_count(a), &bytes) == TN_OK)
        return memcmp(tensor_bytes(a), tensor_bytes(b), bytes) == 0;
    diag_clear();
    return false;
}

typedef struct Payloads {
    Tensor **list; /* sorted by address */
    bool *used;
    size_t n;
} Payloads;

static int by_address(const void *a, const void *b) {
    uintptr_t x = (uintptr_t) * (Tensor *const *)a, y = (uintptr_t) * (Tensor *const *)b;
    return (x > y) - (x < y);
}

static void mark(Payloads *p, Tensor *payload) {
    Tensor **found = bsearch(&payload, p->list, p->n, sizeof *p->list, by_address);
    if (found) p->used[found - p->list] = true;
}

static void mark_node(Payloads *p, const Node *node) {
    for (uint32_t i = 0; i < node->n_attrs; i++) {
        const Attr *a = &node->attrs[i];
        if (a->kind == ATTR_TENSOR) mark(p, a->tensor);
        for (size_t k = 0; a->kind == ATTR_TENSORS && k < a->n; k++) mark(p, a->tensors[k]);
    }
}

static size_t mark_graph(Payloads *p, const Graph *graph) {
    for (size_t i = 0; i < graph->defaults.len; i++) mark(p, graph->defaults.data[i]);
    for (const Node *node = graph->first; node; node = node->next) mark_node(p, node);
    return graph->n_nodes;
}

/* Where the model has nodes beside its graphs, which somebody is about to insert, nothing is known. */
tn_status release_payloads(Model *model, Arena *scratch, Tensor *const *payloads, size_t n, int64_t *n_released) {
    Graph **graphs;
    size_t n_graphs, n_nodes = 0;
    Payloads p = {arena_array(scratch, Tensor *, n + 1), arena_array(scratch, bool, n + 1), 0};
    *n_released = 0;
    if (n == 0) return TN_OK;
    if (!p.list || !p.used) return TN_OUT_OF_MEMORY;
    memcpy(p.list, payloads, n * sizeof *p.list);
    qsort(p.list, n, sizeof *p.list, by_address);
    for (size_t i = 0; i < n; i++)
        if (p.n == 0 || p.list[p.n - 1] != p.list[i]) p.list[p.n++] = p.list[i];
    TRY(model_graphs(model, scratch, &graphs, &n_graphs));
    for (size_t i = 0; i < n_graphs; i++) n_nodes += mark_graph(&p, graphs[i]);
    if (n_nodes != model_node_count(model)) return TN_OK;
    for (size_t i = 0; i < p.n; i++) {
        if (p.used[i]) continue;
        tensor_release(p.list[i]);
        ++*n_released;
    }
    return TN_OK;
}
