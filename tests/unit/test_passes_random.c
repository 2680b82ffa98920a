/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs before and after the passes that change no bit: each alone, all of them, and all of them stopped after so
   many changes. The evaluator must find the same bits (one NaN is like another), and the model must verify.

       test_passes_random [--times N] [--seed S] */
#include "test_ir_common.h"

#include "eval/eval.h"
#include "op_fuzz_gen.h"
#include "pass/pass.h"

#ifdef __SANITIZE_ADDRESS__
enum { DEFAULT_TIMES = 500 };
#else
enum { DEFAULT_TIMES = 6000 };
#endif
enum { POOL_SIZE = 160, MAX_OUTPUTS = POOL_SIZE, N_INPUTS = 6 };

static const char *const pipelines[] = {
    "fold-constants",
    "canonicalize",
    "remove-identities",
    "share-constants",
    "share-subexpressions",
    "remove-dead",
    "infer-shapes,fold-constants,canonicalize,remove-identities,share-constants,share-subexpressions,remove-dead",
    "repeat{share-subexpressions,remove-identities,fold-constants,canonicalize,share-constants}",
};
enum { N_PIPELINES = sizeof pipelines / sizeof *pipelines };

static int times = DEFAULT_TIMES;
static uint64_t first_seed = 1;

/* ---- making graphs ---------------------------------------------------------------------------------------------- */

typedef struct Maker {
    Rng rng;
    Context *ctx;
    Model *model;
    Graph *graph;
    Value *pool[POOL_SIZE]; /* what may be read here */
    int n, depth;
} Maker;

static tn_dtype dtype_of(const Value *v) { return v->type->kind == TYPE_TENSOR ? v->type->dtype : TN_UNDEFINED; }
static int rank_of(const Value *v) { return v->type->kind == TYPE_TENSOR ? v->type->shape.rank : -1; }

static void remember(Maker *m, Value *v) {
    if (v->type->kind == TYPE_TENSOR && v->type->dtype && m->n < POOL_SIZE) m->pool[m->n++] = v;
}

/* A value of that element type (TN_UNDEFINED: any); those made last are the likelier. NULL: there is none. */
static Value *some_value(Maker *m, tn_dtype dtype) {
    for (int tries = 0; tries < 20; tries++) {
        Value *v = m->pool[rng_chance(&m->rng, 50) ? rng_from(&m->rng, m->n / 2, m->n - 1) : rng_below(&m->rng, m->n)];
        if (!dtype || dtype_of(v) == dtype) return v;
    }
    return NULL;
}

static Node *make_node(Maker *m, const char *op, Value *const *operands, int n, int n_results) {
    Node *node;
    char loc[40];
    OK(node_new(m->graph, known_op(op), operands, (size_t)n, (size_t)n_results, &node));
    if (rng_chance(&m->rng, 60)) {
        snprintf(loc, sizeof loc, "node %u", node->id);
        node->loc = model_str(m->model, str_of(loc));
    }
    return node;
}

/* Takes the node in where it can be inferred. */
static Value *finish(Maker *m, Node *node) {
    char name[40];
    node_append(node);
    if (infer_node(node) != TN_OK || node_check(node) != TN_OK) {
        diag_clear();
        node_erase(node);
        return NULL;
    }
    for (uint32_t i = 0; i < node->n_results; i++) {
        snprintf(name, sizeof name, "v%u", node->results[i]->id);
        if (rng_chance(&m->rng, 70)) OK(value_set_name(node->results[i], str_of(name)));
        remember(m, node->results[i]);
    }
    return node->results[0];
}

static Value *constant(Maker *m, tn_dtype dtype, int rank, const int64_t *dims) {
    static const double favourites[] = {0.0, 0.0, -0.0, 1.0, 1.0, -1.0, 2.0, 0.5, 3.0, INFINITY, NAN};
    Tensor *payload;
    Node *node;
    bool one = rng_chance(&m->rng, 60);
    double value = RNG_PICK(&m->rng, favourites);
    OK(model_tensor(m->model, &payload));
    OK(tensor_new(m->ctx, dtype, rank, dims, payload));
    for (int64_t i = 0; i < tensor_count(payload); i++) {
        double d = one ? value : RNG_PICK(&m->rng, favourites); /* 0 and -0 among them */
        int64_t k = rng_chance(&m->rng, 30) ? rng_from(&m->rng, -1, 2) : isfinite(d) ? (int64_t)d : 1;
        if (one) k = isfinite(value) ? (int64_t)value : -1;
        if (dtype == TN_BOOL) k &= 1;
        if (dtype_is_float(dtype)) store_f64(dtype, payload->data, i, 1, &d, 1);
        else store_i64(dtype, payload->data, i, 1, &k, 1);
    }
    OK(const_new(m->graph, payload, (Str){0}, &node));
    node_append(node);
    remember(m, node->results[0]);
    return node->results[0];
}

static Value *ints(Maker *m, const int64_t *list, int n) {
    Value *v;
    OK(const_ints(m->graph, list, n, false, &v));
    return v;
}

static Value *some_constant(Maker *m, tn_dtype dtype) {
    static const int64_t shapes[][3] = {{1, 1, 1}, {3, 0, 0}, {2, 3, 0}, {1, 3, 0}, {1, 1, 1}, {2, 1, 3}};
    static const int ranks[] = {0, 1, 2, 2, 3, 3};
    int i = rng_below(&m->rng, 6);
    return constant(m, dtype, ranks[i], shapes[i]);
}

/* ---- one step of each sort -------------------------------------------------------------------------------------- */

static void step_unary(Maker *m) {
    static const char *const ops[] = {"Neg", "Abs",  "Relu", "Identity", "Floor", "Ceil",       "Round", "Sign",
                                      "Exp", "Clip", "Sum",  "Max",      "Not",   "BitwiseNot", "Size"};
    Value *x = some_value(m, TN_UNDEFINED);
    const char *op = RNG_PICK(&m->rng, ops);
    for (int k = rng_from(&m->rng, 1, 2); k > 0 && x; k--) x = finish(m, make_node(m, op, &x, 1, 1));
}

static void step_binary(Maker *m) {
    static const char *const floats[] = {"Add", "Sub", "Mul", "Div", "Pow", "Max", "Min", "Sum", "Mean"};
    static const char *const wholes[] = {"Add", "Sub", "Mul", "Max", "Min", "BitwiseAnd", "BitwiseOr", "BitwiseXor"};
    static const char *const truths[] = {"And", "Or", "Xor", "Equal"};
    Value *a = some_value(m, TN_UNDEFINED);
    tn_dtype dtype = dtype_of(a);
    Value *b = rng_chance(&m->rng, 50) ? some_constant(m, dtype) : some_value(m, dtype);
    if (!b) return;
    const char *op = dtype == TN_BOOL        ? RNG_PICK(&m->rng, truths)
                     : dtype_is_float(dtype) ? RNG_PICK(&m->rng, floats)
                                             : RNG_PICK(&m->rng, wholes);
    Value *ab[] = {a, b}, *ba[] = {b, a};
    finish(m, make_node(m, op, ab, 2, 1));
    if (rng_chance(&m->rng, 30)) finish(m, make_node(m, op, rng_chance(&m->rng, 50) ? ab : ba, 2, 1));
}

static Value *cast(Maker *m, Value *x, tn_dtype to) {
    Node *node = make_node(m, "Cast", &x, 1, 1);
    OK(node_set_int(node, "to", to));
    if (rng_chance(&m->rng, 20)) OK(node_set_int(node, "saturate", 1));
    return finish(m, node);
}

static void step_cast(Maker *m) {
    static const tn_dtype types[] = {TN_F32, TN_F64, TN_F16, TN_BF16, TN_I32, TN_I64, TN_I8, TN_U8, TN_U32, TN_BOOL};
    Value *x = some_value(m, TN_UNDEFINED);
    tn_dtype from = dtype_of(x);
    if (rng_chance(&m->rng, 50)) x = cast(m, x, RNG_PICK(&m->rng, types));
    if (x) cast(m, x, rng_chance(&m->rng, 50) ? from : RNG_PICK(&m->rng, types));
}

static void step_transpose(Maker *m) {
    Value *x = some_value(m, TN_UNDEFINED);
    int rank = rank_of(x);
    int64_t perm[TN_MAX_RANK] = {0, 1, 2, 3, 4, 5, 6, 7};
    for (int k = rank - 1; k > 0; k--) {
        int j = rng_chance(&m->rng, 30) ? k : rng_below(&m->rng, k + 1);
        int64_t t = perm[k];
        perm[k] = perm[j], perm[j] = t;
    }
    for (int k = rng_from(&m->rng, 1, 2); k > 0 && x && rank >= 0; k--) {
        Node *node = make_node(m, "Transpose", &x, 1, 1);
        if (rng_chance(&m->rng, 80)) OK(node_set_ints(node, "perm", perm, (size_t)rank));
        x = finish(m, node);
    }
}

static void step_reshape(Maker *m) {
    Value *x = some_value(m, TN_UNDEFINED);
    int rank = rank_of(x);
    int64_t shape[TN_MAX_RANK] = {0};
    int n = rng_from(&m->rng, 1, 3);
    if (rank < 0) return;
    for (int k = 0; k < n; k++) {
        static const int64_t sizes[] = {1, 2, 3, 6, 0};
        shape[k] = RNG_PICK(&m->rng, sizes);
    }
    if (rng_chance(&m->rng, 70)) shape[rng_below(&m->rng, n)] = -1;
    if (rng_chance(&m->rng, 40)) {
        n = rank;
        for (int k = 0; k < rank; k++) shape[k] = dim_is_const(x->type->shape.dims[k]) ? x->type->shape.dims[k] : -1;
    }
    Value *list = rng_chance(&m->rng, 85) ? ints(m, shape, n) : some_value(m, TN_I64);
    if (list) finish(m, make_node(m, "Reshape", (Value *[]){x, list}, 2, 1));
}

static void step_axes(Maker *m) {
    Value *x = some_value(m, TN_UNDEFINED);
    int rank = rank_of(x);
    if (rank < 0 || rank > 4) return;
    int64_t one = rng_from(&m->rng, -rank - 1, rank), two[] = {one, rng_from(&m->rng, -rank - 2, rank + 1)};
    bool both = rng_chance(&m->rng, 30);
    const char *op = rng_chance(&m->rng, 50) ? "Unsqueeze" : "Squeeze";
    bool all = op[0] == 'S' && rng_chance(&m->rng, 20);
    Value *y = finish(m, make_node(m, op, (Value *[]){x, ints(m, two, both ? 2 : 1)}, all ? 1 : 2, 1));
    if (y && rng_chance(&m->rng, 50))
        finish(m, make_node(m, rng_chance(&m->rng, 50) ? "Squeeze" : op, (Value *[]){y, ints(m, two, both ? 2 : 1)}, 2,
                            1));
}

static void step_move(Maker *m) {
    Value *x = some_value(m, TN_UNDEFINED);
    int rank = rank_of(x);
    int64_t list[2 * TN_MAX_RANK] = {0};
    Node *node;
    if (rank < 1 || rank > 3) return;
    switch (rng_below(&m->rng, 7)) {
    case 0:
        for (int k = 0; k < 2 * rank; k++) list[k] = rng_chance(&m->rng, 70) ? 0 : rng_from(&m->rng, -1, 1);
        finish(m, make_node(m, "Pad", (Value *[]){x, ints(m, list, 2 * rank)}, 2, 1));
        return;
    case 1:
        for (int k = 0; k < rank; k++) list[k] = rng_chance(&m->rng, 80) ? 1 : 2;
        finish(m, make_node(m, "Tile", (Value *[]){x, ints(m, list, rank)}, 2, 1));
        return;
    case 2:
        for (int k = 0; k < rank; k++) list[k] = rng_chance(&m->rng, 80) ? 1 : 3;
        finish(m, make_node(m, "Expand", (Value *[]){x, ints(m, list, rank)}, 2, 1));
        return;
    case 3: {
        int64_t axis = rng_from(&m->rng, -rank, rank - 1),
                begin = rng_chance(&m->rng, 70) ? 0 : rng_from(&m->rng, -2, 2), step = rng_chance(&m->rng, 70) ? 1 : -1,
                end = step > 0 ? 1000 : -1000;
        finish(m, make_node(m, "Slice",
                            (Value *[]){x, ints(m, &begin, 1), ints(m, &end, 1), ints(m, &axis, 1), ints(m, &step, 1)},
                            5, 1));
        return;
    }
    case 4:
        node = make_node(m, "Concat", (Value *[]){x, x}, rng_from(&m->rng, 1, 2), 1);
        OK(node_set_int(node, "axis", rng_from(&m->rng, -rank, rank - 1)));
        finish(m, node);
        return;
    case 5:
        node = make_node(m, "Flatten", &x, 1, 1);
        if (rng_chance(&m->rng, 70)) OK(node_set_int(node, "axis", rng_from(&m->rng, -rank, rank)));
        finish(m, node);
        return;
    default:
        node = make_node(m, "Split", &x, 1, rng_from(&m->rng, 1, 2));
        OK(node_set_int(node, "num_outputs", node->n_results));
        OK(node_set_int(node, "axis", rng_from(&m->rng, -rank, rank - 1)));
        finish(m, node);
    }
}

static void step_reduce(Maker *m) {
    static const char *const ops[] = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceL2"};
    Value *x = some_value(m, TN_UNDEFINED);
    int rank = rank_of(x), n = rng_from(&m->rng, 0, rank);
    int64_t axes[TN_MAX_RANK];
    if (rank < 0) return;
    for (int k = 0; k < n; k++) axes[k] = rng_chance(&m->rng, 50) ? k : k - rank;
    Node *node = make_node(m, RNG_PICK(&m->rng, ops), (Value *[]){x, ints(m, axes, n)}, rng_chance(&m->rng, 80) ? 2 : 1,
                           1);
    if (rng_chance(&m->rng, 50)) OK(node_set_int(node, "keepdims", rng_below(&m->rng, 2)));
    if (rng_chance(&m->rng, 40)) OK(node_set_int(node, "noop_with_empty_axes", rng_below(&m->rng, 2)));
    finish(m, node);
}

static void step_axis(Maker *m) {
    static const char *const ops[] = {"Softmax", "LogSoftmax", "ArgMax", "Hardmax", "CumSum", "Gather"};
    const char *op = RNG_PICK(&m->rng, ops);
    Value *x = some_value(m, op[0] == 'G' ? TN_UNDEFINED : TN_F32), *operands[] = {x, NULL};
    if (!x || rank_of(x) < 1) return;
    int64_t axis = rng_from(&m->rng, -rank_of(x), rank_of(x) - 1), at[] = {0, rng_chance(&m->rng, 95) ? 0 : 9};
    bool second = op[0] == 'C' || op[0] == 'G';
    if (second) operands[1] = op[0] == 'C' ? constant(m, TN_I64, 0, NULL) : ints(m, at, 2);
    Node *node = make_node(m, op, operands, second ? 2 : 1, 1);
    if (op[0] != 'C' && rng_chance(&m->rng, 70)) OK(node_set_int(node, "axis", axis));
    finish(m, node);
}

static void step_shape(Maker *m) {
    Value *x = some_value(m, TN_UNDEFINED), *y = some_value(m, TN_UNDEFINED);
    Value *shape = finish(m, make_node(m, "Shape", &x, 1, 1));
    if (!shape) return;
    if (rng_chance(&m->rng, 50)) finish(m, make_node(m, "Reshape", (Value *[]){y, shape}, 2, 1));
    else finish(m, make_node(m, "Expand", (Value *[]){y, shape}, 2, 1));
}

static void step_chance(Maker *m) {
    Value *x = some_value(m, TN_F32), *operands[] = {x, NULL, NULL};
    if (!x) return;
    if (rng_chance(&m->rng, 40)) {
        Value *r = finish(m, make_node(m, "RandomUniformLike", &x, 1, 1));
        finish(m, make_node(m, rng_chance(&m->rng, 50) ? "Identity" : "RandomUniformLike",
                            rng_chance(&m->rng, 50) ? &x : &r, 1, 1));
        return;
    }
    bool training = rng_chance(&m->rng, 60);
    if (training) operands[2] = constant(m, TN_BOOL, 0, NULL);
    for (int k = rng_from(&m->rng, 1, 2); k > 0; k--)
        finish(m, make_node(m, "Dropout", operands, training ? 3 : 1, rng_from(&m->rng, 1, 2)));
}

static void step_where(Maker *m) {
    Value *x = some_value(m, TN_UNDEFINED), *y = some_value(m, dtype_of(x));
    Value *c = rng_chance(&m->rng, 60) ? some_constant(m, TN_BOOL) : some_value(m, TN_BOOL);
    if (y && c) finish(m, make_node(m, "Where", (Value *[]){c, x, y}, 3, 1));
}

/* Constants that are there already, as they are or in another shape. */
static void step_constant(Maker *m) {
    static const tn_dtype types[] = {TN_F32, TN_F32, TN_F16, TN_I64, TN_I32, TN_BOOL};
    some_constant(m, RNG_PICK(&m->rng, types));
}

/* ---- nested graphs ---------------------------------------------------------------------------------------------- */

static void make_steps(Maker *m, int n);

static void make_branch(Maker *m, Node *owner, const char *attr) {
    Graph *outer = m->graph, *branch;
    int n = m->n;
    OK(graph_new(m->model, owner, str_of(attr), &branch));
    m->graph = branch;
    m->depth++;
    make_steps(m, rng_from(&m->rng, 0, 5));
    Value *out = some_value(m, TN_F32);
    if (!out) out = constant(m, TN_F32, 0, NULL);
    OK(graph_add_output(branch, out, STR("")));
    m->depth--;
    m->graph = outer;
    m->n = n;
    OK(node_set_graph(owner, attr, branch));
}

/* The result's type: infer_node is not for nodes with nested graphs. */
static void finish_owner(Maker *m, Node *node) {
    Shape any = shape_unknown();
    node_append(node);
    value_set_type(node->results[0], type_tensor(m->model, TN_F32, &any));
    remember(m, node->results[0]);
}

static void step_if(Maker *m) {
    Value *cond = rng_chance(&m->rng, 30) ? constant(m, TN_BOOL, 0, NULL) : m->pool[N_INPUTS - 1];
    if (m->depth > 2) return;
    Node *node = make_node(m, "If", &cond, 1, 1);
    make_branch(m, node, "then_branch");
    make_branch(m, node, "else_branch");
    finish_owner(m, node);
}

static void fill_body(Maker *m, Graph *body, const Value *carried) {
    Value *turn, *cond, *state;
    Shape scalar = {.rank = 0}, any = shape_unknown();
    OK(graph_add_input(body, STR(""), type_tensor(m->model, TN_I64, &scalar), &turn));
    OK(graph_add_input(body, STR(""), type_tensor(m->model, TN_BOOL, &scalar), &cond));
    OK(graph_add_input(body, STR(""), type_tensor(m->model, dtype_of(carried), &any), &state));
    remember(m, turn), remember(m, state);
    if (rng_chance(&m->rng, 60)) cond = finish(m, make_node(m, "Identity", &cond, 1, 1));
    Value *next = rng_chance(&m->rng, 30) ? state : finish(m, make_node(m, "Mul", (Value *[]){state, state}, 2, 1));
    make_steps(m, rng_from(&m->rng, 0, 4));
    if (rng_chance(&m->rng, 40)) next = finish(m, make_node(m, "Identity", &next, 1, 1));
    OK(graph_add_output(body, cond, STR("")));
    OK(graph_add_output(body, next, STR("")));
}

static void step_loop(Maker *m) {
    Value *carried = some_value(m, TN_F32), *go = constant(m, TN_BOOL, 0, NULL), *trips;
    Graph *outer = m->graph, *body;
    int n = m->n;
    if (!carried || m->depth > 1) return;
    OK(const_ints(m->graph, &(int64_t){rng_from(&m->rng, 0, 3)}, 1, true, &trips));
    Node *node = make_node(m, "Loop", (Value *[]){trips, rng_chance(&m->rng, 50) ? go : NULL, carried}, 3, 1);
    OK(graph_new(m->model, node, STR("body"), &body));
    m->graph = body;
    m->depth++;
    fill_body(m, body, carried);
    m->depth--;
    m->graph = outer;
    m->n = n;
    OK(node_set_graph(node, "body", body));
    finish_owner(m, node);
}

static void make_steps(Maker *m, int n) {
    static void (*const steps[])(Maker * m) = {step_unary,     step_unary,   step_binary, step_binary, step_cast,
                                               step_transpose, step_reshape, step_axes,   step_move,   step_move,
                                               step_reduce,    step_axis,    step_shape,  step_chance, step_where,
                                               step_constant,  step_if,      step_loop};
    for (int i = 0; i < n; i++) RNG_PICK(&m->rng, steps)(m);
}

static void make_inputs(Maker *m, Tensor *inputs) {
    static const struct {
        tn_dtype dtype;
        int rank;
        int64_t dims[2];
        bool symbolic;
    } rows[N_INPUTS] = {{TN_F32, 2, {2, 3}, false}, {TN_F32, 2, {0, 3}, true}, {TN_I64, 2, {2, 3}, false},
                        {TN_F16, 1, {3}, false},    {TN_F32, 0, {0}, false},   {TN_BOOL, 0, {0}, false}};
    int64_t n = rng_from(&m->rng, 0, 3);
    Dim symbol = dim_symbol(&m->model->dims, STR("n"));
    for (int i = 0; i < N_INPUTS; i++) {
        Shape declared = shape_make(rows[i].rank, rows[i].dims);
        int64_t dims[2] = {rows[i].dims[0], rows[i].dims[1]};
        char name[16];
        Value *value;
        if (rows[i].symbolic) declared.dims[0] = symbol, dims[0] = n;
        snprintf(name, sizeof name, "in%d", i);
        OK(graph_add_input(m->graph, str_of(name), type_tensor(m->model, rows[i].dtype, &declared), &value));
        remember(m, value);
        OK(tensor_new(m->ctx, rows[i].dtype, rows[i].rank, dims, &inputs[i]));
        for (int64_t k = 0; k < tensor_count(&inputs[i]); k++)
            fill_number(&m->rng, &inputs[i], k,
                        rows[i].dtype == TN_BOOL ? SMALL_INTS : (Contents)rng_below(&m->rng, SPECIAL + 1));
        for (int64_t k = 0; k < tensor_count(&inputs[i]) && dtype_is_float(rows[i].dtype); k += 3)
            store_f64(rows[i].dtype, inputs[i].data, k, 1, &(double){rng_chance(&m->rng, 70) ? -0.0 : 0.0}, 1);
    }
}

/* *usable: it can be inferred, as a model that was read has been. */
static void make_model(Maker *m, Context *ctx, uint64_t seed, Tensor *inputs, bool *usable) {
    *m = (Maker){.rng = {seed}, .ctx = ctx};
    OK(model_new(ctx, &m->model));
    m->graph = m->model->main;
    make_inputs(m, inputs);
    make_steps(m, rng_from(&m->rng, 3, 30));
    bool all = rng_chance(&m->rng, 70);
    for (int i = all ? m->n : rng_from(&m->rng, 1, 6); i > 0; i--) {
        char name[16];
        snprintf(name, sizeof name, "out%d", i);
        OK(graph_add_output(m->graph, all ? m->pool[i - 1] : some_value(m, TN_UNDEFINED), str_of(name)));
    }
    OK(model_verify(m->model));
    *usable = infer_model(m->model) == TN_OK;
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static bool is_nan_at(const Tensor *t, int64_t i) {
    double x;
    if (!dtype_is_float(t->dtype)) return false;
    load_f64(&x, t->dtype, t->data, i, 1, 1);
    return x != x;
}

static bool same_tensor(const Tensor *a, const Tensor *b) {
    if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * 8) != 0) return false;
    int size = dtype_size(a->dtype);
    for (int64_t i = 0; i < tensor_count(a); i++) {
        const char *x = (const char *)a->data + i * size, *y = (const char *)b->data + i * size;
        if (memcmp(x, y, (size_t)size) != 0 && !(is_nan_at(a, i) && is_nan_at(b, i))) return false;
    }
    return true;
}

typedef struct Answers {
    Tensor t[MAX_OUTPUTS];
    size_t n;
} Answers;

static tn_status answer(const Model *model, const Tensor *inputs, Answers *out) {
    const Tensor *given[N_INPUTS];
    *out = (Answers){.n = graph_n_outputs(model->main)};
    for (int i = 0; i < N_INPUTS; i++) given[i] = &inputs[i];
    return eval_graph(model->ctx, model->main, given, out->t);
}

static void answers_free(Answers *a) {
    for (size_t i = 0; i < a->n; i++) tensor_release(&a->t[i]);
}

static tn_status run_passes(Model *model, const char *text, uint64_t max_changes, uint64_t *n_changes) {
    static const PassPlace places[] = {{"cpu", TN_UNDEFINED}};
    PassSetup setup = {.opt_level = 2,
                       .places = places,
                       .n_places = 1,
                       .max_passes = UINT64_MAX,
                       .max_changes = max_changes,
                       .verify_each = true};
    PassManager manager;
    Pipeline pipeline;
    TRY(manager_init(&manager, model, &setup));
    tn_status status = pipeline_parse(&manager.arena, str_of(text), &pipeline);
    if (status == TN_OK) status = manager_run(&manager, &pipeline);
    *n_changes = manager.n_changes;
    manager_free(&manager);
    return status;
}

static void print_models(const Model *before, const Model *after) {
    const Model *models[] = {before, after};
    for (int i = 0; i < 2; i++) {
        Text text;
        text_init(&text, &allocator_default);
        OK(model_print(models[i], NULL, &text));
        printf("---- %s\n%s", i ? "after" : "before", text.s);
        text_free(&text);
    }
}

/* A pass finds all that there is at once: rules and passes take turns until nothing changes. */
static bool is_settled(Model *model, const char *pipeline) {
    uint64_t n_changes;
    if (strchr(pipeline, ',')) return true;
    OK(run_passes(model, pipeline, UINT64_MAX, &n_changes));
    if (n_changes > 0) print_error("%llu changes when it runs again\n", (unsigned long long)n_changes);
    return n_changes == 0;
}

static bool check(const Model *model, const Tensor *inputs, const Answers *want, const char *pipeline,
                  uint64_t max_changes, uint64_t *n_changes) {
    Model *copy;
    Answers got;
    OK(model_clone(model, &copy));
    OK(run_passes(copy, pipeline, max_changes, n_changes));
    assert_true(*n_changes <= max_changes);
    tn_status status = answer(copy, inputs, &got);
    bool same = status == TN_OK;
    for (size_t i = 0; same && i < want->n; i++) same = same_tensor(&want->t[i], &got.t[i]);
    if (same && max_changes == UINT64_MAX) same = is_settled(copy, pipeline);
    if (!same) {
        print_error("%s (at most %lld changes): %s\n", pipeline, (long long)max_changes,
                    status == TN_OK ? "other answers" : diag_text());
        print_models(model, copy);
    }
    if (status == TN_OK) answers_free(&got);
    model_free(copy);
    return same;
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

typedef struct Totals {
    int64_t graphs, usable, changes;
} Totals;

static void one_graph(Context *ctx, uint64_t seed, Totals *totals) {
    Maker m;
    Tensor inputs[N_INPUTS] = {0};
    Answers want;
    bool usable, same = true;
    uint64_t n_changes;
    make_model(&m, ctx, seed, inputs, &usable);
    totals->graphs++;
    diag_clear();
    if (usable && answer(m.model, inputs, &want) == TN_OK) {
        totals->usable++;
        for (int i = 0; i < N_PIPELINES && same; i++) {
            same = check(m.model, inputs, &want, pipelines[i], UINT64_MAX, &n_changes);
            totals->changes += (int64_t)n_changes;
        }
        if (same) same = check(m.model, inputs, &want, pipelines[N_PIPELINES - 1], n_changes / 2, &n_changes);
        answers_free(&want);
    }
    if (!same) print_error("seed %llu\n", (unsigned long long)seed);
    assert_true(same);
    for (int i = 0; i < N_INPUTS; i++) tensor_release(&inputs[i]);
    model_free(m.model);
}

static void test_answers(void **state) {
    (void)state;
    Context *ctx;
    Totals totals = {0};
    OK(context_new(NULL, NULL, &ctx));
    for (int i = 0; i < times; i++) one_graph(ctx, first_seed + (uint64_t)i, &totals);
    context_unref(ctx);
    printf("%lld graphs, %lld of them with answers, %lld changes\n", (long long)totals.graphs, (long long)totals.usable,
           (long long)totals.changes);
    assert_true(totals.usable * 3 > totals.graphs && totals.changes > totals.usable);
}

/* Each allocation may fail: a status, and nothing is lost. */
static void test_no_memory(void **state) {
    (void)state;
    for (uint64_t seed = first_seed; seed < first_seed + 6; seed++)
        for (int64_t at = 1, done = 0; !done; at += 1 + at / 12) {
            TestHeap heap;
            Context *ctx;
            Maker m;
            Tensor inputs[N_INPUTS] = {0};
            bool usable;
            uint64_t n_changes;
            test_heap_init(&heap);
            OK(context_new(&heap.allocator, NULL, &ctx));
            make_model(&m, ctx, seed, inputs, &usable);
            heap.calls = 0;
            heap.fail_at = at;
            tn_status status = usable ? run_passes(m.model, pipelines[N_PIPELINES - 1], UINT64_MAX, &n_changes) : TN_OK;
            done = heap.calls < at;
            heap.fail_at = 0;
            assert_true(status == TN_OK || status == TN_OUT_OF_MEMORY);
            for (int i = 0; i < N_INPUTS; i++) tensor_release(&inputs[i]);
            model_free(m.model);
            context_unref(ctx);
            assert_int_equal(heap.living, 0);
        }
}

int main(int argc, char **argv) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_answers), cmocka_unit_test(test_no_memory)};
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--times") == 0) times = (int)strtol(argv[i + 1], NULL, 10);
        if (strcmp(argv[i], "--seed") == 0) first_seed = strtoull(argv[i + 1], NULL, 10);
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
