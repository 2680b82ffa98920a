/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors: over numpy's memory and under numpy's arrays, without copies. numpy is met through __array_struct__, the
   protocol in which it describes memory, so that no version of its C interface is compiled in. */
#include "tenon_int.h"

#include <string.h>

/* ---- numpy's description of memory ---------------------------------------------------------------------------- */

/* PyArrayInterface, "The array interface protocol" of numpy's manual. */
typedef struct ArrayInterface {
    int two; /* 2 */
    int nd;
    char typekind;
    int itemsize;
    int flags;
    Py_ssize_t *shape, *strides;
    void *data;
    PyObject *descr;
} ArrayInterface;

enum { ARRAY_C_CONTIGUOUS = 0x1, ARRAY_ALIGNED = 0x100, ARRAY_NOTSWAPPED = 0x200, ARRAY_WRITEABLE = 0x400 };

/* In the order of tn_dtype; those that numpy lacks show the bits of an element, or of packed elements. */
static const struct {
    tn_dtype dtype;
    char kind;
    int size;
} layouts[] = {
    {TN_F32, 'f', 4}, {TN_U8, 'u', 1},  {TN_I8, 'i', 1},   {TN_U16, 'u', 2},   {TN_I16, 'i', 2},
    {TN_I32, 'i', 4}, {TN_I64, 'i', 8}, {TN_BOOL, 'b', 1}, {TN_F16, 'f', 2},   {TN_F64, 'f', 8},
    {TN_U32, 'u', 4}, {TN_U64, 'u', 8}, {TN_C64, 'c', 8},  {TN_C128, 'c', 16}, {TN_BF16, 'u', 2},
};

static tn_dtype dtype_of_layout(char kind, int size) {
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++)
        if (layouts[i].kind == kind && layouts[i].size == size && layouts[i].dtype != TN_BF16) return layouts[i].dtype;
    return TN_UNDEFINED;
}

static void layout_of_dtype(tn_dtype dtype, char *kind, int *size) {
    *kind = 'u';
    *size = 1;
    for (size_t i = 0; i < sizeof layouts / sizeof *layouts; i++) {
        if (layouts[i].dtype != dtype) continue;
        *kind = layouts[i].kind;
        *size = layouts[i].size;
    }
}

/* ---- in ------------------------------------------------------------------------------------------------------- */

static int read_interface(PyObject *array, PyObject **capsule, const ArrayInterface **interface) {
    *capsule = PyObject_GetAttrString(array, "__array_struct__");
    if (!*capsule) return -1;
    *interface = PyCapsule_GetPointer(*capsule, NULL);
    if (!*interface) {
        Py_CLEAR(*capsule);
        return -1;
    }
    return 0;
}

static tn_tensor *wrap_interface(tn_context *context, PyObject *array, const ArrayInterface *a, tn_dtype dtype,
                                 bool keep) {
    int need = ARRAY_C_CONTIGUOUS | ARRAY_ALIGNED | ARRAY_NOTSWAPPED;
    if (a->two != 2 || (a->flags & need) != need || a->nd > TN_MAX_RANK) {
        PyErr_SetString(PyExc_ValueError,
                        "the array is not dense, aligned and of native byte order, or has too many dimensions");
        return NULL;
    }
    int64_t dims[TN_MAX_RANK];
    size_t bytes = (size_t)a->itemsize;
    for (int i = 0; i < a->nd; i++) {
        dims[i] = a->shape[i];
        bytes *= (size_t)a->shape[i];
    }
    if (dtype == TN_UNDEFINED && (dtype = dtype_of_layout(a->typekind, a->itemsize)) == TN_UNDEFINED) {
        PyErr_Format(PyExc_TypeError, "arrays of kind '%c' and %d bytes an element have no counterpart", a->typekind,
                     a->itemsize);
        return NULL;
    }
    tn_tensor *tensor = NULL;
    if (keep) Py_INCREF(array);
    tn_status status = tn_tensor_wrap(context, dtype, a->nd, dims, a->data, bytes, keep ? py_release_object : NULL,
                                      array, &tensor);
    if (status == TN_OK) return tensor;
    if (keep) Py_DECREF(array); /* on failure the memory stays the caller's */
    py_raise_status(status);
    return NULL;
}

tn_tensor *py_tensor_from_array(tn_context *context, PyObject *array, tn_dtype dtype, bool keep, bool *readonly) {
    PyObject *capsule;
    const ArrayInterface *interface;
    if (read_interface(array, &capsule, &interface) < 0) return NULL;
    tn_tensor *tensor = wrap_interface(context, array, interface, dtype, keep);
    if (readonly) *readonly = !(interface->flags & ARRAY_WRITEABLE);
    Py_DECREF(capsule);
    return tensor;
}

PyObject *py_tensor_object(tn_tensor *tensor, bool readonly) {
    TensorObject *self = (TensorObject *)PyType_GenericAlloc(py_tensor_type, 0);
    if (!self) {
        tn_tensor_release(tensor);
        return NULL;
    }
    self->tensor = tensor;
    self->readonly = readonly;
    return (PyObject *)self;
}

static PyObject *tensor_wrap(PyObject *class, PyObject *args) {
    ContextObject *context;
    PyObject *array, *name = Py_None;
    tn_dtype dtype = TN_UNDEFINED;
    bool readonly;
    (void)class;
    if (!PyArg_ParseTuple(args, "O!O|O", py_context_type, &context, &array, &name)) return NULL;
    if (name != Py_None && py_dtype_from(name, &dtype) < 0) return NULL;
    tn_tensor *tensor = py_tensor_from_array(context->context, array, dtype, true, &readonly);
    return tensor ? py_tensor_object(tensor, readonly) : NULL;
}

static PyObject *tensor_create(PyObject *class, PyObject *args) {
    ContextObject *context;
    PyObject *name, *shape;
    tn_dtype dtype;
    int rank;
    int64_t dims[TN_MAX_RANK];
    tn_tensor *tensor;
    (void)class;
    if (!PyArg_ParseTuple(args, "O!OO", py_context_type, &context, &name, &shape)) return NULL;
    if (py_dtype_from(name, &dtype) < 0 || py_dims_from(shape, &rank, dims) < 0) return NULL;
    tn_status status = tn_tensor_create(context->context, dtype, rank, dims, &tensor);
    return status == TN_OK ? py_tensor_object(tensor, false) : py_raise_status(status);
}

/* A whole tensor of packed elements from the bytes that hold them. */
static PyObject *tensor_packed(PyObject *class, PyObject *args) {
    ContextObject *context;
    PyObject *name, *shape;
    const char *bytes;
    Py_ssize_t n;
    (void)class;
    if (!PyArg_ParseTuple(args, "O!OOy#", py_context_type, &context, &name, &shape, &bytes, &n)) return NULL;
    PyObject *rest = Py_BuildValue("(OOO)", (PyObject *)context, name, shape);
    PyObject *made = rest ? tensor_create(NULL, rest) : NULL;
    Py_XDECREF(rest);
    if (!made) return NULL;
    tn_tensor *tensor = ((TensorObject *)made)->tensor;
    if (tn_tensor_dtype(tensor) != TN_STRING && tn_tensor_bytes(tensor) == (size_t)n) {
        if (n > 0) memcpy(tn_tensor_data(tensor), bytes, (size_t)n);
        return made;
    }
    Py_DECREF(made);
    return PyErr_Format(PyExc_ValueError, "%zd bytes are not what the shape takes", n);
}

static int set_strings(tn_tensor *tensor, PyObject *items) {
    for (int64_t i = 0; i < tn_tensor_count(tensor); i++) {
        PyObject *item = PySequence_GetItem(items, (Py_ssize_t)i);
        PyObject *bytes = item ? py_text_bytes(item) : NULL;
        char *text;
        Py_ssize_t length;
        tn_status status = TN_OK;
        if (bytes && PyBytes_AsStringAndSize(bytes, &text, &length) == 0)
            status = tn_tensor_set_string(tensor, i, text, (size_t)length);
        Py_XDECREF(bytes);
        Py_XDECREF(item);
        if (status != TN_OK) py_raise_status(status);
        if (PyErr_Occurred()) return -1;
    }
    return 0;
}

static PyObject *tensor_strings(PyObject *class, PyObject *args) {
    ContextObject *context;
    PyObject *shape, *items;
    int rank;
    int64_t dims[TN_MAX_RANK];
    tn_tensor *tensor;
    (void)class;
    if (!PyArg_ParseTuple(args, "O!OO", py_context_type, &context, &shape, &items)) return NULL;
    if (py_dims_from(shape, &rank, dims) < 0) return NULL;
    tn_status status = tn_tensor_create(context->context, TN_STRING, rank, dims, &tensor);
    if (status != TN_OK) return py_raise_status(status);
    if (set_strings(tensor, items) == 0) return py_tensor_object(tensor, false);
    tn_tensor_release(tensor);
    return NULL;
}

static PyObject *tensor_from_items(PyObject *class, PyObject *args) {
    static const char *const kinds[] = {"tensor", "sequence", "optional", "map"};
    ContextObject *context;
    const char *kind;
    PyObject *items;
    (void)class;
    if (!PyArg_ParseTuple(args, "O!sO!", py_context_type, &context, &kind, &PyTuple_Type, &items)) return NULL;
    Py_ssize_t n = PyTuple_Size(items);
    const tn_tensor **tensors = PyMem_Calloc((size_t)n + 1, sizeof *tensors);
    if (!tensors) return PyErr_NoMemory();
    tn_value_kind which = TN_TENSOR;
    for (int i = 1; i < 4; i++)
        if (strcmp(kind, kinds[i]) == 0) which = (tn_value_kind)i;
    for (Py_ssize_t i = 0; i < n && !PyErr_Occurred(); i++) {
        PyObject *item = PyTuple_GetItem(items, i);
        if (PyObject_TypeCheck(item, py_tensor_type)) tensors[i] = ((TensorObject *)item)->tensor;
        else PyErr_SetString(PyExc_TypeError, "the items have to be tensors");
    }
    tn_tensor *tensor = NULL;
    tn_status status = TN_OK;
    if (!PyErr_Occurred()) status = tn_tensor_from_items(context->context, which, tensors, (size_t)n, &tensor);
    PyMem_Free(tensors);
    if (status != TN_OK) return py_raise_status(status);
    return tensor ? py_tensor_object(tensor, false) : NULL;
}

/* ---- out ------------------------------------------------------------------------------------------------------ */

static const tn_tensor *tensor_of(PyObject *self) { return ((TensorObject *)self)->tensor; }

/* A list of str; rows as in memory. */
static PyObject *tensor_get_strings(PyObject *self, PyObject *unused) {
    const tn_tensor *tensor = tensor_of(self);
    int64_t n = tn_tensor_count(tensor);
    (void)unused;
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (int64_t i = 0; list && i < n; i++) {
        const char *text;
        size_t length;
        tn_status status = tn_tensor_get_string(tensor, i, &text, &length);
        PyObject *item = status == TN_OK ? py_text_from(text, length) : py_raise_status(status);
        if (!item || PyList_SetItem(list, (Py_ssize_t)i, item) < 0) Py_CLEAR(list);
    }
    return list;
}

static PyObject *tensor_items(PyObject *self, PyObject *unused) {
    size_t n = tn_tensor_n_items(tensor_of(self));
    (void)unused;
    PyObject *list = PyList_New((Py_ssize_t)n);
    for (size_t i = 0; list && i < n; i++) {
        tn_tensor *item;
        tn_status status = tn_tensor_item(tensor_of(self), i, &item);
        PyObject *object = status == TN_OK ? py_tensor_object(item, ((TensorObject *)self)->readonly)
                                           : py_raise_status(status);
        if (!object || PyList_SetItem(list, (Py_ssize_t)i, object) < 0) Py_CLEAR(list);
    }
    return list;
}

static void free_interface(PyObject *capsule) {
    ArrayInterface *a = PyCapsule_GetPointer(capsule, NULL);
    Py_XDECREF((PyObject *)PyCapsule_GetContext(capsule));
    PyMem_Free(a);
}

/* Packed elements show as one row of bytes. */
static PyObject *tensor_array_struct(PyObject *self, void *unused) {
    static int64_t nothing[2];
    const tn_tensor *tensor = tensor_of(self);
    tn_dtype dtype = tn_tensor_dtype(tensor);
    int bits = tn_dtype_bits(dtype), rank = bits < 8 ? 1 : tn_tensor_rank(tensor);
    (void)unused;
    if (dtype == TN_STRING || dtype == TN_UNDEFINED)
        return PyErr_Format(PyExc_AttributeError, "tensors of %s are not plain memory", tn_dtype_name(dtype));
    struct {
        ArrayInterface a;
        Py_ssize_t shape[TN_MAX_RANK], strides[TN_MAX_RANK];
    } *memory = PyMem_Calloc(1, sizeof *memory);
    if (!memory) return PyErr_NoMemory();
    ArrayInterface *a = &memory->a;
    *a = (ArrayInterface){.two = 2, .nd = rank, .shape = memory->shape, .strides = memory->strides};
    layout_of_dtype(dtype, &a->typekind, &a->itemsize);
    a->flags = ARRAY_C_CONTIGUOUS | ARRAY_ALIGNED | ARRAY_NOTSWAPPED |
               (((TensorObject *)self)->readonly ? 0 : ARRAY_WRITEABLE);
    for (int i = 0; i < rank; i++)
        memory->shape[i] = (Py_ssize_t)(bits < 8 ? (int64_t)tn_tensor_bytes(tensor) : tn_tensor_dims(tensor)[i]);
    Py_ssize_t stride = a->itemsize;
    for (int i = rank; i-- > 0; stride *= memory->shape[i]) memory->strides[i] = stride;
    a->data = tn_tensor_data(tensor) ? tn_tensor_data(tensor) : nothing;
    PyObject *capsule = PyCapsule_New(memory, NULL, free_interface);
    if (!capsule) {
        PyMem_Free(memory);
        return NULL;
    }
    PyCapsule_SetContext(capsule, Py_NewRef(self));
    return capsule;
}

static PyObject *tensor_dtype(PyObject *self, void *unused) {
    (void)unused;
    return PyUnicode_FromString(tn_dtype_name(tn_tensor_dtype(tensor_of(self))));
}

static PyObject *tensor_kind(PyObject *self, void *unused) {
    static const char *const kinds[] = {"tensor", "sequence", "optional", "map"};
    (void)unused;
    return PyUnicode_FromString(kinds[tn_tensor_kind(tensor_of(self))]);
}

static PyObject *tensor_shape(PyObject *self, void *unused) {
    (void)unused;
    return py_dims_tuple(tn_tensor_rank(tensor_of(self)), tn_tensor_dims(tensor_of(self)));
}

static PyObject *tensor_nbytes(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromSize_t(tn_tensor_bytes(tensor_of(self)));
}

static PyObject *tensor_address(PyObject *self, void *unused) {
    (void)unused;
    return PyLong_FromVoidPtr(tn_tensor_data(tensor_of(self)));
}

static void tensor_dealloc(PyObject *self) {
    tn_tensor_release(((TensorObject *)self)->tensor);
    py_free_object(self);
}

static PyMethodDef tensor_methods[] = {
    {"wrap", tensor_wrap, METH_VARARGS | METH_STATIC, "wrap(context, array, dtype=None): over the array's memory."},
    {"create", tensor_create, METH_VARARGS | METH_STATIC, "create(context, dtype, shape): of zeros."},
    {"packed", tensor_packed, METH_VARARGS | METH_STATIC, "packed(context, dtype, shape, bytes): a copy of the bytes."},
    {"strings", tensor_strings, METH_VARARGS | METH_STATIC, "strings(context, shape, items)"},
    {"from_items", tensor_from_items, METH_VARARGS | METH_STATIC, "from_items(context, kind, tensors)"},
    {"get_strings", tensor_get_strings, METH_NOARGS, "The elements of a tensor of strings, as a list of str."},
    {"items", tensor_items, METH_NOARGS, "What a sequence, optional or map holds."},
    {"__dlpack__", (PyCFunction)(void (*)(void))py_tensor_dlpack, METH_VARARGS | METH_KEYWORDS, "DLPack's capsule."},
    {"__dlpack_device__", py_tensor_dlpack_device, METH_NOARGS, "(1, 0): the processor's memory."},
    {NULL},
};
static PyGetSetDef tensor_fields[] = {
    {"dtype", tensor_dtype, NULL, "\"f32\"", NULL},
    {"kind", tensor_kind, NULL, "\"tensor\", \"sequence\", \"optional\" or \"map\"", NULL},
    {"shape", tensor_shape, NULL, "a tuple", NULL},
    {"nbytes", tensor_nbytes, NULL, NULL, NULL},
    {"data_ptr", tensor_address, NULL, "where the elements lie", NULL},
    {"__array_struct__", tensor_array_struct, NULL, "numpy's description of the memory", NULL},
    {NULL},
};
static PyType_Slot tensor_slots[] = {
    {Py_tp_doc, "Memory with a type and a shape."},
    {Py_tp_dealloc, tensor_dealloc},
    {Py_tp_methods, tensor_methods},
    {Py_tp_getset, tensor_fields},
    {0, NULL},
};
static PyType_Spec tensor_spec = {"tenonrt._tenon.Tensor", sizeof(TensorObject), 0,
                                  Py_TPFLAGS_DEFAULT | Py_TPFLAGS_DISALLOW_INSTANTIATION, tensor_slots};

int py_tensor_init_type(PyObject *module) { return (py_tensor_type = py_make_type(module, &tensor_spec)) ? 0 : -1; }
