/* SPDX-License-Identifier: Apache-2.0 */
/* A small model with one of everything that an ONNX file may hold: the seed of truncations and mutations. */
#ifndef TEST_ONNX_SAMPLE_H
#define TEST_ONNX_SAMPLE_H

#include "test_onnx_common.h"

static inline Bytes branch_of(const char *op, const char *out) {
    Bytes graph = {0};
    put_sub(&graph, 1, node_of(op, "x k", out));
    put_str(&graph, 2, out);
    add_output(&graph, out);
    return graph;
}

/* f(a) = a * a + bias, with an attribute reference */
static inline Bytes sample_function(void) {
    Bytes f = {0}, constant = node_of("Constant", "", "c");
    put_str(&f, 1, "Square");
    put_str(&f, 4, "a");
    put_str(&f, 5, "b");
    put_str(&f, 6, "bias");
    put_sub(&f, 7, node_of("Mul", "a a", "m"));
    with_ref(&constant, "value_float", "bias", 1);
    put_sub(&f, 7, constant);
    put_sub(&f, 7, node_of("Add", "m c", "b"));
    put_sub(&f, 9, opset_of("", 17));
    put_str(&f, 10, "local");
    return f;
}

static inline Bytes sample_initialisers(void) {
    static const float k[] = {1, 2, 3};
    Bytes graph = {0}, sparse = {0}, values, indices, ints, strings;
    put_sub(&graph, 5, floats_of("k", k, 3));
    ints = tensor_of("flags", 9, (int64_t[]){2}, 1);
    put_int(&ints, 5, 1);
    put_int(&ints, 5, 0);
    put_sub(&graph, 5, ints);
    strings = tensor_of("words", 8, (int64_t[]){2}, 1);
    put_str(&strings, 6, "one");
    put_str(&strings, 6, "two");
    put_sub(&graph, 5, strings);
    values = tensor_of("s", 1, (int64_t[]){1}, 1);
    put_bytes(&values, 4, k, 4);
    indices = tensor_of("i", 7, (int64_t[]){1}, 1);
    put_bytes(&indices, 7, "\x02", 1);
    put_sub(&sparse, 1, values);
    put_sub(&sparse, 2, indices);
    put_int(&sparse, 3, 3);
    put_sub(&graph, 15, sparse);
    return graph;
}

static inline Bytes sample_model(void) {
    static const int64_t axes[] = {0, 1};
    Bytes graph = sample_initialisers(), model = {0}, property = {0};
    Bytes choose = node_of("If", "cond", "z"), call = node_of("Square", "x", "q"),
          softmax = node_of("Softmax", "q", "p"), clip = node_of("Clip", "p lo", "c"),
          reduce = node_of("ReduceMean", "c", "y");
    Bytes lo = node_of("Constant", "", "lo");
    add_input(&graph, "x", 1, (int64_t[]){2, 3}, 2);
    add_input(&graph, "cond", 9, NULL, 0);
    put_str(&call, 7, "local");
    with_float(&call, "bias", 0.5f);
    put_sub(&graph, 1, call);
    with_int(&softmax, "axis", 0);
    put_sub(&graph, 1, softmax);
    with_sub(&lo, "value", 4, 5, ({
        Bytes t = tensor_of(NULL, 1, NULL, 0);
        put_float(&t, 4, 0.0f);
        t;
    }));
    put_sub(&graph, 1, lo);
    put_sub(&graph, 1, clip);
    with_ints(&reduce, "axes", axes, 2);
    put_sub(&graph, 1, reduce);
    with_graph(&choose, "then_branch", branch_of("Add", "t"));
    with_graph(&choose, "else_branch", branch_of("Mul", "e"));
    put_str(&choose, 3, "choose");
    put_sub(&graph, 1, choose);
    put_sub(&graph, 13, info_of("q", 1, (int64_t[]){2, 3}, 2));
    add_output(&graph, "y");
    add_output(&graph, "z");
    put_int(&model, 1, 8);
    put_str(&model, 2, "test");
    put_sub(&model, 7, graph);
    put_sub(&model, 8, opset_of("", 12));
    put_sub(&model, 8, opset_of("local", 1));
    put_str(&property, 1, "key");
    put_str(&property, 2, "value");
    put_sub(&model, 14, property);
    put_sub(&model, 25, sample_function());
    return model;
}

/* ---- mutations ------------------------------------------------------------------------------------------------ */

static inline void mutate(Bytes *b, uint64_t *random) {
    int n = 1 + (int)(next_random(random) % 4);
    for (int i = 0; i < n && b->n > 1; i++) {
        size_t at = next_random(random) % b->n, length = next_random(random) % 16;
        switch (next_random(random) % 5) {
        case 0: b->s[at] ^= (uint8_t)(1 << next_random(random) % 8); break;
        case 1: b->s[at] = (uint8_t)next_random(random); break;
        case 2: b->s[at] = (uint8_t) "\x00\x7f\x80\xff\x01"[next_random(random) % 5]; break;
        case 3:
            if (at + length < b->n) memmove(b->s + at, b->s + at + length, b->n - at - length), b->n -= length;
            break;
        default:
            if (at + length < b->n) memmove(b->s + at, b->s + next_random(random) % (b->n - length), length);
        }
    }
}

/* Reads that many mutations of the sample: whatever comes of it, it is a model that verifies, or an error. */
static inline void survive_mutations(long rounds, uint64_t random) {
    OnnxTest t;
    Bytes b = sample_model();
    onnx_begin(&t, &(tn_limits){.max_bytes = 1 << 24, .max_nodes = 10000});
    for (long i = 0; i < rounds; i++) {
        Bytes copy = {malloc(b.n), b.n, b.n};
        memcpy(copy.s, b.s, b.n);
        mutate(&copy, &random);
        read_model(&t, copy);
    }
    onnx_end(&t);
    free(b.s);
}

#endif
