/* SPDX-License-Identifier: Apache-2.0 */
/* Included once for each WIDTH, of NV vectors and HALF: the tiles of 1 to MOST_ROWS pixels. */
#define ROWS 1
#include TILE_BODY
#undef ROWS
#define ROWS 2
#include TILE_BODY
#undef ROWS
#define ROWS 3
#include TILE_BODY
#undef ROWS
#define ROWS 4
#include TILE_BODY
#undef ROWS
#define ROWS 5
#include TILE_BODY
#undef ROWS
#define ROWS 6
#include TILE_BODY
#undef ROWS
#if MOST_ROWS >= 7
#define ROWS 7
#include TILE_BODY
#undef ROWS
#endif
#if MOST_ROWS >= 8
#define ROWS 8
#include TILE_BODY
#undef ROWS
#endif
#if MOST_ROWS >= 9
#define ROWS 9
#include TILE_BODY
#undef ROWS
#endif
#if MOST_ROWS >= 10
#define ROWS 10
#include TILE_BODY
#undef ROWS
#endif
#if MOST_ROWS >= 11
#define ROWS 11
#include TILE_BODY
#undef ROWS
#endif
#if MOST_ROWS >= 12
#define ROWS 12
#include TILE_BODY
#undef ROWS
#endif
#undef WIDTH
#undef NV
#undef HALF
#undef MOST_ROWS
