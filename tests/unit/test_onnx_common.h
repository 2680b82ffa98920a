/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the ONNX reader share: models put together field by field, and reading them from exact copies. */
#ifndef TEST_ONNX_COMMON_H
#define TEST_ONNX_COMMON_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "test_base_alloc.h"

#include "formats/onnx/onnx.h"
#include "ir/ir.h"

#define OK(expr) assert_true(check_ok(expr, #expr))

static inline bool check_ok(tn_status status, const char *what) {
    if (status != TN_OK) print_error("%s: %s: %s\n", what, status_name(status), diag_text());
    return status == TN_OK;
}

/* ---- bytes ---------------------------------------------------------------------------------------------------- */

typedef struct Bytes {
    uint8_t *s;
    size_t n, cap;
} Bytes;

static inline void put(Bytes *b, const void *s, size_t n) {
    if (b->n + n > b->cap) {
        b->cap = (b->n + n) * 2 + 64;
        b->s = realloc(b->s, b->cap);
        assert_non_null(b->s);
    }
    if (n) memcpy(b->s + b->n, s, n);
    b->n += n;
}

static inline void put_varint(Bytes *b, uint64_t v) {
    do {
        uint8_t byte = (uint8_t)((v & 0x7f) | (v > 0x7f ? 0x80 : 0));
        put(b, &byte, 1);
        v >>= 7;
    } while (v);
}

static inline void put_int(Bytes *b, uint32_t tag, int64_t v) {
    put_varint(b, tag << 3);
    put_varint(b, (uint64_t)v);
}

static inline void put_float(Bytes *b, uint32_t tag, float v) {
    put_varint(b, tag << 3 | 5);
    put(b, &v, 4);
}

static inline void put_bytes(Bytes *b, uint32_t tag, const void *s, size_t n) {
    put_varint(b, tag << 3 | 2);
    put_varint(b, n);
    put(b, s, n);
}

static inline void put_str(Bytes *b, uint32_t tag, const char *s) { put_bytes(b, tag, s, strlen(s)); }

/* Puts a message and gives its bytes back. */
static inline void put_sub(Bytes *b, uint32_t tag, Bytes sub) {
    put_bytes(b, tag, sub.s, sub.n);
    free(sub.s);
}

/* ---- messages ------------------------------------------------------------------------------------------------- */

/* Each word of a text of words as a field; "-" is the empty text. */
static inline void put_words(Bytes *b, uint32_t tag, const char *words) {
    char copy[1024];
    snprintf(copy, sizeof copy, "%s", words);
    for (char *rest = copy, *word; (word = strtok_r(rest, " ", &rest));) put_str(b, tag, strcmp(word, "-") ? word : "");
}

static inline Bytes node_of(const char *op, const char *in, const char *out) {
    Bytes b = {0};
    put_words(&b, 1, in);
    put_words(&b, 2, out);
    put_str(&b, 4, op);
    return b;
}

static inline void with_int(Bytes *node, const char *name, int64_t v) {
    Bytes a = {0};
    put_str(&a, 1, name);
    put_int(&a, 3, v);
    put_int(&a, 20, 2);
    put_sub(node, 5, a);
}

static inline void with_float(Bytes *node, const char *name, float v) {
    Bytes a = {0};
    put_str(&a, 1, name);
    put_float(&a, 2, v);
    put_int(&a, 20, 1);
    put_sub(node, 5, a);
}

static inline void with_str(Bytes *node, const char *name, const char *v) {
    Bytes a = {0};
    put_str(&a, 1, name);
    put_str(&a, 4, v);
    put_int(&a, 20, 3);
    put_sub(node, 5, a);
}

static inline void with_ints(Bytes *node, const char *name, const int64_t *v, size_t n) {
    Bytes a = {0};
    put_str(&a, 1, name);
    for (size_t i = 0; i < n; i++) put_int(&a, 8, v[i]);
    put_int(&a, 20, 7);
    put_sub(node, 5, a);
}

static inline void with_sub(Bytes *node, const char *name, int type, uint32_t tag, Bytes value) {
    Bytes a = {0};
    put_str(&a, 1, name);
    put_sub(&a, tag, value);
    put_int(&a, 20, type);
    put_sub(node, 5, a);
}

static inline void with_graph(Bytes *node, const char *name, Bytes graph) { with_sub(node, name, 5, 6, graph); }

/* A reference to an attribute of the call, inside a function. */
static inline void with_ref(Bytes *node, const char *name, const char *ref, int type) {
    Bytes a = {0};
    put_str(&a, 1, name);
    put_str(&a, 21, ref);
    put_int(&a, 20, type);
    put_sub(node, 5, a);
}

static inline Bytes info_of(const char *name, int dtype, const int64_t *dims, int rank) {
    Bytes shape = {0}, tensor = {0}, type = {0}, info = {0};
    for (int i = 0; i < rank; i++) {
        Bytes dim = {0};
        put_int(&dim, 1, dims[i]);
        put_sub(&shape, 1, dim);
    }
    put_int(&tensor, 1, dtype);
    put_sub(&tensor, 2, shape);
    put_sub(&type, 1, tensor);
    put_str(&info, 1, name);
    put_sub(&info, 2, type);
    return info;
}

static inline void add_input(Bytes *graph, const char *name, int dtype, const int64_t *dims, int rank) {
    put_sub(graph, 11, info_of(name, dtype, dims, rank));
}

static inline void add_output(Bytes *graph, const char *name) {
    Bytes info = {0};
    put_str(&info, 1, name);
    put_sub(graph, 12, info);
}

/* Dims and type; the caller adds the data. */
static inline Bytes tensor_of(const char *name, int dtype, const int64_t *dims, int rank) {
    Bytes b = {0};
    for (int i = 0; i < rank; i++) put_int(&b, 1, dims[i]);
    put_int(&b, 2, dtype);
    if (name) put_str(&b, 8, name);
    return b;
}

static inline Bytes floats_of(const char *name, const float *v, int64_t n) {
    Bytes b = tensor_of(name, 1, &n, 1);
    put_bytes(&b, 9, v, (size_t)n * 4);
    return b;
}

static inline Bytes opset_of(const char *domain, int64_t version) {
    Bytes b = {0};
    if (*domain) put_str(&b, 1, domain);
    put_int(&b, 2, version);
    return b;
}

static inline Bytes model_of(Bytes graph, int64_t opset) {
    Bytes b = {0};
    put_int(&b, 1, 8);
    put_sub(&b, 8, opset_of("", opset));
    put_sub(&b, 7, graph);
    return b;
}

/* x: f32[2,3] through one node to y. */
static inline Bytes unary_model(Bytes node, int64_t opset) {
    Bytes graph = {0};
    add_input(&graph, "x", 1, (int64_t[]){2, 3}, 2);
    put_sub(&graph, 1, node);
    add_output(&graph, "y");
    return model_of(graph, opset);
}

/* ---- reading -------------------------------------------------------------------------------------------------- */

typedef struct OnnxTest {
    TestHeap heap;
    Context *ctx;
    Model *model; /* of the last reading */
} OnnxTest;

static inline void onnx_begin(OnnxTest *t, const tn_limits *limits) {
    *t = (OnnxTest){0};
    test_heap_init(&t->heap);
    OK(context_new(&t->heap.allocator, limits, &t->ctx));
}

static inline void onnx_end(OnnxTest *t) {
    model_free(t->model);
    context_unref(t->ctx);
    assert_int_equal(t->heap.living, 0);
}

static inline void release_copy(void *user, void *data, size_t size) {
    (void)user, (void)size;
    free(data);
}

/* From a copy of exactly that size, so that a sanitizer sees a read beyond the end. */
static inline tn_status read_bytes(OnnxTest *t, const uint8_t *s, size_t n, const char *folder) {
    uint8_t *exact = malloc(n ? n : 1);
    Buffer *buffer;
    assert_non_null(exact);
    if (n) memcpy(exact, s, n);
    model_free(t->model);
    t->model = NULL;
    tn_status status = buffer_borrow(&t->ctx->allocator, exact, n, release_copy, NULL, &buffer);
    if (status != TN_OK) {
        free(exact);
        return status;
    }
    status = format_onnx.read(t->ctx, buffer, folder ? "model.onnx" : NULL, folder, &t->model);
    buffer_unref(buffer);
    if (status != TN_OK) assert_null(t->model);
    else if (!t->heap.fail_at) OK(model_verify(t->model));
    return status;
}

/* Reads and gives the bytes back. */
static inline tn_status read_model(OnnxTest *t, Bytes b) {
    tn_status status = read_bytes(t, b.s, b.n, NULL);
    free(b.s);
    return status;
}

static inline void assert_says(const char *part) {
    if (!strstr(diag_text(), part)) print_error("\"%s\" does not say \"%s\"\n", diag_text(), part);
    assert_non_null(strstr(diag_text(), part));
}

/* Refused with that status and a message that says `part`. */
static inline void refuse(OnnxTest *t, Bytes b, tn_status status, const char *part) {
    tn_status got = read_model(t, b);
    if (got != status) print_error("%s: %s\n", status_name(got), diag_text());
    assert_int_equal(got, status);
    assert_says(part);
}

/* The ops of a graph in order, words of a text. Const is left out. */
static inline const char *ops_of(const Graph *graph) {
    static char text[2048];
    size_t n = 0;
    text[0] = 0;
    for (const Node *node = graph->first; node; node = node->next) {
        if (value_constant(node_result(node, 0))) continue;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? " " : "", node->op->name);
    }
    return text;
}

/* The k-th node that is no constant. */
static inline Node *node_at(const Graph *graph, int k) {
    for (Node *node = graph->first; node; node = node->next) {
        if (!value_constant(node_result(node, 0)) && k-- == 0) return node;
    }
    return NULL;
}

static inline uint64_t next_random(uint64_t *state) {
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
