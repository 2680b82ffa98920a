/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the extension module share: the objects behind Python's handles, errors, conversions. */
#ifndef TENONRT_TENON_INT_H
#define TENONRT_TENON_INT_H

#define PY_SSIZE_T_CLEAN
#define Py_LIMITED_API 0x030A0000
#include <Python.h>

#include <tenon/graph.h>

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
    PyObject_HEAD tn_model *model;
    PyObject *handles; /* dict: address -> address of the HandleObject */
    Py_ssize_t users;  /* sessions, and calls under way without the lock: the model may not change */
    bool changed;      /* since types were found last */
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
    void *handle; /* NULL: erased */
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

/* ---- model.c, graph.c, change.c, session.c, visit.c ------------------------------------------------------------ */

int py_model_init_type(PyObject *module);
int py_session_init_type(PyObject *module);
int py_graph_init_types(PyObject *module);

/* The one handle object of this graph, node or value; None for NULL. */
PyObject *py_handle_object(ModelObject *model, HandleKind kind, void *handle);
/* -1 with the exception set when the object is no such handle, or is erased. */
int py_handle_check(PyObject *object, HandleKind kind);
static inline HandleObject *handle_of(PyObject *object) { return (HandleObject *)object; }
/* -1 with the exception set while a session of the model lives. */
int py_model_writable(ModelObject *model);

extern PyMethodDef py_graph_changes[], py_node_changes[], py_value_changes[];
PyObject *py_node_get_attr(PyObject *self, PyObject *name);
PyObject *py_node_set_attr(PyObject *self, PyObject *args);
PyObject *py_visit_order(PyObject *self, PyObject *unused);

#endif
