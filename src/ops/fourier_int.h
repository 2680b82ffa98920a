/* SPDX-License-Identifier: Apache-2.0 */
/* Discrete Fourier transforms of any length (fourier.c), for DFT and STFT. */
#ifndef TENON_OPS_FOURIER_INT_H
#define TENON_OPS_FOURIER_INT_H

#include "ops/nn_int.h"

/* A transform of length n, and what is computed once for all lines of that length. */
typedef struct Fourier {
    int64_t n;
    int64_t size;   /* the power of two that is transformed: n itself, or at least 2n - 1 */
    double *roots;  /* e^(-2 pi i k / size) for k < size / 2 */
    double *chirp;  /* e^(-pi i k^2 / n); NULL where n is a power of two */
    double *filter; /* transform of the chirp's conjugate */
} Fourier;
tn_status fourier_init(KernelCtx *c, int64_t n, Fourier *f);
/* x: n complex numbers, transformed in place; the inverse is divided by n. `work` has room for 2 * size doubles. */
void fourier_run(const Fourier *f, double *x, bool inverse, double *work);

#endif
