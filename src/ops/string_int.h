/* SPDX-License-Identifier: Apache-2.0 */
/* What ops on strings share: elements read and written as text. */
#ifndef TENON_OPS_STRING_INT_H
#define TENON_OPS_STRING_INT_H

#include "ops/move_int.h"

/* Operand i as row-major borrowed strings. */
static inline tn_status dense_strings(KernelCtx *c, int i, RcString *const **out) {
    const void *data = NULL;
    tn_status status = dense_bytes(c, i, &data);
    *out = data;
    return status;
}

/* Element `at` of result i becomes a new string. */
static inline tn_status put_string(KernelCtx *c, int i, int64_t at, Str text) {
    RcString *s;
    TRY(rc_string_new(&c->context->allocator, text, &s));
    copy_elements(TN_STRING, c->out[i].data, c->out[i].offset + at, 1, &s, 0, 1, 1);
    rc_string_unref(s);
    return TN_OK;
}

#endif
