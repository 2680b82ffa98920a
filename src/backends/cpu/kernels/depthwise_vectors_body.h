/* SPDX-License-Identifier: Apache-2.0 */
/* Rows and tiles of depthwise convolutions, for a V, a vector of channels. */

#define COLUMNS 3
#define STEP 1
#include "backends/cpu/kernels/depthwise_body.h"
#define ROWS 1
#include "backends/cpu/kernels/depthwise_rows_body.h"
#define ROWS 2
#include "backends/cpu/kernels/depthwise_rows_body.h"
#undef STEP
#define STEP 2
#include "backends/cpu/kernels/depthwise_body.h"
#define ROWS 1
#include "backends/cpu/kernels/depthwise_rows_body.h"
#define ROWS 2
#include "backends/cpu/kernels/depthwise_rows_body.h"
#if defined(__AVX512F__) /* with 32 registers, data that rows share are what there is to save */
#define ROWS 3
#include "backends/cpu/kernels/depthwise_rows_body.h"
#define ROWS 4
#include "backends/cpu/kernels/depthwise_rows_body.h"
#endif
#undef STEP
#undef COLUMNS

#define COLUMNS 5
#define STEP 1
#include "backends/cpu/kernels/depthwise_body.h"
#undef STEP
#define STEP 2
#include "backends/cpu/kernels/depthwise_body.h"
#undef STEP
#undef COLUMNS

#define COLUMNS 7
#define STEP 1
#include "backends/cpu/kernels/depthwise_body.h"
#undef STEP
#define STEP 2
#include "backends/cpu/kernels/depthwise_body.h"
#undef STEP
#undef COLUMNS
