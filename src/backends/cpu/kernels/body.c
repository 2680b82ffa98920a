/* SPDX-License-Identifier: Apache-2.0 */
/* The vector operations of element-wise programs: an expression each, in a loop over the rows of a tile. What repeats along a
   row is taken out of the loop, so there is one loop for each way in which operands do. */
#include "backends/cpu/body_op_int.h"
#include "backends/cpu/kernels/math_int.h"

#define P0 vf_set(a->p[0])
#define P1 vf_set(a->p[1])
#define ZERO vf_set(0.0f)
#define ONE vf_set(1.0f)

INLINE vf clamp01(vf x) { return vf_min(ONE, vf_max(ZERO, x)); } /* NaN stays */
INLINE vf relu(vf x) { return vf_select(x <= 0, ZERO, x); }
INLINE vi truth(vf x) { return (vi)x; }

/* The number of columns is read once: a load of it that follows a store to the same place of another page would wait. */

/* ---- one operand ------------------------------------------------------------------------------------------------- */

#define UNARY(name, expr)                                 \
    static void name(const BodyArgs *a) {                 \
        const int64_t cols = a->cols;                     \
        for (int64_t r = 0; r < a->rows; r++) {           \
            const float *from = a->src[0] + r * a->ld[0]; \
            float *to = a->dst + r * a->dst_ld;           \
            int64_t i = 0;                                \
            for (; i + VF <= cols; i += VF) {             \
                vf x = vf_load(from + i);                 \
                vf_store(to + i, (vf)(expr));             \
            }                                             \
            if (i < cols) {                               \
                vf x = vf_load_n(from + i, cols - i);     \
                vf_store_n(to + i, (vf)(expr), cols - i); \
            }                                             \
        }                                                 \
    }

UNARY(run_ABS, vf_abs(x))
UNARY(run_NEG, -x)
UNARY(run_EXP, vf_exp(x))
UNARY(run_LOG, vf_log(x))
UNARY(run_SQRT, vf_sqrt(x))
UNARY(run_RECIPROCAL, 1 / x)
UNARY(run_ROOT_OF, vf_sqrt(x + P0))
UNARY(run_SIGMOID, vf_sigmoid(x))
UNARY(run_TANH, vf_tanh(x))
UNARY(run_RELU, relu(x))
UNARY(run_LEAKY_RELU, vf_select(x < 0, P0 *x, x))
UNARY(run_THRESHOLDED_RELU, vf_select(x > P0, x, ZERO))
UNARY(run_CLAMP, vf_min(P1, vf_max(P0, x)))
UNARY(run_ELU, vf_select(x >= 0, x, P0 *vf_expm1(x)))
UNARY(run_SELU, P1 *vf_select(x > 0, x, P0 *vf_expm1(x)))
UNARY(run_CELU, vf_select(x > 0, x, P0 *vf_expm1(x / P0)))
UNARY(run_SOFTPLUS, vf_softplus(x))
UNARY(run_SOFTSIGN, x / (1 + vf_abs(x)))
UNARY(run_HARD_SIGMOID, clamp01(vf_fma(P0, x, P1)))
UNARY(run_HARD_SWISH, x *clamp01(vf_fma(x, vf_set(1.0f / 6), vf_set(0.5f))))
UNARY(run_SWISH, x *vf_sigmoid(P0 *x))
UNARY(run_MISH, vf_mish(x))
UNARY(run_GELU, vf_gelu(x))
UNARY(run_GELU_TANH, vf_gelu_tanh(x))
UNARY(run_ERF, vf_erf(x))
UNARY(run_SIN, vf_sin(x))
UNARY(run_COS, vf_cos(x))
UNARY(run_FLOOR, vf_floor(x))
UNARY(run_CEIL, vf_ceil(x))
UNARY(run_ROUND, vf_round(x))
UNARY(run_SIGN, vf_select(x > 0, ONE, vf_select(x < 0, -ONE, vf_select(x == 0, ZERO, x))))
UNARY(run_SQUARE, x *x)
UNARY(run_CUBE, x *x *x)
/* x to the power of 1/2, which is no root at -0 and -inf */
UNARY(run_ROOT, vf_select(x == -INFINITY, vf_set(INFINITY), vf_sqrt(x + 0.0f)))
UNARY(run_DIVIDE_BY, x / P0)
UNARY(run_IS_NAN, x != x)
UNARY(run_IS_INF, ((x == INFINITY) & (P0 != 0)) | ((x == -INFINITY) & (P1 != 0)))
UNARY(run_NOT, ~truth(x))
UNARY(run_TRUTH, x != 0)
UNARY(run_FROM_INT, __builtin_convertvector((vi)x, vf))
UNARY(run_NUMBER, truth(x) & (vi)ONE)

static void run_COPY(const BodyArgs *a) {
    const int64_t cols = a->cols;
    for (int64_t r = 0; r < a->rows; r++) {
        const float *from = a->src[0] + r * a->ld[0];
        float *to = a->dst + r * a->dst_ld;
        int64_t i = 0;
        if (a->spread) {
            vf x = vf_set(float_at(from));
            for (; i + VF <= cols; i += VF) vf_store(to + i, x);
            if (i < cols) vf_store_n(to + i, x, cols - i);
            continue;
        }
        for (; i + VF <= cols; i += VF) vf_store(to + i, vf_load(from + i));
        if (i < cols) vf_store_n(to + i, vf_load_n(from + i, cols - i), cols - i);
    }
}

/* ---- to the numbers of fewer bits, and back ------------------------------------------------------------------------ */

/* A power of two whose last bit is where the half's would be makes the processor round. */
INLINE vf to_f16(vf x) {
#if defined(__AVX512F__)
    return (vf)_mm512_cvtph_ps(_mm512_cvtps_ph((__m512)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#elif defined(__F16C__)
    return (vf)_mm256_cvtph_ps(_mm256_cvtps_ph((__m256)x, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
#else
    const vf least = vf_set(0x1p-14f), most = vf_set(0x1p16f), infinity = vf_set(__builtin_inff());
    vf size = vf_min(vf_abs(x), most); /* NaN is seen to below */
    vf power = (vf)(((vi)vf_max(size, least) & 0x7f800000) + (13 << 23));
    vf near = rounded(size + power) - power;
    near = vf_select(near > 65504.0f, infinity, near);
    return vf_select(x == x, (vf)((vi)near | ((vi)x & (-0x7fffffff - 1))), x);
#endif
}

INLINE vf to_bf16(vf x) {
    vi bits = (vi)x, odd = (bits >> 16) & 1;
    return (vf)(vf_select(x == x, (vf)((bits + 0x7fff + odd) & -0x10000), (vf)((bits | 0x400000) & -0x10000)));
}

/* NaN becomes the least. */
UNARY(run_SATURATE, vf_min(vf_max(x, P0), P1))
UNARY(run_TO_F16, to_f16(x))
UNARY(run_TO_BF16, to_bf16(x))

#if defined(__F16C__)
static void from_halves(float *dst, const uint16_t *src, int64_t n) {
    int64_t i = 0;
    for (; i + 8 <= n; i += 8) _mm256_storeu_ps(dst + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(src + i))));
    for (; i < n; i++) dst[i] = _cvtsh_ss(src[i]);
}
static void to_halves(uint16_t *dst, const float *src, int64_t n) {
    enum { NEAREST = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC };
    int64_t i = 0;
    for (; i + 8 <= n; i += 8)
        _mm_storeu_si128((__m128i *)(dst + i), _mm256_cvtps_ph(_mm256_loadu_ps(src + i), NEAREST));
    for (; i < n; i++) dst[i] = _cvtss_sh(src[i], NEAREST);
}
#else
#define from_halves NULL
#define to_halves NULL
#endif

static void from_u8(float *dst, const uint8_t *src, int64_t n) {
    for (int64_t i = 0; i < n; i++) dst[i] = (float)src[i];
}
static void from_i8(float *dst, const int8_t *src, int64_t n) {
    for (int64_t i = 0; i < n; i++) dst[i] = (float)src[i];
}
static void to_whole(uint8_t *dst, const float *src, int64_t n) {
    for (int64_t i = 0; i < n; i++) dst[i] = (uint8_t)(int32_t)src[i];
}

/* ---- two operands ------------------------------------------------------------------------------------------------ */

INLINE vf some(const float *p, bool spread, vf once, int64_t i) { return spread ? once : vf_load(p + i); }
INLINE vf rest(const float *p, bool spread, vf once, int64_t i, int64_t n) {
    return spread ? once : vf_load_n(p + i, n);
}
INLINE vf at_first(const float *p, bool spread) { return spread ? vf_set(float_at(p)) : ZERO; }

#define BINARY_LOOP(sx, sy, expr)                                                   \
    for (int64_t r = 0; r < a->rows; r++) {                                         \
        const float *px = a->src[0] + r * a->ld[0], *py = a->src[1] + r * a->ld[1]; \
        float *to = a->dst + r * a->dst_ld;                                         \
        vf x0 = at_first(px, sx), y0 = at_first(py, sy);                            \
        int64_t i = 0;                                                              \
        for (; i + VF <= cols; i += VF) {                                           \
            vf x = some(px, sx, x0, i), y = some(py, sy, y0, i);                    \
            vf_store(to + i, (vf)(expr));                                           \
        }                                                                           \
        if (i < cols) {                                                             \
            int64_t n = cols - i;                                                   \
            vf x = rest(px, sx, x0, i, n), y = rest(py, sy, y0, i, n);              \
            vf_store_n(to + i, (vf)(expr), n);                                      \
        }                                                                           \
    }
#define BINARY(name, expr)                             \
    static void name(const BodyArgs *a) {              \
        const int64_t cols = a->cols;                  \
        switch (a->spread) {                           \
        case 0: BINARY_LOOP(false, false, expr) break; \
        case 1: BINARY_LOOP(true, false, expr) break;  \
        case 2: BINARY_LOOP(false, true, expr) break;  \
        default: BINARY_LOOP(true, true, expr) break;  \
        }                                              \
    }

BINARY(run_ADD, x + y)
BINARY(run_ADD_RELU, relu(x + y))
BINARY(run_SUB, x - y)
BINARY(run_MUL, x *y)
BINARY(run_DIV, x / y)
BINARY(run_POW, vf_select(y == 2, x *x, vf_pow(x, y)))
BINARY(run_MIN, vf_select((x < y) | (x != x), x, y))
BINARY(run_MAX, vf_select((x > y) | (x != x), x, y))
/* Clip's bounds y: a bound that is NaN does not bound. */
BINARY(run_AT_LEAST, vf_max(y, x))
BINARY(run_AT_MOST, vf_min(y, x))
BINARY(run_PRELU, vf_select(x > 0, x, x *y))
BINARY(run_SWIGLU, x *vf_sigmoid(P0 *x) * y)
BINARY(run_EQUAL, x == y)
BINARY(run_LESS, x < y)
BINARY(run_LESS_OR_EQUAL, x <= y)
BINARY(run_EQUAL_INT, (vi)x == (vi)y)
BINARY(run_LESS_INT, (vi)x < (vi)y)
BINARY(run_LESS_OR_EQUAL_INT, (vi)x <= (vi)y)
BINARY(run_AND, truth(x) & truth(y))
BINARY(run_OR, truth(x) | truth(y))
BINARY(run_XOR, truth(x) ^ truth(y))

/* ---- three operands ---------------------------------------------------------------------------------------------- */

#define TERNARY_LOOP(sx, sy, sz, expr)                                                             \
    for (int64_t r = 0; r < a->rows; r++) {                                                        \
        const float *px = a->src[0] + r * a->ld[0], *py = a->src[1] + r * a->ld[1];                \
        const float *pz = a->src[2] + r * a->ld[2];                                                \
        float *to = a->dst + r * a->dst_ld;                                                        \
        vf x0 = at_first(px, sx), y0 = at_first(py, sy), z0 = at_first(pz, sz);                    \
        int64_t i = 0;                                                                             \
        for (; i + VF <= cols; i += VF) {                                                          \
            vf x = some(px, sx, x0, i), y = some(py, sy, y0, i), z = some(pz, sz, z0, i);          \
            vf_store(to + i, (vf)(expr));                                                          \
        }                                                                                          \
        if (i < cols) {                                                                            \
            int64_t n = cols - i;                                                                  \
            vf x = rest(px, sx, x0, i, n), y = rest(py, sy, y0, i, n), z = rest(pz, sz, z0, i, n); \
            vf_store_n(to + i, (vf)(expr), n);                                                     \
        }                                                                                          \
    }
#define TERNARY(name, expr)                                    \
    static void name(const BodyArgs *a) {                      \
        const int64_t cols = a->cols;                          \
        switch (a->spread) {                                   \
        case 0: TERNARY_LOOP(false, false, false, expr) break; \
        case 1: TERNARY_LOOP(true, false, false, expr) break;  \
        case 2: TERNARY_LOOP(false, true, false, expr) break;  \
        case 3: TERNARY_LOOP(true, true, false, expr) break;   \
        case 4: TERNARY_LOOP(false, false, true, expr) break;  \
        case 5: TERNARY_LOOP(true, false, true, expr) break;   \
        case 6: TERNARY_LOOP(false, true, true, expr) break;   \
        default: TERNARY_LOOP(true, true, true, expr) break;   \
        }                                                      \
    }

TERNARY(run_WHERE, vf_select(truth(x), y, z))
TERNARY(run_FMA, vf_fma(x, y, z))
TERNARY(run_FMA_RELU, relu(vf_fma(x, y, z)))
TERNARY(run_MUL_ADD, rounded(x *y) + z)
TERNARY(run_MUL_ADD_RELU, relu(rounded(x *y) + z))

/* ---- from and to memory ------------------------------------------------------------------------------------------ */

static void gather(float *dst, const float *src, int64_t step, int64_t n) {
    for (int64_t i = 0; i < n; i++) dst[i] = float_at(src + i * step);
}
static void from_bytes(float *dst, const uint8_t *src, int64_t step, int64_t n) {
    int32_t *bits = (int32_t *)dst;
    if (step == 1)
        for (int64_t i = 0; i < n; i++) bits[i] = src[i] ? -1 : 0;
    else
        for (int64_t i = 0; i < n; i++) bits[i] = src[i * step] ? -1 : 0;
}
static void to_bytes(uint8_t *dst, const float *src, int64_t n) {
    const int32_t *bits = (const int32_t *)src;
    for (int64_t i = 0; i < n; i++) dst[i] = bits[i] & 1;
}

static void stream(float *dst, const float *src, int64_t n) {
    int64_t i = 0;
#if defined(__AVX512F__)
    for (; i < n && (uintptr_t)(dst + i) % sizeof(vf) != 0; i++) dst[i] = src[i];
    for (; i + VF <= n; i += VF) _mm512_stream_ps(dst + i, (__m512)vf_load(src + i));
#elif defined(__AVX2__)
    for (; i < n && (uintptr_t)(dst + i) % sizeof(vf) != 0; i++) dst[i] = src[i];
    for (; i + VF <= n; i += VF) _mm256_stream_ps(dst + i, (__m256)vf_load(src + i));
#endif
    for (; i < n; i++) dst[i] = src[i];
}

static void fence(void) {
#if defined(__AVX2__)
    _mm_sfence();
#endif
}

#define ROW(NAME) [BODY_##NAME] = run_##NAME,
const BodyTable ISA_NAME(body_table) = {
    .run = {BODY_OPS(ROW, ROW, ROW)},
    .gather = gather,
    .from_bytes = from_bytes,
    .to_bytes = to_bytes,
    .from_f16 = from_halves,
    .to_f16 = to_halves,
    .from_u8 = from_u8,
    .from_i8 = from_i8,
    .to_whole = to_whole,
    .stream = stream,
    .fence = fence,
};
