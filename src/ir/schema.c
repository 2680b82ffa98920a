/* SPDX-License-Identifier: Apache-2.0 */
/* What an op's schema says about attributes and operands. */
#include <stdio.h>

#include "ir/ir_int.h"

const OpSchema op_return = {
    .domain = "tn",
    .name = "Return",
    .summary = "The outputs of a graph",
    .kind = OP_HOST,
    .flags = OP_ALL_ATTRS,
    .inputs = OPERANDS({"outputs", TS_ANY, 0, OPERAND_VARIADIC | OPERAND_OPTIONAL}),
};

bool op_is_constant(const OpSchema *op) {
    return op->kind == OP_HOST && op->domain && strcmp(op->name, "Const") == 0 && strcmp(op->domain, "tn") == 0;
}

/* Asked for often, and mostly of others. */
static bool is_name(const char *each, Str name) {
    return name.n > 0 && each[0] == name.s[0] && strncmp(each, name.s, name.n) == 0 && !each[name.n];
}

const AttrSpec *op_attr_spec(const OpSchema *op, Str name) {
    for (const AttrSpec *spec = op_attrs(op); spec->name; spec++)
        if (is_name(spec->name, name)) return spec;
    return NULL;
}

static const OperandSpec *spec_at(const OperandSpec *specs, size_t i) {
    size_t n = 0;
    while (specs[n].name) n++;
    if (i < n) return &specs[i];
    return n > 0 && (specs[n - 1].flags & OPERAND_VARIADIC) ? &specs[n - 1] : NULL;
}

const OperandSpec *op_input_spec(const OpSchema *op, size_t i) { return spec_at(op_inputs(op), i); }
const OperandSpec *op_output_spec(const OpSchema *op, size_t i) { return spec_at(op_outputs(op), i); }

/* Const is part of the language, so it has no prefix. */
static const char *prefix(const OpSchema *op) { return op->domain && !op_is_constant(op) ? op->domain : ""; }

void op_print_name(const OpSchema *op, Text *out) {
    text_puts(out, prefix(op));
    if (*prefix(op)) text_puts(out, ".");
    text_puts(out, op->name);
}

const char *op_full_name(const OpSchema *op, char *buffer, size_t size) {
    snprintf(buffer, size, "%s%s%s", prefix(op), *prefix(op) ? "." : "", op->name);
    return buffer;
}

bool op_is_one_of(const OpSchema *op, const char *const *names, size_t n) {
    for (size_t i = 0; !op->domain && i < n; i++)
        if (strcmp(op->name, names[i]) == 0) return true;
    return false;
}

const OpSchema *op_named(Str name) {
    size_t dot = name.n;
    while (dot > 0 && name.s[dot - 1] != '.') dot--;
    return op_find((Str){name.s, dot ? dot - 1 : 0}, (Str){name.s + dot, name.n - dot});
}

const char *op_hint(Str wrong, OpHint *out) {
    size_t n, least = SIZE_MAX;
    const OpSchema *const *ops = op_table(&n);
    out->text[0] = 0;
    for (size_t i = 0; i < n; i++) {
        char name[128]; /* longer ones are near to nothing */
        size_t distance = name_distance(wrong, str_of(op_full_name(ops[i], name, sizeof name)));
        if (distance >= least) continue;
        least = distance;
        snprintf(out->text, sizeof out->text, "; did you mean \"%s\"?", name);
    }
    return out->text;
}

/* ---- values of attributes, with the schema's defaults ---------------------------------------------------------- */

const Attr *attr_get(const Node *node, const char *name) { return node_attr(node, str_of(name)); }

bool attr_present(const Node *node, const char *name) { return attr_get(node, name) != NULL; }

static const Attr *attr_of_kind(const Node *node, const char *name, AttrKind kind) {
    const Attr *a = attr_get(node, name);
    return a && a->kind == kind ? a : NULL;
}

int64_t attr_int(const Node *node, const char *name) {
    const Attr *a = attr_of_kind(node, name, ATTR_INT);
    if (a) return a->i;
    const AttrSpec *spec = op_attr_spec(node->op, str_of(name));
    return spec ? spec->i : 0;
}

double attr_float(const Node *node, const char *name) {
    const Attr *a = attr_of_kind(node, name, ATTR_FLOAT);
    if (a) return (double)a->f;
    const AttrSpec *spec = op_attr_spec(node->op, str_of(name));
    return spec ? spec->f : 0;
}

Str attr_string(const Node *node, const char *name) {
    const Attr *a = attr_of_kind(node, name, ATTR_STRING);
    if (a) return a->s;
    const AttrSpec *spec = op_attr_spec(node->op, str_of(name));
    return str_of(spec && spec->s ? spec->s : "");
}

bool attr_string_is(const Node *node, const char *name, const char *value) {
    return str_equal(attr_string(node, name), str_of(value));
}

IntList attr_ints(const Node *node, const char *name) {
    const Attr *a = attr_of_kind(node, name, ATTR_INTS);
    return a ? (IntList){a->ints, a->n} : (IntList){NULL, 0};
}

const Tensor *attr_tensor(const Node *node, const char *name) {
    const Attr *a = attr_of_kind(node, name, ATTR_TENSOR);
    return a ? a->tensor : NULL;
}

Graph *attr_graph(const Node *node, const char *name) {
    const Attr *a = attr_of_kind(node, name, ATTR_GRAPH);
    return a ? a->graph : NULL;
}
