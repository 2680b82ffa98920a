/* SPDX-License-Identifier: Apache-2.0 */
/* The vocabulary that every part of Tenon shares: status codes, element types, limits. */
#ifndef TENON_TYPES_H
#define TENON_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define TN_API __attribute__((visibility("default")))
#define TN_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define TN_API
#define TN_PRINTF(fmt, args)
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* What a function that can fail returns. TN_OK is zero; details are in tn_last_error(). */
typedef enum tn_status {
#define STATUS(name, value, text) TN_##name = (value),
#include <tenon/status.def>
#undef STATUS
} tn_status;

/* The type of one tensor element; the numbers are ONNX's. */
typedef enum tn_dtype {
    TN_UNDEFINED = 0,
#define DTYPE(name, value, text, bits) TN_##name = (value),
#include <tenon/dtypes.def>
#undef DTYPE
    TN_DTYPE_END
} tn_dtype;

/* The most dimensions that a tensor may have. */
#define TN_MAX_RANK 8

/* Bounds on what a model may make the engine spend. Zero in a field means its default. */
typedef struct tn_limits {
    uint64_t max_bytes;      /* bytes of one tensor, and of all intermediate memory of one session; default 16 GiB */
    uint64_t max_nodes;      /* nodes of a model, nested graphs and inlined functions included; default 16 million */
    uint32_t max_nesting;    /* depth of nested graphs, functions and messages; default 64 */
    uint64_t max_fold_bytes; /* bytes that one constant computed ahead of time may have; default 64 MiB */
    uint64_t max_loop_trips; /* iterations of one Loop or Scan; default 2^31 */
} tn_limits;

/* Where memory comes from. `alloc` returns memory aligned to `align` (a power of two) or NULL; `free` gets the size
   that was asked for. Both may be called from any thread. */
typedef struct tn_allocator {
    void *(*alloc)(void *user, size_t size, size_t align);
    void (*free)(void *user, void *ptr, size_t size);
    void *user;
} tn_allocator;

typedef enum tn_log_level { TN_LOG_ERROR, TN_LOG_WARNING, TN_LOG_INFO, TN_LOG_DEBUG } tn_log_level;
typedef void (*tn_log_fn)(void *user, tn_log_level level, const char *message);

#ifdef __cplusplus
}
#endif
#endif
