/* SPDX-License-Identifier: Apache-2.0 */
/* The tiles of NV vectors: of 1 to ROWS rows. */

#define MR 1
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 2
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 3
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 4
#include "backends/cpu/kernels/gemm_tile_body.h"
#if ROWS >= 6
#define MR 5
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 6
#include "backends/cpu/kernels/gemm_tile_body.h"
#endif
#if ROWS >= 8
#define MR 7
#include "backends/cpu/kernels/gemm_tile_body.h"
#define MR 8
#include "backends/cpu/kernels/gemm_tile_body.h"
#endif
#undef NV
#undef ROWS
#undef AHEAD
