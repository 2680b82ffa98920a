/* SPDX-License-Identifier: Apache-2.0 */
/* The raster by index, one element at a time: slow, and simple enough to be believed. */
#include "geom/geom_int.h"

tn_status raster_oracle(const RegionList *list, tn_dtype dtype, const RasterOperand *sources, void *dst,
                        int64_t dst_offset, int64_t count, const void *fill) {
    static const _Alignas(16) uint8_t zero[16];
    if (!list->covers)
        for (int64_t i = 0; i < count; i++) copy_elements(dtype, dst, dst_offset + i, 0, fill ? fill : zero, 0, 0, 1);
    for (size_t i = 0; i < list->len; i++) {
        const Region *r = &list->data[i];
        int64_t n = region_count(r);
        for (int64_t flat = 0; flat < n; flat++) {
            int64_t from = r->src_offset, to = dst_offset + r->dst_offset, left = flat;
            for (int k = r->rank - 1; k >= 0; k--) {
                int64_t at = left % r->size[k];
                left /= r->size[k];
                from += at * r->src_stride[k];
                to += at * r->dst_stride[k];
            }
            if (r->source == REGION_FILL) copy_elements(dtype, dst, to, 0, fill ? fill : zero, 0, 0, 1);
            else copy_elements(dtype, dst, to, 0, sources[r->source].data, sources[r->source].offset + from, 0, 1);
        }
    }
    return TN_OK;
}
