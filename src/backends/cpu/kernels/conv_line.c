/* SPDX-License-Identifier: Apache-2.0 */
/* Tiles of convolutions whose pixels lie along a line, all at one distance. */
#include "backends/cpu/conv_tile_int.h"
#include "backends/cpu/kernels/vec_int.h"

#include <math.h>

#define TABLE conv_line_table
#define ROWS_3 7
#define TILE_BODY "backends/cpu/kernels/conv_line_body.h"
#include "backends/cpu/kernels/conv_table_body.h"
