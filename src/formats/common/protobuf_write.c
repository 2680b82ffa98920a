/* SPDX-License-Identifier: Apache-2.0 */
/* Writes protobuf messages as streams: a nested message is run once to find its size and once to write it, so nothing
   is held in memory and payloads go from where they lie straight to the file. */
#include "formats/common/common.h"

bool proto_put_int(pb_ostream_t *out, uint32_t tag, int64_t value) {
    return pb_encode_tag(out, PB_WT_VARINT, tag) && pb_encode_varint(out, (uint64_t)value);
}

bool proto_put_float(pb_ostream_t *out, uint32_t tag, float value) {
    return pb_encode_tag(out, PB_WT_32BIT, tag) && pb_encode_fixed32(out, &value);
}

bool proto_put_length(pb_ostream_t *out, uint32_t tag, size_t length) {
    return pb_encode_tag(out, PB_WT_STRING, tag) && pb_encode_varint(out, length);
}

bool proto_put_text(pb_ostream_t *out, uint32_t tag, Str text) {
    return proto_put_length(out, tag, text.n) && pb_write(out, (const pb_byte_t *)text.s, text.n);
}

bool proto_put_message(pb_ostream_t *out, uint32_t tag, ProtoPutFn put, const void *arg) {
    pb_ostream_t size = PB_OSTREAM_SIZING;
    if (!put(&size, arg)) return false;
    if (!proto_put_length(out, tag, size.bytes_written)) return false;
    if (!out->callback) return pb_write(out, NULL, size.bytes_written); /* only sizes are asked for */
    return put(out, arg);
}

static bool write_to_file(pb_ostream_t *out, const pb_byte_t *bytes, size_t n) {
    return file_writer_write(out->state, bytes, n) == TN_OK;
}

pb_ostream_t proto_file_stream(FileWriter *writer) {
    return (pb_ostream_t){.callback = write_to_file, .state = writer, .max_size = SIZE_MAX};
}
