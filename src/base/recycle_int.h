/* SPDX-License-Identifier: Apache-2.0 */
/* What the default allocator asks of recycle.c. */
#ifndef TENON_BASE_RECYCLE_INT_H
#define TENON_BASE_RECYCLE_INT_H

#include "base/base.h"

void *recycle_take(size_t size);           /* pages that are zero up to `size`; NULL: there are none */
bool recycle_give(void *ptr, size_t size); /* whole pages, from their begin; false: not wanted */

#endif
