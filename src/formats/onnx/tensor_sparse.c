/* SPDX-License-Identifier: Apache-2.0 */
/* SparseTensorProto to a dense payload: values at ascending positions, zeros elsewhere. */
#include "formats/onnx/onnx_int.h"

typedef struct Sparse {
    const Tensor *values, *indices;
    Tensor dense;
    int64_t n;
} Sparse;

/* Indices are positions in the flattened tensor, i64[n], or coordinates, i64[n,rank]. */
static tn_status check_indices(const Sparse *s, const char *name) {
    const Tensor *i = s->indices;
    bool flat = i->rank == 1 && i->dims[0] == s->n;
    bool coordinates = i->rank == 2 && i->dims[0] == s->n && i->dims[1] == s->dense.rank;
    if (s->values->rank != 1 || i->dtype != TN_I64 || !(flat || coordinates))
        return fail(TN_INVALID_MODEL, "sparse tensor \"%s\": values and indices do not fit each other", name);
    return TN_OK;
}

static bool position_of(const Sparse *s, int64_t k, int64_t *out) {
    int64_t at[TN_MAX_RANK];
    int width = s->indices->rank == 1 ? 1 : s->dense.rank;
    load_i64(at, TN_I64, s->indices->data, s->indices->offset + k * width, 1, width);
    *out = 0;
    if (s->indices->rank == 1) {
        *out = at[0];
        return at[0] >= 0 && at[0] < tensor_count(&s->dense);
    }
    for (int d = 0; d < width; d++) {
        if (at[d] < 0 || at[d] >= s->dense.dims[d]) return false;
        *out += at[d] * s->dense.strides[d];
    }
    return true;
}

static tn_status fill(Sparse *s, const char *name) {
    int64_t last = -1;
    for (int64_t k = 0; k < s->n; k++) {
        int64_t position;
        if (!position_of(s, k, &position))
            return fail(TN_INVALID_MODEL, "sparse tensor \"%s\": index %lld lies outside", name, (long long)k);
        if (position <= last)
            return fail(TN_INVALID_MODEL, "sparse tensor \"%s\": indices do not ascend at %lld", name, (long long)k);
        last = position;
        copy_elements(s->dense.dtype, s->dense.data, position, 1, s->values->data, k, 1, 1);
    }
    return TN_OK;
}

tn_status onnx_read_sparse_tensor(OnnxReader *r, Str bytes, Tensor **out, Str *name) {
    onnx_SparseTensorProto proto;
    Tensor *values, *indices;
    Str own = {NULL, 0};
    TRY(proto_read(&r->proto, bytes, onnx_SparseTensorProto, &proto));
    if (!proto.values.s || !proto.indices.s)
        return proto_fail(&r->proto, bytes.s, "a sparse tensor lacks its values or its indices");
    TRY(onnx_read_tensor(r, proto.values, &values, &own));
    TRY(onnx_read_tensor(r, proto.indices, &indices, NULL));
    if (name) *name = own;
    const char *text = onnx_text(r, own);
    if (!text) return TN_OUT_OF_MEMORY;
    Sparse s = {.values = values, .indices = indices, .n = tensor_count(values)};
    size_t size;
    TRY(onnx_tensor_shape(r, &proto.dims, values->dtype, text, &s.dense, &size));
    if (size > r->ctx->limits.max_fold_bytes)
        return fail(TN_LIMIT, "sparse tensor \"%s\" would take %zu bytes; see max_fold_bytes", text, size);
    TRY(check_indices(&s, text));
    TRY(onnx_tensor_memory(r, &s.dense));
    tn_status status = fill(&s, text);
    if (status != TN_OK) {
        tensor_release(&s.dense);
        return status;
    }
    return onnx_keep_tensor(r, &s.dense, out);
}
