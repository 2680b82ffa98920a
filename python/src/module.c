/* SPDX-License-Identifier: Apache-2.0 */
/* The extension module tenonrt._tenon: errors, conversions, contexts. What scripts see is the package in Python. */
#include "tenon_int.h"

#include <string.h>

PyTypeObject *py_context_type, *py_tensor_type, *py_model_type, *py_session_type;
PyTypeObject *py_handle_types[HANDLE_KINDS];
static PyObject *error_types; /* dict: "SHAPE" -> class */

/* ---- errors --------------------------------------------------------------------------------------------------- */

PyObject *py_raise_text(tn_status status, const char *text) {
    if (PyErr_Occurred()) return NULL;
    const char *name = tn_status_name(status);
    if (strncmp(name, "TN_", 3) == 0) name += 3;
    PyObject *class = error_types ? PyDict_GetItemString(error_types, name) : NULL;
    PyObject *said = py_text_from(text, strlen(text));
    PyObject *error = said ? PyObject_CallFunction(class ? class : PyExc_RuntimeError, "sO", name, said) : NULL;
    if (error) PyErr_SetObject((PyObject *)Py_TYPE(error), error);
    Py_XDECREF(error);
    Py_XDECREF(said);
    return NULL;
}

PyObject *py_raise_status(tn_status status) {
    const char *said = tn_last_error();
    return py_raise_text(status, said[0] ? said : tn_status_text(status));
}

PyObject *py_none_or_raise(tn_status status) { return status == TN_OK ? Py_NewRef(Py_None) : py_raise_status(status); }

static PyObject *set_error_types(PyObject *module, PyObject *types) {
    (void)module;
    if (!PyDict_Check(types)) return PyErr_Format(PyExc_TypeError, "a dict is wanted");
    Py_XDECREF(error_types);
    error_types = Py_NewRef(types);
    Py_RETURN_NONE;
}

static PyObject *set_handle_types(PyObject *module, PyObject *args) {
    PyObject *types[HANDLE_KINDS];
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O!O!", &PyType_Type, &types[0], &PyType_Type, &types[1], &PyType_Type, &types[2]))
        return NULL;
    for (int i = 0; i < HANDLE_KINDS; i++) {
        PyObject *old = (PyObject *)py_handle_types[i];
        py_handle_types[i] = (PyTypeObject *)Py_NewRef(types[i]);
        Py_XDECREF(old);
    }
    Py_RETURN_NONE;
}

/* ---- conversions ---------------------------------------------------------------------------------------------- */

PyObject *py_text_from(const char *text, size_t length) {
    return PyUnicode_DecodeUTF8(text ? text : "", text ? (Py_ssize_t)length : 0, "surrogateescape");
}

PyObject *py_text_bytes(PyObject *text) {
    if (PyBytes_Check(text)) return Py_NewRef(text);
    if (PyUnicode_Check(text)) return PyUnicode_AsEncodedString(text, "utf-8", "surrogateescape");
    return PyErr_Format(PyExc_TypeError, "a str or bytes is wanted, not %R", (PyObject *)Py_TYPE(text));
}

PyObject *py_take_text(char *text) {
    PyObject *result = py_text_from(text, strlen(text));
    tn_free_text(text);
    return result;
}

void py_release_object(void *user, void *data, size_t size) {
    (void)data;
    (void)size;
    if (!Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    Py_DECREF((PyObject *)user);
    PyGILState_Release(state);
}

int py_dtype_from(PyObject *name, tn_dtype *dtype) {
    const char *text = PyUnicode_Check(name) ? PyUnicode_AsUTF8AndSize(name, NULL) : NULL;
    if (text && (*dtype = tn_dtype_from_name(text)) != TN_UNDEFINED) return 0;
    if (!PyErr_Occurred()) PyErr_Format(PyExc_TypeError, "there is no element type %R", name);
    return -1;
}

int py_dims_from(PyObject *shape, int *rank, int64_t *dims) {
    Py_ssize_t n = PySequence_Size(shape);
    if (n < 0) return -1;
    if (n > TN_MAX_RANK) {
        PyErr_Format(PyExc_ValueError, "%zd dimensions are more than %d", n, TN_MAX_RANK);
        return -1;
    }
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *dim = PySequence_GetItem(shape, i);
        dims[i] = !dim || dim == Py_None ? -1 : PyLong_AsLongLong(dim);
        Py_XDECREF(dim);
        if (PyErr_Occurred()) return -1;
    }
    *rank = (int)n;
    return 0;
}

PyObject *py_dims_tuple(int rank, const int64_t *dims) {
    PyObject *tuple = PyTuple_New(rank);
    for (int i = 0; tuple && i < rank; i++) {
        PyObject *dim = PyLong_FromLongLong(dims[i]);
        if (!dim || PyTuple_SetItem(tuple, i, dim) < 0) {
            Py_DECREF(tuple);
            return NULL;
        }
    }
    return tuple;
}

static PyObject *dim_object(const tn_value_info *info, int i) {
    const char *text = info->dim_text[i];
    if (info->dims[i] >= 0) return PyLong_FromLongLong(info->dims[i]);
    if (!text || !text[0] || strcmp(text, "?") == 0) return Py_NewRef(Py_None);
    return py_text_from(text, strlen(text));
}

PyObject *py_info_tuple(const tn_value_info *info) {
    static const char *const kinds[] = {"tensor", "sequence", "optional", "map"};
    PyObject *shape = info->rank < 0 ? Py_NewRef(Py_None) : PyTuple_New(info->rank);
    for (int i = 0; shape && i < info->rank; i++) {
        PyObject *dim = dim_object(info, i);
        if (!dim || PyTuple_SetItem(shape, i, dim) < 0) {
            Py_DECREF(shape);
            return NULL;
        }
    }
    PyObject *name = py_text_from(info->name, info->name ? strlen(info->name) : 0);
    PyObject *tuple = NULL;
    if (shape && name)
        tuple = Py_BuildValue("(OszOOs)", name, kinds[info->kind], info->dtype ? tn_dtype_name(info->dtype) : NULL,
                              shape, info->has_default ? Py_True : Py_False, info->type ? info->type : "?");
    Py_XDECREF(name);
    Py_XDECREF(shape);
    return tuple;
}

void py_free_object(PyObject *self) {
    PyTypeObject *type = Py_TYPE(self);
    freefunc free_memory = (freefunc)PyType_GetSlot(type, Py_tp_free);
    free_memory(self);
    Py_DECREF(type);
}

PyTypeObject *py_make_type(PyObject *module, PyType_Spec *spec) {
    PyObject *type = PyType_FromModuleAndSpec(module, spec, NULL);
    const char *dot = strrchr(spec->name, '.');
    if (type && PyModule_AddObjectRef(module, dot ? dot + 1 : spec->name, type) < 0) Py_CLEAR(type);
    return (PyTypeObject *)type;
}

/* ---- contexts ------------------------------------------------------------------------------------------------- */

static PyObject *context_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"threads", NULL};
    tn_context_options options = {0};
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|i", names, &options.threads)) return NULL;
    ContextObject *self = (ContextObject *)PyType_GenericAlloc(type, 0);
    if (!self) return NULL;
    tn_status status = tn_context_create(&options, &self->context);
    if (status == TN_OK) return (PyObject *)self;
    Py_DECREF(self);
    return py_raise_status(status);
}

static void context_dealloc(PyObject *self) {
    tn_context_release(((ContextObject *)self)->context);
    py_free_object(self);
}

static PyObject *context_threads(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromLong(tn_context_threads(((ContextObject *)self)->context));
}

static PyObject *context_measure_peak(PyObject *self, PyObject *bytes) {
    tn_context *context = ((ContextObject *)self)->context;
    size_t size = PyLong_AsSize_t(bytes);
    tn_peak peak;
    tn_status status;
    if (PyErr_Occurred()) return NULL;
    Py_BEGIN_ALLOW_THREADS status = tn_measure_peak(context, size, &peak);
    Py_END_ALLOW_THREADS if (status != TN_OK) return py_raise_status(status);
    return Py_BuildValue("{s:s,s:d,s:d,s:d}", "isa", peak.isa, "flops", peak.flops, "read", peak.read, "copy",
                         peak.copy);
}

static PyMethodDef context_methods[] = {
    {"measure_peak", context_measure_peak, METH_O, "measure_peak(bytes): what the machine can do, a dict."},
    {NULL},
};
static PyGetSetDef context_fields[] = {{"threads", context_threads, NULL, "threads that compute", NULL}, {NULL}};
static PyType_Slot context_slots[] = {
    {Py_tp_doc, "Context(threads=0): a pool of threads, and where memory comes from"},
    {Py_tp_new, context_new},
    {Py_tp_dealloc, context_dealloc},
    {Py_tp_getset, context_fields},
    {Py_tp_methods, context_methods},
    {0, NULL},
};
static PyType_Spec context_spec = {"tenonrt._tenon.Context", sizeof(ContextObject), 0, Py_TPFLAGS_DEFAULT,
                                   context_slots};

/* ---- the module ----------------------------------------------------------------------------------------------- */

static PyObject *list_ops(PyObject *module, PyObject *unused) {
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < tn_n_ops(); i++) {
        tn_op_info op;
        tn_status status = tn_op(i, &op);
        if (status != TN_OK) {
            Py_DECREF(list);
            return py_raise_status(status);
        }
        PyObject *row = Py_BuildValue("(ssss)", op.domain, op.name, op.kind, op.summary);
        if (!row || PyList_Append(list, row) < 0) Py_CLEAR(list);
        Py_XDECREF(row);
    }
    return list;
}

static PyMethodDef functions[] = {
    {"set_error_types", set_error_types, METH_O, "The exception class for each status, by name."},
    {"set_handle_types", set_handle_types, METH_VARARGS, "The subclasses of Graph, Node and Value to make."},
    {"from_dlpack", py_tensor_from_dlpack, METH_VARARGS, "from_dlpack(context, capsule): a tensor over its memory."},
    {"walk_order", py_walk_order, METH_VARARGS,
     "walk_order(start, heads, descend): (kind, object, count, of) of all that a visitor meets."},
    {"set_model_type", py_set_model_type, METH_O, "The subclass of Model that passes are given."},
    {"register_pass", py_register_pass, METH_VARARGS,
     "register_pass(function, name, summary, kind, phase, order, opt_level, each_graph, per_shape, targets, excluded, "
     "kernels, required, keeps, options)"},
    {"unregister_pass", py_unregister_pass, METH_VARARGS, "unregister_pass(name)"},
    {"load_plugin", py_load_plugin, METH_VARARGS, "load_plugin(path)"},
    {"load_plugins_from_env", py_load_plugins_from_env, METH_NOARGS, "Those that TENON_PLUGINS names."},
    {"passes", py_list_passes, METH_NOARGS, "The names of all passes."},
    {"pass_info", py_pass_info, METH_VARARGS, "pass_info(name): a dict."},
    {"ops", list_ops, METH_NOARGS, "(domain, name, kind, summary) of every op."},
    {NULL},
};

static struct PyModuleDef definition = {
    PyModuleDef_HEAD_INIT,
    "_tenon",
    "The engine's handles; use the package tenonrt.",
    -1,
    functions,
    NULL,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__tenon(void) {
    PyObject *module = PyModule_Create(&definition);
    if (!module) return NULL;
    if ((py_context_type = py_make_type(module, &context_spec)) && py_tensor_init_type(module) == 0 &&
        py_model_init_type(module) == 0 && py_session_init_type(module) == 0 && py_graph_init_types(module) == 0 &&
        py_passes_init_type(module) == 0 && PyModule_AddStringConstant(module, "version", tn_version()) == 0)
        return module;
    Py_DECREF(module);
    return NULL;
}
