/* SPDX-License-Identifier: Apache-2.0 */
/* Graphs, nodes and values: handles, and reading through them. */
#include "tenon_int.h"

#include <string.h>

/* ---- handles --------------------------------------------------------------------------------------------------- */

static HandleObject *find_handle(ModelObject *model, PyObject *key) {
    PyObject *found = PyDict_GetItemWithError(model->handles, key);
    return found ? PyLong_AsVoidPtr(found) : NULL;
}

PyObject *py_handle_object(ModelObject *model, HandleKind kind, void *handle) {
    if (!handle) Py_RETURN_NONE;
    PyObject *key = PyLong_FromVoidPtr(handle);
    if (!key) return NULL;
    HandleObject *self = find_handle(model, key);
    if (self || PyErr_Occurred()) {
        Py_DECREF(key);
        return Py_XNewRef((PyObject *)self);
    }
    self = (HandleObject *)PyType_GenericAlloc(py_handle_types[kind], 0);
    PyObject *address = self ? PyLong_FromVoidPtr(self) : NULL;
    if (address && PyDict_SetItem(model->handles, key, address) == 0) {
        self->model = (ModelObject *)Py_NewRef(model);
        self->handle = handle;
        self->kind = kind;
    } else {
        Py_CLEAR(self);
    }
    Py_XDECREF(address);
    Py_DECREF(key);
    return (PyObject *)self;
}

/* What was erased keeps its memory, and so its address, as long as the model lives. */
static bool handle_is_alive(const HandleObject *self) {
    switch (self->kind) {
    case HANDLE_GRAPH: return tn_graph_is_alive(self->handle);
    case HANDLE_NODE: return tn_node_is_alive(self->handle);
    default: return tn_value_is_alive(self->handle);
    }
}

int py_handle_check(PyObject *object, HandleKind kind) {
    static const char *const names[] = {"graph", "node", "value"};
    HandleObject *self = handle_of(object);
    if (!PyObject_TypeCheck(object, py_handle_types[kind])) {
        PyErr_Format(PyExc_TypeError, "a %s is wanted, not %R", names[kind], (PyObject *)Py_TYPE(object));
        return -1;
    }
    if (handle_is_alive(self)) return 0;
    PyErr_Format(PyExc_ReferenceError, "the %s was erased", names[kind]);
    return -1;
}

void py_forget_handles(ModelObject *model) {
    PyObject *key, *address;
    Py_ssize_t at = 0;
    while (PyDict_Next(model->handles, &at, &key, &address)) {
        HandleObject *object = PyLong_AsVoidPtr(address);
        object->handle = NULL;
    }
    PyDict_Clear(model->handles);
}

static void handle_dealloc(PyObject *object) {
    HandleObject *self = handle_of(object);
    if (self->model && self->handle) {
        PyObject *error, *value, *trace;
        PyErr_Fetch(&error, &value, &trace);
        PyObject *key = PyLong_FromVoidPtr(self->handle);
        if (!key || PyDict_DelItem(self->model->handles, key) < 0) PyErr_Clear();
        Py_XDECREF(key);
        PyErr_Restore(error, value, trace);
    }
    Py_XDECREF(self->model);
    py_free_object(object);
}

static PyObject *handle_model(PyObject *self, void *unused) {
    (void)unused;
    return Py_NewRef((PyObject *)handle_of(self)->model);
}

static PyObject *handle_alive(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(handle_is_alive(handle_of(self)));
}

static PyObject *text_or_empty(const char *text) { return py_text_from(text, text ? strlen(text) : 0); }

/* A list of the handles at 0 .. n-1. */
static PyObject *handle_list(PyObject *self, HandleKind kind, size_t n, void *(*at)(const void *of, size_t i)) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = py_handle_object(handle_of(self)->model, kind, at(handle_of(self)->handle, i));
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) Py_CLEAR(list);
    }
    return list;
}

/* ---- graphs ---------------------------------------------------------------------------------------------------- */

static void *input_at(const void *graph, size_t i) { return tn_graph_input(graph, i); }
static void *output_at(const void *graph, size_t i) { return tn_graph_output(graph, i); }
static void *operand_at(const void *node, size_t i) { return tn_node_operand(node, i); }
static void *result_at(const void *node, size_t i) { return tn_node_result(node, i); }

static PyObject *graph_name(PyObject *self, void *unused) {
    (void)unused;
    return py_handle_check(self, HANDLE_GRAPH) < 0 ? NULL : text_or_empty(tn_graph_name(handle_of(self)->handle));
}

static PyObject *graph_inputs(PyObject *self, void *unused) {
    (void)unused;
    if (py_handle_check(self, HANDLE_GRAPH) < 0) return NULL;
    return handle_list(self, HANDLE_VALUE, tn_graph_n_inputs(handle_of(self)->handle), input_at);
}

static PyObject *graph_outputs(PyObject *self, void *unused) {
    (void)unused;
    if (py_handle_check(self, HANDLE_GRAPH) < 0) return NULL;
    return handle_list(self, HANDLE_VALUE, tn_graph_n_outputs(handle_of(self)->handle), output_at);
}

static PyObject *graph_nodes(PyObject *self, void *unused) {
    (void)unused;
    if (py_handle_check(self, HANDLE_GRAPH) < 0) return NULL;
    PyObject *list = PyList_New(0);
    for (tn_node *node = tn_graph_first(handle_of(self)->handle); list && node; node = tn_node_next(node)) {
        PyObject *item = py_handle_object(handle_of(self)->model, HANDLE_NODE, node);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static Py_ssize_t graph_length(PyObject *self) {
    return py_handle_check(self, HANDLE_GRAPH) < 0 ? -1 : (Py_ssize_t)tn_graph_n_nodes(handle_of(self)->handle);
}

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

static PyObject *node_op(PyObject *self, void *unused) {
    (void)unused;
    return py_handle_check(self, HANDLE_NODE) < 0 ? NULL : text_or_empty(tn_node_op(handle_of(self)->handle));
}

static PyObject *node_domain(PyObject *self, void *unused) {
    (void)unused;
    return py_handle_check(self, HANDLE_NODE) < 0 ? NULL : text_or_empty(tn_node_domain(handle_of(self)->handle));
}

static PyObject *node_name(PyObject *self, void *unused) {
    (void)unused;
    return py_handle_check(self, HANDLE_NODE) < 0 ? NULL : text_or_empty(tn_node_name(handle_of(self)->handle));
}

static PyObject *node_owner(PyObject *self, void *unused) {
    (void)unused;
    if (py_handle_check(self, HANDLE_NODE) < 0) return NULL;
    return py_handle_object(handle_of(self)->model, HANDLE_GRAPH, tn_node_owner(handle_of(self)->handle));
}

static PyObject *node_operands(PyObject *self, void *unused) {
    (void)unused;
    if (py_handle_check(self, HANDLE_NODE) < 0) return NULL;
    return handle_list(self, HANDLE_VALUE, tn_node_n_operands(handle_of(self)->handle), operand_at);
}

static PyObject *node_results(PyObject *self, void *unused) {
    (void)unused;
    if (py_handle_check(self, HANDLE_NODE) < 0) return NULL;
    return handle_list(self, HANDLE_VALUE, tn_node_n_results(handle_of(self)->handle), result_at);
}

static PyObject *node_graphs(PyObject *self, void *unused) {
    (void)unused;
    if (py_handle_check(self, HANDLE_NODE) < 0) return NULL;
    PyObject *list = PyList_New(0);
    tn_graph *graph;
    for (size_t k = 0; list && (graph = tn_node_graph(handle_of(self)->handle, k)); k++) {
        PyObject *item = py_handle_object(handle_of(self)->model, HANDLE_GRAPH, graph);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static PyObject *node_attr_names(PyObject *self, PyObject *unused) {
    (void)unused;
    if (py_handle_check(self, HANDLE_NODE) < 0) return NULL;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < tn_node_n_attrs(handle_of(self)->handle); i++) {
        PyObject *item = text_or_empty(tn_node_attr_name(handle_of(self)->handle, i));
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

static PyObject *value_name(PyObject *self, void *unused) {
    (void)unused;
    return py_handle_check(self, HANDLE_VALUE) < 0 ? NULL : text_or_empty(tn_value_name(handle_of(self)->handle));
}

static PyObject *value_definition(PyObject *self, void *unused) {
    (void)unused;
    if (py_handle_check(self, HANDLE_VALUE) < 0) return NULL;
    return py_handle_object(handle_of(self)->model, HANDLE_NODE, tn_value_def(handle_of(self)->handle));
}

static PyObject *value_owner(PyObject *self, void *unused) {
    (void)unused;
    if (py_handle_check(self, HANDLE_VALUE) < 0) return NULL;
    return py_handle_object(handle_of(self)->model, HANDLE_GRAPH, tn_value_owner(handle_of(self)->handle));
}

static PyObject *value_n_uses(PyObject *self, void *unused) {
    (void)unused;
    return py_handle_check(self, HANDLE_VALUE) < 0 ? NULL : PyLong_FromSize_t(tn_value_n_uses(handle_of(self)->handle));
}

static PyObject *value_info(PyObject *self, void *unused) {
    tn_value_info info;
    (void)unused;
    if (py_handle_check(self, HANDLE_VALUE) < 0) return NULL;
    tn_status status = tn_value_get_info(handle_of(self)->handle, &info);
    return status == TN_OK ? py_info_tuple(&info) : py_raise_status(status);
}

static PyObject *value_constant(PyObject *self, PyObject *unused) {
    (void)unused;
    if (py_handle_check(self, HANDLE_VALUE) < 0) return NULL;
    tn_tensor *tensor = tn_value_constant(handle_of(self)->handle);
    return tensor ? py_tensor_object(tensor, true) : Py_NewRef(Py_None);
}

static PyObject *value_text(PyObject *self, PyObject *unused) {
    char *text;
    (void)unused;
    if (py_handle_check(self, HANDLE_VALUE) < 0) return NULL;
    tn_status status = tn_value_text(handle_of(self)->handle, &text);
    return status == TN_OK ? py_take_text(text) : py_raise_status(status);
}

/* ---- types ----------------------------------------------------------------------------------------------------- */

#define HANDLE_FIELDS \
    {"model", handle_model, NULL, "the model it is part of", NULL}, { "alive", handle_alive, NULL, "not erased", NULL }

static PyGetSetDef graph_fields[] = {
    HANDLE_FIELDS,
    {"name", graph_name, NULL, NULL, NULL},
    {"inputs", graph_inputs, NULL, "a list of values", NULL},
    {"outputs", graph_outputs, NULL, "a list of values", NULL},
    {"nodes", graph_nodes, NULL, "a list in which operands stand before users", NULL},
    {NULL},
};
static PyGetSetDef node_fields[] = {
    HANDLE_FIELDS,
    {"op", node_op, NULL, "\"Conv\"", NULL},
    {"domain", node_domain, NULL, "\"\" for ONNX's own", NULL},
    {"name", node_name, NULL, "in the model it came from", NULL},
    {"owner", node_owner, NULL, "the graph it stands in", NULL},
    {"operands", node_operands, NULL, "a list of values; None where an optional one is absent", NULL},
    {"results", node_results, NULL, "a list of values", NULL},
    {"graphs", node_graphs, NULL, "nested graphs", NULL},
    {NULL},
};
static PyGetSetDef value_fields[] = {
    HANDLE_FIELDS,
    {"name", value_name, NULL, NULL, NULL},
    {"definition", value_definition, NULL, "the node, or None for a graph's input", NULL},
    {"owner", value_owner, NULL, "the graph that it is an input of, or its node stands in", NULL},
    {"n_uses", value_n_uses, NULL, NULL, NULL},
    {"info", value_info, NULL, "(name, kind, dtype, shape, has_default, type)", NULL},
    {NULL},
};
static PyMethodDef node_readers[] = {
    {"attr_names", node_attr_names, METH_NOARGS, "Attributes that the node has."},
    {"get_attr", py_node_get_attr, METH_O, "The node's value, or the op's default."},
    {NULL},
};
static PyMethodDef value_readers[] = {
    {"constant_tensor", value_constant, METH_NOARGS, "A constant's payload, or None."},
    {"text", value_text, METH_NOARGS, "A fragment with its free variables declared."},
    {NULL},
};

static PyTypeObject *handle_type(PyObject *module, const char *name, PyMethodDef *methods, PyGetSetDef *fields) {
    bool graph = fields == graph_fields;
    PyType_Slot slots[] = {
        {Py_tp_dealloc, handle_dealloc},
        {Py_tp_methods, methods},
        {Py_tp_getset, fields},
        {graph ? Py_sq_length : 0, graph ? graph_length : NULL},
        {0, NULL},
    };
    unsigned flags = Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION;
    return py_make_type(module, &(PyType_Spec){name, sizeof(HandleObject), 0, flags, slots});
}

/* Reading and changing stand in files of their own; a type has one table. */
static PyMethodDef all_node_methods[16], all_value_methods[16];

static void join(PyMethodDef *all, const PyMethodDef *a, const PyMethodDef *b) {
    while (a->ml_name) *all++ = *a++;
    while (b->ml_name) *all++ = *b++;
}

int py_graph_init_types(PyObject *module) {
    join(all_node_methods, node_readers, py_node_changes);
    join(all_value_methods, value_readers, py_value_changes);
    py_handle_types[HANDLE_GRAPH] = handle_type(module, "tenonrt._tenon.Graph", py_graph_changes, graph_fields);
    py_handle_types[HANDLE_NODE] = handle_type(module, "tenonrt._tenon.Node", all_node_methods, node_fields);
    py_handle_types[HANDLE_VALUE] = handle_type(module, "tenonrt._tenon.Value", all_value_methods, value_fields);
    return py_handle_types[0] && py_handle_types[1] && py_handle_types[2] ? 0 : -1;
}
