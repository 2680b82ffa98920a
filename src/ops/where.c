/* SPDX-License-Identifier: Apache-2.0 */
/* Where (ONNX 16): elements of one tensor where a condition holds, else of another. */
#include "ops/elementwise_int.h"

static void choose_bits(const void *user, void *out, const void *const *in, int64_t n) {
    const int64_t *condition = in[0], *x = in[1], *z = in[2];
    int64_t *y = out;
    (void)user;
    EACH(i, n) y[i] = condition[i] ? x[i] : z[i];
}

/* Pairs of doubles. */
static void choose_pairs(const void *user, void *out, const void *const *in, int64_t n) {
    const int64_t *condition = in[0];
    const double *x = in[1], *z = in[2];
    double *y = out;
    (void)user;
    for (int64_t i = 0; i < n; i++) {
        const double *from = condition[i] ? x : z;
        y[2 * i] = from[2 * i];
        y[2 * i + 1] = from[2 * i + 1];
    }
}

static void choose_strings(const void *user, void *out, const void *const *in, int64_t n) {
    const int64_t *condition = in[0];
    RcString *const *x = in[1], *const *z = in[2];
    RcString **y = out;
    (void)user;
    for (int64_t i = 0; i < n; i++) y[i] = condition[i] ? x[i] : z[i];
}

static tn_status choose(KernelCtx *c, const Tensor *x, const Tensor *z, const Tensor *out, Class class, ChunkFn fn) {
    const Tensor *in[] = {c->in[0], x, z};
    return run_elementwise_on(c, 3, in, (const Class[]){CLASS_INT, class, class}, out, class, fn, NULL, 1.5);
}

/* Numbers are chosen as the integers that their bits are: nothing is converted, NaNs keep their payload. */
static tn_status where_reference(KernelCtx *c) {
    tn_dtype dtype = c->out[0].dtype;
    if (dtype == TN_STRING) return choose(c, c->in[1], c->in[2], &c->out[0], CLASS_STRING, choose_strings);
    if (dtype == TN_C128) return choose(c, c->in[1], c->in[2], &c->out[0], CLASS_COMPLEX, choose_pairs);
    static const tn_dtype bits_of_size[] = {[1] = TN_U8, [2] = TN_U16, [4] = TN_U32, [8] = TN_U64};
    Tensor x = *c->in[1], z = *c->in[2], out = c->out[0];
    x.dtype = z.dtype = out.dtype = bits_of_size[dtype_size(dtype)];
    return choose(c, &x, &z, &out, CLASS_INT, choose_bits);
}

static Dim choose_dim(Dim condition, Dim x, Dim z) {
    if (condition == DIM_UNKNOWN || !dim_is_const(condition)) return x == z ? x : DIM_UNKNOWN;
    return condition ? x : z;
}

static tn_status where_infer(InferCtx *c) {
    Dim content[3][CONTENT_MAX], y[CONTENT_MAX];
    int counts[3], step[3];
    TRY(infer_broadcast(c));
    int n = content_count(c);
    if (!c->content_out || n < 0) return TN_OK;
    for (int k = 0; k < 3; k++) {
        if (!in_content(c, k, content[k], CONTENT_MAX, &counts[k])) return TN_OK;
        if (counts[k] != n && counts[k] != 1) return TN_OK;
        step[k] = counts[k] == n;
    }
    for (int i = 0; i < n; i++)
        y[i] = choose_dim(content[0][i * step[0]], content[1][i * step[1]], content[2][i * step[2]]);
    set_content(c, 0, y, n);
    return TN_OK;
}

#define TYPES (TS_NUMERIC | TS_COMPLEX | TS(TN_BOOL) | TS(TN_STRING))

const OpSchema op_Where = {
    .name = "Where",
    .summary = "Where (ONNX 16): elements of X where the condition holds, else of Y",
    .kind = OP_ATOMIC,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"condition", TS(TN_BOOL), 0, 0}, {"X", TYPES, 'T', 0}, {"Y", TYPES, 'T', 0}),
    .outputs = OPERANDS({"output", TYPES, 'T', 0}),
    .infer = where_infer,
    .reference = where_reference,
};
