/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum as products of matrices. Operands are taken from left to right. A dim of two operands is one of four kinds: both
   have it and it stays (a batch), only the left or only the right one has it (rows, columns), or it is summed over. One
   product takes a single dim of rows, of sums and of columns: others go along as batches that one side repeats, or are
   joined where that moves nothing. Sizes need not be known for it, except of rows and columns that are joined and of what is
   taken along a diagonal. */
#include "ops/einsum_int.h"
#include "ops/lower_int.h"

/* A value whose dimensions are those of a plan, each once. */
typedef struct Labelled {
    Value *value;
    int n;
    int8_t dims[EINSUM_DIMS];
} Labelled;

typedef struct DimList {
    int n;
    int8_t at[EINSUM_DIMS];
} DimList;

static bool is_size(Dim d) { return dim_is_const(d) && d >= 0; }

static int place_of(const Labelled *a, int dim) {
    const int8_t *at = memchr(a->dims, dim, (size_t)a->n);
    return at ? (int)(at - a->dims) : -1;
}
static bool has_dim(const Labelled *a, int dim) { return place_of(a, dim) >= 0; }

static Dim size_of(const Labelled *a, int dim) {
    int k = place_of(a, dim);
    return k < 0 ? 1 : lower_shape(a->value)->dims[k];
}

static bool sizes_known(const Labelled *a, const DimList *list) {
    for (int k = 0; k < list->n; k++)
        if (!is_size(size_of(a, list->at[k]))) return false;
    return true;
}

static Dim product_of(const Labelled *a, const DimList *list) {
    if (!sizes_known(a, list)) return DIM_UNKNOWN;
    int64_t n = 1;
    for (int k = 0; k < list->n; k++) n *= size_of(a, list->at[k]);
    return n;
}

static void push(DimList *list, int dim) { list->at[list->n++] = (int8_t)dim; }

/* ---- operands ------------------------------------------------------------------------------------------------ */

/* A dim of the result that has size 1 here is repeated by the product itself. */
static bool is_as_planned(const EinsumPlan *plan, int dim, Dim own) {
    return dim < plan->n_out || (own == plan->size[dim] && own != DIM_UNKNOWN);
}

static int places_in(const EinsumPlan *plan, int i, int dim, int *place) {
    int n = 0;
    for (int d = plan->rank[i] - 1; d >= 0; d--)
        if (plan->dim_of[i][d] == dim) *place = d, n++;
    return n;
}

/* Repeated to the sizes that operand j turns out to have in what is summed and not known to be of one size. */
static Value *repeated_as(LowerCtx *c, const EinsumPlan *plan, Value *x, int i, int j) {
    Value *sizes[TN_MAX_RANK], *one = NULL;
    bool any = false;
    for (int d = 0, at; d < plan->rank[i]; d++) {
        int dim = plan->dim_of[i][d], n = places_in(plan, j, dim, &at);
        bool open = n && !is_as_planned(plan, dim, lower_shape(lower_in(c, (size_t)i))->dims[d]);
        if (open && n > 1) return c->declined = true, NULL;
        if (!open && !one) one = lower_ints(c, (const int64_t[]){1}, 1);
        sizes[d] = open ? LOWER_WITH(c, "Shape", ATTRS(attr_i("start", at), attr_i("end", at + 1)),
                                     lower_in(c, (size_t)j))
                        : one;
        any |= open;
    }
    if (!any) return x;
    return LOWER(c, "Expand", x, lower_node(c, "Concat", sizes, (size_t)plan->rank[i], ATTRS(attr_i("axis", 0)), 1));
}

/* Labels that an operand has twice as the diagonal, and repeated where another's size counts. */
static bool open_operand(LowerCtx *c, const EinsumPlan *plan, int i, Labelled *out) {
    int64_t strides[TN_MAX_RANK], sizes[TN_MAX_RANK], steps[TN_MAX_RANK] = {0};
    const Shape *s = lower_shape(lower_in(c, (size_t)i));
    bool plain = true, once = true, known = shape_is_known(s);
    *out = (Labelled){.value = lower_in(c, (size_t)i)};
    if (known) lower_strides(s->rank, s->dims, strides);
    for (int d = 0; d < s->rank; d++) {
        int dim = plan->dim_of[i][d], k = place_of(out, dim);
        once &= k < 0;
        plain &= k < 0 && is_as_planned(plan, dim, s->dims[d]);
        known &= is_size(plan->size[dim]);
        if (k < 0) k = out->n, out->dims[out->n++] = (int8_t)dim;
        sizes[k] = plan->size[dim];
        if (known && s->dims[d] != 1) steps[k] += strides[d];
    }
    if (plain) return true;
    if (known) out->value = lower_view(c, out->value, 0, sizes, steps, out->n);
    else if (!once) c->declined = true;
    for (int j = 0; !known && !c->declined && j < plan->n_in; j++)
        if (j != i) out->value = repeated_as(c, plan, out->value, i, j);
    return c->status == TN_OK && !c->declined;
}

/* Sums over the dimensions that `keep` does not hold and the other side does not have. */
static bool sum_own(LowerCtx *c, Labelled *a, const Labelled *other, const bool *keep) {
    int64_t axes[TN_MAX_RANK];
    int n = 0, left = 0;
    for (int k = 0; k < a->n; k++) {
        bool goes = !keep[a->dims[k]] && !(other && has_dim(other, a->dims[k]));
        if (goes) axes[n++] = k;
        else a->dims[left++] = a->dims[k];
    }
    a->n = left;
    if (n) a->value = lower_reduce(c, "ReduceSum", a->value, axes, n, false);
    return c->status == TN_OK && !c->declined;
}

/* ---- moving -------------------------------------------------------------------------------------------------- */

static Value *transposed(LowerCtx *c, Value *x, const int64_t *perm, int rank) {
    bool moves = false;
    for (int k = 0; k < rank; k++) moves |= perm[k] != k;
    return moves ? lower_transpose(c, x, perm) : x;
}

/* A size that is not known is that of the same dimension of x. */
static Value *reshaped(LowerCtx *c, Value *x, const Dim *dims, int rank) {
    int64_t sizes[TN_MAX_RANK] = {0};
    bool known = true, empty = false;
    for (int d = 0; d < rank; d++) {
        known &= is_size(dims[d]);
        empty |= dims[d] == 0;
        sizes[d] = is_size(dims[d]) ? dims[d] : 0;
    }
    if (known) return lower_reshape(c, x, sizes, rank);
    if (empty) return c->declined = true, NULL; /* 0 would be both */
    return LOWER(c, "Reshape", x, lower_ints(c, sizes, rank));
}

/* The last n dimensions of x joined, whatever their sizes are; those in front have `dims`, or x's own sizes. */
static Value *joined_at_end(LowerCtx *c, Value *x, const Dim *dims, int rank, int n) {
    Value *sizes[TN_MAX_RANK];
    if (!x) return NULL;
    int from = lower_shape(x)->rank - n;
    for (int d = 0; d + 1 < rank; d++)
        sizes[d] = is_size(dims[d]) ? lower_ints(c, &dims[d], 1)
                                    : LOWER_WITH(c, "Shape", ATTRS(attr_i("start", d), attr_i("end", d + 1)), x);
    Value *last = LOWER_WITH(c, "Shape", ATTRS(attr_i("start", from)), x);
    sizes[rank - 1] = lower_reduce(c, "ReduceProd", last, (const int64_t[]){0}, 1, true);
    Value *shape = lower_node(c, "Concat", sizes, (size_t)rank, ATTRS(attr_i("axis", 0)), 1);
    return LOWER_WITH(c, "Reshape", ATTRS(attr_i("allowzero", 1)), x, shape);
}

static Value *with_ones(LowerCtx *c, Value *x, const int64_t *axes, int n) {
    return n ? LOWER(c, "Unsqueeze", x, lower_ints(c, axes, n)) : x;
}

/* Dims in an order, those of one group joined into one dimension. */
typedef struct Arrangement {
    DimList groups[TN_MAX_RANK + 2];
    int n;
} Arrangement;

static Arrangement layout_of(const DimList *single) {
    Arrangement l = {.n = single->n};
    for (int k = 0; k < single->n; k++) l.groups[k] = (DimList){.n = 1, .at = {single->at[k]}};
    return l;
}

/* A value in that layout, with size 1 for a group that it has nothing of; of those in front only the last `kept`. Sizes are
   known of a group of several dims, and of all dims behind it, unless that is the last one. */
static Value *arranged(LowerCtx *c, const Labelled *a, const Arrangement *l, int kept) {
    int64_t perm[TN_MAX_RANK], ones[TN_MAX_RANK];
    Dim dims[TN_MAX_RANK];
    int n = 0, rank = 0, place = 0, n_ones = 0;
    for (int g = 0; g < l->n; g++) {
        const DimList *group = &l->groups[g];
        bool here = group->n && has_dim(a, group->at[0]);
        for (int k = 0; here && k < group->n; k++) perm[n++] = place_of(a, group->at[k]);
        if (here) dims[rank++] = group->n == 1 ? size_of(a, group->at[0]) : product_of(a, group);
        else if (place || g >= l->n - kept) ones[n_ones++] = place;
        place += here || place || g >= l->n - kept;
    }
    Value *x = transposed(c, a->value, perm, n);
    const DimList *last = l->n > 0 ? &l->groups[l->n - 1] : NULL;
    if (last && last->n > 1 && product_of(a, last) <= 0) x = joined_at_end(c, x, dims, rank, last->n);
    else if (rank < n) x = reshaped(c, x, dims, rank);
    return with_ones(c, x, ones, n_ones);
}

/* ---- one product --------------------------------------------------------------------------------------------- */

typedef struct Product {
    const Labelled *a, *b;
    DimList batches, rows, sums, columns;
} Product;

/* Whether dims of one operand can become one without moving it, or while it is moved ahead of time. */
static bool can_join(const Labelled *a, const DimList *list) {
    bool adjacent = true;
    for (int k = 1; k < list->n; k++) adjacent &= place_of(a, list->at[k]) == place_of(a, list->at[k - 1]) + 1;
    return sizes_known(a, list) && (adjacent || value_payload(a->value));
}

/* All but one of them become batches, which stand in the result's order. */
static void leave_one(Product *p, DimList *list) {
    for (int k = 0; k + 1 < list->n; k++) push(&p->batches, list->at[k]);
    list->at[0] = list->at[list->n - 1];
    list->n = 1;
}

static void sort_batches(DimList *list) {
    for (int k = 1; k < list->n; k++)
        for (int j = k; j > 0 && list->at[j] < list->at[j - 1]; j--) {
            int8_t dim = list->at[j];
            list->at[j] = list->at[j - 1];
            list->at[j - 1] = dim;
        }
}

static void divide(Product *p, const bool *keep) {
    const Labelled *a = p->a, *b = p->b;
    for (int k = 0; k < a->n; k++) {
        int dim = a->dims[k];
        if (!has_dim(b, dim)) push(&p->rows, dim);
        else push(keep[dim] ? &p->batches : &p->sums, dim);
    }
    for (int k = 0; k < b->n; k++)
        if (!has_dim(a, b->dims[k])) push(&p->columns, b->dims[k]);
    bool known = sizes_known(a, &p->sums) && sizes_known(b, &p->columns);
    if (p->columns.n > 1 && !can_join(b, &p->columns)) leave_one(p, &p->columns);
    /* where nothing but rows is in front of a product, kernels take them for one */
    if (p->rows.n > 1 && !(p->batches.n && known && can_join(a, &p->rows))) leave_one(p, &p->rows);
    sort_batches(&p->batches);
}

/* Nothing is summed. */
static bool multiply_elements(LowerCtx *c, Product *p, Labelled *out) {
    DimList all = p->batches;
    for (int k = 0; k < p->rows.n; k++) push(&all, p->rows.at[k]);
    for (int k = 0; k < p->columns.n; k++) push(&all, p->columns.at[k]);
    if (all.n > TN_MAX_RANK) return c->declined = true, false;
    sort_batches(&all);
    Arrangement l = layout_of(&all);
    *out = (Labelled){.value = LOWER(c, "Mul", arranged(c, p->a, &l, 0), arranged(c, p->b, &l, 0)), .n = all.n};
    memcpy(out->dims, all.at, (size_t)all.n);
    return c->status == TN_OK && !c->declined;
}

/* The right operand [sums, columns]: columns first where sums are joined in front of a size that is not known. */
static Value *right_operand(LowerCtx *c, const Product *p, Arrangement *l) {
    bool turned = p->sums.n > 1;
    l->groups[l->n - 2] = turned ? p->columns : p->sums;
    l->groups[l->n - 1] = turned ? p->sums : p->columns;
    Value *x = arranged(c, p->b, l, 2);
    if (!turned || !x) return x;
    int64_t perm[TN_MAX_RANK];
    int rank = lower_shape(x)->rank;
    for (int k = 0; k < rank; k++) perm[k] = k < rank - 2 ? k : 2 * rank - 3 - k;
    return lower_transpose(c, x, perm);
}

/* [batches, rows, columns], each dim by itself. */
static bool take_apart(LowerCtx *c, const Product *p, Value *y, Labelled *out) {
    int64_t gone[2];
    Dim dims[TN_MAX_RANK];
    int n = 0, n_batches = p->batches.n, rank = 0;
    if (!p->rows.n) gone[n++] = n_batches;
    if (!p->columns.n) gone[n++] = n_batches + 1;
    if (n) y = LOWER(c, "Squeeze", y, lower_ints(c, gone, n));
    *out = (Labelled){.n = 0};
    for (int k = 0; k < n_batches; k++, rank++) {
        out->dims[out->n++] = p->batches.at[k];
        dims[rank] = DIM_UNKNOWN;
    }
    for (int k = 0; k < p->rows.n; k++, rank++) {
        out->dims[out->n++] = p->rows.at[k];
        dims[rank] = p->rows.n > 1 ? size_of(p->a, p->rows.at[k]) : DIM_UNKNOWN;
    }
    for (int k = 0; k < p->columns.n; k++, rank++) {
        out->dims[out->n++] = p->columns.at[k];
        dims[rank] = size_of(p->b, p->columns.at[k]);
    }
    if (c->status == TN_OK && y && shape_is_known(lower_shape(y)))
        for (int k = 0; k < n_batches + (p->rows.n == 1); k++) dims[k] = lower_shape(y)->dims[k];
    bool joined = p->rows.n > 1 || p->columns.n > 1;
    out->value = joined && y ? reshaped(c, y, dims, rank) : y;
    return c->status == TN_OK && !c->declined;
}

static bool multiply(LowerCtx *c, Labelled *a, Labelled *b, const bool *keep, Labelled *out) {
    Product p = {.a = a, .b = b};
    if (!sum_own(c, a, b, keep) || !sum_own(c, b, a, keep)) return false;
    divide(&p, keep);
    if (p.sums.n == 0) return multiply_elements(c, &p, out);
    int rank = p.batches.n + (p.rows.n > 1 ? p.rows.n : 1) + (p.columns.n > 1 ? p.columns.n : 1);
    if (rank > TN_MAX_RANK) return c->declined = true, false;
    Arrangement l = layout_of(&p.batches);
    l.n += 2;
    l.groups[l.n - 2] = p.rows;
    l.groups[l.n - 1] = p.sums;
    Value *left = arranged(c, a, &l, 2), *right = right_operand(c, &p, &l);
    return take_apart(c, &p, LOWER(c, "MatMul", left, right), out);
}

/* ---- all of them --------------------------------------------------------------------------------------------- */

static Value *product(LowerCtx *c, const EinsumPlan *plan) {
    Labelled acc, next, out;
    int64_t perm[TN_MAX_RANK] = {0};
    bool keep[EINSUM_DIMS];
    if (!open_operand(c, plan, 0, &acc)) return NULL;
    for (int i = 1; i < plan->n_in; i++) {
        for (int d = 0; d < EINSUM_DIMS; d++) keep[d] = d < plan->n_out;
        for (int j = i + 1; j < plan->n_in; j++)
            for (int d = 0; d < plan->rank[j]; d++) keep[plan->dim_of[j][d]] = true;
        if (!open_operand(c, plan, i, &next) || !multiply(c, &acc, &next, keep, &out)) return NULL;
        acc = out;
    }
    for (int d = 0; d < EINSUM_DIMS; d++) keep[d] = d < plan->n_out;
    if (!sum_own(c, &acc, NULL, keep)) return NULL;
    for (int k = 0; k < acc.n; k++) perm[acc.dims[k]] = k;
    return transposed(c, acc.value, perm, acc.n);
}

/* MatMul and ReduceSum take no small integers. */
static tn_status as_i64(LowerCtx *c) {
    Value *operands[OP_MAX_INPUTS];
    for (size_t i = 0; i < c->node->n_operands; i++) operands[i] = lower_cast(c, lower_in(c, i), TN_I64);
    c->out[0] = lower_cast(c, lower_like(c, "Einsum", operands, c->node->n_operands), lower_dtype(lower_in(c, 0)));
    return TN_OK;
}

/* One product and no sum beside it: a narrow result is rounded once, as the op rounds it. */
static bool rounds_once(const EinsumPlan *plan) {
    uint32_t has[OP_MAX_INPUTS] = {0};
    for (int i = 0; i < plan->n_in; i++)
        for (int d = 0; d < plan->rank[i]; d++) has[i] |= 1u << plan->dim_of[i][d];
    return plan->n_in == 2 && ((has[0] ^ has[1]) >> plan->n_out) == 0;
}

tn_status lower_einsum(LowerCtx *c) {
    Shape shapes[OP_MAX_INPUTS];
    EinsumPlan plan;
    if (c->node->n_operands > OP_MAX_INPUTS) return lower_decline(c);
    for (size_t i = 0; i < c->node->n_operands; i++) {
        const Value *v = lower_in(c, i);
        if (value_rank(v) < 0 || !lower_dtype(v)) return lower_decline(c);
        shapes[i] = *lower_shape(v);
    }
    tn_dtype dtype = lower_dtype(lower_in(c, 0));
    if (!dtype_is_float(dtype) && dtype_size(dtype) < 4) return as_i64(c);
    TRY(einsum_plan(c->node, shapes, &plan));
    if (!rounds_once(&plan) && lower_by_widening(c)) return TN_OK;
    c->out[0] = product(c, &plan);
    return TN_OK;
}
