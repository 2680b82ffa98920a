/* SPDX-License-Identifier: Apache-2.0 */
/* What bench/raster.py calls: one box moved by the raster, and memcpy. */
#include "geom/geom.h"

TN_API void *bench_pool(int threads);
TN_API int bench_raster(void *pool, int dtype, int rank, const int64_t *dims, const int64_t *src_strides,
                        const void *src, void *dst);
TN_API void bench_memcpy(void *dst, const void *src, size_t bytes);

void *bench_pool(int threads) {
    Pool *pool = NULL;
    return pool_new(&allocator_default, threads, &pool) == TN_OK ? pool : NULL;
}

int bench_raster(void *pool, int dtype, int rank, const int64_t *dims, const int64_t *src_strides, const void *src,
                 void *dst) {
    Region r = region_dense(0, rank, dims);
    for (int k = 0; k < rank; k++) r.src_stride[k] = src_strides[k];
    RegionList list = {.data = &r, .len = 1, .covers = true};
    RasterOperand source = {src, 0};
    return (int)raster_run(&list, (tn_dtype)dtype, &source, dst, 0, region_count(&r), NULL, pool);
}

void bench_memcpy(void *dst, const void *src, size_t bytes) { memcpy(dst, src, bytes); }
