/* SPDX-License-Identifier: Apache-2.0 */
/* Rebuilding a model by functions in Python. The new model's handles are made while it is built: they belong to a Model
   object that gets its model at the end, or forgets them when there is none. */
#include "tenon_int.h"

#include <string.h>

typedef struct Rebuild {
    ModelObject *old, *fresh;
    PyObject *node, *input, *graph, *location, *type; /* functions; None: not wanted */
    PyObject *text;                                   /* the last answer of the latter two, whose text is being read */
} Rebuild;

static tn_status status_of(PyObject *answer) { return answer ? TN_OK : TN_CANCELLED; }

/* ---- nodes ----------------------------------------------------------------------------------------------------- */

static PyObject *operand_list(Rebuild *r, tn_value *const *operands, size_t n) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        PyObject *item = py_handle_object(r->fresh, HANDLE_VALUE, operands[i]);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) Py_CLEAR(list);
    }
    return list;
}

static tn_status take_results(Rebuild *r, const tn_node *node, PyObject *answer, tn_value **results) {
    size_t n = tn_node_n_results(node);
    if (!PyTuple_Check(answer) || (size_t)PyTuple_Size(answer) != n) {
        PyErr_Format(PyExc_ValueError, "%s has %zu results, the mutator gave %R for them", tn_node_op(node), n, answer);
        return TN_CANCELLED;
    }
    for (size_t i = 0; i < n; i++)
        if (py_value_from(PyTuple_GetItem(answer, (Py_ssize_t)i), r->fresh, &results[i]) < 0) return TN_CANCELLED;
    return TN_OK;
}

static tn_status rebuild_node(void *user, const tn_node *node, tn_graph *into, tn_value *const *operands,
                              tn_value **results, bool *changed) {
    Rebuild *r = user;
    PyObject *handle = py_handle_object(r->old, HANDLE_NODE, (void *)node);
    PyObject *graph = py_handle_object(r->fresh, HANDLE_GRAPH, into);
    PyObject *list = operand_list(r, operands, tn_node_n_operands(node));
    PyObject *answer = handle && graph && list ? PyObject_CallFunctionObjArgs(r->node, handle, graph, list, NULL)
                                               : NULL;
    tn_status status = status_of(answer);
    *changed = answer && answer != Py_None;
    if (*changed) status = take_results(r, node, answer, results);
    Py_XDECREF(answer);
    Py_XDECREF(list);
    Py_XDECREF(graph);
    Py_XDECREF(handle);
    return status;
}

/* ---- inputs, graphs, text -------------------------------------------------------------------------------------- */

static tn_status rebuild_input(void *user, const tn_value *input, tn_value **value) {
    Rebuild *r = user;
    PyObject *old = py_handle_object(r->old, HANDLE_VALUE, (void *)input);
    PyObject *fresh = py_handle_object(r->fresh, HANDLE_VALUE, *value);
    PyObject *answer = old && fresh ? PyObject_CallFunctionObjArgs(r->input, old, fresh, NULL) : NULL;
    tn_status status = status_of(answer);
    if (answer && answer != Py_None && py_value_from(answer, r->fresh, value) < 0) status = TN_CANCELLED;
    Py_XDECREF(answer);
    Py_XDECREF(fresh);
    Py_XDECREF(old);
    return status;
}

static tn_status rebuild_graph(void *user, const tn_graph *graph, tn_graph *fresh, bool *changed) {
    Rebuild *r = user;
    PyObject *old = py_handle_object(r->old, HANDLE_GRAPH, (void *)graph);
    PyObject *new = py_handle_object(r->fresh, HANDLE_GRAPH, fresh);
    PyObject *answer = old && new ? PyObject_CallFunctionObjArgs(r->graph, old, new, NULL) : NULL;
    int yes = answer ? PyObject_IsTrue(answer) : -1;
    *changed = yes > 0;
    Py_XDECREF(answer);
    Py_XDECREF(new);
    Py_XDECREF(old);
    return yes < 0 ? TN_CANCELLED : TN_OK;
}

static tn_status other_text(Rebuild *r, PyObject *function, const char *text, const char **other) {
    PyObject *before = py_text_from(text, strlen(text));
    PyObject *answer = before ? PyObject_CallFunctionObjArgs(function, before, NULL) : NULL;
    Py_XDECREF(before);
    Py_CLEAR(r->text);
    if (answer && answer != Py_None) {
        r->text = py_text_bytes(answer);
        *other = r->text ? PyBytes_AsString(r->text) : NULL;
    }
    tn_status status = answer && !PyErr_Occurred() ? TN_OK : TN_CANCELLED;
    Py_XDECREF(answer);
    return status;
}

static tn_status rebuild_location(void *user, const char *location, const char **other) {
    Rebuild *r = user;
    return other_text(r, r->location, location, other);
}

static tn_status rebuild_type(void *user, const char *type, const char **other) {
    Rebuild *r = user;
    return other_text(r, r->type, type, other);
}

/* ---- models ---------------------------------------------------------------------------------------------------- */

static tn_status rebuild(Rebuild *r, tn_model **out) {
    tn_mutator mutator = {
        .node = r->node == Py_None ? NULL : rebuild_node,
        .input = r->input == Py_None ? NULL : rebuild_input,
        .graph = r->graph == Py_None ? NULL : rebuild_graph,
        .location = r->location == Py_None ? NULL : rebuild_location,
        .type = r->type == Py_None ? NULL : rebuild_type,
        .user = r,
    };
    r->old->users++;
    tn_status status = tn_mutate(r->old->model, &mutator, out);
    r->old->users--;
    Py_CLEAR(r->text);
    return status;
}

PyObject *py_model_rebuild(PyObject *self, PyObject *args) {
    Rebuild r = {.old = (ModelObject *)self};
    tn_model *out = NULL;
    if (!PyArg_ParseTuple(args, "OOOOO", &r.node, &r.input, &r.graph, &r.location, &r.type) ||
        py_model_check(r.old) < 0)
        return NULL;
    PyObject *fresh = py_model_object(Py_TYPE(self), NULL, true);
    if (!fresh) return NULL;
    r.fresh = (ModelObject *)fresh;
    tn_status status = rebuild(&r, &out);
    if (status == TN_OK && out != r.old->model) {
        r.fresh->model = out;
        return fresh;
    }
    py_forget_handles(r.fresh);
    Py_DECREF(fresh);
    if (status != TN_OK) return PyErr_Occurred() ? NULL : py_raise_status(status);
    tn_model_release(out);
    return Py_NewRef(self);
}
