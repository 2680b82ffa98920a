/* SPDX-License-Identifier: Apache-2.0 */
/* Types and dimensions from text. */
#include "ir/text_int.h"

#include <inttypes.h>

/* ---- dimensions ---------------------------------------------------------------------------------------------- */

/* What waits on the stack of operators: a DimOp, or an opening bracket. A function's bracket holds its DimOp too, and
   whether its comma was seen. */
enum { OPEN = 0x100, OPEN_FUNCTION = 0x200, PAST_COMMA = 0x400 };
enum { MAX_DIM_OPERATORS = 4096 };

static bool is_open(int op) { return (op & (OPEN | OPEN_FUNCTION)) != 0; }

static int binary_op(int token) {
    switch (token) {
    case '+': return DIM_ADD;
    case '-': return DIM_SUB;
    case '*': return DIM_MUL;
    case '/': return DIM_FLOORDIV;
    default: return -1;
    }
}

static int precedence(int op) { return op == DIM_MUL || op == DIM_FLOORDIV ? 2 : 1; }

static int function_op(Str name) {
    if (str_equal(name, STR("ceildiv"))) return DIM_CEILDIV;
    if (str_equal(name, STR("mod"))) return DIM_MOD;
    if (str_equal(name, STR("min"))) return DIM_MIN;
    return str_equal(name, STR("max")) ? DIM_MAX : -1;
}

static void apply(Parser *p, int op) {
    Dim b = p->dims.data[--p->dims.len], a = p->dims.data[p->dims.len - 1];
    p->dims.data[p->dims.len - 1] = dim_make(&p->model->dims, (DimOp)op, a, b);
}

/* Carries out operators that bind at least as tightly, up to the nearest open bracket. */
static void apply_down_to(Parser *p, int least) {
    while (p->dim_ops.len > 0) {
        int op = p->dim_ops.data[p->dim_ops.len - 1];
        if (is_open(op) || precedence(op) < least) return;
        p->dim_ops.len--;
        apply(p, op);
    }
}

static tn_status push_op(Parser *p, int op) { return vec_push(p->allocator, &p->dim_ops, op); }

static tn_status push_name(Parser *p) {
    Str name;
    TRY(token_text(p, &name));
    Dim symbol = dim_symbol(&p->model->dims, name);
    if (symbol == DIM_UNKNOWN) return TN_OUT_OF_MEMORY;
    return vec_push(p->allocator, &p->dims, symbol);
}

/* One operand, or a bracket that opens. *more: an operand is still to come. */
static tn_status parse_dim_operand(Parser *p, bool *more) {
    int64_t number;
    *more = false;
    if (p->token.kind == TOKEN_INT || p->token.kind == '-') {
        size_t at = p->token.at;
        TRY(parse_int(p, &number));
        if (!dim_is_const(number)) return parse_fail(p, at, "this number is out of range for a dimension");
        return vec_push(p->allocator, &p->dims, number);
    }
    if (accept(p, '?')) return vec_push(p->allocator, &p->dims, DIM_UNKNOWN);
    if (accept(p, '(')) {
        *more = true;
        return push_op(p, OPEN);
    }
    if (p->token.kind != TOKEN_NAME && p->token.kind != TOKEN_STRING) return parse_expected(p, "a dimension");
    int function = p->token.kind == TOKEN_NAME ? function_op(p->token.text) : -1;
    if (function >= 0 && lex(p->source, p->token.end).kind == '(') {
        advance(p);
        advance(p);
        *more = true;
        return push_op(p, OPEN_FUNCTION | function);
    }
    TRY(push_name(p));
    advance(p);
    return TN_OK;
}

/* `)`, or the comma of a function, whose bracket is on top of the stack. *more: an operand is still to come. */
static tn_status parse_dim_bracket(Parser *p, bool *more) {
    int *open = &p->dim_ops.data[p->dim_ops.len - 1];
    bool wants_comma = (*open & OPEN_FUNCTION) && !(*open & PAST_COMMA);
    *more = wants_comma;
    if (wants_comma) {
        TRY(expect(p, ',', "`,` and the second of two dimensions"));
        *open |= PAST_COMMA;
        return TN_OK;
    }
    TRY(expect(p, ')', "`)`"));
    if (*open & OPEN_FUNCTION) apply(p, *open & 0xff);
    p->dim_ops.len--;
    return TN_OK;
}

/* Behind an operand: closes brackets up to the next operator or the comma of a function. *more: an operand follows. */
static tn_status parse_dim_operator(Parser *p, bool *more) {
    int op;
    *more = false;
    while ((op = binary_op(p->token.kind)) < 0) {
        apply_down_to(p, 0);
        if (p->dim_ops.len == 0) return TN_OK;
        TRY(parse_dim_bracket(p, more));
        if (*more) return TN_OK;
    }
    *more = true;
    advance(p);
    apply_down_to(p, precedence(op));
    return push_op(p, op);
}

/* Operators by precedence with a stack of our own: brackets may nest as they like. */
static tn_status parse_dim(Parser *p, Dim *out) {
    size_t at = p->token.at;
    bool more;
    p->dims.len = p->dim_ops.len = 0;
    *out = DIM_UNKNOWN;
    for (size_t operators = 0;; operators++) {
        do TRY(parse_dim_operand(p, &more));
        while (more);
        if (p->dim_ops.len + operators > MAX_DIM_OPERATORS) return parse_fail(p, at, "this dimension is too long");
        TRY(parse_dim_operator(p, &more));
        if (!more) break;
    }
    *out = p->dims.data[0];
    return TN_OK;
}

/* ---- element type and shape ---------------------------------------------------------------------------------- */

/* Behind `[`. */
static tn_status parse_dims(Parser *p, Shape *shape) {
    shape->rank = 0;
    if (accept(p, '*')) {
        shape->rank = -1;
        return expect(p, ']', "`]`");
    }
    while (!accept(p, ']')) {
        Dim dim;
        size_t at = p->token.at;
        TRY(parse_dim(p, &dim));
        if (shape->rank == TN_MAX_RANK) return parse_fail(p, at, "more than %d dimensions", TN_MAX_RANK);
        if (dim_is_const(dim) && dim < 0) return parse_fail(p, at, "a size cannot be %" PRId64, dim);
        shape->dims[shape->rank++] = dim;
        if (p->token.kind != ']') TRY(expect(p, ',', "`,` or `]`"));
    }
    return TN_OK;
}

tn_status parse_dtype_and_dims(Parser *p, tn_dtype *dtype, Shape *shape, bool *bare) {
    *dtype = TN_UNDEFINED;
    *bare = false;
    *shape = shape_unknown();
    if (p->token.kind != '?') {
        Str name = p->token.text;
        if (p->token.kind == TOKEN_NAME) *dtype = dtype_from_name(name.s, name.n);
        if (*dtype == TN_UNDEFINED) return parse_expected(p, "a type, such as f32[2,3]");
    }
    advance(p);
    *bare = p->token.kind != '[';
    if (*bare) return TN_OK;
    advance(p);
    return parse_dims(p, shape);
}

/* ---- layout, quantisation ------------------------------------------------------------------------------------ */

/* Behind `@[`. */
static tn_status parse_layout(Parser *p, size_t at, const Shape *shape, Layout *layout) {
    unsigned seen = 0;
    *layout = (Layout){.block_axis = -1};
    while (p->token.kind != ']' && p->token.kind != ';') {
        int64_t axis;
        TRY(parse_int(p, &axis));
        if (axis < 0 || axis >= shape->rank || (seen >> axis & 1))
            return parse_fail(p, at, "a layout names each dimension once");
        seen |= 1u << axis;
        layout->perm[layout->rank++] = (int8_t)axis;
        if (p->token.kind != ']' && p->token.kind != ';') TRY(expect(p, ',', "`,`, `;` or `]`"));
    }
    if (layout->rank != shape->rank) return parse_fail(p, at, "a layout names each dimension once");
    if (accept(p, ';')) {
        int64_t axis;
        TRY(parse_int(p, &axis));
        TRY(expect(p, ':', "`:` and the size of the block"));
        TRY(parse_int(p, &layout->block));
        if (axis < 0 || axis >= shape->rank || layout->block < 1)
            return parse_fail(p, at, "a layout's block is a dimension and a positive size");
        layout->block_axis = (int32_t)axis;
    }
    return expect(p, ']', "`]`");
}

static tn_status parse_scales(Parser *p) {
    while (!accept(p, ']')) {
        float scale;
        TRY(parse_float(p, &scale));
        TRY(vec_push(p->allocator, &p->floats, scale));
        if (p->token.kind != ']') TRY(expect(p, ',', "`,` or `]`"));
    }
    return TN_OK;
}

static tn_status parse_zeros(Parser *p) {
    while (!accept(p, ']')) {
        int64_t zero;
        TRY(parse_int(p, &zero));
        TRY(vec_push(p->allocator, &p->ints, zero));
        if (p->token.kind != ']') TRY(expect(p, ',', "`,` or `]`"));
    }
    return TN_OK;
}

/* Scales are gathered in p->floats, zero points in p->ints. */
static tn_status parse_quant_field(Parser *p, Quant *quant, bool *has_zeros) {
    static const char *const names[] = {"scale", "zero", "axis", "block"};
    size_t at = p->token.at, field = 0;
    int64_t number;
    while (field < 4 && !accept_word(p, names[field])) field++;
    if (field == 4) return parse_expected(p, "scale, zero, axis or block");
    TRY(expect(p, '=', "`=`"));
    if (field < 2) {
        TRY(expect(p, '[', "`[`"));
        *has_zeros |= field == 1;
        return field == 0 ? parse_scales(p) : parse_zeros(p);
    }
    TRY(parse_int(p, &number));
    if (number < 0 || (field == 2 && number >= TN_MAX_RANK))
        return parse_fail(p, at, "%s is out of range", names[field]);
    if (field == 2) quant->axis = (int32_t)number;
    else quant->block = number;
    return TN_OK;
}

/* Behind `quant`. */
static tn_status parse_quant(Parser *p, size_t at, const Shape *shape, Quant *quant) {
    bool has_zeros = false;
    *quant = (Quant){.axis = -1};
    p->floats.len = p->ints.len = 0;
    TRY(expect(p, '(', "`(`"));
    while (!accept(p, ')')) {
        TRY(parse_quant_field(p, quant, &has_zeros));
        if (p->token.kind != ')') TRY(expect(p, ',', "`,` or `)`"));
    }
    quant->n = p->floats.len;
    for (size_t i = 0; !has_zeros && i < quant->n; i++) TRY(vec_push(p->allocator, &p->ints, 0));
    if (quant->n == 0) return parse_fail(p, at, "a quantisation needs scale=[...]");
    if (p->ints.len != quant->n) return parse_fail(p, at, "%zu scales but %zu zero points", quant->n, p->ints.len);
    if (quant->axis >= 0 && shape->rank >= 0 && quant->axis >= shape->rank)
        return parse_fail(p, at, "there is no dimension %d to quantise along", (int)quant->axis);
    quant->scales = p->floats.data;
    quant->zeros = p->ints.data;
    return TN_OK;
}

/* ---- types --------------------------------------------------------------------------------------------------- */

static tn_status parse_tensor_type(Parser *p, const Type **out) {
    Type type = {.kind = TYPE_TENSOR};
    Layout layout;
    Quant quant;
    bool bare;
    size_t at = p->token.at;
    TRY(parse_dtype_and_dims(p, &type.dtype, &type.shape, &bare));
    if (bare && type.dtype != TN_UNDEFINED) return parse_expected(p, "`[` and the shape (`[]` scalar, `[*]` any rank)");
    if (bare) {
        *out = p->model->type_any;
        return TN_OK;
    }
    if (p->token.kind == '@') {
        size_t layout_at = p->token.at;
        advance(p);
        TRY(expect(p, '[', "`[` and the layout"));
        TRY(parse_layout(p, layout_at, &type.shape, &layout));
        type.layout = &layout;
    }
    if (accept_word(p, "quant")) {
        TRY(parse_quant(p, at, &type.shape, &quant));
        type.quant = &quant;
    }
    *out = type_intern(p->model, &type);
    return *out ? TN_OK : TN_OUT_OF_MEMORY;
}

typedef struct Wrapper {
    TypeKind kind;
    tn_dtype key;
} Wrapper;
enum { MAX_WRAPPERS = 64 };

static bool accept_wrapper(Parser *p, Wrapper *wrapper) {
    *wrapper = (Wrapper){TYPE_TENSOR, TN_UNDEFINED};
    if (accept_word(p, "seq")) wrapper->kind = TYPE_SEQUENCE;
    else if (accept_word(p, "opt")) wrapper->kind = TYPE_OPTIONAL;
    else if (accept_word(p, "map")) wrapper->kind = TYPE_MAP;
    return wrapper->kind != TYPE_TENSOR;
}

static tn_status parse_key_type(Parser *p, Wrapper *wrapper) {
    if (p->token.kind == TOKEN_NAME) wrapper->key = dtype_from_name(p->token.text.s, p->token.text.n);
    if (wrapper->key == TN_UNDEFINED) return parse_expected(p, "the keys' element type");
    advance(p);
    return expect(p, ',', "`,`");
}

tn_status parse_type(Parser *p, const Type **out) {
    Wrapper wrappers[MAX_WRAPPERS];
    size_t n = 0;
    while (accept_wrapper(p, &wrappers[n])) {
        TRY(expect(p, '(', "`(`"));
        if (wrappers[n].kind == TYPE_MAP) TRY(parse_key_type(p, &wrappers[n]));
        if (++n == MAX_WRAPPERS) return parse_fail(p, p->token.at, "this type is nested too deeply");
    }
    TRY(parse_tensor_type(p, out));
    while (n-- > 0) {
        Type type = {.kind = wrappers[n].kind, .dtype = wrappers[n].key, .elem = *out, .shape = shape_unknown()};
        TRY(expect(p, ')', "`)`"));
        *out = type.kind == TYPE_MAP ? type_intern(p->model, &type) : type_of_kind(p->model, type.kind, *out);
        if (!*out) return TN_OUT_OF_MEMORY;
    }
    return TN_OK;
}
