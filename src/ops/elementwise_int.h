/* SPDX-License-Identifier: Apache-2.0 */
/* Chunk functions out of expressions, for the tables of element-wise ops. `v` (and `w`) are the operands' elements, T
   the compute type, `p` the op's parameters. */
#ifndef TENON_OPS_ELEMENTWISE_INT_H
#define TENON_OPS_ELEMENTWISE_INT_H

#include <tgmath.h>

#include "ops/op_int.h"

/* What attributes say of an op, in the order of its table's row. */
typedef struct Params {
    double a, b;
} Params;

/* Integers wrap, so they are added and multiplied as unsigned; i64 functions see them as signed. */
#define WRAP(expr) ((int64_t)(expr))
static inline uint64_t bits(int64_t v) { return (uint64_t)v; }

#define CHUNK1(name, X, Y, expr)                                                      \
    static void name(const void *user, void *out, const void *const *in, int64_t n) { \
        typedef X T;                                                                  \
        const Params *p = user;                                                       \
        const T *x = in[0];                                                           \
        Y *y = out;                                                                   \
        (void)p;                                                                      \
        EACH(i, n) {                                                                  \
            T v = x[i];                                                               \
            y[i] = (Y)(expr);                                                         \
        }                                                                             \
    }
#define CHUNK2(name, X, Y, expr)                                                      \
    static void name(const void *user, void *out, const void *const *in, int64_t n) { \
        typedef X T;                                                                  \
        const Params *p = user;                                                       \
        const T *xv = in[0], *xw = in[1];                                             \
        Y *y = out;                                                                   \
        (void)p;                                                                      \
        EACH(i, n) {                                                                  \
            T v = xv[i], w = xw[i];                                                   \
            y[i] = (Y)(expr);                                                         \
        }                                                                             \
    }

#endif
