/* SPDX-License-Identifier: Apache-2.0 */
/* Kernels from outside, and what they and the ops from outside may ask while they run. */
#include <stddef.h>

#include "session/plugin_int.h"

/* ---- runs ---------------------------------------------------------------------------------------------------- */

/* The operands as callers get them: dense ones have the strides that their sizes say. */
static tn_status make_dense(KernelCtx *c, bool strided, const Tensor ***out) {
    const Tensor **in = kernel_scratch(c, const Tensor *, (size_t)c->n_in + 1);
    Tensor *copies = kernel_scratch(c, Tensor, (size_t)c->n_in + 1);
    if (!in || !copies) return TN_OUT_OF_MEMORY;
    for (int i = 0; i < c->n_in; i++) {
        const Tensor *t = in[i] = c->in[i];
        if (!t || (dtype_size(t->dtype) && (strided || tensor_is_dense(t)))) continue;
        const void *bytes;
        TRY(dense_bytes(c, i, &bytes));
        tensor_set_dense(&copies[i], t->dtype, t->rank, t->dims);
        copies[i].data = (void *)bytes;
        in[i] = &copies[i];
    }
    *out = in;
    return TN_OK;
}

tn_status plugin_run(KernelCtx *c, tn_status (*run)(tn_call *call), bool strided, bool dynamic, const char *what,
                     const char *name) {
    const Tensor **in;
    TRY(make_dense(c, strided, &in));
    tn_call call = {
        .node = c->node, .n_in = c->n_in, .n_out = c->n_out, .in = in, .out = c->out, .ctx = c, .dynamic = dynamic};
    diag_clear();
    return plugin_answer(run(&call), what, name);
}

/* ---- what they may ask --------------------------------------------------------------------------------------- */

const tn_node *tn_call_node(const tn_call *call) { return (const tn_node *)call->node; }
size_t tn_call_n_inputs(const tn_call *call) { return (size_t)call->n_in; }
size_t tn_call_n_outputs(const tn_call *call) { return (size_t)call->n_out; }

static void fill_view(const Tensor *t, void *data, tn_view *view) {
    *view = (tn_view){.dtype = t->dtype, .rank = t->rank, .dims = t->dims, .strides = t->strides, .data = data};
}

/* Before a run only constants have data, and theirs may lie askew in a file. */
static void *data_before(const tn_call *call, size_t i) {
    const Tensor *t = value_constant(node_operand(call->node, i));
    return t && tensor_is_dense(t) && dtype_size(t->dtype) && !tensor_is_misaligned(t) ? tensor_bytes(t) : NULL;
}

bool tn_call_input(const tn_call *call, size_t i, tn_view *view) {
    const Tensor *t = i < (size_t)call->n_in ? call->in[i] : NULL;
    if (!view || !t) return false;
    fill_view(t, !call->ctx ? data_before(call, i) : dtype_size(t->dtype) ? tensor_bytes(t) : t->data, view);
    return true;
}

bool tn_call_output(const tn_call *call, size_t i, tn_view *view) {
    if (!view || i >= (size_t)call->n_out || (call->ctx && !output_wanted(call->ctx, (int)i))) return false;
    const Tensor *t = &call->out[i];
    fill_view(t, !call->ctx ? NULL : dtype_size(t->dtype) ? tensor_bytes(t) : t->data, view);
    return true;
}

tn_status tn_call_alloc_output(tn_call *call, size_t i, int rank, const int64_t *dims, tn_view *view) {
    if (!call->ctx || !call->dynamic)
        return fail(TN_STATE,
                    "memory for results is there already: only the function `run` of an op with TN_OP_DYNAMIC "
                    "asks for it");
    if (i >= (size_t)call->n_out || !view) return fail(TN_OUT_OF_RANGE, "there is no result %zu", i);
    if (rank < 0 || rank > TN_MAX_RANK || (rank && !dims))
        return fail(TN_LIMIT, "a result cannot have %d dimensions", rank);
    for (int k = 0; k < rank; k++)
        if (dims[k] < 0) return fail(TN_SHAPE, "dimension %d of a result would be %lld", k, (long long)dims[k]);
    if (!call->out[i].dtype)
        return fail(TN_SHAPE, "the element type of result %zu is not known: `infer` has to say it", i);
    TRY(kernel_alloc_output(call->ctx, (int)i, rank, dims));
    return tn_call_output(call, i, view) ? TN_OK : fail(TN_STATE, "nobody reads result %zu", i);
}

void *tn_call_scratch(tn_call *call, size_t size) {
    return call->ctx ? arena_alloc(call->ctx->scratch, size, alignof(max_align_t)) : NULL;
}

tn_status tn_call_parallel(tn_call *call, int64_t n, double cost, void (*fn)(void *arg, int64_t begin, int64_t end),
                           void *arg) {
    if (!call->ctx || !fn) return fail(TN_STATE, "there is nothing to compute");
    return kernel_parallel(call->ctx, n, cost, fn, arg);
}

tn_status tn_call_poll(tn_call *call) { return call->ctx ? kernel_poll(call->ctx) : TN_OK; }

/* ---- kernels ------------------------------------------------------------------------------------------------- */

typedef struct OuterKernel {
    KernelDesc desc; /* first: a kernel pointer is an OuterKernel pointer */
    bool (*match)(const tn_call *call);
    tn_status (*run)(tn_call *call);
} OuterKernel;

static bool match_outer(const KernelQuery *q) {
    const OuterKernel *k = (const OuterKernel *)q->kernel;
    tn_call call = {.node = q->node, .n_in = q->n_in, .n_out = q->n_out, .in = q->in, .out = q->out};
    if (k->desc.place.precision && (q->n_out == 0 || q->out[0].dtype != k->desc.place.precision)) return false;
    return !k->match || k->match(&call);
}

/* Launch is told what was prepared, but not which kernel it is. */
static tn_status prepare_outer(const KernelQuery *q, Context *context, Prepared *out) {
    (void)context;
    *out = (Prepared){.data = (void *)q->kernel};
    return TN_OK;
}

static tn_status launch_outer(KernelCtx *c, const Prepared *prepared) {
    const OuterKernel *k = prepared->data;
    return plugin_run(c, k->run, false, c->node->op->flags & OP_DYNAMIC_OUT, "kernel", k->desc.name);
}

static const OpSchema *find_op(const char *name, const OpSchema *const *ops, size_t n_ops) {
    const char *dot = strrchr(name, '.');
    Str domain = {name, dot ? (size_t)(dot - name) : 0}, own = str_of(dot ? dot + 1 : name);
    for (size_t i = 0; i < n_ops; i++)
        if (str_equal(domain, str_of(ops[i]->domain)) && str_equal(own, str_of(ops[i]->name))) return ops[i];
    return op_find(domain, own);
}

static tn_status check(const tn_kernel_desc *d) {
    if (!plugin_is_word(d->name, "-."))
        return fail(TN_INVALID_ARGUMENT, "\"%s\" is no name for a kernel", d->name ? d->name : "");
    if (d->target && strcmp(d->target, target_name(TARGET_CPU)) != 0)
        return fail(TN_INVALID_ARGUMENT, "kernel \"%s\" is for \"%s\"; plug-ins' kernels run on \"%s\"", d->name,
                    d->target, target_name(TARGET_CPU));
    if (d->priority < 0)
        return fail(TN_INVALID_ARGUMENT, "kernel \"%s\" has priority %d: below 0 it would never run", d->name,
                    d->priority);
    if (!d->op || !d->run) return fail(TN_INVALID_ARGUMENT, "kernel \"%s\" has no op, or no function `run`", d->name);
    return TN_OK;
}

/* As kernels name ops: nothing before those of ONNX and of the engine. */
static const char *name_of(Arena *arena, const OpSchema *op) {
    bool own = !op->domain || strcmp(op->domain, "tn") == 0;
    size_t n = own ? 0 : strlen(op->domain) + 1, m = strlen(op->name);
    char *name = arena_alloc(arena, n + m + 1, 1);
    if (!name) return NULL;
    if (n) {
        memcpy(name, op->domain, n - 1);
        name[n - 1] = '.';
    }
    memcpy(name + n, op->name, m);
    return name;
}

tn_status plugin_make_kernel(Arena *arena, const tn_kernel_desc *desc, const OpSchema *const *ops, size_t n_ops,
                             const KernelDesc **out) {
    tn_kernel_desc d;
    TRY(plugin_read(&d, sizeof d, desc, desc->size, "kernel"));
    TRY(check(&d));
    const OpSchema *op = find_op(d.op, ops, n_ops);
    if (!op) return fail(TN_NOT_FOUND, "kernel \"%s\" is for the op \"%s\", which there is not", d.name, d.op);
    if (op->flags & OP_CONTROL) return fail(TN_UNSUPPORTED, "kernel \"%s\": %s runs nested graphs", d.name, d.op);
    OuterKernel *k = arena_new(arena, OuterKernel);
    if (!k) return TN_OUT_OF_MEMORY;
    *k = (OuterKernel){.desc = {.name = plugin_copy(arena, d.name),
                                .op = name_of(arena, op),
                                .place = {.target = TARGET_CPU, .precision = d.precision},
                                .priority = d.priority,
                                .match = match_outer,
                                .prepare = prepare_outer,
                                .launch = launch_outer},
                       .match = d.match,
                       .run = d.run};
    *out = &k->desc;
    return k->desc.name && k->desc.op ? TN_OK : TN_OUT_OF_MEMORY;
}
