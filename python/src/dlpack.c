/* SPDX-License-Identifier: Apache-2.0 */
/* DLPack: tensors of other libraries as ours and ours as theirs, over the same memory. */
#include "tenon_int.h"

#include <stdlib.h>

/* ---- dlpack.h, version 1.1: the layout is the protocol --------------------------------------------------------- */

typedef struct DLDevice {
    int32_t type, id;
} DLDevice;
typedef struct DLDataType {
    uint8_t code, bits;
    uint16_t lanes;
} DLDataType;
typedef struct DLTensor {
    void *data;
    DLDevice device;
    int32_t ndim;
    DLDataType dtype;
    int64_t *shape, *strides;
    uint64_t byte_offset;
} DLTensor;
typedef struct DLManagedTensor {
    DLTensor dl;
    void *user;
    void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;
typedef struct DLManagedTensorVersioned {
    uint32_t major, minor;
    void *user;
    void (*deleter)(struct DLManagedTensorVersioned *self);
    uint64_t flags;
    DLTensor dl;
} DLManagedTensorVersioned;

enum { DL_CPU = 1, DL_READ_ONLY = 1 };

static const struct {
    tn_dtype dtype;
    uint8_t code, bits;
} codes[] = {
    {TN_I8, 0, 8},        {TN_I16, 0, 16},        {TN_I32, 0, 32},    {TN_I64, 0, 64},        {TN_U8, 1, 8},
    {TN_U16, 1, 16},      {TN_U32, 1, 32},        {TN_U64, 1, 64},    {TN_F16, 2, 16},        {TN_F32, 2, 32},
    {TN_F64, 2, 64},      {TN_BF16, 4, 16},       {TN_C64, 5, 64},    {TN_C128, 5, 128},      {TN_BOOL, 6, 8},
    {TN_F8E4M3FN, 10, 8}, {TN_F8E4M3FNUZ, 11, 8}, {TN_F8E5M2, 12, 8}, {TN_F8E5M2FNUZ, 13, 8}, {TN_F8E8M0, 14, 8},
};
#define N_CODES (sizeof codes / sizeof *codes)

/* ---- out ------------------------------------------------------------------------------------------------------- */

/* Both forms of the managed tensor, and what they point at. */
typedef struct Exported {
    DLManagedTensor old;
    DLManagedTensorVersioned new;
    int64_t shape[TN_MAX_RANK], strides[TN_MAX_RANK];
    tn_tensor *tensor;
} Exported;

/* Called by whoever has taken the tensor over, with Python's lock or without: nothing here needs it. */
static void export_free(Exported *e) {
    tn_tensor_release(e->tensor);
    free(e);
}

static void delete_old(DLManagedTensor *managed) { export_free(managed->user); }
static void delete_new(DLManagedTensorVersioned *managed) { export_free(managed->user); }

/* A capsule that nobody has taken over still has its first name. */
static void drop_old(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor")) delete_old(PyCapsule_GetPointer(capsule, "dltensor"));
}

static void drop_new(PyObject *capsule) {
    if (PyCapsule_IsValid(capsule, "dltensor_versioned"))
        delete_new(PyCapsule_GetPointer(capsule, "dltensor_versioned"));
}

static int describe(const tn_tensor *tensor, Exported *e, DLTensor *dl) {
    *dl = (DLTensor){.data = tn_tensor_data(tensor), .device = {DL_CPU, 0}, .ndim = tn_tensor_rank(tensor)};
    for (size_t i = 0; i < N_CODES; i++)
        if (codes[i].dtype == tn_tensor_dtype(tensor)) dl->dtype = (DLDataType){codes[i].code, codes[i].bits, 1};
    if (dl->dtype.lanes == 0) {
        PyErr_Format(PyExc_BufferError, "DLPack has no name for tensors of %s", tn_dtype_name(tn_tensor_dtype(tensor)));
        return -1;
    }
    int64_t stride = 1;
    for (int i = dl->ndim; i-- > 0; stride *= e->shape[i]) {
        e->shape[i] = tn_tensor_dims(tensor)[i];
        e->strides[i] = stride;
    }
    dl->shape = e->shape;
    dl->strides = e->strides;
    return 0;
}

static PyObject *export(TensorObject *self, bool versioned) {
    Exported *e = calloc(1, sizeof *e);
    if (!e) return PyErr_NoMemory();
    if (describe(self->tensor, e, versioned ? &e->new.dl : &e->old.dl) < 0) {
        free(e);
        return NULL;
    }
    e->old.user = e->new.user = e;
    e->old.deleter = delete_old;
    e->new.deleter = delete_new;
    e->new.major = 1;
    e->new.minor = 1;
    e->new.flags = self->readonly ? DL_READ_ONLY : 0;
    e->tensor = tn_tensor_retain(self->tensor);
    PyObject *capsule = versioned ? PyCapsule_New(&e->new, "dltensor_versioned", drop_new)
                                  : PyCapsule_New(&e->old, "dltensor", drop_old);
    if (!capsule) export_free(e);
    return capsule;
}

PyObject *py_tensor_dlpack(PyObject *object, PyObject *args, PyObject *kwargs) {
    static char *names[] = {"stream", "max_version", "dl_device", "copy", NULL};
    TensorObject *self = (TensorObject *)object;
    PyObject *stream = Py_None, *version = Py_None, *device = Py_None, *copy = Py_None;
    int major = 0, minor = 0, type = DL_CPU, id = 0;
    if (!PyArg_ParseTupleAndKeywords(args, kwargs, "|$OOOO", names, &stream, &version, &device, &copy)) return NULL;
    if (version != Py_None && !PyArg_ParseTuple(version, "ii", &major, &minor)) return NULL;
    if (device != Py_None && !PyArg_ParseTuple(device, "ii", &type, &id)) return NULL;
    if (stream != Py_None || type != DL_CPU || copy == Py_True)
        return PyErr_Format(PyExc_BufferError, "tensors are shared on the processor only, without a stream or a copy");
    if (major < 1 && self->readonly)
        return PyErr_Format(PyExc_BufferError, "this memory is read-only, which only DLPack 1.0 can say");
    return export(self, major >= 1);
}

PyObject *py_tensor_dlpack_device(PyObject *self, PyObject *unused) {
    (void)self;
    (void)unused;
    return Py_BuildValue("(ii)", DL_CPU, 0);
}

/* ---- in -------------------------------------------------------------------------------------------------------- */

static bool is_dense(const DLTensor *dl) {
    int64_t stride = 1;
    for (int i = dl->ndim; dl->strides && i-- > 0; stride *= dl->shape[i])
        if (dl->shape[i] != 1 && dl->strides[i] != stride) return false;
    return true;
}

static void release_old(void *user, void *data, size_t size) {
    (void)data;
    (void)size;
    if (!Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    DLManagedTensor *managed = user;
    if (managed->deleter) managed->deleter(managed);
    PyGILState_Release(state);
}

static void release_new(void *user, void *data, size_t size) {
    (void)data;
    (void)size;
    if (!Py_IsInitialized()) return;
    PyGILState_STATE state = PyGILState_Ensure();
    DLManagedTensorVersioned *managed = user;
    if (managed->deleter) managed->deleter(managed);
    PyGILState_Release(state);
}

static tn_tensor *import(tn_context *context, const DLTensor *dl, void *user, void (*release)(void *, void *, size_t)) {
    tn_dtype dtype = TN_UNDEFINED;
    for (size_t i = 0; i < N_CODES; i++)
        if (codes[i].code == dl->dtype.code && codes[i].bits == dl->dtype.bits && dl->dtype.lanes == 1)
            dtype = codes[i].dtype;
    if (dl->device.type != DL_CPU || dtype == TN_UNDEFINED || dl->ndim < 0 || dl->ndim > TN_MAX_RANK || !is_dense(dl)) {
        PyErr_SetString(PyExc_BufferError,
                        "the tensor is not on the processor, not dense, or of a type that Tenon lacks");
        return NULL;
    }
    size_t bytes = (size_t)tn_dtype_bits(dtype) / 8;
    for (int i = 0; i < dl->ndim; i++) bytes *= (size_t)dl->shape[i];
    tn_tensor *tensor;
    char *data = dl->data ? (char *)dl->data + dl->byte_offset : NULL;
    tn_status status = tn_tensor_wrap(context, dtype, dl->ndim, dl->shape, data, bytes, release, user, &tensor);
    if (status == TN_OK) return tensor;
    py_raise_status(status);
    return NULL;
}

PyObject *py_tensor_from_dlpack(PyObject *module, PyObject *args) {
    ContextObject *context;
    PyObject *capsule;
    tn_tensor *tensor;
    bool readonly = false;
    (void)module;
    if (!PyArg_ParseTuple(args, "O!O", py_context_type, &context, &capsule)) return NULL;
    if (PyCapsule_IsValid(capsule, "dltensor_versioned")) {
        DLManagedTensorVersioned *managed = PyCapsule_GetPointer(capsule, "dltensor_versioned");
        if (managed->major != 1) return PyErr_Format(PyExc_BufferError, "DLPack %u is not known", managed->major);
        readonly = managed->flags & DL_READ_ONLY;
        tensor = import(context->context, &managed->dl, managed, release_new);
        if (tensor) PyCapsule_SetName(capsule, "used_dltensor_versioned");
    } else {
        DLManagedTensor *managed = PyCapsule_GetPointer(capsule, "dltensor");
        if (!managed) return NULL;
        tensor = import(context->context, &managed->dl, managed, release_old);
        if (tensor) PyCapsule_SetName(capsule, "used_dltensor");
    }
    return tensor ? py_tensor_object(tensor, readonly) : NULL;
}
