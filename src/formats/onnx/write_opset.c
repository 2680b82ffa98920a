/* SPDX-License-Identifier: Apache-2.0 */
/* Which opset a model is written for: the oldest, from 23 on, that says all the model says, since other readers
   support older ones better. Every op has today's meaning in 23 already, as far as 23 has it. */
#include "formats/onnx/write_int.h"

#define ONNX_OPSET_OLDEST 23

static const struct {
    const char *op;
    int64_t since;
    TypeSet types;    /* when one of the node's values has one of these; 0: always */
    const char *attr; /* or when it has this attribute */
} needs[] = {
    {"Swish", 24, 0, NULL},
    {"TensorScatter", 24, 0, NULL},
    {"BitCast", 26, 0, NULL},
    {"CumProd", 26, 0, NULL},
    {"CausalConvWithState", 27, 0, NULL},
    {"LinearAttention", 27, 0, NULL},
    {"SwiGLU", 28, 0, NULL},
    {"SplitToSequence", 24, TS(TN_BF16), NULL},
    {"TopK", 24, TS(TN_BF16), NULL},
    {"Range", 27, TS(TN_F16) | TS(TN_BF16), NULL},
    {"Range", 27, 0, "stash_type"},
    {"BitShift", 28, TS_SIGNED, NULL},
    {"Celu", 28, TS(TN_F16) | TS(TN_BF16) | TS(TN_F64), NULL},
    {"Compress", 28, TS(TN_BF16), NULL},
    {"Einsum", 28, TS(TN_BF16), NULL},
    {"OneHot", 28, TS(TN_BF16), NULL},
    {"ReverseSequence", 28, TS(TN_BF16), NULL},
    {"Unique", 28, TS(TN_BF16), NULL},
    {"Optional", 28, TS(TN_BF16) | TS_F8 | TS_SUBBYTE, NULL},
    {"OptionalGetElement", 28, TS(TN_BF16) | TS_F8 | TS_SUBBYTE, NULL},
    {"OptionalHasElement", 28, TS(TN_BF16) | TS_F8 | TS_SUBBYTE, NULL},
    {"Attention", 25, 0, "left_window_size"},
    {"Attention", 25, 0, "right_window_size"},
    {"Cast", 24, 0, "round_mode"},
    {"CastLike", 24, 0, "round_mode"},
    {"SpaceToDepth", 28, 0, "mode"},
};

static void add_type(const Value *value, TypeSet *types) {
    const Type *type = value ? value->type : NULL;
    while (type && type->kind != TYPE_TENSOR && type->elem) type = type->elem;
    if (type && type->dtype > 0 && type->dtype < TN_DTYPE_END) *types |= TS(type->dtype);
}

static int64_t opset_of(const Node *node) {
    TypeSet types = 0;
    int64_t opset = ONNX_OPSET_OLDEST;
    for (size_t i = 0; i < node->n_operands; i++) add_type(node_operand(node, i), &types);
    for (size_t i = 0; i < node->n_results; i++) add_type(node_result(node, i), &types);
    if (types & TS(TN_F8E8M0)) opset = 24;
    if (types & (TS(TN_U2) | TS(TN_I2))) opset = 25;
    if (strcmp(node->op->name, "Attention") == 0 && node_operand(node, 6)) opset = max_i64(opset, 24);
    for (size_t i = 0; i < sizeof needs / sizeof *needs; i++) {
        if (strcmp(node->op->name, needs[i].op) != 0) continue;
        bool wants = needs[i].attr ? attr_get(node, needs[i].attr) != NULL : !needs[i].types || needs[i].types & types;
        if (wants) opset = max_i64(opset, needs[i].since);
    }
    return opset;
}

static bool read_version(Str s, int64_t *out) {
    *out = 0;
    for (size_t i = 0; i < s.n && i < 6; i++) {
        if (s.s[i] < '0' || s.s[i] > '9') return false;
        *out = *out * 10 + s.s[i] - '0';
    }
    return s.n > 0 && s.n < 7 && *out > 0;
}

/* The version that the model came with, else one that most readers have. */
static int64_t version_of(const OnnxWriter *w, const char *domain) {
    Text key;
    int64_t version = 0;
    text_init(&key, w->alloc);
    text_printf(&key, "opset %s", domain);
    bool known = key.status == TN_OK && read_version(model_metadata(w->model, (Str){key.s, key.n}), &version);
    text_free(&key);
    if (known) return version;
    return strcmp(domain, "ai.onnx.ml") == 0 ? 5 : 1;
}

tn_status onnx_note_opset(OnnxWriter *w, const Node *node) {
    const char *domain = node->op->domain;
    if (!domain || !*domain) {
        w->opset = max_i64(w->opset, opset_of(node));
        return TN_OK;
    }
    for (size_t i = 0; i < w->opsets.n; i++) {
        if (str_equal(w->opsets.data[i].domain, str_of(domain))) return TN_OK;
    }
    if (w->opsets.n == w->cap_opsets) {
        size_t cap = w->cap_opsets * 2 + 4;
        Opset *more = arena_array(&w->arena, Opset, cap);
        if (!more) return TN_OUT_OF_MEMORY;
        if (w->opsets.n) memcpy(more, w->opsets.data, w->opsets.n * sizeof *more);
        w->opsets.data = more;
        w->cap_opsets = cap;
    }
    w->opsets.data[w->opsets.n++] = (Opset){str_of(domain), version_of(w, domain)};
    return TN_OK;
}

/* A model that came as ONNX keeps its opset: it may use an element type that an older one lacks. */
int64_t onnx_first_opset(const Model *model) {
    int64_t version;
    if (!read_version(model_metadata(model, STR("opset")), &version)) return ONNX_OPSET_OLDEST;
    return min_i64(max_i64(version, ONNX_OPSET_OLDEST), ONNX_OPSET_NEWEST);
}

/* The IR version that ONNX released with an opset. */
int64_t onnx_ir_version(int64_t opset) {
    if (opset <= 23) return 11;
    if (opset == 24) return 12;
    return opset < 28 ? 13 : 14;
}
