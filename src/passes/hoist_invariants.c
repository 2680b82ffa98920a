/* SPDX-License-Identifier: Apache-2.0 */
/* hoist-invariants: what is the same at each turn of a Loop or Scan is computed once, before it.

   A node that was hoisted runs even where the loop makes no turn, so it must not be able to fail there. Either the loop is
   certain to make a turn (then the node would have run in any case), or the op cannot fail whatever its operands hold and
   whatever their sizes turn out to be: those of the table below, with at most one operand that is not a constant of one
   element, since two may have sizes that do not go together. Memory apart: a loop that is never entered may now need what
   one that is entered needs. What random ops and nodes with nested graphs do is never moved, nor is anything moved out of
   a branch of an If. */
#include "ops/op.h"
#include "pass/pass.h"

/* ---- whether the loop makes a turn --------------------------------------------------------------------------- */

/* Sizes of constants are right, and an input is checked against the numbers that are declared of it. */
static bool size_is_certain(const Value *v, const Graph *main) {
    return value_payload(v) || (!v->def && v->graph == main);
}

static bool scan_makes_a_turn(const Node *scan) {
    int64_t scanned = attr_int(scan, "num_scan_inputs");
    IntList axes = attr_ints(scan, "scan_input_axes");
    if (scanned < 1 || scanned > scan->n_operands) return false;
    for (int64_t k = 0; k < scanned; k++) {
        const Value *v = node_operand(scan, scan->n_operands - (size_t)(scanned - k));
        if (!v || v->type->kind != TYPE_TENSOR || !size_is_certain(v, scan->graph->model->main)) continue;
        const Shape *s = &v->type->shape;
        int64_t axis = (size_t)k < axes.n ? axes.data[k] : 0;
        if (axis < 0) axis += s->rank;
        if (axis >= 0 && axis < s->rank && dim_is_const(s->dims[axis]) && s->dims[axis] > 0) return true;
    }
    return false;
}

/* ---- whether a node can fail --------------------------------------------------------------------------------- */

/* Defined for all numbers; element types are checked before anything runs. Division is there for floats only. */
static const char total_ops[] =
    " Abs Acos Acosh Add And Asin Asinh Atan Atanh BitwiseAnd BitwiseNot BitwiseOr BitwiseXor Cast Ceil "
    "Celu Cos Cosh Div Elu Equal Erf Exp Floor Greater GreaterOrEqual HardSigmoid HardSwish Identity "
    "IsNaN LeakyRelu Less LessOrEqual Log Max Min Mish Mul Neg Not Or Reciprocal Relu Round Selu Shape "
    "Sigmoid Sign Sin Sinh Size Softplus Softsign Sqrt Sub Tan Tanh ThresholdedRelu Xor ";

static bool is_total(const OpSchema *op) {
    size_t n = strlen(op->name);
    for (const char *at = total_ops; !op->domain && (at = strstr(at, op->name)); at += n)
        if (at[-1] == ' ' && at[n] == ' ') return true;
    return false;
}

static bool is_one_number(const Value *v) {
    const Tensor *t = value_payload(v);
    return t && tensor_count(t) == 1;
}

static bool cannot_fail(const Node *node) {
    uint32_t others = 0;
    if (!is_total(node->op)) return false;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        if (!v || v->type->kind != TYPE_TENSOR || !v->type->dtype) return false;
        others += !is_one_number(v);
    }
    tn_dtype dtype = node->n_operands ? node->operands[0].value->type->dtype : TN_UNDEFINED;
    if (strcmp(node->op->name, "Div") == 0 && !dtype_is_float(dtype)) return false;
    if (strcmp(node->op->name, "Cast") == 0 && (dtype == TN_STRING || attr_int(node, "to") == TN_STRING)) return false;
    return others <= 1;
}

/* ---- moving -------------------------------------------------------------------------------------------------- */

/* Constants go along with what reads them. */
static bool is_invariant(const Node *node) {
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *v = node->operands[i].value;
        if (v && v->graph == node->graph && !value_payload(v)) return false;
    }
    return op_is_pure(node->op) && node->n_operands > 0;
}

static void hoist(Node *node, Node *loop) {
    for (uint32_t i = 0; i < node->n_operands; i++) {
        Value *v = node->operands[i].value;
        if (v && v->graph == node->graph) node_move_before(v->def, loop);
    }
    node_move_before(node, loop);
}

static tn_status run(PassRun *run, Graph *body) {
    Node *loop = body->owner;
    if (!loop || loop->op->domain) return TN_OK;
    bool is_loop = strcmp(loop->op->name, "Loop") == 0, is_scan = strcmp(loop->op->name, "Scan") == 0;
    if (!is_loop && !is_scan) return TN_OK;
    bool turns = is_loop ? loop_trips(loop).least > 0 : scan_makes_a_turn(loop);
    int64_t n = 0;
    for (Node *node = body->first, *next; node; node = next) {
        next = node->next;
        if (!is_invariant(node) || !(turns || cannot_fail(node))) continue;
        if (!pass_may_change(run)) break;
        hoist(node, loop);
        n++;
    }
    return pass_count(run, "hoisted", n);
}

/* Those nested deepest come first, so what is invariant in several loops leaves all of them. */
const Pass pass_hoist_invariants = {.name = "hoist-invariants",
                                    .summary = "compute before a loop what is the same at each turn",
                                    .phase = PHASE_PRE_PLACEMENT,
                                    .order = 70,
                                    .opt_level = 1,
                                    .each_graph = true,
                                    .keeps = {"infer-shapes"},
                                    .run = run};
