/* SPDX-License-Identifier: Apache-2.0 */
/* Single tensors in files of their own: a TensorProto is the whole file. */
#include "formats/onnx/onnx.h"
#include "formats/onnx/write_int.h"

/* The reader's tensors belong to its model, which ends with the call: the caller gets a copy of its own. */
static tn_status own_copy(Context *ctx, const Tensor *from, Tensor *out) {
    TRY(tensor_new(ctx, from->dtype, from->rank, from->dims, out));
    copy_elements(from->dtype, out->data, 0, 1, from->data, from->offset, 1, tensor_count(from));
    return TN_OK;
}

tn_status onnx_tensor_read(Context *ctx, Buffer *bytes, Tensor *out, Text *name) {
    OnnxReader r = {.ctx = ctx, .alloc = &ctx->allocator, .bytes = bytes};
    Tensor *found;
    Str found_name;
    arena_init(&r.arena, r.alloc);
    r.proto = (ProtoReader){bytes->data, bytes->size, &r.arena};
    tn_status status = model_new(ctx, &r.model);
    if (status == TN_OK)
        status = onnx_read_tensor(&r, (Str){(const char *)bytes->data, bytes->size}, &found, &found_name);
    if (status == TN_OK) status = own_copy(ctx, found, out);
    if (status == TN_OK && name && found_name.n) {
        text_put(name, found_name.s, found_name.n);
        status = name->status;
        if (status != TN_OK) tensor_release(out);
    }
    model_free(r.model);
    arena_free(&r.arena);
    return status;
}

tn_status onnx_tensor_write(const Tensor *t, Str name, FileWriter *w) {
    OnnxWriter writer = {.alloc = &allocator_default};
    TensorPut put = {.tensor = t, .name = name, .writer = &writer};
    pb_ostream_t out = proto_file_stream(w);
    diag_clear();
    if (onnx_put_tensor(&out, &put)) return TN_OK;
    return diag_status() != TN_OK ? diag_status() : fail(TN_IO, "the tensor cannot be written");
}
