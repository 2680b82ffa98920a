/* SPDX-License-Identifier: Apache-2.0 */
/* RandomNormal, RandomNormalLike, RandomUniform, RandomUniformLike, Bernoulli (ONNX 22), and the generator. */
#include "ops/random_int.h"

/* ---- the generator ------------------------------------------------------------------------------------------- */

/* FNV-1a: unlike hash_bytes the same in each process. */
static uint64_t hash_name(Str s) {
    uint64_t h = 0xcbf29ce484222325;
    for (size_t i = 0; i < s.n; i++) h = (h ^ (uint8_t)s.s[i]) * 0x100000001b3;
    return h;
}

Random random_of(const Node *node, tn_dtype result) {
    const Attr *seed = node_attr(node, STR("seed"));
    Str name = node->loc.n || !node->n_results ? node->loc : node->results[0]->name;
    uint64_t key = hash_name(name);
    if (seed && seed->kind == ATTR_FLOAT) {
        uint32_t bits;
        memcpy(&bits, &seed->f, sizeof bits);
        key ^= (uint64_t)bits * 0x9e3779b97f4a7c15;
    } else if (seed) {
        key ^= (uint64_t)seed->i * 0x9e3779b97f4a7c15;
    }
    return (Random){{(uint32_t)key, (uint32_t)(key >> 32)}, result == TN_F64};
}

static void philox(const Random *r, uint64_t block, uint32_t x[4]) {
    uint32_t key[2] = {r->key[0], r->key[1]};
    x[0] = (uint32_t)block, x[1] = (uint32_t)(block >> 32), x[2] = x[3] = 0;
    for (int round = 0; round < 10; round++) {
        uint64_t a = (uint64_t)0xd2511f53 * x[0], b = (uint64_t)0xcd9e8d57 * x[2];
        uint32_t y[4] = {(uint32_t)(b >> 32) ^ x[1] ^ key[0], (uint32_t)b, (uint32_t)(a >> 32) ^ x[3] ^ key[1],
                         (uint32_t)a};
        memcpy(x, y, sizeof y);
        key[0] += 0x9e3779b9, key[1] += 0xbb67ae85;
    }
}

static double to_unit(const Random *r, const uint32_t *words) {
    if (!r->fine) return (double)(words[0] >> 8) * 0x1p-24;
    return (double)(((uint64_t)words[1] << 32 | words[0]) >> 11) * 0x1p-53;
}

double random_uniform(const Random *r, int64_t i) {
    uint32_t words[4];
    philox(r, (uint64_t)i / 2, words);
    return to_unit(r, words + i % 2 * 2);
}

/* Box and Muller: two uniform numbers make two normal ones. */
double random_normal(const Random *r, int64_t i) {
    uint32_t words[4];
    Random fine = {{r->key[0], r->key[1]}, true};
    philox(r, (uint64_t)i / 2, words);
    double radius = sqrt(-2 * log(1 - to_unit(&fine, words)));
    double angle = 2 * 3.14159265358979323846 * to_unit(&fine, words + 2);
    return radius * (i % 2 ? sin(angle) : cos(angle));
}

/* ---- inference ----------------------------------------------------------------------------------------------- */

/* `usual`: the element type where no attribute says one. */
static tn_status set_result(InferCtx *c, const Shape *shape, TypeSet allowed, tn_dtype usual) {
    int64_t dtype = attr_present(c->node, "dtype") ? attr_int(c->node, "dtype") : usual;
    if (dtype == TN_UNDEFINED && !attr_present(c->node, "dtype")) {
        set_shape(c, 0, shape);
        return TN_OK;
    }
    if (dtype < 1 || dtype >= TN_DTYPE_END)
        return fail(TN_INVALID_MODEL, "dtype is %lld, no element type", (long long)dtype);
    if (!(allowed & TS(dtype))) return fail(TN_INVALID_MODEL, "dtype cannot be %s", dtype_name((tn_dtype)dtype));
    set_type(c, 0, (tn_dtype)dtype, shape);
    return TN_OK;
}

static tn_status shaped_infer(InferCtx *c) {
    IntList shape = attr_ints(c->node, "shape");
    Shape y = {.rank = (int)shape.n};
    if (shape.n > TN_MAX_RANK) return fail(TN_LIMIT, "the result would have %zu dimensions", shape.n);
    for (size_t d = 0; d < shape.n; d++) {
        if (shape.data[d] < 0) return fail(TN_OUT_OF_RANGE, "shape has the value %lld", (long long)shape.data[d]);
        y.dims[d] = shape.data[d];
    }
    return set_result(c, &y, TS_FLOAT, TN_F32);
}

static tn_status like_infer(InferCtx *c) { return set_result(c, in_shape(c, 0), TS_FLOAT, in_dtype(c, 0)); }

static tn_status bernoulli_infer(InferCtx *c) {
    return set_result(c, in_shape(c, 0), TS_NUMERIC | TS(TN_BOOL), in_dtype(c, 0));
}

/* ---- kernels ------------------------------------------------------------------------------------------------- */

typedef struct Job {
    Random random;
    bool normal;
    double a, b;     /* mean and deviation, or the range */
    const double *p; /* of Bernoulli, else NULL */
    const Tensor *out;
} Job;

static void draw(void *arg, int64_t begin, int64_t end) {
    const Job *j = arg;
    for (int64_t i = begin; i < end; i++) {
        double v;
        if (j->p) v = random_uniform(&j->random, i) < j->p[i];
        else if (j->normal) v = j->a + j->b * random_normal(&j->random, i);
        else v = j->a + (j->b - j->a) * random_uniform(&j->random, i);
        store_f64(j->out->dtype, j->out->data, j->out->offset + i, 1, &v, 1);
    }
}

static tn_status run_draw(KernelCtx *c, Job job) {
    job.out = &c->out[0];
    job.random = random_of(c->node, job.out->dtype);
    return kernel_parallel(c, tensor_count(job.out), 60, draw, &job);
}

static tn_status normal_reference(KernelCtx *c) {
    return run_draw(c, (Job){.normal = true, .a = attr_float(c->node, "mean"), .b = attr_float(c->node, "scale")});
}

static tn_status uniform_reference(KernelCtx *c) {
    return run_draw(c, (Job){.a = attr_float(c->node, "low"), .b = attr_float(c->node, "high")});
}

static tn_status bernoulli_reference(KernelCtx *c) {
    Job job = {0};
    TRY(dense_f64(c, 0, &job.p));
    return run_draw(c, job);
}

#define NORMAL \
    {"mean", ATTR_FLOAT}, { "scale", ATTR_FLOAT, .f = 1 }
#define UNIFORM \
    {"high", ATTR_FLOAT, .f = 1}, { "low", ATTR_FLOAT }
#define LIKE                                                                                                    \
    .inputs = OPERANDS({"input", TS_ALL_TENSOR}), .outputs = OPERANDS({"output", TS_FLOAT}), .shape_inputs = 1, \
    .infer = like_infer
#define SHAPED .outputs = OPERANDS({"output", TS_FLOAT}), .infer = shaped_infer

const OpSchema op_RandomNormal = {
    .name = "RandomNormal",
    .summary = "Numbers of a normal distribution (ONNX 22)",
    .kind = OP_ATOMIC,
    .flags = OP_RANDOM,
    SHAPED,
    .attrs = ATTRIBUTES({"dtype", ATTR_INT, .i = TN_F32}, NORMAL, {"seed", ATTR_FLOAT},
                        {"shape", ATTR_INTS, ATTR_REQUIRED}),
    .reference = normal_reference,
};

const OpSchema op_RandomNormalLike = {
    .name = "RandomNormalLike",
    .summary = "Numbers of a normal distribution, in a tensor's shape (ONNX 22)",
    .kind = OP_ATOMIC,
    .flags = OP_RANDOM,
    LIKE,
    .attrs = ATTRIBUTES({"dtype", ATTR_INT}, NORMAL, {"seed", ATTR_FLOAT}),
    .reference = normal_reference,
};

const OpSchema op_RandomUniform = {
    .name = "RandomUniform",
    .summary = "Evenly distributed numbers (ONNX 22)",
    .kind = OP_ATOMIC,
    .flags = OP_RANDOM,
    SHAPED,
    .attrs = ATTRIBUTES({"dtype", ATTR_INT, .i = TN_F32}, UNIFORM, {"seed", ATTR_FLOAT},
                        {"shape", ATTR_INTS, ATTR_REQUIRED}),
    .reference = uniform_reference,
};

const OpSchema op_RandomUniformLike = {
    .name = "RandomUniformLike",
    .summary = "Evenly distributed numbers, in a tensor's shape (ONNX 22)",
    .kind = OP_ATOMIC,
    .flags = OP_RANDOM,
    LIKE,
    .attrs = ATTRIBUTES({"dtype", ATTR_INT}, UNIFORM, {"seed", ATTR_FLOAT}),
    .reference = uniform_reference,
};

const OpSchema op_Bernoulli = {
    .name = "Bernoulli",
    .summary = "1 with the probability that the operand says, else 0 (ONNX 22)",
    .kind = OP_ATOMIC,
    .flags = OP_RANDOM,
    .inputs = OPERANDS({"input", TS_FLOAT}),
    .outputs = OPERANDS({"output", TS_NUMERIC | TS(TN_BOOL)}),
    .attrs = ATTRIBUTES({"dtype", ATTR_INT}, {"seed", ATTR_FLOAT}),
    .infer = bernoulli_infer,
    .reference = bernoulli_reference,
};
