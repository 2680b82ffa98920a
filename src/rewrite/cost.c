/* SPDX-License-Identifier: Apache-2.0 */
/* What a few nodes cost, so that each rewriting can be held to lowering something. */
#include "rewrite/rewrite_int.h"

/* Sizes that are not known stand in as this. */
enum { SOME_SIZE = 32 };
static const double LAUNCH = 400, PART = 100, VIEW = 2; /* nanoseconds */
static const double FLOPS_PER_NS = 16, BYTES_PER_NS = 8;

static Dim some_size(void *user, Str symbol) {
    (void)user, (void)symbol;
    return SOME_SIZE;
}

Shape assumed_shape(const Value *v) {
    Shape s = {.rank = 0};
    if (!v || v->type->kind != TYPE_TENSOR || v->type->shape.rank < 0) return s;
    s = v->type->shape;
    for (int i = 0; i < s.rank; i++) {
        if (!dim_is_const(s.dims[i])) s.dims[i] = dim_eval(&v->graph->model->dims, s.dims[i], some_size, NULL);
        if (s.dims[i] < 0) s.dims[i] = SOME_SIZE;
    }
    return s;
}

static double bytes_of(const Value *v, const Shape *s) {
    double n = v && v->type->kind == TYPE_TENSOR ? dtype_bits(v->type->dtype) / 8.0 : 0;
    for (int i = 0; i < s->rank; i++) n *= (double)s->dims[i];
    return n;
}

static bool is_view(const OpSchema *op) {
    return OP_IS_ONE_OF(op, "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity");
}

/* Views as well, but of what does not lie together. */
static bool is_part(const OpSchema *op) { return OP_IS_ONE_OF(op, "Slice", "Split"); }

/* Parts of a convolution's channels, which lie side by side: what reads some of them is slower, or gets them copied, and the
   functions behind the convolution are no part of it any more, so each goes through its part once more. */
static bool cuts_channels(const Node *node) {
    const Value *v = node_operand(node, 0);
    bool conv = v && v->def && !v->def->op->domain && strcmp(v->def->op->name, "Conv") == 0;
    return conv && strcmp(node->op->name, "Split") == 0 && attr_int(node, "axis") == 1;
}

/* Against an addition. Those that few kernels are made for are dear, too. */
static double work_of(const OpSchema *op) {
    static const struct {
        const char *name;
        double work;
    } dear[] = {{"Div", 4}, {"Einsum", 2}, {"Mod", 8}, {"Pow", 16}};
    for (size_t i = 0; !op->domain && i < sizeof dear / sizeof *dear; i++)
        if (strcmp(op->name, dear[i].name) == 0) return dear[i].work;
    return 1;
}

static bool is_read_before(const Node *node, uint32_t i) {
    for (uint32_t k = 0; k < i; k++)
        if (node->operands[k].value == node->operands[i].value) return true;
    return false;
}

/* Reductions go through what they read, as pools do. */
static double flops_of(const Node *node, const Shape *in, const Shape *out) {
    double n = op_flops(node, in, out), read = 1;
    if (node->op->domain || strncmp(node->op->name, "Reduce", 6) != 0) return n;
    for (int i = 0; i < in[0].rank; i++) read *= (double)in[0].dims[i];
    return read > n ? read : n;
}

/* What only moves data reads what it writes, and its axes and sizes cost nothing. */
double node_cost_plain(void *user, const Node *node, const Shape *in, const Shape *out) {
    (void)user;
    if (is_view(node->op) || node->op->kind == OP_HOST) return VIEW;
    if (is_part(node->op) && !cuts_channels(node)) return PART;
    bool moves = node->op->kind == OP_DEFORMABLE;
    double bytes = 0;
    double times = cuts_channels(node) ? 4 : moves ? 2 : 1;
    for (uint32_t i = 0; i < node->n_results; i++) bytes += times * bytes_of(node->results[i], &out[i]);
    if (moves) return LAUNCH + bytes / BYTES_PER_NS;
    for (uint32_t i = 0; i < node->n_operands; i++)
        if (!is_read_before(node, i)) bytes += bytes_of(node->operands[i].value, &in[i]);
    return LAUNCH + flops_of(node, in, out) * work_of(node->op) / FLOPS_PER_NS + bytes / BYTES_PER_NS;
}

double cost_of_node(const Node *node, const RewriteHooks *hooks) {
    Shape in[OP_MAX_INPUTS], out[OP_MAX_OUTPUTS];
    if (node->n_operands > OP_MAX_INPUTS || node->n_results > OP_MAX_OUTPUTS) return LAUNCH;
    for (uint32_t i = 0; i < node->n_operands; i++) in[i] = assumed_shape(node->operands[i].value);
    for (uint32_t i = 0; i < node->n_results; i++) out[i] = assumed_shape(node->results[i]);
    return hooks && hooks->cost ? hooks->cost(hooks->user, node, in, out) : node_cost_plain(NULL, node, in, out);
}

/* What follows from constants in a few steps, as rules write it, will be folded; weights that are to stay quantised are
   not. */
enum { FOLD_DEPTH = 16, FOLD_NODES = 64 };

static bool node_follows(const Node *node, int depth, int *budget);

static bool value_follows(const Value *v, int depth, int *budget) {
    if (!v || value_payload(v)) return true;
    return v->def && depth > 0 && node_follows(v->def, depth - 1, budget);
}

bool node_may_follow(const Node *node) {
    if (node->n_operands == 0 || node->op->flags & (OP_RANDOM | OP_CONTROL)) return false;
    return strcmp(node->op->name, "DequantizeLinear") != 0;
}

/* Recursion is bounded by FOLD_DEPTH. */
static bool node_follows(const Node *node, int depth, int *budget) {
    if (--*budget < 0 || !node_may_follow(node)) return false;
    for (uint32_t i = 0; i < node->n_operands; i++)
        if (!value_follows(node->operands[i].value, depth, budget)) return false;
    return true;
}

bool value_is_constant(const Value *v) {
    int budget = FOLD_NODES;
    return value_follows(v, FOLD_DEPTH, &budget);
}

bool node_is_constant(const Node *node) {
    int budget = FOLD_NODES;
    return value_payload(node_result(node, 0)) || node_follows(node, FOLD_DEPTH, &budget);
}

/* A part of a view, where it could be a view of a part: what makes the part may then be spared the rest. */
static bool cuts_view(const Node *node, Node *const *nodes, size_t n) {
    const Value *v = node_operand(node, 0);
    if (!v || !v->def || !OP_IS_ONE_OF(node->op, "Gather", "Slice") || !is_view(v->def->op)) return false;
    for (size_t i = 0; i < n; i++)
        if (nodes[i] == v->def) return true;
    return false;
}

/* For each node that only moves data, the computations among these that depend on it: moving less often, and later, is
   better where time and count are the same. */
static int64_t order_of(Node *const *nodes, size_t n) {
    int64_t order = 0;
    for (size_t i = 0; i < n; i++) {
        bool below[RULE_NODES * 4] = {0};
        order += cuts_view(nodes[i], nodes, n);
        if (nodes[i]->op->kind != OP_DEFORMABLE || node_is_constant(nodes[i])) continue;
        below[i] = true;
        for (size_t k = 0; k < n; k++) {
            for (uint32_t j = 0; j < nodes[k]->n_operands && !below[k]; j++)
                for (size_t l = 0; l < n; l++)
                    below[k] |= below[l] && nodes[k]->operands[j].value && nodes[k]->operands[j].value->def == nodes[l];
            order += k != i && below[k] && nodes[k]->op->kind != OP_DEFORMABLE;
        }
    }
    return order;
}

Cost cost_of(Node *const *nodes, size_t n, const RewriteHooks *hooks) {
    Cost c = {.order = order_of(nodes, n)};
    for (size_t i = 0; i < n; i++) {
        if (node_is_constant(nodes[i])) continue;
        c.time += cost_of_node(nodes[i], hooks);
        c.nodes++;
        c.words += (int64_t)nodes[i]->n_operands + nodes[i]->n_attrs;
    }
    return c;
}

bool cost_lower(const Cost *a, const Cost *than) {
    double close = 1e-9 * (a->time > than->time ? a->time : than->time);
    if (a->time < than->time - close) return true;
    if (a->time > than->time + close) return false;
    if (a->nodes != than->nodes) return a->nodes < than->nodes;
    return a->order != than->order ? a->order < than->order : a->words < than->words;
}
