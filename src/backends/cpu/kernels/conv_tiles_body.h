/* SPDX-License-Identifier: Apache-2.0 */
/* Included once for each WIDTH, of NV vectors and HALF: the tiles of 1 to MOST_ROWS pixels. */
#define ROWS 1
#include "backends/cpu/kernels/conv_tile_body.h"
#undef ROWS
#define ROWS 2
#include "backends/cpu/kernels/conv_tile_body.h"
#undef ROWS
#define ROWS 3
#include "backends/cpu/kernels/conv_tile_body.h"
#undef ROWS
#define ROWS 4
#include "backends/cpu/kernels/conv_tile_body.h"
#undef ROWS
#define ROWS 5
#include "backends/cpu/kernels/conv_tile_body.h"
#undef ROWS
#define ROWS 6
#include "backends/cpu/kernels/conv_tile_body.h"
#undef ROWS
#if MOST_ROWS >= 7
#define ROWS 7
#include "backends/cpu/kernels/conv_tile_body.h"
#undef ROWS
#endif
#if MOST_ROWS >= 8
#define ROWS 8
#include "backends/cpu/kernels/conv_tile_body.h"
#undef ROWS
#endif
#if MOST_ROWS >= 9
#define ROWS 9
#include "backends/cpu/kernels/conv_tile_body.h"
#undef ROWS
#endif
#if MOST_ROWS >= 10
#define ROWS 10
#include "backends/cpu/kernels/conv_tile_body.h"
#undef ROWS
#endif
#if MOST_ROWS >= 11
#define ROWS 11
#include "backends/cpu/kernels/conv_tile_body.h"
#undef ROWS
#endif
#if MOST_ROWS >= 12
#define ROWS 12
#include "backends/cpu/kernels/conv_tile_body.h"
#undef ROWS
#endif
#undef WIDTH
#undef NV
#undef HALF
#undef MOST_ROWS
