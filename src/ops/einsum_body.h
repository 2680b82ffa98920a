/* SPDX-License-Identifier: Apache-2.0 */
/* Einsum for one type: for each element of the result, a sum over the other dims of the product of the operands. */

typedef struct FN(EinsumJob) {
    const EinsumPlan *plan;
    const T *x[OP_MAX_INPUTS];
    int64_t stride[OP_MAX_INPUTS][EINSUM_DIMS];
    T *y;
} FN(EinsumJob);

/* The innermost loop over the last summed dim; two operands, the usual case, by themselves. */
static T FN(sum_last)(const FN(EinsumJob) * job, const int64_t *at, int64_t n, int last) {
    const EinsumPlan *plan = job->plan;
    T sum = 0;
    if (plan->n_in == 2) {
        const T *a = job->x[0] + at[0], *b = job->x[1] + at[1];
        int64_t sa = job->stride[0][last], sb = job->stride[1][last];
        for (int64_t k = 0; k < n; k++) sum += a[k * sa] * b[k * sb];
        return sum;
    }
    for (int64_t k = 0; k < n; k++) {
        T product = 1;
        for (int i = 0; i < plan->n_in; i++) product *= job->x[i][at[i] + k * job->stride[i][last]];
        sum += product;
    }
    return sum;
}

/* Where nothing is summed: a product that is -0 stays so. */
static T FN(product)(const FN(EinsumJob) * job, const int64_t *at) {
    T product = job->x[0][at[0]];
    for (int i = 1; i < job->plan->n_in; i++) product *= job->x[i][at[i]];
    return product;
}

static void FN(einsum_range)(void *arg, int64_t begin, int64_t end) {
    const FN(EinsumJob) *job = arg;
    const EinsumPlan *plan = job->plan;
    int n_out = plan->n_out, last = plan->n_dims - 1, n_sum = plan->n_dims - n_out;
    for (int64_t item = begin; item < end; item++) {
        int64_t at[OP_MAX_INPUTS] = {0}, index[EINSUM_DIMS] = {0}, rest = item;
        for (int d = n_out - 1; d >= 0; d--) {
            for (int i = 0; i < plan->n_in; i++) at[i] += rest % plan->size[d] * job->stride[i][d];
            rest /= plan->size[d];
        }
        T sum = 0;
        bool more = n_sum > 0;
        while (more) {
            int64_t here[OP_MAX_INPUTS];
            for (int i = 0; i < plan->n_in; i++) {
                here[i] = at[i];
                for (int d = 0; d + 1 < n_sum; d++) here[i] += index[d] * job->stride[i][n_out + d];
            }
            sum += FN(sum_last)(job, here, plan->size[last], last);
            more = n_sum > 1 && next_index(n_sum - 1, plan->size + n_out, index);
        }
        job->y[item] = n_sum ? sum : FN(product)(job, at);
    }
}

static tn_status FN(einsum)(KernelCtx *c) {
    Shape shapes[OP_MAX_INPUTS];
    EinsumPlan plan;
    FN(EinsumJob) job = {.plan = &plan};
    for (int i = 0; i < c->n_in; i++) shapes[i] = shape_make(c->in[i]->rank, c->in[i]->dims);
    TRY(einsum_plan(c->node, shapes, &plan));
    for (int i = 0; i < c->n_in; i++) {
        TRY(FN(dense)(c, i, &job.x[i]));
        operand_strides(&plan, i, c->in[i], job.stride[i]);
    }
    TRY(FN(result)(c, 0, &job.y));
    int64_t n = tensor_count(&c->out[0]);
    double terms = 1;
    for (int d = plan.n_out; d < plan.n_dims; d++) terms *= (double)plan.size[d];
    if (terms == 0) memset(job.y, 0, (size_t)n * sizeof(T));
    else TRY(kernel_parallel(c, n, terms * 2 + 20, FN(einsum_range), &job));
    FN_DONE(c, 0, job.y);
    return TN_OK;
}
