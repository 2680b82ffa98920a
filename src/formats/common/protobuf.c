/* SPDX-License-Identifier: Apache-2.0 */
/* Reads protobuf messages into nanopb's generated structs without copying: the wire format is nanopb's, the walk along
   a message is ours, since nanopb's own neither tells a call-back where it stands nor how a number was encoded. */
#include "formats/common/common.h"

#include <pb_common.h>

bool proto_no_callback(pb_istream_t *in, pb_ostream_t *out, const pb_field_t *field) {
    (void)in, (void)out, (void)field;
    return false;
}

tn_status proto_fail(const ProtoReader *reader, const void *place, const char *what) {
    tn_status status = fail(TN_MALFORMED, "the file is damaged: %s", what);
    diag_set_offset((uint64_t)((const uint8_t *)place - reader->base));
    return status;
}

static pb_istream_t stream_of(Str bytes) {
    return pb_istream_from_buffer((const pb_byte_t *)(bytes.s ? bytes.s : ""), bytes.n);
}

static pb_wire_type_t wire_of(pb_type_t type) {
    switch (PB_LTYPE(type)) {
    case PB_LTYPE_FIXED32: return PB_WT_32BIT;
    case PB_LTYPE_FIXED64: return PB_WT_64BIT;
    case PB_LTYPE_BOOL:
    case PB_LTYPE_VARINT:
    case PB_LTYPE_UVARINT:
    case PB_LTYPE_SVARINT: return PB_WT_VARINT;
    default: return PB_WT_STRING;
    }
}

/* The bytes of a length-delimited field, which the stream then has behind it. */
static bool take_bytes(pb_istream_t *in, Str *out) {
    uint64_t n;
    if (!pb_decode_varint(in, &n)) return false;
    if (n > in->bytes_left) {
        in->errmsg = "a length goes beyond the end";
        return false;
    }
    *out = (Str){(const char *)in->state, (size_t)n};
    return pb_read(in, NULL, (size_t)n);
}

static bool take_number(pb_istream_t *in, pb_wire_type_t wire, uint64_t *bits) {
    *bits = 0;
    if (wire == PB_WT_VARINT) return pb_decode_varint(in, bits);
    if (wire == PB_WT_64BIT) return pb_decode_fixed64(in, bits);
    uint32_t half;
    if (!pb_decode_fixed32(in, &half)) return false;
    *bits = half;
    return true;
}

static tn_status list_push(const ProtoReader *reader, ProtoList *list, Str item) {
    if (list->len == list->cap) {
        size_t cap = list->cap ? list->cap * 2 : 4;
        Str *data = arena_array(reader->arena, Str, cap);
        if (!data) return TN_OUT_OF_MEMORY;
        if (list->len) memcpy(data, list->data, list->len * sizeof *data);
        list->data = data;
        list->cap = cap;
    }
    list->data[list->len++] = item;
    return TN_OK;
}

/* Checks and counts the numbers of a packed piece. */
static bool count_packed(Str piece, pb_wire_type_t wire, size_t *count) {
    if (wire != PB_WT_VARINT) {
        size_t size = wire == PB_WT_32BIT ? 4 : 8;
        *count = piece.n / size;
        return piece.n % size == 0;
    }
    size_t n = 0, length = 0;
    for (size_t i = 0; i < piece.n; i++) {
        uint8_t byte = (uint8_t)piece.s[i];
        /* the tenth byte has one bit of 64 left */
        if (++length > 10 || (length == 10 && byte > 1)) return false;
        if (byte < 0x80) n++, length = 0;
    }
    *count = n;
    return length == 0;
}

static bool run_extend(pb_istream_t *in, ProtoRun *run, pb_wire_type_t wire, uint32_t tag, pb_type_t type) {
    size_t n = 1;
    run->tag = tag;
    run->wire = wire_of(type);
    if (wire == PB_WT_STRING) {
        Str piece;
        if (!take_bytes(in, &piece)) return false;
        if (!count_packed(piece, run->wire, &n)) {
            in->errmsg = "a list of numbers is cut off";
            return false;
        }
        if (n == 0) return true;
        run->packed = run->count ? (Str){NULL, 0} : piece;
    } else {
        uint64_t bits;
        if (!take_number(in, wire, &bits)) return false;
        run->packed = (Str){NULL, 0};
    }
    run->count += n;
    return true;
}

static bool store_number(pb_istream_t *in, pb_field_iter_t *field, pb_wire_type_t wire) {
    uint64_t bits;
    if (!take_number(in, wire, &bits)) return false;
    if (PB_LTYPE(field->type) == PB_LTYPE_BOOL) bits = bits != 0;
    /* little-endian: the low bytes come first, and int32 is int64 cut off, as protobuf has it */
    memcpy(field->pData, &bits, field->data_size);
    if (PB_HTYPE(field->type) == PB_HTYPE_OPTIONAL && field->pSize) *(bool *)field->pSize = true;
    return true;
}

static bool read_field(const ProtoReader *reader, pb_istream_t *in, pb_field_iter_t *field, pb_wire_type_t wire,
                       Str message, tn_status *status) {
    pb_wire_type_t wants = wire_of(field->type);
    bool repeated = PB_HTYPE(field->type) == PB_HTYPE_REPEATED;
    bool run = repeated && wants != PB_WT_STRING;
    if (wire != wants && !(run && wire == PB_WT_STRING)) {
        in->errmsg = "a field has the wrong wire type";
        return false;
    }
    if (run) {
        ((ProtoRun *)field->pData)->message = message;
        return run_extend(in, field->pData, wire, field->tag, field->type);
    }
    if (wants != PB_WT_STRING) return store_number(in, field, wire);
    Str bytes;
    if (!take_bytes(in, &bytes)) return false;
    if (repeated) {
        *status = list_push(reader, field->pData, bytes);
        return *status == TN_OK;
    }
    Str *place = field->pData;
    if (PB_LTYPE_IS_SUBMSG(field->type) && place->s) {
        in->errmsg = "a message that can stand only once stands twice";
        return false;
    }
    *place = bytes;
    return true;
}

tn_status proto_read_(const ProtoReader *reader, Str bytes, const pb_msgdesc_t *fields, void *message, size_t size) {
    pb_istream_t in = stream_of(bytes);
    pb_field_iter_t field;
    memset(message, 0, size);
    if (!pb_field_iter_begin(&field, fields, message)) return TN_OK;
    while (in.bytes_left) {
        const void *place = in.state;
        pb_wire_type_t wire;
        uint32_t tag;
        bool eof;
        tn_status status = TN_OK;
        bool ok = pb_decode_tag(&in, &wire, &tag, &eof) && tag != 0;
        if (ok) {
            ok = pb_field_iter_find(&field, tag) ? read_field(reader, &in, &field, wire, bytes, &status)
                                                 : pb_skip_field(&in, wire);
        }
        if (status != TN_OK) return status;
        if (!ok) return proto_fail(reader, place, in.errmsg ? in.errmsg : "a field has no number");
    }
    return TN_OK;
}

void proto_run_start(const ProtoRun *run, ProtoCursor *cursor) {
    cursor->run = run;
    cursor->message = stream_of(run->packed.s ? (Str){NULL, 0} : run->message);
    cursor->piece = stream_of(run->packed);
}

bool proto_run_next(ProtoCursor *cursor, uint64_t *bits) {
    const ProtoRun *run = cursor->run;
    while (!cursor->piece.bytes_left) {
        pb_wire_type_t wire;
        uint32_t tag;
        bool eof;
        Str piece;
        if (!cursor->message.bytes_left || !pb_decode_tag(&cursor->message, &wire, &tag, &eof)) return false;
        if (tag != run->tag) {
            if (!pb_skip_field(&cursor->message, wire)) return false;
        } else if (wire != PB_WT_STRING) {
            return take_number(&cursor->message, run->wire, bits);
        } else {
            if (!take_bytes(&cursor->message, &piece)) return false;
            cursor->piece = stream_of(piece);
        }
    }
    return take_number(&cursor->piece, run->wire, bits);
}

void proto_run_ints(const ProtoRun *run, int64_t *out) {
    ProtoCursor cursor;
    uint64_t bits = 0;
    proto_run_start(run, &cursor);
    for (size_t i = 0; i < run->count && proto_run_next(&cursor, &bits); i++) out[i] = (int64_t)bits;
}

void proto_run_floats(const ProtoRun *run, float *out) {
    if (run->packed.s) {
        memcpy(out, run->packed.s, run->packed.n);
        return;
    }
    ProtoCursor cursor;
    uint64_t bits = 0;
    proto_run_start(run, &cursor);
    for (size_t i = 0; i < run->count && proto_run_next(&cursor, &bits); i++) memcpy(&out[i], &bits, sizeof *out);
}
