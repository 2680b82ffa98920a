/* SPDX-License-Identifier: Apache-2.0 */
/* Facts about element types, from dtypes.def. */
#include "base/base.h"

typedef struct DtypeInfo {
    const char *name;
    int bits;
} DtypeInfo;

static const DtypeInfo infos[TN_DTYPE_END] = {
    [TN_UNDEFINED] = {"?", 0},
#define DTYPE(name, value, text, bits) [value] = {text, bits},
#include <tenon/dtypes.def>
#undef DTYPE
};

/* Numbers come from files, so that any may be asked for. */
static bool is_dtype(tn_dtype dtype) { return (int)dtype > TN_UNDEFINED && (int)dtype < TN_DTYPE_END; }

static bool is_one_of(tn_dtype dtype, uint32_t set) { return is_dtype(dtype) && (set >> dtype & 1) != 0; }

#define BIT(dtype) (1u << TN_##dtype)
static_assert(TN_DTYPE_END <= 32, "sets of types are 32 bits");

int dtype_bits(tn_dtype dtype) { return is_dtype(dtype) ? infos[dtype].bits : 0; }

int dtype_size(tn_dtype dtype) { return dtype_bits(dtype) / 8; }

const char *dtype_name(tn_dtype dtype) { return is_dtype(dtype) ? infos[dtype].name : "?"; }

tn_dtype dtype_from_name(const char *name, size_t length) {
    for (int i = TN_UNDEFINED + 1; i < TN_DTYPE_END; i++)
        if (str_equal(str_of(infos[i].name), (Str){name, length})) return (tn_dtype)i;
    return TN_UNDEFINED;
}

bool dtype_is_float(tn_dtype dtype) {
    return is_one_of(dtype, BIT(F32) | BIT(F64) | BIT(F16) | BIT(BF16) | BIT(F8E4M3FN) | BIT(F8E4M3FNUZ) | BIT(F8E5M2) |
                                BIT(F8E5M2FNUZ) | BIT(F8E8M0) | BIT(F4E2M1));
}

bool dtype_is_signed_int(tn_dtype dtype) {
    return is_one_of(dtype, BIT(I2) | BIT(I4) | BIT(I8) | BIT(I16) | BIT(I32) | BIT(I64));
}

bool dtype_is_unsigned_int(tn_dtype dtype) {
    return is_one_of(dtype, BIT(U2) | BIT(U4) | BIT(U8) | BIT(U16) | BIT(U32) | BIT(U64));
}

bool dtype_is_half(tn_dtype dtype) { return is_one_of(dtype, BIT(F16) | BIT(BF16)); }

bool dtype_is_complex(tn_dtype dtype) { return is_one_of(dtype, BIT(C64) | BIT(C128)); }
