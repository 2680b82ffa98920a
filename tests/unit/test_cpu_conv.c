/* SPDX-License-Identifier: Apache-2.0 */
/* Convolutions of the CPU against the reference: random windows, groups, sizes and ways to lie in memory. */
#include "test_cpu_conv_common.h"

typedef struct Sizes {
    int rank; /* spatial */
    int64_t n, c, m, group;
    int64_t in[3], kernel[3], stride[3], dilation[3], begin[3], end[3];
    const char *auto_pad;
} Sizes;

static void put_list(char *text, size_t room, const char *name, const int64_t *v, int n, const int64_t *more) {
    size_t at = strlen(text);
    at += (size_t)snprintf(text + at, room - at, "%s%s=[", at ? ", " : "", name);
    for (int i = 0; i < n; i++) at += (size_t)snprintf(text + at, room - at, i ? ",%lld" : "%lld", (long long)v[i]);
    for (int i = 0; more && i < n; i++) at += (size_t)snprintf(text + at, room - at, ",%lld", (long long)more[i]);
    snprintf(text + at, room - at, "]");
}

static void attributes(const Sizes *s, char *text, size_t room) {
    snprintf(text, room, "group=%lld", (long long)s->group);
    put_list(text, room, "strides", s->stride, s->rank, NULL);
    put_list(text, room, "dilations", s->dilation, s->rank, NULL);
    if (s->auto_pad) snprintf(text + strlen(text), room - strlen(text), ", auto_pad=\"%s\"", s->auto_pad);
    else put_list(text, room, "pads", s->begin, s->rank, s->end);
}

static void describe(const Sizes *s, const char *attrs, char *text, size_t room) {
    size_t at = (size_t)snprintf(text, room, "Conv of %lldx%lldx", (long long)s->n, (long long)s->c);
    for (int d = 0; d < s->rank; d++) at += (size_t)snprintf(text + at, room - at, "%lld,", (long long)s->in[d]);
    at += (size_t)snprintf(text + at, room - at, " to %lld channels, window ", (long long)s->m);
    for (int d = 0; d < s->rank; d++) at += (size_t)snprintf(text + at, room - at, "%lld,", (long long)s->kernel[d]);
    snprintf(text + at, room - at, " %s", attrs);
}

/* Whether a window fits; infer says no otherwise. */
static bool fits(const Sizes *s) {
    for (int d = 0; d < s->rank; d++) {
        int64_t span = (s->kernel[d] - 1) * s->dilation[d] + 1, pads = s->auto_pad ? 0 : s->begin[d] + s->end[d];
        if ((!s->auto_pad || s->auto_pad[0] != 'S') && s->in[d] + pads < span) return false;
    }
    return true;
}

static void check(const Sizes *s, const char *op, const char *more, bool with_bias, bool with_z, uint32_t constants,
                  double tolerance) {
    int64_t x_dims[5] = {s->n, s->c}, w_dims[5] = {s->m, s->c / s->group}, b_dims[1] = {s->m};
    for (int d = 0; d < s->rank; d++) x_dims[2 + d] = s->in[d], w_dims[2 + d] = s->kernel[d];
    char attrs[500], what[700];
    attributes(s, attrs, sizeof attrs);
    strcat(attrs, more);
    describe(s, attrs, what, sizeof what);
    Tensor x = random_tensor(s->rank + 2, x_dims, (Lies)pick(0, N_LIES - 1));
    Tensor w = random_tensor(s->rank + 2, w_dims, pick(0, 2) ? ROW_MAJOR : (Lies)pick(0, N_LIES - 1));
    Tensor b = random_tensor(1, b_dims, pick(0, 1) ? ROW_MAJOR : SCATTERED), z = {0};
    const Tensor *in[4] = {&x, &w, with_bias ? &b : NULL, NULL};
    int n_in = with_bias || with_z ? 3 : 2;
    if (with_z) { /* as large as the result, which inference knows */
        Model *model = model_of("Conv", in, 2, attrs[0] ? attrs : "");
        z = random_tensor(s->rank + 2, graph_output(model->main, 0)->type->shape.dims, (Lies)pick(0, N_LIES - 1));
        model_free(model);
        in[3] = &z;
        n_in = 4;
    }
    char all[700];
    snprintf(all, sizeof all, "%s%s", attrs, with_z ? ", activation=\"Relu\"" : "");
    Model *model = model_of(op, in, n_in, all);
    Case k = {kernel_named("cpu_conv"), model, in, n_in, what};
    assert_true(check_case(&k, constants, tolerance));
    model_free(model);
    tensor_release(&x);
    tensor_release(&w);
    tensor_release(&b);
    if (with_z) tensor_release(&z);
}

/* Square windows over enough channels for Winograd's algorithm. */
static Sizes winograd_sizes(int64_t kernel, int64_t stride) {
    Sizes s = {.rank = 2, .n = pick(1, 3), .c = pick(8, 50), .m = pick(8, 100), .group = 1};
    if (pick(0, 2) == 0) {
        s.group = pick(2, 4);
        s.c = s.group * pick(8, 30);
        s.m = s.group * pick(8, pick(0, 2) ? 40 : 100);
    }
    for (int d = 0; d < 2; d++) {
        s.in[d] = pick(1, pick(0, 2) ? 15 : 40);
        s.kernel[d] = kernel, s.stride[d] = stride, s.dilation[d] = 1;
        s.begin[d] = pick(s.in[d] < kernel ? kernel / 2 : 0, kernel - 1);
        s.end[d] = pick(s.in[d] < kernel ? kernel / 2 : 0, kernel - 1);
    }
    return s;
}

/* Windows in steps of 2 over few channels, whose phases it takes. */
static Sizes phase_sizes(void) {
    Sizes s = {.rank = 2, .n = pick(1, 3), .c = pick(0, 1) ? 3 : pick(1, 8), .m = pick(8, 100), .group = 1};
    for (int d = 0; d < 2; d++) {
        s.kernel[d] = pick(5, 8), s.stride[d] = 2, s.dilation[d] = 1;
        s.in[d] = pick(1, pick(0, 2) ? 30 : 70);
        s.begin[d] = pick(s.in[d] < 8 ? 4 : 0, pick(0, 5) ? 4 : 12);
        s.end[d] = pick(s.in[d] < 8 ? 4 : 0, pick(0, 5) ? 4 : 12);
    }
    return s;
}

static Sizes random_sizes(void) {
    static const char *const pads[] = {"SAME_UPPER", "SAME_LOWER", "VALID", "NOTSET"};
    Sizes s;
    do {
        s = (Sizes){.rank = (int)(pick(0, 3) ? 2 : pick(1, 3)), .n = pick(1, 3), .group = 1};
        s.c = pick(0, 2) ? pick(1, 40) : pick(1, 4);
        s.m = pick(0, 2) ? pick(1, 40) : pick(1, 140);
        if (pick(0, 4) == 0) { /* depthwise */
            s.c = s.m = s.group = pick(2, 70);
            if (pick(0, 2) == 0) s.m *= pick(2, pick(0, 3) ? 4 : 18); /* several results of a channel */
        } else if (pick(0, 4) == 0) {                                 /* small groups that become as many channels */
            s.group = pick(2, 20);
            s.c = s.m = s.group << pick(1, 3);
        } else if (pick(0, 3) == 0) {
            s.group = pick(1, 5);
            s.c = s.group * pick(1, 9);
            s.m = s.group * pick(1, pick(0, 3) ? 6 : 70);
        }
        for (int d = 0; d < s.rank; d++) {
            s.in[d] = pick(1, s.rank == 3 ? 6 : s.rank == 1 ? 60 : pick(0, 3) ? 13 : 30);
            s.kernel[d] = pick(1, pick(0, 3) ? 3 : 7);
            s.stride[d] = pick(0, 2) ? 1 : pick(1, 3);
            s.dilation[d] = pick(0, 3) ? 1 : pick(1, 3);
            s.begin[d] = pick(0, pick(0, 5) ? 1 : 6);
            s.end[d] = pick(0, pick(0, 5) ? 1 : 6);
        }
        s.auto_pad = pick(0, 5) ? NULL : pads[pick(0, 3)];
        if (pick(0, 24) == 0) s.in[0] = 0;
        if (pick(0, 24) == 0) s.n = 0;
        if (pick(0, 24) == 0 && s.group == 1) s.c = 0;
        if (pick(0, 24) == 0) s.m = 0;
    } while (!fits(&s));
    return s;
}

static void test_random(void **state) {
    (void)state;
    for (int i = 0; i < 600; i++) {
        Sizes s = random_sizes();
        bool z = pick(0, 7) == 0;
        check(&s, z ? "com.microsoft.FusedConv" : "Conv", "", pick(0, 1), z, pick(0, 2) ? 2 : 0, 1e-5);
    }
}

/* What stands behind a convolution in a tn.Fused: %h is its result, %z as large as that, %s of one element a channel. */
static const char *const bodies[] = {
    "%r = Relu(%h)",
    "%t = Add(%h, %z) %r = Relu(%t)",
    "%t = Add(%h, %s) %r = Clip(%t, -0.5, 0.5)",
    "%t = Add(%h, %s) %u = Add(%z, %t) %r = Relu(%u)",
    "%t = Sigmoid(%h) %r = Mul(%t, %h)",
    "%t = Mul(%h, %s) %u = Tanh(%t) %w = Mul(%u, %z) %r = Sub(%w, %h)",
};

static void check_fused(const Sizes *s, const char *body, bool with_bias, double tolerance) {
    int64_t x_dims[5] = {s->n, s->c}, w_dims[5] = {s->m, s->c / s->group}, b_dims[1] = {s->m}, m_dims[5] = {1, s->m};
    for (int d = 0; d < s->rank; d++) x_dims[2 + d] = s->in[d], w_dims[2 + d] = s->kernel[d], m_dims[2 + d] = 1;
    char attrs[500], text[1500], what[1500];
    attributes(s, attrs, sizeof attrs);
    describe(s, attrs, what, sizeof what);
    snprintf(what + strlen(what), sizeof what - strlen(what), " then %s", body);
    Tensor in[5] = {random_tensor(s->rank + 2, x_dims, (Lies)pick(0, N_LIES - 1)),
                    random_tensor(s->rank + 2, w_dims, ROW_MAJOR), random_tensor(1, b_dims, ROW_MAJOR)};
    const Tensor *given[5] = {&in[0], &in[1], &in[2], &in[3], &in[4]};
    Model *plain = model_of("Conv", given, 2, attrs);
    in[3] = random_tensor(s->rank + 2, graph_output(plain->main, 0)->type->shape.dims, (Lies)pick(0, N_LIES - 1));
    in[4] = random_tensor(s->rank + 2, m_dims, ROW_MAJOR);
    model_free(plain);
    snprintf(text, sizeof text,
             "tn.Fused(%%v0, %%v1, %%v2, %%v3, %%v4) {body = graph(%%x, %%k, %%b, %%z, %%s) -> (%%r) {\n"
             "  %%h = Conv(%%x, %%k%s) {%s} %s }}",
             with_bias ? ", %b" : "", attrs, body);
    Model *model = model_of_text(given, 5, text);
    Case k = {kernel_named("cpu_conv"), model, given, 5, what};
    assert_true(check_case(&k, 2, tolerance));
    model_free(model);
    for (int i = 0; i < 5; i++) tensor_release(&in[i]);
}

/* A clip takes away the large numbers that errors are held against. */
static void test_fused(void **state) {
    (void)state;
    static const Sizes cases[] = {
        {2, 2, 30, 50, 1, {9, 13}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, NULL},
        {2, 1, 30, 80, 1, {9, 13}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 1, 20, 24, 2, {9, 13}, {2, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 1, 30, 80, 1, {19, 25}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 2, 40, 160, 2, {19, 15}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 1, 9, 80, 1, {19, 15}, {5, 5}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 1, 3, 80, 1, {29, 35}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}, NULL},
        {2, 2, 37, 37, 37, {9, 13}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {1, 2, 37, 37, 37, {90}, {4}, {3}, {2}, {1}, {1}, NULL},
        {3, 1, 10, 70, 1, {4, 5, 6}, {3, 2, 3}, {1, 2, 1}, {1, 1, 1}, {1, 0, 1}, {1, 1, 0}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++)
            check_fused(&cases[i], bodies[b], pick(0, 1), cases[i].kernel[0] >= 5 ? 2e-4 : 5e-5);
}

static void test_winograd(void **state) {
    (void)state;
    for (int i = 0; i < 240; i++) {
        Sizes s = i % 4 == 3 ? phase_sizes() : i % 4 == 2 ? winograd_sizes(5, 1) : winograd_sizes(3, 1 + i % 4);
        bool z = pick(0, 3) == 0;
        check(&s, z ? "com.microsoft.FusedConv" : "Conv", "", pick(0, 1), z, 2, 2e-5);
    }
    static const Sizes cases[] = {
        {2, 1, 64, 96, 1, {56, 30}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 1, 96, 300, 1, {14, 14}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 1, 200, 200, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 1, 64, 96, 1, {56, 30}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 1, 96, 300, 1, {28, 28}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 1, 200, 200, 1, {14, 14}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 1, 48, 80, 1, {27, 35}, {5, 5}, {1, 1}, {1, 1}, {2, 2}, {2, 2}, NULL},
        {2, 1, 3, 64, 1, {96, 90}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}, NULL},
        {2, 1, 3, 32, 1, {64, 64}, {6, 6}, {2, 2}, {1, 1}, {2, 2}, {2, 2}, "SAME_UPPER"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i], "Conv", "", true, false, 2, 2e-5);
}

/* Windows over each channel by itself: rows and columns of any number, in whole images and in parts of long rows. */
static void test_depthwise(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        Sizes s = {.rank = 2, .n = pick(1, 2), .c = pick(pick(0, 3) ? 16 : 4, pick(0, 3) ? 130 : 40)};
        int64_t step = pick(1, 2), kernel = pick(0, 2) ? 3 : 2 * pick(1, 4) + 1;
        s.m = s.group = s.c;
        if (pick(0, 5) == 0) s.m *= pick(2, 4);
        for (int d = 0; d < 2; d++) {
            s.in[d] = pick(1, pick(0, 2) ? 15 : 40);
            s.kernel[d] = pick(0, 9) ? kernel : pick(1, 9), s.dilation[d] = pick(0, 9) ? 1 : 2;
            s.stride[d] = pick(0, 9) ? step : pick(1, 3);
            s.begin[d] = pick(0, pick(0, 9) ? kernel - 1 : 40);
            s.end[d] = pick(0, pick(0, 9) ? kernel - 1 : 40);
        }
        if (pick(0, 9) == 0) s.in[1] = pick(100, 300);
        if (!fits(&s)) continue;
        bool z = pick(0, 3) == 0;
        check(&s, z ? "com.microsoft.FusedConv" : "Conv", "", pick(0, 1), z, pick(0, 2) ? 2 : 0, 1e-5);
    }
    static const Sizes cases[] = {
        {2, 1, 300, 300, 300, {5, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 1, 300, 300, 300, {9, 8}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 2, 30, 90, 30, {9, 8}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) /* few rows: threads share channels */
        for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++) check_fused(&cases[i], bodies[b], pick(0, 1), 5e-5);
}

/* Few output channels, for which lanes run over the input channels. */
static void test_few(void **state) {
    (void)state;
    for (int i = 0; i < 150; i++) {
        Sizes s = {.rank = 2, .n = pick(1, 2), .group = pick(0, 4) ? 1 : 2};
        s.c = s.group * pick(4, 80);
        s.m = s.group * pick(1, 7);
        for (int d = 0; d < 2; d++) {
            s.in[d] = pick(3, 20);
            s.kernel[d] = pick(1, 3);
            s.stride[d] = pick(0, 3) ? 1 : 2;
            s.dilation[d] = pick(0, 3) ? 1 : 2;
            s.begin[d] = s.end[d] = pick(0, 2) + (s.in[d] < 5);
        }
        bool z = pick(0, 3) == 0;
        check(&s, z ? "com.microsoft.FusedConv" : "Conv", "", pick(0, 1), z, pick(0, 2) ? 2 : 0, 1e-5);
    }
    for (int64_t m = 1; m < 8; m++) {
        Sizes s = {2, 1, 290, m, 1, {7, 9}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, NULL}; /* in several passes */
        check(&s, "com.microsoft.FusedConv", "", true, true, 2, 1e-5);
    }
}

/* Short sums over rows of some pixels, as in the first layers of networks. */
static void test_lines(void **state) {
    (void)state;
    for (int i = 0; i < 200; i++) {
        Sizes s = {.rank = pick(0, 4) ? 2 : 1, .n = pick(1, 2), .group = pick(0, 4) ? 1 : pick(2, 3)};
        s.c = s.group * pick(1, pick(0, 2) ? 4 : 16);
        s.m = s.group * (pick(0, 2) ? 8 * pick(1, 9) : pick(8, 100));
        for (int d = 0; d < 2; d++) {
            s.in[d] = pick(pick(0, 3) ? 8 : 1, pick(0, 3) ? 40 : 150);
            s.kernel[d] = pick(1, pick(0, 2) ? 3 : 5);
            s.stride[d] = pick(1, pick(0, 3) ? 2 : 4);
            s.dilation[d] = pick(0, 4) ? 1 : 2;
            s.begin[d] = pick(0, pick(0, 4) ? 2 : 9);
            s.end[d] = pick(0, pick(0, 4) ? 2 : 9);
        }
        if (!fits(&s)) continue;
        bool z = pick(0, 3) == 0;
        check(&s, z ? "com.microsoft.FusedConv" : "Conv", "", pick(0, 1), z, pick(0, 2) ? 2 : 0, 1e-5);
    }
    static const Sizes cases[] = {
        {2, 2, 3, 40, 1, {21, 130}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 1, 6, 150, 2, {30, 27}, {3, 3}, {2, 2}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {1, 1, 1, 70, 1, {900}, {10}, {3}, {1}, {4}, {5}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t b = 0; b < sizeof bodies / sizeof *bodies; b++) check_fused(&cases[i], bodies[b], pick(0, 1), 5e-5);
}

/* Long sums, which are made in several passes; many channels, which threads share. */
static void test_long(void **state) {
    (void)state;
    static const Sizes cases[] = {
        {2, 1, 300, 130, 1, {7, 7}, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {1, 1}, NULL},
        {2, 1, 1600, 70, 1, {3, 3}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, NULL},
        {2, 1, 0, 115, 1, {4, 17}, {1, 1}, {1, 1}, {1, 1}, {0, 0}, {0, 0}, NULL},
        {1, 1, 1, 40, 1, {900}, {700}, {3}, {1}, {400}, {20}, NULL},
        {2, 1, 3, 64, 1, {40, 41}, {7, 7}, {2, 2}, {1, 1}, {3, 3}, {3, 3}, NULL},
        {2, 1, 3, 5, 1, {4, 4}, {3, 2}, {1 << 30, 1}, {2147483647, 1}, {2147483647, 0}, {2147483647, 0}, NULL},
        {2, 2, 900, 900, 3, {2, 3}, {3, 1}, {1, 1}, {1, 1}, {1, 0}, {1, 0}, NULL},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check(&cases[i], "Conv", "", true, false, 2, 1e-5);
}

/* Infinities and NaNs stay where they belong, whatever the algorithm; in the data, in the weights too. (Whether padding is 0
   times an infinite weight, or nothing, is left open: then there is none.) */
static void check_special(int64_t c, int64_t group, int64_t size, int64_t kernel, int64_t stride, bool in_weights) {
    static const float special[] = {NAN, INFINITY, -INFINITY};
    int64_t x_dims[] = {1, group * c, size, size}, w_dims[] = {40, c, kernel, kernel};
    char attrs[100];
    snprintf(attrs, sizeof attrs, "group=%d, strides=[%d,%d]%s", (int)group, (int)stride, (int)stride,
             in_weights ? "" : ", pads=[1,1,1,1]");
    Tensor x = random_tensor(4, x_dims, ROW_MAJOR), w = random_tensor(4, w_dims, ROW_MAJOR);
    for (int i = 0; i < 3; i++) {
        if (!in_weights || i == 1) memcpy((char *)tensor_bytes(&x) + 4 * (13 + i * 91), &special[i], 4);
        if (in_weights) memcpy((char *)tensor_bytes(&w) + 4 * (13 + i * 91), &special[i], 4);
    }
    const Tensor *in[2] = {&x, &w};
    Model *model = model_of("Conv", in, 2, attrs);
    Case k = {kernel_named("cpu_conv"), model, in, 2, "Conv of NaN and infinities"};
    assert_true(check_case(&k, 2, 1e-5));
    model_free(model);
    tensor_release(&x);
    tensor_release(&w);
}

static void test_special_values(void **state) {
    (void)state;
    for (int64_t c = 5; c < 40; c += 17)
        for (int64_t size = 7; size < 20; size += 7)
            for (int64_t stride = 1; stride < 3; stride++) check_special(c, 1 + (size == 14), size, 3, stride, false);
    check_special(22, 1, 14, 3, 1, true);
    check_special(22, 2, 14, 3, 1, true);
    check_special(22, 1, 21, 3, 2, true);
    check_special(9, 1, 22, 5, 1, false);
    check_special(3, 1, 22, 7, 2, false);
    check_special(3, 1, 22, 7, 2, true);
}

static void test_ways_were_tried(void **state) {
    (void)state;
    const KernelWay *ways = kernel_named("cpu_conv")->ways;
    for (int way = 1; ways[way - 1].name; way++) {
        bool narrow = strstr(ways[way - 1].name, "narrow"); /* with vectors of 16 only */
        if (cpu_level() == CPU_AVX512 || !narrow) assert_true(tried & 1u << way);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_random),
        cmocka_unit_test(test_fused),
        cmocka_unit_test(test_winograd),
        cmocka_unit_test(test_depthwise),
        cmocka_unit_test(test_few),
        cmocka_unit_test(test_lines),
        cmocka_unit_test(test_long),
        cmocka_unit_test(test_special_values),
        cmocka_unit_test(test_ways_were_tried),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
