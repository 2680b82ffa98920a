/* SPDX-License-Identifier: Apache-2.0 */
/* Which passes run on a model, and what they did: settings from Python, reports for it. */
#include "tenon_int.h"

#include <string.h>

/* ---- what there is ------------------------------------------------------------------------------------------------ */

PyObject *py_list_passes(PyObject *module, PyObject *unused) {
    tn_pass_info info;
    (void)module;
    (void)unused;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && tn_pass_at(i, &info) == TN_OK; i++) {
        PyObject *name = py_text_from(info.name, strlen(info.name));
        if (!name || PyList_Append(list, name) < 0) Py_CLEAR(list);
        Py_XDECREF(name);
    }
    return list;
}

static PyObject *option_list(const char *name) {
    tn_pass_option_info o;
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && tn_pass_option_at(name, i, &o) == TN_OK; i++) {
        PyObject *item = Py_BuildValue("(ssss)", o.name, o.kind, o.preset, o.help);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

PyObject *py_pass_info(PyObject *module, PyObject *args) {
    static const char *const kinds[] = {"program", "stmt", "debug"};
    const char *name;
    tn_pass_info i;
    (void)module;
    if (!PyArg_ParseTuple(args, "s", &name)) return NULL;
    tn_status status = tn_pass_find(name, &i);
    if (status != TN_OK) return py_raise_status(status);
    PyObject *options = option_list(i.name);
    return options ? Py_BuildValue("{s:s,s:s,s:s,s:s,s:i,s:i,s:N}", "name", i.name, "summary", i.summary, "kind",
                                   kinds[i.kind], "phase", tn_phase_name(i.phase), "order", i.order, "opt_level",
                                   i.opt_level, "options", options)
                   : NULL;
}

/* ---- settings ----------------------------------------------------------------------------------------------------- */

/* The texts belong to the objects of the tuple. */
static const char **text_array(PyObject *tuple, size_t *n) {
    *n = (size_t)PyTuple_Size(tuple);
    const char **texts = PyMem_Calloc(*n + 1, sizeof *texts);
    if (!texts) PyErr_NoMemory();
    for (size_t i = 0; texts && i < *n; i++) {
        if ((texts[i] = PyUnicode_AsUTF8AndSize(PyTuple_GetItem(tuple, (Py_ssize_t)i), NULL))) continue;
        PyMem_Free(texts);
        return NULL;
    }
    return texts;
}

bool py_pass_settings(PyObject *from, PassSettings *out) {
    PyObject *added, *disabled;
    int level, verify, accuracy = TN_ACCURACY_NORMAL;
    unsigned long long changes, passes;
    *out = (PassSettings){.given = from != Py_None};
    if (!out->given) return true;
    tn_pass_settings *s = &out->settings;
    if (!PyArg_ParseTuple(from, "ziO!O!pKK|zi", &s->pipeline, &level, &PyTuple_Type, &added, &PyTuple_Type, &disabled,
                          &verify, &passes, &changes, &s->lowering, &accuracy))
        return false;
    s->opt_level = (tn_opt_level)(level < 0 ? TN_OPT_DEFAULT : TN_OPT_0 + level);
    s->verify_each = verify;
    s->accuracy = (tn_accuracy)accuracy;
    s->max_passes = passes;
    s->max_changes = changes;
    out->added = text_array(added, &s->n_added);
    out->disabled = out->added ? text_array(disabled, &s->n_disabled) : NULL;
    s->added = out->added;
    s->disabled = out->disabled;
    if (out->disabled) return true;
    py_pass_settings_free(out);
    return false;
}

void py_pass_settings_free(PassSettings *settings) {
    PyMem_Free(settings->added);
    PyMem_Free(settings->disabled);
    settings->added = settings->disabled = NULL;
}

/* ---- reports ------------------------------------------------------------------------------------------------------ */

static PyObject *counts_dict(const tn_pass_record *r) {
    PyObject *dict = PyDict_New();
    for (size_t i = 0; dict && i < r->n_counts; i++) {
        PyObject *n = PyLong_FromLongLong(r->counts[i].n);
        if (!n || PyDict_SetItemString(dict, r->counts[i].what, n) < 0) Py_CLEAR(dict);
        Py_XDECREF(n);
    }
    return dict;
}

/* The members of the package's PassRecord, in its order. */
static PyObject *record_tuple(const tn_pass_record *r) {
    static const char *const outcomes[] = {"ran", "not applicable", "disabled", "up to date", "beyond limit", "failed"};
    PyObject *counts = counts_dict(r);
    if (!counts) return NULL;
    return Py_BuildValue("(sssiKssOKnnKKN)", r->pass, r->text, tn_phase_name(r->phase), r->depth,
                         (unsigned long long)r->number, outcomes[r->outcome], r->why, r->changed ? Py_True : Py_False,
                         (unsigned long long)r->nanoseconds, (Py_ssize_t)r->nodes_before, (Py_ssize_t)r->nodes_after,
                         (unsigned long long)r->bytes, (unsigned long long)r->n_changes, counts);
}

static PyObject *record_list(const tn_pass_report *report) {
    PyObject *list = PyList_New(0);
    for (size_t i = 0; list && i < tn_pass_report_size(report); i++) {
        tn_pass_record record;
        tn_status status = tn_pass_report_at(report, i, &record);
        PyObject *item = status == TN_OK ? record_tuple(&record) : py_raise_status(status);
        if (!item || PyList_Append(list, item) < 0) Py_CLEAR(list);
        Py_XDECREF(item);
    }
    return list;
}

static bool has_changed(const tn_pass_report *report) {
    tn_pass_record record;
    for (size_t i = 0; i < tn_pass_report_size(report); i++)
        if (tn_pass_report_at(report, i, &record) == TN_OK && record.changed) return true;
    return false;
}

/* ---- on models ---------------------------------------------------------------------------------------------------- */

/* With the lock of the interpreter held all along: no other thread may see the model while it changes. */
PyObject *py_model_run_passes(PyObject *self, PyObject *args) {
    ModelObject *model = (ModelObject *)self;
    PyObject *given;
    PassSettings settings;
    PassCall call;
    tn_pass_report *report = NULL;
    if (!PyArg_ParseTuple(args, "O", &given) || py_model_check(model) < 0 || py_model_writable(model) < 0 ||
        py_model_idle(model, false) < 0 || !py_pass_settings(given, &settings))
        return NULL;
    py_pass_call_begin(&call, model);
    tn_status status = tn_model_run_passes(model->model, settings.given ? &settings.settings : NULL, &report);
    if (status != TN_OK || has_changed(report)) model->changed = true;
    PyObject *list = py_pass_call_end(&call, status) ? record_list(report) : NULL;
    tn_pass_report_release(report);
    py_pass_settings_free(&settings);
    return list;
}

PyObject *py_model_optimize(PyObject *self, PyObject *args) {
    ModelObject *model = (ModelObject *)self;
    PyObject *given, *result = NULL;
    PassSettings settings;
    PassCall call;
    tn_pass_report *report = NULL;
    tn_model *better = NULL;
    tn_status status;
    if (!PyArg_ParseTuple(args, "O", &given) || py_model_check(model) < 0 || py_model_idle(model, false) < 0 ||
        !py_pass_settings(given, &settings))
        return NULL;
    const tn_pass_settings *wanted = settings.given ? &settings.settings : NULL;
    py_pass_call_begin(&call, NULL);
    model->users++;
    Py_BEGIN_ALLOW_THREADS status = tn_model_optimize(model->model, wanted, &better, &report);
    Py_END_ALLOW_THREADS model->users--;
    if (py_pass_call_end(&call, status)) {
        PyObject *made = py_model_object(Py_TYPE(self), better, false);
        PyObject *list = made ? record_list(report) : NULL;
        result = list ? PyTuple_Pack(2, made, list) : NULL;
        Py_XDECREF(list);
        Py_XDECREF(made);
    }
    tn_pass_report_release(report);
    py_pass_settings_free(&settings);
    return result;
}
