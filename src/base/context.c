/* SPDX-License-Identifier: Apache-2.0 */
/* What a caller brings once, with the defaults of what it left open. */
#include "base/base.h"

#include <stdio.h>

static const tn_limits default_limits = {
    .max_bytes = (uint64_t)16 << 30,
    .max_nodes = 16000000,
    .max_nesting = 64,
    .max_fold_bytes = (uint64_t)64 << 20,
    .max_loop_trips = (uint64_t)1 << 31,
};

static tn_limits fill_limits(const tn_limits *given) {
    tn_limits limits = given ? *given : default_limits;
    if (limits.max_bytes == 0) limits.max_bytes = default_limits.max_bytes;
    if (limits.max_nodes == 0) limits.max_nodes = default_limits.max_nodes;
    if (limits.max_nesting == 0) limits.max_nesting = default_limits.max_nesting;
    if (limits.max_fold_bytes == 0) limits.max_fold_bytes = default_limits.max_fold_bytes;
    if (limits.max_loop_trips == 0) limits.max_loop_trips = default_limits.max_loop_trips;
    return limits;
}

tn_status context_new(const Allocator *a, const tn_limits *limits, Context **out) {
    *out = NULL;
    if (!a) a = &allocator_default;
    Context *context = mem_alloc(a, sizeof *context, alignof(Context));
    if (!context) return TN_OUT_OF_MEMORY;
    atomic_init(&context->references, 1);
    context->allocator = *a;
    context->log_level = TN_LOG_WARNING;
    context->limits = fill_limits(limits);
    *out = context;
    return TN_OK;
}

Context *context_ref(Context *context) {
    if (context) atomic_fetch_add_explicit(&context->references, 1, memory_order_relaxed);
    return context;
}

void context_unref(Context *context) {
    if (!context) return;
    int before = atomic_fetch_sub_explicit(&context->references, 1, memory_order_acq_rel);
    assert(before > 0);
    if (before != 1) return;
    pool_free(context->pool);
    Allocator a = context->allocator; /* outlives the struct that it frees */
    mem_free(&a, context, sizeof *context);
}

void log_message(const Context *context, tn_log_level level, const char *format, ...) {
    if (!context || !context->log || level > context->log_level) return;
    char message[2048];
    va_list args;
    va_start(args, format);
    int n = vsnprintf(message, sizeof message, format, args);
    va_end(args);
    if (n >= 0) context->log(context->log_user, level, message);
}
