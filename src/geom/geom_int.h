/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of src/geom share among themselves. */
#ifndef TENON_GEOM_GEOM_INT_H
#define TENON_GEOM_GEOM_INT_H

#include "geom/geom.h"

/* Puts a box into the order of its writes: dimensions of size 1 dropped, destination strides made positive and sorted
   from large to small, neighbours merged. True when that shows that no element is written twice by this box; when
   false, the box may be half changed and its own order of writes may matter. */
bool region_normalise(Region *r);

/* The lowest and highest element that the box touches on one side; false when that does not fit 64 bits. The box is
   not empty. */
bool region_extent(const Region *r, int64_t offset, const int64_t *stride, int64_t *lo, int64_t *hi);

#endif
