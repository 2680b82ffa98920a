/* SPDX-License-Identifier: Apache-2.0 */
/* Inference: of one node, and of all values of a model in order, nested graphs included. */
#include "ops/op_int.h"

#include <stdio.h>

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
        if (!other || other->group != spec->group || !in[k].present || in[k].kind != TYPE_TENSOR || !in[k].dtype)
            continue;
        if (in[k].dtype == in[i].dtype) return TN_OK;
        return fail(TN_SHAPE,
                    "operand %u (\"%s\") has elements of type %s; they must be %s like those of operand %u (\"%s\")", i,
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
            return fail(TN_SHAPE, "operand %u (\"%s\") has elements of type %s, which the op does not take", i,
                        spec->name, dtype_name(in[i].dtype));
        if (spec->group) TRY(check_group(node, in, i, spec));
    }
    return TN_OK;
}

static tn_status check_result(const Node *node, uint32_t i, const InferValue *out) {
    const OperandSpec *spec = op_output_spec(node->op, i);
    if (spec && out->kind == TYPE_TENSOR && out->dtype && !(spec->types & TS(out->dtype)))
        return fail(TN_SHAPE, "result %u (\"%s\") cannot have elements of type %s", i, spec->name,
                    dtype_name(out->dtype));
    if (out->kind != TYPE_TENSOR || out->shape.rank < 0) return TN_OK;
    if (out->shape.rank > TN_MAX_RANK)
        return fail(TN_LIMIT, "a result has %d dimensions, more than %d", out->shape.rank, TN_MAX_RANK);
    int64_t known = 1;
    for (int i = 0; i < out->shape.rank; i++) {
        Dim d = out->shape.dims[i];
        if (!dim_is_const(d)) continue;
        if (d < 0) return fail(TN_SHAPE, "dimension %d of a result would be %lld", i, (long long)d);
        if (d > 0 && mul_overflows(known, d, &known))
            return fail(TN_LIMIT, "a result would have more than 2^63 elements");
    }
    return TN_OK;
}

tn_status op_infer(const Node *node, Model *model, const InferValue *in, InferValue *out,
                   Dim (*content_out)[CONTENT_MAX]) {
    InferCtx c = {.node = node,
                  .model = model,
                  .dims = model ? &model->dims : NULL,
                  .n_in = (int)node->n_operands,
                  .n_out = (int)node->n_results,
                  .in = in,
                  .out = out,
                  .content_out = content_out};
    for (uint32_t i = 0; i < node->n_results; i++) preset(node, in, i, &out[i]);
    tn_status status = check_operands(node, in);
    if (status == TN_OK && node->op->infer) status = node->op->infer(&c);
    else if (status == TN_OK) set_like(&c, 0, 0);
    for (uint32_t i = 0; i < node->n_results && status == TN_OK; i++) status = check_result(node, i, &out[i]);
    if (status != TN_OK) diag_set_node(node->loc.n ? node->loc.s : "", node->op->name);
    return status;
}

InferValue infer_concrete(const Tensor *t, bool contents) {
    InferValue v = {.present = true, .kind = t->kind, .shape = shape_unknown()};
    if (t->kind != TYPE_TENSOR) return v;
    v.dtype = t->dtype;
    v.shape = shape_make(t->rank, t->dims);
    v.value = contents && !buffer_is_lazy(t->buffer) ? t : NULL;
    return v;
}

tn_status op_check_known(const Node *node, uint32_t i, const InferValue *found) {
    if (found->kind != TYPE_TENSOR || node->op->flags & (OP_DYNAMIC_OUT | OP_CONTROL)) return TN_OK;
    if (!found->dtype) return fail(TN_SHAPE, "the element type of result %u is not known", i);
    if (shape_is_known(&found->shape)) return TN_OK;
    return fail(TN_SHAPE, "the shape of result %u does not follow from these operands", i);
}

/* ---- a model ------------------------------------------------------------------------------------------------- */

/* What is taken for granted of the sizes that a loop carries: that all stay as they begin; that those do which one turn
   left alone; only what is declared. When a turn shows that it does not hold, the body is walked again with less. */
typedef enum Trust { ALL_STAY, SOME_STAY, AS_DECLARED } Trust;

typedef struct SavedType {
    Value *value;
    const Type *type;
} SavedType;

typedef struct Walker {
    Model *model;
    Arena arena;        /* values and contents */
    InferValue *values; /* by value id */
    int depth;
    VEC(SavedType) saved; /* of bodies that may be walked again: types as they were before */
    int64_t budget;       /* values that may be walked again, so that nested loops do not multiply */
    bool strict;          /* for infer_facts */
    InferValue *in;       /* scratch for one node */
    size_t n_in;
    InferValue *out;
    Dim (*contents)[CONTENT_MAX];
    size_t n_out;
    struct Level {
        Graph *graph;
        Node *node;    /* the next to infer */
        size_t nested; /* its nested graphs done so far */
        Trust trust;
        size_t saved, saved_end; /* its part of `saved` */
    } levels[256];               /* the last, since only those in use are written */
} Walker;

static InferValue value_from_type(const Type *type) {
    return (InferValue){
        .present = true, .kind = type->kind, .dtype = type->dtype, .shape = type->shape, .elem = type->elem};
}

static InferValue value_from_constant(const Tensor *t) {
    return (InferValue){.present = true,
                        .kind = TYPE_TENSOR,
                        .dtype = t->dtype,
                        .shape = shape_make(t->rank, t->dims),
                        .value = buffer_is_lazy(t->buffer) ? NULL : t};
}

static void enter_inputs(Walker *w, const Graph *graph) {
    for (size_t i = 0; i < graph->inputs.len; i++) {
        Value *v = graph->inputs.data[i];
        w->values[v->id] = value_from_type(v->type);
    }
}

/* The types that were saved from `saved` on belong to the graph's level. */
static tn_status enter(Walker *w, Graph *graph, Trust trust, size_t saved) {
    if (w->depth == (int)(sizeof w->levels / sizeof *w->levels))
        return fail(TN_LIMIT, "graphs are nested more than %d deep", w->depth);
    enter_inputs(w, graph);
    w->levels[w->depth++] = (struct Level){
        .graph = graph, .node = graph->first, .trust = trust, .saved = saved, .saved_end = w->saved.len};
    return TN_OK;
}

static tn_status reserve(Walker *w, const Node *node) {
    if (node->n_operands > w->n_in) {
        w->n_in = node->n_operands * 2 + 2;
        if (!(w->in = arena_array(&w->arena, InferValue, w->n_in))) return TN_OUT_OF_MEMORY;
    }
    if (node->n_results > w->n_out) {
        w->n_out = node->n_results * 2 + 1;
        w->out = arena_array(&w->arena, InferValue, w->n_out);
        w->contents = arena_raw(&w->arena, w->n_out * sizeof *w->contents, alignof(Dim));
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
        return fail(TN_SHAPE, "value \"%.*s\" is declared %s but computed as %s", (int)v->name.n,
                    v->name.s ? v->name.s : "", dtype_name(v->type->dtype), dtype_name(inferred->dtype));
    tn_status status = type_merge(w->model, inferred, v->type, &merged);
    if (status == TN_OUT_OF_MEMORY) return status;
    if (status != TN_OK) {
        diag_clear();
        merged = inferred;
    }
    value_set_type(v, merged);
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
    const Tensor *payload = value_payload(node_result(node, 0));
    if (payload) {
        InferValue v = value_from_constant(payload);
        TRY(settle(w, node->results[0], &v));
        w->values[node->results[0]->id] = value_from_constant(payload);
        return TN_OK;
    }
    TRY(gather(w, node));
    TRY(op_infer(node, w->model, w->in, w->out, w->contents));
    if (w->strict && node->op->flags & OP_CONTROL) control_forget_slices(node, w->out);
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

/* ---- bodies -------------------------------------------------------------------------------------------------- */

static tn_status save_type(Walker *w, Value *v) {
    return vec_push(&w->model->ctx->allocator, &w->saved, (SavedType){v, v->type});
}

/* Recursion is bounded: readers refuse what is nested deeper than max_nesting. */
static tn_status save_types(Walker *w, const Graph *graph) {
    for (size_t i = 0; i < graph->inputs.len; i++) TRY(save_type(w, graph->inputs.data[i]));
    for (Node *n = graph->first; n; n = n->next) {
        for (uint32_t i = 0; i < n->n_results; i++) TRY(save_type(w, n->results[i]));
        const Graph *body = NULL;
        for (size_t k = 0; n->op->flags & OP_CONTROL && (body = node_graph(n, k)); k++) TRY(save_types(w, body));
    }
    return TN_OK;
}

static void restore_types(Walker *w, size_t from, size_t to) {
    for (size_t i = from; i < to; i++) w->saved.data[i].value->type = w->saved.data[i].type;
    w->saved.len = to;
}

static tn_status enter_body(Walker *w, Node *node, Graph *body) {
    int in, out;
    size_t saved = w->saved.len;
    bool carries = control_carried(node, &in, &out) > 0 && w->budget > 0;
    if (carries) TRY(save_types(w, body));
    TRY(gather(w, node));
    tn_status status = control_bind_body(node, w->model, w->in, body, carries);
    if (status != TN_OK && carries) { /* say, a size that is declared otherwise */
        restore_types(w, saved, w->saved.len);
        status = control_bind_body(node, w->model, w->in, body, false);
        carries = false;
    }
    TRY(status);
    return enter(w, body, carries ? ALL_STAY : AS_DECLARED, saved);
}

/* What is known of sizes, with what is declared where nothing is. */
static Shape declared_sizes(const Shape *known, const Shape *declared) {
    Shape s = known->rank >= 0 ? *known : *declared;
    for (int k = 0; k < s.rank && declared->rank == s.rank; k++)
        if (s.dims[k] == DIM_UNKNOWN) s.dims[k] = declared->dims[k];
    return s;
}

/* Walks a loop's body again; `shapes`, where they are given, are what is left of its carried inputs' sizes. */
static tn_status enter_again(Walker *w, struct Level *level, Trust trust, const Shape *shapes) {
    int first, out, n = control_carried(level->graph->owner, &first, &out);
    restore_types(w, level->saved, level->saved_end);
    w->budget -= (int64_t)(level->saved_end - level->saved);
    const Type **declared = arena_array(&w->arena, const Type *, (size_t)n + 1);
    if (!declared) return TN_OUT_OF_MEMORY;
    for (int i = 0; shapes && i < n; i++) declared[i] = level->graph->inputs.data[first + i]->type;
    TRY(gather(w, level->graph->owner));
    TRY(control_bind_body(level->graph->owner, w->model, w->in, level->graph, trust != AS_DECLARED));
    for (int i = 0; shapes && i < n; i++) {
        Value *v = level->graph->inputs.data[first + i];
        Type type = *v->type;
        type.shape = declared_sizes(&shapes[i], &declared[i]->shape);
        const Type *interned = type.kind == TYPE_TENSOR ? type_intern(w->model, &type) : v->type;
        if (!interned) return TN_OUT_OF_MEMORY;
        v->type = interned;
    }
    enter_inputs(w, level->graph);
    level->node = level->graph->first;
    level->nested = 0;
    level->trust = trust;
    return TN_OK;
}

/* What a turn leaves of a carried value's sizes. */
static bool leave_sizes(Shape *size, const Type *next) {
    bool same_rank = next->kind == TYPE_TENSOR && next->shape.rank == size->rank,
         changed = !same_rank && size->rank >= 0;
    if (!same_rank) *size = shape_unknown();
    for (int k = 0; k < size->rank; k++) {
        if (size->dims[k] == next->shape.dims[k] || size->dims[k] == DIM_UNKNOWN) continue;
        size->dims[k] = DIM_UNKNOWN;
        changed = true;
    }
    return changed;
}

/* At the end of a body: *again when sizes change from turn to turn that were taken to stay. */
static tn_status check_carried(Walker *w, struct Level *level, bool *again) {
    *again = false;
    if (level->trust == AS_DECLARED) return TN_OK;
    int first, out, n = control_carried(level->graph->owner, &first, &out);
    if ((size_t)(first + n) > level->graph->inputs.len || (size_t)(out + n) > graph_n_outputs(level->graph))
        return TN_OK;
    Shape *left = arena_array(&w->arena, Shape, (size_t)n + 1);
    if (!left) return TN_OUT_OF_MEMORY;
    for (int i = 0; i < n; i++) {
        left[i] = level->graph->inputs.data[first + i]->type->shape;
        *again |= leave_sizes(&left[i], graph_output(level->graph, (size_t)(out + i))->type);
    }
    Trust trust = level->trust == ALL_STAY ? SOME_STAY : AS_DECLARED;
    return *again ? enter_again(w, level, trust, trust == SOME_STAY ? left : NULL) : TN_OK;
}

/* What the schema alone says of a node's results. */
static tn_status infer_by_schema(Walker *w, const Node *node) {
    TRY(gather(w, node));
    for (uint32_t i = 0; i < node->n_results; i++) {
        InferValue found;
        preset(node, w->in, i, &found);
        const OperandSpec *spec = op_output_spec(node->op, i);
        if (spec && found.dtype && !(spec->types & TS(found.dtype))) found.dtype = TN_UNDEFINED;
        tn_status status = settle(w, node->results[i], &found);
        if (status == TN_OUT_OF_MEMORY) return status;
        w->values[node->results[i]->id] = value_from_type(node->results[i]->type);
    }
    diag_clear();
    return TN_OK;
}

/* A node that cannot be as it is inferred. In a loop's body too much may have been taken for granted. A branch of an If
   may be the one that is not taken: what is not known of it stays unknown, and if it is taken after all the error comes
   then. */
static tn_status try_otherwise(Walker *w, tn_status status) {
    if (status == TN_OUT_OF_MEMORY || status == TN_LIMIT) return status;
    for (int d = w->depth - 1; d > 0; d--) {
        const Node *owner = w->levels[d].graph->owner;
        if (owner && strcmp(owner->op->name, "If") == 0) {
            struct Level *level = &w->levels[w->depth - 1];
            Node *node = level->node;
            level->node = node->next;
            level->nested = 0;
            return infer_by_schema(w, node);
        }
        if (w->levels[d].trust == AS_DECLARED) continue;
        w->depth = d + 1;
        diag_clear();
        return enter_again(w, &w->levels[d], AS_DECLARED, NULL);
    }
    return status;
}

static tn_status leave_graph(Walker *w) {
    bool again;
    struct Level *level = &w->levels[w->depth - 1];
    TRY(check_carried(w, level, &again));
    if (again) return TN_OK;
    w->saved.len = level->saved;
    w->depth--;
    return TN_OK;
}

static tn_status step(Walker *w) {
    struct Level *level = &w->levels[w->depth - 1];
    Node *node = level->node;
    Graph *body = node->op->flags & OP_CONTROL ? node_graph(node, level->nested) : NULL;
    if (body) {
        level->nested++;
        return enter_body(w, node, body);
    }
    TRY(infer_one(w, node));
    level->node = node->next;
    level->nested = 0;
    return TN_OK;
}

static tn_status walk_graphs(Walker *w) {
    w->budget = 16 * (int64_t)w->model->n_values + 1000;
    TRY(enter(w, w->model->main, AS_DECLARED, 0));
    while (w->depth > 0) {
        bool at_end = !w->levels[w->depth - 1].node;
        tn_status status = at_end ? leave_graph(w) : step(w);
        if (status != TN_OK && !at_end) status = try_otherwise(w, status);
        TRY(status);
    }
    return TN_OK;
}

/* ---- what others call ---------------------------------------------------------------------------------------- */

static Walker *walker_new(Model *model) {
    bool zero;
    Walker *w = mem_raw(&model->ctx->allocator, sizeof *w, alignof(Walker), &zero);
    if (!w) return NULL;
    memset(w, 0, offsetof(Walker, levels));
    w->model = model;
    arena_init(&w->arena, &model->ctx->allocator);
    return w;
}

static void walker_free(Walker *w) {
    const Allocator *a = &w->model->ctx->allocator;
    arena_free(&w->arena);
    vec_free(a, &w->saved);
    mem_free(a, w, sizeof *w);
}

tn_status infer_model(Model *model) {
    Walker *w = walker_new(model);
    if (!w) return TN_OUT_OF_MEMORY;
    w->values = arena_array(&w->arena, InferValue, model->n_values + 1);
    tn_status status = w->values ? walk_graphs(w) : TN_OUT_OF_MEMORY;
    if (status != TN_OK && model->file.n) diag_set_file(model->file.s);
    walker_free(w);
    return status;
}

/* ---- facts --------------------------------------------------------------------------------------------------- */

/* What the names of symbols made here begin with. */
enum { OWN_SYMBOL = 1 };

/* Types that were set aside, and the last few that were stripped: neighbours have the same. */
typedef struct Stripped {
    const Type *from, *to;
} Stripped;

typedef struct FactsWalk {
    Walker *walker;
    bool symbols; /* a symbol for each size of an input that has none */
    Stripped cache[64];
    SavedType *saved;
    size_t n_saved;
} FactsWalk;

/* Without sizes. Recursion over element types is bounded by type_intern. */
static const Type *without_sizes(Model *model, const Type *type) {
    Type t = {.kind = type->kind, .dtype = type->dtype, .shape = shape_unknown()};
    if (type->elem && !(t.elem = without_sizes(model, type->elem))) return NULL;
    return type_intern(model, &t);
}

/* When inputs are given it is checked that numbers are right and that a name stands for one size. */
static bool is_checked(const Model *model, Dim d) {
    const DimExpr *e = dim_expr(&model->dims, d);
    return dim_is_const(d) || (e && e->op == DIM_SYMBOL && e->name.n && e->name.s[0] != OWN_SYMBOL);
}

/* Of a main graph's input: other sizes get a symbol each. */
static const Type *input_facts(Model *model, const Value *v) {
    Type t = {.kind = TYPE_TENSOR, .dtype = v->type->dtype, .shape = v->type->shape};
    if (v->type->kind != TYPE_TENSOR) return without_sizes(model, v->type);
    for (int k = 0; k < t.shape.rank; k++) {
        char name[32];
        int n = snprintf(name, sizeof name, "%c%u.%d", OWN_SYMBOL, v->index, k);
        if (is_checked(model, t.shape.dims[k])) continue;
        t.shape.dims[k] = dim_symbol(&model->dims, (Str){name, (size_t)n});
        if (t.shape.dims[k] == DIM_UNKNOWN) return NULL;
    }
    return type_intern(model, &t);
}

static const Type *facts_type(FactsWalk *f, const Value *v) {
    Model *model = f->walker->model;
    if (!v->def && v->graph == model->main) return f->symbols ? input_facts(model, v) : v->type;
    Stripped *known = &f->cache[((uintptr_t)v->type >> 6) % (sizeof f->cache / sizeof *f->cache)];
    if (known->from != v->type) *known = (Stripped){v->type, without_sizes(model, v->type)};
    if (!known->to) known->from = NULL;
    return known->to;
}

static tn_status set_aside(FactsWalk *f, Value *v) {
    const Type *stripped = facts_type(f, v);
    if (!stripped) return TN_OUT_OF_MEMORY;
    f->saved[f->n_saved++] = (SavedType){v, v->type};
    v->type = stripped;
    return TN_OK;
}

static tn_status set_types_aside(FactsWalk *f) {
    Graph **graphs;
    size_t n;
    TRY(model_graphs(f->walker->model, &f->walker->arena, &graphs, &n));
    for (size_t g = 0; g < n; g++) {
        /* Whether a Loop's iteration and condition are [] or [1] is what the declaration says. */
        size_t first = control_is_loop(graphs[g]->owner) ? 2 : 0;
        for (size_t i = first; i < graphs[g]->inputs.len; i++) TRY(set_aside(f, graphs[g]->inputs.data[i]));
        for (Node *node = graphs[g]->first; node; node = node->next)
            for (uint32_t i = 0; i < node->n_results; i++) TRY(set_aside(f, node->results[i]));
    }
    return TN_OK;
}

/* Callers and file formats want an output's rank, if nothing else. */
static tn_status keep_rank(Walker *w, const SavedType *saved) {
    const Type *declared = saved->type, *found = saved->value->type;
    const Use *use = saved->value->uses;
    if (declared->kind != TYPE_TENSOR || found->kind != TYPE_TENSOR || declared->shape.rank < 0 ||
        found->shape.rank >= 0)
        return TN_OK;
    while (use && use->user != w->model->main->ret) use = use->next;
    if (!use) return TN_OK;
    Type type = *found;
    type.shape = (Shape){.rank = declared->shape.rank};
    for (int k = 0; k < type.shape.rank; k++) type.shape.dims[k] = DIM_UNKNOWN;
    const Type *interned = type_intern(w->model, &type);
    if (!interned) return TN_OUT_OF_MEMORY;
    saved->value->type = interned;
    return TN_OK;
}

/* From what is known of inputs alone; types and edits are afterwards what they were, unless `keep`. */
static tn_status walk_for_facts(Walker *w, bool keep) {
    FactsWalk f = {.walker = w, .symbols = !keep};
    uint64_t edits = w->model->state_edits;
    w->strict = true;
    w->values = arena_array(&w->arena, InferValue, w->model->n_values + 1);
    f.saved = mem_alloc(&w->model->ctx->allocator, (w->model->n_values + 1) * sizeof *f.saved, alignof(SavedType));
    tn_status status = w->values && f.saved ? set_types_aside(&f) : TN_OUT_OF_MEMORY;
    if (status == TN_OK) status = walk_graphs(w);
    bool changed = false;
    while (f.n_saved > 0) {
        SavedType *saved = &f.saved[--f.n_saved];
        if (keep && status == TN_OK) status = keep_rank(w, saved);
        changed |= saved->value->type != saved->type;
        if (!keep || status != TN_OK) saved->value->type = saved->type;
    }
    mem_free(&w->model->ctx->allocator, f.saved, (w->model->n_values + 1) * sizeof *f.saved);
    w->model->state_edits = edits + (keep && changed);
    return status;
}

tn_status infer_from_inputs(Model *model) {
    Walker *w = walker_new(model);
    if (!w) return TN_OUT_OF_MEMORY;
    tn_status status = walk_for_facts(w, true);
    if (status != TN_OK && model->file.n) diag_set_file(model->file.s);
    walker_free(w);
    return status;
}

tn_status infer_facts(Model *model, InferFacts *out) {
    Walker *w = walker_new(model);
    if (!w) return TN_OUT_OF_MEMORY;
    tn_status status = walk_for_facts(w, false);
    if (status == TN_OK) {
        *out = (InferFacts){w->values, model->n_values, w->arena};
        arena_init(&w->arena, &model->ctx->allocator);
    }
    walker_free(w);
    return status;
}

void infer_facts_free(InferFacts *facts) { arena_free(&facts->arena); }

/* ---- a node by itself ---------------------------------------------------------------------------------------- */

static bool may_be_sizes(const Value *v) {
    const Type *t = v->type;
    return t->kind == TYPE_TENSOR && (t->dtype == TN_I64 || t->dtype == TN_I32) && t->shape.rank >= 0 &&
           t->shape.rank <= 1 && v->def && !(v->def->op->flags & OP_CONTROL);
}

/* Lists of sizes hold what the few nodes above them make of it. Recursion is bounded by `depth`. */
static tn_status known_of(Walker *w, const Value *v, int depth, int *nodes, InferValue *out) {
    const Tensor *payload = v ? value_payload(v) : NULL;
    *out = !v ? (InferValue){0} : payload ? value_from_constant(payload) : value_from_type(v->type);
    if (!v || payload || depth == 0 || !may_be_sizes(v) || --*nodes < 0) return TN_OK;
    const Node *def = v->def;
    InferValue *in = arena_array(&w->arena, InferValue, def->n_operands + 1),
               *results = arena_array(&w->arena, InferValue, def->n_results);
    Dim(*contents)[CONTENT_MAX] = arena_alloc(&w->arena, def->n_results * sizeof *contents, alignof(Dim));
    if (!in || !results || !contents) return TN_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < def->n_operands; i++) TRY(known_of(w, def->operands[i].value, depth - 1, nodes, &in[i]));
    tn_status status = op_infer(def, w->model, in, results, contents);
    if (status == TN_OUT_OF_MEMORY) return status;
    if (status != TN_OK) diag_clear();
    else out->content = results[v->index].content, out->n_content = results[v->index].n_content;
    return TN_OK;
}

enum { LEVELS_ABOVE = 4, NODES_ABOVE = 64 };

static tn_status infer_alone(Walker *w, Node *node) {
    int nodes = NODES_ABOVE;
    TRY(reserve(w, node));
    for (uint32_t i = 0; i < node->n_operands; i++)
        TRY(known_of(w, node->operands[i].value, i < 32 && node->op->content_inputs >> i & 1 ? LEVELS_ABOVE : 0, &nodes,
                     &w->in[i]));
    TRY(op_infer(node, w->model, w->in, w->out, w->contents));
    for (uint32_t i = 0; i < node->n_results; i++) TRY(settle(w, node->results[i], &w->out[i]));
    return TN_OK;
}

tn_status infer_node(Node *node) {
    Walker *w = walker_new(node->graph->model);
    if (!w) return TN_OUT_OF_MEMORY;
    tn_status status = infer_alone(w, node);
    walker_free(w);
    return status;
}
