/* SPDX-License-Identifier: Apache-2.0 */
/* Transposed convolutions of the CPU against the reference: random windows, groups, sizes and ways to lie in memory. */
#include "test_cpu_conv_common.h"

typedef struct Sizes {
    int rank;               /* spatial */
    int64_t n, group, c, m; /* channels of a group */
    int64_t in[3], kernel[3];
    char attrs[600];
} Sizes;

static void put_list(char *text, size_t room, const char *name, const int64_t *v, int n) {
    size_t at = strlen(text);
    at += (size_t)snprintf(text + at, room - at, "%s%s=[", at ? ", " : "", name);
    for (int i = 0; i < n; i++) at += (size_t)snprintf(text + at, room - at, i ? ",%lld" : "%lld", (long long)v[i]);
    snprintf(text + at, room - at, "]");
}

static Sizes random_sizes(void) {
    Sizes s = {.rank = (int)(pick(0, 3) ? 2 : pick(1, 3)), .n = pick(0, 20) ? pick(1, 2) : 0, .group = 1};
    int64_t stride[3], dilation[3], pads[6] = {0}, extra[3], asked[3];
    s.c = pick(1, 30), s.m = pick(0, 20) ? pick(1, pick(0, 2) ? 20 : 100) : 0;
    if (pick(0, 3) == 0) s.group = pick(2, 5), s.c = pick(1, 5), s.m = pick(1, 5);
    for (int d = 0; d < s.rank; d++) {
        s.in[d] = pick(1, s.rank == 3 ? 4 : s.rank == 1 ? 40 : 9);
        s.kernel[d] = pick(1, 4);
        stride[d] = pick(1, 4);
        dilation[d] = pick(0, 2) ? 1 : pick(1, 3);
        extra[d] = pick(0, stride[d] - 1);
        int64_t full = stride[d] * (s.in[d] - 1) + extra[d] + (s.kernel[d] - 1) * dilation[d] + 1;
        pads[d] = pick(0, full < 5 ? full / 2 : 2), pads[s.rank + d] = pick(0, full < 5 ? full / 2 : 2);
        asked[d] = pick(1, full + 3);
    }
    snprintf(s.attrs, sizeof s.attrs, "group=%lld", (long long)s.group);
    put_list(s.attrs, sizeof s.attrs, "strides", stride, s.rank);
    put_list(s.attrs, sizeof s.attrs, "dilations", dilation, s.rank);
    if (pick(0, 1)) put_list(s.attrs, sizeof s.attrs, "output_padding", extra, s.rank);
    else
        for (int d = 0; d < s.rank; d++) pads[d] = pads[s.rank + d] = 0;
    int how = (int)pick(0, 5);
    if (how == 0) put_list(s.attrs, sizeof s.attrs, "output_shape", asked, s.rank);
    if (how <= 1) strcat(s.attrs, pick(0, 1) ? ", auto_pad=\"SAME_UPPER\"" : ", auto_pad=\"SAME_LOWER\"");
    else put_list(s.attrs, sizeof s.attrs, "pads", pads, 2 * s.rank);
    return s;
}

static const char *const bodies[] = {
    "%r = Relu(%h)",
    "%t = Add(%h, %z) %r = Clip(%t, -0.5, 0.5)",
    "%t = Add(%h, %z) %r = Tanh(%t)",
};

/* Alone, or with a body behind it. */
static void check(const Sizes *s, const char *body, bool with_bias) {
    int64_t x_dims[5] = {s->n, s->group * s->c}, w_dims[5] = {s->group * s->c, s->m}, b_dims[1] = {s->group * s->m};
    for (int d = 0; d < s->rank; d++) x_dims[2 + d] = s->in[d], w_dims[2 + d] = s->kernel[d];
    char what[2000], text[2000];
    snprintf(what, sizeof what, "ConvTranspose of %lldx%lldx%lldx%lldx%lld by %lldx%lldx%lldx%lld, %s, %s",
             (long long)s->n, (long long)x_dims[1], (long long)s->in[0], (long long)s->in[1], (long long)s->in[2],
             (long long)s->m, (long long)s->kernel[0], (long long)s->kernel[1], (long long)s->kernel[2], s->attrs,
             body ? body : "");
    Tensor in[4] = {random_tensor(s->rank + 2, x_dims, (Lies)pick(0, N_LIES - 1)),
                    random_tensor(s->rank + 2, w_dims, pick(0, 2) ? ROW_MAJOR : (Lies)pick(0, N_LIES - 1)),
                    random_tensor(1, b_dims, ROW_MAJOR)};
    const Tensor *given[4] = {&in[0], &in[1], with_bias ? &in[2] : NULL, &in[3]};
    Model *model = model_of("ConvTranspose", given, with_bias ? 3 : 2, s->attrs);
    Case k = {kernel_named("cpu_conv_transpose"), model, given, with_bias ? 3 : 2, what};
    if (body) {
        in[3] = random_tensor(s->rank + 2, graph_output(model->main, 0)->type->shape.dims, (Lies)pick(0, N_LIES - 1));
        model_free(model);
        snprintf(text, sizeof text,
                 "tn.Fused(%%v0, %%v1, %%v2, %%v3) {body = graph(%%x, %%k, %%b, %%z) -> (%%r) {\n"
                 "  %%h = ConvTranspose(%%x, %%k, %%b) {%s} %s }}",
                 s->attrs, body);
        k.model = model = model_of_text(given, 4, text);
        k.n_in = 4;
    }
    assert_true(check_case(&k, pick(0, 2) ? 2 : 0, 1e-5));
    model_free(model);
    for (int i = 0; i < 4; i++)
        if (in[i].buffer) tensor_release(&in[i]);
}

static void test_random(void **state) {
    (void)state;
    for (int i = 0; i < 500; i++) {
        Sizes s = random_sizes();
        if (pick(0, 3)) check(&s, NULL, pick(0, 1));
        else check(&s, bodies[pick(0, 2)], true);
    }
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
