/* SPDX-License-Identifier: Apache-2.0 */
/* Walking: the order is found first and the functions in Python are called from it, so they may change the graph. */
#include "tenon_int.h"

typedef struct Order {
    ModelObject *model;
    PyObject *list;
} Order;

static tn_status meet(Order *order, HandleKind kind, void *handle) {
    static const char *const kinds[] = {"graph", "node", "input"};
    PyObject *object = py_handle_object(order->model, kind, handle);
    PyObject *pair = object ? Py_BuildValue("(sN)", kinds[kind], object) : NULL;
    bool added = pair && PyList_Append(order->list, pair) == 0;
    Py_XDECREF(pair);
    return added ? TN_OK : TN_CANCELLED;
}

static tn_status meet_graph(void *user, tn_graph *graph) { return meet(user, HANDLE_GRAPH, graph); }
static tn_status meet_node(void *user, tn_node *node) { return meet(user, HANDLE_NODE, node); }
static tn_status meet_input(void *user, tn_value *value) { return meet(user, HANDLE_VALUE, value); }

PyObject *py_visit_order(PyObject *self, PyObject *unused) {
    Order order = {(ModelObject *)self, PyList_New(0)};
    (void)unused;
    if (!order.list) return NULL;
    tn_visitor visitor = {.node = meet_node, .input = meet_input, .graph = meet_graph, .user = &order};
    tn_status status = tn_visit(order.model->model, &visitor);
    if (status == TN_OK) return order.list;
    Py_DECREF(order.list);
    return py_raise_status(status);
}
