/* SPDX-License-Identifier: Apache-2.0 */
/* Changing graphs: inputs, constants, nodes, replacing and erasing. */
#include "tenon_int.h"

#include <string.h>

/* Whether this handle may be changed through; marks its model as changed. */
static int begin_change(PyObject *self, HandleKind kind) {
    if (py_handle_check(self, kind) < 0 || py_model_writable(handle_of(self)->model) < 0) return -1;
    handle_of(self)->model->changed = true;
    return 0;
}

/* A value of another model is refused: its memory is not this one's. */
int py_value_from(PyObject *object, ModelObject *model, tn_value **value) {
    *value = NULL;
    if (object == Py_None) return 0;
    if (py_handle_check(object, HANDLE_VALUE) < 0) return -1;
    if (handle_of(object)->model != model) {
        PyErr_SetString(PyExc_ValueError, "the value is of another model");
        return -1;
    }
    *value = handle_of(object)->handle;
    return 0;
}

/* ---- graphs ---------------------------------------------------------------------------------------------------- */

static PyObject *graph_add_input(PyObject *self, PyObject *args) {
    const char *name;
    PyObject *dtype_name, *shape;
    tn_dtype dtype = TN_UNDEFINED;
    int rank = -1;
    int64_t dims[TN_MAX_RANK];
    tn_value *value;
    if (!PyArg_ParseTuple(args, "sOO", &name, &dtype_name, &shape)) return NULL;
    if (begin_change(self, HANDLE_GRAPH) < 0 || py_dtype_from(dtype_name, &dtype) < 0) return NULL;
    if (shape != Py_None && py_dims_from(shape, &rank, dims) < 0) return NULL;
    tn_status status = tn_graph_add_input(handle_of(self)->handle, name, dtype, rank, dims, &value);
    return status == TN_OK ? py_handle_object(handle_of(self)->model, HANDLE_VALUE, value) : py_raise_status(status);
}

static PyObject *graph_add_typed_input(PyObject *self, PyObject *args) {
    const char *name, *type;
    tn_value *value;
    if (!PyArg_ParseTuple(args, "ss", &name, &type) || begin_change(self, HANDLE_GRAPH) < 0) return NULL;
    tn_status status = tn_graph_add_input_typed(handle_of(self)->handle, name, type, &value);
    return status == TN_OK ? py_handle_object(handle_of(self)->model, HANDLE_VALUE, value) : py_raise_status(status);
}

static PyObject *graph_add_output(PyObject *self, PyObject *args) {
    PyObject *object;
    const char *name = NULL;
    tn_value *value;
    if (!PyArg_ParseTuple(args, "O|z", &object, &name)) return NULL;
    if (begin_change(self, HANDLE_GRAPH) < 0 || py_value_from(object, handle_of(self)->model, &value) < 0) return NULL;
    return py_none_or_raise(tn_graph_add_output(handle_of(self)->handle, value, name));
}

static PyObject *graph_add_constant(PyObject *self, PyObject *args) {
    TensorObject *tensor;
    const char *name = NULL;
    tn_value *value;
    if (!PyArg_ParseTuple(args, "O!|z", py_tensor_type, &tensor, &name)) return NULL;
    if (begin_change(self, HANDLE_GRAPH) < 0) return NULL;
    tn_status status = tn_graph_add_constant(handle_of(self)->handle, tensor->tensor, name, &value);
    return status == TN_OK ? py_handle_object(handle_of(self)->model, HANDLE_VALUE, value) : py_raise_status(status);
}

static PyObject *graph_add_node(PyObject *self, PyObject *args) {
    const char *op;
    PyObject *operands, *before = Py_None;
    int n_results = 1;
    tn_value *values[64];
    tn_node *node, *place = NULL;
    if (!PyArg_ParseTuple(args, "sO!|iO", &op, &PyTuple_Type, &operands, &n_results, &before)) return NULL;
    if (begin_change(self, HANDLE_GRAPH) < 0) return NULL;
    Py_ssize_t n = PyTuple_Size(operands);
    if (n > 64 || n_results < 0) return PyErr_Format(PyExc_ValueError, "%zd operands, %d results", n, n_results);
    for (Py_ssize_t i = 0; i < n; i++)
        if (py_value_from(PyTuple_GetItem(operands, i), handle_of(self)->model, &values[i]) < 0) return NULL;
    if (before != Py_None) {
        if (py_handle_check(before, HANDLE_NODE) < 0) return NULL;
        place = handle_of(before)->handle;
    }
    tn_status status = tn_graph_add_node(handle_of(self)->handle, op, values, (size_t)n, (size_t)n_results, place,
                                         &node);
    return status == TN_OK ? py_handle_object(handle_of(self)->model, HANDLE_NODE, node) : py_raise_status(status);
}

static PyObject *graph_add_subgraph(PyObject *self, PyObject *args) {
    const char *name = NULL;
    tn_graph *graph;
    if (!PyArg_ParseTuple(args, "|z", &name) || begin_change(self, HANDLE_GRAPH) < 0) return NULL;
    tn_status status = tn_graph_new_nested(handle_of(self)->handle, name, &graph);
    return status == TN_OK ? py_handle_object(handle_of(self)->model, HANDLE_GRAPH, graph) : py_raise_status(status);
}

static PyObject *graph_erase(PyObject *self, PyObject *unused) {
    (void)unused;
    if (begin_change(self, HANDLE_GRAPH) < 0) return NULL;
    return py_none_or_raise(tn_graph_erase(handle_of(self)->handle));
}

PyMethodDef py_graph_changes[] = {
    {"add_input", graph_add_input, METH_VARARGS, "add_input(name, dtype, shape): a value"},
    {"add_typed_input", graph_add_typed_input, METH_VARARGS, "add_typed_input(name, type): a value"},
    {"add_subgraph", graph_add_subgraph, METH_VARARGS,
     "add_subgraph(name=None): a graph for a node of this one to hold"},
    {"erase", graph_erase, METH_NOARGS, "Removes a nested graph that no node holds."},
    {"add_output", graph_add_output, METH_VARARGS, "add_output(value, name=None)"},
    {"add_constant", graph_add_constant, METH_VARARGS, "add_constant(tensor, name=None): a value"},
    {"add_node", graph_add_node, METH_VARARGS, "add_node(op, operands, n_results=1, before=None): a node"},
    {NULL},
};

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

static PyObject *node_set_operand(PyObject *self, PyObject *args) {
    Py_ssize_t i;
    PyObject *object;
    tn_value *value;
    if (!PyArg_ParseTuple(args, "nO", &i, &object)) return NULL;
    if (begin_change(self, HANDLE_NODE) < 0 || py_value_from(object, handle_of(self)->model, &value) < 0) return NULL;
    return py_none_or_raise(tn_node_set_operand(handle_of(self)->handle, (size_t)i, value));
}

static PyObject *node_erase(PyObject *self, PyObject *unused) {
    (void)unused;
    if (begin_change(self, HANDLE_NODE) < 0) return NULL;
    return py_none_or_raise(tn_node_erase(handle_of(self)->handle));
}

static PyObject *node_take_graph(PyObject *self, PyObject *args) {
    const char *name;
    tn_graph *graph;
    if (!PyArg_ParseTuple(args, "s", &name) || begin_change(self, HANDLE_NODE) < 0) return NULL;
    tn_status status = tn_node_take_graph(handle_of(self)->handle, name, &graph);
    return status == TN_OK ? py_handle_object(handle_of(self)->model, HANDLE_GRAPH, graph) : py_raise_status(status);
}

static PyObject *node_change_attr(PyObject *self, PyObject *args) {
    return begin_change(self, HANDLE_NODE) < 0 ? NULL : py_node_set_attr(self, args);
}

PyMethodDef py_node_changes[] = {
    {"set_operand", node_set_operand, METH_VARARGS, "set_operand(i, value)"},
    {"set_attr", node_change_attr, METH_VARARGS, "set_attr(name, value)"},
    {"take_graph", node_take_graph, METH_VARARGS, "take_graph(name): the nested graph, for another node to hold"},
    {"erase", node_erase, METH_NOARGS, "Removes the node, whose results nobody may read."},
    {NULL},
};

/* ---- values ---------------------------------------------------------------------------------------------------- */

static PyObject *value_rename(PyObject *self, PyObject *args) {
    const char *name;
    if (!PyArg_ParseTuple(args, "s", &name) || begin_change(self, HANDLE_VALUE) < 0) return NULL;
    return py_none_or_raise(tn_value_rename(handle_of(self)->handle, name));
}

static PyObject *value_replace(PyObject *self, PyObject *other) {
    tn_value *with;
    if (begin_change(self, HANDLE_VALUE) < 0 || py_value_from(other, handle_of(self)->model, &with) < 0) return NULL;
    return py_none_or_raise(tn_value_replace(handle_of(self)->handle, with));
}

PyMethodDef py_value_changes[] = {
    {"rename", value_rename, METH_VARARGS, "rename(name)"},
    {"replace_with", value_replace, METH_O, "Every reading of this value reads the other one."},
    {NULL},
};
