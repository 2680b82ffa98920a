/* SPDX-License-Identifier: Apache-2.0 */
/* What a row of a .case file cannot say: If, Loop and Scan with their nested graphs, errors of ops with several
   results, contents that pass from op to op, and that a turn of a loop allocates nothing. */
#include "test_base_alloc.h"

#include "eval/eval.h"

#define OK(call) assert_int_equal(call, TN_OK)

static Context *new_context(uint64_t max_loop_trips) {
    Context *ctx;
    const tn_limits limits = {.max_loop_trips = max_loop_trips};
    OK(context_new(NULL, &limits, &ctx));
    return ctx;
}

/* ---- values ---------------------------------------------------------------------------------------------------- */

static void assert_same(const Tensor *a, const Tensor *b, const char *text) {
    bool same = a->dtype == b->dtype && a->rank == b->rank && memcmp(a->dims, b->dims, (size_t)a->rank * 8) == 0;
    Tensor dense[2] = {*a, *b};
    int64_t n = same ? tensor_count(a) : 0;
    for (int k = 0; k < 2; k++) same = same && (tensor_is_dense(&dense[k]) || n == 0);
    for (int64_t i = 0; same && i < n; i++) {
        double x[2];
        if (a->dtype == TN_STRING) {
            same = str_equal(rc_string_get(((RcString **)a->data)[a->offset + i]),
                             rc_string_get(((RcString **)b->data)[b->offset + i]));
            continue;
        }
        load_f64(&x[0], a->dtype, a->data, a->offset + i, 1, 1);
        load_f64(&x[1], b->dtype, b->data, b->offset + i, 1, 1);
        same = x[0] == x[1];
    }
    if (!same) print_error("wrong values in\n%s\n", text);
    assert_true(same);
}

/* Outputs come in pairs: what was computed, and what it should be. */
static void run_pairs(const char *text, bool with_inference) {
    Context *ctx = new_context(0);
    Model *model = NULL;
    Tensor out[16];
    tn_status status = model_parse(ctx, str_of(text), NULL, (Str){0}, &model);
    if (status == TN_OK && with_inference) status = infer_model(model);
    if (status == TN_OK && with_inference) status = model_verify(model);
    if (status == TN_OK) status = eval_graph(ctx, model->main, NULL, out);
    if (status != TN_OK) print_error("%s\n%s\n", diag_text(), text);
    OK(status);
    size_t n = graph_n_outputs(model->main);
    assert_true(n % 2 == 0 && n <= 16);
    for (size_t i = 0; i < n; i += 2) assert_same(&out[i], &out[i + 1], text);
    for (size_t i = 0; i < n; i++) tensor_release(&out[i]);
    model_free(model);
    context_unref(ctx);
}

#define COUNTER(operands, trips)                                                            \
    "tn 1 graph @g() -> (%y, %yw, %s, %sw) {\n"                                             \
    "  %y, %s = Loop(" operands                                                             \
    ", f32[2] [1, 2]) {body = graph(%i: i64[], %c: bool[], %a: f32[2]) -> (%c, %b, %d) {\n" \
    "    %f = Cast(%i) {to=1} %b = Add(%a, %f) %d = Mul(%b, 2.0) }}\n" trips "}\n"

static const char *const pairs[] = {
    COUNTER("i64 3, bool true", "%yw = Identity(f32[2] [4,5]) %sw = Identity(f32[3,2] [2,4,4,6,8,10])\n"),
    COUNTER("i64 3, _", "%yw = Identity(f32[2] [4,5]) %sw = Identity(f32[3,2] [2,4,4,6,8,10])\n"),
    COUNTER("i64 0, _", "%yw = Identity(f32[2] [1,2]) %sw = Reshape(f32[0] [], [0, 2]) {allowzero=1}\n"),
    COUNTER("i64 -5, _", "%yw = Identity(f32[2] [1,2]) %sw = Reshape(f32[0] [], [0, 2]) {allowzero=1}\n"),
    COUNTER("i64 5, bool false", "%yw = Identity(f32[2] [1,2]) %sw = Reshape(f32[0] [], [0, 2]) {allowzero=1}\n"),
    /* The condition ends it; one value grows, two change places, results are readings of operands. */
    "tn 1 graph @g() -> (%y, %yw, %p, %pw, %q, %qw, %l, %lw, %s, %sw, %z, %zw) {\n"
    "  %y, %p, %q, %l, %s, %z = Loop(_, _, f32[1] [0], f32[1] [7], f32[1] [9], i64 100) {\n"
    "    body = graph(%i: i64[], %c: bool[], %a: f32[?], %u: f32[1], %v: f32[1], %j: i64[])\n"
    "      -> (%go, %b, %v, %u, %i, %w, %i) { %b = Concat(%a, %u) {axis=0} %go = Less(%i, i64 4) %w = Identity(%u) }}\n"
    "  %yw = Identity(f32[6] [0,7,9,7,9,7]) %pw = Identity(f32[1] [9]) %qw = Identity(f32[1] [7])\n"
    "  %lw = Identity(i64 4) %sw = Identity(f32[5,1] [7,9,7,9,7]) %zw = Identity(i64[5] [0,1,2,3,4]) }\n",
    /* With M alone the body's condition is ignored, and the body sees true. */
    "tn 1 graph @g() -> (%y, %yw, %s, %sw) {\n"
    "  %y, %s = Loop(i64 3, _, i64 0) {body = graph(%i: i64[], %c: bool[], %a: i64[]) -> (%go, %b, %d) {\n"
    "    %go = Less(%i, i64 0) %b = Add(%a, %i) %d = Cast(%c) {to=7} }}\n"
    "  %yw = Identity(i64 3) %sw = Identity(i64[3] [1,1,1]) }\n",
    /* Strings: carried, stacked, captured. */
    "tn 1 graph @g() -> (%y, %yw, %s, %sw, %w, %ww) {\n"
    "  %k = Identity(str[2] [\"p\", \"q\"])\n"
    "  %y, %s, %w = Loop(i64 9, bool true, str[1] [\"a\"]) {body = graph(%i: i64[], %c: bool[], %a: str[?]) -> "
    "(%go, %b, %t, %k) {\n    %go = Less(%i, i64 1) %b = Concat(%a, %k) {axis=0}\n"
    "    %t = Slice(%b, i64[1] [-2], i64[1] [9]) }}\n"
    "  %yw = Identity(str[5] [\"a\",\"p\",\"q\",\"p\",\"q\"])\n"
    "  %sw = Identity(str[2,2] [\"p\",\"q\",\"p\",\"q\"]) %ww = Identity(%sw) }\n",
    /* A sequence: carried, and through a branch. */
    "tn 1 graph @g() -> (%y, %yw, %n, %nw) {\n  %q0 = SequenceEmpty() {dtype=1}\n"
    "  %q = Loop(i64 3, _, %q0) {body = graph(%i: i64[], %c: bool[], %q1: seq(f32[*])) -> (%c, %q2) {\n"
    "    %f = Cast(%i) {to=1} %v = Reshape(%f, [1]) %q2 = SequenceInsert(%q1, %v) }}\n"
    "  %r = If(bool true) {then_branch = graph() -> (%q) {}, else_branch = graph() -> (%q0) {}}\n"
    "  %y = ConcatFromSequence(%r) {axis=0} %n = SequenceLength(%q)\n"
    "  %yw = Identity(f32[3] [0,1,2]) %nw = Identity(i64 3) }\n",
    /* Sequences change places while one of them grows. */
    "tn 1 graph @g() -> (%y, %yw, %z, %zw) {\n"
    "  %q0 = SequenceConstruct(f32[1] [1]) %r0 = SequenceConstruct(f32[1] [2])\n"
    "  %q, %r = Loop(i64 3, bool true, %q0, %r0) {\n"
    "    body = graph(%i: i64[], %c: bool[], %a: seq(f32[*]), %b: seq(f32[*])) -> (%c, %d, %a) {\n"
    "      %f = Cast(%i) {to=1} %v = Reshape(%f, [1]) %d = SequenceInsert(%b, %v) }}\n"
    "  %y = ConcatFromSequence(%q) {axis=0} %z = ConcatFromSequence(%r) {axis=0}\n"
    "  %yw = Identity(f32[3] [2,0,2]) %zw = Identity(f32[2] [1,1]) }\n",
    /* Loops in a loop in a branch, which passes captures on. */
    "tn 1 graph @g() -> (%r, %rw, %t, %tw) {\n  %x = Identity(f32[2] [1, 2])\n"
    "  %r = If(bool false) {then_branch = graph() -> (%x) {}, else_branch = graph() -> (%e) {\n"
    "    %e, %n = Loop(i64 3, _, %x) {body = graph(%i: i64[], %c: bool[], %a: f32[2]) -> (%c, %b, %b) {\n"
    "      %b, %m = Loop(i64 2, _, %a) {body = graph(%i1: i64[], %c1: bool[], %a1: f32[2]) -> (%c1, %b1, %i1) {\n"
    "        %b1 = Add(%a1, %x) }} }} }}\n"
    "  %t = If(bool true) {then_branch = graph() -> (%x) {},"
    " else_branch = graph() -> (%e2) { %e2 = Concat(%x, %x) {axis=0} }}\n"
    "  %rw = Identity(f32[2] [7, 14]) %tw = Identity(%x) }\n",
    /* Axes and directions. */
    "tn 1 graph @g() -> (%f, %fw, %o, %ow, %p, %pw) {\n"
    "  %f, %o, %p = Scan(f32[2] [0, 0], f32[3,2] [1,2,3,4,5,6], f32[2,3] [1,2,3,4,5,6]) {num_scan_inputs=2,\n"
    "    scan_input_axes=[0,-1], scan_input_directions=[0,1], scan_output_axes=[1,0], scan_output_directions=[0,1],\n"
    "    body = graph(%s, %a, %b) -> (%s2, %a, %d) { %s2 = Add(%s, %a) %d = Add(%s2, %b) }}\n"
    "  %fw = Identity(f32[2] [9,12]) %ow = Identity(f32[2,3] [1,3,5,2,4,6])\n"
    "  %pw = Identity(f32[3,2] [10,16,6,11,4,8]) }\n",
};

static void test_values(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        run_pairs(pairs[i], true);
        /* Without turns only inference knows the element type of what was never computed. */
        if (!strstr(pairs[i], "allowzero")) run_pairs(pairs[i], false);
    }
}

/* ---- errors ---------------------------------------------------------------------------------------------------- */

#define LOOP(operands, body) "tn 1 graph @g() -> (%y) { %y = Loop(" operands ") {body = " body "} }"

static const struct {
    const char *text;
    tn_status status;
    const char *says;
} errors[] = {
    {LOOP("_, _, i64 0", "graph(%i: i64[], %c: bool[], %a: i64[]) -> (%c, %b) { %b = Add(%a, 1) }"), TN_LIMIT,
     "max_loop_trips"},
    {"tn 1 graph @g() -> (%y) {\n  %o = Optional(f32[1] [1])\n"
     "  %y = If(bool true) {then_branch = graph() -> (%o) {}, else_branch = graph() -> (%k) { %k = Identity(i64 1) }}\n}",
     TN_SHAPE, "holds f32 in one case and i64"},
    {LOOP("i64 1000, _, i64 0", "graph(%i: i64[], %c: bool[], %a: i64[]) -> (%c, %b) { %b = Add(%a, 1) }"), TN_LIMIT,
     "max_loop_trips"},
    {LOOP("i64 1, _, i64 0", "graph(%i: i64[], %c: bool[]) -> (%c, %i) {}"), TN_INVALID_MODEL, "3 are wanted"},
    {LOOP("i64 1, _, i64 0", "graph(%i: i64[], %c: bool[], %a: f32[]) -> (%c, %a) {}"), TN_SHAPE,
     "is f32, but gets i64"},
    {LOOP("i64 1, _, i64 0", "graph(%i: i64[], %c: bool[], %a: i64[]) -> (%c, %c) {}"), TN_SHAPE,
     "i64 in one case and bool"},
    {LOOP("i64[2] [1,2], _, i64 0", "graph(%i: i64[], %c: bool[], %a: i64[]) -> (%c, %a) {}"), TN_LIMIT, "M has 2"},
    {LOOP("i64 3, _", "graph(%i: i64[], %c: bool[]) -> (%c, %r) { %n = Reshape(%i, [1]) %r = ConstantOfShape(%n) }"),
     TN_SHAPE, "a slice differs"},
    {"tn 1 graph @g() -> (%y) { %y = If(bool true) {then_branch = graph() -> (%a) { %a = Identity(1.0) },"
     " else_branch = graph() -> (%b) { %b = Identity(1) }} }",
     TN_SHAPE, "f32 in one case and i64"},
    {"tn 1 graph @g() -> (%y) { %y = If(bool true) {then_branch = graph() -> (%a) { %a = Identity(1.0) },"
     " else_branch = graph() -> () {}} }",
     TN_INVALID_MODEL, "1 and 0 outputs"},
    {"tn 1 graph @g() -> (%y) { %y = Scan([1,2], [1,2,3]) {num_scan_inputs=2, body = graph(%a, %b) -> (%a) {}} }",
     TN_SHAPE, "lengths"},
    {"tn 1 graph @g() -> (%y) { %y = Scan([1,2]) {num_scan_inputs=2, body = graph(%a) -> (%a) {}} }",
     TN_INVALID_ARGUMENT, "num_scan_inputs is 2"},
    {"tn 1 graph @g() -> (%y) { %y = Scan([1,2]) {num_scan_inputs=1, scan_input_axes=[1],"
     " body = graph(%a) -> (%a) {}} }",
     TN_OUT_OF_RANGE, "scan_input_axes is 1"},
    {"tn 1 graph @g() -> (%y) { %y = Scan([1,2]) {num_scan_inputs=1, scan_output_directions=[2],"
     " body = graph(%a) -> (%a) {}} }",
     TN_INVALID_ARGUMENT, "neither 0 nor 1"},
    {"tn 1 graph @g() -> (%y) { %y, %z = TopK([1.0, 2.0], [3]) }", TN_OUT_OF_RANGE, "K is 3"},
    {"tn 1 graph @g() -> (%y) { %y, %z = TopK([1.0, 2.0], [-1]) }", TN_OUT_OF_RANGE, "K is -1"},
    {"tn 1 graph @g() -> (%y) { %y, %z = TopK([1.0, 2.0], [1]) {axis=1} }", TN_OUT_OF_RANGE, "axis is 1"},
    {"tn 1 graph @g() -> (%y) { %y, %a, %b, %c = Split([1,2,3,4,5]) {num_outputs=4} }", TN_SHAPE, "4 parts of 2"},
};

static void test_errors(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        Context *ctx = new_context(100);
        Model *model = NULL;
        Tensor out[4];
        tn_status status = model_parse(ctx, str_of(errors[i].text), NULL, (Str){0}, &model);
        if (status == TN_OK) status = infer_model(model);
        if (status == TN_OK) status = eval_graph(ctx, model->main, NULL, out);
        bool right = status == errors[i].status && strstr(diag_text(), errors[i].says);
        if (!right) print_error("%s: %s\n%s\n", status_name(status), diag_text(), errors[i].text);
        assert_true(right);
        model_free(model);
        context_unref(ctx);
    }
}

/* ---- contents -------------------------------------------------------------------------------------------------- */

/* The type of %y, printed. */
static const struct {
    const char *inputs, *body, *type;
} types[] = {
    {"%x: f32[batch,seq,768]",
     "%s = Shape(%x) %b = Gather(%s, [0]) %n = Concat(%b, [-1], [12], [64]) {axis=0} %y = Reshape(%x, %n)",
     "f32[batch,seq,12,64]"},
    {"%x: f32[batch,seq,12,64]", "%y = Reshape(%x, [0, 0, -1])", "f32[batch,seq,768]"},
    {"%x: f32[batch,c,h,w]", "%s = Shape(%x) {start=2} %z = Slice(%x, [0], [1], [1]) %y = ConstantOfShape(%s)",
     "f32[h,w]"},
    {"%x: f32[n,3]",
     "%s = Shape(%x) %a = Gather(%s, 0) %u = Unsqueeze(%a, [0]) %t = Tile(%u, [2]) %y = ConstantOfShape(%t)",
     "f32[n,n]"},
    {"%x: f32[n,3]",
     "%s = Shape(%x) %a, %b = Split(%s) {num_outputs=2} %q = Squeeze(%b, [0]) %r = Unsqueeze(%q, [0])"
     " %e = Expand(%r, [3]) %y = ConstantOfShape(%e)",
     "f32[3,3,3]"},
    {"%x: f32[n,3]", "%c = Size(%x) %d = Reshape(%c, [1]) %y = ConstantOfShape(%d)", "f32[n*3]"},
    {"%x: f32[n,3], %z: f32[m,3]", "%y = Concat(%x, %z) {axis=0}", "f32[m + n,3]"},
    {"%x: f32[n,3]", "%y = Slice(%x, [0], [9223372036854775807], [0])", "f32[n,3]"},
    {"%x: f32[n,3]", "%y = Slice(%x, [-1], [-9223372036854775808], [0], [-1])", "f32[n,3]"},
    {"%x: f32[n,3]", "%y = Pad(%x, [1,0,1,0])", "f32[n + 2,3]"},
    {"%x: f32[n,3]", "%y = Tile(%x, [2,1])", "f32[n*2,3]"},
    {"%x: f32[n,c,h,w]", "%y = DepthToSpace(%x) {blocksize=2}", "f32[n,c/4,h*2,w*2]"},
    {"%x: f32[n,3], %i: i64[k]", "%y = Gather(%x, %i)", "f32[k,3]"},
    {"%x: f32[*], %i: i64[k]", "%y = Unsqueeze(%x, [0])", "f32[*]"},
    {"%x: f32[n,3], %m: bool[n]", "%y = Compress(%x, %m) {axis=0}", "f32[?,3]"},
    {"%x: f32[n,3], %m: bool[]",
     "%y = If(%m) {then_branch = graph() -> (%x) {}, else_branch = graph() -> (%e) { %e = Pad(%x, [0,1,0,0]) }}",
     "f32[n,?]"},
    {"%x: f32[n,3]", "%e, %y = Scan(0.0, %x) {num_scan_inputs=1, body = graph(%s, %a) -> (%s, %a) {}}", "f32[n,3]"},
    {"%x: f32[n,3]", "%e, %y = Loop(i64 7, _, 0.0) {body = graph(%i, %c, %s) -> (%c, %s, %x) {}}", "f32[7,n,3]"},
};

static void test_types(void **state) {
    (void)state;
    for (size_t i = 0; i < sizeof types / sizeof *types; i++) {
        Context *ctx = new_context(0);
        Model *model = NULL;
        Text text, found;
        text_init(&text, &ctx->allocator);
        text_init(&found, &ctx->allocator);
        text_printf(&text, "tn 1 graph @g(%s) -> (%%y) { %s }", types[i].inputs, types[i].body);
        OK(model_parse(ctx, (Str){text.s, text.n}, NULL, (Str){0}, &model));
        OK(infer_model(model));
        type_print(model, graph_output(model->main, 0)->type, &found);
        if (strcmp(found.s, types[i].type) != 0) print_error("%s\n", text.s);
        assert_string_equal(found.s, types[i].type);
        text_free(&text);
        text_free(&found);
        model_free(model);
        context_unref(ctx);
    }
}

/* ---- allocation ------------------------------------------------------------------------------------------------ */

/* A host that answers from memory of its own, as a program does. */
typedef struct FixedHost {
    KernelHost host;
    Context *ctx;
    float carried[2];
    uint8_t cond;
    Tensor *results;
} FixedHost;

static tn_status fixed_run(KernelHost *host, const Graph *graph, const Tensor *in, size_t n_in, Tensor *out,
                           size_t n_out) {
    FixedHost *f = (FixedHost *)host;
    const int64_t two = 2;
    assert_int_equal(n_in, 3);
    assert_int_equal(n_out, 3);
    (void)graph;
    const float *a = tensor_bytes(&in[2]);
    for (int k = 0; k < 2; k++) f->carried[k] = a[k] + (float)*(int64_t *)tensor_bytes(&in[0]);
    tensor_set_dense(&out[0], TN_BOOL, 0, NULL);
    tensor_set_dense(&out[1], TN_F32, 1, &two);
    out[0].data = &f->cond;
    out[1].data = f->carried;
    out[2] = out[1];
    return TN_OK;
}

static tn_status fixed_alloc(KernelHost *host, int i, tn_dtype dtype, int rank, const int64_t *dims, Tensor *out) {
    FixedHost *f = (FixedHost *)host;
    TRY(tensor_new(f->ctx, dtype, rank, dims, &f->results[i]));
    *out = f->results[i];
    return TN_OK;
}

/* Calls of the allocator that a loop of so many turns makes. */
static int64_t allocations(int64_t trips) {
    TestHeap heap;
    Context *ctx;
    test_heap_init(&heap);
    OK(context_new(&heap.allocator, NULL, &ctx));
    Model *model;
    OK(model_parse(ctx, str_of(COUNTER("i64 3, _", "%yw = Identity(1.0) %sw = Identity(1.0)")), NULL, (Str){0},
                   &model));
    OK(infer_model(model));
    const Node *loop = graph_output(model->main, 0)->def;
    float first[2] = {1, 2};
    const int64_t two = 2;
    Tensor m = {.dtype = TN_I64, .data = &trips}, a, results[2] = {{.dtype = TN_F32}, {.dtype = TN_F32}};
    tensor_set_dense(&a, TN_F32, 1, &two);
    a.data = first;
    const Tensor *in[3] = {&m, NULL, &a};
    Tensor out[2] = {results[0], results[1]};
    Arena scratch;
    arena_init(&scratch, &heap.allocator);
    FixedHost host = {
        .host = {.run_graph = fixed_run, .alloc_output = fixed_alloc}, .ctx = ctx, .cond = 1, .results = results};
    KernelCtx c = {.node = loop,
                   .n_in = 3,
                   .n_out = 2,
                   .in = in,
                   .out = out,
                   .context = ctx,
                   .scratch = &scratch,
                   .host = &host.host};
    int64_t before = heap.calls;
    OK(loop->op->reference(&c));
    int64_t calls = heap.calls - before;
    const float *y = tensor_bytes(&out[0]), *s = tensor_bytes(&out[1]);
    assert_true(y[0] == 1 + (float)(trips * (trips - 1) / 2) && s[2 * trips - 2] == y[0]);
    for (int k = 0; k < 2; k++) tensor_release(&results[k]);
    arena_free(&scratch);
    model_free(model);
    context_unref(ctx);
    assert_int_equal(heap.living, 0);
    return calls;
}

static void test_turns_allocate_nothing(void **state) {
    (void)state;
    assert_int_equal(allocations(3), allocations(500));
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_values),
        cmocka_unit_test(test_errors),
        cmocka_unit_test(test_types),
        cmocka_unit_test(test_turns_allocate_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
