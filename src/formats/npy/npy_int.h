/* SPDX-License-Identifier: Apache-2.0 */
/* What reading and writing .npy share. */
#ifndef TENON_FORMATS_NPY_NPY_INT_H
#define TENON_FORMATS_NPY_NPY_INT_H

#include "formats/npy/npy.h"

typedef struct NpyType {
    tn_dtype dtype;
    const char *code; /* numpy's, without the byte order */
    uint8_t unit;     /* bytes that are in one order: of a complex number, those of a half */
} NpyType;
extern const NpyType npy_types[];
extern const size_t npy_n_types;

#endif
