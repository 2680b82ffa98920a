/* SPDX-License-Identifier: Apache-2.0 */
/* The other side of a match: nodes are made before the first that they replace, with types at once. */
#include "rewrite/rewrite_int.h"

typedef struct Builder {
    const Match *m;
    Built *out;
    Graph *graph;
    Node *place; /* new nodes stand before it */
    bool ok;
} Builder;

static Node *root_of(const Match *m) { return m->nodes[m->rule->n_match - 1]; }

static bool is_among(const Node *node, Node *const *nodes, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (nodes[i] == node) return true;
    return false;
}

static bool reads(const Match *m, const RuleOperand *o, const Node *node) {
    if (o->written || (o->kind != OPERAND_VALUE && o->kind != OPERAND_ELSE && o->kind != OPERAND_REST)) return false;
    if (o->kind != OPERAND_REST) return m->values[o->value] && m->values[o->value]->def == node;
    const Node *all = m->rest_node[o->value];
    for (uint32_t i = m->rest_from[o->value]; i < all->n_operands; i++)
        if (all->operands[i].value && all->operands[i].value->def == node) return true;
    return false;
}

/* Whether the other side reads it, or a node that stays does. */
static bool is_kept(const Match *m, const Node *node, Node *const *dying, size_t n) {
    for (size_t k = 0; k < m->rule->n_write; k++)
        for (size_t i = 0; i < m->rule->write[k].n_operands; i++)
            if (reads(m, &m->rule->write[k].operands[i], node)) return true;
    for (uint32_t i = 0; i < node->n_results; i++)
        for (const Use *u = node->results[i]->uses; u; u = u->next)
            for (size_t k = 0; k < m->rule->n_match; k++)
                if (m->nodes[k] == u->user && !is_among(u->user, dying, n)) return true;
    return false;
}

/* Of the matched nodes those that read for the match only and go with it. */
static size_t find_gone(const Match *m, Node **gone) {
    size_t n = match_dying(m, gone);
    for (size_t i = 0; i < n;) {
        if (!is_kept(m, gone[i], gone, n)) {
            i++;
            continue;
        }
        gone[i] = gone[--n];
        i = 0;
    }
    return n;
}

static Node *node_around(Node *node, const Graph *graph) {
    while (node && node->graph != graph) node = node->graph ? node->graph->owner : NULL;
    return node;
}

/* The first reader of what is replaced, or the root: what is new stands before all its readers, as late as that allows. */
static Node *find_place(const Match *m) {
    const Rule *r = m->rule;
    Node *root = root_of(m), *first = root, *gone[RULE_NODES];
    size_t n = m->unordered ? 0 : find_gone(m, gone);
    for (size_t i = 0; !m->unordered && i < r->n_values; i++) {
        if (r->replaced[i] < 0) continue;
        for (const Use *u = m->values[i]->uses; u; u = u->next) {
            Node *reader = node_around(u->user, root->graph);
            if (!reader || reader == root || reader == root->graph->ret || is_among(reader, gone, n)) continue;
            if (node_comes_before(reader, first)) first = reader;
        }
    }
    return first;
}

/* What is read must be there by then; constants can be. */
static bool reach(Builder *b, const Value *v) {
    if (!v || b->m->unordered || !v->def || v->def->graph != b->graph || node_comes_before(v->def, b->place))
        return true;
    if (!value_payload(v)) return false;
    node_move_before(v->def, b->place);
    return true;
}

static tn_status add_node(Builder *b, Node *node) {
    if (b->out->n == sizeof b->out->nodes / sizeof *b->out->nodes)
        return fail(TN_LIMIT, "the right side of rule %s has too many nodes", b->m->rule->name.s);
    node_insert_before(node, b->place);
    b->out->nodes[b->out->n++] = node;
    return TN_OK;
}

/* ---- constants ----------------------------------------------------------------------------------------------- */

static tn_dtype single_type(TypeSet types) {
    return types && !(types & (types - 1)) && types < TS(TN_DTYPE_END) ? (tn_dtype)__builtin_ctzll(types)
                                                                       : TN_UNDEFINED;
}

/* The element type that a number takes where it stands: that of the operands of its group, the only one that fits, the
   one that it was read with, or the result's. */
static tn_dtype type_for(const Builder *b, const OpSchema *op, size_t i, Value *const *operands, size_t n,
                         const Val *v) {
    const OperandSpec *spec = op_input_spec(op, i);
    bool list = v->kind == V_INTS || v->kind == V_FLOATS;
    if (spec && spec->group)
        for (size_t k = 0; k < n; k++) {
            const OperandSpec *other = op_input_spec(op, k);
            if (k != i && operands[k] && other && other->group == spec->group && operands[k]->type->dtype)
                return operands[k]->type->dtype;
        }
    if (spec && single_type(spec->types)) return single_type(spec->types);
    if (v->dtype && spec && spec->types & TS(v->dtype)) return v->dtype;
    if (list && v->kind == V_INTS && spec && spec->types & TS(TN_I64)) return TN_I64;
    tn_dtype result = root_of(b->m)->results[0]->type->dtype;
    return result && spec && spec->types & TS(result) ? result : TN_F32;
}

static void fill(Tensor *t, const Val *v) {
    int64_t n = tensor_count(t);
    bool ints = v->kind == V_INTS || v->kind == V_INT || v->kind == V_BOOL;
    bool whole = !dtype_is_float(t->dtype) && !dtype_is_complex(t->dtype);
    for (int64_t i = 0; i < n; i++) {
        int64_t whole_part = v->kind == V_INTS ? v->ints[i] : v->i;
        double real = v->kind == V_FLOATS ? v->floats[i] : v->kind == V_FLOAT ? v->f : (double)whole_part;
        if (!ints) whole_part = (int64_t)real;
        if (whole) store_i64(t->dtype, t->data, i, 1, &whole_part, 1);
        else store_f64(t->dtype, t->data, i, 1, &real, 1);
    }
}

static tn_status make_constant(Builder *b, const Val *v, tn_dtype dtype, Value **out) {
    bool list = v->kind == V_INTS || v->kind == V_FLOATS;
    int64_t n = list ? (int64_t)v->n : 1;
    Tensor *payload;
    Node *node;
    if (v->kind != V_INT && v->kind != V_FLOAT && v->kind != V_BOOL && !list) {
        b->ok = false; /* unknown for this model */
        return TN_OK;
    }
    for (int64_t i = 0; v->kind == V_INTS && i < n; i++) b->ok &= dim_is_const(v->ints[i]);
    b->ok &= v->kind != V_INT || dim_is_const(v->i);
    b->ok &= dtype != TN_STRING; /* there are no numbers of that type */
    if (!b->ok) return TN_OK;
    Model *model = b->graph->model;
    TRY(model_tensor(model, &payload));
    TRY(tensor_new(model->ctx, dtype, list ? 1 : 0, &n, payload));
    fill(payload, v);
    TRY(const_new(b->graph, payload, STR(""), &node));
    *out = node->results[0];
    return add_node(b, node);
}

/* ---- operands ------------------------------------------------------------------------------------------------ */

typedef struct Operands {
    Value *values[OP_MAX_INPUTS];
    const Expr *exprs[OP_MAX_INPUTS]; /* constants, made once the element types of the others are known */
    size_t n;
} Operands;

/* More operands than an op may have: it cannot be written here. */
static void push(Builder *b, Operands *list, Value *value, const Expr *expr) {
    b->ok &= list->n < OP_MAX_INPUTS;
    if (!b->ok) return;
    list->values[list->n] = value;
    list->exprs[list->n++] = expr;
}

static void push_operand(Builder *b, const RuleOperand *o, Operands *list) {
    const Match *m = b->m;
    if (o->kind == OPERAND_NOTHING || o->kind == OPERAND_EXPR) {
        push(b, list, NULL, o->kind == OPERAND_EXPR ? o->expr : NULL);
        return;
    }
    Value *v = o->written ? b->out->values[o->value] : m->values[o->value];
    if (o->kind != OPERAND_REST || o->written) {
        b->ok &= reach(b, v);
        push(b, list, v, o->kind == OPERAND_ELSE && !v ? o->expr : NULL);
        return;
    }
    for (uint32_t i = m->rest_from[o->value]; i < m->rest_node[o->value]->n_operands; i++) {
        Value *each = m->rest_node[o->value]->operands[i].value;
        b->ok &= reach(b, each);
        push(b, list, each, NULL);
    }
}

static tn_status make_constants(Builder *b, const OpSchema *op, Operands *list) {
    for (size_t i = 0; i < list->n && b->ok; i++) {
        Val v;
        if (!list->exprs[i]) continue;
        TRY(expr_eval(list->exprs[i], (Match *)b->m, &v));
        if (v.kind == V_NONE) continue;
        TRY(make_constant(b, &v, type_for(b, op, i, list->values, list->n, &v), &list->values[i]));
    }
    return TN_OK;
}

/* ---- nodes --------------------------------------------------------------------------------------------------- */

static bool is_named(const RuleNode *node, Str name) {
    for (size_t i = 0; i < node->n_attrs; i++)
        if (str_equal(node->attrs[i].name, name)) return true;
    return false;
}

static tn_status attr_floats(const Val *v, Arena *arena, Attr *out) {
    float *data = arena_array(arena, float, v->n + 1);
    if (!data) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < v->n; i++) data[i] = (float)(v->kind == V_FLOATS ? v->floats[i] : (double)v->ints[i]);
    out->n = v->n;
    out->floats = data;
    return TN_OK;
}

static bool attr_ints_fit(const Val *v) {
    for (size_t i = 0; v->kind == V_INTS && i < v->n; i++)
        if (!dim_is_const(v->ints[i])) return false;
    return v->kind == V_INTS;
}

tn_status attr_of_val(const OpSchema *op, Str name, const Val *v, Arena *arena, Attr *out, bool *ok) {
    const AttrSpec *spec = op_attr_spec(op, name);
    AttrKind kind = spec ? spec->kind : ATTR_INT;
    bool number = v->kind == V_INT || v->kind == V_BOOL || v->kind == V_FLOAT,
         lists = v->kind == V_FLOATS || v->kind == V_INTS;
    *out = (Attr){.kind = kind};
    *ok = true;
    if (v->kind == V_ATTR) *out = *v->attr;
    else if (kind == ATTR_INT && number && v->kind != V_FLOAT && dim_is_const(v->i)) out->i = v->i;
    else if (kind == ATTR_FLOAT && number) out->f = (float)(v->kind == V_FLOAT ? v->f : (double)v->i);
    else if (kind == ATTR_STRING && v->kind == V_STRING) out->s = v->s;
    else if (kind == ATTR_INTS && attr_ints_fit(v)) out->n = v->n, out->ints = v->ints;
    else if (kind == ATTR_FLOATS && lists) TRY(attr_floats(v, arena, out));
    else *ok = v->kind == V_NONE;
    if (v->kind != V_NONE) out->name = name;
    return TN_OK;
}

static tn_status set_attr(Builder *b, Node *node, const RuleAttr *a) {
    Val v;
    Attr attr;
    bool ok;
    TRY(expr_eval(a->expr, (Match *)b->m, &v));
    TRY(attr_of_val(node->op, a->name, &v, b->m->arena, &attr, &ok));
    b->ok &= ok;
    return ok && attr.name.n ? node_set_attr(node, &attr) : TN_OK;
}

static tn_status set_attrs(Builder *b, const RuleNode *rule, Node *node) {
    for (size_t i = 0; i < rule->n_attrs && b->ok; i++) TRY(set_attr(b, node, &rule->attrs[i]));
    const Node *from = rule->all_attrs && rule->attrs_of >= 0 ? b->m->nodes[rule->attrs_of] : NULL;
    for (uint32_t i = 0; from && i < from->n_attrs; i++) {
        const Attr *a = &from->attrs[i];
        if (a->kind == ATTR_GRAPH || a->kind == ATTR_GRAPHS) b->ok = false; /* a graph belongs to one node */
        else if (!is_named(rule, a->name) && op_attr_spec(node->op, a->name)) TRY(node_set_attr(node, a));
    }
    return TN_OK;
}

static const OpSchema *op_of(const Builder *b, const RuleNode *rule) {
    return rule->op_var >= 0 ? b->m->ops[rule->op_var] : rule->ops[0];
}

static tn_status make_alias(Builder *b, const RuleNode *rule) {
    Operands list = {.n = 0};
    push_operand(b, &rule->operands[0], &list);
    if (list.n == 1 && list.exprs[0]) {
        Val v;
        tn_dtype dtype = root_of(b->m)->results[0]->type->dtype;
        TRY(expr_eval(list.exprs[0], (Match *)b->m, &v));
        TRY(make_constant(b, &v, dtype ? dtype : TN_F32, &list.values[0]));
    }
    b->ok &= list.n == 1 && list.values[0];
    b->out->values[rule->results[0]] = b->ok ? list.values[0] : NULL;
    return TN_OK;
}

/* A node that cannot be as it is inferred is no error: the rule does not fit here. */
static tn_status infer(Builder *b, Node *node) {
    tn_status status = node_check(node);
    if (status == TN_OK) status = infer_node(node);
    if (status == TN_OUT_OF_MEMORY || status == TN_LIMIT || status == TN_OK) return status;
    diag_clear();
    b->ok = false;
    return TN_OK;
}

/* What is optional on the left may be absent, but no op does without what it needs. */
static bool has_required(const OpSchema *op, const Operands *list) {
    for (size_t i = 0; op_inputs(op)[i].name; i++)
        if (!(op_inputs(op)[i].flags & OPERAND_OPTIONAL) && (i >= list->n || !list->values[i])) return false;
    return true;
}

static tn_status make_node(Builder *b, const RuleNode *rule) {
    Operands list = {.n = 0};
    Node *node;
    if (rule->n_ops == 0) return make_alias(b, rule);
    const OpSchema *op = op_of(b, rule);
    for (size_t i = 0; i < rule->n_operands; i++) push_operand(b, &rule->operands[i], &list);
    if (b->ok) TRY(make_constants(b, op, &list));
    b->ok = b->ok && has_required(op, &list);
    if (!b->ok) return TN_OK;
    while (list.n > 0 && !list.values[list.n - 1]) list.n--;
    TRY(node_new(b->graph, op, list.values, list.n, rule->n_results, &node));
    TRY(add_node(b, node));
    node->loc = (rule->attrs_of >= 0 ? b->m->nodes[rule->attrs_of] : root_of(b->m))->loc;
    TRY(set_attrs(b, rule, node));
    if (b->ok) TRY(infer(b, node));
    for (size_t i = 0; i < rule->n_results; i++)
        if (rule->results[i] >= 0) b->out->values[rule->results[i]] = node->results[i];
    return TN_OK;
}

/* ---- what is replaced ---------------------------------------------------------------------------------------- */

/* The same element type, rank and sizes, as far as both are known. */
static bool types_agree(const Type *old, const Type *fresh) {
    if (old->kind != fresh->kind) return false;
    if (old->kind != TYPE_TENSOR) return old == fresh;
    if (old->dtype && fresh->dtype && old->dtype != fresh->dtype) return false;
    if (old->shape.rank < 0 || fresh->shape.rank < 0) return true;
    if (old->shape.rank != fresh->shape.rank) return false;
    for (int i = 0; i < old->shape.rank; i++) {
        Dim a = old->shape.dims[i], b = fresh->shape.dims[i];
        if (a != b && dim_is_const(a) && dim_is_const(b)) return false;
    }
    return true;
}

static tn_status check_types(Builder *b) {
    const Rule *r = b->m->rule;
    for (size_t i = 0; i < r->n_values && b->ok; i++) {
        if (r->replaced[i] < 0) continue;
        const Value *old = b->m->values[i];
        Value *fresh = b->out->values[r->replaced[i]];
        const Type *merged;
        b->ok = fresh && fresh != old && types_agree(old->type, fresh->type);
        if (!b->ok || !fresh->def || fresh->type->kind != TYPE_TENSOR) continue;
        if (type_merge(b->graph->model, fresh->type, old->type, &merged) == TN_OK) value_set_type(fresh, merged);
        else diag_clear();
    }
    return TN_OK;
}

void built_discard(Built *built) {
    while (built->n > 0) node_erase(built->nodes[--built->n]);
}

/* Where element types or ranks are not known, inference has not looked at the nodes: one that is wrong must stay, to say
   so when it runs. What takes ops apart need not know ranks: the parts say so. */
static bool is_understood(const Match *m) {
    for (size_t i = 0; i < m->rule->n_match; i++) {
        const Type *type = m->nodes[i]->results[0]->type;
        if (type->kind != TYPE_TENSOR) continue;
        if (!type->dtype || (type->shape.rank < 0 && m->rule->level < RULE_LOWERS)) return false;
    }
    return true;
}

/* An operand of the rule may be one of its results, when a node reads it twice over: what is new would wait for itself. */
static bool reads_replaced(const Builder *b) {
    const Rule *r = b->m->rule;
    for (size_t k = 0; k < b->out->n; k++)
        for (uint32_t j = 0; j < b->out->nodes[k]->n_operands; j++)
            for (size_t i = 0; i < r->n_values; i++)
                if (r->replaced[i] >= 0 && b->out->nodes[k]->operands[j].value == b->m->values[i] && b->m->values[i])
                    return true;
    return false;
}

static tn_status build(Builder *b) {
    b->ok = is_understood(b->m);
    for (size_t i = 0; i < b->m->rule->n_write && b->ok; i++) TRY(make_node(b, &b->m->rule->write[i]));
    b->ok = b->ok && !reads_replaced(b);
    return b->ok ? check_types(b) : TN_OK;
}

tn_status rule_build(const Match *m, Built *built, bool *ok) {
    Builder b = {.m = m, .out = built, .graph = root_of(m)->graph, .place = find_place(m), .ok = true};
    built->n = 0;
    memset(built->values, 0, sizeof built->values);
    tn_status status = build(&b);
    if (status != TN_OK || !b.ok) built_discard(built);
    *ok = b.ok;
    return status;
}
