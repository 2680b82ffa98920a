/* SPDX-License-Identifier: Apache-2.0 */
/* Checks one node against its op's schema. */
#include <stdio.h>

#include "ir/ir_int.h"

static tn_status blamed(const Node *node, tn_status status) {
    node_blame(node);
    return status;
}

static const char *name_of(const Value *value) { return value->name.n ? value->name.s : "a value without a name"; }

/* ---- counts -------------------------------------------------------------------------------------------------- */

typedef struct Arity {
    size_t least, most;
} Arity;

static Arity arity_of(const OperandSpec *(*spec_of)(const OpSchema *, size_t), const OpSchema *op, size_t length) {
    Arity arity = {0, 0};
    for (const OperandSpec *spec; arity.most < length && (spec = spec_of(op, arity.most)); arity.most++) {
        if (!(spec->flags & OPERAND_OPTIONAL)) arity.least = arity.most + 1;
        if (spec->flags & OPERAND_VARIADIC) {
            arity.most = SIZE_MAX;
            break;
        }
    }
    return arity;
}

/* `what` is in the singular. */
static tn_status check_count(const Node *node, const char *what, size_t n, Arity arity) {
    if (n >= arity.least && n <= arity.most) return TN_OK;
    char wanted[64];
    if (arity.most == SIZE_MAX) snprintf(wanted, sizeof wanted, "at least %zu", arity.least);
    else if (arity.least == arity.most) snprintf(wanted, sizeof wanted, "%zu", arity.least);
    else snprintf(wanted, sizeof wanted, "%zu to %zu", arity.least, arity.most);
    return blamed(node, fail(TN_INVALID_MODEL, "the node has %zu %s%s; the op %s %s", n, what, n == 1 ? "" : "s",
                             strcmp(what, "result") == 0 ? "gives" : "takes", wanted));
}

/* ---- types --------------------------------------------------------------------------------------------------- */

static bool type_allowed(const Type *type, TypeSet set) {
    switch (type->kind) {
    case TYPE_TENSOR: return type->dtype == TN_UNDEFINED || (set & TS(type->dtype));
    case TYPE_SEQUENCE: return set & TS_SEQUENCE;
    case TYPE_OPTIONAL: return set & TS_OPTIONAL;
    case TYPE_MAP: return set & TS_MAP;
    }
    return false;
}

static void print_set(TypeSet set, Text *out) {
    const char *before = "";
    if ((set & TS_ALL_TENSOR) == TS_ALL_TENSOR) {
        text_puts(out, "any tensor");
        set &= ~TS_ALL_TENSOR;
        before = ", ";
    }
    for (int bit = 1; bit < 63; bit++) {
        if (!(set >> bit & 1)) continue;
        const char *name = bit == 60 ? "sequences" : bit == 61 ? "optionals" : bit == 62 ? "maps" : dtype_name(bit);
        text_printf(out, "%s%s", before, name);
        before = ", ";
    }
}

/* What is read or made: `operand 1 ("B")`, `result 0 ("C")`. */
typedef struct Place {
    const Node *node;
    const char *what;
    size_t index;
    const OperandSpec *spec;
    const Value *value;
} Place;

static tn_status wrong_type(const Place *place) {
    const Model *model = place->node->graph->model;
    Text found, allowed;
    text_init(&found, &model->ctx->allocator);
    text_init(&allowed, &model->ctx->allocator);
    type_print(model, place->value->type, &found);
    print_set(place->spec->types, &allowed);
    tn_status status = found.status != TN_OK ? found.status : allowed.status;
    if (status == TN_OK)
        status = blamed(place->node,
                        fail(TN_INVALID_MODEL, "%s %zu (\"%s\"), \"%s\", is %s; the op allows %s", place->what,
                             place->index, place->spec->name, name_of(place->value), found.s, allowed.s));
    text_free(&found);
    text_free(&allowed);
    return status;
}

/* The first place of each letter whose element type is known: one for each spec at most. */
typedef struct Groups {
    int n;
    Place first[OP_MAX_IN_SPECS + OP_MAX_OUT_SPECS];
} Groups;

static Place *group_of(Groups *groups, const Place *place) {
    for (int i = 0; i < groups->n; i++)
        if (groups->first[i].spec->group == place->spec->group) return &groups->first[i];
    groups->first[groups->n] = *place;
    return &groups->first[groups->n++];
}

static tn_status check_group(Groups *groups, const Place *place) {
    const Type *type = place->value->type;
    if (!place->spec->group || type->kind != TYPE_TENSOR || type->dtype == TN_UNDEFINED) return TN_OK;
    const Place *first = group_of(groups, place);
    tn_dtype wanted = first->value->type->dtype;
    if (wanted == type->dtype) return TN_OK;
    return blamed(place->node,
                  fail(TN_INVALID_MODEL,
                       "%s %zu (\"%s\"), \"%s\", has elements of type %s; they must be %s "
                       "like those of %s %zu (\"%s\")",
                       place->what, place->index, place->spec->name, name_of(place->value), dtype_name(type->dtype),
                       dtype_name(wanted), first->what, first->index, first->spec->name));
}

static tn_status check_place(Groups *groups, const Place *place) {
    if (!type_allowed(place->value->type, place->spec->types)) return wrong_type(place);
    return check_group(groups, place);
}

/* The spec of operand i, found without a search where the variadic one repeats. */
static tn_status check_operands(const Node *node, Groups *groups) {
    const OperandSpec *spec = NULL;
    for (size_t i = 0; i < node->n_operands; i++) {
        if (!spec || !(spec->flags & OPERAND_VARIADIC)) spec = op_input_spec(node->op, i);
        const Value *value = node->operands[i].value;
        if (value) {
            TRY(check_place(groups, &(Place){node, "operand", i, spec, value}));
        } else if (!(spec->flags & OPERAND_OPTIONAL)) {
            return blamed(node, fail(TN_INVALID_MODEL, "operand %zu (\"%s\") is missing", i, spec->name));
        }
    }
    return TN_OK;
}

static tn_status check_results(const Node *node, Groups *groups) {
    const OperandSpec *spec = NULL;
    for (size_t i = 0; i < node->n_results; i++) {
        if (!spec || !(spec->flags & OPERAND_VARIADIC)) spec = op_output_spec(node->op, i);
        TRY(check_place(groups, &(Place){node, "result", i, spec, node->results[i]}));
    }
    return TN_OK;
}

/* ---- attributes ---------------------------------------------------------------------------------------------- */

static const char *const kind_names[] = {
    [ATTR_INT] = "an integer",
    [ATTR_FLOAT] = "a float",
    [ATTR_STRING] = "a string",
    [ATTR_TENSOR] = "a tensor",
    [ATTR_GRAPH] = "a graph",
    [ATTR_TYPE] = "a type",
    [ATTR_INTS] = "a list of integers",
    [ATTR_FLOATS] = "a list of floats",
    [ATTR_STRINGS] = "a list of strings",
    [ATTR_TENSORS] = "a list of tensors",
    [ATTR_GRAPHS] = "a list of graphs",
    [ATTR_TYPES] = "a list of types",
    [ATTR_INT_LISTS] = "a list of lists of integers",
};

static tn_status unknown_attr(const Node *node, const Attr *attr) {
    const AttrSpec *specs = op_attrs(node->op);
    const char *names[OP_MAX_ATTR_SPECS];
    size_t n = 0;
    for (; n < OP_MAX_ATTR_SPECS && specs[n].name; n++) names[n] = specs[n].name;
    const char *near = nearest_name(attr->name, names, n);
    if (near)
        return blamed(
            node, fail(TN_INVALID_MODEL, "the op has no attribute \"%s\"; did you mean \"%s\"?", attr->name.s, near));
    return blamed(node, fail(TN_INVALID_MODEL, "the op has no attribute \"%s\"", attr->name.s));
}

static tn_status check_attr(const Node *node, const Attr *attr) {
    const AttrSpec *spec = op_attr_spec(node->op, attr->name);
    if (!spec && node->op->flags & OP_ALL_ATTRS) return TN_OK;
    if (!spec) return unknown_attr(node, attr);
    if (spec->kind == attr->kind) return TN_OK;
    return blamed(node, fail(TN_INVALID_MODEL, "attribute \"%s\" is %s; it must be %s", attr->name.s,
                             kind_names[attr->kind], kind_names[spec->kind]));
}

static tn_status check_attrs(const Node *node) {
    for (uint32_t i = 0; i < node->n_attrs; i++) TRY(check_attr(node, &node->attrs[i]));
    const AttrSpec *specs = op_attrs(node->op);
    for (size_t i = 0; specs[i].name; i++)
        if ((specs[i].flags & ATTR_REQUIRED) && !attr_present(node, specs[i].name))
            return blamed(node, fail(TN_INVALID_MODEL, "attribute \"%s\" is missing; it must be %s", specs[i].name,
                                     kind_names[specs[i].kind]));
    return TN_OK;
}

tn_status node_check(const Node *node) {
    const OpSchema *op = node->op;
    TRY(check_count(node, "operand", node->n_operands, arity_of(op_input_spec, op, OP_MAX_IN_SPECS)));
    TRY(check_count(node, "result", node->n_results, arity_of(op_output_spec, op, OP_MAX_OUT_SPECS)));
    Groups groups;
    groups.n = 0;
    TRY(check_operands(node, &groups));
    TRY(check_results(node, &groups));
    return check_attrs(node);
}
