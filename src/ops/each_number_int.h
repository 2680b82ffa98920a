/* SPDX-License-Identifier: Apache-2.0 */
/* Includes BODY once for uint64_t (all integers, modulo 2^64) and once for each float type; see each_float_int.h. */
#define T uint64_t
#define FN(name) name##_u64
#define FN_DONE result_u64_done
#include BODY
#undef T
#undef FN
#undef FN_DONE
#include "ops/each_float_int.h"
