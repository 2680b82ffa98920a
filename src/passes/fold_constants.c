/* SPDX-License-Identifier: Apache-2.0 */
/* fold-constants: nodes whose operands are constants are run now, on the reference kernels, and their results become
   constants. What would make the model too large, or take too long, stays; so does what fails: it may stand in a branch
   that is never taken. */
#include "eval/eval.h"
#include "pass/pass.h"
#include "rewrite/rewrite.h"

typedef struct Folding {
    PassRun *run;
    Arena arena; /* of one node */
    uint64_t max_bytes;
    int64_t max_growth, growth;
    double flops; /* that may still be spent */
    bool dequantize, stopped;
    uint32_t first_new; /* nodes with this id and above were made here */
    bool *better;       /* by node id: an operand is better known than when the node was inferred */
    VEC(Tensor *) dropped;
    int64_t n_folded, n_freed, n_large, n_growth, n_long, n_failed;
} Folding;

/* One node: its operands, what is known of its results, then the results. */
typedef struct Fold {
    Node *node;
    const Tensor **in;
    Tensor *copies; /* of operands that lie askew, or of which only the shape is there */
    Tensor *out;
    InferValue *found;
    int64_t freed; /* bytes of constants that nobody else reads */
} Fold;

/* ---- what is folded ------------------------------------------------------------------------------------------ */

/* A declared size may be wrong, so a value of which only the shape is read must be constant too; what is certain of shapes
   is the business of simplify-shapes. */
static bool is_known(const Node *node, uint32_t i) {
    const Value *value = node->operands[i].value;
    if (!value) return true;
    const Tensor *t = value_payload(value);
    return t && (t->data || tensor_count(t) == 0);
}

static bool is_foldable(const Folding *f, const Node *node) {
    if (value_payload(node_result(node, 0)) || !op_is_pure(node->op) || !node_is_read(node)) return false;
    if (!f->dequantize && strcmp(node->op->name, "DequantizeLinear") == 0) return false;
    for (uint32_t i = 0; i < node->n_operands; i++)
        if (!is_known(node, i)) return false;
    for (uint32_t i = 0; i < node->n_results; i++)
        if (node->results[i]->type->kind != TYPE_TENSOR) return false;
    return !node_is_random(node);
}

/* ---- operands ------------------------------------------------------------------------------------------------ */

/* Whether the node is all that reads a constant. */
static bool is_last_reader(const Node *node, const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (use->user != node) return false;
    return true;
}

static tn_status bytes_of(const Tensor *t, int64_t *out) {
    size_t bytes;
    TRY(checked_bytes(t->dtype, tensor_count(t), &bytes));
    *out = (int64_t)bytes;
    return TN_OK;
}

static tn_status count_freed(Fold *x, uint32_t i) {
    const Value *value = x->node->operands[i].value;
    int64_t bytes;
    for (uint32_t k = 0; k < i; k++)
        if (x->node->operands[k].value == value) return TN_OK;
    if (!is_last_reader(x->node, value)) return TN_OK;
    TRY(bytes_of(value_payload(value), &bytes));
    x->freed += bytes;
    return TN_OK;
}

static tn_status read_operand(Folding *f, Fold *x, uint32_t i) {
    const Value *value = x->node->operands[i].value;
    const Tensor *t = value_constant(value);
    if (!value) return TN_OK;
    x->in[i] = t ? t : &x->copies[i];
    if (!t) {
        tensor_set_dense(&x->copies[i], value->type->dtype, value->type->shape.rank, value->type->shape.dims);
        return TN_OK;
    }
    TRY(count_freed(x, i));
    if (!tensor_is_misaligned(t)) return TN_OK;
    x->in[i] = &x->copies[i];
    TRY(tensor_new(f->run->ctx, t->dtype, t->rank, t->dims, &x->copies[i]));
    tensor_gather(t, x->copies[i].data);
    return TN_OK;
}

static tn_status begin(Folding *f, Node *node, Fold *x) {
    *x = (Fold){.node = node};
    x->in = arena_array(&f->arena, const Tensor *, node->n_operands + 1);
    x->copies = arena_array(&f->arena, Tensor, node->n_operands + 1);
    x->out = arena_array(&f->arena, Tensor, node->n_results + 1);
    x->found = arena_array(&f->arena, InferValue, node->n_results + 1);
    if (!x->in || !x->copies || !x->out || !x->found) return TN_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < node->n_operands; i++) TRY(read_operand(f, x, i));
    return TN_OK;
}

static void end(Fold *x) {
    for (uint32_t i = 0; x->copies && i < x->node->n_operands; i++) tensor_release(&x->copies[i]);
    for (uint32_t i = 0; x->out && i < x->node->n_results; i++) tensor_release(&x->out[i]);
}

/* ---- what it would cost -------------------------------------------------------------------------------------- */

static tn_status infer_results(Folding *f, Fold *x) {
    InferValue *in = arena_array(&f->arena, InferValue, x->node->n_operands + 1);
    if (!in) return TN_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < x->node->n_operands; i++)
        if (x->in[i]) in[i] = infer_concrete(x->in[i], true);
    return op_infer(x->node, NULL, in, x->found, NULL);
}

/* Bytes of the results that are read; of those whose sizes only their kernel knows, none. */
static tn_status result_bytes(const Fold *x, int64_t *largest, int64_t *sum) {
    *largest = *sum = 0;
    for (uint32_t i = 0; i < x->node->n_results; i++) {
        const Shape *s = &x->found[i].shape;
        int64_t count, bytes;
        size_t size;
        if (!x->node->results[i]->uses || !x->found[i].dtype || !shape_is_known(s)) continue;
        TRY(checked_count(s->rank, s->dims, &count));
        TRY(checked_bytes(x->found[i].dtype, count, &size));
        bytes = (int64_t)size;
        *largest = max_i64(*largest, bytes);
        if (add_overflows(*sum, bytes, sum)) return fail(TN_LIMIT, "the results are too large");
    }
    return TN_OK;
}

static tn_status fits(Folding *f, const Fold *x, bool *ok) {
    int64_t largest, sum, growth;
    TRY(result_bytes(x, &largest, &sum));
    *ok = false;
    if ((uint64_t)largest > f->max_bytes) f->n_large++;
    else if (add_overflows(sum - x->freed, f->growth, &growth) || growth > f->max_growth) f->n_growth++;
    else *ok = true;
    return TN_OK;
}

static tn_status is_quick(Folding *f, const Fold *x, bool *ok) {
    Shape *in = arena_array(&f->arena, Shape, x->node->n_operands + OP_MAX_INPUTS);
    Shape *out = arena_array(&f->arena, Shape, x->node->n_results + 1);
    if (!in || !out) return TN_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < x->node->n_operands; i++)
        in[i] = x->in[i] ? shape_make(x->in[i]->rank, x->in[i]->dims) : shape_unknown();
    *ok = true;
    for (uint32_t i = 0; i < x->node->n_results; i++) {
        out[i] = x->found[i].shape;
        if (x->found[i].kind != TYPE_TENSOR || !shape_is_known(&out[i])) return TN_OK;
    }
    double flops = op_flops(x->node, in, out);
    *ok = flops <= f->flops;
    if (*ok) f->flops -= flops;
    else f->n_long++;
    return TN_OK;
}

/* ---- computing ----------------------------------------------------------------------------------------------- */

/* What came out, where inference could not say it before. */
static void found_now(Fold *x) {
    for (uint32_t i = 0; i < x->node->n_results; i++) x->found[i] = infer_concrete(&x->out[i], false);
}

static bool are_tensors(const Fold *x) {
    for (uint32_t i = 0; i < x->node->n_results; i++)
        if (x->found[i].kind != TYPE_TENSOR) return false;
    return true;
}

/* *ok: the results are there and small enough. A failure that is about this node only ends in *ok being false. */
static tn_status compute(Folding *f, Fold *x, bool *ok) {
    *ok = false;
    TRY(infer_results(f, x));
    if (!are_tensors(x)) return TN_OK;
    TRY(fits(f, x, ok));
    if (*ok) TRY(is_quick(f, x, ok));
    if (!*ok) return TN_OK;
    TRY(eval_node(f->run->ctx, &f->arena, x->node, x->in, x->out));
    found_now(x);
    *ok = are_tensors(x);
    return *ok ? fits(f, x, ok) : TN_OK;
}

/* ---- constants ----------------------------------------------------------------------------------------------- */

static void mark_readers(Folding *f, const Value *value) {
    for (const Use *use = value->uses; use; use = use->next)
        if (use->user->id < f->first_new) f->better[use->user->id] = true;
}

/* The result becomes a constant that stands where its node does. */
static tn_status keep_result(Folding *f, Fold *x, uint32_t i) {
    Tensor *payload;
    Node *constant;
    Value *old = x->node->results[i];
    TRY(model_tensor(f->run->model, &payload));
    *payload = x->out[i];
    x->out[i] = (Tensor){0};
    TRY(const_new(x->node->graph, payload, (Str){NULL, 0}, &constant));
    constant->loc = x->node->loc;
    node_insert_before(constant, x->node);
    TRY(replace_value(old, constant->results[0]));
    mark_readers(f, constant->results[0]);
    return TN_OK;
}

static tn_status drop_constant(Folding *f, Node *node) {
    Tensor *payload = (Tensor *)value_payload(node->results[0]);
    bool own = node->id >= f->first_new;
    if (!own) TRY(vec_push(&f->run->ctx->allocator, &f->dropped, payload));
    node_erase(node);
    if (own) tensor_release(payload);
    f->n_freed += own;
    return TN_OK;
}

static tn_status replace(Folding *f, Fold *x) {
    int64_t largest, sum;
    Node *node = x->node;
    uint32_t n = node->n_operands;
    Value **operands = arena_array(&f->arena, Value *, n + 1);
    if (!operands) return TN_OUT_OF_MEMORY;
    TRY(result_bytes(x, &largest, &sum));
    for (uint32_t i = 0; i < n; i++) operands[i] = node->operands[i].value;
    for (uint32_t i = 0; i < node->n_results; i++)
        if (node->results[i]->uses) TRY(keep_result(f, x, i));
    end(x);
    node_erase(node);
    for (uint32_t i = 0; i < n; i++)
        if (value_payload(operands[i]) && operands[i]->def->graph && !operands[i]->uses)
            TRY(drop_constant(f, operands[i]->def));
    f->growth += sum - x->freed;
    f->n_folded++;
    return TN_OK;
}

static tn_status fold(Folding *f, Node *node) {
    Fold x;
    bool ok = false;
    tn_status status = begin(f, node, &x);
    if (status == TN_OK) {
        status = compute(f, &x, &ok);
        if (status != TN_OK && status != TN_OUT_OF_MEMORY) {
            diag_clear();
            f->n_failed++;
            status = TN_OK;
            ok = false;
        }
        f->stopped = status == TN_OK && ok && !pass_may_change(f->run);
    }
    if (status == TN_OK && ok && !f->stopped) status = replace(f, &x);
    end(&x);
    return status;
}

/* ---- the walk ------------------------------------------------------------------------------------------------ */

/* A constant among its operands may decide sizes that were not known. */
static tn_status infer_again(Folding *f, Node *node) {
    f->better[node->id] = false;
    if (node->op->flags & OP_CONTROL) return TN_OK;
    uint64_t edits = f->run->model->state_edits;
    tn_status status = infer_node(node);
    if (status == TN_OUT_OF_MEMORY) return status;
    if (status != TN_OK) diag_clear();
    for (uint32_t i = 0; edits != f->run->model->state_edits && i < node->n_results; i++)
        mark_readers(f, node->results[i]);
    return TN_OK;
}

static tn_status fold_graph(Folding *f, Graph *graph) {
    for (Node *node = graph->first, *next; node && !f->stopped; node = next) {
        next = node->next;
        if (node->id < f->first_new && f->better[node->id]) TRY(infer_again(f, node));
        if (is_foldable(f, node)) TRY(fold(f, node));
        arena_reset(&f->arena);
    }
    return TN_OK;
}

/* Those around come first: what they make constant is one for those nested too. */
static tn_status fold_graphs(Folding *f) {
    Graph **graphs;
    size_t n;
    int64_t n_released;
    PassRun *run = f->run;
    TRY(model_graphs(run->model, run->scratch, &graphs, &n));
    for (size_t i = n; i-- > 0;) TRY(fold_graph(f, graphs[i]));
    TRY(release_payloads(run->model, run->scratch, f->dropped.data, f->dropped.len, &n_released));
    f->n_freed += n_released;
    return TN_OK;
}

static tn_status report(const Folding *f) {
    const struct {
        const char *what;
        int64_t n;
    } rows[] = {{"freed", f->n_freed},
                {"left: too large", f->n_large},
                {"left: too much growth", f->n_growth},
                {"left: too long", f->n_long},
                {"left: failed", f->n_failed}};
    TRY(pass_count(f->run, "folded", f->n_folded));
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].n) TRY(pass_count(f->run, rows[i].what, rows[i].n));
    return TN_OK;
}

static tn_status run(PassRun *run, Graph *graph) {
    (void)graph;
    int64_t max_bytes = pass_int(run, "max_bytes");
    Folding f = {.run = run,
                 .max_bytes = max_bytes > 0 ? (uint64_t)max_bytes : run->ctx->limits.max_fold_bytes,
                 .max_growth = pass_int(run, "max_growth"),
                 .flops = pass_float(run, "max_flops"),
                 .dequantize = pass_bool(run, "dequantize"),
                 .first_new = run->model->n_nodes};
    f.better = arena_array(run->scratch, bool, (size_t)f.first_new + 1);
    if (!f.better) return TN_OUT_OF_MEMORY;
    arena_init(&f.arena, &run->ctx->allocator);
    tn_status status = fold_graphs(&f);
    arena_free(&f.arena);
    vec_free(&run->ctx->allocator, &f.dropped);
    return status == TN_OK ? report(&f) : status;
}

const Pass pass_fold_constants = {
    .name = "fold-constants",
    .summary = "compute ahead of time what depends on constants only",
    .phase = PHASE_PRE_PLACEMENT,
    .order = 20,
    .opt_level = 1,
    .requires = {"infer-shapes"},
    .keeps = {"infer-shapes"},
    .options = {{"max_bytes", OPTION_INT, "0", "bytes of one result; 0: tn_limits.max_fold_bytes"},
                {"max_growth", OPTION_INT, "67108864", "bytes that all of them may add to the model"},
                {"max_flops", OPTION_FLOAT, "1e10", "floating-point operations that may be spent"},
                {"dequantize", OPTION_BOOL, "false", "also DequantizeLinear: quantised weights become floats again"}},
    .run = run};
