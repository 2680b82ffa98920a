/* SPDX-License-Identifier: Apache-2.0 */
/* Discrete Fourier transforms: radix 2 for powers of two, other lengths as a convolution with a chirp (Bluestein). */
#include "ops/fourier_int.h"

static void unit_root(int64_t k, int64_t n, double *out) {
    double angle = -2 * 3.14159265358979323846 * ((double)k / (double)n);
    out[0] = cos(angle), out[1] = sin(angle);
}

static void multiply(double *x, const double *y) {
    double re = x[0] * y[0] - x[1] * y[1];
    x[1] = x[0] * y[1] + x[1] * y[0];
    x[0] = re;
}

static void reverse_bits(double *x, int64_t n) {
    for (int64_t i = 1, j = 0; i < n; i++) {
        int64_t bit = n >> 1;
        for (; j & bit; bit >>= 1) j ^= bit;
        j |= bit;
        if (i >= j) continue;
        for (int k = 0; k < 2; k++) {
            double t = x[2 * i + k];
            x[2 * i + k] = x[2 * j + k];
            x[2 * j + k] = t;
        }
    }
}

/* Forward, in place, of f->size numbers. */
static void radix_2(const Fourier *f, double *x) {
    reverse_bits(x, f->size);
    for (int64_t span = 1; span < f->size; span *= 2) {
        int64_t step = f->size / (2 * span);
        for (int64_t start = 0; start < f->size; start += 2 * span) {
            for (int64_t k = 0; k < span; k++) {
                double *a = x + 2 * (start + k), *b = a + 2 * span, t[2] = {b[0], b[1]};
                multiply(t, f->roots + 2 * k * step);
                b[0] = a[0] - t[0], b[1] = a[1] - t[1];
                a[0] += t[0], a[1] += t[1];
            }
        }
    }
}

static void conjugate(double *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) x[2 * i + 1] = -x[2 * i + 1];
}

static tn_status make_chirp(KernelCtx *c, Fourier *f) {
    f->chirp = kernel_scratch(c, double, (size_t)(2 * f->n));
    f->filter = kernel_scratch(c, double, (size_t)(2 * f->size));
    if (!f->chirp || !f->filter) return TN_OUT_OF_MEMORY;
    /* k^2 modulo 2n, step by step, so that nothing overflows. */
    for (int64_t k = 0, square = 0; k < f->n; k++) {
        unit_root(square, 2 * f->n, f->chirp + 2 * k);
        square = (square + 2 * k + 1) % (2 * f->n);
        for (int end = 0; end < 2; end++) { /* at k and at -k */
            double *to = f->filter + 2 * (end ? (f->size - k) % f->size : k);
            to[0] = f->chirp[2 * k], to[1] = -f->chirp[2 * k + 1];
        }
    }
    radix_2(f, f->filter);
    return TN_OK;
}

tn_status fourier_init(KernelCtx *c, int64_t n, Fourier *f) {
    *f = (Fourier){.n = n, .size = 1};
    if (n < 1 || n > (int64_t)1 << 40) return fail(TN_OUT_OF_RANGE, "a Fourier transform of length %lld", (long long)n);
    bool is_power = (n & (n - 1)) == 0;
    while (f->size < (is_power ? n : 2 * n - 1)) f->size *= 2;
    f->roots = kernel_scratch(c, double, (size_t)max_i64(f->size, 2));
    if (!f->roots) return TN_OUT_OF_MEMORY;
    for (int64_t k = 0; k < f->size / 2; k++) unit_root(k, f->size, f->roots + 2 * k);
    return is_power ? TN_OK : make_chirp(c, f);
}

static void bluestein(const Fourier *f, double *x, double *work) {
    for (int64_t i = 0; i < 2 * f->n; i++) work[i] = x[i];
    for (int64_t i = 2 * f->n; i < 2 * f->size; i++) work[i] = 0;
    for (int64_t i = 0; i < f->n; i++) multiply(work + 2 * i, f->chirp + 2 * i);
    radix_2(f, work);
    for (int64_t i = 0; i < f->size; i++) multiply(work + 2 * i, f->filter + 2 * i);
    conjugate(work, f->size); /* the inverse: conjugated before and after */
    radix_2(f, work);
    for (int64_t i = 0; i < f->n; i++) {
        x[2 * i] = work[2 * i] / (double)f->size;
        x[2 * i + 1] = -work[2 * i + 1] / (double)f->size;
        multiply(x + 2 * i, f->chirp + 2 * i);
    }
}

void fourier_run(const Fourier *f, double *x, bool inverse, double *work) {
    if (inverse) conjugate(x, f->n);
    if (f->chirp) bluestein(f, x, work);
    else radix_2(f, x);
    if (!inverse) return;
    for (int64_t i = 0; i < f->n; i++) {
        x[2 * i] /= (double)f->n;
        x[2 * i + 1] /= -(double)f->n;
    }
}
