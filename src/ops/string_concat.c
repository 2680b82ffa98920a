/* SPDX-License-Identifier: Apache-2.0 */
/* StringConcat (ONNX 20): two broadcast string tensors, joined element by element. */
#include "ops/string_int.h"

/* `room` is grown as needed and lies on the arena. */
static tn_status join(KernelCtx *c, Str a, Str b, char **room, size_t *size, int64_t at) {
    size_t n;
    if (__builtin_add_overflow(a.n, b.n, &n)) return fail(TN_LIMIT, "a string is too long");
    if (n > *size) {
        *room = arena_array(c->scratch, char, n);
        if (!*room) return TN_OUT_OF_MEMORY;
        *size = n;
    }
    if (a.n) memcpy(*room, a.s, a.n);
    if (b.n) memcpy(*room + a.n, b.s, b.n);
    return put_string(c, 0, at, (Str){n ? *room : "", n});
}

static tn_status string_concat_reference(KernelCtx *c) {
    const Tensor *out = &c->out[0];
    int64_t count = tensor_count(out);
    RcString *buffers[2][CHUNK];
    Stream in[2];
    char *room = NULL;
    size_t size = 0;
    if (count == 0) return TN_OK;
    for (int k = 0; k < 2; k++) TRY(stream_init(&in[k], c->in[k], out, CLASS_STRING));
    for (int64_t at = 0; at < count; at += CHUNK) {
        int64_t n = min_i64(CHUNK, count - at);
        RcString *const *a = stream_read(&in[0], at, n, buffers[0]), *const *b = stream_read(&in[1], at, n, buffers[1]);
        for (int64_t k = 0; k < n; k++) TRY(join(c, rc_string_get(a[k]), rc_string_get(b[k]), &room, &size, at + k));
    }
    return TN_OK;
}

const OpSchema op_StringConcat = {
    .name = "StringConcat",
    .summary = "Joins strings element by element (ONNX 20)",
    .kind = OP_ATOMIC,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"X", TS(TN_STRING), 'T'}, {"Y", TS(TN_STRING), 'T'}),
    .outputs = OPERANDS({"Z", TS(TN_STRING), 'T'}),
    .infer = infer_broadcast,
    .reference = string_concat_reference,
};
