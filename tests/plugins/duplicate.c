/* SPDX-License-Identifier: Apache-2.0 */
/* A plug-in of which nothing may stay: its last pass has the name of one of the engine's. */
#include <tenon/plugin.h>

static tn_status nothing(tn_pass_run *run, tn_graph *graph) {
    (void)run, (void)graph;
    return TN_OK;
}

static tn_status nothing_run(tn_call *call) {
    (void)call;
    return TN_OK;
}

static const tn_op_desc lonely = {.size = sizeof(tn_op_desc),
                                  .domain = "com.duplicate",
                                  .name = "Lonely",
                                  .outputs = {{"y", "f32"}},
                                  .run = nothing_run};
static const tn_kernel_desc lonely_kernel = {
    .size = sizeof(tn_kernel_desc), .name = "lonely", .op = "Relu", .priority = 5, .run = nothing_run};

#define a_lonely_pass nothing
TN_REGISTER_PASS(TN_POST_REWRITE, 10, a_lonely_pass);
TN_REGISTER_OP(lonely);
TN_REGISTER_KERNEL(lonely_kernel);
static const tn_pass_desc taken = {.size = sizeof(tn_pass_desc), .name = "remove_dead", .run = nothing};
TN_REGISTER_PASS_DESC(taken);
TN_PLUGIN("duplicate");
