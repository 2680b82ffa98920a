/* SPDX-License-Identifier: Apache-2.0 */
/* Models: reading, writing, printing, checking. */
#include "tenon_int.h"

#include <string.h>

static tn_model *model_of(PyObject *self) { return ((ModelObject *)self)->model; }

int py_model_check(ModelObject *model) {
    if (model->model) return 0;
    if (!model->lent) py_raise_text(TN_STATE, "the model is NULL as long as it is being built");
    else PyErr_SetString(PyExc_ReferenceError, "the model was that of a pass, and the pass has ended");
    return -1;
}

int py_model_writable(ModelObject *model) {
    if (model->users == 0) return 0;
    py_raise_text(
        TN_STATE,
        "the model is in use by a session, a walk or a mutator and cannot be changed; delete the session first");
    return -1;
}

PyObject *py_model_object(PyTypeObject *type, tn_model *model, bool changed) {
    ModelObject *self = (ModelObject *)PyType_GenericAlloc(type, 0);
    if (!self) {
        tn_model_release(model);
        return NULL;
    }
    self->model = model;
    self->changed = changed;
    if (!(self->handles = PyDict_New())) Py_CLEAR(self);
    return (PyObject *)self;
}

static PyObject *model_object(PyObject *class, tn_model *model, bool changed) {
    return py_model_object((PyTypeObject *)class, model, changed);
}

static void model_dealloc(PyObject *self) {
    Py_XDECREF(((ModelObject *)self)->handles);
    tn_model_release(model_of(self));
    py_free_object(self);
}

/* ---- making ---------------------------------------------------------------------------------------------------- */

static PyObject *model_read_file(PyObject *class, PyObject *args) {
    ContextObject *context;
    PyObject *path;
    tn_model *model;
    tn_status status;
    if (!PyArg_ParseTuple(args, "O!O&", py_context_type, &context, PyUnicode_FSConverter, &path)) return NULL;
    const char *bytes = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS status = tn_model_load(context->context, bytes, &model);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    return status == TN_OK ? model_object(class, model, false) : py_raise_status(status);
}

static PyObject *model_read_bytes(PyObject *class, PyObject *args) {
    ContextObject *context;
    PyObject *bytes, *folder = NULL;
    tn_model *model;
    tn_status status;
    char *data;
    Py_ssize_t size;
    if (!PyArg_ParseTuple(args, "O!S|O&", py_context_type, &context, &bytes, PyUnicode_FSConverter, &folder))
        return NULL;
    if (PyBytes_AsStringAndSize(bytes, &data, &size) < 0) return NULL;
    const char *beneath = folder ? PyBytes_AsString(folder) : NULL;
    Py_INCREF(bytes); /* released by the engine, also when it fails */
    Py_BEGIN_ALLOW_THREADS status = tn_model_load_memory(context->context, data, (size_t)size, beneath,
                                                         py_release_object, bytes, &model);
    Py_END_ALLOW_THREADS Py_XDECREF(folder);
    return status == TN_OK ? model_object(class, model, false) : py_raise_status(status);
}

static PyObject *model_create(PyObject *class, PyObject *args) {
    ContextObject *context;
    const char *name;
    tn_model *model;
    if (!PyArg_ParseTuple(args, "O!s", py_context_type, &context, &name)) return NULL;
    tn_status status = tn_model_new(context->context, name, &model);
    return status == TN_OK ? model_object(class, model, true) : py_raise_status(status);
}

static PyObject *model_parse_text(PyObject *class, PyObject *args) {
    ContextObject *context;
    PyObject *text;
    tn_model *model;
    if (!PyArg_ParseTuple(args, "O!O", py_context_type, &context, &text)) return NULL;
    PyObject *bytes = py_text_bytes(text);
    if (!bytes) return NULL;
    tn_status status = tn_model_from_text(context->context, PyBytes_AsString(bytes), &model);
    Py_DECREF(bytes);
    return status == TN_OK ? model_object(class, model, false) : py_raise_status(status);
}

/* ---- using ----------------------------------------------------------------------------------------------------- */

static PyObject *model_save(PyObject *self, PyObject *args) {
    PyObject *path;
    tn_status status;
    if (py_model_check((ModelObject *)self) < 0 || py_model_idle((ModelObject *)self, false) < 0 ||
        !PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path))
        return NULL;
    const char *bytes = PyBytes_AsString(path);
    ((ModelObject *)self)->users++;
    Py_BEGIN_ALLOW_THREADS status = tn_model_save(model_of(self), bytes);
    Py_END_ALLOW_THREADS((ModelObject *)self)->users--;
    Py_DECREF(path);
    return py_none_or_raise(status);
}

static PyObject *model_clone(PyObject *self, PyObject *unused) {
    ModelObject *model = (ModelObject *)self;
    tn_model *copy;
    tn_status status;
    (void)unused;
    if (py_model_check(model) < 0 || py_model_idle(model, false) < 0) return NULL;
    model->users++;
    Py_BEGIN_ALLOW_THREADS status = tn_model_clone(model->model, &copy);
    Py_END_ALLOW_THREADS model->users--;
    return status == TN_OK ? py_model_object(Py_TYPE(self), copy, model->changed) : py_raise_status(status);
}

/* False with the exception set. */
static bool read_names(PyObject *tuple, const char **names, size_t *n) {
    *n = (size_t)PyTuple_Size(tuple);
    for (size_t i = 0; i < *n; i++)
        if (!(names[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, (Py_ssize_t)i), NULL))) return false;
    return true;
}

/* Two lists of names, on one block of memory, and how ops are run. */
static bool read_path(PyObject *tuple, tn_path *path) {
    PyObject *from, *to;
    if (!PyTuple_Check(tuple) ||
        !PyArg_ParseTuple(tuple, "O!O!|z", &PyTuple_Type, &from, &PyTuple_Type, &to, &path->lowering)) {
        if (!PyErr_Occurred()) PyErr_SetString(PyExc_TypeError, "a path is a pair of tuples of names");
        return false;
    }
    Py_ssize_t n_from = PyTuple_Size(from);
    const char **names = PyMem_Calloc((size_t)(n_from + PyTuple_Size(to) + 1), sizeof *names);
    if (!names) return PyErr_NoMemory() != NULL;
    path->inputs = names;
    path->outputs = names + n_from;
    return read_names(from, names, &path->n_inputs) && read_names(to, names + n_from, &path->n_outputs);
}

bool py_paths_read(PyObject *tuple, PathList *out) {
    out->n = (size_t)PyTuple_Size(tuple);
    out->list = PyMem_Calloc(out->n + 1, sizeof *out->list);
    bool ready = out->list || PyErr_NoMemory();
    for (size_t i = 0; ready && i < out->n; i++)
        ready = read_path(PyTuple_GetItem(tuple, (Py_ssize_t)i), &out->list[i]);
    return ready;
}

void py_paths_free(PathList *paths) {
    for (size_t i = 0; paths->list && i < paths->n; i++) PyMem_Free((void *)paths->list[i].inputs);
    PyMem_Free(paths->list);
}

static PyObject *model_extract(PyObject *self, PyObject *args) {
    PyObject *list;
    PathList paths;
    tn_model *part = NULL;
    if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &list) || py_model_check((ModelObject *)self) < 0) return NULL;
    bool ready = py_paths_read(list, &paths);
    tn_status status = ready ? tn_model_extract(model_of(self), paths.list, paths.n, &part) : TN_OK;
    py_paths_free(&paths);
    if (status != TN_OK) return py_raise_status(status);
    return ready ? py_model_object(Py_TYPE(self), part, false) : NULL;
}

static PyObject *model_text(PyObject *self, PyObject *unused) {
    char *text;
    (void)unused;
    if (py_model_check((ModelObject *)self) < 0) return NULL;
    tn_status status = tn_model_text(model_of(self), &text);
    return status == TN_OK ? py_take_text(text) : py_raise_status(status);
}

static PyObject *model_dot(PyObject *self, PyObject *unused) {
    char *text;
    (void)unused;
    if (py_model_check((ModelObject *)self) < 0) return NULL;
    tn_status status = tn_model_dot(model_of(self), &text);
    return status == TN_OK ? py_take_text(text) : py_raise_status(status);
}

static PyObject *model_verify(PyObject *self, PyObject *unused) {
    (void)unused;
    return py_model_check((ModelObject *)self) < 0 ? NULL : py_none_or_raise(tn_model_verify(model_of(self)));
}

static PyObject *model_infer(PyObject *self, PyObject *unused) {
    ModelObject *model = (ModelObject *)self;
    (void)unused;
    if (py_model_check(model) < 0 || py_model_writable(model) < 0) return NULL;
    tn_status status = tn_model_infer(model->model);
    if (status == TN_OK) model->changed = false;
    return py_none_or_raise(status);
}

typedef tn_status (*InfoFn)(const tn_model *model, size_t i, tn_value_info *info);

static PyObject *infos(const tn_model *model, size_t n, InfoFn ask) {
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        tn_value_info info;
        tn_status status = ask(model, i, &info);
        PyObject *tuple = status == TN_OK ? py_info_tuple(&info) : py_raise_status(status);
        if (!tuple || PyList_SetItem(list, (Py_ssize_t)i, tuple) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *model_inputs(PyObject *self, PyObject *unused) {
    (void)unused;
    if (py_model_check((ModelObject *)self) < 0) return NULL;
    return infos(model_of(self), tn_model_n_inputs(model_of(self)), tn_model_input);
}

static PyObject *model_outputs(PyObject *self, PyObject *unused) {
    (void)unused;
    if (py_model_check((ModelObject *)self) < 0) return NULL;
    return infos(model_of(self), tn_model_n_outputs(model_of(self)), tn_model_output);
}

static PyObject *model_metadata(PyObject *self, void *unused) {
    const tn_model *model = model_of(self);
    (void)unused;
    PyObject *dict = py_model_check((ModelObject *)self) < 0 ? NULL : PyDict_New();
    for (size_t i = 0; dict && i < tn_model_n_metadata(model); i++) {
        const char *key, *value;
        tn_status status = tn_model_metadata_at(model, i, &key, &value);
        PyObject *k = status == TN_OK ? py_text_from(key, strlen(key)) : py_raise_status(status);
        PyObject *v = k ? py_text_from(value, value ? strlen(value) : 0) : NULL;
        if (!v || PyDict_SetItem(dict, k, v) < 0) Py_CLEAR(dict);
        Py_XDECREF(k);
        Py_XDECREF(v);
    }
    return dict;
}

static PyObject *model_graph(PyObject *self, void *unused) {
    (void)unused;
    if (py_model_check((ModelObject *)self) < 0) return NULL;
    return py_handle_object((ModelObject *)self, HANDLE_GRAPH, tn_model_graph(model_of(self)));
}

static PyObject *model_changed(PyObject *self, void *unused) {
    (void)unused;
    return PyBool_FromLong(((ModelObject *)self)->changed);
}

static PyMethodDef model_methods[] = {
    {"read_file", model_read_file, METH_VARARGS | METH_CLASS, "read_file(context, path)"},
    {"read_bytes", model_read_bytes, METH_VARARGS | METH_CLASS, "read_bytes(context, bytes, folder=None)"},
    {"create", model_create, METH_VARARGS | METH_CLASS, "create(context, name): an empty one"},
    {"parse_text", model_parse_text, METH_VARARGS | METH_CLASS, "parse_text(context, text)"},
    {"save", model_save, METH_VARARGS, "save(path): .onnx or .tn"},
    {"text", model_text, METH_NOARGS, "The model as text; large constants are elided."},
    {"dot", model_dot, METH_NOARGS, "The model for Graphviz."},
    {"verify", model_verify, METH_NOARGS, "Checks every rule of the IR."},
    {"infer", model_infer, METH_NOARGS, "Finds types and shapes of all values anew."},
    {"inputs", model_inputs, METH_NOARGS, "(name, kind, dtype, shape, has_default, type) of each input."},
    {"outputs", model_outputs, METH_NOARGS, "The same of each output."},
    {"clone", model_clone, METH_NOARGS, "A copy that shares the constants' memory."},
    {"extract", model_extract, METH_VARARGS,
     "extract(paths): a part as a model of its own. A path is (names where it begins, names where it ends)."},
    {"optimize", py_model_optimize, METH_VARARGS, "optimize(settings): (a better model, what the passes did)"},
    {"run_passes", py_model_run_passes, METH_VARARGS, "run_passes(settings): on the model itself; what they did"},
    {"rebuild", py_model_rebuild, METH_VARARGS,
     "rebuild(node, input, graph, location, type): what a mutator makes of it"},
    {NULL},
};
static PyGetSetDef model_fields[] = {
    {"graph", model_graph, NULL, "the main graph", NULL},
    {"metadata", model_metadata, NULL, "a dict of str", NULL},
    {"changed", model_changed, NULL, "whether infer() is due", NULL},
    {NULL},
};
static PyType_Slot model_slots[] = {
    {Py_tp_doc, "A model."},
    {Py_tp_dealloc, model_dealloc},
    {Py_tp_methods, model_methods},
    {Py_tp_getset, model_fields},
    {0, NULL},
};
static PyType_Spec model_spec = {"tenonrt._tenon.Model", sizeof(ModelObject), 0,
                                 Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_DISALLOW_INSTANTIATION,
                                 model_slots};

int py_model_init_type(PyObject *module) { return (py_model_type = py_make_type(module, &model_spec)) ? 0 : -1; }
