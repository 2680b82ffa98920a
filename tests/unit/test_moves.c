/* SPDX-License-Identifier: Apache-2.0 */
/* Random graphs of ops that move data and of some that compute, run by programs: views, values joined to the memory of
   what they are part of, virtual values and rasters must give the evaluator's bits, also to call-backs that look at every
   value on the way, in nested graphs, and where a size is known only while running.

       test_moves [times] [first seed] */
#include "test_ir_common.h"

#include "session/session_int.h"
#include "tenon/passes.h"

enum { MOST_VALUES = 40, MOST_OUTPUTS = 5, RANK = 4 };

typedef struct Known {
    int rank;
    int64_t dims[TN_MAX_RANK];
} Known;

typedef struct Maker {
    Text text;
    uint64_t seed;
    int n; /* values so far, %v0 the input */
    Known known[MOST_VALUES];
    const char *indent;
} Maker;

static size_t n_watched;
static int times = 1500;
static uint64_t first_seed = 1;

static int pick(Maker *m, int low, int high) { return low + (int)(next_random(&m->seed) % (uint64_t)(high - low + 1)); }

static int64_t count_of(const Known *k) {
    int64_t n = 1;
    for (int i = 0; i < k->rank; i++) n *= k->dims[i];
    return n;
}

/* ---- making graphs ---------------------------------------------------------------------------------------------- */

static void put_list(Maker *m, const int64_t *list, int n) {
    text_printf(&m->text, "i64[%d] [", n);
    for (int k = 0; k < n; k++) text_printf(&m->text, "%s%lld", k ? ", " : "", (long long)list[k]);
    text_puts(&m->text, "]");
}

static int some_value(Maker *m) { return pick(m, 0, 2) ? pick(m, m->n / 2, m->n - 1) : pick(m, 0, m->n - 1); }

static void begin(Maker *m, const char *op, int x) {
    text_printf(&m->text, "%s%%v%d = %s(%%v%d", m->indent, m->n, op, x);
    m->known[m->n] = m->known[x];
}

static void add_unary(Maker *m, int x) {
    static const char *const ops[] = {"Neg", "Abs", "Sign", "Floor"};
    begin(m, ops[pick(m, 0, 3)], x);
    text_puts(&m->text, ")\n");
}

/* The other operand has the same dims, or is the first again. */
static void add_binary(Maker *m, int x) {
    int y = x;
    for (int i = 0; i < m->n; i++) {
        const Known *a = &m->known[i], *b = &m->known[x];
        if (a->rank == b->rank && memcmp(a->dims, b->dims, sizeof *a->dims * (size_t)a->rank) == 0 && pick(m, 0, 1))
            y = i;
    }
    begin(m, pick(m, 0, 1) ? "Add" : "Sub", x);
    text_printf(&m->text, ", %%v%d)\n", y);
}

static void add_transpose(Maker *m, int x) {
    int perm[RANK];
    const Known *from = &m->known[x];
    for (int k = 0; k < from->rank; k++) perm[k] = k;
    for (int k = from->rank - 1; k > 0; k--) {
        int j = pick(m, 0, k), t = perm[k];
        perm[k] = perm[j];
        perm[j] = t;
    }
    begin(m, "Transpose", x);
    text_puts(&m->text, ") {perm=[");
    for (int k = 0; k < from->rank; k++) {
        text_printf(&m->text, "%s%d", k ? ", " : "", perm[k]);
        m->known[m->n].dims[k] = from->dims[perm[k]];
    }
    text_puts(&m->text, "]}\n");
}

static void add_slice(Maker *m, int x) {
    Known *k = &m->known[m->n];
    begin(m, "Slice", x);
    if (k->rank == 0) {
        text_puts(&m->text, ", i64[0] [], i64[0] [])\n");
        return;
    }
    int64_t axis = pick(m, 0, k->rank - 1), n = k->dims[axis], from, to, step;
    step = pick(m, 0, 3) ? 1 : pick(m, 0, 1) ? 2 : -1;
    from = n ? pick(m, 0, (int)n - 1) : 0;
    to = step > 0 ? from + (n ? pick(m, 0, (int)(n - from)) : 0) : -n - 1;
    k->dims[axis] = n == 0 ? 0 : step > 0 ? (to - from + step - 1) / step : from + 1;
    text_puts(&m->text, ", ");
    put_list(m, &from, 1);
    text_puts(&m->text, ", ");
    put_list(m, &to, 1);
    text_puts(&m->text, ", ");
    put_list(m, &axis, 1);
    text_puts(&m->text, ", ");
    put_list(m, &step, 1);
    text_puts(&m->text, ")\n");
}

static bool differ_at_most_in(const Known *a, const Known *b, int axis) {
    if (a->rank != b->rank) return false;
    for (int k = 0; k < a->rank; k++)
        if (k != axis && a->dims[k] != b->dims[k]) return false;
    return true;
}

static void add_concat(Maker *m, int x) {
    if (m->known[x].rank == 0) return add_unary(m, x);
    int axis = pick(m, 0, 2) ? 0 : pick(m, 0, m->known[x].rank - 1), parts = pick(m, 1, 3);
    Known sum = m->known[x];
    begin(m, "Concat", x);
    for (; parts > 0; parts--) {
        int y = x;
        for (int i = 0; i < m->n; i++)
            if (differ_at_most_in(&m->known[i], &m->known[x], axis) && pick(m, 0, 2) == 0) y = i;
        if (count_of(&sum) > 300) break;
        text_printf(&m->text, ", %%v%d", y);
        sum.dims[axis] += m->known[y].dims[axis];
    }
    text_printf(&m->text, ") {axis=%d}\n", axis);
    m->known[m->n] = sum;
}

static void add_split(Maker *m, int x) {
    const Known *k = &m->known[x];
    if (k->rank == 0 || m->n + 2 > MOST_VALUES) return add_unary(m, x);
    int axis = pick(m, 0, k->rank - 1);
    int64_t sizes[2] = {k->dims[axis] ? pick(m, 0, (int)k->dims[axis]) : 0};
    sizes[1] = k->dims[axis] - sizes[0];
    text_printf(&m->text, "%s%%v%d, %%v%d = Split(%%v%d, ", m->indent, m->n, m->n + 1, x);
    put_list(m, sizes, 2);
    text_printf(&m->text, ") {axis=%d}\n", axis);
    m->known[m->n] = m->known[m->n + 1] = *k;
    m->known[m->n++].dims[axis] = sizes[0];
    m->known[m->n].dims[axis] = sizes[1];
}

static void add_pad(Maker *m, int x) {
    static const char *const modes[] = {"constant", "constant", "edge", "reflect"};
    int64_t pads[2 * RANK] = {0}, least = 3;
    Known *k = &m->known[m->n];
    begin(m, "Pad", x);
    for (int d = 0; d < k->rank; d++) least = k->dims[d] < least ? k->dims[d] : least;
    const char *mode = modes[least >= 2 ? pick(m, 0, 3) : 0];
    for (int d = 0; d < k->rank; d++) {
        pads[d] = pick(m, 0, 1);
        pads[d + k->rank] = pick(m, 0, 1);
        k->dims[d] += pads[d] + pads[d + k->rank];
    }
    text_puts(&m->text, ", ");
    put_list(m, pads, 2 * k->rank);
    text_printf(&m->text, "%s) {mode=\"%s\"}\n", pick(m, 0, 1) ? ", f32 7" : "", mode);
}

static void add_tile(Maker *m, int x) {
    int64_t repeats[RANK];
    Known *k = &m->known[m->n];
    if (count_of(&m->known[x]) > 100) return add_unary(m, x);
    begin(m, "Tile", x);
    for (int d = 0; d < k->rank; d++) k->dims[d] *= repeats[d] = pick(m, 0, 3) ? 1 : 2;
    text_puts(&m->text, ", ");
    put_list(m, repeats, k->rank);
    text_puts(&m->text, ")\n");
}

static void add_reshape(Maker *m, int x) {
    Known *k = &m->known[m->n];
    int64_t left = count_of(&m->known[x]);
    begin(m, "Reshape", x);
    k->rank = pick(m, 1, RANK);
    for (int d = 0; d < k->rank; d++) {
        int64_t size = d + 1 == k->rank ? left : 1;
        for (int tries = 0; tries < 3 && left > 1 && d + 1 < k->rank; tries++) {
            int64_t f = pick(m, 2, 4);
            if (left % f == 0 && size == 1) size = f;
        }
        k->dims[d] = size;
        if (size) left /= size;
    }
    text_puts(&m->text, ", ");
    put_list(m, k->dims, k->rank);
    text_puts(&m->text, ") {allowzero=1}\n");
}

static void add_expand(Maker *m, int x) {
    Known *k = &m->known[m->n];
    begin(m, "Expand", x);
    for (int d = 0; d < k->rank; d++)
        if (k->dims[d] == 1 && pick(m, 0, 1)) k->dims[d] = pick(m, 1, 3);
    text_puts(&m->text, ", ");
    put_list(m, k->dims, k->rank);
    text_puts(&m->text, ")\n");
}

static void add_op(Maker *m) {
    static void (*const ops[])(Maker *, int) = {add_unary,  add_binary,  add_transpose, add_slice,
                                                add_concat, add_concat,  add_split,     add_pad,
                                                add_tile,   add_reshape, add_expand};
    ops[pick(m, 0, 10)](m, some_value(m));
    m->n++;
}

static void put_type(Maker *m, const Known *k) {
    text_puts(&m->text, "f32[");
    for (int d = 0; d < k->rank; d++) text_printf(&m->text, "%s%lld", d ? "," : "", (long long)k->dims[d]);
    text_puts(&m->text, "]");
}

/* late: what stands behind some place in it is planned once the part before has run. */
static void make_model(Maker *m, bool nested, bool late, int *outputs, int n_outputs) {
    Text body = {0};
    m->known[0] = (Known){.rank = pick(m, 1, RANK)};
    for (int d = 0; d < m->known[0].rank; d++) m->known[0].dims[d] = pick(m, 0, 30) ? pick(m, 1, 4) : 0;
    m->known[1] = m->known[0];
    m->n = 2;
    m->indent = nested ? "    " : "  ";
    text_init(&m->text, NULL);
    int length = pick(m, 2, 22), stop = pick(m, 0, length);
    for (; length > 0 && m->n < MOST_VALUES - 2; length--) {
        if (late && length == stop)
            text_puts(&m->text, "  %nz = NonZero(%z)\n  %s = Shape(%nz)\n  %t = ConstantOfShape(%s)\n");
        add_op(m);
    }
    late = late && strstr(m->text.s ? m->text.s : "", "%nz");
    body = m->text;
    text_init(&m->text, NULL);
    for (int i = 0; i < n_outputs; i++) outputs[i] = i == 0 ? m->n - 1 : pick(m, 1, m->n - 1);
    text_puts(&m->text, "tn 1\ngraph @g(%x: ");
    put_type(m, &m->known[0]);
    text_puts(&m->text, ", %c: bool[], %z: f32[3]) -> (");
    for (int i = 0; i < n_outputs; i++) text_printf(&m->text, "%s%%o%d", i ? ", " : "", i);
    text_printf(&m->text, "%s) {\n  %%v0 = Identity(%%x)\n  %%v1 = Neg(%%x)\n", late ? ", %t" : "");
    if (nested) text_puts(&m->text, "  ");
    for (int i = 0; i < n_outputs && nested; i++) text_printf(&m->text, "%s%%o%d", i ? ", " : "", i);
    if (nested) text_puts(&m->text, " = If(%c) {then_branch = graph() -> (");
    for (int i = 0; i < n_outputs && nested; i++) text_printf(&m->text, "%s%%v%d", i ? ", " : "", outputs[i]);
    if (nested) text_puts(&m->text, ") {\n");
    text_puts(&m->text, body.s ? body.s : "");
    if (nested) text_puts(&m->text, "  }, else_branch = graph() -> (");
    for (int i = 0; i < n_outputs && nested; i++) text_printf(&m->text, "%s%%e%d", i ? ", " : "", i);
    if (nested) text_puts(&m->text, ") {\n");
    for (int i = 0; i < n_outputs && nested; i++) text_printf(&m->text, "    %%e%d = Neg(%%x)\n", i);
    if (nested) text_puts(&m->text, "  }}\n");
    for (int i = 0; i < n_outputs && !nested; i++)
        text_printf(&m->text, "  %%o%d = %s(%%v%d)\n", i, pick(m, 0, 1) ? "Identity" : "Neg", outputs[i]);
    text_puts(&m->text, "}\n");
    text_free(&body);
}

/* ---- comparing -------------------------------------------------------------------------------------------------- */

static bool same(const Tensor *a, const Tensor *b) {
    size_t bytes = 0;
    if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0)
        return false;
    OK(checked_bytes(a->dtype, tensor_count(a), &bytes));
    return bytes == 0 || memcmp(tensor_bytes(a), tensor_bytes(b), bytes) == 0;
}

/* What a call-back is shown of each value that is made, beside the evaluator's. */
typedef struct Watch {
    tn_session *session;
    MemoRun *run;
    size_t n;
} Watch;

static tn_action look(void *user, const tn_instruction_info *instruction, tn_tensor *const *results, size_t n) {
    Watch *w = user;
    const Node *node = session_program(w->session)->instrs.data[instruction->index].node;
    assert_int_equal(n, node->n_results);
    for (size_t k = 0; k < n; k++) {
        Tensor want;
        if (!results[k] || !memo_has(w->run, node->results[k])) continue;
        OK(memo_value(w->run, node->results[k], &want));
        assert_true(same(&results[k]->t, &want));
        tensor_release(&want);
        w->n++;
    }
    return TN_CONTINUE;
}

static void run_once(tn_session *s, tn_tensor *const *in, const Tensor *want, size_t n_out, Watch *watch) {
    tn_tensor *out[MOST_OUTPUTS + 1] = {0};
    tn_run_options o = {.after = watch ? look : NULL, .user = watch};
    OK(tn_session_run(s, &o, (const tn_tensor *const *)in, 3, out, n_out));
    for (size_t i = 0; i < n_out; i++) {
        assert_true(same(&out[i]->t, &want[i]));
        tn_tensor_release(out[i]);
    }
}

static void watch_run(Context *ctx, tn_session *session, tn_tensor *const *in, const Tensor *const *given,
                      const Tensor *want) {
    Watch watch = {.session = session};
    Memo *memo;
    const Node *failed;
    OK(memo_new(ctx, 1 << 24, &memo));
    OK(memo_run(memo, session_program(session)->graph, given, &watch.run, &failed));
    run_once(session, in, want, tn_session_n_outputs(session), &watch);
    n_watched += watch.n;
    memo_run_free(watch.run);
    memo_free(memo);
}

static void check(Context *ctx, const char *text, tn_tensor *const *in, int level, const char *moves) {
    tn_model *model;
    tn_session *session;
    Tensor want[MOST_OUTPUTS + 1];
    const Tensor *given[3] = {&in[0]->t, &in[1]->t, &in[2]->t};
    tn_pass_settings passes = {.opt_level = level ? TN_OPT_1 : TN_OPT_0, .added = &moves, .n_added = moves != NULL};
    OK(tn_model_load_memory((tn_context *)ctx, text, strlen(text), NULL, NULL, NULL, &model));
    OK(eval_graph(ctx, model->ir->main, given, want));
    OK(tn_session_create(model, &(tn_session_options){.passes = &passes}, &session));
    size_t n = tn_session_n_outputs(session);
    run_once(session, in, want, n, NULL);
    watch_run(ctx, session, in, given, want);
    run_once(session, in, want, n, NULL);
    for (size_t i = 0; i < n; i++) tensor_release(&want[i]);
    tn_session_release(session);
    tn_model_release(model);
}

static void make_inputs(Context *ctx, Maker *m, tn_tensor **in) {
    int64_t three = 3;
    OK(tn_tensor_create((tn_context *)ctx, TN_F32, m->known[0].rank, m->known[0].dims, &in[0]));
    OK(tn_tensor_create((tn_context *)ctx, TN_BOOL, 0, NULL, &in[1]));
    OK(tn_tensor_create((tn_context *)ctx, TN_F32, 1, &three, &in[2]));
    for (int64_t i = 0; i < count_of(&m->known[0]); i++) ((float *)tn_tensor_data(in[0]))[i] = (float)(i + 1) / 2;
    *(bool *)tn_tensor_data(in[1]) = true;
    ((float *)tn_tensor_data(in[2]))[1] = 1;
}

static void test_random(void **state) {
    (void)state;
    Context *ctx;
    OK(context_new(NULL, NULL, &ctx));
    for (int i = 0; i < times; i++) {
        Maker m = {.seed = first_seed + (uint64_t)i};
        tn_tensor *in[3];
        int outputs[MOST_OUTPUTS];
        for (int k = 0; k < 3; k++) next_random(&m.seed);
        bool nested = i % 4 == 1;
        make_model(&m, nested, i % 4 == 2, outputs, pick(&m, 1, MOST_OUTPUTS));
        make_inputs(ctx, &m, in);
        if (getenv("TENON_TEST_SHOW")) print_message("seed %llu\n%s\n", (unsigned long long)(first_seed + i), m.text.s);
        const char *moves = i % 9 == 7   ? "choose-kernels(moves=all)"
                            : i % 9 == 8 ? "choose-kernels(moves=but-views)"
                                         : NULL;
        check(ctx, m.text.s, in, i & 1, moves);
        for (int k = 0; k < 3; k++) tn_tensor_release(in[k]);
        text_free(&m.text);
    }
    assert_true(n_watched > (size_t)times);
    context_unref(ctx);
}

int main(int argc, char **argv) {
    if (argc > 1) times = atoi(argv[1]);
    if (argc > 2) first_seed = (uint64_t)atoll(argv[2]);
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_random)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
