/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers from and to text, as Cast wants them; the process's locale has no say. */
#ifndef TENON_OPS_CAST_INT_H
#define TENON_OPS_CAST_INT_H

#include <locale.h>

#include "ops/op_int.h"

/* The C locale for strtod and kin; freelocale gives it back. NULL with the diagnostic set when memory is out. */
locale_t text_locale(void);
/* `dtype` says what is wanted: integers and BOOL come in *i (u64 as bits), floats in *f. TN_INVALID_ARGUMENT when the
   text is no number. */
tn_status text_to_number(locale_t locale, Str text, tn_dtype dtype, double *f, int64_t *i);
/* Longest text that these write, with its NUL. */
#define NUMBER_TEXT 64
void int_to_text(char out[NUMBER_TEXT], tn_dtype dtype, int64_t value);
/* As numpy writes it: the fewest digits that read back as the same element. */
void float_to_text(locale_t locale, char out[NUMBER_TEXT], tn_dtype dtype, double value);

#endif
