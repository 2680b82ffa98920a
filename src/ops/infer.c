/* SPDX-License-Identifier: Apache-2.0 */
/* Inference: of one node, and of all values of a model in order, nested graphs included. */
#include "ops/op_int.h"

/* ---- one node ------------------------------------------------------------------------------------------------ */

static tn_dtype dtype_of_group(const Node *node, const InferValue *in, char group) {
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const OperandSpec *spec = op_input_spec(node->op, i);
        if (spec && spec->group == group && in[i].present && in[i].kind == TYPE_TENSOR && in[i].dtype)
            return in[i].dtype;
    }
    return TN_UNDEFINED;
}

/* What the schema alone says of a result. */
static void preset(const Node *node, const InferValue *in, uint32_t i, InferValue *out) {
    const OperandSpec *spec = op_output_spec(node->op, i);
    *out = (InferValue){.present = true, .kind = TYPE_TENSOR, .shape = shape_unknown()};
    if (!spec) return;
    if (spec->group) out->dtype = dtype_of_group(node, in, spec->group);
    if (!out->dtype && spec->types && !(spec->types & (spec->types - 1)) && spec->types < TS(TN_DTYPE_END))
        out->dtype = (tn_dtype)__builtin_ctzll(spec->types);
}

/* Against the first operand of its group whose element type is known. */
static tn_status check_group(const Node *node, const InferValue *in, uint32_t i, const OperandSpec *spec) {
    for (uint32_t k = 0; k < i; k++) {
        const OperandSpec *other = op_input_spec(node->op, k);
        if (!other || other->group != spec->group || !in[k].present || in[k].kind != TYPE_TENSOR || !in[k].dtype) continue;
        if (in[k].dtype == in[i].dtype) return TN_OK;
        return fail(TN_SHAPE, "operand %u (\"%s\") has elements of type %s; they must be %s like those of operand %u (\"%s\")", i,
                    spec->name, dtype_name(in[i].dtype), dtype_name(in[k].dtype), k, other->name);
    }
    return TN_OK;
}

/* Kinds and element types are checked whenever a node is inferred, while a program runs too: node_check saw only what was
   declared, and what a branch or a loop gives may be other than its type said. */
static tn_status check_operands(const Node *node, const InferValue *in) {
    static const char *const names[] = {"tensor", "sequence", "optional", "map"};
    static const TypeSet sets[] = {TS_ALL_TENSOR, TS_SEQUENCE, TS_OPTIONAL, TS_MAP};
    for (uint32_t i = 0; i < node->n_operands; i++) {
        bool unknown = in[i].kind == TYPE_TENSOR && !in[i].dtype && in[i].shape.rank < 0;
        const OperandSpec *spec = in[i].present && !unknown ? op_input_spec(node->op, i) : NULL;
        if (!spec) continue;
        if (!(spec->types & sets[in[i].kind]))
            return fail(TN_SHAPE, "operand %u (\"%s\") cannot be a %s", i, spec->name, names[in[i].kind]);
        if (in[i].kind != TYPE_TENSOR || !in[i].dtype) continue;
        if (!(spec->types & TS(in[i].dtype)))
            return fail(TN_SHAPE, "operand %u (\"%s\") has elements of type %s, which the op does not take", i, spec->name,
                        dtype_name(in[i].dtype));
        if (spec->group) TRY(check_group(node, in, i, spec));
    }
    return TN_OK;
}

static tn_status check_result(const Node *node, uint32_t i, const InferValue *out) {
    const OperandSpec *spec = op_output_spec(node->op, i);
    if (spec && out->kind == TYPE_TENSOR && out->dtype && !(spec->types & TS(out->dtype)))
        return fail(TN_SHAPE, "result %u (\"%s\") cannot have elements of type %s", i, spec->name, dtype_name(out->dtype));
    if (out->kind != TYPE_TENSOR || out->shape.rank < 0) return TN_OK;
    if (out->shape.rank > TN_MAX_RANK)
        return fail(TN_LIMIT, "a result has %d dimensions, more than %d", out->shape.rank, TN_MAX_RANK);
    int64_t known = 1;
    for (int i = 0; i < out->shape.rank; i++) {
        Dim d = out->shape.dims[i];
        if (!dim_is_const(d)) continue;
        if (d < 0) return fail(TN_SHAPE, "dimension %d of a result would be %lld", i, (long long)d);
        if (d > 0 && mul_overflows(known, d, &known)) return fail(TN_LIMIT, "a result would have more than 2^63 elements");
    }
    return TN_OK;
}

tn_status op_infer(const Node *node, Model *model, const InferValue *in, InferValue *out,
                   Dim (*content_out)[CONTENT_MAX]) {
    InferCtx c = {.node = node, .model = model, .dims = model ? &model->dims : NULL, .n_in = (int)node->n_operands,
                  .n_out = (int)node->n_results, .in = in, .out = out, .content_out = content_out};
    for (uint32_t i = 0; i < node->n_results; i++) preset(node, in, i, &out[i]);
    tn_status status = check_operands(node, in);
    if (status == TN_OK && node->op->infer)
        status = node->op->infer(&c);
    else if (status == TN_OK)
        set_like(&c, 0, 0);
    for (uint32_t i = 0; i < node->n_results && status == TN_OK; i++) status = check_result(node, i, &out[i]);
    if (status != TN_OK) diag_set_node(node->loc.n ? node->loc.s : "", node->op->name);
    return status;
}

InferValue infer_concrete(const Tensor *t, bool contents) {
    InferValue v = {.present = true, .kind = t->kind, .shape = shape_unknown()};
    if (t->kind != TYPE_TENSOR) return v;
    v.dtype = t->dtype;
    v.shape = shape_make(t->rank, t->dims);
    v.value = contents ? t : NULL;
    return v;
}

tn_status op_check_known(const Node *node, uint32_t i, const InferValue *found) {
    if (found->kind != TYPE_TENSOR || node->op->flags & (OP_DYNAMIC_OUT | OP_CONTROL)) return TN_OK;
    if (!found->dtype) return fail(TN_SHAPE, "the element type of result %u is not known", i);
    if (shape_is_known(&found->shape)) return TN_OK;
    return fail(TN_SHAPE, "the shape of result %u does not follow from these operands", i);
}

/* ---- a model ------------------------------------------------------------------------------------------------- */

typedef struct Walker {
    Model *model;
    Arena arena;         /* values and contents */
    InferValue *values;  /* by value id */
    struct Level {
        Graph *graph;
        Node *node;      /* the next to infer */
        size_t nested;   /* its nested graphs done so far */
    } levels[256];
    int depth;
    InferValue *in;      /* scratch for one node */
    size_t n_in;
    InferValue *out;
    Dim (*contents)[CONTENT_MAX];
    size_t n_out;
} Walker;

static InferValue value_from_type(const Type *type) {
    return (InferValue){.present = true, .kind = type->kind, .dtype = type->dtype, .shape = type->shape, .elem = type->elem};
}

static InferValue value_from_constant(const Tensor *t) {
    return (InferValue){.present = true, .kind = TYPE_TENSOR, .dtype = t->dtype, .shape = shape_make(t->rank, t->dims),
                        .value = t};
}

static tn_status enter(Walker *w, Graph *graph) {
    if (w->depth == (int)(sizeof w->levels / sizeof *w->levels))
        return fail(TN_LIMIT, "graphs are nested more than %d deep", w->depth);
    for (size_t i = 0; i < graph->inputs.len; i++) {
        Value *v = graph->inputs.data[i];
        w->values[v->id] = value_from_type(v->type);
    }
    w->levels[w->depth++] = (struct Level){.graph = graph, .node = graph->first};
    return TN_OK;
}

static tn_status reserve(Walker *w, const Node *node) {
    if (node->n_operands > w->n_in) {
        w->n_in = node->n_operands * 2 + 16;
        if (!(w->in = arena_array(&w->arena, InferValue, w->n_in))) return TN_OUT_OF_MEMORY;
    }
    if (node->n_results > w->n_out) {
        w->n_out = node->n_results * 2 + 8;
        w->out = arena_array(&w->arena, InferValue, w->n_out);
        w->contents = arena_alloc(&w->arena, w->n_out * sizeof *w->contents, alignof(Dim));
        if (!w->out || !w->contents) return TN_OUT_OF_MEMORY;
    }
    return TN_OK;
}

static tn_status gather(Walker *w, const Node *node) {
    TRY(reserve(w, node));
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        w->in[i] = v ? w->values[v->id] : (InferValue){0};
    }
    return TN_OK;
}

/* A declared type refines what was inferred; where they contradict the computation is right, except that an element
   type cannot be explained away. */
static tn_status settle(Walker *w, Value *v, InferValue *found) {
    Type spec = {.kind = found->kind, .dtype = found->dtype, .shape = found->shape, .elem = found->elem};
    const Type *inferred = type_intern(w->model, &spec), *merged;
    if (!inferred) return TN_OUT_OF_MEMORY;
    if (v->type->kind == TYPE_TENSOR && inferred->kind == TYPE_TENSOR && v->type->dtype && inferred->dtype &&
        v->type->dtype != inferred->dtype)
        return fail(TN_SHAPE, "value \"%.*s\" is declared %s but computed as %s", (int)v->name.n, v->name.s ? v->name.s : "",
                    dtype_name(v->type->dtype), dtype_name(inferred->dtype));
    tn_status status = type_merge(w->model, inferred, v->type, &merged);
    if (status == TN_OUT_OF_MEMORY) return status;
    if (status != TN_OK) {
        diag_clear();
        merged = inferred;
    }
    v->type = merged;
    const Dim *content = found->content;
    int32_t n = found->n_content;
    *found = value_from_type(merged);
    found->content = content;
    found->n_content = n;
    return TN_OK;
}

static tn_status keep_content(Walker *w, InferValue *v) {
    if (!v->content) return TN_OK;
    Dim *copy = arena_array(&w->arena, Dim, v->n_content ? (size_t)v->n_content : 1);
    if (!copy) return TN_OUT_OF_MEMORY;
    memcpy(copy, v->content, (size_t)v->n_content * sizeof *copy);
    v->content = copy;
    return TN_OK;
}

static tn_status infer_one(Walker *w, Node *node) {
    const Tensor *payload = value_constant(node_result(node, 0));
    if (payload) {
        InferValue v = value_from_constant(payload);
        TRY(settle(w, node->results[0], &v));
        w->values[node->results[0]->id] = value_from_constant(payload);
        return TN_OK;
    }
    TRY(gather(w, node));
    TRY(op_infer(node, w->model, w->in, w->out, w->contents));
    for (uint32_t i = 0; i < node->n_results; i++) {
        tn_status status = settle(w, node->results[i], &w->out[i]);
        if (status != TN_OK) {
            diag_set_node(node->loc.n ? node->loc.s : "", node->op->name);
            return status;
        }
        TRY(keep_content(w, &w->out[i]));
        w->values[node->results[i]->id] = w->out[i];
    }
    return TN_OK;
}

/* A branch of an If that cannot run with these shapes may be the one that is not taken: what is not known of it stays
   unknown, and if it is taken after all the error comes then. Goes up to that branch, at its end. */
static bool leave_branch(Walker *w, tn_status status) {
    int depth = w->depth;
    if (status == TN_OUT_OF_MEMORY || status == TN_LIMIT) return false;
    for (; depth > 1; depth--) {
        const Node *owner = w->levels[depth - 1].graph->owner;
        if (owner && strcmp(owner->op->name, "If") == 0) break;
    }
    if (depth <= 1) return false;
    w->depth = depth;
    w->levels[depth - 1].node = NULL;
    diag_clear();
    return true;
}

static tn_status walk_graphs(Walker *w) {
    TRY(enter(w, w->model->main));
    while (w->depth > 0) {
        struct Level *level = &w->levels[w->depth - 1];
        if (!level->node) {
            w->depth--;
            continue;
        }
        Graph *body = level->node->op->flags & OP_CONTROL ? node_graph(level->node, level->nested) : NULL;
        if (body) {
            TRY(gather(w, level->node));
            TRY(control_bind_body(level->node, w->model, w->in, body, level->nested++));
            TRY(enter(w, body));
            continue;
        }
        tn_status status = infer_one(w, level->node);
        if (status != TN_OK && !leave_branch(w, status)) return status;
        level = &w->levels[w->depth - 1];
        level->node = level->node ? level->node->next : NULL;
        level->nested = 0;
    }
    return TN_OK;
}

tn_status infer_model(Model *model) {
    Walker *w = mem_alloc(&model->ctx->allocator, sizeof *w, alignof(Walker));
    if (!w) return TN_OUT_OF_MEMORY;
    w->model = model;
    arena_init(&w->arena, &model->ctx->allocator);
    w->values = arena_array(&w->arena, InferValue, model->n_values + 1);
    tn_status status = w->values ? walk_graphs(w) : TN_OUT_OF_MEMORY;
    if (status != TN_OK && model->file.n) diag_set_file(model->file.s);
    arena_free(&w->arena);
    mem_free(&model->ctx->allocator, w, sizeof *w);
    return status;
}
