/* SPDX-License-Identifier: Apache-2.0 */
/* Walking: the order is found first and the functions in Python are called from it, so they may change the graph. */
#include "tenon_int.h"

typedef struct Order {
    ModelObject *model;
    PyObject *list;
    PyObject *descend; /* NULL: into every nested graph */
    uint32_t count;
} Order;

/* (kind, object, count, of): `of` is the handle that must not be erased for this to be shown. Takes `object` over. */
static tn_status meet(Order *order, const char *kind, PyObject *object, PyObject *of) {
    bool failed = !object || !of || PyErr_Occurred();
    PyObject *item = failed ? NULL : Py_BuildValue("(sOIO)", kind, object, (unsigned)order->count, of);
    bool added = item && PyList_Append(order->list, item) == 0;
    Py_XDECREF(item);
    Py_XDECREF(object);
    return added ? TN_OK : TN_CANCELLED;
}

static tn_status meet_handle(Order *order, const char *text, HandleKind kind, void *handle) {
    PyObject *object = py_handle_object(order->model, kind, handle);
    return meet(order, text, object, object);
}

static tn_status meet_text(Order *order, const char *kind, const char *text, HandleKind of_kind, void *of) {
    PyObject *handle = py_handle_object(order->model, of_kind, of);
    PyObject *bytes = PyBytes_FromString(text);
    PyObject *object = bytes ? PyUnicode_FromEncodedObject(bytes, "utf-8", "surrogateescape") : NULL;
    tn_status status = meet(order, kind, object, handle);
    Py_XDECREF(bytes);
    Py_XDECREF(handle);
    return status;
}

static tn_status meet_graph(void *user, tn_graph *graph) { return meet_handle(user, "graph", HANDLE_GRAPH, graph); }
static tn_status meet_node(void *user, tn_node *node) { return meet_handle(user, "node", HANDLE_NODE, node); }
static tn_status meet_constant(void *user, tn_node *node) { return meet_handle(user, "constant", HANDLE_NODE, node); }
static tn_status meet_input(void *user, tn_value *value) { return meet_handle(user, "input", HANDLE_VALUE, value); }

static tn_status meet_location(void *user, const char *location, tn_node *node) {
    return meet_text(user, "location", location, HANDLE_NODE, node);
}

static tn_status meet_op(void *user, const char *op, tn_node *node) {
    return meet_text(user, "op", op, HANDLE_NODE, node);
}

static tn_status meet_type(void *user, const char *type, tn_value *value) {
    return meet_text(user, "type", type, HANDLE_VALUE, value);
}

/* An exception stays set, and ends the walk at the next call-back. */
static bool ask_descend(void *user, const tn_node *node) {
    Order *order = user;
    PyObject *handle = PyErr_Occurred() ? NULL : py_handle_object(order->model, HANDLE_NODE, (void *)node);
    PyObject *answer = handle ? PyObject_CallFunctionObjArgs(order->descend, handle, NULL) : NULL;
    int yes = answer ? PyObject_IsTrue(answer) : 0;
    Py_XDECREF(answer);
    Py_XDECREF(handle);
    return yes > 0;
}

static tn_status walk(Order *order, PyObject *start, bool heads) {
    tn_visitor visitor = {.node = meet_node,
                          .constant = meet_constant,
                          .input = meet_input,
                          .graph = meet_graph,
                          .descend = order->descend ? ask_descend : NULL,
                          .count = &order->count,
                          .user = order};
    if (heads) {
        visitor.location = meet_location;
        visitor.op = meet_op;
        visitor.type = meet_type;
    }
    if (start == (PyObject *)order->model) return tn_visit(order->model->model, &visitor);
    if (handle_of(start)->kind == HANDLE_GRAPH) return tn_visit_graph(handle_of(start)->handle, &visitor);
    return tn_visit_value(handle_of(start)->handle, &visitor);
}

static ModelObject *model_of_start(PyObject *start) {
    if (PyObject_TypeCheck(start, py_model_type))
        return py_model_check((ModelObject *)start) < 0 ? NULL : (ModelObject *)start;
    HandleKind kind = PyObject_TypeCheck(start, py_handle_types[HANDLE_GRAPH]) ? HANDLE_GRAPH : HANDLE_VALUE;
    if (kind == HANDLE_GRAPH || PyObject_TypeCheck(start, py_handle_types[HANDLE_VALUE]))
        return py_handle_check(start, kind) < 0 ? NULL : handle_of(start)->model;
    PyErr_Format(PyExc_TypeError, "a model, a graph or a value is wanted, not %R", (PyObject *)Py_TYPE(start));
    return NULL;
}

PyObject *py_walk_order(PyObject *module, PyObject *args) {
    PyObject *start, *descend;
    int heads;
    (void)module;
    if (!PyArg_ParseTuple(args, "OpO", &start, &heads, &descend)) return NULL;
    Order order = {.model = model_of_start(start), .descend = descend == Py_None ? NULL : descend};
    if (!order.model || !(order.list = PyList_New(0))) return NULL;
    order.model->users++; /* `descend` may not change what is being walked */
    tn_status status = walk(&order, start, heads);
    order.model->users--;
    if (status == TN_OK && !PyErr_Occurred()) return order.list;
    Py_DECREF(order.list);
    return PyErr_Occurred() ? NULL : py_raise_status(status);
}
