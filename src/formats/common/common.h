/* SPDX-License-Identifier: Apache-2.0 */
/* What several formats share: protobuf and safetensors. */
#ifndef TENON_FORMATS_COMMON_COMMON_H
#define TENON_FORMATS_COMMON_COMMON_H

#include <pb.h>
#include <pb_decode.h>
#include <pb_encode.h>

#include "base/base.h"
#include "ir/ir.h"

/* ---- protobuf (protobuf.c, protobuf_write.c) ------------------------------------------------------------------ */

/* Reading. Nothing is copied: text, bytes and nested messages are places in the file (a Str whose `s` is NULL when
   the field is absent), which are read when somebody wants them. The generated structs hold these types; see the
   .options file beside a .proto. */

/* Where a file lies in memory, and what the lists of its messages are allocated on. */
typedef struct ProtoReader {
    const uint8_t *base;
    size_t size;
    Arena *arena;
} ProtoReader;

/* A repeated field of texts, bytes or messages. */
typedef struct ProtoList {
    Str *data;
    size_t len, cap;
} ProtoList;

/* A repeated field of numbers, packed or not: how many, and where the message is that holds them. */
typedef struct ProtoRun {
    Str message;
    uint32_t tag;
    pb_wire_type_t wire; /* of one number */
    size_t count;
    Str packed; /* the numbers, when they are all in one packed piece */
} ProtoRun;

/* Reads one message into the struct that nanopb generated for it. Unknown fields are skipped, the last of a singular
   field counts. TN_MALFORMED with the offset in the file. */
#define proto_read(reader, bytes, Message, message) \
    proto_read_((reader), (bytes), Message##_fields, (message), sizeof(Message))
tn_status proto_read_(const ProtoReader *reader, Str bytes, const pb_msgdesc_t *fields, void *message, size_t size);
/* TN_MALFORMED at a place in the file. */
tn_status proto_fail(const ProtoReader *reader, const void *place, const char *what);

/* Walks the numbers of a run. The run was counted when its message was read, so no number of them can fail. */
typedef struct ProtoCursor {
    pb_istream_t message, piece;
    const ProtoRun *run;
} ProtoCursor;
void proto_run_start(const ProtoRun *run, ProtoCursor *cursor);
bool proto_run_next(ProtoCursor *cursor, uint64_t *bits); /* false at the end; a float is its 32 bits */
/* The first `run->count` numbers; `out` has room for them. */
void proto_run_ints(const ProtoRun *run, int64_t *out);
void proto_run_floats(const ProtoRun *run, float *out);

/* What the generated code names as call-back; it is never called. */
bool proto_no_callback(pb_istream_t *in, pb_ostream_t *out, const pb_field_t *field);

/* Writing. A message is a function that puts its fields; it runs twice, first to find the size, then to write. */
typedef bool (*ProtoPutFn)(pb_ostream_t *out, const void *arg);
bool proto_put_int(pb_ostream_t *out, uint32_t tag, int64_t value);
bool proto_put_float(pb_ostream_t *out, uint32_t tag, float value);
bool proto_put_text(pb_ostream_t *out, uint32_t tag, Str text);
bool proto_put_message(pb_ostream_t *out, uint32_t tag, ProtoPutFn put, const void *arg);
/* Tag and length of bytes that the caller writes after it. */
bool proto_put_length(pb_ostream_t *out, uint32_t tag, size_t length);
/* A stream into a file; file_writer_write's failure is kept as the thread's diagnostic. */
pb_ostream_t proto_file_stream(FileWriter *writer);

/* ---- safetensors (safetensors.c, safetensors_write.c) ---------------------------------------------------------- */

/* Reading. The file's head is checked as a whole when it is opened; the tensors' bytes are not touched. */
typedef struct SafeEntry {
    Str name;
    tn_dtype dtype; /* TN_UNDEFINED: a type that Tenon does not know */
    int32_t rank;
    int64_t dims[TN_MAX_RANK];
    size_t begin, end; /* in the file */
} SafeEntry;
typedef struct SafeTensors SafeTensors;

/* Takes a reference to the file's bytes. TN_MALFORMED, TN_LIMIT. */
tn_status safetensors_open(const Allocator *a, Buffer *bytes, SafeTensors **out);
void safetensors_close(SafeTensors *file); /* NULL is ignored */
size_t safetensors_count(const SafeTensors *file);
const SafeEntry *safetensors_entry(const SafeTensors *file, size_t i);
const SafeEntry *safetensors_find(const SafeTensors *file, Str name); /* NULL when absent */
Str safetensors_metadata(const SafeTensors *file, Str key);           /* {NULL,0} when absent */
/* A dense tensor on the file's own bytes, which it keeps. They may be misaligned. */
tn_status safetensors_tensor(const SafeTensors *file, const SafeEntry *entry, Tensor *out);

/* Writing. A type that the format lacks is written as its bytes, u8[n]: a reader must be told what they are. */
typedef struct SafeItem {
    Str name; /* unique UTF-8 without NUL */
    const Tensor *tensor;
} SafeItem;
const char *safetensors_dtype(tn_dtype dtype); /* the format's name for it; NULL when it is written as bytes */
/* The file's metadata say format=`writer`. Each tensor is aligned to 64 bytes. */
tn_status safetensors_write(const Allocator *a, const char *path, const char *writer, const SafeItem *items, size_t n);

#endif
