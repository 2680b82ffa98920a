/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors as text. */
#include "ir/text_int.h"

#include <inttypes.h>

void print_shape_of(const Tensor *t, Text *out) {
    text_puts(out, dtype_name(t->dtype));
    text_puts(out, "[");
    for (int i = 0; i < t->rank; i++) text_printf(out, i ? ",%" PRId64 : "%" PRId64, t->dims[i]);
    text_puts(out, "]");
}

/* The row-major reading of a tensor: where element after element lies. */
typedef struct Reader {
    const Tensor *t;
    int64_t index[TN_MAX_RANK], offset;
} Reader;

static int64_t next_offset(Reader *r) {
    int64_t here = r->t->offset + r->offset;
    for (int d = r->t->rank - 1; d >= 0; d--) {
        r->offset += r->t->strides[d];
        if (++r->index[d] < r->t->dims[d]) break;
        r->offset -= r->t->strides[d] * r->t->dims[d];
        r->index[d] = 0;
    }
    return here;
}

static bool print_complex(tn_dtype part, const void *data, int64_t i, Text *out) {
    char re[CODE_TEXT], im[CODE_TEXT];
    bool good = text_of_code(part, element_code(part, data, 2 * i), re);
    good = text_of_code(part, element_code(part, data, 2 * i + 1), im) && good;
    text_printf(out, "(%s, %s)", re, im);
    return good;
}

static bool print_element(const Tensor *t, int64_t i, Text *out) {
    char text[CODE_TEXT];
    tn_dtype part = complex_part(t->dtype);
    if (part != TN_UNDEFINED) return print_complex(part, t->data, i, out);
    if (t->dtype == TN_STRING) {
        const RcString *s;
        memcpy(&s, (const char *)t->data + i * (int64_t)sizeof s, sizeof s);
        spell_quoted(out, rc_string_get(s));
        return true;
    }
    bool good = text_of_code(t->dtype, element_code(t->dtype, t->data, i), text);
    text_puts(out, text);
    return good;
}

/* The bytes that a dense tensor of these elements has. */
static void print_hex(const Tensor *t, int64_t count, Text *out) {
    Reader r = {.t = t};
    int bits = dtype_bits(t->dtype), size = bits / 8, filled = 0;
    unsigned byte = 0;
    text_puts(out, "x\"");
    for (int64_t i = 0; i < count; i++) {
        int64_t at = next_offset(&r);
        const uint8_t *bytes = (const uint8_t *)t->data + at * size;
        for (int k = 0; k < size; k++) text_printf(out, "%02x", bytes[k]);
        if (size > 0) continue;
        byte |= (unsigned)element_code(t->dtype, t->data, at) << filled;
        filled += bits;
        if (filled < 8 && i + 1 < count) continue;
        text_printf(out, "%02x", byte);
        byte = 0;
        filled = 0;
    }
    text_puts(out, "\"");
}

/* False: some element cannot be told in words, and what was written is to be taken back. */
static bool print_elements(const Tensor *t, int64_t count, Text *out) {
    Reader r = {.t = t};
    bool good = true;
    if (t->rank > 0) text_puts(out, "[");
    for (int64_t i = 0; i < count && good && out->status == TN_OK; i++) {
        if (i) text_puts(out, ", ");
        good = print_element(t, next_offset(&r), out);
    }
    if (t->rank > 0) text_puts(out, "]");
    return good;
}

void print_tensor(const Tensor *t, Text *out) {
    int64_t count = tensor_count(t);
    if (t->rank == 0) text_puts(out, dtype_name(t->dtype));
    else print_shape_of(t, out);
    text_puts(out, " ");
    if ((!t->data && count > 0) || dtype_bits(t->dtype) == 0) {
        text_puts(out, "...");
        return;
    }
    size_t before = out->n;
    if (print_elements(t, count, out) || out->status != TN_OK) return;
    out->n = before;
    out->s[before] = 0;
    print_hex(t, count, out);
}
