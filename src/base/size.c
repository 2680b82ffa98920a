/* SPDX-License-Identifier: Apache-2.0 */
/* Products of sizes that cannot wrap: a wrapped size is how a model file would get us to write past a buffer. */
#include "base/base.h"

#include <inttypes.h>

tn_status checked_count(int rank, const int64_t *dims, int64_t *count) {
    int64_t product = 1;
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        if (dims[i] < 0) return fail(TN_INVALID_ARGUMENT, "dimension %d has the negative size %" PRId64, i, dims[i]);
        /* A zero is left out of the product: it must not hide that the other sizes overflow, whatever the order. */
        if (dims[i] == 0) empty = true;
        else if (mul_overflows(product, dims[i], &product))
            return fail(TN_LIMIT, "the sizes of %d dimensions multiply to more than 2^63 elements", rank);
    }
    *count = empty ? 0 : product;
    return TN_OK;
}

tn_status checked_bytes(tn_dtype dtype, int64_t count, size_t *bytes) {
    int64_t total;
    int width = dtype_bits(dtype);
    if (width == 0) return fail(TN_INVALID_ARGUMENT, "%d is no element type", (int)dtype);
    if (count < 0) return fail(TN_INVALID_ARGUMENT, "a negative number of elements, %" PRId64, count);
    /* Whole bytes first, so that 2^60 bytes of u8 do not overflow by being counted in bits. */
    int64_t unit = width < 8 ? 1 : width / 8, per_byte = width < 8 ? 8 / width : 1;
    int64_t whole = count / per_byte + (count % per_byte != 0);
    if (mul_overflows(whole, unit, &total) || (uint64_t)total > PTRDIFF_MAX)
        return fail(TN_LIMIT, "%" PRId64 " elements of %s take more bytes than can be addressed", count,
                    dtype_name(dtype));
    *bytes = (size_t)total;
    return TN_OK;
}
