/* SPDX-License-Identifier: Apache-2.0 */
/* Cast (ONNX 28), CastLike (ONNX 25): the same numbers in another element type. */
#include "ops/lower_int.h"
#include "ops/cast_int.h"

#define TYPES (TS_NUMERIC | TS_F8 | TS_SUBBYTE | TS(TN_BOOL) | TS(TN_STRING))

/* ---- inference ----------------------------------------------------------------------------------------------- */

static Dim same_dim(const InferCtx *c, Dim a) { return (void)c, a; }
static Dim i32_dim(const InferCtx *c, Dim a) { return (void)c, dim_is_const(a) ? (int32_t)(uint32_t)a : a; }
static Dim bool_dim(const InferCtx *c, Dim a) { return (void)c, dim_is_const(a) ? a != 0 : DIM_UNKNOWN; }

static tn_status cast_to(InferCtx *c, tn_dtype to) {
    set_like(c, 0, 0);
    set_dtype(c, 0, to);
    if (in_dtype(c, 0) == TN_U64) return TN_OK;
    if (to == TN_I64) content_unary(c, same_dim);
    if (to == TN_I32) content_unary(c, i32_dim);
    if (to == TN_BOOL) content_unary(c, bool_dim);
    return TN_OK;
}

static tn_status check_round_mode(const Node *node) {
    if (attr_string_is(node, "round_mode", "up") || attr_string_is(node, "round_mode", "down") ||
        attr_string_is(node, "round_mode", "nearest"))
        return TN_OK;
    return fail(TN_INVALID_MODEL, "round_mode must be \"up\", \"down\" or \"nearest\"");
}

static tn_status cast_infer(InferCtx *c) {
    int64_t to = attr_int(c->node, "to");
    if (to <= TN_UNDEFINED || to >= TN_DTYPE_END || !(TYPES & TS(to)))
        return fail(TN_UNSUPPORTED, "cannot cast to element type number %lld", (long long)to);
    TRY(check_round_mode(c->node));
    return cast_to(c, (tn_dtype)to);
}

static tn_status cast_like_infer(InferCtx *c) {
    TRY(check_round_mode(c->node));
    return cast_to(c, in_dtype(c, 1));
}

/* ---- numbers ------------------------------------------------------------------------------------------------- */

static void copy_f32(const void *user, void *y, const void *const *x, int64_t n) {
    (void)user;
    if (y != x[0]) memmove(y, x[0], (size_t)n * sizeof(float));
}

static void copy_8(const void *user, void *y, const void *const *x, int64_t n) {
    (void)user;
    if (y != x[0]) memmove(y, x[0], (size_t)n * sizeof(int64_t));
}

/* Loading widens exactly and storing rounds once, so the class is the one that holds every value of the source. Only
   u64 has none: it is rounded while loaded, in the class nearest to the result. */
static tn_status cast_numbers(KernelCtx *c, tn_dtype from, tn_dtype to) {
    Class class = class_of(from);
    if (from == TN_U64 && class_of(to) != CLASS_INT) class = class_of(to);
    return run_elementwise(c, 1, class, class, class == CLASS_F32 ? copy_f32 : copy_8, NULL, 1);
}

typedef struct SmallFloat {
    tn_dtype dtype;
    bool saturate;
    char round_mode; /* its first letter */
} SmallFloat;

/* A power of two above 2^-127 is an exponent only. Rounding adds to it. */
static uint8_t encode_e8m0(const SmallFloat *to, float value) {
    uint32_t word;
    memcpy(&word, &value, sizeof word);
    uint32_t exponent = word >> 23 & 0xff, fraction = word & 0x7fffff;
    if (exponent == 0xff) return fraction == 0 && to->saturate ? 0xfe : 0xff;
    if (exponent == 0 && !to->saturate && fraction < 0x400000) return 0xff;
    bool up = to->round_mode == 'u'   ? fraction != 0
              : to->round_mode == 'n' ? fraction > 0x400000 || (fraction == 0x400000 && exponent > 0)
                                      : false;
    if (!up) return (uint8_t)exponent;
    return exponent == 0xfe && to->saturate ? 0xfe : (uint8_t)(exponent + 1);
}

static bool is_small_float(tn_dtype dtype) { return (TS(dtype) & (TS_F8 | TS(TN_F4E2M1))) != 0; }

static SmallFloat small_float_of(const KernelCtx *c) {
    return (SmallFloat){c->out[0].dtype, attr_int(c->node, "saturate") != 0, attr_string(c->node, "round_mode").s[0]};
}

static int64_t encode_small(const SmallFloat *to, double value) {
    return to->dtype == TN_F8E8M0 ? encode_e8m0(to, (float)value) : small_float_encode(to->dtype, value, to->saturate);
}

static void encode_chunk(const void *user, void *y, const void *const *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) ((int64_t *)y)[i] = encode_small(user, ((const double *)x[0])[i]);
}

/* The unsigned integers that the codes of small floats are. */
static Tensor codes_of(const Tensor *t) {
    Tensor codes = *t;
    codes.dtype = dtype_bits(t->dtype) == 8 ? TN_U8 : TN_U4;
    return codes;
}

static tn_status cast_to_small_float(KernelCtx *c) {
    SmallFloat how = small_float_of(c);
    Tensor codes = codes_of(&c->out[0]);
    return run_elementwise_on(c, 1, c->in, (const Class[]){CLASS_F64}, &codes, CLASS_INT, encode_chunk, &how, 5);
}

/* ---- text ---------------------------------------------------------------------------------------------------- */

static tn_status texts_to_numbers(KernelCtx *c, const Stream *in, int64_t count, locale_t locale) {
    RcString *buffer[CHUNK];
    const Tensor *out = &c->out[0];
    SmallFloat how = small_float_of(c);
    Tensor codes = codes_of(out);
    for (int64_t at = 0; at < count; at += CHUNK) {
        int64_t n = min_i64(CHUNK, count - at);
        RcString *const *texts = stream_read(in, at, n, buffer);
        for (int64_t k = 0; k < n; k++) {
            double f = 0;
            int64_t i = 0;
            TRY(text_to_number(locale, rc_string_get(texts[k]), out->dtype, &f, &i));
            if (is_small_float(out->dtype)) {
                i = encode_small(&how, f);
                store_i64(codes.dtype, codes.data, codes.offset + at + k, 1, &i, 1);
                continue;
            }
            if (dtype_is_float(out->dtype)) store_f64(out->dtype, out->data, out->offset + at + k, 1, &f, 1);
            else store_i64(out->dtype, out->data, out->offset + at + k, 1, &i, 1);
        }
    }
    return TN_OK;
}

static tn_status put_text(KernelCtx *c, int64_t at, const char *text) {
    RcString *s;
    TRY(rc_string_new(&c->context->allocator, str_of(text), &s));
    copy_elements(TN_STRING, c->out[0].data, c->out[0].offset + at, 1, &s, 0, 1, 1);
    rc_string_unref(s);
    return TN_OK;
}

static tn_status numbers_to_texts(KernelCtx *c, const Stream *in, int64_t count, locale_t locale) {
    double buffer[CHUNK];
    char text[NUMBER_TEXT];
    tn_dtype from = in->tensor->dtype;
    for (int64_t at = 0; at < count; at += CHUNK) {
        int64_t n = min_i64(CHUNK, count - at);
        const void *numbers = stream_read(in, at, n, buffer);
        for (int64_t k = 0; k < n; k++) {
            if (in->class == CLASS_INT) int_to_text(text, from, ((const int64_t *)numbers)[k]);
            else float_to_text(locale, text, from, ((const double *)numbers)[k]);
            TRY(put_text(c, at + k, text));
        }
    }
    return TN_OK;
}

static tn_status cast_text(KernelCtx *c, tn_dtype from) {
    Stream in;
    Class class = from == TN_STRING ? CLASS_STRING : class_of(from) == CLASS_INT ? CLASS_INT : CLASS_F64;
    TRY(stream_init(&in, c->in[0], &c->out[0], class));
    locale_t locale = text_locale();
    if (!locale) return TN_OUT_OF_MEMORY;
    int64_t count = tensor_count(&c->out[0]);
    tn_status status = class == CLASS_STRING ? texts_to_numbers(c, &in, count, locale)
                                             : numbers_to_texts(c, &in, count, locale);
    freelocale(locale);
    return status;
}

/* ---- ops ----------------------------------------------------------------------------------------------------- */

static tn_status cast_reference(KernelCtx *c) {
    tn_dtype from = c->in[0]->dtype, to = c->out[0].dtype;
    bool small = is_small_float(to), text = from == TN_STRING || to == TN_STRING;
    if (from == to) {
        Tensor in = *c->in[0], out = c->out[0]; /* text and small floats are copied as they are */
        if (small) in = codes_of(&in), out = codes_of(&out);
        Class class = class_of(in.dtype);
        return run_elementwise_on(c, 1, (const Tensor *const[]){&in}, &class, &out, class,
                                  class == CLASS_F32 ? copy_f32 : copy_8, NULL, 1);
    }
    if (text) return cast_text(c, from);
    /* storing saturates, and rounds to nearest */
    bool plain = !small || (to != TN_F8E8M0 && attr_int(c->node, "saturate"));
    return plain ? cast_numbers(c, from, to) : cast_to_small_float(c);
}

#define ROUNDING \
    {"round_mode", ATTR_STRING, 0, 0, 0, "up"}, { "saturate", ATTR_INT, 0, 1, 0, NULL }

const OpSchema op_Cast = {
    .name = "Cast",
    .summary = "Cast (ONNX 28): the same numbers in another element type",
    .kind = OP_ATOMIC,
    .flags = OP_ELEMENTWISE,
    .inputs = OPERANDS({"input", TYPES, 0, 0}),
    .outputs = OPERANDS({"output", TYPES, 0, 0}),
    .attrs = ATTRIBUTES(ROUNDING, {"to", ATTR_INT, ATTR_REQUIRED, 0, 0, NULL}),
    .infer = cast_infer,
    .reference = cast_reference,
};

const OpSchema op_CastLike = {
    .name = "CastLike",
    .summary = "CastLike (ONNX 25): the same numbers in the element type of another tensor",
    .kind = OP_COMPOSITE,
    .inputs = OPERANDS({"input", TYPES, 0, 0}, {"target_type", TYPES, 0, 0}),
    .outputs = OPERANDS({"output", TYPES, 0, 0}),
    .attrs = ATTRIBUTES(ROUNDING),
    .shape_inputs = 1u << 1,
    .infer = cast_like_infer,
    .reference = cast_reference,
    .lower = lower_cast_like,
    .lowering = "Cast",
};
