/* SPDX-License-Identifier: Apache-2.0 */
/* What a node costs on the processor's kernels. The rates are those of many models' profiles, on one core of a machine with
   512-bit vectors; only their ratios matter. Rules that are applied one by one are held to simpler figures (cost.c), by which
   each step has to lower something; this is for whoever compares whole graphs. */
#include "rewrite/rewrite_int.h"

/* Nanoseconds; FLOPs and bytes a nanosecond. */
static const double LAUNCH = 350, PART = 50, VIEW = 2;
static const double DENSE = 100, STEPPED = 150, WINOGRAD = 350, DEPTHWISE = 50, GROUPED = 40, OTHERS = 12;
static const double MOVED = 40, SWEPT = 40, REDUCED = 20, TRANSFORMED = 10, WEIGHTS = 20;

static double count_of(const Shape *s) {
    double n = 1;
    for (int i = 0; i < s->rank; i++) n *= (double)s->dims[i];
    return n;
}

static double bytes_of(const Value *v, const Shape *s) {
    return v && v->type->kind == TYPE_TENSOR ? dtype_bits(v->type->dtype) / 8.0 * count_of(s) : 0;
}

static double bytes_read(const Node *node, const Shape *in) {
    double bytes = 0;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        bool again = false;
        for (uint32_t k = 0; k < i; k++) again |= node->operands[k].value == node->operands[i].value;
        if (!again) bytes += bytes_of(node->operands[i].value, &in[i]);
    }
    return bytes;
}

static double bytes_written(const Node *node, const Shape *out) {
    double bytes = 0;
    for (uint32_t i = 0; i < node->n_results; i++) bytes += bytes_of(node->results[i], &out[i]);
    return bytes;
}

/* ---- by what runs it ----------------------------------------------------------------------------------------- */

/* Weights that are few rows' only are read for these. */
static double product_cost(const Node *node, const Shape *in, const Shape *out) {
    double flops = op_flops(node, in, out), weights = bytes_of(node_operand(node, 1), &in[1]);
    double compute = flops / DENSE, fetch = value_payload(node->operands[1].value) ? weights / WEIGHTS : 0;
    return LAUNCH + (compute > fetch ? compute : fetch) +
           (bytes_of(node->operands[0].value, &in[0]) + bytes_written(node, out)) / SWEPT;
}

static bool is_stepped(const Node *node) {
    const Attr *a = node_attr(node, STR("strides"));
    for (size_t i = 0; a && a->kind == ATTR_INTS && i < a->n; i++)
        if (a->ints[i] != 1) return true;
    return false;
}

/* Of windows of 3x3 and more, which are computed with fewer multiplications but go through what they read once before. */
static double window_cost(const Node *node, const Shape *in, const Shape *out, double flops) {
    bool stepped = is_stepped(node);
    return flops / (stepped ? STEPPED : WINOGRAD) + bytes_of(node->operands[0].value, &in[0]) / TRANSFORMED +
           bytes_written(node, out) / REDUCED;
}

static double conv_cost(const Node *node, const Shape *in, const Shape *out) {
    enum { FEW_CHANNELS = 16, FEW_PLACES = 64 };
    const Shape *x = &in[0], *w = &in[1];
    double flops = op_flops(node, in, out), places = 1;
    double swept = (bytes_of(node->operands[0].value, x) + bytes_written(node, out)) / SWEPT;
    if (w->rank < 3 || x->rank != w->rank || out[0].rank != w->rank) return LAUNCH + flops / DENSE + swept;
    for (int i = 2; i < w->rank; i++) places *= (double)out[0].dims[i];
    double weights = bytes_of(node->operands[1].value, w) / WEIGHTS;
    bool grouped = w->dims[1] != x->dims[1], window = w->rank == 4 && w->dims[2] >= 3 && w->dims[3] >= 3;
    double t = grouped && w->dims[1] == 1 ? flops / DEPTHWISE + swept : flops / (grouped ? GROUPED : DENSE) + swept;
    if (!grouped && window && w->dims[1] >= FEW_CHANNELS && places >= FEW_PLACES) t = window_cost(node, in, out, flops);
    return LAUNCH + (t > weights ? t : weights);
}

static bool is_view(const Node *node) {
    return node->op->kind == OP_HOST ||
           OP_IS_ONE_OF(node->op, "Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Expand");
}

/* A view, as a Slice is. */
static bool takes_one(const Node *node) {
    const Value *i = node->n_operands == 2 ? node->operands[1].value : NULL;
    return OP_IS_ONE_OF(node->op, "Gather") && i && value_payload(i) && i->type->shape.rank == 0;
}

/* Parts are read with gaps, which parts of parts are anyway. */
static double split_cost(const Node *node, const Shape *out) {
    const Value *v = node_operand(node, 0);
    bool again = v && v->def && OP_IS_ONE_OF(v->def->op, "Split");
    return again ? PART : PART + bytes_written(node, out) / SWEPT;
}

/* Where what it puts together is computed, that is put there at once. */
static double concat_cost(const Node *node, const Shape *out) {
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        if (!v || !v->def || is_view(v->def) || v->def->op->kind == OP_DEFORMABLE || value_payload(v))
            return LAUNCH + 2 * bytes_written(node, out) / MOVED;
    }
    return PART;
}

/* Nanoseconds for an element, besides reading and writing it. */
static double element_cost(const Node *node) {
    static const struct {
        const char *name;
        double ns;
    } dear[] = {{"Acos", 4},  {"Asin", 4},      {"Atan", 4},   {"Cos", 1},        {"Div", 0.2},   {"Elu", 0.3},
                {"Erf", 0.4}, {"Exp", 0.2},     {"Gelu", 0.4}, {"Log", 0.4},      {"Mish", 0.5},  {"Mod", 1},
                {"Pow", 2},   {"Sigmoid", 0.3}, {"Sin", 1},    {"Softplus", 0.5}, {"Swish", 0.3}, {"Tanh", 0.3}};
    for (size_t i = 0; !node->op->domain && i < sizeof dear / sizeof *dear; i++)
        if (strcmp(node->op->name, dear[i].name) == 0) return dear[i].ns;
    return 0.02;
}

static bool sweeps(const Node *node) {
    return (!node->op->domain && strncmp(node->op->name, "Reduce", 6) == 0) ||
           OP_IS_ONE_OF(node->op, "AveragePool", "GlobalAveragePool", "GlobalMaxPool", "GroupNormalization",
                        "InstanceNormalization", "LayerNormalization", "LogSoftmax", "MaxPool", "RMSNormalization",
                        "Resize", "Softmax");
}

double node_cost_measured(void *user, const Node *node, const Shape *in, const Shape *out) {
    (void)user;
    if (is_view(node)) return VIEW;
    if (OP_IS_ONE_OF(node->op, "Slice") || takes_one(node)) return PART;
    if (OP_IS_ONE_OF(node->op, "Split")) return split_cost(node, out);
    if (OP_IS_ONE_OF(node->op, "Concat")) return concat_cost(node, out);
    if (node->op->kind == OP_DEFORMABLE) return LAUNCH + 2 * bytes_written(node, out) / MOVED;
    if (OP_IS_ONE_OF(node->op, "Conv") && node->n_operands >= 2) return conv_cost(node, in, out);
    if (OP_IS_ONE_OF(node->op, "MatMul", "Gemm") && node->n_operands >= 2) return product_cost(node, in, out);
    double bytes = bytes_read(node, in) + bytes_written(node, out);
    if (node->op->flags & OP_ELEMENTWISE) return LAUNCH + bytes / SWEPT + count_of(&out[0]) * element_cost(node);
    if (sweeps(node)) return LAUNCH + bytes / REDUCED;
    if (OP_IS_ONE_OF(node->op, "Attention", "ConvTranspose", "Einsum", "MatMulInteger", "ConvInteger"))
        return LAUNCH + op_flops(node, in, out) / DENSE * 1.5 + bytes / SWEPT;
    return LAUNCH + op_flops(node, in, out) / OTHERS + bytes / REDUCED;
}

/* ---- what is computed together ------------------------------------------------------------------------------- */

/* As fuse-loops sees them. */
NodeRole node_role(const Node *node) {
    if (node->n_results != 1 || !node_result(node, 0) || node_result(node, 0)->type->kind != TYPE_TENSOR)
        return ROLE_OTHER;
    if (node->op->flags & OP_ELEMENTWISE) return ROLE_LIGHT;
    bool heavy = OP_IS_ONE_OF(node->op, "Conv", "MatMul", "Gemm", "ConvTranspose") ||
                 (sweeps(node) && !OP_IS_ONE_OF(node->op, "Resize"));
    return heavy ? ROLE_HEAVY : ROLE_OTHER;
}

/* What is spared where the one reader of a value, which is element-wise and of as many elements, is computed together with
   what makes it. */
double joining_saves(const Value *v, const Shape *shape) { return LAUNCH + 2 * bytes_of(v, shape) / SWEPT; }

static bool is_read_once(const Value *v) {
    const Graph *g = v->def->graph;
    for (const Use *u = v->uses; u; u = u->next)
        if (u->user == g->ret || u->user->graph != g || u->user != v->uses->user) return false;
    return v->uses != NULL;
}

static double saved_by(const Node *node) {
    bool heavy = false;
    double saved = 0;
    if (node_role(node) != ROLE_LIGHT) return 0;
    const Shape y = assumed_shape(node->results[0]);
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        NodeRole role = v && v->def ? node_role(v->def) : ROLE_OTHER;
        if (role == ROLE_OTHER || (role == ROLE_HEAVY && heavy) || !is_read_once(v) || node_is_constant(v->def))
            continue;
        const Shape x = assumed_shape(v);
        if (count_of(&x) != count_of(&y)) continue;
        for (uint32_t k = 0; k < i; k++)
            if (node->operands[k].value == v) role = ROLE_OTHER;
        if (role == ROLE_OTHER) continue;
        heavy |= role == ROLE_HEAVY;
        saved += joining_saves(v, &x);
    }
    return saved;
}

/* Bodies of what has been joined already are graphs of their own. */
double graph_cost(const Graph *graph) {
    static const RewriteHooks measured = {.cost = node_cost_measured};
    double ns = 0;
    for (const Node *node = graph->first; node; node = node->next)
        if (!node_is_constant(node) && strcmp(node->op->name, "Fused") != 0)
            ns += cost_of_node(node, &measured) - saved_by(node);
    return ns;
}
