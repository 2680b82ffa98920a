/* SPDX-License-Identifier: Apache-2.0 */
/* The evaluator: walks a graph in order. Values are kept by id until their graph's run ends. */
#include "eval/eval_int.h"

/* ---- one node ------------------------------------------------------------------------------------------------ */

static tn_status host_alloc(KernelHost *host, int i, tn_dtype dtype, int rank, const int64_t *dims, Tensor *out) {
    Evaluator *e = (Evaluator *)host;
    tensor_release(&e->allocated[i]);
    TRY(tensor_new(e->ctx, dtype, rank, dims, &e->allocated[i]));
    *out = e->allocated[i];
    return TN_OK;
}

static tn_status host_give(KernelHost *host, int i, Tensor *value) {
    Evaluator *e = (Evaluator *)host;
    tensor_release(&e->allocated[i]);
    e->allocated[i] = *value;
    return TN_OK;
}

static tn_status infer_results(const Node *node, const Tensor *const *in, InferValue *facts, InferValue *found) {
    for (uint32_t i = 0; i < node->n_operands; i++) facts[i] = in[i] ? infer_concrete(in[i], true) : (InferValue){0};
    return op_infer(node, NULL, facts, found, NULL);
}

static tn_status run_regions(Evaluator *e, const Node *node, const Tensor *const *in, Tensor *out, bool *done) {
    RegionList lists[OP_MAX_OUTPUTS];
    const void *fill[OP_MAX_OUTPUTS] = {0};
    bool declined = true;
    *done = false;
    if (!node->op->regions || node->n_results > OP_MAX_OUTPUTS) return TN_OK;
    for (uint32_t i = 0; i < node->n_results; i++)
        if (out[i].kind != TYPE_TENSOR || !out[i].buffer) return TN_OK; /* its size is not known before it is there */
    for (uint32_t i = 0; i < node->n_results; i++) lists[i] = (RegionList){.arena = e->scratch};
    TRY(op_regions(node, in, (int)node->n_operands, out, (int)node->n_results, lists, fill, &declined));
    if (declined) return TN_OK;
    RasterOperand *sources = arena_array(e->scratch, RasterOperand, node->n_operands + 1);
    if (!sources) return TN_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < node->n_operands; i++)
        if (in[i]) sources[i] = (RasterOperand){in[i]->data, in[i]->offset};
    for (uint32_t i = 0; i < node->n_results; i++)
        TRY(raster_run(&lists[i], out[i].dtype, sources, out[i].data, 0, tensor_count(&out[i]), fill[i], NULL));
    *done = true;
    return TN_OK;
}

/* Results whose shape inference knows get their memory here; the kernels of some ops ask for the others. */
static tn_status make_results(Evaluator *e, const Node *node, const InferValue *found, Tensor *out) {
    for (uint32_t i = 0; i < node->n_results; i++) {
        out[i] = (Tensor){.dtype = found[i].dtype, .kind = found[i].kind};
        TRY(op_check_known(node, i, &found[i]));
        if (found[i].kind == TYPE_TENSOR && shape_is_known(&found[i].shape) && found[i].dtype)
            TRY(tensor_new(e->ctx, found[i].dtype, found[i].shape.rank, found[i].shape.dims, &out[i]));
    }
    return TN_OK;
}

static tn_status run_reference(Evaluator *e, const Node *node, const Tensor *const *in, Tensor *out) {
    if (!node->op->reference) return fail(TN_UNSUPPORTED, "the op has no reference kernel");
    KernelCtx c = {.node = node,
                   .n_in = (int)node->n_operands,
                   .n_out = (int)node->n_results,
                   .in = in,
                   .out = out,
                   .context = e->ctx,
                   .pool = e->ctx->pool,
                   .scratch = e->scratch,
                   .host = &e->host};
    e->allocated = out;
    TRY(node->op->reference(&c));
    for (uint32_t i = 0; i < node->n_results; i++)
        if (!out[i].data && (out[i].kind != TYPE_TENSOR || tensor_count(&out[i]) > 0))
            return fail(TN_INTERNAL, "the kernel made no result %u", i);
    return TN_OK;
}

static tn_status run_node(Evaluator *e, const Node *node, const Tensor *const *in, Tensor *out) {
    for (uint32_t i = 0; i < node->n_results; i++) out[i] = (Tensor){0};
    InferValue *facts = arena_array(e->scratch, InferValue, node->n_operands + node->n_results + 1);
    if (!facts) return TN_OUT_OF_MEMORY;
    InferValue *found = facts + node->n_operands;
    bool done = false;
    tn_status status = infer_results(node, in, facts, found);
    if (status == TN_OK) status = make_results(e, node, found, out);
    if (status == TN_OK) status = run_regions(e, node, in, out, &done);
    if (status == TN_OK && !done) status = run_reference(e, node, in, out);
    if (status == TN_OK) return TN_OK;
    diag_set_node(node->loc.n ? node->loc.s : "", node->op->name);
    for (uint32_t i = 0; i < node->n_results; i++) tensor_release(&out[i]);
    return status;
}

tn_status eval_node(Context *ctx, Arena *scratch, const Node *node, const Tensor *const *in, Tensor *out) {
    if (node->op->flags & OP_CONTROL) return fail(TN_UNSUPPORTED, "a node with nested graphs is no single node");
    Evaluator e = {.host = {.alloc_output = host_alloc, .give_output = host_give}, .ctx = ctx, .scratch = scratch};
    ArenaMark mark = arena_mark(scratch);
    tn_status status = run_node(&e, node, in, out);
    arena_release(scratch, mark);
    return status;
}

/* ---- graphs -------------------------------------------------------------------------------------------------- */

/* Results of a nested graph live until the same graph runs again or the owner is done. */
struct NestedRun {
    const Graph *graph;
    Tensor *results;
    size_t n;
    struct NestedRun *next;
};

void evaluator_drop(Evaluator *e, const Value *v) {
    if (!e->have[v->id]) return;
    tensor_release(&e->values[v->id]);
    e->have[v->id] = false;
}

void evaluator_bind(Evaluator *e, const Value *v, const Tensor *t, bool own) {
    evaluator_drop(e, v);
    e->values[v->id] = *t;
    if (!own) buffer_ref(t->buffer);
    e->have[v->id] = true;
}

tn_status evaluator_bind_constant(Evaluator *e, const Value *v, const Tensor *payload) {
    if (!tensor_is_misaligned(payload)) {
        evaluator_bind(e, v, payload, false);
        return TN_OK;
    }
    Tensor copy;
    size_t bytes;
    TRY(tensor_new(e->ctx, payload->dtype, payload->rank, payload->dims, &copy));
    TRY(checked_bytes(payload->dtype, tensor_count(payload), &bytes));
    memcpy(copy.data, payload->data, bytes);
    evaluator_bind(e, v, &copy, true);
    return TN_OK;
}

void evaluator_drop_graph(Evaluator *e, const Graph *graph) {
    for (size_t i = 0; i < graph->inputs.len; i++) evaluator_drop(e, graph->inputs.data[i]);
    for (const Node *n = graph->first; n; n = n->next)
        for (uint32_t i = 0; i < n->n_results; i++) evaluator_drop(e, n->results[i]);
}

static void free_nested(Evaluator *e) {
    for (; e->nested; e->nested = e->nested->next)
        for (size_t i = 0; i < e->nested->n; i++) tensor_release(&e->nested->results[i]);
}

tn_status evaluator_node(Evaluator *e, const Node *node) {
    const Tensor *payload = value_constant(node_result(node, 0));
    if (payload) return evaluator_bind_constant(e, node->results[0], payload);
    ArenaMark mark = arena_mark(e->scratch);
    struct NestedRun *outer = e->nested;
    e->nested = NULL;
    const Tensor **in = arena_array(e->scratch, const Tensor *, node->n_operands + 1);
    Tensor *out = arena_array(e->scratch, Tensor, node->n_results + 1);
    tn_status status = in && out ? TN_OK : TN_OUT_OF_MEMORY;
    if (status == TN_OK) {
        for (uint32_t i = 0; i < node->n_operands; i++)
            if (node->operands[i].value) in[i] = &e->values[node->operands[i].value->id];
        status = run_node(e, node, in, out);
    }
    for (uint32_t i = 0; status == TN_OK && i < node->n_results; i++)
        evaluator_bind(e, node->results[i], &out[i], true);
    free_nested(e);
    e->nested = outer;
    arena_release(e->scratch, mark);
    return status;
}

static tn_status walk(Evaluator *e, const Graph *graph, Tensor *outputs) {
    for (const Node *n = graph->first; n; n = n->next) TRY(evaluator_node(e, n));
    for (size_t i = 0; i < graph_n_outputs(graph); i++) {
        outputs[i] = e->values[graph_output(graph, i)->id];
        buffer_ref(outputs[i].buffer);
    }
    return TN_OK;
}

static struct NestedRun *nested_run(Evaluator *e, const Graph *graph) {
    for (struct NestedRun *r = e->nested; r; r = r->next)
        if (r->graph == graph) {
            for (size_t i = 0; i < r->n; i++) tensor_release(&r->results[i]);
            return r;
        }
    struct NestedRun *r = arena_new(e->scratch, struct NestedRun);
    Tensor *results = arena_array(e->scratch, Tensor, graph_n_outputs(graph) + 1);
    if (!r || !results) return NULL;
    *r = (struct NestedRun){.graph = graph, .results = results, .n = graph_n_outputs(graph), .next = e->nested};
    return e->nested = r;
}

static tn_status host_run_graph(KernelHost *host, const Graph *graph, const Tensor *in, size_t n_in, Tensor *out,
                                size_t n_out) {
    Evaluator *e = (Evaluator *)host;
    if (n_in != graph->inputs.len || n_out != graph_n_outputs(graph))
        return fail(TN_INVALID_MODEL, "nested graph \"%s\" takes %zu inputs and gives %zu outputs, not %zu and %zu",
                    graph->name.n ? graph->name.s : "", graph->inputs.len, graph_n_outputs(graph), n_in, n_out);
    struct NestedRun *r = nested_run(e, graph);
    if (!r) return TN_OUT_OF_MEMORY;
    Tensor *allocated = e->allocated;
    for (size_t i = 0; i < n_in; i++) evaluator_bind(e, graph->inputs.data[i], &in[i], false);
    tn_status status = walk(e, graph, r->results);
    evaluator_drop_graph(e, graph);
    e->allocated = allocated;
    if (status != TN_OK) {
        memset(r->results, 0, r->n * sizeof *r->results);
        return status;
    }
    memcpy(out, r->results, n_out * sizeof *out);
    return TN_OK;
}

tn_status evaluator_init(Evaluator *e, const Model *model, Arena *arena, Arena *scratch) {
    *e = (Evaluator){.host = {.alloc_output = host_alloc, .give_output = host_give, .run_graph = host_run_graph},
                     .ctx = model->ctx,
                     .scratch = scratch};
    e->values = arena_array(arena, Tensor, model->n_values + 1);
    e->have = arena_array(arena, bool, model->n_values + 1);
    return e->values && e->have ? TN_OK : TN_OUT_OF_MEMORY;
}

tn_status eval_graph(Context *ctx, const Graph *graph, const Tensor *const *inputs, Tensor *outputs) {
    Arena scratch;
    Evaluator e;
    arena_init(&scratch, &ctx->allocator);
    tn_status status = evaluator_init(&e, graph->model, &scratch, &scratch);
    e.ctx = ctx;
    for (size_t i = 0; status == TN_OK && i < graph->inputs.len; i++) {
        const Tensor *t = inputs[i] ? inputs[i] : graph_input_default(graph, i);
        if (!t) status = fail(TN_INVALID_ARGUMENT, "input \"%s\" is missing", graph->inputs.data[i]->name.s);
        else evaluator_bind(&e, graph->inputs.data[i], t, false);
    }
    if (status == TN_OK) status = walk(&e, graph, outputs);
    if (e.values && e.have) evaluator_drop_graph(&e, graph);
    arena_free(&scratch);
    return status;
}
