/* SPDX-License-Identifier: Apache-2.0 */
/* Memory from the operating system, page by page (memory.c). */
#ifndef TENON_BASE_PAGES_INT_H
#define TENON_BASE_PAGES_INT_H

#include "base/base.h"

/* Zeroed pages for `size` bytes from a multiple of `align` on, given back with munmap; NULL when there are none. What is
   not usable is only reserved. */
void *pages_map(size_t size, size_t align, bool usable);

#endif
