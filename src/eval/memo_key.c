/* SPDX-License-Identifier: Apache-2.0 */
/* Keys of a memo: numbers for what a node computes. They hold across models of one process, so nothing in them depends
   on where something lies in memory but for ops, of which there is one each. */
#include "eval/eval_int.h"

#include <stdlib.h>

static uint64_t fold(uint64_t h, uint64_t x) {
    uint64_t both[] = {h, x};
    return hash_bytes(both, sizeof both);
}

static uint64_t fold_bytes(uint64_t h, const void *data, size_t n) { return fold(fold(h, n), hash_bytes(data, n)); }
static uint64_t fold_text(uint64_t h, Str s) { return fold_bytes(h, s.s, s.n); }

/* ---- contents ------------------------------------------------------------------------------------------------ */

static uint64_t fold_strings(uint64_t h, const Tensor *t) {
    for (TensorRows r = tensor_rows(t); tensor_next_row(&r);)
        for (int64_t i = 0; i < r.n; i++)
            h = fold_text(h, rc_string_get(((RcString **)t->data)[r.offset + i * r.stride]));
    return h;
}

static tn_status fold_elements(Arena *scratch, const Tensor *t, uint64_t *h) {
    size_t bytes;
    bool plain = tensor_is_dense(t) && (t->offset == 0 || dtype_size(t->dtype) > 0);
    TRY(checked_bytes(t->dtype, tensor_count(t), &bytes));
    if (plain) {
        *h = fold_bytes(*h, bytes ? tensor_bytes(t) : NULL, bytes);
        return TN_OK;
    }
    ArenaMark mark = arena_mark(scratch);
    void *copy = arena_alloc(scratch, bytes + 1, 16);
    if (!copy) return TN_OUT_OF_MEMORY;
    tensor_gather(t, copy);
    *h = fold_bytes(*h, copy, bytes);
    arena_release(scratch, mark);
    return TN_OK;
}

/* Recursion is bounded by the depth of types. */
tn_status tensor_contents(Context *ctx, Arena *scratch, const Tensor *t, uint64_t *out) {
    uint64_t h = fold((uint64_t)t->kind, (uint64_t)t->dtype);
    if (t->kind != TYPE_TENSOR) {
        const Object *object = object_of(t);
        h = fold(h, object ? object->n : 0);
        for (size_t i = 0; object && i < object->n; i++) {
            uint64_t item;
            TRY(tensor_contents(ctx, scratch, &object->items[i], &item));
            h = fold(h, item);
        }
        *out = h;
        return TN_OK;
    }
    h = fold_bytes(h, t->dims, (size_t)t->rank * sizeof *t->dims);
    if (t->dtype == TN_STRING) h = fold_strings(h, t);
    else if (t->data) TRY(fold_elements(scratch, t, &h));
    *out = h;
    return TN_OK;
}

/* ---- attributes and types ------------------------------------------------------------------------------------ */

/* Running a node asks for the declared types of sequences and of what bodies take and give. */
static tn_status fold_type(Keys *k, uint64_t *h, const Type *type) {
    Text text;
    text_init(&text, &k->ctx->allocator);
    type_print(k->main->model, type, &text);
    *h = fold_bytes(*h, text.s, text.n);
    tn_status status = text.status;
    text_free(&text);
    return status;
}

static tn_status fold_object_type(Keys *k, uint64_t *h, const Value *v) {
    return v->type->kind == TYPE_TENSOR ? TN_OK : fold_type(k, h, v->type);
}

static tn_status fold_tensor(Keys *k, uint64_t *h, const Tensor *t) {
    uint64_t contents = 0;
    if (t) TRY(tensor_contents(k->ctx, k->scratch, t, &contents));
    *h = fold(*h, contents);
    return TN_OK;
}

/* Graphs are folded by themselves. */
static tn_status fold_attr(Keys *k, uint64_t *h, const Attr *a) {
    *h = fold_text(fold(*h, (uint64_t)a->kind << 32 ^ a->n), a->name);
    switch (a->kind) {
    case ATTR_INT: *h = fold(*h, (uint64_t)a->i); break;
    case ATTR_FLOAT: *h = fold_bytes(*h, &a->f, sizeof a->f); break;
    case ATTR_STRING: *h = fold_text(*h, a->s); break;
    case ATTR_INTS: *h = fold_bytes(*h, a->ints, a->n * sizeof *a->ints); break;
    case ATTR_FLOATS: *h = fold_bytes(*h, a->floats, a->n * sizeof *a->floats); break;
    case ATTR_STRINGS:
        for (size_t i = 0; i < a->n; i++) *h = fold_text(*h, a->strings[i]);
        break;
    case ATTR_INT_LISTS:
        for (size_t i = 0; i < a->n; i++) *h = fold_bytes(*h, a->lists[i].data, a->lists[i].n * sizeof(int64_t));
        break;
    case ATTR_TENSOR: return fold_tensor(k, h, a->tensor);
    case ATTR_TENSORS:
        for (size_t i = 0; i < a->n; i++) TRY(fold_tensor(k, h, a->tensors[i]));
        break;
    case ATTR_TYPE: return fold_type(k, h, a->type);
    case ATTR_TYPES:
        for (size_t i = 0; i < a->n; i++) TRY(fold_type(k, h, a->types[i]));
        break;
    case ATTR_GRAPH:
    case ATTR_GRAPHS: break;
    }
    return TN_OK;
}

/* ---- random numbers ------------------------------------------------------------------------------------------ */

/* Dropout draws only when it is told to train. */
static bool draws(const Node *node) {
    if (node->op->flags & OP_RANDOM) return true;
    if (!op_attr_spec(node->op, STR("seed")) || !node_operand(node, 2)) return false;
    const Tensor *training = value_constant(node_operand(node, 2));
    int64_t on = 1, n = 1;
    return !training || tensor_ints(training, &on, 1, &n) != TN_OK || on != 0;
}

/* As random_of in ops/ tells them apart. */
static Str drawn_by(const Node *node) { return node->loc.n || !node->n_results ? node->loc : node->results[0]->name; }

tn_status keys_note_random(Keys *k, const Node *node, bool *random) {
    *random = draws(node);
    if (!*random) return TN_OK;
    uint64_t h = fold_text((uint64_t)(uintptr_t)node->op, drawn_by(node));
    const Attr *seed = node_attr(node, STR("seed"));
    if (seed) TRY(fold_attr(k, &h, seed));
    return vec_push(&k->ctx->allocator, &k->random, h);
}

static int by_number(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

/* A node that was copied draws the same numbers twice: the set is what counts. */
uint64_t keys_random(Keys *k) {
    uint64_t h = 0;
    if (k->random.len) qsort(k->random.data, k->random.len, sizeof *k->random.data, by_number);
    for (size_t i = 0; i < k->random.len; i++)
        if (i == 0 || k->random.data[i] != k->random.data[i - 1]) h = fold(h, k->random.data[i]);
    return h;
}

/* ---- nodes --------------------------------------------------------------------------------------------------- */

static tn_status fold_node(Keys *k, uint64_t *h, const Node *node) {
    *h = fold(*h, (uint64_t)(uintptr_t)node->op);
    *h = fold(*h, (uint64_t)node->n_operands << 32 ^ node->n_results);
    for (uint32_t i = 0; i < node->n_attrs; i++) TRY(fold_attr(k, h, &node->attrs[i]));
    for (uint32_t i = 0; i < node->n_operands; i++)
        if (node->operands[i].value) TRY(fold_object_type(k, h, node->operands[i].value));
    for (uint32_t i = 0; i < node->n_results; i++) TRY(fold_object_type(k, h, node->results[i]));
    if (node->op->flags & OP_RANDOM || op_attr_spec(node->op, STR("seed"))) *h = fold_text(*h, drawn_by(node));
    return TN_OK;
}

tn_status keys_node(Keys *k, const Node *node, const Nested *nested, uint64_t (*contents)(void *user, const Value *v),
                    void *user, uint64_t *key) {
    uint64_t h = nested ? nested->structure : 0;
    TRY(fold_node(k, &h, node));
    for (uint32_t i = 0; i < node->n_operands; i++)
        h = fold(h, node->operands[i].value ? contents(user, node->operands[i].value) : 0);
    for (size_t i = 0; nested && i < nested->n; i++) h = fold(h, contents(user, nested->captures[i]));
    *key = h;
    return TN_OK;
}

/* ---- nested graphs ------------------------------------------------------------------------------------------- */

enum { ABSENT, OWN, CAPTURED };

/* Values are told by when they were first met, so that equal graphs have equal numbers wherever they stand. */
static tn_status fold_reference(Keys *k, Value *v) {
    if (!v) {
        k->h = fold(k->h, ABSENT);
        return TN_OK;
    }
    bool captured = v->graph == k->main;
    if (captured && !k->numbers[v->id]) {
        TRY(vec_push(&k->ctx->allocator, &k->captures, v));
        k->numbers[v->id] = (uint32_t)k->captures.len;
    }
    k->h = fold(k->h, (uint64_t)k->numbers[v->id] << 2 | (captured ? CAPTURED : OWN));
    return TN_OK;
}

static tn_status on_graph(Visitor *v, Graph *graph) {
    Keys *k = v->user;
    k->h = fold(k->h, graph->inputs.len << 32 ^ graph_n_outputs(graph));
    return vec_push(&k->ctx->allocator, &k->graphs, graph);
}

static tn_status on_input(Visitor *v, Value *value) {
    Keys *k = v->user;
    k->numbers[value->id] = ++k->n_numbers;
    return fold_type(k, &k->h, value->type);
}

static tn_status on_node(Visitor *v, Node *node) {
    Keys *k = v->user;
    bool random;
    TRY(fold_node(k, &k->h, node));
    TRY(keys_note_random(k, node, &random));
    for (uint32_t i = 0; i < node->n_operands; i++) TRY(fold_reference(k, node->operands[i].value));
    for (uint32_t i = 0; i < node->n_results; i++) k->numbers[node->results[i]->id] = ++k->n_numbers;
    return TN_OK;
}

static tn_status fold_outputs(Keys *k) {
    for (size_t i = 0; i < k->graphs.len; i++)
        for (size_t j = 0; j < graph_n_outputs(k->graphs.data[i]); j++) {
            Value *output = graph_output(k->graphs.data[i], j);
            TRY(fold_reference(k, output));
            TRY(fold_type(k, &k->h, output->type));
        }
    return TN_OK;
}

static tn_status look_at_nested(Keys *k, const Node *node) {
    Visitor visitor = {.graph = on_graph, .input = on_input, .node = on_node, .user = k};
    Graph *graph;
    for (size_t i = 0; (graph = node_graph(node, i)); i++) TRY(visit_graph(graph, &visitor));
    return fold_outputs(k);
}

tn_status keys_nested(Keys *k, const Node *node, Nested **out) {
    *out = NULL;
    if (!node_graph(node, 0)) return TN_OK;
    k->h = k->n_numbers = 0;
    k->captures.len = k->graphs.len = 0;
    size_t n_random = k->random.len;
    TRY(look_at_nested(k, node));
    for (size_t i = 0; i < k->captures.len; i++) k->numbers[k->captures.data[i]->id] = 0;
    Nested *nested = arena_new(k->arena, Nested);
    Value **captures = arena_array(k->arena, Value *, k->captures.len + 1);
    if (!nested || !captures) return TN_OUT_OF_MEMORY;
    if (k->captures.len) memcpy(captures, k->captures.data, k->captures.len * sizeof *captures);
    *nested = (Nested){k->h, captures, k->captures.len, k->random.len > n_random};
    *out = nested;
    return TN_OK;
}

tn_status keys_init(Keys *k, const Graph *main, Arena *arena, Arena *scratch) {
    *k = (Keys){.ctx = main->model->ctx, .arena = arena, .scratch = scratch, .main = main};
    k->numbers = arena_array(arena, uint32_t, main->model->n_values + 1);
    return k->numbers ? TN_OK : TN_OUT_OF_MEMORY;
}

void keys_free(Keys *k) {
    vec_free(&k->ctx->allocator, &k->random);
    vec_free(&k->ctx->allocator, &k->captures);
    vec_free(&k->ctx->allocator, &k->graphs);
}
