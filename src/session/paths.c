/* SPDX-License-Identifier: Apache-2.0 */
/* Parts of a model: paths from values where they begin to values where they end, put together as a model of its own. */
#include "ops/op.h"
#include "session/passes_int.h"

/* ---- names ----------------------------------------------------------------------------------------------------- */

static tn_status check_names(size_t path, const char *what, const char *const *names, size_t n) {
    if (n > 0 && !names) return fail(TN_INVALID_ARGUMENT, "path %zu: %ss is NULL", path, what);
    for (size_t i = 0; i < n; i++)
        if (!names[i]) return fail(TN_INVALID_ARGUMENT, "the name of %s %zu of path %zu is NULL", what, i, path);
    return TN_OK;
}

tn_status paths_check(const Paths *paths) {
    for (size_t i = 0; i < paths->n; i++) {
        TRY(check_names(i, "input", paths->list[i].inputs, paths->list[i].n_inputs));
        TRY(check_names(i, "output", paths->list[i].outputs, paths->list[i].n_outputs));
        if (paths->list[i].n_outputs == 0) return fail(TN_INVALID_ARGUMENT, "path %zu ends nowhere: name outputs", i);
    }
    return TN_OK;
}

static tn_status no_value(const Model *model, const char *wanted) {
    const Graph *g = model->main;
    Arena arena;
    arena_init(&arena, &model->ctx->allocator);
    size_t most = model->strings.len + graph_n_outputs(g), n = 0;
    const char **names = arena_array(&arena, const char *, most + 1);
    for (size_t i = 0; names && i < graph_n_outputs(g); i++) names[n++] = g->output_names.data[i].s;
    for (size_t i = 0; names && i < model->strings.len; i++) {
        const Value *v = model_value(model, model->strings.entries[i].key);
        if (v && v->graph == g) names[n++] = v->name.s;
    }
    const char *near = names ? nearest_name(str_of(wanted), names, n) : NULL;
    tn_status status = near ? fail(TN_NOT_FOUND, "the model has no value \"%s\"; did you mean \"%s\"?", wanted, near)
                            : fail(TN_NOT_FOUND, "the model has no value \"%s\"", wanted);
    arena_free(&arena);
    return status;
}

/* The values that a path's names stand for. */
typedef struct Ends {
    Value **inputs, **outputs;
} Ends;

typedef struct Cut {
    Model *model;
    Arena arena;
    const tn_path *paths;
    size_t n_paths;
    Ends *ends;       /* of each path */
    Map outputs;      /* API names of the model's outputs, with their values */
    uint32_t *begins; /* by value id: the last path that begins there, counted from 1 */
    uint32_t *seen;   /* by value id: the last path that needs it */
    uint32_t *walked; /* by node id: likewise */
    bool *made;       /* by value id: some path computes it */
    Value **instead;  /* by value id: the input that took its place */
    VEC(Value *) todo;
    VEC(Value *) inputs; /* of the model that comes of it */
} Cut;

static tn_status value_of_name(const Cut *c, const char *wanted, const char *what, Value **out) {
    Str name = str_of(wanted);
    *out = map_get(&c->outputs, name);
    if (!*out) *out = model_value(c->model, name);
    if (!*out) return no_value(c->model, wanted);
    if ((*out)->graph == c->model->main) return TN_OK;
    return fail(TN_NOT_FOUND, "value \"%s\" stands in a nested graph and cannot be an %s", wanted, what);
}

static tn_status values_of_names(Cut *c, const char *const *names, size_t n, const char *what, Value ***out) {
    *out = arena_array(&c->arena, Value *, n + 1);
    if (!*out) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) TRY(value_of_name(c, names[i], what, &(*out)[i]));
    return TN_OK;
}

static tn_status find_ends(Cut *c) {
    if (!(c->ends = arena_array(&c->arena, Ends, c->n_paths))) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < c->n_paths; i++) {
        const tn_path *p = &c->paths[i];
        TRY(values_of_names(c, p->inputs, p->n_inputs, "input", &c->ends[i].inputs));
        TRY(values_of_names(c, p->outputs, p->n_outputs, "output", &c->ends[i].outputs));
    }
    return TN_OK;
}

/* ---- what a path needs ----------------------------------------------------------------------------------------- */

static tn_status need(Cut *c, uint32_t path, Value *v) {
    if (!v || v->graph != c->model->main || c->seen[v->id] == path) return TN_OK;
    c->seen[v->id] = path;
    return vec_push(&c->model->ctx->allocator, &c->todo, v);
}

typedef struct Captures {
    Cut *cut;
    uint32_t path;
} Captures;

static tn_status need_operands(Visitor *visitor, Node *node) {
    const Captures *captures = visitor->user;
    for (uint32_t i = 0; i < node->n_operands; i++) TRY(need(captures->cut, captures->path, node->operands[i].value));
    return TN_OK;
}

static tn_status need_outputs(Visitor *visitor, Graph *graph) { return need_operands(visitor, graph->ret); }

/* Operands, and what nested graphs read of the graph around them. */
static tn_status walk_node(Cut *c, uint32_t path, Node *node) {
    Captures captures = {c, path};
    Visitor visitor = {.node = need_operands, .graph = need_outputs, .user = &captures};
    Graph *nested;
    if (c->walked[node->id] == path) return TN_OK;
    c->walked[node->id] = path;
    TRY(need_operands(&visitor, node));
    for (size_t k = 0; (nested = node_graph(node, k)); k++) TRY(visit_graph(nested, &visitor));
    return TN_OK;
}

/* Back from its ends to where it begins, or to the model's inputs. */
static tn_status walk_path(Cut *c, size_t i) {
    const tn_path *p = &c->paths[i];
    const Ends *ends = &c->ends[i];
    uint32_t path = (uint32_t)i + 1;
    for (size_t k = 0; k < p->n_inputs; k++) c->begins[ends->inputs[k]->id] = path;
    for (size_t k = 0; k < p->n_outputs; k++) TRY(need(c, path, ends->outputs[k]));
    while (c->todo.len > 0) {
        Value *v = c->todo.data[--c->todo.len];
        if (c->begins[v->id] == path || !v->def) continue;
        c->made[v->id] = true;
        TRY(walk_node(c, path, v->def));
    }
    for (size_t k = 0; k < p->n_inputs; k++)
        if (c->seen[ends->inputs[k]->id] != path)
            return fail(TN_INVALID_ARGUMENT, "path %zu begins at \"%s\", which none of its ends needs", i,
                        p->inputs[k]);
    return TN_OK;
}

/* ---- the model that comes of it --------------------------------------------------------------------------------- */

/* Only what is checked when an input is given: numbers, and names that stand for one size. */
static const Type *input_type(Model *model, const Type *type) {
    Type t = *type;
    if (t.kind != TYPE_TENSOR) return type;
    for (int k = 0; k < t.shape.rank; k++) {
        const DimExpr *e = dim_expr(&model->dims, t.shape.dims[k]);
        if (e && e->op != DIM_SYMBOL) t.shape.dims[k] = DIM_UNKNOWN;
    }
    return type_intern(model, &t);
}

static tn_status begin_at(Cut *c, Value *v, const char *name) {
    Value *input = v;
    if (c->made[v->id] || c->instead[v->id]) return TN_OK;
    if (v->def) {
        const Type *type = input_type(c->model, v->type);
        if (!type) return TN_OUT_OF_MEMORY;
        TRY(graph_add_input(c->model->main, (Str){NULL, 0}, type, &input));
        TRY(value_take_over(v, input));
        if (!str_equal(input->name, str_of(name))) TRY(value_set_name(input, str_of(name)));
    }
    c->instead[v->id] = input;
    return vec_push(&c->model->ctx->allocator, &c->inputs, input);
}

/* Where the paths begin, then what they need of the model's own inputs. */
static tn_status find_inputs(Cut *c) {
    const Graph *g = c->model->main;
    size_t own = g->inputs.len;
    for (size_t p = 0; p < c->n_paths; p++)
        for (size_t i = 0; i < c->paths[p].n_inputs; i++) TRY(begin_at(c, c->ends[p].inputs[i], c->paths[p].inputs[i]));
    for (size_t i = 0; i < own; i++) {
        Value *v = g->inputs.data[i];
        if (c->seen[v->id] && !c->instead[v->id]) TRY(vec_push(&c->model->ctx->allocator, &c->inputs, v));
    }
    return TN_OK;
}

static tn_status add_outputs(Cut *c, size_t p, const Map *earlier) {
    for (size_t i = 0; i < c->paths[p].n_outputs; i++) {
        Value *v = c->ends[p].outputs[i];
        Str name = str_of(c->paths[p].outputs[i]);
        if (map_get(earlier, name)) continue;
        TRY(graph_add_output(c->model->main, c->instead[v->id] ? c->instead[v->id] : v, name));
    }
    return TN_OK;
}

/* One that an earlier path has too is one output. */
static tn_status set_outputs(Cut *c) {
    Map earlier;
    tn_status status = TN_OK;
    map_init(&earlier, &c->model->ctx->allocator);
    graph_clear_outputs(c->model->main);
    for (size_t p = 0; p < c->n_paths && status == TN_OK; p++) {
        status = add_outputs(c, p, &earlier);
        for (size_t i = 0; i < c->paths[p].n_outputs && status == TN_OK; i++)
            status = map_set(&earlier, str_of(c->paths[p].outputs[i]), c);
    }
    map_free(&earlier);
    return status;
}

/* Operands stand before users, so that from the last to the first nothing is read any more. */
static void erase_rest(const Cut *c) {
    for (Node *node = c->model->main->last, *before; node; node = before) {
        before = node->prev;
        if (!c->walked[node->id]) node_erase(node);
    }
}

static tn_status cut(Cut *c) {
    bool inside = false;
    TRY(find_ends(c));
    for (size_t p = 0; p < c->n_paths; p++) inside |= c->paths[p].n_inputs > 0;
    for (size_t p = 0; p < c->n_paths && inside; p++) TRY(walk_path(c, p));
    if (inside) TRY(find_inputs(c));
    TRY(set_outputs(c));
    if (!inside) return TN_OK;
    erase_rest(c);
    TRY(graph_choose_inputs(c->model->main, c->inputs.data, c->inputs.len));
    return infer_from_inputs(c->model); /* what followed from values that are given now does not any more */
}

static tn_status cut_init(Cut *c) {
    const Graph *g = c->model->main;
    size_t n = c->model->n_values + (size_t)1;
    c->begins = arena_array(&c->arena, uint32_t, n);
    c->seen = arena_array(&c->arena, uint32_t, n);
    c->made = arena_array(&c->arena, bool, n);
    c->instead = arena_array(&c->arena, Value *, n);
    c->walked = arena_array(&c->arena, uint32_t, c->model->n_nodes + (size_t)1);
    if (!c->begins || !c->seen || !c->made || !c->instead || !c->walked) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < graph_n_outputs(g); i++)
        TRY(map_set(&c->outputs, g->output_names.data[i], graph_output(g, i)));
    return TN_OK;
}

tn_status paths_choose(Model *model, const Paths *paths) {
    Cut c = {.model = model, .paths = paths->list, .n_paths = paths->n};
    if (paths->n == 0) return TN_OK;
    arena_init(&c.arena, &model->ctx->allocator);
    map_init(&c.outputs, &model->ctx->allocator);
    tn_status status = cut_init(&c);
    if (status == TN_OK) status = cut(&c);
    if (status != TN_OK && model->file.n) diag_set_file(model->file.s);
    vec_free(&model->ctx->allocator, &c.todo);
    vec_free(&model->ctx->allocator, &c.inputs);
    map_free(&c.outputs);
    arena_free(&c.arena);
    return status;
}

tn_status tn_model_extract(const tn_model *model, const tn_path *paths, size_t n_paths, tn_model **part) {
    Paths wanted = {paths, n_paths};
    Model *copy;
    if (!model || !part || (n_paths && !paths)) return fail(TN_INVALID_ARGUMENT, "model, paths or part is NULL");
    if (atomic_load(&model->exposed)) TRY(model_verify(model->ir));
    TRY(paths_check(&wanted));
    TRY(model_clone(model->ir, &copy));
    tn_status status = paths_choose(copy, &wanted);
    if (status == TN_OK) status = model_compact_ids(copy);
    if (status == TN_OK) return model_handle(model->ctx, copy, part);
    model_free(copy);
    return status;
}
