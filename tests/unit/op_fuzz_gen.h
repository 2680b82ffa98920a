/* SPDX-License-Identifier: Apache-2.0 */
/* Random operands, attributes and nested graphs for an op's node: mostly what its schema allows, sometimes not. All
   that is chosen follows from one seed. */
#ifndef TEST_OP_FUZZ_GEN_H
#define TEST_OP_FUZZ_GEN_H

#include <math.h>
#include <stdio.h>

#include "ir/ir.h"

/* From ir/text_int.h, which cannot stand beside program/program.h. */
void element_set_code(tn_dtype dtype, void *data, int64_t i, uint64_t code);

enum { FUZZ_OPERANDS = 18, FUZZ_ELEMENTS = 256 };

typedef struct Rng {
    uint64_t state;
} Rng;

static inline uint64_t rng_next(Rng *r) { /* splitmix64 */
    uint64_t z = r->state += 0x9e3779b97f4a7c15u;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
    z = (z ^ z >> 27) * 0x94d049bb133111ebu;
    return z ^ z >> 31;
}
static inline int rng_below(Rng *r, int n) { return n > 0 ? (int)(rng_next(r) % (uint64_t)n) : 0; }
static inline int rng_from(Rng *r, int low, int high) { return low + rng_below(r, high - low + 1); }
static inline bool rng_chance(Rng *r, int percent) { return rng_below(r, 100) < percent; }
#define RNG_PICK(r, array) ((array)[rng_below((r), (int)(sizeof(array) / sizeof *(array)))])

/* ---- numbers and words ------------------------------------------------------------------------------------------ */

static inline int64_t wild_int(Rng *r) {
    static const int64_t values[] = {INT64_MIN,
                                     INT64_MIN + 1,
                                     DIM_EXPR_END - 1,
                                     DIM_EXPR_END,
                                     INT64_MAX,
                                     INT64_MAX - 1,
                                     INT32_MIN,
                                     INT32_MAX,
                                     UINT32_MAX,
                                     (int64_t)1 << 32,
                                     (int64_t)1 << 40,
                                     (int64_t)1 << 62,
                                     -((int64_t)1 << 62),
                                     65535,
                                     65536,
                                     1 << 20,
                                     -129,
                                     -9,
                                     255,
                                     256,
                                     127,
                                     63,
                                     64,
                                     1000};
    return rng_chance(r, 80) ? RNG_PICK(r, values) : (int64_t)rng_next(r);
}

/* An integer of an attribute or of an operand that decides shapes. */
static inline int64_t some_int(Rng *r) {
    int kind = rng_below(r, 100);
    if (kind < 60) return rng_from(r, 0, 3);
    if (kind < 80) return rng_from(r, -4, 8);
    return kind < 84 ? 0 : kind < 88 ? -1 : wild_int(r);
}

static inline float some_float(Rng *r) {
    static const float values[] = {0.0f,  -0.0f,  1.0f,     -1.0f,     0.5f, 2.0f, 1e-5f, 1e30f,         -1e30f,
                                   3e38f, 1e-40f, INFINITY, -INFINITY, NAN,  0.1f, 3.0f,  2147483648.0f, -9.3e18f};
    return RNG_PICK(r, values);
}

static inline const char *some_word(Rng *r) {
    /* clang-format off */
    static const char *const words[] = {
        "", "NOTSET", "SAME_UPPER", "SAME_LOWER", "VALID", "constant", "reflect", "edge", "wrap", "linear", "nearest",
        "cubic", "bilinear", "bicubic", "half_pixel", "half_pixel_symmetric", "asymmetric", "align_corners",
        "pytorch_half_pixel", "tf_crop_and_resize", "tf_half_pixel_for_nn", "output_half_pixel", "round_prefer_floor",
        "round_prefer_ceil", "floor", "ceil", "stretch", "not_larger", "not_smaller", "zeros", "border", "reflection",
        "add", "mul", "max", "min", "none", "sum", "mean", "avg", "forward", "reverse", "bidirectional", "DCR", "CRD",
        "ij,jk->ik", "...ii->...i", "ij->ji", "ij,ij->", "i,j->ij", "b...d,...de->b...e", "ii", ",->", "Relu", "Tanh",
        "Sigmoid", "Affine", "HardSigmoid", "LeakyRelu", "tanh", "fmod", "LEFT", "RIGHT", "LINEAR", "CIRCULAR",
        "SAME", "MAX", "MIN", "MEAN", "AVG", "SUM", "LOGISTIC", "SOFTMAX", "SOFTMAX_ZERO", "PROBIT", "NONE", "RBF",
        "POLY", "BRANCH_LEQ", "BRANCH_EQ", "LEAF", "TF", "IDF", "TFIDF", "LOWER", "UPPER", "L1", "L2", "standard",
        "nesterov", "linear_tanh", "gated_delta", "silu", "swish", "RGB", "BGR", "Grayscale", "DENSE", "SPARSE",
        "en_US", "C", "a+b", "[a-z]*", "(", "(a*)*b", " ", "a b  c", "\xff\xfe", "caf\xc3\xa9", "1", "-1.5e3", "nan",
        "INF", "0x10",
    };
    /* clang-format on */
    return RNG_PICK(r, words);
}

/* ---- tensors ---------------------------------------------------------------------------------------------------- */

typedef enum Contents { SMOOTH, SMALL_COUNTS, SMALL_INTS, SPECIAL, RANDOM_BITS, N_CONTENTS } Contents;

static inline double special_number(Rng *r, tn_dtype dtype) {
    if (dtype_is_float(dtype) || dtype_is_complex(dtype)) return (double)some_float(r);
    return (double)some_int(r);
}

static inline int64_t special_int(Rng *r, tn_dtype dtype) {
    int bits = dtype_bits(dtype);
    int64_t top = bits >= 64 ? INT64_MAX : (int64_t)(((uint64_t)1 << (bits - 1)) - 1);
    switch (rng_below(r, 7)) {
    case 0: return top;
    case 1: return -top - 1;
    case 2: return -1;
    case 3: return 0;
    case 4: return bits;
    case 5: return bits - 1;
    default: return wild_int(r);
    }
}

static inline void fill_number(Rng *r, Tensor *t, int64_t i, Contents contents) {
    double d[2] = {0, 0};
    int64_t v = contents == SPECIAL        ? special_int(r, t->dtype)
                : contents == SMALL_COUNTS ? rng_below(r, 4)
                                           : rng_from(r, -3, 5);
    if (contents == RANDOM_BITS && !dtype_is_complex(t->dtype)) {
        element_set_code(t->dtype, t->data, i, rng_next(r) & (t->dtype == TN_BOOL ? 1 : UINT64_MAX));
        if (t->dtype == TN_BOOL) ((uint8_t *)t->data)[i] = (uint8_t)rng_next(r); /* files may hold such bools */
        return;
    }
    if (!dtype_is_float(t->dtype) && !dtype_is_complex(t->dtype)) {
        if (t->dtype == TN_BOOL) v &= 1;
        store_i64(t->dtype, t->data, i, 1, &v, 1);
        return;
    }
    for (int k = 0; k < 2; k++)
        d[k] = contents == SPECIAL  ? special_number(r, t->dtype)
               : contents == SMOOTH ? (double)(rng_next(r) >> 11) / (double)((uint64_t)1 << 51) - 2
                                    : (double)(k ? 0 : v);
    if (dtype_is_complex(t->dtype)) store_c128(t->dtype, t->data, i, 1, d, 1);
    else store_f64(t->dtype, t->data, i, 1, d, 1);
}

static inline tn_status fill_string(Rng *r, Context *ctx, Tensor *t, int64_t i) {
    RcString **at = (RcString **)t->data + i;
    rc_string_unref(*at);
    *at = NULL;
    return rng_chance(r, 10) ? TN_OK : rc_string_new(&ctx->allocator, str_of(some_word(r)), at);
}

static inline tn_status fill_tensor(Rng *r, Context *ctx, Tensor *t) {
    Contents contents = (Contents)(rng_chance(r, 75) ? rng_below(r, SPECIAL) : rng_from(r, SPECIAL, RANDOM_BITS));
    int64_t n = tensor_count(t);
    for (int64_t i = 0; i < n; i++)
        if (t->dtype == TN_STRING) TRY(fill_string(r, ctx, t, i));
        else fill_number(r, t, i, rng_chance(r, 98) ? contents : (Contents)rng_below(r, N_CONTENTS));
    return TN_OK;
}

/* Cuts sizes until a test is quick. */
static inline void bound_shape(int rank, int64_t *dims) {
    for (int64_t count = FUZZ_ELEMENTS + 1; count > FUZZ_ELEMENTS;) {
        int largest = 0;
        count = 1;
        for (int k = 0; k < rank; k++) {
            count *= dims[k];
            if (dims[k] > dims[largest]) largest = k;
        }
        if (count > FUZZ_ELEMENTS) dims[largest] = dims[largest] / 2;
    }
}

static inline int64_t some_size(Rng *r) {
    static const int64_t sizes[] = {0, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7, 8, 9};
    return rng_chance(r, 3) ? 17 : RNG_PICK(r, sizes);
}

static inline Shape some_shape(Rng *r) {
    Shape s = {.rank = rng_chance(r, 85) ? rng_from(r, 1, 4) : rng_from(r, 0, TN_MAX_RANK)};
    for (int k = 0; k < s.rank; k++) s.dims[k] = some_size(r);
    bound_shape(s.rank, s.dims);
    return s;
}

/* A shape that goes with `base`, or does not. */
static inline Shape related_shape(Rng *r, const Shape *base) {
    int kind = rng_below(r, 100);
    Shape s = *base;
    if (kind < 40) return s;
    if (kind < 55) { /* broadcasts to it */
        int drop = rng_below(r, s.rank + 1);
        for (int k = 0; k + drop < s.rank; k++) s.dims[k] = rng_chance(r, 30) ? 1 : base->dims[k + drop];
        s.rank -= drop;
        return s;
    }
    if (kind < 72) return (Shape){.rank = 1, .dims = {base->rank ? base->dims[rng_below(r, base->rank)] : 1}};
    if (kind < 80) return (Shape){.rank = 0};
    if (kind < 90) return (Shape){.rank = 1, .dims = {rng_chance(r, 50) ? base->rank : rng_from(r, 0, 4)}};
    if (kind < 95 && s.rank > 0) {
        s.dims[rng_below(r, s.rank)] = some_size(r);
        bound_shape(s.rank, s.dims);
        return s;
    }
    return some_shape(r);
}

static inline tn_dtype some_dtype(Rng *r, TypeSet set) {
    static const tn_dtype common[] = {TN_F32, TN_F32, TN_I64, TN_F16, TN_I32, TN_F64, TN_U8, TN_I8, TN_BOOL};
    tn_dtype dtype = RNG_PICK(r, common);
    if (rng_chance(r, 50) && set & TS(dtype)) return dtype;
    for (int i = 0; i < 100; i++) {
        dtype = (tn_dtype)rng_from(r, 1, TN_DTYPE_END - 1);
        if (set & TS(dtype)) return dtype;
    }
    return TN_F32;
}

static inline tn_status some_tensor(Rng *r, Context *ctx, tn_dtype dtype, const Shape *shape, Tensor *out) {
    TRY(tensor_new(ctx, dtype, shape->rank, shape->dims, out));
    tn_status status = fill_tensor(r, ctx, out);
    if (status != TN_OK) tensor_release(out);
    return status;
}

/* ---- nested graphs ---------------------------------------------------------------------------------------------- */

static inline tn_status body_node(Graph *g, const char *op, Value *a, Value *b, Value **out) {
    Value *operands[] = {a, b};
    Node *node;
    TRY(node_new(g, op_find(STR(""), str_of(op)), operands, b ? 2 : 1, 1, &node));
    if (strcmp(op, "Concat") == 0) TRY(node_set_int(node, "axis", 0));
    node_append(node);
    *out = node->results[0];
    return TN_OK;
}

static inline tn_status body_constant(Rng *r, Graph *g, Value **out) {
    Tensor *payload, t;
    Node *node;
    Shape shape = rng_chance(r, 60) ? (Shape){.rank = 0} : some_shape(r);
    TRY(model_tensor(g->model, &payload));
    TRY(some_tensor(r, g->model->ctx, some_dtype(r, TS(TN_BOOL) | TS(TN_F32) | TS(TN_I64)), &shape, &t));
    *payload = t;
    TRY(const_new(g, payload, (Str){0}, &node));
    node_append(node);
    *out = node->results[0];
    return TN_OK;
}

/* Inputs of unknown type, a few nodes on them and on what stands outside, outputs from among them all. */
static inline tn_status some_body(Rng *r, Node *owner, int n_in, int n_out, Graph **out) {
    static const char *const ops[] = {"Identity", "Identity", "Neg",    "Not",  "Shape",
                                      "Add",      "Mul",      "Concat", "Less", "Max"};
    Graph *g;
    Value *pool[64];
    int n = 0;
    char name[24];
    TRY(graph_new(owner->graph->model, owner, (Str){0}, &g));
    for (int i = 0; i < n_in; i++) {
        snprintf(name, sizeof name, "b%d", i);
        TRY(graph_add_input(g, str_of(name), g->model->type_any, &pool[n++]));
    }
    for (uint32_t i = 0; i < owner->n_operands && n < 24; i++)
        if (node_operand(owner, i) && rng_chance(r, 20)) pool[n++] = node_operand(owner, i); /* captured */
    TRY(body_constant(r, g, &pool[n++]));
    for (int i = rng_below(r, 4); i > 0; i--) {
        const char *op = RNG_PICK(r, ops);
        Value *a = pool[rng_below(r, n)], *b = pool[rng_below(r, n)];
        bool binary = strchr("AMCL", op[0]) != NULL;
        TRY(body_node(g, op, a, binary ? b : NULL, &pool[n++]));
    }
    for (int i = 0; i < n_out; i++) {
        Value *v = i < n_in - 1 && rng_chance(r, 50) ? pool[i + 1] : pool[rng_below(r, n)];
        if (rng_chance(r, 50)) TRY(body_node(g, "Identity", v, NULL, &v));
        snprintf(name, sizeof name, "o%d", i);
        TRY(graph_add_output(g, v, str_of(name)));
    }
    *out = g;
    return TN_OK;
}

/* What a body of this op takes and gives, nearly always. */
static inline tn_status some_graph(Rng *r, Node *node, Graph **out) {
    int n_in = rng_below(r, 4), n_out = rng_below(r, 4), operands = (int)node->n_operands,
        results = (int)node->n_results;
    if (strcmp(node->op->name, "If") == 0) n_in = 0, n_out = results;
    if (strcmp(node->op->name, "Loop") == 0) n_in = operands, n_out = results + 1;
    if (strcmp(node->op->name, "Scan") == 0) n_in = operands, n_out = results;
    if (strcmp(node->op->name, "SequenceMap") == 0) n_in = operands, n_out = results;
    if (strcmp(node->op->name, "FlexAttention") == 0) n_in = 1, n_out = 1;
    if (rng_chance(r, 4)) n_in += rng_from(r, -1, 1);
    if (rng_chance(r, 4)) n_out += rng_from(r, -1, 1);
    return some_body(r, node, n_in < 0 ? 0 : n_in > 20 ? 20 : n_in, n_out < 0 ? 0 : n_out > 20 ? 20 : n_out, out);
}

/* ---- attributes ------------------------------------------------------------------------------------------------- */

enum { MAX_LIST = 14 };

static inline size_t some_length(Rng *r, const Shape *base) {
    switch (rng_below(r, 6)) {
    case 0: return (size_t)(base->rank > 2 ? base->rank - 2 : base->rank);
    case 1: return (size_t)(base->rank > 2 ? 2 * (base->rank - 2) : 2 * base->rank) % MAX_LIST;
    case 2: return (size_t)base->rank;
    case 3: return (size_t)rng_below(r, 3);
    default: return (size_t)rng_below(r, 6);
    }
}

static inline int64_t attr_number(Rng *r, const Node *node, const AttrSpec *spec) {
    if (strcmp(spec->name, "num_scan_inputs") == 0 && rng_chance(r, 90))
        return rng_from(r, 1, (int)node->n_operands > 1 ? (int)node->n_operands : 1);
    if (strcmp(spec->name, "to") == 0 || strstr(spec->name, "dtype") || strstr(spec->name, "datatype"))
        return rng_chance(r, 90) ? rng_from(r, 0, TN_DTYPE_END) : wild_int(r);
    return rng_chance(r, 20) ? spec->i : some_int(r);
}

static inline tn_status attr_tensors(Rng *r, Node *node, Attr *attr, Tensor **list) {
    Model *model = node->graph->model;
    attr->n = attr->kind == ATTR_TENSOR ? 1 : (size_t)rng_below(r, 3);
    for (size_t i = 0; i < attr->n; i++) {
        Tensor t;
        Shape shape = rng_chance(r, 50) ? (Shape){.rank = 1, .dims = {rng_from(r, 0, 6)}} : some_shape(r);
        TRY(some_tensor(r, model->ctx, some_dtype(r, TS_ALL_TENSOR), &shape, &t));
        tn_status status = model_tensor(model, &list[i]);
        if (status != TN_OK) {
            tensor_release(&t);
            return status;
        }
        *list[i] = t;
    }
    if (attr->kind == ATTR_TENSOR) attr->tensor = list[0];
    else attr->tensors = list;
    return TN_OK;
}

static inline const Type *some_type(Rng *r, Model *model) {
    Shape shape = rng_chance(r, 50) ? shape_unknown() : some_shape(r);
    const Type *type = type_tensor(model, rng_chance(r, 80) ? some_dtype(r, TS_ALL_TENSOR) : TN_UNDEFINED, &shape);
    for (int depth = rng_below(r, 3); type && depth > 0; depth--)
        type = type_of_kind(model, rng_chance(r, 50) ? TYPE_SEQUENCE : TYPE_OPTIONAL, type);
    return type;
}

static inline tn_status attr_graphs(Rng *r, Node *node, Attr *attr, Graph **list) {
    attr->n = attr->kind == ATTR_GRAPH ? 1 : (size_t)rng_below(r, 3);
    for (size_t i = 0; i < attr->n; i++) TRY(some_graph(r, node, &list[i]));
    if (attr->kind == ATTR_GRAPH) attr->graph = list[0];
    else attr->graphs = list;
    return TN_OK;
}

/* Lists as tn.Raster and tn.View want them: 3r + 3 numbers. */
static inline void attr_lists(Rng *r, Attr *attr, IntList *lists, int64_t numbers[][3 * TN_MAX_RANK + 3]) {
    attr->n = (size_t)rng_below(r, 4);
    for (size_t i = 0; i < attr->n; i++) {
        int rank = rng_below(r, 4);
        lists[i] = (IntList){numbers[i], (size_t)(3 * rank + (rng_chance(r, 95) ? 3 : rng_below(r, 3)))};
        for (size_t k = 0; k < lists[i].n; k++) numbers[i][k] = some_int(r);
        if (lists[i].n) numbers[i][0] = rng_from(r, -1, 1);
    }
    attr->lists = lists;
}

/* Sets one of the op's attributes to something of the right kind. */
static inline tn_status set_some_attr(Rng *r, Node *node, const AttrSpec *spec, const Shape *base) {
    int64_t ints[MAX_LIST], numbers[4][3 * TN_MAX_RANK + 3];
    float floats[MAX_LIST];
    Str strings[MAX_LIST];
    Tensor *tensors[4];
    Graph *graphs[4];
    IntList lists[4];
    const Type *types[4];
    Attr attr = {.name = model_str(node->graph->model, str_of(spec->name)), .kind = spec->kind};
    size_t n = some_length(r, base);
    bool wild = rng_chance(r, 25);
    switch (spec->kind) {
    case ATTR_INT: attr.i = attr_number(r, node, spec); break;
    case ATTR_FLOAT: attr.f = some_float(r); break;
    case ATTR_STRING: attr.s = str_of(spec->s && rng_chance(r, 20) ? spec->s : some_word(r)); break;
    case ATTR_TENSOR:
    case ATTR_TENSORS: TRY(attr_tensors(r, node, &attr, tensors)); break;
    case ATTR_GRAPH:
    case ATTR_GRAPHS: TRY(attr_graphs(r, node, &attr, graphs)); break;
    case ATTR_TYPE: attr.type = some_type(r, node->graph->model); break;
    case ATTR_INTS:
        for (size_t i = 0; i < n; i++) ints[i] = wild ? some_int(r) : rng_from(r, 0, 3);
        attr.ints = ints;
        attr.n = n;
        break;
    case ATTR_FLOATS:
        for (size_t i = 0; i < n; i++) floats[i] = wild ? some_float(r) : (float)rng_from(r, 0, 3) / 2;
        attr.floats = floats;
        attr.n = n;
        break;
    case ATTR_STRINGS:
        for (size_t i = 0; i < n; i++) strings[i] = str_of(some_word(r));
        attr.strings = strings;
        attr.n = n;
        break;
    case ATTR_TYPES:
        attr.n = n % 4;
        for (size_t i = 0; i < attr.n; i++) types[i] = some_type(r, node->graph->model);
        attr.types = types;
        break;
    case ATTR_INT_LISTS: attr_lists(r, &attr, lists, numbers); break;
    }
    if (spec->kind == ATTR_TYPE && !attr.type) return TN_LIMIT;
    return node_set_attr(node, &attr);
}

static inline int n_attr_specs(const OpSchema *op) {
    int n = 0;
    while (op_attrs(op)[n].name) n++;
    return n;
}

#endif
