/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX: models (through format_onnx) and single values in files of their own (TensorProto and its like, .pb). */
#ifndef TENON_FORMATS_ONNX_ONNX_H
#define TENON_FORMATS_ONNX_ONNX_H

#include "formats/formats.h"

extern const FormatDesc format_onnx;

/* One TensorProto. The tensor keeps `bytes` where its data points into them. `name` gets the proto's name. */
tn_status onnx_tensor_read(Context *ctx, Buffer *bytes, Tensor *out, Text *name);
/* A value of that kind: a TensorProto, SequenceProto, OptionalProto or MapProto, copied. */
tn_status onnx_value_read(Context *ctx, Buffer *bytes, TypeKind kind, Tensor *out, Text *name);
/* Writes a tensor as a TensorProto. */
tn_status onnx_tensor_write(const Tensor *t, Str name, FileWriter *w);
/* Writes a value of any kind as onnx_value_read reads it. TN_UNSUPPORTED for a sequence of several kinds. */
tn_status onnx_value_write(const Context *ctx, const Tensor *value, Str name, FileWriter *w);

#endif
