/* SPDX-License-Identifier: Apache-2.0 */
/* Contexts, errors, names: the parts of the public API that need no model. */
#include "session/session.h"

#include "backends/cpu/cpu.h"

const char *tn_version(void) { return TN_VERSION_STRING; }

const char *tn_status_name(tn_status status) { return status_name(status); }
const char *tn_status_text(tn_status status) { return status_text(status); }
const char *tn_last_error(void) { return diag_text(); }

const char *tn_dtype_name(tn_dtype dtype) { return dtype_name(dtype); }
tn_dtype tn_dtype_from_name(const char *name) { return name ? dtype_from_name(name, strlen(name)) : TN_UNDEFINED; }
int tn_dtype_bits(tn_dtype dtype) { return dtype_bits(dtype); }

tn_status tn_context_create(const tn_context_options *options, tn_context **context) {
    tn_context_options none = {0};
    const tn_context_options *o = options ? options : &none;
    Context *ctx;
    if (!context) return fail(TN_INVALID_ARGUMENT, "the place for the context is NULL");
    if (!!o->allocator.alloc != !!o->allocator.free)
        return fail(TN_INVALID_ARGUMENT, "an allocator needs both alloc and free");
    TRY(context_new(o->allocator.alloc ? &o->allocator : NULL, &o->limits, &ctx));
    ctx->log = o->log;
    ctx->log_user = o->log_user;
    ctx->log_level = o->log_level;
    tn_status status = o->pthreadpool ? pool_wrap(&ctx->allocator, o->pthreadpool, &ctx->pool)
                                      : pool_new(&ctx->allocator, o->threads, &ctx->pool);
    if (status != TN_OK) {
        context_unref(ctx);
        return status;
    }
    *context = (tn_context *)ctx;
    return TN_OK;
}

void tn_context_release(tn_context *context) { context_unref(context_of(context)); }
int tn_context_threads(const tn_context *context) { return context ? pool_threads(context_of(context)->pool) : 0; }

tn_status tn_measure_peak(tn_context *context, size_t bytes, tn_peak *peak) {
    CpuPeak found;
    if (!context || !peak) return fail(TN_INVALID_ARGUMENT, "context or peak is NULL");
    TRY(cpu_peak(&context_of(context)->allocator, context_of(context)->pool, bytes, &found));
    *peak = (tn_peak){found.isa, found.flops, found.read, found.copy};
    return TN_OK;
}
