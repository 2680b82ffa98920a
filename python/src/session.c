/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions: one runs at a time; the package keeps a few for each InferenceSession. */
#include "tenon_int.h"

#include <string.h>

static tn_session *session_of(PyObject *self) { return ((SessionObject *)self)->session; }

/* ---- making ---------------------------------------------------------------------------------------------------- */

/* False with the exception set. */
static bool create(ModelObject *model, tn_session_options options, PyObject *passes, tn_session **session) {
    PassSettings settings;
    PassCall call;
    tn_status status;
    if (!py_pass_settings(passes, &settings)) return false;
    if (settings.given) options.passes = &settings.settings;
    py_pass_call_begin(&call, NULL);
    model->users++;
    Py_BEGIN_ALLOW_THREADS status = tn_session_create(model->model, &options, session);
    Py_END_ALLOW_THREADS model->users--;
    bool done = py_pass_call_end(&call, status);
    py_pass_settings_free(&settings);
    return done;
}

static bool read_outputs(PyObject *tuple, const char ***names, size_t *n) {
    *n = tuple ? (size_t)PyTuple_Size(tuple) : 0;
    if (!(*names = PyMem_Calloc(*n + 1, sizeof **names))) return PyErr_NoMemory() != NULL;
    for (size_t i = 0; i < *n; i++)
        if (!((*names)[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, (Py_ssize_t)i), NULL))) return false;
    return true;
}

static PyObject *session_new(PyTypeObject *type, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"model", "outputs", "max_plans", "passes", "tuning_file", "tune", "paths", NULL};
    ModelObject *model;
    PyObject *outputs = NULL, *passes = Py_None, *list = NULL;
    tn_session_options options = {0};
    PathList paths = {0};
    const char **names = NULL;
    int tune = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!|O!iOzpO!", words, py_model_type, &model, &PyTuple_Type, &outputs,
                                     &options.max_plans, &passes, &options.tuning_file, &tune, &PyTuple_Type, &list) ||
        py_model_check(model) < 0 || py_model_idle(model, true) < 0)
        return NULL;
    SessionObject *self = (SessionObject *)PyType_GenericAlloc(type, 0);
    options.tune = tune;
    bool ready = self && read_outputs(outputs, &names, &options.n_outputs) && (!list || py_paths_read(list, &paths));
    options.outputs = names;
    options.paths = paths.list;
    options.n_paths = paths.n;
    ready = ready && create(model, options, passes, &self->session);
    py_paths_free(&paths);
    PyMem_Free(names);
    if (!ready) {
        Py_XDECREF(self);
        return NULL;
    }
    self->model = (ModelObject *)Py_NewRef(model);
    model->users++;
    return (PyObject *)self;
}

static void session_dealloc(PyObject *object) {
    SessionObject *self = (SessionObject *)object;
    tn_session *session = self->session;
    /* It waits for whoever makes another session of the model, which may wait for Python to run a pass. */
    Py_BEGIN_ALLOW_THREADS tn_session_release(session);
    Py_END_ALLOW_THREADS if (self->model) self->model->users--;
    Py_XDECREF(self->model);
    py_free_object(object);
}

/* ---- running --------------------------------------------------------------------------------------------------- */

/* One run's tensors. Those made here for the call are released after it; the arrays behind them live in `inputs`. */
typedef struct Call {
    Py_ssize_t n_in, n_out;
    const tn_tensor **in;
    tn_tensor **made, **out;
    bool *given;
    tn_context *context;
} Call;

static int call_init(Call *c, ContextObject *context, PyObject *inputs, PyObject *outputs, size_t n_out) {
    *c = (Call){.n_in = PyTuple_Size(inputs), .n_out = (Py_ssize_t)n_out, .context = context->context};
    c->in = PyMem_Calloc((size_t)c->n_in + 1, sizeof *c->in);
    c->made = PyMem_Calloc((size_t)c->n_in + 1, sizeof *c->made);
    c->out = PyMem_Calloc(n_out + 1, sizeof *c->out);
    c->given = PyMem_Calloc(n_out + 1, sizeof *c->given);
    if (!c->in || !c->made || !c->out || !c->given) {
        PyErr_NoMemory();
        return -1;
    }
    if (outputs != Py_None && PyTuple_Size(outputs) != c->n_out) {
        if (!PyErr_Occurred()) PyErr_Format(PyExc_ValueError, "there are %zd outputs", c->n_out);
        return -1;
    }
    return 0;
}

static void call_free(Call *c) {
    for (Py_ssize_t i = 0; c->made && i < c->n_in; i++) tn_tensor_release(c->made[i]);
    for (Py_ssize_t i = 0; c->out && i < c->n_out; i++)
        if (c->given && !c->given[i]) tn_tensor_release(c->out[i]);
    PyMem_Free(c->in);
    PyMem_Free(c->made);
    PyMem_Free(c->out);
    PyMem_Free(c->given);
}

static int call_bind(Call *c, PyObject *inputs, PyObject *outputs) {
    for (Py_ssize_t i = 0; i < c->n_in; i++) {
        PyObject *item = PyTuple_GetItem(inputs, i);
        if (item == Py_None) continue;
        if (PyObject_TypeCheck(item, py_tensor_type)) {
            c->in[i] = ((TensorObject *)item)->tensor;
            continue;
        }
        if (!(c->made[i] = py_tensor_from_array(c->context, item, TN_UNDEFINED, false, NULL))) return -1;
        c->in[i] = c->made[i];
    }
    for (Py_ssize_t i = 0; outputs != Py_None && i < c->n_out; i++) {
        PyObject *item = PyTuple_GetItem(outputs, i);
        if (item == Py_None) continue;
        if (!PyObject_TypeCheck(item, py_tensor_type) || ((TensorObject *)item)->readonly) {
            PyErr_SetString(PyExc_TypeError, "an output has to be a tensor that may be written");
            return -1;
        }
        c->out[i] = ((TensorObject *)item)->tensor;
        c->given[i] = true;
    }
    return 0;
}

static PyObject *call_results(Call *c, PyObject *outputs) {
    PyObject *list = PyList_New(c->n_out);
    for (Py_ssize_t i = 0; list && i < c->n_out; i++) {
        tn_tensor *result = c->out[i];
        if (!c->given[i]) c->out[i] = NULL; /* the object's now */
        PyObject *object = c->given[i] ? Py_NewRef(PyTuple_GetItem(outputs, i))
                           : result    ? py_tensor_object(result, false)
                                       : Py_NewRef(Py_None); /* the session keeps it */
        if (!object || PyList_SetItem(list, i, object) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *session_run(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *words[] = {"context", "inputs", "outputs", "timeout_ns", "profile", NULL};
    SessionObject *self = (SessionObject *)object;
    ContextObject *context;
    PyObject *inputs, *outputs = Py_None, *results = NULL;
    unsigned long long timeout = 0;
    int profile = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "O!O!|OKp", words, py_context_type, &context, &PyTuple_Type, &inputs,
                                     &outputs, &timeout, &profile))
        return NULL;
    if (self->running) return py_raise_text(TN_STATE, "the session is running in another thread");
    self->running = true;
    Call call;
    if (call_init(&call, context, inputs, outputs, tn_session_n_outputs(self->session)) == 0 &&
        call_bind(&call, inputs, outputs) == 0) {
        tn_run_options options = {.timeout_ns = timeout, .profile = profile};
        tn_status status;
        PassCall passes; /* those that run for each set of sizes */
        py_pass_call_begin(&passes, NULL);
        Py_BEGIN_ALLOW_THREADS status = tn_session_run(self->session, &options, call.in, (size_t)call.n_in, call.out,
                                                       (size_t)call.n_out);
        Py_END_ALLOW_THREADS results = py_pass_call_end(&passes, status) ? call_results(&call, outputs) : NULL;
    }
    call_free(&call);
    self->running = false;
    return results;
}

static PyObject *session_resize(PyObject *self, PyObject *args) {
    PyObject *list;
    tn_shape shapes[64];
    int64_t dims[64][TN_MAX_RANK];
    if (!PyArg_ParseTuple(args, "O!", &PyTuple_Type, &list)) return NULL;
    Py_ssize_t n = PyTuple_Size(list);
    if (n > 64) return PyErr_Format(PyExc_ValueError, "%zd shapes are too many", n);
    if (((SessionObject *)self)->running) return py_raise_text(TN_STATE, "the session is running in another thread");
    for (Py_ssize_t i = 0; i < n; i++) {
        PyObject *shape = PyTuple_GetItem(list, i);
        shapes[i] = (tn_shape){-1, NULL};
        if (shape == Py_None) continue;
        if (py_dims_from(shape, &shapes[i].rank, dims[i]) < 0) return NULL;
        shapes[i].dims = dims[i];
    }
    PassCall passes;
    tn_session *session = session_of(self);
    tn_status status;
    ((SessionObject *)self)->running = true;
    py_pass_call_begin(&passes, NULL);
    Py_BEGIN_ALLOW_THREADS status = tn_session_resize(session, shapes, (size_t)n);
    Py_END_ALLOW_THREADS((SessionObject *)self)->running = false;
    return py_pass_call_end(&passes, status) ? Py_NewRef(Py_None) : NULL;
}

static PyObject *session_bind_state(PyObject *self, PyObject *args) {
    const char *past, *present;
    long long capacity = 0;
    if (!PyArg_ParseTuple(args, "ss|L", &past, &present, &capacity)) return NULL;
    tn_status status = tn_session_bind_state(session_of(self), past, present, capacity);
    return status == TN_OK ? Py_NewRef(Py_None) : py_raise_status(status);
}

static PyObject *session_reset_state(PyObject *self, PyObject *unused) {
    (void)unused;
    tn_status status = tn_session_reset_state(session_of(self));
    return status == TN_OK ? Py_NewRef(Py_None) : py_raise_status(status);
}

static PyObject *session_set_shape_mode(PyObject *self, PyObject *args) {
    static const char *const modes[] = {"free", "traced", "fixed"};
    const char *name;
    if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
    for (int i = 0; i < 3; i++) {
        if (strcmp(name, modes[i]) != 0) continue;
        tn_status status = tn_session_set_shape_mode(session_of(self), (tn_shape_mode)i);
        return status == TN_OK ? Py_NewRef(Py_None) : py_raise_status(status);
    }
    return PyErr_Format(PyExc_ValueError, "a shape mode is \"free\", \"traced\" or \"fixed\", not \"%s\"", name);
}

static PyObject *session_update_tuning(PyObject *self, PyObject *args) {
    const char *path = NULL;
    if (!PyArg_ParseTuple(args, "|z", &path)) return NULL;
    tn_status status = tn_session_update_tuning(session_of(self), path);
    return status == TN_OK ? Py_NewRef(Py_None) : py_raise_status(status);
}

static PyObject *session_cancel(PyObject *self, PyObject *unused) {
    (void)unused;
    tn_session_cancel(session_of(self));
    Py_RETURN_NONE;
}

/* ---- asking ---------------------------------------------------------------------------------------------------- */

static PyObject *session_info(PyObject *self, PyObject *unused) {
    static const char *const resized[] = {"needed", "done", "failed"};
    tn_session_info i;
    (void)unused;
    tn_status status = tn_session_get_info(session_of(self), &i);
    if (status != TN_OK) return py_raise_status(status);
    return Py_BuildValue(
        "{s:n,s:n,s:O,s:d,s:K,s:K,s:K,s:K,s:K,s:K,s:K,s:s,s:s,s:n,s:n,s:n,s:n}", "n_instructions",
        (Py_ssize_t)i.n_instructions, "n_segments", (Py_ssize_t)i.n_segments, "planned", i.planned ? Py_True : Py_False,
        "flops", i.flops, "weight_bytes", (unsigned long long)i.weight_bytes, "arena_bytes",
        (unsigned long long)i.arena_bytes, "bound_bytes", (unsigned long long)i.bound_bytes, "plain_bytes",
        (unsigned long long)i.plain_bytes, "allocated_bytes", (unsigned long long)i.allocated_bytes, "moved_bytes",
        (unsigned long long)i.moved_bytes, "moves_bytes", (unsigned long long)i.moves_bytes, "resize",
        resized[i.resize_status], "resize_error", i.resize_error, "n_plans", (Py_ssize_t)i.n_plans, "n_stay",
        (Py_ssize_t)i.n_stay, "n_tuned", (Py_ssize_t)i.n_tuned, "n_measured", (Py_ssize_t)i.n_measured);
}

static PyObject *session_instructions(PyObject *self, PyObject *unused) {
    tn_session_info whole;
    (void)unused;
    tn_status status = tn_session_get_info(session_of(self), &whole);
    if (status != TN_OK) return py_raise_status(status);
    PyObject *list = PyList_New((Py_ssize_t)whole.n_instructions);
    for (size_t i = 0; list && i < whole.n_instructions; i++) {
        tn_instruction_info info;
        status = tn_session_instruction(session_of(self), i, &info);
        PyObject *dims = status != TN_OK ? py_raise_status(status)
                         : info.rank < 0 ? Py_NewRef(Py_None)
                                         : py_dims_tuple(info.rank, info.dims);
        PyObject *row = NULL;
        if (dims)
            row = Py_BuildValue("{s:s,s:s,s:s,s:s,s:O,s:z,s:N,s:d,s:K,s:K,s:K,s:K}", "node", info.node, "op", info.op,
                                "kernel", info.kernel, "way", info.way, "tuned", info.tuned ? Py_True : Py_False,
                                "dtype", info.dtype ? tn_dtype_name(info.dtype) : NULL, "shape", dims, "flops",
                                info.flops, "nanoseconds", (unsigned long long)info.nanoseconds, "bytes_read",
                                (unsigned long long)info.bytes_read, "bytes_written",
                                (unsigned long long)info.bytes_written, "moved_bytes",
                                (unsigned long long)info.moved_bytes);
        if (!row || PyList_SetItem(list, (Py_ssize_t)i, row) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyMethodDef session_methods[] = {
    {"run", (PyCFunction)(void (*)(void))session_run, METH_VARARGS | METH_KEYWORDS,
     "run(context, inputs, outputs=None, timeout_ns=0, profile=False): a list of tensors. Inputs are arrays, tensors or "
     "None; outputs tensors to fill or None."},
    {"resize", session_resize, METH_VARARGS, "resize(shapes): plans for them; None keeps the declared shape."},
    {"bind_state", session_bind_state, METH_VARARGS,
     "bind_state(past, present, capacity=0): that output is that input of the next run, and is None in a run's results."},
    {"reset_state", session_reset_state, METH_NOARGS, "The next run begins anew."},
    {"set_shape_mode", session_set_shape_mode, METH_VARARGS,
     "set_shape_mode(mode): \"traced\" notes what stays the same from size to size, \"fixed\" relies on it, \"free\"."},
    {"update_tuning", session_update_tuning, METH_VARARGS,
     "update_tuning(path=None): adds what was measured to a tuning file."},
    {"cancel", session_cancel, METH_NOARGS, "Ends the run under way, from another thread."},
    {"info", session_info, METH_NOARGS, "Memory, FLOPs, instructions."},
    {"instructions", session_instructions, METH_NOARGS, "What runs each op, and how long it took when profiled."},
    {NULL},
};
static PyType_Slot session_slots[] = {
    {Py_tp_doc,
     "Session(model, outputs=(), max_plans=0, passes=None, tuning_file=None, tune=False): one plan and its memory."},
    {Py_tp_new, session_new},
    {Py_tp_dealloc, session_dealloc},
    {Py_tp_methods, session_methods},
    {0, NULL},
};
static PyType_Spec session_spec = {"tenonrt._tenon.Session", sizeof(SessionObject), 0, Py_TPFLAGS_DEFAULT,
                                   session_slots};

int py_session_init_type(PyObject *module) { return (py_session_type = py_make_type(module, &session_spec)) ? 0 : -1; }
