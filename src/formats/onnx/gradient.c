/* SPDX-License-Identifier: Apache-2.0 */
/* ai.onnx.preview.training.Gradient: the partial derivatives of the tensor named `y` by those named `xs`. It is lowered
   where it stands: the nodes between them are found by their names, repeated for other values where the operands are
   not the tensors named, and gone through backwards; each brings what came to its results to its operands. A `y` of
   several elements is derived as the sum of them. Values that neither `xs` nor `zs` name are constants. */
#include "formats/onnx/gradient_int.h"

/* A value of the differentiated graph. */
typedef struct Var {
    Value *value;
    Value *now;  /* what it is where the gradient is taken */
    Value *back; /* the sum of what came back so far; NULL: nothing */
    bool active; /* depends on one of xs whose gradient is wanted, and has a derivative: is floating */
    bool named;  /* by xs or zs: nothing before it counts */
} Var;

typedef struct Step {
    Node *node;
    Value **captures; /* what its nested graphs read from outside */
    size_t n_captures;
    size_t next; /* operand to look at */
} Step;

typedef struct Gradient {
    Draft *d;
    OnnxReader *r;
    size_t n_xs;
    ProtoList names; /* xs, then zs */
    Value *y;
    Map vars; /* by the bytes of a value's id */
    VEC(Step) stack;
    VEC(Step) steps; /* nodes between, operands first */
} Gradient;

/* ---- what is named ---------------------------------------------------------------------------------------------- */

static tn_status read_names(Gradient *g) {
    const Attr *xs = onnx_attr(g->d, "xs"), *zs = onnx_attr(g->d, "zs"), *y = onnx_attr(g->d, "y");
    if (!xs || xs->kind != ATTR_STRINGS || !xs->n || !y || y->kind != ATTR_STRING || (zs && zs->kind != ATTR_STRINGS))
        return fail(TN_INVALID_MODEL, "the Gradient needs the names \"xs\" and \"y\", and may have \"zs\"");
    size_t n = xs->n + (zs ? zs->n : 0);
    g->n_xs = xs->n;
    g->names = (ProtoList){arena_array(&g->r->arena, Str, n), n, n};
    if (!g->names.data) return TN_OUT_OF_MEMORY;
    memcpy(g->names.data, xs->strings, xs->n * sizeof *xs->strings);
    if (zs && zs->n) memcpy(g->names.data + xs->n, zs->strings, zs->n * sizeof *zs->strings);
    if (g->d->n_operands != n || g->d->n_outputs > xs->n)
        return fail(TN_INVALID_MODEL, "the Gradient has %zu operands and %zu results for %zu xs and %zu zs",
                    g->d->n_operands, g->d->n_outputs, xs->n, n - xs->n);
    TRY(onnx_check_name(g->r, y->s, "a value's name"));
    TRY(onnx_resolve(g->d->scope, y->s, &g->y));
    return g->y ? TN_OK : fail(TN_INVALID_MODEL, "the Gradient's \"y\" is absent");
}

static bool is_wanted(const Gradient *g, size_t i) { return i < g->d->n_outputs && g->d->outputs[i].n; }

/* Without a type it may be floating. */
static bool may_be_float(const Value *value) {
    tn_dtype dtype = value->type->dtype;
    if (value->type->kind != TYPE_TENSOR) return false;
    return dtype == TN_UNDEFINED || (dtype_is_float(dtype) && dtype_bits(dtype) >= 16);
}

static Str var_key(const Value *value) { return (Str){(const char *)&value->id, sizeof value->id}; }

static Var *find_var(const Gradient *g, const Value *value) { return map_get(&g->vars, var_key(value)); }

static tn_status add_var(Gradient *g, Value *value, Var **out) {
    Var *var = arena_new(&g->r->arena, Var);
    if (!var) return TN_OUT_OF_MEMORY;
    *var = (Var){.value = value, .now = value};
    if (out) *out = var;
    return map_set(&g->vars, var_key(value), var);
}

/* The operands stand for the tensors named, which end the walk. */
static tn_status add_named(Gradient *g) {
    for (size_t i = 0; i < g->names.len; i++) {
        Str name = g->names.data[i];
        Value *value, *given = g->d->operands[i];
        Var *var;
        TRY(onnx_check_name(g->r, name, "a value's name"));
        TRY(onnx_resolve(g->d->scope, name, &value));
        if (!value || !given) return fail(TN_INVALID_MODEL, "the Gradient's tensor %zu is absent", i);
        if (find_var(g, value))
            return fail(TN_INVALID_MODEL, "\"%.*s\" is a tensor that the Gradient names twice", (int)name.n, name.s);
        TRY(add_var(g, value, &var));
        var->now = given;
        var->named = true;
        var->active = is_wanted(g, i);
        if (var->active && (!may_be_float(value) || !may_be_float(given)))
            return fail(TN_INVALID_MODEL, "\"%.*s\" is not floating: there is no gradient by it", (int)name.n, name.s);
    }
    return TN_OK;
}

/* ---- the nodes between ------------------------------------------------------------------------------------------ */

typedef struct Captures {
    OnnxReader *r;
    const Node *node;
    VEC(Value *) found;
} Captures;

static tn_status note_captures(Visitor *v, Node *node) {
    Captures *c = v->user;
    TRY(onnx_count_made(c->r, 1));
    for (uint32_t i = 0; i < node->n_operands; i++) {
        Value *value = node_operand(node, i);
        if (value && value_visible_in(value, c->node->graph)) TRY(vec_push(c->r->alloc, &c->found, value));
    }
    return TN_OK;
}

static tn_status find_captures(Gradient *g, Step *step) {
    Captures c = {.r = g->r, .node = step->node};
    Visitor v = {.node = note_captures, .user = &c};
    tn_status status = TN_OK;
    Graph *graph;
    for (size_t k = 0; status == TN_OK && (graph = node_graph(step->node, k)); k++) status = visit_graph(graph, &v);
    step->n_captures = c.found.len;
    step->captures = status == TN_OK ? arena_array(&g->r->arena, Value *, c.found.len) : NULL;
    if (step->captures && c.found.len) memcpy(step->captures, c.found.data, c.found.len * sizeof *c.found.data);
    if (status == TN_OK && !step->captures) status = TN_OUT_OF_MEMORY;
    vec_free(g->r->alloc, &c.found);
    return status;
}

/* Puts the node that makes the value on the stack when it is met for the first time. */
static tn_status reach(Gradient *g, Value *value) {
    Node *node = value->def;
    Step step = {.node = node};
    if (find_var(g, value)) return TN_OK;
    TRY(onnx_count_made(g->r, 1));
    if (!node || value_constant(value)) return add_var(g, value, NULL);
    for (uint32_t i = 0; i < node->n_results; i++) {
        if (!find_var(g, node->results[i])) TRY(add_var(g, node->results[i], NULL));
    }
    if (node_graph(node, 0)) TRY(find_captures(g, &step));
    return vec_push(g->r->alloc, &g->stack, step);
}

static size_t n_reads(const Step *step) { return step->node->n_operands + step->n_captures; }

/* NULL: an operand that is absent. */
static Value *read_at(const Step *step, size_t i) {
    uint32_t n = step->node->n_operands;
    return i < n ? node_operand(step->node, i) : step->captures[i - n];
}

static tn_status find_steps(Gradient *g) {
    TRY(reach(g, g->y));
    while (g->stack.len) {
        Step *top = &g->stack.data[g->stack.len - 1];
        if (top->next == n_reads(top)) {
            Step done = *top;
            g->stack.len--;
            TRY(vec_push(g->r->alloc, &g->steps, done));
            continue;
        }
        Value *value = read_at(top, top->next++);
        if (value) TRY(reach(g, value));
    }
    return TN_OK;
}

/* ---- forwards --------------------------------------------------------------------------------------------------- */

/* The node for the values where the gradient is taken. */
static tn_status repeat(Gradient *g, const Step *step) {
    const Node *node = step->node;
    Rule r = {.d = g->d, .node = node};
    Value **operands = arena_array(&g->r->arena, Value *, node->n_operands);
    Node *made;
    if (!operands) return TN_OUT_OF_MEMORY;
    if (node_graph(node, 0))
        return fail(TN_UNSUPPORTED, "Gradient: %s is not run for other values than those named", node->op->name);
    for (uint32_t i = 0; i < node->n_operands; i++) {
        Value *value = node_operand(node, i);
        operands[i] = value ? find_var(g, value)->now : NULL;
    }
    TRY(make_again(&r, operands, node->n_operands, node->n_results, &made));
    for (uint32_t i = 0; i < node->n_results; i++) {
        Var *var = find_var(g, node->results[i]);
        if (!var->named) var->now = made->results[i];
    }
    return TN_OK;
}

static tn_status step_forward(Gradient *g, const Step *step) {
    bool active = false, moved = false;
    for (size_t i = 0; i < n_reads(step); i++) {
        Value *value = read_at(step, i);
        const Var *var = value ? find_var(g, value) : NULL;
        if (!var) continue;
        active = active || var->active;
        moved = moved || var->now != var->value;
    }
    if (moved) TRY(repeat(g, step));
    for (uint32_t i = 0; i < step->node->n_results; i++) {
        Var *var = find_var(g, step->node->results[i]);
        if (!var->named) var->active = active && may_be_float(var->value);
    }
    return TN_OK;
}

/* ---- backwards -------------------------------------------------------------------------------------------------- */

static tn_status add_back(const Rule *r, Var *var, Value *more) {
    if (var->back) return MAKE(r, "Add", &var->back, var->back, more);
    var->back = more;
    return TN_OK;
}

static tn_status apply(Gradient *g, Rule *r) {
    const DeriveRow *row = gradient_row(r->node->op);
    if (!row) return fail(TN_UNSUPPORTED, "Gradient: there is no derivative of the op %s", r->node->op->name);
    if (!r->back[0] && row->fn != derive_split)
        return fail(TN_UNSUPPORTED, "Gradient: there is no derivative of %s's other results", r->node->op->name);
    TRY(row->fn(r));
    for (uint32_t i = 0; i < r->node->n_operands; i++) {
        if (r->wanted[i] && r->grads[i]) TRY(add_back(r, find_var(g, node_operand(r->node, i)), r->grads[i]));
    }
    return TN_OK;
}

static bool lists_operands(Gradient *g, Rule *r, bool *wanted) {
    bool any = false;
    for (uint32_t i = 0; i < r->node->n_operands; i++) {
        Value *value = node_operand(r->node, i);
        const Var *var = value ? find_var(g, value) : NULL;
        r->in[i] = var ? var->now : NULL;
        wanted[i] = var && var->active;
        any = any || wanted[i];
    }
    return any;
}

static tn_status step_back(Gradient *g, const Step *step) {
    const Node *node = step->node;
    Arena *arena = &g->r->arena;
    bool any = false, active = false, *wanted = arena_array(arena, bool, node->n_operands);
    Value **back = arena_array(arena, Value *, node->n_results);
    Rule r = {.d = g->d, .node = node, .back = back, .wanted = wanted};
    r.in = arena_array(arena, Value *, node->n_operands);
    r.grads = arena_array(arena, Value *, node->n_operands);
    r.out = arena_array(arena, Value *, node->n_results);
    if (!wanted || !back || !r.in || !r.grads || !r.out) return TN_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < node->n_results; i++) {
        const Var *var = find_var(g, node->results[i]);
        r.out[i] = var->now;
        back[i] = var->active && !var->named ? var->back : NULL;
        any = any || back[i];
    }
    for (size_t i = 0; any && i < step->n_captures; i++) active = active || find_var(g, step->captures[i])->active;
    active = lists_operands(g, &r, wanted) || active;
    if (!any || !active) return TN_OK;
    tn_status status = apply(g, &r);
    if (status != TN_OK) node_blame(node);
    return status;
}

static tn_status go_back(Gradient *g) {
    Rule r = {.d = g->d};
    Var *y = find_var(g, g->y);
    TRY(make_full(&r, 1, y->now, &y->back));
    for (size_t i = g->steps.len; i > 0; i--) {
        ArenaMark mark = arena_mark(&g->r->arena);
        TRY(step_back(g, &g->steps.data[i - 1]));
        arena_release(&g->r->arena, mark);
    }
    return TN_OK;
}

/* ---- all of it -------------------------------------------------------------------------------------------------- */

static tn_status take_results(Gradient *g) {
    Draft *d = g->d;
    Rule r = {.d = d};
    d->results = arena_array(&g->r->arena, Value *, d->n_outputs + 1);
    if (!d->results) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < d->n_outputs; i++) {
        Value *named;
        if (!is_wanted(g, i)) continue;
        TRY(onnx_resolve(d->scope, g->names.data[i], &named));
        const Var *x = find_var(g, named);
        d->results[i] = x->back;
        if (!x->back) TRY(make_full(&r, 0, x->now, &d->results[i]));
    }
    return TN_OK;
}

static tn_status derive(Gradient *g) {
    uint32_t before = g->r->model->n_nodes;
    TRY(read_names(g));
    if (!may_be_float(g->y)) return fail(TN_INVALID_MODEL, "the Gradient's \"y\" is not floating");
    TRY(add_named(g));
    TRY(find_steps(g));
    for (size_t i = 0; i < g->steps.len; i++) TRY(step_forward(g, &g->steps.data[i]));
    TRY(go_back(g));
    TRY(take_results(g));
    return onnx_count_made(g->r, g->r->model->n_nodes - before);
}

bool onnx_is_gradient(Str domain, Str type) {
    return str_equal(domain, STR(ONNX_TRAINING)) && str_equal(type, STR("Gradient"));
}

tn_status onnx_gradient(Draft *d) {
    Gradient g = {.d = d, .r = d->reader};
    if (!d->opset) return fail(TN_INVALID_MODEL, "the model does not say which opset of " ONNX_TRAINING " it uses");
    map_init(&g.vars, g.r->alloc);
    tn_status status = derive(&g);
    map_free(&g.vars);
    vec_free(g.r->alloc, &g.stack);
    vec_free(g.r->alloc, &g.steps);
    return status == TN_OK ? onnx_finish(d) : status;
}
