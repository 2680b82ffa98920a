/* SPDX-License-Identifier: Apache-2.0 */
/* What tests of sessions share: models from text, tensors of numbers, runs. */
#ifndef TENON_TESTS_TEST_SESSIONS_COMMON_H
#define TENON_TESTS_TEST_SESSIONS_COMMON_H

#include "test_ir_common.h"

#include <tenon/passes.h>

#include "session/session.h"

#define FORM(text) "tn 1\n" text

typedef struct Fix {
    Context *ctx;
    tn_model *model;
} Fix;

static inline void begin(Fix *f, const char *text) {
    OK(context_new(NULL, NULL, &f->ctx));
    OK(tn_model_load_memory((tn_context *)f->ctx, text, strlen(text), NULL, NULL, NULL, &f->model));
}

static inline void end(Fix *f) {
    tn_model_release(f->model);
    context_unref(f->ctx);
}

static inline tn_tensor *floats(Context *ctx, int rank, const int64_t *dims, uint64_t seed) {
    tn_tensor *t;
    OK(tn_tensor_create((tn_context *)ctx, TN_F32, rank, dims, &t));
    for (int64_t i = 0; i < tn_tensor_count(t); i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        ((float *)tn_tensor_data(t))[i] = (float)(int64_t)(seed >> 33) / (float)(1u << 30) - 1;
    }
    return t;
}

static inline tn_tensor *rows(Context *ctx, int64_t n, uint64_t seed) {
    return floats(ctx, 2, (int64_t[]){n, 4}, seed);
}

static inline void release(tn_tensor **list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        tn_tensor_release(list[i]);
        list[i] = NULL;
    }
}

static inline void assert_same(const tn_tensor *a, const tn_tensor *b) {
    assert_true(tn_tensor_dtype(a) == tn_tensor_dtype(b) && tn_tensor_rank(a) == tn_tensor_rank(b));
    for (int k = 0; k < tn_tensor_rank(a); k++) assert_int_equal(tn_tensor_dims(a)[k], tn_tensor_dims(b)[k]);
    if (tn_tensor_bytes(a) > 0) assert_memory_equal(tn_tensor_data(a), tn_tensor_data(b), tn_tensor_bytes(a));
}

static inline tn_status run(tn_session *s, tn_tensor *const *in, tn_tensor **out) {
    return tn_session_run(s, NULL, (const tn_tensor *const *)in, tn_session_n_inputs(s), out, tn_session_n_outputs(s));
}

#define NAMES(...) \
    (const char *const[]) { __VA_ARGS__ }
#define COUNT(...) (sizeof(NAMES(__VA_ARGS__)) / sizeof(const char *))

/* What the whole model gives for these values, in this order. */
static inline void run_whole(const Fix *f, const char *const *names, size_t n, tn_tensor *const *in, tn_tensor **out) {
    tn_session *s;
    OK(tn_session_create(f->model, &(tn_session_options){.outputs = names, .n_outputs = n}, &s));
    OK(run(s, in, out));
    tn_session_release(s);
}

#endif
