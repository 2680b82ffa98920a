/* SPDX-License-Identifier: Apache-2.0 */
/* Ops from outside: their descriptions as schemas, and what their inference may ask. */
#include "session/plugin_int.h"

#define LENGTH(array) (sizeof(array) / sizeof *(array))

/* ---- types --------------------------------------------------------------------------------------------------- */

/* Strings are counted objects of the engine's own. */
#define OUTER_TYPES (TS_ALL_TENSOR & ~TS(TN_STRING))

static TypeSet set_of_word(Str word) {
    static const struct {
        Str word;
        TypeSet set;
    } classes[] = {
        {STR("float"), TS_FLOAT}, {STR("int"), TS_INT}, {STR("numeric"), TS_NUMERIC}, {STR("any"), OUTER_TYPES}};
    for (size_t i = 0; i < LENGTH(classes); i++)
        if (str_equal(word, classes[i].word)) return classes[i].set;
    return TS(dtype_from_name(word.s, word.n)) & OUTER_TYPES;
}

static bool is_group(Str word) { return word.n == 1 && word.s[0] >= 'A' && word.s[0] <= 'Z'; }

/* "f32|f64|T". */
static tn_status read_types(const char *text, const char *operand, OperandSpec *out) {
    for (const char *at = text ? text : "any"; *at;) {
        Str word = {at, strcspn(at, "|")};
        at += word.n + (at[word.n] == '|');
        while (word.n && word.s[0] == ' ') word.s++, word.n--;
        while (word.n && word.s[word.n - 1] == ' ') word.n--;
        if (is_group(word) && !out->group) {
            out->group = word.s[0];
            continue;
        }
        TypeSet set = set_of_word(word);
        if (!set)
            return fail(TN_INVALID_ARGUMENT,
                        "\"%.*s\" of \"%s\" is no element type or class of them, nor its one group", (int)word.n,
                        word.s, operand);
        out->types |= set;
    }
    return TN_OK;
}

/* A group by itself takes the types of the first that has both. */
static tn_status complete_types(const OperandSpec *inputs, OperandSpec *spec) {
    for (; inputs->name && !spec->types; inputs++)
        if (inputs->group == spec->group) spec->types = inputs->types;
    if (spec->types) return TN_OK;
    return fail(TN_INVALID_ARGUMENT, "\"%s\" has the group %c and no types, and no operand has both", spec->name,
                spec->group);
}

/* ---- operands, attributes ------------------------------------------------------------------------------------ */

static tn_status read_operands(Arena *arena, const tn_operand_desc *from, size_t max, OperandSpec *to) {
    for (size_t i = 0; i < max && from[i].name; i++) {
        if (!plugin_is_word(from[i].name, ""))
            return fail(TN_INVALID_ARGUMENT, "\"%s\" is no name for an operand", from[i].name);
        if (from[i].variadic && i + 1 < max && from[i + 1].name)
            return fail(TN_INVALID_ARGUMENT, "\"%s\" is variadic, but not the last", from[i].name);
        to[i].name = plugin_copy(arena, from[i].name);
        if (!to[i].name) return TN_OUT_OF_MEMORY;
        to[i].flags = (uint8_t)((from[i].optional ? OPERAND_OPTIONAL : 0) | (from[i].variadic ? OPERAND_VARIADIC : 0));
        TRY(read_types(from[i].types, from[i].name, &to[i]));
    }
    return TN_OK;
}

static bool is_outer_kind(tn_attr_kind kind) {
    return kind == TN_ATTR_INT || kind == TN_ATTR_FLOAT || kind == TN_ATTR_STRING || kind == TN_ATTR_TENSOR ||
           kind == TN_ATTR_INTS || kind == TN_ATTR_FLOATS || kind == TN_ATTR_STRINGS;
}

static tn_status read_attrs(Arena *arena, const tn_attr_desc *from, size_t max, AttrSpec *to) {
    for (size_t i = 0; i < max && from[i].name; i++) {
        const tn_attr_desc *a = &from[i];
        if (!plugin_is_word(a->name, ""))
            return fail(TN_INVALID_ARGUMENT, "\"%s\" is no name for an attribute", a->name);
        for (size_t k = 0; k < i; k++)
            if (strcmp(from[k].name, a->name) == 0)
                return fail(TN_INVALID_ARGUMENT, "the attribute \"%s\" is there twice", a->name);
        if (!is_outer_kind(a->kind))
            return fail(TN_INVALID_ARGUMENT,
                        "the attribute \"%s\" is neither a number, a text, a tensor nor a list of "
                        "numbers or texts",
                        a->name);
        to[i] = (AttrSpec){.name = plugin_copy(arena, a->name),
                           .kind = (AttrKind)a->kind,
                           .flags = a->required ? ATTR_REQUIRED : 0,
                           .i = a->i,
                           .f = a->f,
                           .s = plugin_copy(arena, a->s)};
        if (!to[i].name || (a->s && !to[i].s)) return TN_OUT_OF_MEMORY;
    }
    return TN_OK;
}

/* ---- the schema ---------------------------------------------------------------------------------------------- */

typedef struct OuterOp {
    OpSchema schema; /* first: the op of a node is an OuterOp */
    tn_status (*infer)(tn_infer *infer);
    tn_status (*run)(tn_call *call);
    unsigned flags;
} OuterOp;

static const OuterOp *outer_op(const Node *node) { return (const OuterOp *)node->op; }

static tn_status infer_outer(InferCtx *c) {
    diag_clear();
    return plugin_answer(outer_op(c->node)->infer((tn_infer *)c), "op", c->node->op->name);
}

static tn_status run_outer(KernelCtx *c) {
    const OuterOp *op = outer_op(c->node);
    return plugin_run(c, op->run, op->flags & TN_OP_STRIDED, op->flags & TN_OP_DYNAMIC, "op", op->schema.name);
}

static tn_status check(const tn_op_desc *d) {
    const unsigned flags = TN_OP_COMMUTATIVE | TN_OP_ELEMENTWISE | TN_OP_RANDOM | TN_OP_DYNAMIC | TN_OP_STRIDED;
    if (!plugin_is_word(d->name, ""))
        return fail(TN_INVALID_ARGUMENT, "\"%s\" is no name for an op", d->name ? d->name : "");
    if (!plugin_is_word(d->domain, "."))
        return fail(TN_INVALID_ARGUMENT, "op \"%s\" needs a domain of its own, such as \"com.example\"", d->name);
    if (strcmp(d->domain, "ai.onnx") == 0 || strcmp(d->domain, "tn") == 0)
        return fail(TN_INVALID_ARGUMENT, "op \"%s\" cannot be in the domain \"%s\": what stands there is the engine's",
                    d->name, d->domain);
    if (d->flags & ~flags) return fail(TN_INVALID_ARGUMENT, "op \"%s\" has flags that there are not", d->name);
    if (!d->run)
        return fail(TN_INVALID_ARGUMENT, "op \"%s\" has no function `run`, which computes it where no kernel does",
                    d->name);
    if (!d->outputs[0].name) return fail(TN_INVALID_ARGUMENT, "op \"%s\" has no results", d->name);
    return TN_OK;
}

static uint32_t inner_flags(unsigned flags) {
    return (flags & TN_OP_COMMUTATIVE ? OP_COMMUTATIVE : 0) | (flags & TN_OP_ELEMENTWISE ? OP_ELEMENTWISE : 0) |
           (flags & TN_OP_RANDOM ? OP_RANDOM : 0) | (flags & TN_OP_DYNAMIC ? OP_DYNAMIC_OUT : 0);
}

static tn_status read_lists(Arena *arena, const tn_op_desc *d, OpSchema *op) {
    OperandSpec *inputs = arena_array(arena, OperandSpec, LENGTH(d->inputs) + 1);
    OperandSpec *outputs = arena_array(arena, OperandSpec, LENGTH(d->outputs) + 1);
    AttrSpec *attrs = arena_array(arena, AttrSpec, LENGTH(d->attrs) + 1);
    if (!inputs || !outputs || !attrs) return TN_OUT_OF_MEMORY;
    TRY(read_operands(arena, d->inputs, LENGTH(d->inputs), inputs));
    TRY(read_operands(arena, d->outputs, LENGTH(d->outputs), outputs));
    for (size_t i = 0; inputs[i].name; i++) TRY(complete_types(inputs, &inputs[i]));
    for (size_t i = 0; outputs[i].name; i++) TRY(complete_types(inputs, &outputs[i]));
    op->inputs = inputs;
    op->outputs = outputs;
    op->attrs = attrs;
    return read_attrs(arena, d->attrs, LENGTH(d->attrs), attrs);
}

tn_status plugin_make_op(Arena *arena, const tn_op_desc *desc, const OpSchema **out) {
    tn_op_desc d;
    TRY(plugin_read(&d, sizeof d, desc, desc->size, "op"));
    TRY(check(&d));
    OuterOp *op = arena_new(arena, OuterOp);
    if (!op) return TN_OUT_OF_MEMORY;
    *op = (OuterOp){.schema = {.domain = plugin_copy(arena, d.domain),
                               .name = plugin_copy(arena, d.name),
                               .summary = plugin_copy(arena, d.summary ? d.summary : ""),
                               .kind = OP_ATOMIC,
                               .flags = inner_flags(d.flags),
                               .content_inputs = d.content_inputs,
                               .infer = d.infer ? infer_outer : NULL,
                               .reference = run_outer},
                    .infer = d.infer,
                    .run = d.run,
                    .flags = d.flags};
    if (!op->schema.domain || !op->schema.name || !op->schema.summary) return TN_OUT_OF_MEMORY;
    tn_status status = read_lists(arena, &d, &op->schema);
    if (status != TN_OK) diag_set_node("", op->schema.name);
    *out = &op->schema;
    return status;
}

/* ---- inference ----------------------------------------------------------------------------------------------- */

static const InferCtx *ctx_of(const tn_infer *infer) { return (const InferCtx *)infer; }

/* NULL where there is none. */
static const InferValue *input_of(const tn_infer *infer, size_t i) {
    const InferCtx *c = ctx_of(infer);
    return i < (size_t)c->n_in && c->in[i].present ? &c->in[i] : NULL;
}

const tn_node *tn_infer_node(const tn_infer *infer) { return (const tn_node *)ctx_of(infer)->node; }
size_t tn_infer_n_inputs(const tn_infer *infer) { return (size_t)ctx_of(infer)->n_in; }
size_t tn_infer_n_outputs(const tn_infer *infer) { return (size_t)ctx_of(infer)->n_out; }
bool tn_infer_has_input(const tn_infer *infer, size_t i) { return input_of(infer, i) != NULL; }

tn_dtype tn_infer_input_dtype(const tn_infer *infer, size_t i) {
    const InferValue *v = input_of(infer, i);
    return v ? v->dtype : TN_UNDEFINED;
}

int tn_infer_input_rank(const tn_infer *infer, size_t i) {
    const InferValue *v = input_of(infer, i);
    return v ? v->shape.rank : -1;
}

/* An expression is handed out as the number that it is here: callers see a negative one. */
int64_t tn_infer_input_dim(const tn_infer *infer, size_t i, int axis) {
    const InferValue *v = input_of(infer, i);
    int rank = v ? v->shape.rank : -1;
    if (axis < 0) axis += rank;
    if (axis < 0 || axis >= rank || v->shape.dims[axis] == DIM_UNKNOWN) return -1;
    return v->shape.dims[axis];
}

bool tn_infer_input_ints(const tn_infer *infer, size_t i, int64_t *values, size_t max, size_t *n) {
    int count;
    if (!input_of(infer, i) ||
        !in_ints(ctx_of(infer), (int)i, values, (int)(max < CONTENT_MAX ? max : CONTENT_MAX), &count))
        return false;
    *n = (size_t)count;
    return true;
}

static Dim inner_dim(const InferCtx *c, int64_t d) {
    if (d >= 0) return d;
    return c->dims && !dim_is_const(d) && d != DIM_UNKNOWN && dim_expr(c->dims, d) ? d : DIM_UNKNOWN;
}

tn_status tn_infer_set_output(tn_infer *infer, size_t i, tn_dtype dtype, int rank, const int64_t *dims) {
    InferCtx *c = (InferCtx *)infer;
    if (i >= (size_t)c->n_out) return TN_OK; /* an optional one that the node has not */
    if (rank > TN_MAX_RANK) return fail(TN_LIMIT, "a result would have %d dimensions, more than %d", rank, TN_MAX_RANK);
    if (rank > 0 && !dims) return fail(TN_INVALID_ARGUMENT, "dims is NULL");
    Shape shape = {.rank = rank < 0 ? -1 : rank};
    for (int k = 0; k < rank; k++) shape.dims[k] = inner_dim(c, dims[k]);
    if (dtype) set_dtype(c, (int)i, dtype);
    set_shape(c, (int)i, &shape);
    return TN_OK;
}

tn_status tn_infer_set_like(tn_infer *infer, size_t i, size_t k) {
    InferCtx *c = (InferCtx *)infer;
    if (!input_of(infer, k)) return fail(TN_INVALID_ARGUMENT, "there is no operand %zu", k);
    if (i < (size_t)c->n_out) set_like(c, (int)i, (int)k);
    return TN_OK;
}

tn_status tn_infer_set_broadcast(tn_infer *infer, size_t i) {
    InferCtx *c = (InferCtx *)infer;
    Shape shape = {.rank = 0};
    for (int k = 0; k < c->n_in; k++)
        if (has_input(c, k)) TRY(broadcast_shapes(c->dims, &shape, in_shape(c, k), &shape));
    set_shape(c, (int)i, &shape);
    return TN_OK;
}
