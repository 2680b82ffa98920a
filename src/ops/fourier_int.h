/* SPDX-License-Identifier: Apache-2.0 */
/* Discrete Fourier transforms of any length (fourier.c), for DFT and STFT. */
#ifndef TENON_OPS_FOURIER_INT_H
#define TENON_OPS_FOURIER_INT_H

#include "ops/nn_int.h"

/* A transform whose length has small factors. */
typedef struct FourierPlan {
    int64_t n;
    int n_factors, factors[48];
    double *roots; /* e^(-2 pi i k / n) for k < n */
} FourierPlan;

/* A transform of length n, and what is computed once for all lines of that length. */
typedef struct Fourier {
    int64_t n, work;  /* doubles that fourier_run wants */
    FourierPlan plan; /* of n itself, or of a power of two that is at least 2n - 1: then there are */
    double *chirp;    /* e^(-pi i k^2 / n); else NULL */
    const double *filter;
} Fourier;
tn_status fourier_init(KernelCtx *c, int64_t n, Fourier *f);
/* x: n complex numbers, transformed in place; the inverse is divided by n. */
void fourier_run(const Fourier *f, double *x, bool inverse, double *work);

#endif
