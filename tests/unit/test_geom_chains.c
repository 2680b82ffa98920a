/* SPDX-License-Identifier: Apache-2.0 */
/* Random chains of ops that move data: their own regions, composed from the first operand to the last result, must say
   what running them one by one gives, and hardly ever decline. */
#include "eval/eval.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <cmocka.h> /* last: it has a macro `fail` */

#include "geom_random.h"

#define OK(call) assert_int_equal(call, TN_OK)
#define CHAINS 1500
#define LIMIT 256 /* regions of a composed list */

/* ---- chains as text -------------------------------------------------------------------------------------------- */

typedef struct Chain {
    Text text;
    int n, rank, inputs; /* values so far, the last one's rank, operands beside %x */
    int64_t dims[TN_MAX_RANK];
    int64_t input_dims[8][TN_MAX_RANK];
    int input_rank[8];
} Chain;

static void put_list(Chain *c, const int64_t *list, int n) {
    text_printf(&c->text, "i64[%d] [", n);
    for (int k = 0; k < n; k++) text_printf(&c->text, "%s%lld", k ? ", " : "", (long long)list[k]);
    text_puts(&c->text, "]");
}

static void begin(Chain *c, const char *op) { text_printf(&c->text, "  %%v%d = %s(%%v%d", c->n + 1, op, c->n); }

static void end(Chain *c, const char *attrs) {
    text_printf(&c->text, ")%s\n", attrs);
    c->n++;
}

static int64_t count_of(const Chain *c) {
    int64_t n = 1;
    for (int k = 0; k < c->rank; k++) n *= c->dims[k];
    return n;
}

static void add_transpose(Chain *c) {
    int64_t perm[TN_MAX_RANK], dims[TN_MAX_RANK];
    for (int k = 0; k < c->rank; k++) perm[k] = k;
    for (int k = c->rank - 1; k > 0; k--) {
        int j = (int)pick(0, k);
        int64_t t = perm[k];
        perm[k] = perm[j];
        perm[j] = t;
    }
    begin(c, "Transpose");
    text_puts(&c->text, ") {perm=[");
    for (int k = 0; k < c->rank; k++) text_printf(&c->text, "%s%d", k ? ", " : "", (int)perm[k]);
    text_puts(&c->text, "]}\n");
    c->n++;
    for (int k = 0; k < c->rank; k++) dims[k] = c->dims[perm[k]];
    memcpy(c->dims, dims, sizeof dims);
}

static void add_slice(Chain *c) {
    int64_t from[TN_MAX_RANK], to[TN_MAX_RANK], axes[TN_MAX_RANK], steps[TN_MAX_RANK];
    for (int k = 0; k < c->rank; k++) {
        int64_t n = c->dims[k], a = pick(0, n - 1), step = pick(0, 3) ? 1 : pick(0, 1) ? -1 : 2;
        axes[k] = k;
        steps[k] = step;
        from[k] = pick(0, 1) ? (step > 0 ? 0 : n - 1) : a;
        if (step > 0) to[k] = pick(0, 1) ? n : pick(from[k] + 1, n);
        else to[k] = -n - 1;
        c->dims[k] = step > 0 ? (to[k] - from[k] + step - 1) / step : from[k] + 1;
    }
    begin(c, "Slice");
    text_puts(&c->text, ", ");
    put_list(c, from, c->rank);
    text_puts(&c->text, ", ");
    put_list(c, to, c->rank);
    text_puts(&c->text, ", ");
    put_list(c, axes, c->rank);
    text_puts(&c->text, ", ");
    put_list(c, steps, c->rank);
    end(c, "");
}

static void add_concat(Chain *c) {
    char attrs[32];
    int axis = (int)pick(0, c->rank - 1);
    bool fresh = pick(0, 1) && c->inputs < 8, before = pick(0, 1);
    snprintf(attrs, sizeof attrs, " {axis=%d}", axis);
    char other[16];
    snprintf(other, sizeof other, fresh ? "%%b%d" : "%%v%d", fresh ? c->inputs : c->n);
    text_printf(&c->text, "  %%v%d = Concat(", c->n + 1);
    if (before) text_printf(&c->text, "%s, %%v%d", other, c->n);
    else text_printf(&c->text, "%%v%d, %s", c->n, other);
    end(c, attrs);
    int64_t more = c->dims[axis];
    if (fresh) {
        int i = c->inputs++;
        c->input_rank[i] = c->rank;
        memcpy(c->input_dims[i], c->dims, sizeof c->dims);
        c->input_dims[i][axis] = more = pick(1, 3);
    }
    c->dims[axis] += more;
}

/* A part of a split, or its parts in another order. */
static void add_split(Chain *c) {
    int axis = (int)pick(0, c->rank - 1), n = c->n;
    if (c->dims[axis] < 2) return;
    int64_t part = pick(1, c->dims[axis] - 1), sizes[] = {part, c->dims[axis] - part};
    text_printf(&c->text, "  %%p%d, %%q%d = Split(%%v%d, ", n, n, n);
    put_list(c, sizes, 2);
    text_printf(&c->text, ") {axis=%d}\n", axis);
    if (pick(0, 1)) {
        text_printf(&c->text, "  %%v%d = Concat(%%q%d, %%p%d) {axis=%d}\n", ++c->n, n, n, axis);
    } else {
        text_printf(&c->text, "  %%v%d = Identity(%%q%d)\n", ++c->n, n);
        c->dims[axis] = sizes[1];
    }
}

static void add_pad(Chain *c) {
    int64_t pads[2 * TN_MAX_RANK];
    int mode = pick(0, 3) ? 0 : (int)pick(1, 3);
    static const char *const modes[] = {"", " {mode=\"reflect\"}", " {mode=\"edge\"}", " {mode=\"wrap\"}"};
    for (int k = 0; k < 2 * c->rank; k++) {
        pads[k] = pick(0, 1) ? 0 : pick(1, 2);
        if (mode == 1) pads[k] = min_i64(pads[k], c->dims[k % c->rank] - 1);
        if (mode == 3) pads[k] = min_i64(pads[k], c->dims[k % c->rank]);
    }
    for (int k = 0; k < c->rank; k++) c->dims[k] += pads[k] + pads[k + c->rank];
    begin(c, "Pad");
    text_puts(&c->text, ", ");
    put_list(c, pads, 2 * c->rank);
    end(c, modes[mode]);
}

static void add_tile(Chain *c) {
    int64_t times[TN_MAX_RANK];
    for (int k = 0; k < c->rank; k++) c->dims[k] *= times[k] = pick(0, 2) ? 1 : 2;
    begin(c, "Tile");
    text_puts(&c->text, ", ");
    put_list(c, times, c->rank);
    end(c, "");
}

static void add_reshape(Chain *c) {
    int64_t left = count_of(c), dims[TN_MAX_RANK];
    int n = 0;
    while (n < 4 && left > 1) {
        int64_t f = pick(2, 12);
        if (left % f == 0) {
            dims[n++] = f;
            left /= f;
        } else if (pick(0, 8) == 0) {
            break;
        }
    }
    dims[n++] = left;
    if (pick(0, 1)) { /* neighbours merged or one split */
        int64_t t = dims[0];
        dims[0] = dims[n - 1];
        dims[n - 1] = t;
    }
    begin(c, "Reshape");
    text_puts(&c->text, ", ");
    put_list(c, dims, n);
    end(c, "");
    c->rank = n;
    memcpy(c->dims, dims, sizeof dims);
}

static void add_expand(Chain *c) {
    if (c->rank > 4) return;
    memmove(c->dims + 1, c->dims, (size_t)c->rank * sizeof *c->dims);
    c->dims[0] = pick(1, 3);
    c->rank++;
    begin(c, "Expand");
    text_puts(&c->text, ", ");
    put_list(c, c->dims, c->rank);
    end(c, "");
}

static void add_blocks(Chain *c) {
    if (c->rank != 4) return;
    const char *attrs = " {blocksize=2}";
    if (c->dims[1] % 4 == 0) {
        begin(c, "DepthToSpace");
        end(c, pick(0, 1) ? attrs : " {blocksize=2, mode=\"CRD\"}");
        c->dims[1] /= 4;
        c->dims[2] *= 2;
        c->dims[3] *= 2;
    } else if (c->dims[2] % 2 == 0 && c->dims[3] % 2 == 0) {
        begin(c, "SpaceToDepth");
        end(c, attrs);
        c->dims[1] *= 4;
        c->dims[2] /= 2;
        c->dims[3] /= 2;
    }
}

static void put_type(Text *t, int rank, const int64_t *dims) {
    text_puts(t, "f32[");
    for (int k = 0; k < rank; k++) text_printf(t, "%s%lld", k ? "," : "", (long long)dims[k]);
    text_puts(t, "]");
}

static void random_chain(Chain *c, Text *model, int length) {
    static void (*const add[])(Chain *) = {add_transpose, add_slice,   add_concat, add_split, add_pad,
                                           add_tile,      add_reshape, add_expand, add_blocks};
    *c = (Chain){.rank = (int)pick(1, 5)};
    text_init(&c->text, &allocator_default);
    for (int k = 0; k < c->rank; k++) c->dims[k] = pick(0, 1) ? pick(1, 6) : 2 * pick(1, 3);
    if (pick(0, 2) == 0) { /* for blocks */
        static const int64_t image[] = {1, 8, 4, 4};
        c->rank = 4;
        memcpy(c->dims, image, sizeof image);
    }
    int64_t dims[TN_MAX_RANK];
    int rank = c->rank;
    memcpy(dims, c->dims, sizeof dims);
    for (int k = 0; k < length; k++) {
        int64_t n = count_of(c);
        int kind = (int)pick(0, 8);
        if (n > 2000 && kind != 0 && kind != 1 && kind != 3 && kind != 6) kind = 1;
        add[kind](c);
    }
    text_puts(model, "tn 1\ngraph @g(%v0: ");
    put_type(model, rank, dims);
    for (int k = 0; k < c->inputs; k++) {
        text_printf(model, ", %%b%d: ", k);
        put_type(model, c->input_rank[k], c->input_dims[k]);
    }
    text_printf(model, ") -> (%%y) {\n%s  %%y = Identity(%%v%d)\n}\n", c->text.s ? c->text.s : "", c->n);
    text_free(&c->text);
}

/* ---- composing a model ----------------------------------------------------------------------------------------- */

/* A value of the model: a real one, numbered, or a list over real ones. */
typedef struct Known {
    Tensor t;
    int32_t number;
    RegionList list;
} Known;

typedef struct Composer {
    Arena arena;
    Known *values;
    RasterOperand real[64];
    int32_t n_real;
    int64_t composed, declined, most, last;
} Composer;

static int32_t all[64];

static void make_real(Composer *c, Known *v, const Tensor *t) {
    v->t = *t;
    v->number = c->n_real;
    c->real[c->n_real++] = (RasterOperand){t->data, t->offset};
    assert_true(c->n_real < 64);
}

static bool compose_result(Composer *c, const Node *node, const RegionList *list, Known *v) {
    ComposeSource *sources = arena_array(&c->arena, ComposeSource, node->n_operands);
    bool declined;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Known *x = &c->values[node->operands[i].value->id];
        sources[i] = (ComposeSource){.map = &all[x->number < 0 ? 0 : x->number], .fill = REGION_FILL};
        if (x->number >= 0) continue;
        sources[i].made_of = &x->list;
        sources[i].count = tensor_count(&x->t);
    }
    v->number = -1;
    v->list = (RegionList){.arena = &c->arena};
    OK(regions_compose(list, sources, node->n_operands, LIMIT, &v->list, &declined));
    c->composed++;
    c->declined += declined;
    c->most = max_i64(c->most, (int64_t)v->list.len);
    return !declined;
}

static bool compose_node(Composer *c, const Node *node) {
    const Tensor *in[OP_MAX_INPUTS] = {0}, *payload = value_constant(node_result(node, 0));
    if (payload) {
        make_real(c, &c->values[node->results[0]->id], payload);
        return true;
    }
    InferValue facts[OP_MAX_INPUTS], found[OP_MAX_OUTPUTS];
    Tensor out[OP_MAX_OUTPUTS];
    RegionList lists[OP_MAX_OUTPUTS];
    const void *fill[OP_MAX_OUTPUTS] = {0};
    for (uint32_t i = 0; i < node->n_operands; i++) {
        in[i] = &c->values[node->operands[i].value->id].t;
        facts[i] = infer_concrete(in[i], in[i]->data != NULL);
    }
    OK(op_infer(node, NULL, facts, found, NULL));
    for (uint32_t i = 0; i < node->n_results; i++) {
        tensor_set_dense(&out[i], found[i].dtype, found[i].shape.rank, found[i].shape.dims);
        lists[i] = (RegionList){.arena = &c->arena};
    }
    bool declined, ok = true;
    OK(op_regions(node, in, (int)node->n_operands, out, (int)node->n_results, lists, fill, &declined));
    assert_false(declined);
    for (uint32_t i = 0; i < node->n_results; i++) {
        Known *v = &c->values[node->results[i]->id];
        v->t = out[i];
        v->t.data = NULL;
        assert_null(fill[i]);
        ok = compose_result(c, node, &lists[i], v) && ok;
    }
    return ok;
}

static void check_chain(Context *ctx, const char *text, Composer *c) {
    Model *model;
    Tensor in[9], want;
    const Tensor *ins[9];
    if (model_parse(ctx, str_of(text), NULL, (Str){0}, &model) != TN_OK) print_error("%s\n%s\n", diag_text(), text);
    c->n_real = 0;
    c->values = arena_array(&c->arena, Known, model->n_values + 1);
    size_t n_in = model->main->inputs.len;
    OK(infer_model(model));
    for (size_t i = 0; i < n_in; i++) {
        const Value *v = model->main->inputs.data[i];
        OK(tensor_new(ctx, TN_F32, v->type->shape.rank, v->type->shape.dims, &in[i]));
        for (int64_t k = 0; k < tensor_count(&in[i]); k++) ((float *)in[i].data)[k] = (float)(1 + k + 100000 * (int)i);
        ins[i] = &in[i];
        make_real(c, &c->values[v->id], &in[i]);
    }
    OK(eval_graph(ctx, model->main, ins, &want));
    bool ok = true;
    for (const Node *n = model->main->first; ok && n; n = n->next) ok = compose_node(c, n);
    const Known *y = &c->values[graph_output(model->main, 0)->id];
    int64_t count = tensor_count(&want);
    float *got = calloc((size_t)count + 1, sizeof *got);
    if (ok) {
        OK(raster_oracle(&y->list, TN_F32, c->real, got, 0, count, NULL));
        if (memcmp(got, want.data, (size_t)count * sizeof *got) != 0) print_error("wrong values from\n%s\n", text);
        assert_memory_equal(got, want.data, (size_t)count * sizeof *got);
    } else if (getenv("TENON_TEST_VERBOSE")) {
        print_message("declined:\n%s\n", text);
    }
    c->last = (int64_t)y->list.len;
    free(got);
    for (size_t i = 0; i < n_in; i++) tensor_release(&in[i]);
    tensor_release(&want);
    model_free(model);
    arena_reset(&c->arena);
}

static void test_chains(void **state) {
    (void)state;
    static const int lengths[] = {1, 2, 3, 4, 6};
    Context *ctx;
    Composer c = {0};
    for (int i = 0; i < 64; i++) all[i] = i;
    OK(context_new(NULL, NULL, &ctx));
    arena_init(&c.arena, &allocator_default);
    seed = 31;
    for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++) {
        c.composed = c.declined = c.most = 0;
        for (int i = 0; i < CHAINS / 5; i++) {
            Chain chain;
            Text model;
            text_init(&model, &allocator_default);
            random_chain(&chain, &model, lengths[k]);
            OK(model.status);
            check_chain(ctx, model.s, &c);
            text_free(&model);
        }
        print_message("chains of %d: %lld compositions, %lld declined, at most %lld regions\n", lengths[k],
                      (long long)c.composed, (long long)c.declined, (long long)c.most);
        assert_true(c.declined * 200 <= c.composed);
    }
    arena_free(&c.arena);
    context_unref(ctx);
}

/* Patterns of real models, and how few regions they must end in. */
static const struct {
    const char *text;
    int64_t most;
} known[] = {
    /* shuffled channels, split heads, heads put together again */
    {"%v0: f32[1,8,3,5]) -> (%y) { %a = Reshape(%v0, [1,2,4,3,5]) %b = Transpose(%a) {perm=[0,2,1,3,4]}\n"
     " %y = Reshape(%b, [1,8,3,5]) }",
     1},
    {"%v0: f32[2,6,24]) -> (%y) { %a = Reshape(%v0, [2,6,3,2,4]) %b = Transpose(%a) {perm=[2,0,3,1,4]}\n"
     " %c = Slice(%b, [1], [2], [0]) %y = Reshape(%c, [2,2,6,4]) }",
     1},
    {"%v0: f32[2,2,6,4]) -> (%y) { %a = Transpose(%v0) {perm=[0,2,1,3]} %y = Reshape(%a, [12,8]) }", 1},
    /* concatenated, then read flat, turned or parted again */
    {"%v0: f32[4,3,5], %b0: f32[4,4,5]) -> (%y) { %a = Concat(%v0, %b0) {axis=1} %y = Reshape(%a, [140]) }", 2},
    {"%v0: f32[4,3,5], %b0: f32[4,4,5]) -> (%y) { %a = Concat(%v0, %b0) {axis=1}\n"
     " %y = Transpose(%a) {perm=[2,1,0]} }",
     2},
    {"%v0: f32[4,3,5], %b0: f32[4,4,5]) -> (%y) { %a = Concat(%v0, %b0) {axis=1}\n"
     " %p, %q = Split(%a, i64[2] [3, 4]) {axis=1} %y = Identity(%q) }",
     1},
    /* rolled by 3 and cut into windows of 7 */
    {"%v0: f32[1,14,14,2]) -> (%y) { %a = Slice(%v0, [3], [14], [1]) %b = Slice(%v0, [0], [3], [1])\n"
     " %c = Concat(%a, %b) {axis=1} %d = Slice(%c, [3], [14], [2]) %e = Slice(%c, [0], [3], [2])\n"
     " %f = Concat(%d, %e) {axis=2} %g = Reshape(%f, [1,2,7,2,7,2])\n"
     " %h = Transpose(%g) {perm=[0,1,3,2,4,5]} %y = Reshape(%h, [4,49,2]) }",
     9},
    /* padded, and the inside read again */
    {"%v0: f32[2,3,6,5]) -> (%y) { %a = Pad(%v0, [0,0,1,1,0,0,1,1]) %y = Slice(%a, [1,1], [7,6], [2,3]) }", 1},
    {"%v0: f32[1,8,4,4]) -> (%y) { %a = DepthToSpace(%v0) {blocksize=2} %y = SpaceToDepth(%a) {blocksize=2} }", 1},
    {"%v0: f32[3,1,5]) -> (%y) { %a = Expand(%v0, [3,4,5]) %b = Transpose(%a) {perm=[1,0,2]}\n"
     " %y = Reshape(%b, [4,15]) }",
     1},
};

static void test_known(void **state) {
    (void)state;
    Context *ctx;
    Composer c = {0};
    for (int i = 0; i < 64; i++) all[i] = i;
    OK(context_new(NULL, NULL, &ctx));
    arena_init(&c.arena, &allocator_default);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        Text model;
        text_init(&model, &allocator_default);
        text_printf(&model, "tn 1\ngraph @g(%s\n", known[i].text);
        c.declined = 0;
        check_chain(ctx, model.s, &c);
        assert_int_equal(c.declined, 0);
        if (c.last > known[i].most) print_error("%lld regions from\n%s\n", (long long)c.last, model.s);
        assert_true(c.last <= known[i].most);
        text_free(&model);
    }
    arena_free(&c.arena);
    context_unref(ctx);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_chains), cmocka_unit_test(test_known)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
