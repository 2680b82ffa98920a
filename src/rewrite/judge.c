/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a rule keeps what an instance computes: both sides are run on the reference kernels. */
#include "rewrite/prove_int.h"

#include <float.h>
#include <math.h>
#include <stdio.h>

/* One instance with both its answers. */
typedef struct Trial {
    Context *ctx;
    const Instance *x;
    Model *model;
    Node *root;
    size_t n_in, n_out;
    const Tensor *in[INSTANCE_VALUES];
    Tensor left[INSTANCE_VALUES], right[INSTANCE_VALUES];
    Arena arena;
    double
        *quotients[INSTANCE_VALUES]; /* of outputs: what QuantizeLinear rounded on the left; NULL: another op made it */
    double scale;                    /* of the numbers on the left */
    double tolerance;                /* of the scale */
    Judgement *out;
} Trial;

static tn_status refuted(Trial *t, const char *what) {
    t->out->verdict = VERDICT_REFUTED;
    const char *why = diag_text();
    snprintf(t->out->why, sizeof t->out->why, "%s%s%s", what, *why ? ": " : "", why);
    diag_clear();
    return TN_OK;
}

/* Anything but a lack of memory says something of the rule or the instance. */
static bool is_grave(tn_status status) { return status == TN_OUT_OF_MEMORY; }

/* ---- what is compared ---------------------------------------------------------------------------------------- */

static bool is_real(tn_dtype t) { return dtype_is_float(t); }

/* The part of the scale that two sides of a true rule may differ by: twenty bits of f64 are left to rounding. */
static double tolerance_of(tn_dtype t) { return t == TN_F64 ? 1e-10 : t == TN_F32 ? 1e-4 : t == TN_F16 ? 1e-2 : 5e-2; }

/* A mask of -1e9 says nothing of what the others are. */
static const double LARGEST_SCALE = 1e6;

static void note_scale(Trial *t, const Tensor *value) {
    double chunk[64];
    if (value->kind != TYPE_TENSOR || !is_real(value->dtype)) return;
    double tolerance = tolerance_of(value->dtype);
    if (tolerance > t->tolerance) t->tolerance = tolerance;
    for (TensorRows r = tensor_rows(value); tensor_next_row(&r);)
        for (int64_t k = 0; k < r.n; k += 64) {
            int64_t n = min_i64(64, r.n - k);
            load_f64(chunk, value->dtype, value->data, r.offset + k * r.stride, r.stride, n);
            for (int64_t i = 0; i < n; i++)
                if (fabs(chunk[i]) <= LARGEST_SCALE && fabs(chunk[i]) > t->scale) t->scale = fabs(chunk[i]);
        }
}

static double largest_of(const double *x, int64_t n) {
    double largest = 0;
    for (int64_t i = 0; i < n; i++)
        if (isfinite(x[i]) && fabs(x[i]) > largest) largest = fabs(x[i]);
    return largest;
}

static tn_status differ_at(Trial *t, const Tensor *like, size_t output, int64_t at, const char *left,
                           const char *right) {
    char place[128];
    size_t n = 0;
    int64_t rest = at, inner = tensor_count(like);
    place[0] = 0;
    for (int i = 0; i < like->rank && n + 24 < sizeof place; i++) {
        inner /= like->dims[i];
        n += (size_t)snprintf(place + n, sizeof place - n, "%s%lld", i ? "," : "", (long long)(rest / inner));
        rest %= inner;
    }
    t->out->verdict = VERDICT_REFUTED;
    snprintf(t->out->why, sizeof t->out->why, "%%%s[%s] is %s on the left and %s on the right",
             t->model->main->output_names.data[output].s, place, left, right);
    return TN_OK;
}

static tn_status compare_reals(Trial *t, size_t i, double *a, double *b, int64_t n) {
    char left[32], right[32];
    double scale = largest_of(a, n);
    scale = scale > t->scale ? scale : t->scale;
    for (int64_t k = 0; k < n; k++) {
        t->out->exact &= (isnan(a[k]) && isnan(b[k])) || (a[k] == b[k] && signbit(a[k]) == signbit(b[k]));
        bool odd = !isfinite(a[k]) || !isfinite(b[k]), same = odd && (a[k] == b[k] || (isnan(a[k]) && isnan(b[k])));
        double difference = odd || a[k] == b[k] ? 0 : fabs(a[k] - b[k]) / (scale > 0 ? scale : DBL_MIN);
        t->out->tells |= !odd;
        if (difference > t->out->difference && t->tolerance == tolerance_of(TN_F64) && !t->x->odd)
            t->out->difference = difference;
        if (t->x->odd || (odd ? same : difference <= t->tolerance)) continue;
        snprintf(left, sizeof left, "%.17g", a[k]);
        snprintf(right, sizeof right, "%.17g", b[k]);
        return differ_at(t, &t->left[i], i, k, left, right);
    }
    return TN_OK;
}

/* A number next to the middle between two integers may be rounded to either. */
static bool is_tie(const Trial *t, size_t i, int64_t k) {
    const double *q = t->quotients[i];
    return q && fabs(q[k] - floor(q[k]) - 0.5) <= tolerance_of(TN_F32) * (1 + fabs(q[k]));
}

static tn_status compare_ints(Trial *t, size_t i, const int64_t *a, const int64_t *b, int64_t n) {
    char left[32], right[32];
    t->out->tells |= n > 0;
    for (int64_t k = 0; k < n; k++) {
        t->out->exact &= a[k] == b[k];
        bool next = (uint64_t)a[k] - (uint64_t)b[k] + 1 <= 2; /* at most 1 apart */
        if (a[k] == b[k] || t->x->odd || (next && is_tie(t, i, k))) continue;
        snprintf(left, sizeof left, "%lld", (long long)a[k]);
        snprintf(right, sizeof right, "%lld", (long long)b[k]);
        return differ_at(t, &t->left[i], i, k, left, right);
    }
    return TN_OK;
}

static tn_status compare_strings(Trial *t, size_t i, int64_t n) {
    RcString *const *a = tensor_bytes(&t->left[i]), *const *b = tensor_bytes(&t->right[i]);
    t->out->tells |= n > 0;
    for (int64_t k = 0; k < n; k++)
        if (!str_equal(rc_string_get(a[k]), rc_string_get(b[k])))
            return differ_at(t, &t->left[i], i, k, "one text", "another");
    return TN_OK;
}

static tn_status compare_elements(Trial *t, size_t i, Arena *arena) {
    const Tensor *l = &t->left[i], *r = &t->right[i];
    int64_t n = tensor_count(l);
    if (l->dtype == TN_STRING) return compare_strings(t, i, n);
    bool complex = dtype_is_complex(l->dtype);
    if (is_real(l->dtype) || complex) {
        size_t each = complex ? 2 : 1;
        double *a = arena_array(arena, double, (size_t)n *each + 1),
               *b = arena_array(arena, double, (size_t)n *each + 1);
        if (!a || !b) return TN_OUT_OF_MEMORY;
        (complex ? load_c128 : load_f64)(a, l->dtype, l->data, l->offset, 1, n);
        (complex ? load_c128 : load_f64)(b, r->dtype, r->data, r->offset, 1, n);
        return compare_reals(t, i, a, b, n * (int64_t)each);
    }
    int64_t *a = arena_array(arena, int64_t, (size_t)n + 1), *b = arena_array(arena, int64_t, (size_t)n + 1);
    if (!a || !b) return TN_OUT_OF_MEMORY;
    load_i64(a, l->dtype, l->data, l->offset, 1, n);
    load_i64(b, r->dtype, r->data, r->offset, 1, n);
    return compare_ints(t, i, a, b, n);
}

static void print_type(Text *text, const Tensor *t) {
    text_puts(text, dtype_name(t->dtype));
    text_puts(text, "[");
    for (int i = 0; i < t->rank; i++) text_printf(text, "%s%lld", i ? "," : "", (long long)t->dims[i]);
    text_puts(text, "]");
}

static tn_status compare_output(Trial *t, size_t i, Arena *arena) {
    const Tensor *l = &t->left[i], *r = &t->right[i];
    bool same = l->kind == r->kind && l->dtype == r->dtype && l->rank == r->rank &&
                memcmp(l->dims, r->dims, (size_t)l->rank * sizeof *l->dims) == 0;
    if (same && l->kind == TYPE_TENSOR) return compare_elements(t, i, arena);
    if (same) return TN_OK;
    Text text;
    text_init(&text, &t->ctx->allocator);
    print_type(&text, l);
    text_puts(&text, " on the left and ");
    print_type(&text, r);
    if (text.status == TN_OK) {
        t->out->verdict = VERDICT_REFUTED;
        snprintf(t->out->why, sizeof t->out->why, "%%%s is %s on the right", t->model->main->output_names.data[i].s,
                 text.s);
    }
    tn_status status = text.status;
    text_free(&text);
    return status;
}

/* ---- running ------------------------------------------------------------------------------------------------- */

static void release(Tensor *list, size_t n) {
    for (size_t i = 0; i < n; i++) tensor_release(&list[i]);
}

/* The scale is that of every number that the left side computes, so all of them are outputs for once. */
static tn_status add_all_outputs(Graph *graph) {
    for (Node *node = graph->first; node; node = node->next)
        for (uint32_t i = 0; i < node->n_results; i++) TRY(graph_add_output(graph, node->results[i], STR("all")));
    return TN_OK;
}

static void drop_outputs(Graph *graph, size_t keep) {
    node_truncate_operands(graph->ret, keep);
    graph->output_names.len = keep;
}

/* What a value of the left side is; `all` are its outputs, then those of all nodes. */
static const Tensor *tensor_of(const Trial *t, const Value *v, const Tensor *all) {
    const Graph *graph = t->model->main;
    const Tensor *next = all + t->n_out;
    if (value_constant(v)) return value_constant(v);
    for (size_t i = 0; !v->def && i < graph->inputs.len; i++)
        if (graph->inputs.data[i] == v) return t->in[i];
    for (const Node *node = graph->first; node; next += node->n_results, node = node->next)
        if (node == v->def) return next + v->index;
    return NULL;
}

/* Of outputs that QuantizeLinear makes with one scale for all. */
static tn_status note_quotients(Trial *t, const Tensor *all) {
    for (size_t i = 0; i < t->n_out; i++) {
        const Node *made_by = node_operand(t->model->main->ret, i)->def;
        if (!made_by || strcmp(made_by->op->name, "QuantizeLinear") != 0) continue;
        const Tensor *x = tensor_of(t, node_operand(made_by, 0), all), *s = tensor_of(t, node_operand(made_by, 1), all);
        double scale;
        if (!x || !s || tensor_count(s) != 1) continue;
        int64_t n = tensor_count(x), k = 0;
        double *q = t->quotients[i] = arena_array(&t->arena, double, (size_t)n + 1);
        if (!q) return TN_OUT_OF_MEMORY;
        load_f64(&scale, s->dtype, s->data, s->offset, 1, 1);
        for (TensorRows r = tensor_rows(x); tensor_next_row(&r); k += r.n)
            load_f64(q + k, x->dtype, x->data, r.offset, r.stride, r.n);
        for (k = 0; k < n; k++) q[k] /= scale;
    }
    return TN_OK;
}

static tn_status run_left(Trial *t) {
    Graph *graph = t->model->main;
    t->n_out = graph_n_outputs(graph);
    for (size_t i = 0; i < t->n_in; i++) note_scale(t, t->in[i]);
    tn_status status = add_all_outputs(graph);
    size_t n = graph_n_outputs(graph);
    Tensor *all = mem_alloc(&t->ctx->allocator, n * sizeof *all, alignof(Tensor));
    if (!all) return TN_OUT_OF_MEMORY;
    if (status == TN_OK) status = eval_graph(t->ctx, graph, t->in, all);
    if (status == TN_OK) {
        for (size_t i = 0; i < n; i++) note_scale(t, &all[i]);
        status = note_quotients(t, all);
        if (status == TN_OK) memcpy(t->left, all, t->n_out * sizeof *all);
        else release(all, t->n_out);
        release(all + t->n_out, n - t->n_out);
    }
    mem_free(&t->ctx->allocator, all, n * sizeof *all);
    drop_outputs(graph, t->n_out);
    return status;
}

static tn_status compare(Trial *t) {
    Arena arena;
    tn_status status = eval_graph(t->ctx, t->model->main, t->in, t->right);
    if (is_grave(status)) return status;
    if (status != TN_OK) return refuted(t, "the right side does not run");
    arena_init(&arena, &t->ctx->allocator);
    t->out->verdict = VERDICT_HOLDS;
    for (size_t i = 0; i < t->n_out && status == TN_OK && t->out->verdict == VERDICT_HOLDS; i++)
        status = compare_output(t, i, &arena);
    t->out->tells &= !t->x->odd;
    arena_free(&arena);
    release(t->right, t->n_out);
    return status;
}

static tn_status rewrite(Trial *t, Matcher *matcher, Text *rewritten) {
    bool applied;
    tn_status status = rewrite_once(matcher, t->root, &applied);
    if (is_grave(status)) return status;
    if (status != TN_OK) return refuted(t, "it cannot be applied");
    if (!applied) return TN_OK;
    status = model_verify(t->model);
    if (status == TN_OK && rewritten)
        TRY(graph_print(t->model->main, &(PrintOptions){.inline_elements = 256}, rewritten));
    if (status != TN_OK) return is_grave(status) ? status : refuted(t, "the graph is broken afterwards");
    status = infer_model(t->model);
    if (is_grave(status)) return status;
    return status == TN_OK ? compare(t) : refuted(t, "types contradict afterwards");
}

static tn_status judge(Trial *t, Matcher *matcher, Text *rewritten) {
    tn_status status = infer_model(t->model);
    for (int v = 0; v < t->x->n_values; v++) {
        const Leaf *leaf = t->x->values[v].leaf >= 0 ? &t->x->leaves[t->x->values[v].leaf] : NULL;
        if (leaf && !leaf->constant) t->in[t->n_in++] = &leaf->data;
    }
    if (status == TN_OK) status = run_left(t);
    if (status != TN_OK) {
        if (!is_grave(status)) diag_clear();
        return is_grave(status) ? status : TN_OK;
    }
    status = rewrite(t, matcher, rewritten);
    release(t->left, t->n_out);
    return status;
}

tn_status instance_judge(Context *ctx, const Instance *x, Matcher *matcher, Judgement *out, Text *rewritten) {
    Trial t = {.ctx = ctx, .x = x, .out = out, .tolerance = tolerance_of(TN_F64)};
    *out = (Judgement){.verdict = VERDICT_NONE, .exact = true};
    TRY(instance_model(ctx, x, &t.model, &t.root));
    arena_init(&t.arena, &ctx->allocator);
    tn_status status = judge(&t, matcher, rewritten);
    arena_free(&t.arena);
    model_free(t.model);
    return status;
}
