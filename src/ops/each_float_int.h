/* SPDX-License-Identifier: Apache-2.0 */
/* Includes BODY once for float and once for double: T is the type, FN(f) is f_f32 or f_f64. No include guard: each
   inclusion makes the functions of one body. */
#define T float
#define FN(name) name##_f32
#define FN_DONE result_f32_done
#include BODY
#undef T
#undef FN
#undef FN_DONE
#define T double
#define FN(name) name##_f64
#define FN_DONE result_f64_done
#include BODY
#undef T
#undef FN
#undef FN_DONE
#undef BODY
