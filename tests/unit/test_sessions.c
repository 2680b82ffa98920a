/* SPDX-License-Identifier: Apache-2.0 */
/* Sessions beyond one run of a whole model: parts of it, state from run to run, what a session says of itself, when it
   plans. Answers are compared with those of whole models and of callers that do the same by hand, bit by bit. */
#include "test_sessions_common.h"

#include <math.h>

#include "session/session_int.h"

static const char net[] = FORM(/* a value that two others need, and an input that goes around it */
                               "graph @net(%x: f32[n,4], %weight: f32[4,4]) -> (%y, \"second\" = %z) {\n"
                               "  %product = MatMul(%x, %weight)\n  %relu = Relu(%product)\n  %sum = Add(%relu, %x)\n"
                               "  %y = Tanh(%sum)\n  %exp = Exp(%relu)\n  %z = MatMul(%exp, %weight)\n}\n");

static const char branches[] =
    FORM(/* what is cut stands before an If whose bodies read it */
         "graph @branches(%x: f32[n,4], %a: bool[]) -> (%y) {\n"
         "  %first = Neg(%x)\n  %second = Exp(%first)\n"
         "  %y = If(%a) {then_branch = graph () -> (%p) {\n    %inner = Add(%second, %first)\n    %p = Abs(%inner)\n"
         "  }, else_branch = graph () -> (%first) {\n  }}\n}\n");

static const char shapes[] = FORM(/* a value that decides a shape */
                                  "graph @shapes(%x: f32[n,m]) -> (%y) {\n  %twice = Concat(%x, %x) {axis=0}\n"
                                  "  %size = Shape(%x)\n  %r = Reshape(%x, %size)\n  %e = Expand(%r, %size)\n"
                                  "  %g = Neg(%e)\n  %h = ReduceMax(%twice) {keepdims=0}\n  %y = Add(%g, %h)\n}\n");

static const char decoder[] =
    FORM(/* keys that grow by what is new */
         "graph @decoder(%x: f32[batch,2,new,4], %past: f32[batch,2,old,4]) -> (%y, %present) {\n"
         "  %k = Tanh(%x)\n  %present = Concat(%past, %k) {axis=2}\n  %t = Transpose(%present) {perm=[0,1,3,2]}\n"
         "  %q = MatMul(%x, %t)\n  %s = Softmax(%q) {axis=-1}\n  %y = MatMul(%s, %present)\n}\n");

static const char cache[] =
    FORM(/* the same where the Concat stays, read with strides and by what takes none */
         "graph @cache(%x: f32[batch,2,new,4], %past: f32[batch,2,old,4]) -> (%y, %present) {\n"
         "  %k = Tanh(%x)\n  %present = Concat(%past, %k) {axis=-2}\n  %most = ReduceMax(%present, i64[1] [2])\n"
         "  %sum = CumSum(%present, i64[] 2)\n  %all = ReduceSum(%sum, i64[1] [2])\n  %y = Sub(%most, %all)\n}\n");

static const char attention[] =
    FORM(/* keys that their reader itself puts behind those of before */
         "graph @attention(%x: f32[batch,2,new,4], %past: f32[batch,2,old,4]) -> (%y, %present) {\n"
         "  %k = Tanh(%x)\n  %y, %present, %values = Attention(%x, %k, %k, _, %past, %past)\n}\n");

static const char recurrent[] = FORM(/* a state of one size, one that is passed on as it is, one with a default */
                                     "graph @recurrent(%x: f32[2,3], %h: f32[2,3], %kept: f32[2,3],\n"
                                     "    %count: i64[] = i64[] 7) -> (%y, \"kept2\" = %kept, %next, %h2) {\n"
                                     "  %a = Add(%x, %h)\n  %h2 = Tanh(%a)\n  %y = Mul(%h2, %kept)\n"
                                     "  %next = Add(%count, i64[] 1)\n}\n");

enum { MOST = 4 };

/* ---- parts of a model ------------------------------------------------------------------------------------------- */

#define FROM(...) .inputs = NAMES(__VA_ARGS__), .n_inputs = COUNT(__VA_ARGS__)
#define TO(...) .outputs = NAMES(__VA_ARGS__), .n_outputs = COUNT(__VA_ARGS__)

static void make(const Fix *f, const tn_path *paths, size_t n, tn_session **s) {
    OK(tn_session_create(f->model, &(tn_session_options){.paths = paths, .n_paths = n}, s));
}

static void assert_inputs(const tn_session *s, const char *const *names, size_t n) {
    tn_value_info info;
    assert_int_equal(tn_session_n_inputs(s), n);
    for (size_t i = 0; i < n; i++) {
        OK(tn_session_input(s, i, &info));
        assert_string_equal(info.name, names[i]);
    }
}

/* All outputs in the model's order are the whole model: one that is optimised already is taken as it is. */
static void test_all_outputs(void **state) {
    static const struct {
        const char *names[2];
        size_t n;
        bool whole;
    } cases[] = {{{"y", "second"}, 2, true}, {{"second", "y"}, 2, false}, {{"y"}, 1, false}, {{NULL}, 0, true}};
    (void)state;
    Fix f;
    tn_model *better;
    begin(&f, net);
    OK(tn_model_optimize(f.model, NULL, &better, NULL));
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        tn_session *s;
        OK(tn_session_create(better, &(tn_session_options){.outputs = cases[k].names, .n_outputs = cases[k].n}, &s));
        assert_int_equal(s->optimized == NULL, cases[k].whole);
        tn_session_release(s);
    }
    tn_model_release(better);
    end(&f);
}

static void test_one_path(void **state) {
    (void)state;
    Fix f;
    tn_session *s;
    begin(&f, net);
    tn_tensor *in[] = {rows(f.ctx, 3, 1), rows(f.ctx, 4, 2)}, *want[2] = {0}, *got[1] = {0};
    run_whole(&f, NAMES("relu", "y"), 2, in, want);
    make(&f, &(tn_path){FROM("relu"), TO("y")}, 1, &s);
    assert_inputs(s, NAMES("relu", "x"), 2);
    OK(run(s, (tn_tensor *[]){want[0], in[0]}, got));
    assert_same(got[0], want[1]);
    release(got, 1);
    tn_tensor *other = rows(f.ctx, 2, 3); /* `n` is one size */
    assert_int_equal(run(s, (tn_tensor *[]){want[0], other}, got), TN_SHAPE);
    tn_tensor_release(other);
    tn_session_release(s);
    release(in, 2);
    release(want, 2);
    end(&f);
}

static void test_more_paths(void **state) {
    (void)state;
    Fix f;
    tn_session *s;
    begin(&f, net);
    tn_tensor *in[] = {rows(f.ctx, 3, 1), rows(f.ctx, 4, 2)}, *want[4] = {0}, *got[3] = {0};
    run_whole(&f, NAMES("relu", "y", "second", "product"), 4, in, want);
    /* One makes what the other begins with. */
    make(&f, (tn_path[]){{FROM("relu"), TO("y")}, {TO("relu", "second")}}, 2, &s);
    assert_inputs(s, NAMES("x", "weight"), 2);
    OK(run(s, in, got));
    assert_same(got[0], want[1]);
    assert_same(got[1], want[0]);
    assert_same(got[2], want[2]);
    release(got, 3);
    tn_session_release(s);
    /* Two that have nothing to do with each other; an output of both is one. */
    make(&f, (tn_path[]){{FROM("x"), TO("product")}, {FROM("relu"), TO("second", "product")}}, 2, &s);
    assert_int_equal(tn_session_n_outputs(s), 2);
    assert_inputs(s, NAMES("x", "relu", "weight"), 3);
    OK(run(s, (tn_tensor *[]){in[0], want[0], in[1]}, got));
    assert_same(got[0], want[3]);
    assert_same(got[1], want[2]);
    release(got, 2);
    tn_session_release(s);
    /* Neither begins inside: the model's inputs, all of them. */
    make(&f, (tn_path[]){{TO("relu")}, {TO("y")}}, 2, &s);
    assert_inputs(s, NAMES("x", "weight"), 2);
    tn_session_release(s);
    /* A path of no length. */
    make(&f, &(tn_path){FROM("relu"), TO("relu")}, 1, &s);
    OK(run(s, want, got));
    assert_same(got[0], want[0]);
    release(got, 1);
    tn_session_release(s);
    release(in, 2);
    release(want, 4);
    end(&f);
}

/* ---- how ops are run -------------------------------------------------------------------------------------------- */

/* Whether some instruction's label has that op in it. */
static bool runs_op(const tn_session *s, const char *op) {
    tn_session_info info;
    bool found = false;
    OK(tn_session_get_info(s, &info));
    for (size_t i = 0; i < info.n_instructions; i++) {
        tn_instruction_info instr;
        OK(tn_session_instruction(s, i, &instr));
        found |= strstr(instr.op, op) != NULL;
    }
    return found;
}

static void assert_lowered(const Fix *f, const char *all, const char *first, const char *second, bool relu,
                           bool softplus, tn_tensor *const *in, tn_tensor *const *want) {
    tn_session *s;
    tn_tensor *got[2] = {0};
    tn_path paths[] = {{TO("y"), .lowering = first}, {TO("z"), .lowering = second}};
    for (int level = TN_OPT_0; level <= TN_OPT_3; level++) {
        tn_pass_settings settings = {.opt_level = (tn_opt_level)level, .lowering = all};
        OK(tn_session_create(f->model, &(tn_session_options){.paths = paths, .n_paths = 2, .passes = &settings}, &s));
        OK(run(s, in, got));
        assert_int_equal(runs_op(s, "Relu"), relu);
        assert_int_equal(runs_op(s, "Gelu"), softplus);
        for (int k = 0; k < 2; k++)
            for (int64_t i = 0; i < tn_tensor_count(got[k]); i++)
                assert_true(fabsf(((float *)tn_tensor_data(got[k]))[i] - ((float *)tn_tensor_data(want[k]))[i]) <
                            1e-5f);
        release(got, 2);
        tn_session_release(s);
    }
}

/* A wish is for the nodes that its path is the first to need, one for the session for all; in fused bodies too. */
static void test_lowering(void **state) {
    (void)state;
    static const char text[] = FORM(
        "graph @g(%x: f32[n,4], %weight: f32[4,4]) -> (%y, %z) {\n"
        "  %product = MatMul(%x, %weight)\n  %relu = Relu(%product)\n  %y = Add(%relu, %x)\n"
        "  %g = Gelu(%relu)\n  %z = MatMul(%g, %weight)\n}\n");
    Fix f;
    begin(&f, text);
    tn_tensor *in[] = {rows(f.ctx, 3, 1), rows(f.ctx, 4, 2)}, *want[2] = {0};
    run_whole(&f, NAMES("y", "z"), 2, in, want);
    assert_lowered(&f, NULL, NULL, NULL, true, true, in, want);
    assert_lowered(&f, "Relu=geometry", NULL, NULL, false, true, in, want);
    assert_lowered(&f, NULL, "Relu=geometry, Gelu=loop", NULL, false, true, in, want); /* the first has no Gelu */
    assert_lowered(&f, NULL, NULL, "Relu=geometry,Gelu=loop", true, false, in, want);  /* the Relu is the first's */
    assert_lowered(&f, "*=geometry", "Relu=origin", NULL, true, false, in, want);
    assert_lowered(&f, "Gelu=geometry,*=origin", NULL, NULL, true, false, in, want);
    tn_session *s;
    tn_path path = {TO("y"), .lowering = "Reluu=loop"};
    assert_int_equal(tn_session_create(f.model, &(tn_session_options){.paths = &path, .n_paths = 1}, &s), TN_NOT_FOUND);
    assert_non_null(strstr(tn_last_error(), "did you mean \"Relu\""));
    path.lowering = "Relu";
    assert_int_equal(tn_session_create(f.model, &(tn_session_options){.paths = &path, .n_paths = 1}, &s),
                     TN_INVALID_ARGUMENT);
    release(in, 2);
    release(want, 2);
    end(&f);
}

/* From one output to another, by the name that the interface gives it; a constant; the same session twice. */
static void test_names_of_ends(void **state) {
    (void)state;
    static const char text[] = FORM(
        "graph @g(%x: f32[2]) -> (\"middle\" = %m, %y) {\n  %c = Const {data = f32[2] [1.0, 2.0]}\n"
        "  %m = Mul(%x, %c)\n  %y = Add(%m, %c)\n}\n");
    Fix f;
    tn_session *s, *again;
    begin(&f, text);
    tn_tensor *in[] = {floats(f.ctx, 1, (int64_t[]){2}, 1), floats(f.ctx, 1, (int64_t[]){2}, 2)}, *got[1] = {0};
    tn_path path = {FROM("middle", "c"), TO("y")};
    make(&f, &path, 1, &s);
    make(&f, &path, 1, &again);
    assert_inputs(s, NAMES("middle", "c"), 2);
    OK(run(again, in, got));
    for (int i = 0; i < 2; i++)
        assert_true(((float *)tn_tensor_data(got[0]))[i] ==
                    ((float *)tn_tensor_data(in[0]))[i] + ((float *)tn_tensor_data(in[1]))[i]);
    release(got, 1);
    release(in, 2);
    tn_session_release(s);
    tn_session_release(again);
    end(&f);
}

static void test_nested_graphs_read(void **state) {
    (void)state;
    Fix f;
    tn_session *s;
    begin(&f, branches);
    tn_tensor *x = rows(f.ctx, 3, 1), *flag, *want[2] = {0}, *got[1] = {0};
    OK(tn_tensor_create((tn_context *)f.ctx, TN_BOOL, 0, NULL, &flag));
    make(&f, &(tn_path){FROM("second"), TO("y")}, 1, &s);
    assert_inputs(s, NAMES("second", "x", "a"), 3);
    for (int choice = 0; choice < 2; choice++) {
        *(bool *)tn_tensor_data(flag) = choice;
        run_whole(&f, NAMES("second", "y"), 2, (tn_tensor *[]){x, flag}, want);
        OK(run(s, (tn_tensor *[]){want[0], x, flag}, got));
        assert_same(got[0], want[1]);
        release(want, 2);
        release(got, 1);
    }
    tn_session_release(s);
    release(&x, 1);
    release(&flag, 1);
    end(&f);
}

/* What the whole model knows of sizes need not hold for a part of it. */
static void test_given_sizes(void **state) {
    (void)state;
    Fix f;
    tn_session *s;
    tn_value_info info;
    begin(&f, shapes);
    tn_tensor *in[] = {floats(f.ctx, 2, (int64_t[]){2, 6}, 1), NULL, floats(f.ctx, 2, (int64_t[]){5, 6}, 2)},
              *got[1] = {0};
    OK(tn_tensor_create((tn_context *)f.ctx, TN_I64, 1, (int64_t[]){2}, &in[1]));
    memcpy(tn_tensor_data(in[1]), (int64_t[]){3, 4}, 16);
    make(&f, &(tn_path){FROM("x", "size", "twice"), TO("y")}, 1, &s);
    OK(tn_session_input(s, 2, &info));
    assert_string_equal(info.name, "twice");
    assert_true(info.dtype == TN_F32 && info.rank == 2 && info.dims[0] == -1 && strcmp(info.dim_text[1], "m") == 0);
    OK(run(s, in, got));
    assert_true(tn_tensor_dims(got[0])[0] == 3 && tn_tensor_dims(got[0])[1] == 4);
    float most = ((float *)tn_tensor_data(in[2]))[0];
    for (int i = 0; i < 30; i++) most = fmaxf(most, ((float *)tn_tensor_data(in[2]))[i]);
    for (int i = 0; i < 12; i++)
        assert_true(((float *)tn_tensor_data(got[0]))[i] == -((float *)tn_tensor_data(in[0]))[i] + most);
    release(got, 1);
    release(in, 3);
    tn_session_release(s);
    end(&f);
}

static void refuse(const Fix *f, const tn_session_options *o, tn_status status, const char *says) {
    tn_session *s = NULL;
    assert_int_equal(tn_session_create(f->model, o, &s), status);
    assert_says(says);
    assert_null(s);
}

#define ONE(...) \
    &(tn_session_options) { .paths = &(tn_path){__VA_ARGS__}, .n_paths = 1 }

static void test_wrong_paths(void **state) {
    (void)state;
    Fix f;
    begin(&f, net);
    refuse(&f, ONE(FROM("product"), TO("secand")), TN_NOT_FOUND, "no value \"secand\"; did you mean \"second\"?");
    refuse(&f, ONE(FROM("prodct"), TO("y")), TN_NOT_FOUND, "did you mean \"product\"?");
    refuse(&f, ONE(TO("quite another")), TN_NOT_FOUND, "no value \"quite another\"");
    refuse(&f, ONE(FROM("x", "exp"), TO("y")), TN_INVALID_ARGUMENT,
           "path 0 begins at \"exp\", which none of its ends needs");
    refuse(&f, ONE(FROM("product", "relu"), TO("y")), TN_INVALID_ARGUMENT, "path 0 begins at \"product\"");
    refuse(&f, ONE(FROM("x")), TN_INVALID_ARGUMENT, "ends nowhere");
    refuse(&f, ONE(FROM(NULL), TO("y")), TN_INVALID_ARGUMENT, "input 0 of path 0 is NULL");
    refuse(&f, ONE(.n_outputs = 1), TN_INVALID_ARGUMENT, "outputs is NULL");
    refuse(&f, &(tn_session_options){.n_paths = 1}, TN_INVALID_ARGUMENT, "paths is NULL");
    refuse(&f, &(tn_session_options){.paths = &(tn_path){TO("y")}, .n_paths = 1, TO("y")}, TN_INVALID_ARGUMENT,
           "the one or the other");
    end(&f);
    begin(&f, branches);
    refuse(&f, ONE(FROM("inner"), TO("y")), TN_NOT_FOUND, "\"inner\" stands in a nested graph and cannot be an input");
    refuse(&f, ONE(TO("inner")), TN_NOT_FOUND, "\"inner\" stands in a nested graph and cannot be an output");
    end(&f);
}

static void test_extract(void **state) {
    (void)state;
    Fix f;
    tn_model *part, *empty = NULL;
    tn_value_info info;
    begin(&f, net);
    OK(tn_model_extract(f.model, &(tn_path){FROM("relu"), TO("second")}, 1, &part));
    OK(model_verify(part->ir));
    assert_int_equal(tn_model_n_inputs(part), 2);
    OK(tn_model_input(part, 0, &info));
    assert_string_equal(info.name, "relu");
    assert_string_equal(info.type, "f32[n,4]");
    OK(tn_model_output(part, 0, &info));
    assert_string_equal(info.name, "second");
    assert_int_equal(part->ir->main->n_nodes, 2);
    tn_model_release(part);
    assert_int_equal(tn_model_n_inputs(f.model), 2); /* which stays what it was */
    OK(tn_model_input(f.model, 0, &info));
    assert_string_equal(info.name, "x");
    assert_int_equal(tn_model_extract(f.model, &(tn_path){FROM("relu"), TO("nothing")}, 1, &empty), TN_NOT_FOUND);
    assert_null(empty);
    end(&f);
    begin(&f, recurrent);
    OK(tn_model_extract(f.model, &(tn_path){FROM("a"), TO("y", "next")}, 1, &part));
    OK(model_verify(part->ir));
    assert_int_equal(tn_model_n_inputs(part), 3);
    for (size_t i = 0; i < 3; i++) {
        OK(tn_model_input(part, i, &info));
        assert_string_equal(info.name, (NAMES("a", "kept", "count"))[i]);
        assert_true(info.has_default == (i == 2)); /* which goes along */
    }
    tn_model_release(part);
    end(&f);
}

/* Far too deep to recurse over, and far too long to go through once for each path. */
static void test_long_model(void **state) {
    (void)state;
    enum { LENGTH = 100000, PATHS = 1000, PART = LENGTH / PATHS };
    Fixture f;
    fixture_begin(&f);
    Value *v;
    OK(graph_add_input(f.model->main, STR("v0"), vector_type(f.model, TN_F32, 4), &v));
    for (int i = 1; i <= LENGTH; i++) {
        char name[16];
        snprintf(name, sizeof name, "v%d", i);
        v = add_node(f.model->main, "Neg", v, NULL, name);
    }
    OK(graph_add_output(f.model->main, v, STR("v")));
    static char names[PATHS + 1][16];
    static const char *ends[PATHS + 1];
    static tn_path paths[PATHS];
    for (int i = 0; i <= PATHS; i++) {
        snprintf(names[i], sizeof names[i], "v%d", i * PART);
        ends[i] = names[i];
    }
    for (int i = 0; i < PATHS; i++) paths[i] = (tn_path){&ends[i], 1, &ends[i + 1], 1};
    tn_model *whole, *part;
    OK(model_handle_lent(f.ctx, f.model, &whole));
    OK(tn_model_extract(whole, paths, PATHS, &part));
    assert_int_equal(part->ir->main->n_nodes, LENGTH);
    assert_int_equal(tn_model_n_inputs(part), 1);
    assert_int_equal(tn_model_n_outputs(part), PATHS);
    tn_model_release(part);
    OK(tn_model_extract(whole, &paths[PATHS / 2], 1, &part));
    assert_int_equal(part->ir->main->n_nodes, PART);
    tn_model_release(part);
    model_handle_return(whole);
    fixture_end(&f);
}

/* ---- state ------------------------------------------------------------------------------------------------------ */

enum { STEPS = 24 };

/* The keys and answers of a caller who passes them on by hand: some positions at first, then one by one. */
static void decode_by_hand(const Fix *f, tn_tensor **x, tn_tensor *past, tn_tensor **y, tn_tensor **present) {
    tn_session *s;
    OK(tn_session_create(f->model, NULL, &s));
    for (int i = 0; i < STEPS; i++) {
        tn_tensor *out[2] = {0};
        OK(run(s, (tn_tensor *[]){x[i], i ? present[i - 1] : past}, out));
        y[i] = out[0];
        present[i] = out[1];
    }
    tn_session_release(s);
}

static void decode_bound(tn_session *s, tn_tensor *const *x, tn_tensor *past, tn_tensor *const *y) {
    for (int i = 0; i < STEPS; i++) {
        tn_tensor *out[2] = {0};
        OK(run(s, (tn_tensor *[]){x[i], i ? NULL : past}, out));
        assert_same(out[0], y[i]);
        assert_null(out[1]);
        release(out, 2);
    }
}

static void decode_both_ways(const char *text) {
    Fix f;
    begin(&f, text);
    tn_tensor *x[STEPS], *y[STEPS] = {0}, *present[STEPS] = {0}, *y0[STEPS] = {0}, *present0[STEPS] = {0};
    tn_tensor *past = floats(f.ctx, 4, (int64_t[]){3, 2, 2, 4}, 99),
              *none = floats(f.ctx, 4, (int64_t[]){3, 2, 0, 4}, 1);
    for (int i = 0; i < STEPS; i++) x[i] = floats(f.ctx, 4, (int64_t[]){3, 2, i ? 1 : 5, 4}, (uint64_t)i);
    decode_by_hand(&f, x, past, y, present);
    decode_by_hand(&f, x, none, y0, present0);
    for (int64_t capacity = 0; capacity <= 64; capacity += 16) {
        tn_session *s;
        tn_session_info info;
        OK(tn_session_create(f.model, NULL, &s));
        OK(tn_session_bind_state(s, "past", "present", capacity));
        decode_bound(s, x, past, y);
        OK(tn_session_reset_state(s));
        decode_bound(s, x, NULL, y0); /* begins with nothing, for the batch of the other input */
        OK(tn_session_reset_state(s));
        decode_bound(s, x, past, y);
        OK(tn_session_get_info(s, &info));
        assert_true(info.allocated_bytes >= (uint64_t)(3 * 2 * 4 * 4) * (uint64_t)max_i64(capacity, STEPS));
        tn_session_release(s);
    }
    release(x, STEPS);
    release(y, STEPS);
    release(present, STEPS);
    release(y0, STEPS);
    release(present0, STEPS);
    release(&past, 1);
    release(&none, 1);
    end(&f);
}

static void test_decoding(void **state) {
    (void)state;
    decode_both_ways(decoder);
    decode_both_ways(cache);
    decode_both_ways(attention);
}

/* Within its capacity a state takes no more memory; one that only gets longer takes it once. */
static void test_capacity(void **state) {
    (void)state;
    Fix f;
    tn_session *s;
    tn_session_info info;
    begin(&f, cache);
    tn_tensor *x = floats(f.ctx, 4, (int64_t[]){1, 2, 1, 4}, 1), *out[2] = {0};
    OK(tn_session_create(f.model, NULL, &s));
    OK(tn_session_bind_state(s, "past", "present", 40));
    uint64_t state_bytes = 40 * 2 * 4 * 4 + 64;
    for (int i = 0; i < 40; i++) {
        OK(run(s, (tn_tensor *[]){x, NULL}, out));
        release(out, 1);
        OK(tn_session_get_info(s, &info));
        assert_int_equal(info.allocated_bytes - info.arena_bytes, state_bytes);
        assert_int_equal(info.moved_bytes, 2 * 4 * 4); /* what is new */
    }
    tn_session_release(s);
    release(&x, 1);
    end(&f);
}

/* A value that looks like the session's own, but is a caller's with no room behind it; then one of two such. */
static void test_given_in_between(void **state) {
    (void)state;
    static const char text[] = FORM(
        "graph @g(%x: f32[new,4], %past: f32[old,4], %other: f32[old2,4]) -> (%y, %present, %more) {\n"
        "  %present = Concat(%past, %x) {axis=0}\n  %more = Concat(%other, %x) {axis=0}\n"
        "  %a = ReduceSum(%present, i64[1] [0])\n  %b = ReduceMax(%more, i64[1] [0])\n  %y = Add(%a, %b)\n}\n");
    Fix f;
    tn_session *s, *hand;
    begin(&f, text);
    float memory[20 * 4];
    tn_tensor *x = rows(f.ctx, 1, 1), *given, *out[3] = {0}, *want[3] = {0};
    OK(tn_session_create(f.model, NULL, &s));
    OK(tn_session_create(f.model, NULL, &hand));
    OK(tn_session_bind_state(s, "past", "present", 30));
    OK(tn_session_bind_state(s, "other", "more", 30));
    for (int n = 1; n < 9; n++) {
        for (int i = 0; i < 80; i++) memory[i] = (float)i;
        OK(tn_tensor_wrap((tn_context *)f.ctx, TN_F32, 2, (int64_t[]){n, 4}, memory, (size_t)n * 16, NULL, NULL,
                          &given));
        for (int both = 0; both < 2; both++) {
            OK(tn_session_reset_state(s));
            for (int i = 0; i <= n; i++) { /* planned for this size, in place */
                OK(run(s, (tn_tensor *[]){x, NULL, NULL}, out));
                release(out, 1);
            }
            OK(tn_session_reset_state(s));
            for (int i = 0; i < n; i++) {
                OK(run(s, (tn_tensor *[]){x, NULL, NULL}, out));
                release(out, 1);
            }
            out[2] = rows(f.ctx, n + 1, 4);
            OK(run(s, (tn_tensor *[]){x, given, both ? given : NULL}, out));
            OK(run(hand, (tn_tensor *[]){x, given, given}, want));
            if (both) assert_same(out[0], want[0]);
            release(out, 3);
            release(want, 3);
            for (int i = 0; i < 80; i++) assert_true(memory[i] == (float)i);
        }
        tn_tensor_release(given);
    }
    release(&x, 1);
    tn_session_release(hand);
    tn_session_release(s);
    end(&f);
}

static tn_action stop(void *user, const tn_instruction_info *instruction) {
    (void)user, (void)instruction;
    return TN_STOP;
}

static void test_failed_run_keeps_state(void **state) {
    (void)state;
    Fix f;
    tn_session *s;
    begin(&f, decoder);
    tn_tensor *x[STEPS], *y[STEPS] = {0}, *present[STEPS] = {0}, *out[2] = {0};
    tn_tensor *none = floats(f.ctx, 4, (int64_t[]){1, 2, 0, 4}, 1),
              *wrong = floats(f.ctx, 4, (int64_t[]){2, 2, 1, 4}, 1);
    for (int i = 0; i < STEPS; i++) x[i] = floats(f.ctx, 4, (int64_t[]){1, 2, 1, 4}, (uint64_t)i);
    decode_by_hand(&f, x, none, y, present);
    OK(tn_session_create(f.model, NULL, &s));
    OK(tn_session_bind_state(s, "past", "present", 0));
    for (int i = 0; i < STEPS; i++) {
        tn_tensor *in[] = {x[i], NULL};
        if (i > 0) assert_int_equal(run(s, (tn_tensor *[]){wrong, NULL}, out), TN_SHAPE);
        assert_int_equal(tn_session_run(s, &(tn_run_options){.before = stop}, (const tn_tensor *const *)in, 2, out, 2),
                         TN_CANCELLED);
        out[1] = floats(f.ctx, 4, (int64_t[]){1, 2, i + 1, 4}, 7); /* who wants it gets a copy */
        OK(run(s, in, out));
        assert_same(out[0], y[i]);
        assert_same(out[1], present[i]);
        release(out, 2);
    }
    out[1] = floats(f.ctx, 4, (int64_t[]){1, 2, 3, 4}, 7);
    assert_int_equal(run(s, (tn_tensor *[]){x[0], NULL}, out), TN_SHAPE); /* too small */
    release(out, 2);
    OK(tn_session_resize(s, (tn_shape[]){{4, (int64_t[]){1, 2, 1, 4}}}, 1)); /* beside what is remembered */
    tn_value_info info;
    OK(tn_session_output(s, 1, &info));
    assert_int_equal(info.dims[2], STEPS + 1);
    tn_session_release(s);
    release(x, STEPS);
    release(y, STEPS);
    release(present, STEPS);
    release(&none, 1);
    release(&wrong, 1);
    end(&f);
}

static void test_states_of_one_size(void **state) {
    (void)state;
    Fix f;
    tn_session *s, *hand;
    begin(&f, recurrent);
    int64_t dims[] = {2, 3};
    tn_tensor *x = floats(f.ctx, 2, dims, 1), *kept = floats(f.ctx, 2, dims, 2), *h, *out[4] = {0}, *want[4] = {0};
    OK(tn_tensor_create((tn_context *)f.ctx, TN_F32, 2, dims, &h));
    OK(tn_session_create(f.model, NULL, &hand));
    OK(tn_session_create(f.model, NULL, &s));
    OK(tn_session_bind_state(s, "h", "h2", 0));
    OK(tn_session_bind_state(s, "kept", "kept2", 5));
    OK(tn_session_bind_state(s, "count", "next", 0));
    for (int i = 0; i < 6; i++) {
        OK(run(hand, (tn_tensor *[]){x, h, kept, NULL}, want));
        if (i % 2) OK(tn_tensor_create((tn_context *)f.ctx, TN_I64, 0, NULL, &out[2]));
        OK(run(s, (tn_tensor *[]){x, NULL, i ? NULL : kept, NULL}, out));
        assert_same(out[0], want[0]);
        if (i % 2) assert_int_equal(*(int64_t *)tn_tensor_data(out[2]), 8 + i);
        tn_tensor_release(h);
        h = tn_tensor_retain(want[3]);
        release(out, 4);
        release(want, 4);
    }
    release(&x, 1);
    release(&kept, 1);
    release(&h, 1);
    tn_session_release(s);
    tn_session_release(hand);
    end(&f);
}

static void test_wrong_states(void **state) {
    (void)state;
    Fix f;
    tn_session *s;
    begin(&f, decoder);
    OK(tn_session_create(f.model, NULL, &s));
    assert_int_equal(tn_session_bind_state(s, "pats", "present", 0), TN_NOT_FOUND);
    assert_says("no input \"pats\"");
    assert_int_equal(tn_session_bind_state(s, "past", "presents", 0), TN_NOT_FOUND);
    assert_says("no output \"presents\"; did you mean \"present\"?");
    assert_int_equal(tn_session_bind_state(s, "past", "present", -1), TN_INVALID_ARGUMENT);
    assert_int_equal(tn_session_bind_state(s, NULL, "present", 0), TN_INVALID_ARGUMENT);
    assert_int_equal(tn_session_bind_state(NULL, "past", "present", 0), TN_INVALID_ARGUMENT);
    assert_int_equal(tn_session_reset_state(NULL), TN_INVALID_ARGUMENT);
    OK(tn_session_bind_state(s, "past", "present", 0));
    assert_int_equal(tn_session_bind_state(s, "past", "present", 0), TN_INVALID_ARGUMENT);
    assert_says("bound already");
    tn_session_release(s);
    OK(tn_session_create(f.model, &(tn_session_options){TO("y")}, &s));
    assert_int_equal(tn_session_bind_state(s, "past", "present", 0), TN_NOT_FOUND);
    tn_session_release(s);
    end(&f);
    begin(&f, FORM("graph @g(%x: str[n], %v: f32[n], %w: f32[n,n]) -> (%text, %vector, %half) {\n"
                   "  %text = Identity(%x)\n  %vector = Neg(%v)\n  %half = Cast(%w) {to=10}\n}\n"));
    OK(tn_session_create(f.model, NULL, &s));
    assert_int_equal(tn_session_bind_state(s, "x", "text", 0), TN_UNSUPPORTED);
    assert_int_equal(tn_session_bind_state(s, "v", "half", 0), TN_SHAPE);
    assert_int_equal(tn_session_bind_state(s, "w", "vector", 0), TN_SHAPE);
    assert_int_equal(tn_session_bind_state(s, "w", "half", 0), TN_SHAPE);
    assert_says("\"half\" has another type or rank than \"w\"");
    tn_session_release(s);
    end(&f);
}

/* ---- what a session says ---------------------------------------------------------------------------------------- */

static tn_session_info info_of(const tn_session *s) {
    tn_session_info info;
    OK(tn_session_get_info(s, &info));
    return info;
}

static void test_resize_status(void **state) {
    (void)state;
    Fix f;
    tn_session *s;
    begin(&f, FORM("graph @g(%x: f32[n,m], %w: f32[k,p]) -> (%y) {\n  %y = MatMul(%x, %w)\n}\n"));
    tn_tensor *x = rows(f.ctx, 3, 1), *good = rows(f.ctx, 4, 2), *bad = rows(f.ctx, 5, 3), *out[1] = {0};
    tn_shape wrong[] = {{2, (int64_t[]){3, 4}}, {2, (int64_t[]){5, 4}}};
    OK(tn_session_create(f.model, NULL, &s));
    assert_true(info_of(s).resize_status == TN_RESIZE_NEEDED && info_of(s).n_plans == 0);
    assert_string_equal(info_of(s).resize_error, "");
    assert_int_equal(tn_session_resize(s, wrong, 2), TN_SHAPE);
    assert_int_equal(info_of(s).resize_status, TN_RESIZE_FAILED);
    assert_non_null(strstr(info_of(s).resize_error, "MatMul"));
    assert_non_null(strstr(info_of(s).resize_error, "[3,4]"));
    assert_non_null(strstr(info_of(s).resize_error, "[5,4]"));
    for (int i = 0; i < 2; i++) { /* fails cleanly as often as one likes */
        assert_int_equal(run(s, (tn_tensor *[]){x, bad}, out), TN_SHAPE);
        assert_says("MatMul");
        assert_says("[5,4]");
        assert_null(out[0]);
        assert_int_equal(info_of(s).resize_status, TN_RESIZE_FAILED);
    }
    OK(run(s, (tn_tensor *[]){x, good}, out));
    release(out, 1);
    assert_true(info_of(s).resize_status == TN_RESIZE_DONE && info_of(s).n_plans == 1);
    assert_string_equal(info_of(s).resize_error, "");
    assert_int_equal(tn_session_resize(s, wrong, 2), TN_SHAPE);
    assert_true(info_of(s).resize_status == TN_RESIZE_FAILED && info_of(s).n_plans == 1);
    OK(tn_session_resize(s, (tn_shape[]){{2, (int64_t[]){2, 4}}, {2, (int64_t[]){4, 4}}}, 2));
    assert_true(info_of(s).resize_status == TN_RESIZE_DONE && info_of(s).n_plans == 2);
    assert_int_equal(tn_session_resize(s, (tn_shape[]){{1, (int64_t[]){2}}}, 1), TN_SHAPE);
    assert_non_null(strstr(info_of(s).resize_error, "input \"x\""));
    tn_session_release(s);
    release(&x, 1);
    release(&good, 1);
    release(&bad, 1);
    end(&f);
}

static void test_deferred_plan(void **state) {
    (void)state;
    Fix f;
    tn_session *s;
    tn_value_info value;
    begin(&f, FORM("graph @g(%x: f32[2,4]) -> (%y) {\n  %y = Tanh(%x)\n}\n"));
    OK(tn_session_create(f.model, NULL, &s));
    assert_true(info_of(s).resize_status == TN_RESIZE_DONE && info_of(s).planned);
    tn_session_release(s);
    OK(tn_session_create(f.model, &(tn_session_options){.defer_plan = true}, &s));
    assert_true(info_of(s).resize_status == TN_RESIZE_NEEDED && info_of(s).n_plans == 0 && !info_of(s).planned);
    OK(tn_session_input(s, 0, &value));
    assert_true(strcmp(value.name, "x") == 0 && value.rank == 2 && value.dims[1] == 4);
    assert_int_equal(tn_session_output(s, 0, &value), TN_STATE);
    tn_tensor *x = rows(f.ctx, 2, 1), *out[1] = {0};
    OK(run(s, &x, out));
    assert_true(info_of(s).resize_status == TN_RESIZE_DONE && info_of(s).n_plans == 1);
    release(out, 1);
    release(&x, 1);
    tn_session_release(s);
    end(&f);
}

/* Any value may be kept, whatever the passes would have made of it. */
static void test_pinned_values(void **state) {
    (void)state;
    static const char *const names[] = {"product", "relu", "sum", "exp"};
    Fix f;
    begin(&f, net);
    tn_tensor *in[] = {rows(f.ctx, 3, 1), rows(f.ctx, 4, 2)}, *all[6] = {0}, *whole[2] = {0};
    run_whole(&f, NAMES("y", "second"), 2, in, whole);
    run_whole(&f, NAMES("y", "product", "relu", "sum", "exp", "second"), 6, in, all);
    assert_same(all[0], whole[0]);
    assert_same(all[5], whole[1]);
    for (int i = 0; i < 4; i++) {
        tn_tensor *one[1] = {0};
        run_whole(&f, &names[i], 1, in, one);
        assert_same(one[0], all[i + 1]);
        release(one, 1);
    }
    const float *product = tn_tensor_data(all[1]), *relu = tn_tensor_data(all[2]), *sum = tn_tensor_data(all[3]);
    for (int i = 0; i < 12; i++) {
        assert_true(relu[i] == fmaxf(product[i], 0));
        assert_true(sum[i] == relu[i] + ((float *)tn_tensor_data(in[0]))[i]);
    }
    release(all, 6);
    release(whole, 2);
    release(in, 2);
    end(&f);
}

/* ---- memory ----------------------------------------------------------------------------------------------------- */

/* A part with a state, run three times, on a heap that fails at its n-th call. */
static tn_status whole_life(Context *ctx, const char *text, tn_tensor *x) {
    tn_model *model;
    tn_session *s = NULL;
    tn_path path = {FROM("k", "x"), TO("y", "present")};
    if (text == cache) path.n_inputs = 1;
    TRY(tn_model_load_memory((tn_context *)ctx, text, strlen(text), NULL, NULL, NULL, &model));
    tn_status status = tn_session_create(model, &(tn_session_options){.paths = &path, .n_paths = 1}, &s);
    if (status == TN_OK) status = tn_session_bind_state(s, "past", "present", 3);
    for (int i = 0; i < 3 && status == TN_OK; i++) {
        tn_tensor *out[2] = {0};
        status = run(s, (tn_tensor *[]){x, text == cache ? NULL : x, NULL}, out);
        release(out, 2);
    }
    tn_session_release(s);
    tn_model_release(model);
    return status;
}

static void run_out_of_memory(const char *text) {
    Context *own;
    tn_status status = TN_OUT_OF_MEMORY;
    OK(context_new(NULL, NULL, &own));
    tn_tensor *x = floats(own, 4, (int64_t[]){1, 2, 1, 4}, 1);
    for (int64_t at = 1; status != TN_OK; at += 1 + at / 64) {
        TestHeap heap;
        Context *ctx;
        test_heap_init(&heap);
        OK(context_new(&heap.allocator, NULL, &ctx));
        heap.fail_at = heap.calls + at;
        status = whole_life(ctx, text, x);
        if (status != TN_OK) assert_int_equal(status, TN_OUT_OF_MEMORY);
        heap.fail_at = 0;
        context_unref(ctx);
        assert_int_equal(heap.living, 0);
    }
    release(&x, 1);
    context_unref(own);
}

static void test_memory_runs_out(void **state) {
    (void)state;
    run_out_of_memory(decoder);
    run_out_of_memory(cache);
}

/* ---- planning without weights --------------------------------------------------------------------------------- */

static void test_defer_packing(void **state) {
    (void)state;
    static const char text[] = FORM(
        "graph @g(%x: f32[3,4]) -> (%y) {\n  %w = Const {data = f32[4,2] [1, 2, 3, 4, 5, 6, 7, 8]}\n"
        "  %m = MatMul(%x, %w)\n  %y = Relu(%m)\n}\n");
    Fix f;
    begin(&f, text);
    tn_tensor *x = floats(f.ctx, 2, (int64_t[]){3, 4}, 5), *out[2] = {NULL};
    for (int deferred = 0; deferred < 2; deferred++) {
        tn_session *session;
        tn_session_info info;
        OK(tn_session_create(f.model, &(tn_session_options){.defer_packing = deferred}, &session));
        OK(tn_session_get_info(session, &info));
        assert_int_equal(info.resize_status, TN_RESIZE_DONE);
        for (int turn = 0; turn < 2; turn++) {
            tn_tensor_release(out[deferred]);
            out[deferred] = NULL;
            OK(tn_session_run(session, NULL, (const tn_tensor *const[]){x}, 1, &out[deferred], 1));
        }
        tn_session_release(session);
    }
    assert_memory_equal(tn_tensor_data(out[0]), tn_tensor_data(out[1]), 6 * sizeof(float));
    for (int k = 0; k < 2; k++) tn_tensor_release(out[k]);
    tn_tensor_release(x);
    end(&f);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_defer_packing),
        cmocka_unit_test(test_all_outputs),
        cmocka_unit_test(test_one_path),
        cmocka_unit_test(test_more_paths),
        cmocka_unit_test(test_lowering),
        cmocka_unit_test(test_names_of_ends),
        cmocka_unit_test(test_nested_graphs_read),
        cmocka_unit_test(test_given_sizes),
        cmocka_unit_test(test_wrong_paths),
        cmocka_unit_test(test_extract),
        cmocka_unit_test(test_long_model),
        cmocka_unit_test(test_decoding),
        cmocka_unit_test(test_capacity),
        cmocka_unit_test(test_given_in_between),
        cmocka_unit_test(test_failed_run_keeps_state),
        cmocka_unit_test(test_states_of_one_size),
        cmocka_unit_test(test_wrong_states),
        cmocka_unit_test(test_resize_status),
        cmocka_unit_test(test_deferred_plan),
        cmocka_unit_test(test_defer_packing),
        cmocka_unit_test(test_pinned_values),
        cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
