/* SPDX-License-Identifier: Apache-2.0 */
/* Unique (ONNX 28): distinct elements, or distinct slices of an axis, where they stand first, and how often. */
#include "ops/move_int.h"

enum { VALUES, FIRST, INVERSE, COUNTS };

static tn_status infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    Shape list = {.rank = 1, .dims = {DIM_UNKNOWN}}, y = list, inverse = list;
    set_shape(c, FIRST, &list);
    set_shape(c, COUNTS, &list);
    if (attr_present(c->node, "axis") && x->rank >= 0) {
        int axis;
        TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
        y = *x;
        inverse.dims[0] = x->dims[axis];
        y.dims[axis] = DIM_UNKNOWN;
    } else if (x->rank >= 0) {
        inverse.dims[0] = dims_product(c->dims, x, 0, x->rank);
    } else if (attr_present(c->node, "axis")) {
        y = shape_unknown();
    }
    set_shape(c, VALUES, &y);
    set_shape(c, INVERSE, &inverse);
    return TN_OK;
}

/* Item k of n is the elements (i, k, j) of the operand read as [outer, n, inner]. */
typedef struct Items {
    tn_dtype dtype;
    const void *data;
    int64_t outer, n, inner;
    int64_t width;  /* keys an item */
    uint64_t *keys; /* NULL: strings */
    int64_t *order; /* items sorted, equal ones in their order */
    int64_t *group; /* of each item: which distinct one */
    int64_t *first; /* of each group: its first item */
    int64_t groups;
} Items;

static Str string_at(const Items *s, int64_t item, int64_t k) {
    int64_t at = (k / s->inner * s->n + item) * s->inner + k % s->inner;
    return rc_string_get(((RcString *const *)s->data)[at]);
}

static int compare(const Items *s, int64_t a, int64_t b) {
    if (s->keys) {
        const uint64_t *x = s->keys + a * s->width, *y = s->keys + b * s->width;
        for (int64_t k = 0; k < s->width; k++)
            if (x[k] != y[k]) return x[k] < y[k] ? -1 : 1;
        return 0;
    }
    for (int64_t k = 0; k < s->outer * s->inner; k++) {
        Str x = string_at(s, a, k), y = string_at(s, b, k);
        size_t n = x.n < y.n ? x.n : y.n;
        int order = n ? memcmp(x.s, y.s, n) : 0;
        if (order) return order;
        if (x.n != y.n) return x.n < y.n ? -1 : 1;
    }
    return 0;
}

/* Stable. */
static void merge_sort(const Items *s, int64_t *at, int64_t *spare, int64_t n) {
    if (n < 2) return;
    int64_t half = n / 2, a = 0, b = half;
    merge_sort(s, at, spare, half);
    merge_sort(s, at + half, spare, n - half);
    memcpy(spare, at, (size_t)n * sizeof *at);
    for (int64_t k = 0; k < n; k++) {
        bool left = b == n || (a < half && compare(s, spare[a], spare[b]) <= 0);
        at[k] = left ? spare[a++] : spare[b++];
    }
}

static tn_status make_keys(KernelCtx *c, Items *s) {
    int64_t each = s->outer * s->inner, total;
    bool complex = dtype_is_complex(s->dtype);
    s->width = complex ? 2 * each : each;
    if (s->dtype == TN_STRING) return TN_OK;
    if (mul_overflows(s->width, s->n, &total)) return fail(TN_LIMIT, "too many elements");
    s->keys = kernel_scratch(c, uint64_t, (size_t)max_i64(total, 1));
    if (!s->keys) return TN_OUT_OF_MEMORY;
    /* A complex number is two floats, the real part first. */
    tn_dtype part = s->dtype == TN_C64 ? TN_F32 : s->dtype == TN_C128 ? TN_F64 : s->dtype;
    int64_t per = complex ? 2 : 1, run = s->inner * per;
    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t k = 0; k < s->n; k++)
            sort_keys(part, s->data, (o * s->n + k) * run, 1, run, s->keys + k * s->width + o * run);
    return TN_OK;
}

static tn_status find_groups(KernelCtx *c, Items *s, bool sorted) {
    size_t n = (size_t)max_i64(s->n, 1);
    int64_t *spare = kernel_scratch(c, int64_t, n);
    s->order = kernel_scratch(c, int64_t, n);
    s->group = kernel_scratch(c, int64_t, n);
    s->first = kernel_scratch(c, int64_t, n);
    if (!spare || !s->order || !s->group || !s->first) return TN_OUT_OF_MEMORY;
    for (int64_t k = 0; k < s->n; k++) s->order[k] = k;
    merge_sort(s, s->order, spare, s->n);
    for (int64_t k = 0; k < s->n; k++) {
        int64_t item = s->order[k];
        if (k == 0 || compare(s, s->order[k - 1], item) != 0) s->first[s->groups++] = item;
        s->group[item] = s->groups - 1;
    }
    if (sorted) return TN_OK;
    /* Number the groups anew in the order of their first items. */
    int64_t next = 0;
    for (int64_t k = 0; k < s->groups; k++) spare[k] = -1;
    for (int64_t k = 0; k < s->n; k++) {
        int64_t *number = &spare[s->group[k]];
        if (*number < 0) {
            s->first[next] = k;
            *number = next++;
        }
        s->group[k] = *number;
    }
    return TN_OK;
}

static tn_status write_values(KernelCtx *c, const Items *s, int axis) {
    const Tensor *x = c->in[0];
    int64_t dims[TN_MAX_RANK] = {s->groups};
    int rank = axis < 0 ? 1 : x->rank;
    if (axis >= 0) {
        memcpy(dims, x->dims, sizeof dims);
        dims[axis] = s->groups;
    }
    TRY(output_ready(c, VALUES, rank, dims));
    Tensor *y = &c->out[VALUES];
    if (tensor_count(y) == 0) return TN_OK;
    for (int64_t o = 0; o < s->outer; o++)
        for (int64_t g = 0; g < s->groups; g++)
            copy_run(s->dtype, y->data, y->offset + (o * s->groups + g) * s->inner, s->data,
                     (o * s->n + s->first[g]) * s->inner, s->inner);
    return TN_OK;
}

static tn_status write_list(KernelCtx *c, int i, const int64_t *values, int64_t n) {
    TRY(output_ready(c, i, 1, &n));
    if (n) memcpy(tensor_bytes(&c->out[i]), values, (size_t)n * sizeof *values);
    return TN_OK;
}

static tn_status reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    Items s = {.dtype = x->dtype, .outer = 1, .n = tensor_count(x), .inner = 1};
    int axis = -1;
    if (attr_present(c->node, "axis")) {
        TRY(normal_axis(attr_int(c->node, "axis"), x->rank, "axis", &axis));
        s.n = x->dims[axis];
        for (int k = 0; k < axis; k++) s.outer *= x->dims[k];
        for (int k = axis + 1; k < x->rank; k++) s.inner *= x->dims[k];
    }
    TRY(dense_bytes(c, 0, &s.data));
    TRY(make_keys(c, &s));
    TRY(find_groups(c, &s, attr_int(c->node, "sorted") != 0));
    if (output_wanted(c, VALUES)) TRY(write_values(c, &s, axis));
    if (output_wanted(c, FIRST)) TRY(write_list(c, FIRST, s.first, s.groups));
    if (output_wanted(c, INVERSE)) TRY(write_list(c, INVERSE, s.group, s.n));
    if (!output_wanted(c, COUNTS)) return TN_OK;
    memset(s.order, 0, (size_t)s.n * sizeof *s.order);
    for (int64_t k = 0; k < s.n; k++) s.order[s.group[k]]++;
    return write_list(c, COUNTS, s.order, s.groups);
}

const OpSchema op_Unique = {
    .name = "Unique",
    .summary = "Unique (ONNX 28): distinct elements or slices",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"X", TS_ALL_TENSOR, 'T', 0}),
    .outputs = OPERANDS({"Y", TS_ALL_TENSOR, 'T', 0}, {"indices", TS(TN_I64), 0, OPERAND_OPTIONAL},
                        {"inverse_indices", TS(TN_I64), 0, OPERAND_OPTIONAL},
                        {"counts", TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES({"axis", ATTR_INT, 0, 0, 0, NULL}, {"sorted", ATTR_INT, 0, 1, 0, NULL}),
    .infer = infer,
    .reference = reference,
};
