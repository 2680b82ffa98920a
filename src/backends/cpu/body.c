/* SPDX-License-Identifier: Apache-2.0 */
/* Bodies from nodes: what they hold, and the list of steps that they become. Every step makes one value; operands and the
   heavy node's tile come in by a step of their own (BODY_LOAD) before they are first read, constants are there always. */
#include "backends/cpu/body_program_int.h"

#include <math.h>

/* ---- ops --------------------------------------------------------------------------------------------------------- */

typedef struct Maker Maker;
typedef struct Row {
    const char *domain, *name;
    const char *
        types; /* of operands, then of the result: f, b: f32, BOOL; h: or a float of 16 bits; q: U8 or I8; e: either, all alike; k: f32 or i32, i: or BOOL; n: any number, B: also BOOL;
                          '*': the one before repeated; '?': the one before may be absent */
    BodyCode code;                                          /* of rows that are one step */
    const char *p[2];                                       /* attributes that are its numbers */
    int (*make)(Maker *m, const Node *node, BodyCode code); /* of the others: the value, -1: none (out of memory) */
} Row;

static int make_fold(Maker *m, const Node *node, BodyCode code);
static int make_mean(Maker *m, const Node *node, BodyCode code);
static int make_swapped(Maker *m, const Node *node, BodyCode code);
static int make_compare(Maker *m, const Node *node, BodyCode code);
static int make_clip(Maker *m, const Node *node, BodyCode code);
static int make_pow(Maker *m, const Node *node, BodyCode code);
static int make_gelu(Maker *m, const Node *node, BodyCode code);
static int make_cast(Maker *m, const Node *node, BodyCode code);
static int make_is_inf(Maker *m, const Node *node, BodyCode code);
static int make_batch_norm(Maker *m, const Node *node, BodyCode code);
static int make_quantize(Maker *m, const Node *node, BodyCode code);
static int make_dequantize(Maker *m, const Node *node, BodyCode code);

#define MS "com.microsoft"
static const Row rows[] = {
    {NULL, "Abs", "ff", BODY_ABS, {0}, NULL},
    {NULL, "Add", "fff", BODY_ADD, {0}, NULL},
    {NULL, "And", "bbb", BODY_AND, {0}, NULL},
    {NULL, "BatchNormalization", "ffffff", BODY_COPY, {0}, make_batch_norm},
    {NULL, "Cast", "Bh", BODY_COPY, {0}, make_cast},
    {NULL, "Ceil", "ff", BODY_CEIL, {0}, NULL},
    {NULL, "Celu", "ff", BODY_CELU, {"alpha"}, NULL},
    {NULL, "Clip", "ff?f?f", BODY_CLAMP, {0}, make_clip},
    {NULL, "Cos", "ff", BODY_COS, {0}, NULL},
    {NULL, "DequantizeLinear", "qfq?f", BODY_MUL, {0}, make_dequantize},
    {NULL, "Div", "fff", BODY_DIV, {0}, NULL},
    {NULL, "Elu", "ff", BODY_ELU, {"alpha"}, NULL},
    {NULL, "Equal", "iib", BODY_EQUAL, {0}, make_compare},
    {NULL, "Erf", "ff", BODY_ERF, {0}, NULL},
    {NULL, "Exp", "ff", BODY_EXP, {0}, NULL},
    {NULL, "Floor", "ff", BODY_FLOOR, {0}, NULL},
    {NULL, "Gelu", "ff", BODY_GELU, {0}, make_gelu},
    {NULL, "Greater", "kkb", BODY_LESS, {0}, make_swapped},
    {NULL, "GreaterOrEqual", "kkb", BODY_LESS_OR_EQUAL, {0}, make_swapped},
    {NULL, "HardSigmoid", "ff", BODY_HARD_SIGMOID, {"alpha", "beta"}, NULL},
    {NULL, "HardSwish", "ff", BODY_HARD_SWISH, {0}, NULL},
    {NULL, "Identity", "ee", BODY_COPY, {0}, NULL},
    {NULL, "IsInf", "fb", BODY_IS_INF, {0}, make_is_inf},
    {NULL, "IsNaN", "fb", BODY_IS_NAN, {0}, NULL},
    {NULL, "LeakyRelu", "ff", BODY_LEAKY_RELU, {"alpha"}, NULL},
    {NULL, "Less", "kkb", BODY_LESS, {0}, make_compare},
    {NULL, "LessOrEqual", "kkb", BODY_LESS_OR_EQUAL, {0}, make_compare},
    {NULL, "Log", "ff", BODY_LOG, {0}, NULL},
    {NULL, "Max", "f*f", BODY_MAX, {0}, make_fold},
    {NULL, "Mean", "f*f", BODY_ADD, {0}, make_mean},
    {NULL, "Min", "f*f", BODY_MIN, {0}, make_fold},
    {NULL, "Mish", "ff", BODY_MISH, {0}, NULL},
    {NULL, "Mul", "fff", BODY_MUL, {0}, NULL},
    {NULL, "Neg", "ff", BODY_NEG, {0}, NULL},
    {NULL, "Not", "bb", BODY_NOT, {0}, NULL},
    {NULL, "Or", "bbb", BODY_OR, {0}, NULL},
    {NULL, "PRelu", "fff", BODY_PRELU, {0}, NULL},
    {NULL, "Pow", "fnf", BODY_POW, {0}, make_pow},
    {NULL, "QuantizeLinear", "ffq?q", BODY_SATURATE, {0}, make_quantize},
    {NULL, "Reciprocal", "ff", BODY_RECIPROCAL, {0}, NULL},
    {NULL, "Relu", "ff", BODY_RELU, {0}, NULL},
    {NULL, "Round", "ff", BODY_ROUND, {0}, NULL},
    {NULL, "Selu", "ff", BODY_SELU, {"alpha", "gamma"}, NULL},
    {NULL, "Sigmoid", "ff", BODY_SIGMOID, {0}, NULL},
    {NULL, "Sign", "ff", BODY_SIGN, {0}, NULL},
    {NULL, "Sin", "ff", BODY_SIN, {0}, NULL},
    {NULL, "Softplus", "ff", BODY_SOFTPLUS, {0}, NULL},
    {NULL, "Softsign", "ff", BODY_SOFTSIGN, {0}, NULL},
    {NULL, "Sqrt", "ff", BODY_SQRT, {0}, NULL},
    {NULL, "Sub", "fff", BODY_SUB, {0}, NULL},
    {NULL, "Sum", "f*f", BODY_ADD, {0}, make_fold},
    {NULL, "SwiGLU", "fff", BODY_SWIGLU, {"alpha"}, NULL},
    {NULL, "Swish", "ff", BODY_SWISH, {"alpha"}, NULL},
    {NULL, "Tanh", "ff", BODY_TANH, {0}, NULL},
    {NULL, "ThresholdedRelu", "ff", BODY_THRESHOLDED_RELU, {"alpha"}, NULL},
    {NULL, "Where", "beee", BODY_WHERE, {0}, NULL},
    {NULL, "Xor", "bbb", BODY_XOR, {0}, NULL},
    {MS, "BiasGelu", "fff", BODY_GELU, {0}, make_gelu},
    {MS, "FastGelu", "ff?f", BODY_GELU_TANH, {0}, make_gelu},
    {MS, "Gelu", "ff", BODY_GELU, {0}, NULL},
    {MS, "QuickGelu", "ff", BODY_SWISH, {"alpha"}, NULL},
};

static const Row *row_of(const OpSchema *op) {
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        if (rows[i].name[0] == op->name[0] && strcmp(rows[i].name, op->name) == 0 &&
            (rows[i].domain ? op->domain && strcmp(rows[i].domain, op->domain) == 0 : !op->domain))
            return &rows[i];
    return NULL;
}

/* The axis of a vector of scales, as body inputs have it; 0: it is none of the data's. */
static int scales_from_end(const Node *node) {
    int64_t rank = node->operands[0].value->type->shape.rank, axis = attr_int(node, "axis");
    if (axis < 0) axis += rank;
    return axis >= 0 && axis < rank ? (int)(rank - axis) : 0;
}

static tn_dtype dtype_of(const Value *v) { return v->type->kind == TYPE_TENSOR ? v->type->dtype : TN_UNDEFINED; }

static bool is_number(tn_dtype dtype) { return dtype < TN_DTYPE_END && (TS_NUMERIC & TS(dtype)) != 0; }

/* Powers of another type are computed in double, so those are left alone unless they are constants. */
static bool is_single(const Value *v) {
    const Tensor *t = value_payload(v);
    return t && tensor_count(t) == 1;
}

static bool type_fits(char type, const Value *v, tn_dtype *either) {
    tn_dtype dtype = dtype_of(v);
    switch (type) {
    case 'f': return dtype == TN_F32;
    case 'b': return dtype == TN_BOOL;
    case 'q': return dtype == TN_U8 || dtype == TN_I8;
    case 'h': return dtype == TN_F32 || dtype == TN_BOOL || dtype_is_half(dtype);
    case 'n': return dtype == TN_F32 || (is_number(dtype) && is_single(v));
    case 'B': return is_number(dtype) || dtype == TN_BOOL;
    default:
        if (dtype != TN_F32 && !(dtype == TN_BOOL && type != 'k') && !(dtype == TN_I32 && type != 'e')) return false;
        if (*either && *either != dtype) return false;
        *either = dtype;
        return true;
    }
}

static bool types_fit(const Node *node, const char *types) {
    tn_dtype either = TN_UNDEFINED;
    uint32_t i = 0;
    while (types[1]) {
        char type = *types++;
        bool repeated = *types == '*', optional = *types == '?';
        types += repeated || optional;
        do {
            const Value *v = node_operand(node, i++);
            if (v ? !type_fits(type, v, &either) : !optional) return false;
        } while (repeated && i < node->n_operands);
    }
    return i >= node->n_operands && type_fits(*types, node->results[0], &either);
}

bool body_knows(const OpSchema *op) { return row_of(op) != NULL; }

/* Numbers are floats of 32 bits on their way: those that do not fit there would be rounded twice. */
static bool rounds_once(tn_dtype from, tn_dtype to) {
    bool small = from == TN_F32 || dtype_is_half(from) || from == TN_BOOL || dtype_size(from) == 1 || from == TN_I16 ||
                 from == TN_U16;
    return !dtype_is_half(to) || small;
}

static bool is_one_number(const Shape *s) { return s->rank == 0 || (s->rank == 1 && s->dims[0] == 1); }

/* Whether scales (and zero points) are one number or go along an axis that is known. */
static bool scales_fit(const Node *node) {
    const Shape *x = &node->operands[0].value->type->shape, *s = &node->operands[1].value->type->shape;
    if (attr_int(node, "block_size") != 0 || s->rank < 0 || s->rank > 1) return false;
    if (node_is_onnx(node, "QuantizeLinear") && attr_int(node, "precision") != 0) return false;
    return is_one_number(s) || (x->rank > 0 && scales_from_end(node) > 0);
}

bool body_takes(const Node *node) {
    const Row *row = node->n_results == 1 ? row_of(node->op) : NULL;
    if (!row || !types_fit(node, row->types)) return false;
    if (row->make == make_quantize || row->make == make_dequantize) return scales_fit(node);
    if (row->make == make_cast) return rounds_once(dtype_of(node->operands[0].value), dtype_of(node->results[0]));
    if (row->make == make_batch_norm) return attr_int(node, "training_mode") == 0;
    return true;
}

/* ---- nodes ------------------------------------------------------------------------------------------------------- */

/* Whether operands beside the first lie along axis 1 of it. */
static bool takes_vectors(const Node *node) { return node_is_onnx(node, "BatchNormalization"); }

/* Whether a body's node reads nothing but the body's own values and single numbers. */
static bool reads_within(const Node *node) {
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        const Tensor *t = value_payload(v);
        if (v && (v->graph != node->graph || (t && (tensor_count(t) != 1 || !t->data)))) return false;
        if (v && i > 0 && v->def && !t && takes_vectors(node)) return false; /* those are read from operands */
    }
    return true;
}

/* Roughly how many values a node becomes, so that the tables of a program have room. */
static size_t values_of(const Node *node) { return 2 * (size_t)node->n_operands + 6; }

/* Of the nodes of a body beside the heavy one. */
static size_t values_of_all(const Graph *body, const Node *heavy) {
    size_t values = body->inputs.len + 1;
    for (const Node *node = body->first; node; node = node->next) values += node == heavy ? 0 : values_of(node);
    return values;
}

#define OTHER_RESULTS (TS(TN_BOOL) | TS(TN_F16) | TS(TN_BF16) | TS(TN_U8) | TS(TN_I8))

static bool holds_only(const Graph *body, const Node *heavy) {
    if (body->inputs.len > OP_MAX_INPUTS || graph_n_outputs(body) > OP_MAX_OUTPUTS) return false;
    for (const Node *node = body->first; node; node = node->next) {
        if (node == heavy || value_payload(node_result(node, 0))) continue;
        if (!body_takes(node) || !reads_within(node)) return false;
    }
    for (size_t i = 0; i < graph_n_outputs(body); i++) {
        const Value *v = graph_output(body, i);
        tn_dtype dtype = dtype_of(v);
        if ((dtype != TN_F32 && !(TS(dtype) & OTHER_RESULTS)) || v->graph != body || value_payload(v)) return false;
    }
    return values_of_all(body, heavy) <= BODY_MOST_VALUES;
}

bool body_is_light(const Node *node) {
    if (!node_is_fused(node)) return body_takes(node) && values_of(node) < BODY_MOST_VALUES;
    const Graph *body = attr_graph(node, "body");
    return body && holds_only(body, NULL);
}

/* Where the operands of a heavy node of a body come from. */
static bool open_operands(const Node *heavy, Heavy *out) {
    if (heavy->n_operands > OP_MAX_INPUTS) return false;
    for (uint32_t i = 0; i < heavy->n_operands; i++) {
        const Value *v = heavy->operands[i].value;
        out->constant[i] = value_constant(v);
        if (!v || out->constant[i]) continue;
        if (v->def || v->graph != heavy->graph) return false;
        out->in[i] = (int)v->index;
    }
    return true;
}

static bool is_read_by_first_only(const Node *heavy) {
    for (uint32_t i = 1; i < heavy->n_results; i++)
        if (heavy->results[i]->uses) return false;
    return true;
}

bool heavy_open(const Node *node, bool (*is_heavy)(const Node *inner), Heavy *out) {
    *out = (Heavy){0};
    for (int i = 0; i < OP_MAX_INPUTS; i++) out->in[i] = -1;
    if (!node_is_fused(node)) {
        if (!is_heavy(node) || node->n_operands > OP_MAX_INPUTS) return false;
        out->node = node;
        for (uint32_t i = 0; i < node->n_operands; i++)
            if (node->operands[i].value) out->in[i] = (int)i;
        return true;
    }
    const Graph *body = attr_graph(node, "body");
    if (!body || graph_n_outputs(body) != 1 || dtype_of(graph_output(body, 0)) != TN_F32) return false;
    for (const Node *inner = body->first; inner; inner = inner->next) {
        if (!is_heavy(inner)) continue;
        if (out->node) return false;
        out->node = inner;
    }
    if (!out->node) return false;
    out->fused = graph_output(body, 0) != out->node->results[0];
    return is_read_by_first_only(out->node) && open_operands(out->node, out) && holds_only(body, out->node);
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

struct Maker {
    const Node *node, *heavy;
    const Graph *graph; /* NULL: the node alone */
    Arena *arena;
    Body *b;
    const Value **made; /* of values of the graph: which they are here */
    int *made_as;
    int n_made, most;
    bool *loaded; /* by value */
};

static int add_value(Maker *m, BodyValue value) {
    if (m->b->n_values >= m->most) return -1;
    m->b->values[m->b->n_values] = value;
    return m->b->n_values++;
}

static int add_step(Maker *m, BodyStep step) {
    if (m->b->n_steps >= m->most) return -1;
    m->b->steps[m->b->n_steps++] = step;
    return step.dst;
}

static int load(Maker *m, int value) {
    BodyKind kind = value < 0 ? BODY_CONST : m->b->values[value].kind;
    if (value < 0 || m->loaded[value] || kind == BODY_CONST || kind == BODY_STEP) return value;
    m->loaded[value] = true;
    return add_step(m, (BodyStep){.code = BODY_LOAD, .dst = value});
}

static int make(Maker *m, BodyStep step) {
    for (int k = 0; k < step.n; k++)
        if (load(m, step.src[k]) < 0) return -1;
    step.dst = add_value(m, (BodyValue){.kind = BODY_STEP, .reg = -1});
    return step.dst < 0 ? -1 : add_step(m, step);
}
static int make1(Maker *m, BodyCode code, int x, float p0, float p1) {
    return make(m, (BodyStep){.code = code, .n = 1, .src = {x}, .p = {p0, p1}});
}
static int make2(Maker *m, BodyCode code, int x, int y) {
    return make(m, (BodyStep){.code = code, .n = 2, .src = {x, y}});
}

static int add_constant(Maker *m, const Tensor *t, bool as_float) {
    BodyValue value = {.kind = BODY_CONST, .reg = -1};
    if (t->dtype == TN_I32 && !as_float) memcpy(&value.constant, tensor_bytes(t), sizeof value.constant);
    else if (t->dtype == TN_BOOL) {
        int32_t bits = *(const uint8_t *)tensor_bytes(t) ? -1 : 0;
        memcpy(&value.constant, &bits, sizeof bits);
    } else load_f32(&value.constant, t->dtype, t->data, t->offset, 1, 1);
    return add_value(m, value);
}

static int add_input(Maker *m, int operand, int from_end, tn_dtype dtype) {
    Body *b = m->b;
    for (int i = 0; i < b->n_values; i++) {
        const BodyInput *in = b->values[i].kind == BODY_INPUT ? &b->inputs[b->values[i].index] : NULL;
        if (in && in->operand == operand && in->from_end == from_end) return i;
    }
    if (b->n_inputs >= BODY_MOST_INPUTS) return -1;
    b->inputs[b->n_inputs] = (BodyInput){operand, from_end, dtype, NULL, 0};
    return add_value(m, (BodyValue){.kind = BODY_INPUT, .index = b->n_inputs++, .reg = -1});
}

/* Numbers along an axis. */
static int add_array(Maker *m, const float *array, int64_t n, int from_end) {
    Body *b = m->b;
    if (b->n_inputs >= BODY_MOST_INPUTS) return -1;
    b->inputs[b->n_inputs] = (BodyInput){-1, from_end, TN_F32, array, n};
    return add_value(m, (BodyValue){.kind = BODY_INPUT, .index = b->n_inputs++, .reg = -1});
}

static void remember(Maker *m, const Value *v, int value) {
    m->made[m->n_made] = v;
    m->made_as[m->n_made++] = value;
}

static int find(Maker *m, const Value *v, int operand, int from_end) {
    const Tensor *t = value_constant(v);
    if (t && t->data && tensor_count(t) == 1) return add_constant(m, t, false);
    if (!m->graph) return add_input(m, operand, from_end, dtype_of(v));
    if (!v->def) return add_input(m, (int)v->index, from_end, dtype_of(v));
    for (int i = 0; i < m->n_made; i++)
        if (m->made[i] == v) return m->made_as[i];
    return -1;
}
static int operand(Maker *m, const Node *node, int k) { return find(m, node->operands[k].value, k, 0); }

/* A constant operand, which is a number. */
static bool constant_of(const Maker *m, int value, float *out) {
    if (value < 0 || m->b->values[value].kind != BODY_CONST) return false;
    *out = m->b->values[value].constant;
    return true;
}

/* ---- ops of more than a step ------------------------------------------------------------------------------------- */

static int make_fold(Maker *m, const Node *node, BodyCode code) {
    int value = operand(m, node, 0);
    for (uint32_t k = 1; k < node->n_operands; k++) value = make2(m, code, value, operand(m, node, (int)k));
    return node->n_operands == 1 ? make1(m, BODY_COPY, value, 0, 0) : value;
}

static int make_mean(Maker *m, const Node *node, BodyCode code) {
    return make1(m, BODY_DIVIDE_BY, make_fold(m, node, code), (float)node->n_operands, 0);
}

static int compare(Maker *m, const Node *node, BodyCode code, int x, int y) {
    tn_dtype dtype = dtype_of(node->operands[0].value);
    if (dtype == TN_F32) return make2(m, code, x, y);
    if (dtype == TN_BOOL) return make1(m, BODY_NOT, make2(m, BODY_XOR, x, y), 0, 0);
    code = code == BODY_EQUAL ? BODY_EQUAL_INT : code == BODY_LESS ? BODY_LESS_INT : BODY_LESS_OR_EQUAL_INT;
    return make2(m, code, x, y);
}

static int make_compare(Maker *m, const Node *node, BodyCode code) {
    int x = operand(m, node, 0);
    return compare(m, node, code, x, operand(m, node, 1));
}

static int make_swapped(Maker *m, const Node *node, BodyCode code) {
    int x = operand(m, node, 0);
    return compare(m, node, code, operand(m, node, 1), x);
}

static int make_clip(Maker *m, const Node *node, BodyCode code) {
    int value = operand(m, node, 0);
    int low = node_operand(node, 1) ? operand(m, node, 1) : -1, high = node_operand(node, 2) ? operand(m, node, 2) : -1;
    float lo = -INFINITY, hi = INFINITY;
    bool low_known = !node_operand(node, 1) || constant_of(m, low, &lo);
    bool high_known = !node_operand(node, 2) || constant_of(m, high, &hi);
    if (low_known && high_known) return make1(m, code, value, lo, hi);
    if (low >= 0) value = make2(m, BODY_AT_LEAST, value, low);
    return high >= 0 ? make2(m, BODY_AT_MOST, value, high) : value;
}

static int make_pow(Maker *m, const Node *node, BodyCode code) {
    const Tensor *t = value_constant(node->operands[1].value);
    bool other = t && t->data && t->dtype != TN_F32; /* a number of another type */
    int x = operand(m, node, 0), y = other ? add_constant(m, t, true) : operand(m, node, 1);
    float power;
    if (!constant_of(m, y, &power)) return make2(m, code, x, y);
    if (power == 1) return make1(m, BODY_COPY, x, 0, 0);
    if (power == 2) return make1(m, BODY_SQUARE, x, 0, 0);
    if (power == 3) return make1(m, BODY_CUBE, x, 0, 0);
    if (power == 0.5f) return make1(m, BODY_ROOT, x, 0, 0);
    if (power == -1) return make1(m, BODY_RECIPROCAL, x, 0, 0);
    return make2(m, code, x, y);
}

static int make_gelu(Maker *m, const Node *node, BodyCode code) {
    int value = operand(m, node, 0);
    if (!node->op->domain && attr_string_is(node, "approximate", "tanh")) code = BODY_GELU_TANH;
    if (node_operand(node, 1)) value = make2(m, BODY_ADD, value, operand(m, node, 1));
    return make1(m, code, value, 0, 0);
}

static int make_cast(Maker *m, const Node *node, BodyCode code) {
    int x = operand(m, node, 0);
    tn_dtype kind = dtype_of(node->operands[0].value), result = dtype_of(node->results[0]);
    bool from = kind == TN_BOOL, to = result == TN_BOOL;
    bool is_int = kind == TN_I32 && x >= 0 && m->b->values[x].kind != BODY_TILE;
    if (is_int) x = make1(m, BODY_FROM_INT, x, 0, 0); /* tiles are floats, whatever they stand for */
    if (dtype_is_half(result) && !from) code = result == TN_F16 ? BODY_TO_F16 : BODY_TO_BF16;
    return make1(m, from == to ? code : to ? BODY_TRUTH : BODY_NUMBER, x, 0, 0);
}

static int make_is_inf(Maker *m, const Node *node, BodyCode code) {
    return make1(m, code, operand(m, node, 0), (float)(attr_int(node, "detect_positive") != 0),
                 (float)(attr_int(node, "detect_negative") != 0));
}

/* Operand k, scales or zero points: one number, or along the axis. */
static int scales(Maker *m, const Node *node, int k) {
    const Value *v = node->operands[k].value;
    return find(m, v, k, is_one_number(&v->type->shape) ? 0 : scales_from_end(node));
}

/* The zero point; -1: it is 0. */
static int zero_point(Maker *m, const Node *node) {
    float value;
    int zero = node_operand(node, 2) ? scales(m, node, 2) : -1;
    return zero >= 0 && constant_of(m, zero, &value) && value == 0 ? -1 : zero;
}

/* round(x / scale) + zero point, within the type's range. */
static int make_quantize(Maker *m, const Node *node, BodyCode code) {
    bool is_signed = dtype_of(node->results[0]) == TN_I8;
    int x = operand(m, node, 0), value = make1(m, BODY_ROUND, make2(m, BODY_DIV, x, scales(m, node, 1)), 0, 0);
    int zero = zero_point(m, node);
    if (zero >= 0) value = make2(m, BODY_ADD, value, zero);
    return make1(m, code, value, is_signed ? -128 : 0, is_signed ? 127 : 255);
}

/* (x - zero point) * scale */
static int make_dequantize(Maker *m, const Node *node, BodyCode code) {
    int value = operand(m, node, 0), zero = zero_point(m, node);
    if (zero >= 0) value = make2(m, BODY_SUB, value, zero);
    return make2(m, code, value, scales(m, node, 1));
}

/* The constant vectors of a normalisation as a factor and a shift, 2 n numbers; NULL where they are no constants. */
static const float *fold_batch_norm(Maker *m, const Node *node, int64_t *n) {
    const float epsilon = (float)attr_float(node, "epsilon");
    const Tensor *t[5];
    for (int k = 1; k < 5; k++) {
        const Value *v = node->operands[k].value;
        if (m->graph && !v->def) v = m->node->operands[v->index].value;
        t[k] = value_constant(v);
        if (!t[k] || !t[k]->data || t[k]->rank != 1 || t[k]->dims[0] != t[1]->dims[0]) return NULL;
    }
    *n = t[1]->dims[0];
    float *out = arena_array(m->arena, float, (size_t)*n * 2 + 1);
    for (int64_t i = 0; out && i < *n; i++) {
        float v[5];
        for (int k = 1; k < 5; k++) load_f32(&v[k], TN_F32, t[k]->data, t[k]->offset + i * t[k]->strides[0], 1, 1);
        double factor = (double)v[1] / sqrt((double)(v[4] + epsilon));
        out[i] = (float)factor;
        out[*n + i] = (float)((double)v[2] - (double)v[3] * factor);
    }
    return out;
}

/* (x - mean) * (scale / sqrt(variance + epsilon)) + shift; vectors along axis 1 of x. */
static int make_batch_norm(Maker *m, const Node *node, BodyCode code) {
    int rank = value_rank(node->operands[0].value), v[5] = {operand(m, node, 0)};
    int from_end = rank < 0 ? AXIS_1 : rank < 2 ? 0 : rank - 1; /* a vector is one channel */
    int64_t n;
    const float *folded = fold_batch_norm(m, node, &n);
    (void)code;
    if (folded) {
        int factor = add_array(m, folded, n, from_end), shift = add_array(m, folded + n, n, from_end);
        return make(m, (BodyStep){.code = BODY_FMA, .n = 3, .src = {v[0], factor, shift}});
    }
    for (int k = 1; k < 5; k++) v[k] = find(m, node->operands[k].value, k, from_end);
    int factor = make2(m, BODY_DIV, v[1], make1(m, BODY_ROOT_OF, v[4], (float)attr_float(node, "epsilon"), 0));
    int centred = make2(m, BODY_SUB, v[0], v[3]);
    return make(m, (BodyStep){.code = BODY_FMA, .n = 3, .src = {centred, factor, v[2]}});
}

static int make_node(Maker *m, const Node *node) {
    const Row *row = row_of(node->op);
    if (!row) return -1;
    if (row->make) return row->make(m, node, row->code);
    BodyStep step = {.code = row->code, .n = (int)node->n_operands};
    for (int k = 0; k < step.n && k < 3; k++) step.src[k] = operand(m, node, k);
    for (int k = 0; k < 2; k++) step.p[k] = row->p[k] ? (float)attr_float(node, row->p[k]) : 0;
    return make(m, step);
}

/* What is rounded to 16 bits is that again when it is stored. */
static int before_rounding(const Body *b, int value) {
    for (int s = b->n_steps; s-- > 0;) {
        const BodyStep *step = &b->steps[s];
        if (step->dst == value && (step->code == BODY_TO_F16 || step->code == BODY_TO_BF16)) return step->src[0];
    }
    return value;
}

static tn_status make_nodes(Maker *m) {
    if (m->heavy) remember(m, m->heavy->results[0], add_value(m, (BodyValue){.kind = BODY_TILE, .reg = -1}));
    const Node *node = m->graph ? m->graph->first : m->node;
    for (; node; node = m->graph ? node->next : NULL) {
        if (node == m->heavy || (m->graph && value_payload(node_result(node, 0)))) continue;
        int value = make_node(m, node);
        if (value < 0) return fail(TN_INTERNAL, "%s has no place in a body", node->op->name);
        remember(m, node->results[0], value);
    }
    Body *b = m->b;
    b->n_results = m->graph ? (int)graph_n_outputs(m->graph) : 1;
    for (int i = 0; i < b->n_results; i++) {
        const Value *v = m->graph ? graph_output(m->graph, (size_t)i) : m->node->results[0];
        int value = m->graph ? load(m, find(m, v, 0, 0)) : m->made_as[0];
        if (value < 0) return fail(TN_INTERNAL, "a result of the body is none of its values");
        b->types[i] = dtype_of(v);
        b->results[i] = dtype_is_half(b->types[i]) ? before_rounding(b, value) : value;
    }
    return TN_OK;
}

/* ---- steps and buffers ------------------------------------------------------------------------------------------- */

/* Steps whose values nobody reads go. */
static void drop_unread(Body *b, bool *read) {
    for (int i = 0; i < b->n_results; i++) read[b->results[i]] = true;
    for (int s = b->n_steps; s-- > 0;)
        for (int k = 0; read[b->steps[s].dst] && k < b->steps[s].n; k++) read[b->steps[s].src[k]] = true;
    int kept = 0;
    for (int s = 0; s < b->n_steps; s++)
        if (read[b->steps[s].dst]) b->steps[kept++] = b->steps[s];
    b->n_steps = kept;
}

static void count_uses(const Body *b, int *uses) {
    for (int s = 0; s < b->n_steps; s++)
        for (int k = 0; k < b->steps[s].n; k++) uses[b->steps[s].src[k]]++;
    for (int i = 0; i < b->n_results; i++) uses[b->results[i]]++;
}

/* The step before `s` that makes a value which nobody else reads; -1: none. */
static int only_maker(const Body *b, const int *uses, int s, int value) {
    int at = uses[value] == 1 ? s - 1 : -1;
    while (at >= 0 && b->steps[at].dst != value) at--;
    return at;
}

static BodyCode with_relu(BodyCode code) {
    switch (code) {
    case BODY_ADD: return BODY_ADD_RELU;
    case BODY_FMA: return BODY_FMA_RELU;
    case BODY_MUL_ADD: return BODY_MUL_ADD_RELU;
    default: return BODY_CODES;
    }
}

/* What step `s` becomes with the one before it that makes its operand k, or false. The product of a sum rounds as before. */
static bool joined(const Body *b, const int *uses, int s, int k, int *before, BodyStep *out) {
    const BodyStep *step = &b->steps[s];
    *before = only_maker(b, uses, s, step->src[k]);
    if (*before < 0) return false;
    const BodyStep *first = &b->steps[*before];
    *out = *first;
    out->dst = step->dst;
    if (step->code == BODY_RELU) return (out->code = with_relu(first->code)) != BODY_CODES;
    if (step->code != BODY_ADD || first->code != BODY_MUL) return false;
    out->code = BODY_MUL_ADD;
    out->n = 3;
    out->src[2] = step->src[1 - k];
    return true;
}

/* A product that a sum alone reads, and a sum that a Relu alone reads, become one step with it. */
static void join_steps(Body *b, int *uses) {
    count_uses(b, uses);
    for (int s = 0; s < b->n_steps; s++)
        for (int k = 0; k < b->steps[s].n; k++) {
            int before;
            BodyStep step;
            if (!joined(b, uses, s, k, &before, &step)) continue;
            b->steps[s] = step;
            memmove(&b->steps[before], &b->steps[before + 1], (size_t)(b->n_steps - before - 1) * sizeof *b->steps);
            b->n_steps--;
            s--;
            break;
        }
}

/* Each value that a step makes gets a buffer until it was last read. A step never writes where it reads: what it reads may
   be one row for many. */
static void assign_buffers(Body *b, int *last, int *unused) {
    int n_unused = 0;
    for (int s = 0; s < b->n_steps; s++)
        for (int k = 0; k < b->steps[s].n; k++) last[b->steps[s].src[k]] = s;
    for (int i = 0; i < b->n_results; i++) {
        BodyStep *end = b->n_steps ? &b->steps[b->n_steps - 1] : NULL;
        b->read_later[i] = !end || end->dst != b->results[i];
        last[b->results[i]] = b->n_steps;
    }
    for (int s = 0; s < b->n_steps; s++) {
        BodyStep *step = &b->steps[s];
        b->values[step->dst].reg = n_unused ? unused[--n_unused] : b->n_regs++;
        for (int k = 0; k < step->n; k++) {
            BodyValue *v = &b->values[step->src[k]];
            bool again = false; /* the same value twice gives its buffer back once */
            for (int j = 0; j < k; j++) again |= step->src[j] == step->src[k];
            if (v->reg >= 0 && last[step->src[k]] == s && !again) unused[n_unused++] = v->reg;
        }
    }
}

tn_status body_compile(const Node *node, const Node *heavy, Arena *arena, Body **out) {
    Maker m = {.node = node, .heavy = heavy, .arena = arena};
    if (node_is_fused(node)) m.graph = attr_graph(node, "body");
    size_t n_nodes = m.graph ? m.graph->n_nodes + 1 : 1;
    size_t most = m.graph ? values_of_all(m.graph, heavy) : values_of(node) + 1;
    if (most > BODY_MOST_VALUES) return fail(TN_INTERNAL, "a body has too many nodes");
    m.most = (int)most;
    Body *b = m.b = arena_new(arena, Body);
    m.made = arena_array(arena, const Value *, n_nodes);
    m.made_as = arena_array(arena, int, n_nodes);
    m.loaded = arena_array(arena, bool, most);
    bool *read = arena_array(arena, bool, most);
    int *last = arena_array(arena, int, most), *unused = arena_array(arena, int, most);
    int *uses = arena_array(arena, int, most);
    if (!b || !m.made || !m.made_as || !m.loaded || !read || !last || !unused || !uses) return TN_OUT_OF_MEMORY;
    b->values = arena_array(arena, BodyValue, most);
    b->steps = arena_array(arena, BodyStep, most);
    b->inputs = arena_array(arena, BodyInput, BODY_MOST_INPUTS);
    if (!b->values || !b->steps || !b->inputs) return TN_OUT_OF_MEMORY;
    TRY(make_nodes(&m));
    drop_unread(b, read);
    join_steps(b, uses);
    assign_buffers(b, last, unused);
    *out = b;
    return TN_OK;
}

bool prepared_of_node(const KernelQuery *q, const Prepared *prepared) {
    (void)q, (void)prepared;
    return true;
}

/* ---- questions --------------------------------------------------------------------------------------------------- */

int body_n_results(const Body *body) { return body->n_results; }

double body_cost(const Body *body) {
    double cost = 0.05;
    for (int s = 0; s < body->n_steps; s++) {
        BodyCode code = body->steps[s].code;
        bool slow = code == BODY_POW || code == BODY_SIN || code == BODY_COS;
        bool middling = code == BODY_EXP || code == BODY_LOG || code == BODY_SIGMOID || code == BODY_TANH ||
                        (code >= BODY_ELU && code <= BODY_ERF) || code == BODY_SWIGLU;
        cost += slow ? 2 : middling ? 0.25 : 0.04;
    }
    return cost;
}

/* Whether an operand is a vector along axis `columns` of the result. */
static bool is_along(const Tensor *t, const Tensor *out, int columns) {
    int axis = columns - (out->rank - t->rank);
    return axis >= 0 && t->dims[axis] == out->dims[columns] && tensor_count(t) == out->dims[columns];
}
static bool same_dims(const Tensor *t, const Tensor *out) {
    return t->rank == out->rank && memcmp(t->dims, out->dims, (size_t)t->rank * sizeof *t->dims) == 0;
}

/* Another value is added to the one so far. */
static bool short_add(const Body *b, const KernelQuery *q, int columns, int added, BodyShort *out) {
    if (b->values[added].kind != BODY_INPUT || out->residual >= 0 || out->lo != -INFINITY || out->hi != INFINITY)
        return false;
    const BodyInput *in = &b->inputs[b->values[added].index];
    const Tensor *t = in->array ? NULL : q->in[in->operand], *y = &q->out[0];
    if (!t || in->from_end || t->dtype != TN_F32) return false;
    if (out->bias < 0 && is_along(t, y, columns)) out->bias = in->operand;
    else if (same_dims(t, y)) out->residual = in->operand;
    else return false;
    return true;
}

static bool short_clamp(float low, float high, BodyShort *out) {
    if (low != low || high != high) return false;
    out->lo = fmaxf(out->lo, low);
    out->hi = fminf(fmaxf(out->hi, low), high);
    return true;
}

bool body_as_short(const Body *b, const KernelQuery *q, int columns, BodyShort *out) {
    *out = (BodyShort){.bias = -1, .residual = -1, .lo = -INFINITY, .hi = INFINITY};
    int now = 0; /* the tile is the first value that is made */
    if (b->n_results != 1 || b->types[0] != TN_F32 || b->n_values == 0 || b->values[0].kind != BODY_TILE) return false;
    for (int s = 0; s < b->n_steps; s++) {
        const BodyStep *step = &b->steps[s];
        if (step->code == BODY_LOAD) continue;
        int other = step->n == 2 ? step->src[step->src[0] == now] : -1;
        if ((step->src[0] != now && (step->n != 2 || step->src[1] != now)) || other == now) return false;
        const BodyValue *v = other >= 0 ? &b->values[other] : NULL;
        bool fits = false;
        switch (step->code) {
        case BODY_COPY: fits = true; break;
        case BODY_ADD: fits = short_add(b, q, columns, other, out); break;
        case BODY_ADD_RELU: fits = short_add(b, q, columns, other, out) && short_clamp(0, INFINITY, out); break;
        case BODY_RELU: fits = short_clamp(0, INFINITY, out); break;
        case BODY_CLAMP: fits = short_clamp(step->p[0], step->p[1], out); break;
        case BODY_MAX: fits = v->kind == BODY_CONST && short_clamp(v->constant, INFINITY, out); break;
        case BODY_MIN: fits = v->kind == BODY_CONST && short_clamp(-INFINITY, v->constant, out); break;
        default: break;
        }
        if (!fits) return false;
        now = step->dst;
    }
    return now == b->results[0];
}
