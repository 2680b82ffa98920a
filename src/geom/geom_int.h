/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/geom share among themselves. */
#ifndef TENON_GEOM_GEOM_INT_H
#define TENON_GEOM_GEOM_INT_H

#include "geom/geom.h"

/* ---- boxes (region.c) ---------------------------------------------------------------------------------------- */

/* Puts a box into the order of its writes: dimensions of size 1 dropped, destination strides made positive and sorted
   from large to small, neighbours merged. True when that shows that no element is written twice by this box; when
   false, the box may be half changed and its own order of writes may matter. */
bool region_normalise(Region *r);

/* The same writes. What a fill region's source strides say must not keep its dimensions from merging. */
Region region_without_source(const Region *region);

/* The lowest and highest element that the box touches on one side; false when that does not fit 64 bits. The box is
   not empty. */
bool region_extent(const Region *r, int64_t offset, const int64_t *stride, int64_t *lo, int64_t *hi);

/* Appends the same writes as normalised boxes, in an order that keeps who writes last. False: more than `limit` of
   them in the list, or memory is out (*status). */
bool region_simplify(RegionList *list, const Region *r, size_t limit, tn_status *status);

/* ---- boxes cut to pieces (pieces.c) -------------------------------------------------------------------------- */

/* A box with affine maps of its index. Cutting a dimension may add one, so it has room for more than a Region. */
#define PIECE_RANK 12
enum { MAP_TO, MAP_FROM, MAP_AT, MAP_REST, MAP_QUOT, N_MAPS };
typedef struct Affine {
    int64_t c, t[PIECE_RANK];
} Affine;
typedef struct Piece {
    int rank;
    int64_t size[PIECE_RANK];
    Affine map[N_MAPS];
} Piece;

typedef VEC(Piece) PieceList;

/* One job of cutting. It stops (declined) when more than `left` steps would be made. */
#define NEAR_PIECES 2
enum { LIST_OPEN, LIST_NEXT, LIST_FOUND, LIST_TODO, LIST_DONE, LIST_A, LIST_B, N_LISTS };
typedef struct Cutter {
    const Allocator *allocator;
    int64_t left;
    tn_status status;
    PieceList open, next; /* pieces whose MAP_AT has found no writer yet; the same after this writer */
    PieceList found;      /* pieces that have */
    PieceList todo, done, a, b;
    Piece near[N_LISTS][NEAR_PIECES]; /* where lists begin, since most stay short */
} Cutter;

void cutter_init(Cutter *c, const Allocator *allocator, int64_t left);
void cutter_free(Cutter *c);
/* One open piece for a box: MAP_AT are the positions that are looked for, MAP_TO goes along. */
bool cutter_open(Cutter *c, const Region *r, int64_t at_offset, const int64_t *at_stride);
/* Splits the open pieces by whether `writer`, a normalised box, writes where they are: what it writes is found
   (MAP_FROM says from which element), the rest stays open. All exact. False: declined, or status is set. */
bool cutter_match(Cutter *c, const Region *writer);
/* A piece as a box from source MAP_FROM or, for REGION_FILL, from nothing. Pushes several when it has too many
   dimensions. */
bool cutter_push(Cutter *c, const Piece *p, int32_t source, RegionList *list);

/* ---- the raster's inner loops (raster_move.c) ------------------------------------------------------------------ */

/* Where results go: to memory that is in the cache, or may not be, or past the caches where that can be. */
typedef enum RasterStore { STORE_NEAR, STORE_AWAY, STORE_PAST } RasterStore;
/* By element size, as power of two: 1, 2, 4, 8 and 16 bytes. Strides are in bytes. */
typedef struct RasterMoves {
    void (*row[5])(char *restrict to, int64_t dst, const char *restrict from, int64_t src, int64_t n);
    /* to[b*db + a*size] = from[a*sa + b*size] for a < an, b < bn */
    void (*transpose[5])(char *restrict to, int64_t db, const char *restrict from, int64_t sa, int64_t an, int64_t bn,
                         RasterStore store);
    /* Contiguous rows, whole lines of them past the caches; before others read them: fence. */
    void (*stream_rows)(char *restrict to, int64_t dst, const char *restrict from, int64_t src, int64_t rows,
                        int64_t bytes);
    void (*fence)(void);
} RasterMoves;
const RasterMoves *raster_moves(void); /* the best for this processor */
extern const RasterMoves raster_moves_any;
/* Rows of a few contiguous bytes, or of many. */
void raster_copy_rows(char *to, int64_t dst, const char *from, int64_t src, int64_t rows, int64_t bytes);

#endif
