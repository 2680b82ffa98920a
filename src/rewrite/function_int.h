/* SPDX-License-Identifier: Apache-2.0 */
/* What expressions and the functions in them are made of. */
#ifndef TENON_REWRITE_FUNCTION_INT_H
#define TENON_REWRITE_FUNCTION_INT_H

#include "rewrite/rewrite_int.h"

struct Function {
    const char *name;
    size_t n_args; /* SIZE_MAX: any number */
    bool takes_values;
    tn_status (*call)(const Expr *e, Match *m, const Val *args, Val *out);
};

static const Val unknown = {.kind = V_UNKNOWN};

static inline Val val_bool(bool b) { return (Val){.kind = V_BOOL, .i = b}; }
static inline Val val_int(int64_t i) { return (Val){.kind = V_INT, .i = i}; }
static inline Val val_float(double f) { return (Val){.kind = V_FLOAT, .f = f}; }
static inline bool is_number(const Val *v) { return v->kind == V_INT || v->kind == V_FLOAT || v->kind == V_BOOL; }
static inline double number_of(const Val *v) { return v->kind == V_FLOAT ? v->f : (double)v->i; }
static inline double element_of(const Val *v, size_t i) {
    return v->kind == V_INTS ? (double)v->ints[i] : v->floats[i];
}

/* A dim that is an expression is itself as long as it is compared only. */
static inline bool is_plain(const Val *v) { return v->kind != V_INT || dim_is_const(v->i); }
static inline bool all_plain(const Val *v) {
    for (size_t i = 0; v->kind == V_INTS && i < v->n; i++)
        if (!dim_is_const(v->ints[i])) return false;
    return v->kind == V_INTS;
}

static inline tn_status new_ints(Arena *arena, size_t n, int64_t **data, Val *out) {
    *data = arena_array(arena, int64_t, n ? n : 1);
    *out = (Val){.kind = V_INTS, .n = n, .ints = *data};
    return *data ? TN_OK : TN_OUT_OF_MEMORY;
}

static inline bool is_integer(tn_dtype t) { return dtype_is_signed_int(t) || dtype_is_unsigned_int(t) || t == TN_BOOL; }

tn_status fn_same_size(const Expr *e, Match *m, const Val *args, Val *out); /* origin.c */
tn_status fn_repeats(const Expr *e, Match *m, const Val *args, Val *out);   /* arrangement.c */
tn_status fn_is_causal(const Expr *e, Match *m, const Val *args, Val *out);

#endif
