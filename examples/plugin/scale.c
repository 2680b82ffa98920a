/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in with an op and a kernel: com.example.Scale(x) {factor} is x * factor, plainly for each type of float, and in all
   threads for f32.
   tenon run --plugin build/examples/scale.so MODEL */
#include <tenon/plugin.h>

static int64_t count(const tn_view *view) {
    int64_t n = 1;
    for (int i = 0; i < view->rank; i++) n *= view->dims[i];
    return n;
}

/* ---- the op: operands are dense and of the types below; the result has the size that inference said ---- */

static tn_status scale_run(tn_call *call) {
    tn_view x, y;
    double factor;
    tn_status status = tn_node_get_float(tn_call_node(call), "factor", &factor);
    if (status != TN_OK) return status;
    tn_call_input(call, 0, &x);
    tn_call_output(call, 0, &y);
    for (int64_t i = 0; i < count(&x); i++) {
        if (x.dtype == TN_F32) ((float *)y.data)[i] = ((const float *)x.data)[i] * (float)factor;
        else ((double *)y.data)[i] = ((const double *)x.data)[i] * factor;
    }
    return TN_OK;
}

static const tn_op_desc scale = {
    .size = sizeof(tn_op_desc),
    .domain = "com.example",
    .name = "Scale",
    .summary = "x times a number",
    .flags = TN_OP_ELEMENTWISE,
    .inputs = {{"x", "f32|f64|T"}},
    .outputs = {{"y", "T"}},
    .attrs = {{.name = "factor", .kind = TN_ATTR_FLOAT, .f = 2}},
    .run = scale_run,
};
TN_REGISTER_OP(scale);

/* ---- the kernel ---- */

typedef struct Job {
    const float *x;
    float *y, factor;
} Job;

static void scale_range(void *arg, int64_t begin, int64_t end) {
    const Job *job = arg;
    for (int64_t i = begin; i < end; i++) job->y[i] = job->x[i] * job->factor;
}

static tn_status scale_fast_run(tn_call *call) {
    tn_view x, y;
    double factor;
    tn_status status = tn_node_get_float(tn_call_node(call), "factor", &factor);
    if (status != TN_OK) return status;
    tn_call_input(call, 0, &x);
    tn_call_output(call, 0, &y);
    Job job = {x.data, y.data, (float)factor};
    return tn_call_parallel(call, count(&x), 0.5, scale_range, &job);
}

static bool has_rows(const tn_call *call) {
    tn_view x;
    return tn_call_input(call, 0, &x) && x.rank >= 1;
}

static const tn_kernel_desc scale_fast = {
    .size = sizeof(tn_kernel_desc),
    .name = "scale_fast",
    .op = "com.example.Scale",
    .precision = TN_F32,
    .priority = 10,
    .match = has_rows,
    .run = scale_fast_run,
};
TN_REGISTER_KERNEL(scale_fast);

TN_PLUGIN("scale");
