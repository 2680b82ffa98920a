/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors from and to numpy's .npy. It holds one tensor and no model, so it has no row in formats.def. */
#ifndef TENON_FORMATS_NPY_NPY_H
#define TENON_FORMATS_NPY_NPY_H

#include "ir/ir.h"

/* A dense copy of the array that all of `data` is: versions 1 to 3, either byte order, C or Fortran order, numbers,
   booleans, and strings (S, U) without their trailing NULs. TN_MALFORMED; TN_UNSUPPORTED for other element types and
   more than TN_MAX_RANK dimensions; TN_LIMIT. */
tn_status npy_read(Context *ctx, const uint8_t *data, size_t size, Tensor *out);

/* Any strides. What numpy has no type for is written as unsigned integers of its bits, one an element. Strings become
   U, or S when one is not UTF-8. */
tn_status npy_write(const Tensor *t, FileWriter *w);

#endif
