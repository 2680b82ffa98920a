/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the extension module share: the objects behind Python's handles, errors, conversions. */
#ifndef TENONRT_TENON_INT_H
#define TENONRT_TENON_INT_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <tenon/graph.h>
#include <tenon/passes.h>

typedef struct ContextObject {
    PyObject_HEAD tn_context *context;
} ContextObject;

typedef struct TensorObject {
    PyObject_HEAD tn_tensor *tensor;
    bool readonly; /* the memory is a model's, or was given as read-only */
} TensorObject;

/* Handles of its graphs, nodes and values are found by address, so that equal handles are one object and an erased
   node's handles can be told. The table does not own them: a handle leaves it when it dies. */
typedef struct ModelObject {
    PyObject_HEAD tn_model *model; /* NULL: it was a pass's, which has ended */
    PyObject *handles;             /* dict: address -> address of the HandleObject */
    Py_ssize_t users;              /* sessions, and calls under way during which the model may not change */
    bool changed;                  /* since types were found last */
    bool optimizing;               /* passes run on it */
    bool lent;                     /* to a pass, for the time that it runs */
} ModelObject;

typedef struct SessionObject {
    PyObject_HEAD tn_session *session;
    ModelObject *model;
    bool running;
} SessionObject;

typedef enum HandleKind { HANDLE_GRAPH, HANDLE_NODE, HANDLE_VALUE, HANDLE_KINDS } HandleKind;

/* A graph, a node or a value. */
typedef struct HandleObject {
    PyObject_HEAD ModelObject *model;
    void *handle; /* NULL: the model it was part of was given up */
    HandleKind kind;
} HandleObject;

/* ---- module.c ------------------------------------------------------------------------------------------------- */

extern PyTypeObject *py_context_type, *py_tensor_type, *py_model_type, *py_session_type;
extern PyTypeObject *py_handle_types[HANDLE_KINDS]; /* the package's own subclasses, once it has named them */

/* Raises the package's exception for this status, with what tn_last_error says on this thread. Always NULL. */
PyObject *py_raise_status(tn_status status);
/* The same in these words. */
PyObject *py_raise_text(tn_status status, const char *text);
/* NULL with the exception set, or None. */
PyObject *py_none_or_raise(tn_status status);
/* A str from bytes that need not be UTF-8: they come back the same through py_text_bytes. */
PyObject *py_text_from(const char *text, size_t length);
/* A new bytes object of a str or bytes. */
PyObject *py_text_bytes(PyObject *text);
/* The str that `text` holds, which it frees. */
PyObject *py_take_text(char *text);
/* For the release function of memory that `user`, a Python object, keeps alive. */
void py_release_object(void *user, void *data, size_t size);
int py_dtype_from(PyObject *name, tn_dtype *dtype);          /* from "f32"; -1 with the exception set */
int py_dims_from(PyObject *shape, int *rank, int64_t *dims); /* from a sequence of ints, None is -1; -1 likewise */
PyObject *py_dims_tuple(int rank, const int64_t *dims);
/* (name, kind, dtype, shape, has_default, type): shape is None or a tuple of int, str (a symbol) or None. */
PyObject *py_info_tuple(const tn_value_info *info);
/* Frees the object and drops its type's reference, as types made at run time need. */
void py_free_object(PyObject *self);
PyTypeObject *py_make_type(PyObject *module, PyType_Spec *spec);

/* ---- tensor.c, dlpack.c --------------------------------------------------------------------------------------- */

int py_tensor_init_type(PyObject *module);
PyObject *py_tensor_object(tn_tensor *tensor, bool readonly); /* takes the tensor over, also when it fails */
/* A tensor over the memory of an object with __array_struct__ (an array of numpy's) that is dense, aligned and of native
   byte order. dtype TN_UNDEFINED: the array's own; else its elements are taken as the bits of that type. With `keep` the
   tensor keeps the array alive; without, the caller has to. NULL with the exception set. */
tn_tensor *py_tensor_from_array(tn_context *context, PyObject *array, tn_dtype dtype, bool keep, bool *readonly);
PyObject *py_tensor_from_dlpack(PyObject *module, PyObject *args);
PyObject *py_tensor_dlpack(PyObject *self, PyObject *args, PyObject *kwargs);
PyObject *py_tensor_dlpack_device(PyObject *self, PyObject *unused);

/* ---- model.c, graph.c, change.c, session.c, visit.c, mutate.c ------------------------------------------------------ */

int py_model_init_type(PyObject *module);
int py_session_init_type(PyObject *module);
int py_graph_init_types(PyObject *module);

/* The one handle object of this graph, node or value; None for NULL. */
PyObject *py_handle_object(ModelObject *model, HandleKind kind, void *handle);
/* -1 with the exception set when the object is no such handle, or is erased. */
int py_handle_check(PyObject *object, HandleKind kind);
static inline HandleObject *handle_of(PyObject *object) { return (HandleObject *)object; }
/* Makes all handles of the model say that they are erased: its memory is gone. */
void py_forget_handles(ModelObject *model);
/* Paths of a tuple of them, whose strings it keeps; to be freed in any case. False with the exception set. */
typedef struct PathList {
    tn_path *list;
    size_t n;
} PathList;
bool py_paths_read(PyObject *tuple, PathList *out);
void py_paths_free(PathList *paths);
/* -1 with the exception set when there is no model any more. */
int py_model_check(ModelObject *model);
/* -1 with the exception set while a session of the model lives, or it is walked or rebuilt. */
int py_model_writable(ModelObject *model);
/* Takes the model over, also when it fails. A NULL one is to be set later. */
PyObject *py_model_object(PyTypeObject *type, tn_model *model, bool changed);
/* The value that an argument stands for: NULL for None. -1 with the exception set for others, and for values of another
   model. */
int py_value_from(PyObject *object, ModelObject *model, tn_value **value);

extern PyMethodDef py_graph_changes[], py_node_changes[], py_value_changes[];
PyObject *py_node_get_attr(PyObject *self, PyObject *name);
PyObject *py_node_set_attr(PyObject *self, PyObject *args);
PyObject *py_walk_order(PyObject *module, PyObject *args);
PyObject *py_model_rebuild(PyObject *self, PyObject *args);

/* ---- passes.c, pass_list.c -------------------------------------------------------------------------------------- */

/* Around each call of the engine in which passes may run, so that their exceptions come out of it; with the lock of the
   interpreter held. */
typedef struct PassCall {
    ModelObject *in_place; /* the model that they run on; NULL: a copy */
    bool nested;           /* in a pass on the same model */
    PyObject *type, *value, *trace;
    struct PassCall *outer;
} PassCall;
void py_pass_call_begin(PassCall *call, ModelObject *in_place);
bool py_pass_call_end(PassCall *call, tn_status status); /* false with the exception set */

/* Settings as the package gives them: None, or a tuple of pipeline, opt level (-1: default), what is added, what is
   disabled, whether to verify each, and the limits of passes and changes. False with the exception set. */
typedef struct PassSettings {
    bool given;
    tn_pass_settings settings;
    const char **added, **disabled;
} PassSettings;
bool py_pass_settings(PyObject *from, PassSettings *out);
void py_pass_settings_free(PassSettings *settings);

/* -1 with the exception set while passes run on the model: it is theirs then. What does not outlast a pass may be done from
   within one. */
int py_model_idle(ModelObject *model, bool lasting);

PyObject *py_register_pass(PyObject *module, PyObject *args);
PyObject *py_unregister_pass(PyObject *module, PyObject *args);
PyObject *py_load_plugin(PyObject *module, PyObject *args);
PyObject *py_load_plugins_from_env(PyObject *module, PyObject *unused);
PyObject *py_set_model_type(PyObject *module, PyObject *type);
PyObject *py_list_passes(PyObject *module, PyObject *unused);
PyObject *py_pass_info(PyObject *module, PyObject *args);
PyObject *py_model_run_passes(PyObject *self, PyObject *args);
PyObject *py_model_optimize(PyObject *self, PyObject *args);
int py_passes_init_type(PyObject *module);

#endif
