/* SPDX-License-Identifier: Apache-2.0 */
/* The right answers of a model, and where another model departs from them. */
#include "session/check_int.h"

#include <math.h>
#include <stdio.h>

enum { FEW_NODES = 8 };
#define MEMO_BYTES ((uint64_t)1 << 30) /* results beyond that are computed again when they are wanted again */

/* ---- tolerances ---------------------------------------------------------------------------------------------- */

static bool is_quantising(const OpSchema *op) {
    static const char *const names[] = {"Quantize", "QLinear", "QGemm", "QAttention", "MatMulInteger", "ConvInteger"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (strstr(op->name, names[i])) return true;
    return false;
}

/* A value that falls on the other side of a rounding step is right too, and a whole network of such steps carries it on. */
static tn_status find_quantised(Oracle *o, const Model *model) {
    Graph **graphs;
    size_t n, quantising = 0;
    TRY(model_graphs(model, &o->arena, &graphs, &n));
    for (size_t i = 0; i < n; i++)
        for (const Node *node = graphs[i]->first; node; node = node->next) quantising += is_quantising(node->op);
    o->quantised = quantising > 0 && model_node_count(model) > FEW_NODES;
    return TN_OK;
}

double oracle_rtol(const Oracle *o, tn_dtype dtype) {
    if (o->rtol > 0) return o->rtol;
    if (o->quantised) return 4e-2; /* both answers may be off by 2e-2, and either way */
    return dtype_is_half(dtype) ? 2e-2 : 1e-4;
}

double oracle_atol(const Oracle *o) { return o->atol > 0 ? o->atol : 1e-7; }

static tn_difference compare(const Oracle *o, const Tensor *got, const Tensor *want) {
    tn_tensor a = {.t = *got}, b = {.t = *want};
    return tn_tensor_compare(&a, &b, oracle_rtol(o, want->dtype), oracle_atol(o));
}

/* ---- the right answer ---------------------------------------------------------------------------------------- */

/* Numbers that the model declares must agree; what it leaves open may be anything. */
static bool fits(const Type *type, const Tensor *t) {
    if (type->kind != t->kind) return false;
    if (t->kind != TYPE_TENSOR) return true;
    bool same = (!type->dtype || type->dtype == t->dtype) && (type->shape.rank < 0 || type->shape.rank == t->rank);
    for (int k = 0; same && type->shape.rank >= 0 && k < t->rank; k++)
        same = !dim_is_const(type->shape.dims[k]) || type->shape.dims[k] == t->dims[k];
    return same;
}

static tn_status wrong_input(const Model *model, const Value *v, const Tensor *t) {
    Text text;
    text_init(&text, &model->ctx->allocator);
    type_print(model, v->type, &text);
    text_printf(&text, ", not %s[", t->kind == TYPE_TENSOR ? dtype_name(t->dtype) : "an object ");
    for (int k = 0; t->kind == TYPE_TENSOR && k < t->rank; k++)
        text_printf(&text, "%s%lld", k ? "," : "", (long long)t->dims[k]);
    tn_status status = fail(TN_SHAPE, "input \"%s\" wants %s]", v->name.n ? v->name.s : "",
                            text.s ? text.s : "another type");
    text_free(&text);
    return status;
}

static tn_status take_inputs(Oracle *o, const Model *model, const tn_tensor *const *inputs) {
    const Graph *g = model->main;
    o->inputs = arena_array(&o->arena, const Tensor *, g->inputs.len + 1);
    if (!o->inputs) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < g->inputs.len; i++) {
        if (!inputs || !inputs[i]) continue;
        o->inputs[i] = &inputs[i]->t;
        if (!fits(g->inputs.data[i]->type, o->inputs[i])) return wrong_input(model, g->inputs.data[i], o->inputs[i]);
    }
    return TN_OK;
}

static tn_status keep_answer(Oracle *o, MemoRun *run, const Graph *g) {
    size_t n = graph_n_outputs(g);
    o->want = arena_array(&o->arena, Tensor, n + 1);
    o->contents = arena_array(&o->arena, uint64_t, n + 1);
    o->random = arena_array(&o->arena, bool, n + 1);
    if (!o->want || !o->contents || !o->random) return TN_OUT_OF_MEMORY;
    for (; o->n < n; o->n++) {
        const Value *v = graph_output(g, o->n);
        o->contents[o->n] = memo_contents(run, v);
        o->random[o->n] = memo_is_random(run, v);
        TRY(memo_value(run, v, &o->want[o->n]));
    }
    o->random_set = memo_random(run);
    return TN_OK;
}

tn_status oracle_init(Oracle *o, const Model *model, const tn_check_options *options, const tn_tensor *const *inputs) {
    MemoRun *run;
    const Node *failed;
    *o = (Oracle){.ctx = model->ctx, .rtol = options->rtol, .atol = options->atol};
    arena_init(&o->arena, &model->ctx->allocator);
    TRY(find_quantised(o, model));
    TRY(take_inputs(o, model, inputs));
    TRY(memo_new(model->ctx, MEMO_BYTES, &o->memo));
    TRY(memo_run(o->memo, model->main, o->inputs, &run, &failed));
    tn_status status = keep_answer(o, run, model->main);
    memo_run_free(run);
    return status;
}

void oracle_free(Oracle *o) {
    for (size_t i = 0; i < o->n; i++) tensor_release(&o->want[i]);
    memo_free(o->memo);
    arena_free(&o->arena);
}

/* ---- another answer ------------------------------------------------------------------------------------------ */

static double relative(const tn_difference *d) { return d->scale > 0 ? d->largest / d->scale : d->largest; }

static tn_status compare_output(const Oracle *o, MemoRun *run, const Value *v, size_t i, bool renamed, Verdict *out) {
    Tensor got;
    if (memo_contents(run, v) == o->contents[i]) return TN_OK;
    if (renamed && (o->random[i] || memo_is_random(run, v))) {
        out->n_exempt++;
        return TN_OK;
    }
    TRY(memo_value(run, v, &got));
    tn_difference d = compare(o, &got, &o->want[i]);
    tensor_release(&got);
    if (d.same) {
        out->worst = fmax(out->worst, relative(&d));
    } else if (out->same) {
        out->same = false;
        out->output = i;
        out->diff = d;
    }
    return TN_OK;
}

static void note_failure(Verdict *v, const Node *failed) {
    v->same = false;
    v->broken = true;
    v->node = failed;
    snprintf(v->message, sizeof v->message, "%.*s", (int)strcspn(diag_text(), "\n"), diag_text());
}

tn_status oracle_ask(Oracle *o, const Model *model, Verdict *v) {
    const Graph *g = model->main;
    const Node *failed;
    MemoRun *run;
    *v = (Verdict){.same = true};
    tn_status status = memo_run(o->memo, g, o->inputs, &run, &failed);
    if (status == TN_OUT_OF_MEMORY) return status;
    if (status != TN_OK) {
        note_failure(v, failed);
        return TN_OK;
    }
    bool renamed = memo_random(run) != o->random_set;
    for (size_t i = 0; i < o->n && status == TN_OK; i++)
        status = compare_output(o, run, graph_output(g, i), i, renamed, v);
    memo_run_free(run);
    return status;
}

/* ---- where --------------------------------------------------------------------------------------------------- */

/* Two runs that are looked at side by side. */
typedef struct Pair {
    const Oracle *o;
    const Model *before;
    MemoRun *was, *is;
    bool renamed; /* nodes that draw random numbers */
} Pair;

static tn_status differs(const Pair *p, const Value *old, const Value *now, tn_difference *d) {
    Tensor want, got;
    *d = (tn_difference){.same = true};
    if (memo_contents(p->was, old) == memo_contents(p->is, now)) return TN_OK;
    if (p->renamed && (memo_is_random(p->was, old) || memo_is_random(p->is, now))) return TN_OK;
    TRY(memo_value(p->was, old, &want));
    tn_status status = memo_value(p->is, now, &got);
    if (status == TN_OK) {
        *d = compare(p->o, &got, &want);
        tensor_release(&got);
    }
    tensor_release(&want);
    return status;
}

static tn_status compare_outputs(const Pair *p, const Graph *was, const Graph *is, bool *same) {
    tn_difference d;
    *same = true;
    for (size_t i = 0; i < graph_n_outputs(was) && *same; i++) {
        TRY(differs(p, graph_output(was, i), graph_output(is, i), &d));
        *same = d.same;
    }
    return TN_OK;
}

/* The value of that name in the model before. */
static const Value *counterpart(const Pair *p, const Value *now) {
    const Value *old = now->name.n ? model_value(p->before, now->name) : NULL;
    return old && memo_has(p->was, old) ? old : NULL;
}

static void set_spot(Spot *spot, Str name, const Value *old, const Value *now, const tn_difference *d) {
    spot->value = name;
    spot->was = old->def;
    spot->node = now->def;
    spot->diff = *d;
}

static tn_status find_first(const Pair *p, const Model *after, Spot *spot) {
    tn_difference d;
    for (const Node *node = after->main->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_results; i++) {
            const Value *now = node->results[i], *old = counterpart(p, now);
            if (!old || !memo_has(p->is, now)) continue;
            TRY(differs(p, old, now, &d));
            if (d.same) continue;
            set_spot(spot, now->name, old, now, &d);
            return TN_OK;
        }
    return TN_OK;
}

static bool reads(const Node *node, Str name) {
    for (uint32_t i = 0; i < node->n_operands; i++)
        if (node->operands[i].value && str_equal(node->operands[i].value->name, name)) return true;
    return false;
}

/* Whether operand i of the same node is a new value in place of one that the node does not read any more. */
static bool took_over(const Pair *p, const Node *was, const Node *is, uint32_t i) {
    const Value *old = was->operands[i].value, *now = is->operands[i].value;
    return old && now && old->name.n && !reads(is, old->name) && !counterpart(p, now) && memo_has(p->was, old) &&
           memo_has(p->is, now);
}

/* What a pass put into the place of another value without its name: found through whoever reads it. */
static tn_status go_back(const Pair *p, Spot *spot) {
    tn_difference d = {.same = false};
    while (!d.same) {
        const Node *was = spot->was, *is = spot->node;
        d.same = true;
        if (!was || !is || was->op != is->op || was->n_operands != is->n_operands) return TN_OK;
        for (uint32_t i = 0; i < is->n_operands && d.same; i++) {
            if (!took_over(p, was, is, i)) continue;
            const Value *old = was->operands[i].value;
            TRY(differs(p, old, is->operands[i].value, &d));
            if (!d.same) set_spot(spot, old->name, old, is->operands[i].value, &d);
        }
    }
    return TN_OK;
}

static tn_status locate(Oracle *o, const Model *before, const Model *after, const Verdict *v, MemoRun *was, MemoRun *is,
                        Spot *spot) {
    Pair pair = {o, before, was, is, memo_random(was) != memo_random(is)};
    bool same;
    TRY(compare_outputs(&pair, before->main, after->main, &same));
    spot->alone = !same;
    TRY(find_first(&pair, after, spot));
    if (!spot->value.n)
        set_spot(spot, after->main->output_names.data[v->output], graph_output(before->main, v->output),
                 graph_output(after->main, v->output), &v->diff);
    return go_back(&pair, spot);
}

static void at_failure(const Verdict *v, Spot *spot) {
    spot->node = v->node;
    spot->alone = true;
    for (uint32_t i = 0; v->node && i < v->node->n_results && !spot->value.n; i++)
        spot->value = v->node->results[i]->name;
}

tn_status oracle_locate(Oracle *o, const Model *before, const Model *after, const Verdict *v, Spot *spot) {
    MemoRun *was, *is;
    const Node *failed;
    *spot = (Spot){0};
    if (v->broken) {
        at_failure(v, spot);
        return TN_OK;
    }
    TRY(memo_run(o->memo, before->main, o->inputs, &was, &failed));
    tn_status status = memo_run(o->memo, after->main, o->inputs, &is, &failed);
    if (status == TN_OK) {
        status = locate(o, before, after, v, was, is, spot);
        memo_run_free(is);
    }
    memo_run_free(was);
    return status;
}
