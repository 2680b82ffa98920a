/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes of nodes as Python's int, float, str, tensors and lists of them. */
#include "tenon_int.h"

#include <string.h>

/* ---- reading --------------------------------------------------------------------------------------------------- */

static PyObject *get_scalar(PyObject *self, const char *name, tn_attr_kind kind) {
    const tn_node *node = handle_of(self)->handle;
    int64_t i;
    double f;
    const char *text;
    size_t length;
    tn_tensor *tensor;
    tn_graph *graph;
    tn_status status;
    switch (kind) {
    case TN_ATTR_INT:
        status = tn_node_get_int(node, name, &i);
        return status == TN_OK ? PyLong_FromLongLong(i) : py_raise_status(status);
    case TN_ATTR_FLOAT:
        status = tn_node_get_float(node, name, &f);
        return status == TN_OK ? PyFloat_FromDouble(f) : py_raise_status(status);
    case TN_ATTR_STRING:
        status = tn_node_get_string(node, name, &text, &length);
        return status == TN_OK ? py_text_from(text, length) : py_raise_status(status);
    case TN_ATTR_TENSOR:
        status = tn_node_get_tensor(node, name, &tensor);
        return status == TN_OK ? py_tensor_object(tensor, true) : py_raise_status(status);
    case TN_ATTR_GRAPH:
        status = tn_node_get_graph(node, name, &graph);
        return status == TN_OK ? py_handle_object(handle_of(self)->model, HANDLE_GRAPH, graph)
                               : py_raise_status(status);
    default:
        return PyErr_Format(PyExc_NotImplementedError, "attribute \"%s\" is of a kind that cannot be read from here",
                            name);
    }
}

static PyObject *get_ints(const tn_node *node, const char *name) {
    const int64_t *values;
    size_t n;
    tn_status status = tn_node_get_ints(node, name, &values, &n);
    if (status != TN_OK) return py_raise_status(status);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = PyLong_FromLongLong(values[i]);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *get_floats(const tn_node *node, const char *name) {
    const float *values;
    size_t n;
    tn_status status = tn_node_get_floats(node, name, &values, &n);
    if (status != TN_OK) return py_raise_status(status);
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = PyFloat_FromDouble((double)values[i]);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *get_strings(const tn_node *node, const char *name) {
    const char *text;
    size_t length;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list; i++) {
        tn_status status = tn_node_get_string_at(node, name, i, &text, &length);
        if (status == TN_OUT_OF_RANGE) return list;
        PyObject *item = status == TN_OK ? py_text_from(text, length) : py_raise_status(status);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return NULL;
}

PyObject *py_node_get_attr(PyObject *self, PyObject *name) {
    tn_attr_kind kind;
    if (py_handle_check(self, HANDLE_NODE) < 0) return NULL;
    const char *text = PyUnicode_AsUTF8AndSize(name, NULL);
    const tn_node *node = handle_of(self)->handle;
    if (!text) return NULL;
    tn_status status = tn_node_attr_kind(node, text, &kind);
    if (status != TN_OK) return py_raise_status(status);
    if (kind == TN_ATTR_INTS) return get_ints(node, text);
    if (kind == TN_ATTR_FLOATS) return get_floats(node, text);
    if (kind == TN_ATTR_STRINGS) return get_strings(node, text);
    return get_scalar(self, text, kind);
}

/* ---- setting --------------------------------------------------------------------------------------------------- */

static tn_status set_string(tn_node *node, const char *name, PyObject *value) {
    char *text;
    Py_ssize_t length;
    tn_status status = TN_INVALID_ARGUMENT;
    PyObject *bytes = py_text_bytes(value);
    if (bytes && PyBytes_AsStringAndSize(bytes, &text, &length) == 0)
        status = tn_node_set_string(node, name, text, (size_t)length);
    Py_XDECREF(bytes);
    return status;
}

static tn_status set_ints(tn_node *node, const char *name, PyObject *tuple, size_t n, void *memory) {
    int64_t *values = memory;
    for (size_t i = 0; i < n; i++) {
        values[i] = PyLong_AsLongLong(PyTuple_GetItem(tuple, (Py_ssize_t)i));
        if (PyErr_Occurred()) return TN_INVALID_ARGUMENT;
    }
    return tn_node_set_ints(node, name, values, n);
}

static tn_status set_floats(tn_node *node, const char *name, PyObject *tuple, size_t n, void *memory) {
    float *values = memory;
    for (size_t i = 0; i < n; i++) {
        values[i] = (float)PyFloat_AsDouble(PyTuple_GetItem(tuple, (Py_ssize_t)i));
        if (PyErr_Occurred()) return TN_INVALID_ARGUMENT;
    }
    return tn_node_set_floats(node, name, values, n);
}

/* The texts live as long as the str objects of the tuple. */
static tn_status set_strings(tn_node *node, const char *name, PyObject *tuple, size_t n, void *memory) {
    const char **texts = memory;
    size_t *lengths = (size_t *)(texts + n);
    for (size_t i = 0; i < n; i++) {
        Py_ssize_t length;
        if (!(texts[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, (Py_ssize_t)i), &length)))
            return TN_INVALID_ARGUMENT;
        lengths[i] = (size_t)length;
    }
    return tn_node_set_strings(node, name, texts, lengths, n);
}

static tn_status set_list(tn_node *node, const char *name, tn_attr_kind kind, PyObject *value) {
    PyObject *tuple = PySequence_Tuple(value);
    size_t n = tuple ? (size_t)PyTuple_Size(tuple) : 0;
    void *memory = tuple ? PyMem_Calloc(n + 1, 2 * sizeof(int64_t)) : NULL;
    tn_status status = TN_INVALID_ARGUMENT;
    if (tuple && !memory) PyErr_NoMemory();
    if (memory && kind == TN_ATTR_INTS) status = set_ints(node, name, tuple, n, memory);
    else if (memory && kind == TN_ATTR_FLOATS) status = set_floats(node, name, tuple, n, memory);
    else if (memory && kind == TN_ATTR_STRINGS) status = set_strings(node, name, tuple, n, memory);
    PyMem_Free(memory);
    Py_XDECREF(tuple);
    return status;
}

static tn_status set_graph(PyObject *self, const char *name, PyObject *value) {
    if (py_handle_check(value, HANDLE_GRAPH) < 0) return TN_INVALID_ARGUMENT;
    if (handle_of(value)->model == handle_of(self)->model)
        return tn_node_set_graph(handle_of(self)->handle, name, handle_of(value)->handle);
    PyErr_SetString(PyExc_ValueError, "the graph is of another model");
    return TN_INVALID_ARGUMENT;
}

/* What a Python value is where the op does not say what it wants. */
static tn_attr_kind kind_of(PyObject *value) {
    if (PyObject_TypeCheck(value, py_tensor_type)) return TN_ATTR_TENSOR;
    if (PyObject_TypeCheck(value, py_handle_types[HANDLE_GRAPH])) return TN_ATTR_GRAPH;
    if (PyLong_Check(value)) return TN_ATTR_INT;
    if (PyFloat_Check(value)) return TN_ATTR_FLOAT;
    if (PyUnicode_Check(value) || PyBytes_Check(value)) return TN_ATTR_STRING;
    PyObject *first = PySequence_Check(value) && PySequence_Size(value) > 0 ? PySequence_GetItem(value, 0) : NULL;
    tn_attr_kind kind = !first                   ? TN_ATTR_INTS
                        : PyFloat_Check(first)   ? TN_ATTR_FLOATS
                        : PyUnicode_Check(first) ? TN_ATTR_STRINGS
                                                 : TN_ATTR_INTS;
    Py_XDECREF(first);
    PyErr_Clear();
    return kind;
}

static tn_status set_scalar(tn_node *node, const char *name, tn_attr_kind kind, PyObject *value) {
    if (kind == TN_ATTR_STRING) return set_string(node, name, value);
    if (kind == TN_ATTR_TENSOR && PyObject_TypeCheck(value, py_tensor_type))
        return tn_node_set_tensor(node, name, ((TensorObject *)value)->tensor);
    if (kind == TN_ATTR_FLOAT) {
        double f = PyFloat_AsDouble(value);
        return PyErr_Occurred() ? TN_INVALID_ARGUMENT : tn_node_set_float(node, name, f);
    }
    if (kind == TN_ATTR_INT) {
        int64_t i = PyLong_AsLongLong(value);
        return PyErr_Occurred() ? TN_INVALID_ARGUMENT : tn_node_set_int(node, name, i);
    }
    PyErr_Format(PyExc_TypeError, "attribute \"%s\" is of a kind that cannot be set from %R", name,
                 (PyObject *)Py_TYPE(value));
    return TN_INVALID_ARGUMENT;
}

PyObject *py_node_set_attr(PyObject *self, PyObject *args) {
    const char *name;
    PyObject *value;
    tn_attr_kind kind;
    if (!PyArg_ParseTuple(args, "sO", &name, &value)) return NULL;
    tn_node *node = handle_of(self)->handle;
    if (tn_node_attr_kind(node, name, &kind) != TN_OK) kind = kind_of(value);
    if (kind == TN_ATTR_GRAPH) return py_none_or_raise(set_graph(self, name, value));
    bool list = kind == TN_ATTR_INTS || kind == TN_ATTR_FLOATS || kind == TN_ATTR_STRINGS;
    return py_none_or_raise(list ? set_list(node, name, kind, value) : set_scalar(node, name, kind, value));
}
