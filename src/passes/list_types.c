/* SPDX-License-Identifier: Apache-2.0 */
/* list-types: each value with its type and what makes it: its op, the kernel that would be chosen where all sizes are
   numbers, and the target it runs on. */
#include "kernel/kernel.h"
#include "ops/op.h"
#include "pass/pass.h"

typedef struct Listing {
    PassRun *run;
    Text text;
    bool kernels;
} Listing;

/* ---- kernels ------------------------------------------------------------------------------------------------- */

static bool fill_tensor(const Value *v, Tensor *t) {
    const Type *type = v->type;
    if (type->kind != TYPE_TENSOR || !type->dtype || !shape_is_known(&type->shape)) return false;
    tensor_set_dense(t, type->dtype, type->shape.rank, type->shape.dims);
    if (value_constant(v)) *t = *value_constant(v);
    return true;
}

/* Whether all is concrete that decides a kernel. */
static tn_status make_query(Arena *arena, const Node *node, KernelQuery *q, bool *known) {
    Tensor *tensors = arena_array(arena, Tensor, (size_t)node->n_operands + node->n_results + 1);
    const Tensor **in = arena_array(arena, const Tensor *, node->n_operands + 1u);
    if (!tensors || !in) return TN_OUT_OF_MEMORY;
    *known = true;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        if (v) *known &= fill_tensor(v, &tensors[i]);
        in[i] = v ? &tensors[i] : NULL;
    }
    for (uint32_t i = 0; i < node->n_results; i++)
        *known &= fill_tensor(node->results[i], &tensors[node->n_operands + i]);
    *q = (KernelQuery){.node = node,
                       .n_in = (int)node->n_operands,
                       .n_out = (int)node->n_results,
                       .in = in,
                       .out = tensors + node->n_operands};
    return TN_OK;
}

static tn_status put_kernel(Listing *l, const Node *node) {
    KernelQuery q;
    bool known;
    const KernelDesc *kernel;
    if (node->op->kind == OP_DEFORMABLE && node->op->regions) {
        text_puts(&l->text, ", moves data");
        return TN_OK;
    }
    ArenaMark mark = arena_mark(l->run->scratch);
    tn_status status = make_query(l->run->scratch, node, &q, &known);
    if (status == TN_OK && known) {
        if (kernel_pick(&q, TARGETS_ALL, &kernel) == TN_OK)
            text_printf(&l->text, ", %s on %s", kernel->name, target_name(kernel->place.target));
        else diag_clear();
    }
    arena_release(l->run->scratch, mark);
    return status;
}

/* ---- lines --------------------------------------------------------------------------------------------------- */

static void put_value(Listing *l, const Value *v) {
    if (v->name.n) text_printf(&l->text, "%.*s: ", (int)v->name.n, v->name.s);
    else text_printf(&l->text, "(value %u): ", v->id);
    type_print(l->run->model, v->type, &l->text);
}

static tn_status on_graph(Visitor *v, Graph *graph) {
    Listing *l = v->user;
    text_printf(&l->text, "graph \"%.*s\", nested %d deep\n", (int)graph->name.n, graph->name.s, graph_depth(graph));
    return TN_OK;
}

static tn_status on_input(Visitor *v, Value *input) {
    Listing *l = v->user;
    put_value(l, input);
    text_puts(&l->text, "  input\n");
    return l->text.status;
}

static tn_status on_constant(Visitor *v, Node *node) {
    Listing *l = v->user;
    put_value(l, node->results[0]);
    text_puts(&l->text, "  constant\n");
    return l->text.status;
}

static tn_status on_node(Visitor *v, Node *node) {
    Listing *l = v->user;
    for (uint32_t i = 0; i < node->n_results; i++) {
        put_value(l, node->results[i]);
        text_puts(&l->text, "  ");
        op_print_name(node->op, &l->text);
        if (l->kernels && !(node->op->flags & OP_CONTROL)) TRY(put_kernel(l, node));
        if (node->loc.n) text_printf(&l->text, "  at \"%.*s\"", (int)node->loc.n, node->loc.s);
        text_puts(&l->text, "\n");
    }
    return l->text.status;
}

static tn_status run(PassRun *run, Graph *graph) {
    Listing l = {.run = run, .kernels = pass_bool(run, "kernels")};
    Visitor v = {.graph = on_graph, .input = on_input, .constant = on_constant, .node = on_node, .user = &l};
    (void)graph;
    text_init(&l.text, &run->ctx->allocator);
    tn_status status = visit_model(run->model, &v);
    if (status == TN_OK) status = pass_say(run, &l.text, pass_string(run, "file"));
    text_free(&l.text);
    return status;
}

const Pass pass_list_types = {.name = "list-types",
                              .summary = "list types of values and what runs them",
                              .kind = PASS_DEBUG,
                              .options = {{"file", OPTION_STRING, "", "where to; without it, the log"},
                                          {"kernels", OPTION_BOOL, "true", "whether to say which kernel would run"}},
                              .run = run};
