/* SPDX-License-Identifier: Apache-2.0 */
/* Passes written in Python: the engine calls them in whichever thread runs its passes, with the lock of the interpreter
   taken for the call. What they are given says that it is gone once they have returned. */
#include "tenon_int.h"

#include <string.h>
#include <tenon/plugin.h>

/* ---- calls of the engine during which passes run ---------------------------------------------------------------- */

static _Thread_local PassCall *current;

void py_pass_call_begin(PassCall *call, ModelObject *in_place) {
    *call = (PassCall){.in_place = in_place, .nested = in_place && in_place->optimizing, .outer = current};
    current = call;
    if (in_place) in_place->optimizing = true;
}

bool py_pass_call_end(PassCall *call, tn_status status) {
    current = call->outer;
    if (call->in_place) call->in_place->optimizing = call->nested;
    if (call->type) PyErr_Restore(call->type, call->value, call->trace);
    else if (status != TN_OK) py_raise_status(status);
    return !PyErr_Occurred();
}

int py_model_idle(ModelObject *model, bool lasting) {
    bool busy = model->optimizing || model->lent;
    if (!busy || (current && !lasting)) return 0;
    py_raise_text(TN_STATE, "passes run on the model: wait until they have ended, or use a clone of it");
    return -1;
}

/* What the exception says, for callers that are not Python; the exception itself waits for the call's end. */
static tn_status fail_with_error(const char *pass) {
    PyObject *type, *value, *trace;
    PyErr_Fetch(&type, &value, &trace);
    PyErr_NormalizeException(&type, &value, &trace);
    PyObject *text = PyObject_Repr(value ? value : Py_None);
    PyObject *bytes = text ? py_text_bytes(text) : NULL;
    tn_fail(TN_INTERNAL, "pass \"%s\" raised %s", pass, bytes ? PyBytes_AsString(bytes) : "an exception");
    PyErr_Clear();
    Py_XDECREF(bytes);
    Py_XDECREF(text);
    if (current && !current->type) {
        current->type = type;
        current->value = value;
        current->trace = trace;
        return TN_INTERNAL;
    }
    Py_XDECREF(type);
    Py_XDECREF(value);
    Py_XDECREF(trace);
    return TN_INTERNAL;
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

typedef struct RunObject {
    PyObject_HEAD tn_pass_run *run; /* NULL: it is over */
    PyObject *model;
} RunObject;

static PyTypeObject *run_type, *model_type; /* the latter is the package's own subclass, once it has named it */

static tn_pass_run *run_of(PyObject *self) {
    tn_pass_run *run = ((RunObject *)self)->run;
    if (!run) PyErr_SetString(PyExc_ReferenceError, "the pass has ended");
    return run;
}

static void run_dealloc(PyObject *self) {
    Py_XDECREF(((RunObject *)self)->model);
    py_free_object(self);
}

static PyObject *run_name(PyObject *self, void *unused) {
    (void)unused;
    const char *name = run_of(self) ? tn_pass_run_pass(run_of(self)) : NULL;
    return name ? py_text_from(name, strlen(name)) : NULL;
}

static PyObject *run_model(PyObject *self, void *unused) {
    (void)unused;
    return run_of(self) ? Py_NewRef(((RunObject *)self)->model) : NULL;
}

static PyObject *option_value(tn_pass_run *run, const tn_pass_option_info *option) {
    if (strcmp(option->kind, "int") == 0) return PyLong_FromLongLong(tn_pass_run_int(run, option->name));
    if (strcmp(option->kind, "float") == 0) return PyFloat_FromDouble(tn_pass_run_float(run, option->name));
    if (strcmp(option->kind, "bool") == 0) return PyBool_FromLong(tn_pass_run_bool(run, option->name));
    const char *text = tn_pass_run_string(run, option->name);
    return py_text_from(text, strlen(text));
}

static PyObject *run_options(PyObject *self, void *unused) {
    tn_pass_run *run = run_of(self);
    tn_pass_option_info option;
    (void)unused;
    PyObject *dict = run ? PyDict_New() : NULL;
    for (size_t i = 0; dict && tn_pass_option_at(tn_pass_run_pass(run), i, &option) == TN_OK; i++) {
        PyObject *value = option_value(run, &option);
        if (!value || PyDict_SetItemString(dict, option.name, value) < 0) Py_CLEAR(dict);
        Py_XDECREF(value);
    }
    return dict;
}

static PyObject *run_count(PyObject *self, PyObject *args) {
    const char *what;
    long long n = 1;
    if (!PyArg_ParseTuple(args, "s|L", &what, &n) || !run_of(self)) return NULL;
    return py_none_or_raise(tn_pass_run_count(run_of(self), what, n));
}

static PyObject *run_may_change(PyObject *self, PyObject *unused) {
    (void)unused;
    return run_of(self) ? PyBool_FromLong(tn_pass_run_may_change(run_of(self))) : NULL;
}

static PyMethodDef run_methods[] = {
    {"count", run_count, METH_VARARGS, "count(what, n=1): adds to a statistic of the report."},
    {"may_change", run_may_change, METH_NOARGS,
     "To be asked before each change: False when the caller's limit of changes is reached."},
    {NULL},
};
static PyGetSetDef run_fields[] = {
    {"name", run_name, NULL, "of the pass", NULL},
    {"model", run_model, NULL, "the model that it runs on", NULL},
    {"options", run_options, NULL, "a dict of their values", NULL},
    {NULL},
};
static PyType_Slot run_slots[] = {
    {Py_tp_doc, "One run of a pass, while it lasts."},
    {Py_tp_dealloc, run_dealloc},
    {Py_tp_methods, run_methods},
    {Py_tp_getset, run_fields},
    {0, NULL},
};
static PyType_Spec run_spec = {"tenonrt._tenon.PassRun", sizeof(RunObject), 0,
                               Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, run_slots};

/* ---- what the engine calls --------------------------------------------------------------------------------------- */

/* Never freed: a pass that is no longer registered may be part of what is being run. */
typedef struct Slot {
    struct Slot *next;
    PyObject *function; /* NULL: no longer registered */
    char name[];
} Slot;
static Slot *slots;

/* The caller's own model where passes run on that, else one for the time of the call. */
static ModelObject *model_for(tn_model *lent) {
    ModelObject *own = current ? current->in_place : NULL;
    if (own && tn_model_graph(own->model) == tn_model_graph(lent)) return (ModelObject *)Py_NewRef(own);
    ModelObject *made = (ModelObject *)py_model_object(model_type ? model_type : py_model_type, NULL, true);
    if (made) {
        made->model = lent;
        made->lent = true;
    }
    return made;
}

static void end_model(ModelObject *model, const tn_model *lent) {
    if (model->lent && model->model == lent) {
        py_forget_handles(model);
        model->model = NULL;
    }
    Py_DECREF(model);
}

static bool call(PyObject *function, tn_pass_run *run, tn_graph *graph, ModelObject *model) {
    PyObject *handle = py_handle_object(model, HANDLE_GRAPH, graph);
    RunObject *object = handle ? (RunObject *)PyType_GenericAlloc(run_type, 0) : NULL;
    PyObject *answer = NULL;
    if (object) {
        object->run = run;
        object->model = Py_NewRef((PyObject *)model);
        answer = PyObject_CallFunctionObjArgs(function, handle, (PyObject *)object, NULL);
        object->run = NULL;
    }
    Py_XDECREF((PyObject *)object);
    Py_XDECREF(handle);
    Py_XDECREF(answer);
    return answer != NULL;
}

static tn_status call_slot(Slot *slot, tn_pass_run *run, tn_graph *graph) {
    tn_model *lent = tn_pass_run_model(run);
    if (!slot->function) return tn_fail(TN_STATE, "pass \"%s\" is not registered any more", slot->name);
    if (!lent) return TN_OUT_OF_MEMORY;
    PyObject *function = Py_NewRef(slot->function);
    ModelObject *model = model_for(lent);
    bool done = model && call(function, run, graph, model);
    tn_status status = done ? TN_OK : fail_with_error(slot->name);
    if (model) end_model(model, lent);
    Py_DECREF(function);
    return status;
}

static tn_status run_python(tn_pass_run *run, tn_graph *graph) {
    Slot *slot = tn_pass_run_user(run);
    if (!Py_IsInitialized()) return tn_fail(TN_STATE, "pass \"%s\" is Python's, which has ended", slot->name);
    PyGILState_STATE state = PyGILState_Ensure();
    tn_status status = call_slot(slot, run, graph);
    PyGILState_Release(state);
    return status;
}

/* ---- registering -------------------------------------------------------------------------------------------------- */

static bool read_options(PyObject *list, tn_pass_desc *desc) {
    Py_ssize_t n = PyTuple_Size(list);
    const Py_ssize_t most = sizeof desc->options / sizeof *desc->options;
    if (n > most) PyErr_Format(PyExc_ValueError, "a pass may have at most %zd options", most);
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
        tn_pass_option_info *o = &desc->options[i];
        PyArg_ParseTuple(PyTuple_GetItem(list, i), "sss", &o->name, &o->kind, &o->preset);
    }
    return !PyErr_Occurred();
}

PyObject *py_register_pass(PyObject *module, PyObject *args) {
    PyObject *function, *options;
    int kind, phase, each_graph, per_shape;
    tn_pass_desc desc = {.size = sizeof desc, .run = run_python};
    (void)module;
    if (!PyArg_ParseTuple(args, "OssiiiippsssssO!", &function, &desc.name, &desc.summary, &kind, &phase, &desc.order,
                          &desc.opt_level, &each_graph, &per_shape, &desc.targets, &desc.excluded, &desc.kernels,
                          &desc.required, &desc.keeps, &PyTuple_Type, &options) ||
        !read_options(options, &desc))
        return NULL;
    Slot *slot = PyMem_Malloc(sizeof *slot + strlen(desc.name) + 1);
    if (!slot) return PyErr_NoMemory();
    *slot = (Slot){.next = slots, .function = Py_NewRef(function)};
    memcpy(slot->name, desc.name, strlen(desc.name) + 1);
    desc.kind = (tn_pass_kind)kind;
    desc.phase = (tn_phase)phase;
    desc.each_graph = each_graph;
    desc.per_shape = per_shape;
    desc.user = slot;
    tn_status status = tn_register_pass(&desc);
    if (status != TN_OK) {
        Py_DECREF(function);
        PyMem_Free(slot);
        return py_raise_status(status);
    }
    slots = slot;
    Py_RETURN_NONE;
}

static bool same_name(const char *a, const char *b) {
    for (; *a && *b; a++, b++)
        if (*a != *b && !(strchr("-_", *a) && strchr("-_", *b))) return false;
    return *a == *b;
}

PyObject *py_unregister_pass(PyObject *module, PyObject *args) {
    const char *name;
    (void)module;
    if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
    tn_status status = tn_unregister_pass(name);
    for (Slot *slot = slots; status == TN_OK && slot; slot = slot->next)
        if (same_name(slot->name, name)) Py_CLEAR(slot->function);
    return py_none_or_raise(status);
}

PyObject *py_load_plugin(PyObject *module, PyObject *args) {
    PyObject *path;
    tn_status status;
    (void)module;
    if (!PyArg_ParseTuple(args, "O&", PyUnicode_FSConverter, &path)) return NULL;
    const char *bytes = PyBytes_AsString(path);
    Py_BEGIN_ALLOW_THREADS status = tn_load_plugin(bytes);
    Py_END_ALLOW_THREADS Py_DECREF(path);
    return py_none_or_raise(status);
}

PyObject *py_load_plugins_from_env(PyObject *module, PyObject *unused) {
    tn_status status;
    (void)module;
    (void)unused;
    Py_BEGIN_ALLOW_THREADS status = tn_load_plugins_from_env();
    Py_END_ALLOW_THREADS return py_none_or_raise(status);
}

PyObject *py_set_model_type(PyObject *module, PyObject *type) {
    PyObject *old = (PyObject *)model_type;
    (void)module;
    if (!PyType_Check(type)) return PyErr_Format(PyExc_TypeError, "a type is wanted");
    model_type = (PyTypeObject *)Py_NewRef(type);
    Py_XDECREF(old);
    Py_RETURN_NONE;
}

int py_passes_init_type(PyObject *module) { return (run_type = py_make_type(module, &run_spec)) ? 0 : -1; }
