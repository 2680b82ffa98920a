/* SPDX-License-Identifier: Apache-2.0 */
/* ONNX as a model format. */
#include "formats/onnx/onnx_int.h"

/* Whether the bytes begin like a ModelProto: a few fields of its numbers with fitting wire types. Writers put
   ir_version first, but need not. */
static bool onnx_probe(const uint8_t *data, size_t size) {
    pb_istream_t in = pb_istream_from_buffer(data, size);
    for (int i = 0; i < 4 && in.bytes_left; i++) {
        pb_wire_type_t wire;
        uint32_t tag;
        bool eof;
        if (!pb_decode_tag(&in, &wire, &tag, &eof)) return false;
        bool number = tag == onnx_ModelProto_ir_version_tag || tag == onnx_ModelProto_model_version_tag;
        bool known = (tag >= 1 && tag <= 8) || tag == 14 || tag == 20 || tag == 25 || tag == 26;
        if (!known || wire != (number ? PB_WT_VARINT : PB_WT_STRING)) return false;
        if (tag == onnx_ModelProto_graph_tag) return true;
        if (!pb_skip_field(&in, wire)) return false;
    }
    return size > 0;
}

const FormatDesc format_onnx = {
    .name = "onnx",
    .extension = ".onnx",
    .summary = "ONNX, opsets 1 to 28",
    .probe = onnx_probe,
    .read = onnx_read,
    .write = onnx_write,
};
