/* SPDX-License-Identifier: Apache-2.0 */
/* Discrete Fourier transforms: lengths with small prime factors factor by factor, each time from one place to another so that
   results come out in order (Stockham); others as a convolution with a chirp (Bluestein). Real and imaginary parts are arrays of
   their own, of which the second begins n numbers behind the first. */
#include "ops/fourier_int.h"

enum { LARGEST_FACTOR = 13 };

static void unit_root(int64_t k, int64_t n, double *out) {
    double angle = -2 * 3.14159265358979323846 * ((double)k / (double)n);
    out[0] = cos(angle), out[1] = sin(angle);
}

/* ---- factor by factor ------------------------------------------------------------------------------------------ */

/* Fours first: what comes later runs along more and more neighbours. */
static bool find_factors(FourierPlan *plan) {
    static const int factors[] = {4, 2, 3, 5, 7, 11, LARGEST_FACTOR};
    int64_t rest = plan->n;
    for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
        for (; rest % factors[i] == 0; rest /= factors[i]) plan->factors[plan->n_factors++] = factors[i];
    return rest == 1;
}

static tn_status make_roots(KernelCtx *c, FourierPlan *plan) {
    plan->roots = kernel_scratch(c, double, (size_t)(2 * plan->n));
    if (!plan->roots) return TN_OUT_OF_MEMORY;
    for (int64_t k = 0; k < plan->n; k++) unit_root(k, plan->n, plan->roots + 2 * k);
    return TN_OK;
}

/* What one factor is done on: `parts` of `span` neighbours each for every one of the factor's points. */
typedef struct Pass {
    int64_t n, parts, span;
    const double *roots;
    int64_t step; /* from one part's root to the next one's */
} Pass;

static void pass_of_four(const Pass *p, const double *restrict x, double *restrict y) {
    int64_t n = p->n, s = p->span, apart = p->parts * s;
    for (int64_t part = 0; part < p->parts; part++) {
        const double *w1 = p->roots + 2 * part * p->step, *w2 = p->roots + 4 * part * p->step;
        const double *w3 = p->roots + 6 * part * p->step, *from = x + part * s;
        double c1 = w1[0], s1 = w1[1], c2 = w2[0], s2 = w2[1], c3 = w3[0], s3 = w3[1], *to = y + 4 * part * s;
        for (int64_t i = 0; i < s; i++) {
            const double *a = from + i, *b = a + apart, *c = b + apart, *d = c + apart;
            double sum_re = a[0] + c[0], sum_im = a[n] + c[n], less_re = a[0] - c[0], less_im = a[n] - c[n];
            double other_re = b[0] + d[0], other_im = b[n] + d[n], turn_re = b[n] - d[n], turn_im = d[0] - b[0];
            double re1 = less_re + turn_re, im1 = less_im + turn_im, re3 = less_re - turn_re, im3 = less_im - turn_im;
            double re2 = sum_re - other_re, im2 = sum_im - other_im;
            to[i] = sum_re + other_re, to[n + i] = sum_im + other_im;
            to[s + i] = re1 * c1 - im1 * s1, to[n + s + i] = re1 * s1 + im1 * c1;
            to[2 * s + i] = re2 * c2 - im2 * s2, to[n + 2 * s + i] = re2 * s2 + im2 * c2;
            to[3 * s + i] = re3 * c3 - im3 * s3, to[n + 3 * s + i] = re3 * s3 + im3 * c3;
        }
    }
}

/* to += from * root, or to = that. */
static void add_turned(int64_t n, int64_t span, const double *root, const double *restrict from, double *restrict to,
                       bool first) {
    double c = root[0], s = root[1];
    if (first)
        for (int64_t i = 0; i < span; i++) {
            to[i] = from[i] * c - from[n + i] * s;
            to[n + i] = from[i] * s + from[n + i] * c;
        }
    else
        for (int64_t i = 0; i < span; i++) {
            to[i] += from[i] * c - from[n + i] * s;
            to[n + i] += from[i] * s + from[n + i] * c;
        }
}

static void pass_of_any(const Pass *p, int64_t factor, const double *x, double *y) {
    int64_t n = p->n, s = p->span;
    for (int64_t part = 0; part < p->parts; part++)
        for (int64_t j = 0; j < factor; j++)
            for (int64_t k = 0; k < factor; k++) {
                int64_t root = (j * k % factor * (n / factor) + part * j * p->step) % n;
                add_turned(n, s, p->roots + 2 * root, x + (part + p->parts * k) * s, y + (factor * part + j) * s,
                           k == 0);
            }
}

/* Forward. The result is in one of the two; both have room for 2 n numbers. */
static double *transform(const FourierPlan *plan, double *x, double *other) {
    int64_t length = plan->n, span = 1;
    for (int i = 0; i < plan->n_factors; i++) {
        int64_t factor = plan->factors[i];
        Pass p = {plan->n, length / factor, span, plan->roots, plan->n / length};
        if (factor == 4) pass_of_four(&p, x, other);
        else pass_of_any(&p, factor, x, other);
        length /= factor, span *= factor;
        double *made = other;
        other = x, x = made;
    }
    return x;
}

/* ---- any length ------------------------------------------------------------------------------------------------ */

/* The filter is the transform of the chirp's conjugate. */
static tn_status make_chirp(KernelCtx *c, Fourier *f) {
    int64_t size = f->plan.n;
    f->chirp = kernel_scratch(c, double, (size_t)(2 * f->n));
    double *filter = kernel_scratch(c, double, (size_t)(2 * size)),
           *other = kernel_scratch(c, double, (size_t)(2 * size));
    if (!f->chirp || !filter || !other) return TN_OUT_OF_MEMORY;
    /* k^2 modulo 2n, step by step, so that nothing overflows. */
    for (int64_t k = 0, square = 0; k < f->n; k++) {
        unit_root(square, 2 * f->n, f->chirp + 2 * k);
        square = (square + 2 * k + 1) % (2 * f->n);
        for (int end = 0; end < 2; end++) { /* at k and at -k */
            int64_t to = end ? (size - k) % size : k;
            filter[to] = f->chirp[2 * k], filter[size + to] = -f->chirp[2 * k + 1];
        }
    }
    f->filter = transform(&f->plan, filter, other);
    return TN_OK;
}

tn_status fourier_init(KernelCtx *c, int64_t n, Fourier *f) {
    *f = (Fourier){.n = n, .plan = {.n = n}};
    if (n < 1 || n > (int64_t)1 << 40) return fail(TN_OUT_OF_RANGE, "a Fourier transform of length %lld", (long long)n);
    bool direct = find_factors(&f->plan);
    if (!direct) {
        f->plan = (FourierPlan){.n = 1};
        while (f->plan.n < 2 * n - 1) f->plan.n *= 2;
        find_factors(&f->plan);
    }
    f->work = 4 * f->plan.n;
    TRY(make_roots(c, &f->plan));
    return direct ? TN_OK : make_chirp(c, f);
}

/* x times the chirp, as two arrays with zeros behind. */
static void begin_chirp(const Fourier *f, const double *x, double *to) {
    int64_t size = f->plan.n;
    memset(to, 0, (size_t)(2 * size) * sizeof *to);
    for (int64_t i = 0; i < f->n; i++) {
        const double *w = f->chirp + 2 * i;
        to[i] = x[2 * i] * w[0] - x[2 * i + 1] * w[1];
        to[size + i] = x[2 * i] * w[1] + x[2 * i + 1] * w[0];
    }
}

/* The inverse transform of a product is that of its conjugate, conjugated. */
static void bluestein(const Fourier *f, double *x, double *work) {
    int64_t size = f->plan.n;
    begin_chirp(f, x, work);
    double *z = transform(&f->plan, work, work + 2 * size);
    for (int64_t i = 0; i < size; i++) {
        double re = z[i] * f->filter[i] - z[size + i] * f->filter[size + i];
        z[size + i] = -(z[i] * f->filter[size + i] + z[size + i] * f->filter[i]);
        z[i] = re;
    }
    z = transform(&f->plan, z, z == work ? work + 2 * size : work);
    for (int64_t i = 0; i < f->n; i++) {
        double re = z[i] / (double)size, im = -z[size + i] / (double)size;
        x[2 * i] = re * f->chirp[2 * i] - im * f->chirp[2 * i + 1];
        x[2 * i + 1] = re * f->chirp[2 * i + 1] + im * f->chirp[2 * i];
    }
}

static void direct(const Fourier *f, double *x, double *work) {
    int64_t n = f->n;
    for (int64_t i = 0; i < n; i++) work[i] = x[2 * i], work[n + i] = x[2 * i + 1];
    const double *z = transform(&f->plan, work, work + 2 * n);
    for (int64_t i = 0; i < n; i++) x[2 * i] = z[i], x[2 * i + 1] = z[n + i];
}

void fourier_run(const Fourier *f, double *x, bool inverse, double *work) {
    for (int64_t i = 0; i < f->n && inverse; i++) x[2 * i + 1] = -x[2 * i + 1]; /* conjugated before and after */
    if (f->chirp) bluestein(f, x, work);
    else direct(f, x, work);
    if (!inverse) return;
    for (int64_t i = 0; i < f->n; i++) {
        x[2 * i] /= (double)f->n;
        x[2 * i + 1] /= -(double)f->n;
    }
}
