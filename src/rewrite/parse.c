/* SPDX-License-Identifier: Apache-2.0 */
/* Reads rules. The tokens are those of the IR's text form; `$`, `|`, `<`, `>` and `!` are added here. */
#include "rewrite/rewrite_int.h"

#include <pthread.h>
#include <stdlib.h>

/* One side of a rule while it is read. */
typedef struct Side {
    RuleNode nodes[RULE_NODES];
    size_t n;
    bool written;
} Side;

/* The names of a rule while it is read. There are hundreds of rules, of a few names each: what is kept is as long as it
   has to be. */
typedef struct Names {
    Str values[RULE_VALUES], written[RULE_VALUES], vars[RULE_VARS], op_vars[RULE_OPS];
    int value_node[RULE_VALUES];
} Names;

typedef struct Parser {
    RuleSet *set;
    Arena *arena;
    Str text;
    Token token;
    size_t last_end; /* of the token before */
    Rule *rule;
    Names *names; /* the rule's */
    int depth;
} Parser;

/* ---- tokens and errors --------------------------------------------------------------------------------------- */

static Token rule_token(Str text, size_t from) {
    Token t = lex(text, from);
    if (t.kind == TOKEN_BAD && strchr("$|<>!", text.s[t.at])) {
        t.kind = text.s[t.at];
        t.end = t.at + 1;
    }
    return t;
}

static void advance(Parser *p) {
    p->last_end = p->token.end;
    p->token = rule_token(p->text, p->token.end);
}

static tn_status located(const Parser *p, size_t at, tn_status status) {
    size_t line = 1, start = 0;
    for (size_t i = 0; i < at && i < p->text.n; i++)
        if (p->text.s[i] == '\n') line++, start = i + 1;
    diag_note("at line %zu, column %zu of %.*s", line, at - start + 1, (int)p->set->name.n, p->set->name.s);
    if (p->rule) diag_note("in rule %.*s", (int)p->rule->name.n, p->rule->name.s);
    return status;
}

#define WRONG(p, at, ...) located((p), (at), fail(TN_INVALID_ARGUMENT, __VA_ARGS__))

static tn_status expected(Parser *p, const char *what) {
    if (p->token.kind == TOKEN_END) return WRONG(p, p->token.at, "the text ends where %s should stand", what);
    if (p->token.kind == TOKEN_BAD) return WRONG(p, p->token.at, "%s", p->token.problem);
    size_t n = p->token.end - p->token.at;
    return WRONG(p, p->token.at, "\"%.*s\" stands where %s should", (int)(n < 40 ? n : 40), p->text.s + p->token.at,
                 what);
}

static bool at_punct(const Parser *p, int c) { return p->token.kind == c; }
static bool take(Parser *p, int c) {
    if (p->token.kind != c) return false;
    advance(p);
    return true;
}

static tn_status expect(Parser *p, int c) {
    char what[4] = {'\'', (char)c, '\'', 0};
    return take(p, c) ? TN_OK : expected(p, what);
}

static bool at_str(const Parser *p, Str word) {
    return p->token.kind == TOKEN_NAME && p->token.text.n == word.n && memcmp(p->token.text.s, word.s, word.n) == 0;
}
#define at_word(p, word) at_str((p), STR(word))

static bool take_str(Parser *p, Str word) {
    if (!at_str(p, word)) return false;
    advance(p);
    return true;
}
#define take_word(p, word) take_str((p), STR(word))

/* The character right behind the current token. */
static char next_char(const Parser *p) { return p->token.end < p->text.n ? p->text.s[p->token.end] : 0; }

static void *copy_array(Arena *arena, const void *from, size_t n, size_t size) {
    void *to = arena_array_(arena, n ? n : 1, size, alignof(void *));
    if (to && n) memcpy(to, from, n * size);
    return to;
}

/* ---- names --------------------------------------------------------------------------------------------------- */

static int find_name(const Str *names, size_t n, Str name) {
    for (size_t i = n; i-- > 0;)
        if (str_equal(names[i], name)) return (int)i;
    return -1;
}

static tn_status add_name(Parser *p, Str *names, size_t *n, size_t most, Str name, int *index) {
    if (*n == most) return WRONG(p, p->token.at, "a rule has at most %zu names of this kind", most);
    names[*n] = name;
    *index = (int)(*n)++;
    return TN_OK;
}

/* $x; on the right and in conditions it must be known. */
static tn_status var_index(Parser *p, Str name, bool may_add, size_t at, int *index) {
    Rule *r = p->rule;
    *index = find_name(r->vars, r->n_vars, name);
    if (*index >= 0) return TN_OK;
    if (may_add) return add_name(p, r->vars, &r->n_vars, RULE_VARS, name, index);
    return WRONG(p, at, "$%.*s stands nowhere on the left side", (int)name.n, name.s);
}

static tn_status new_value(Parser *p, Side *side, Str name, int *index) {
    Rule *r = p->rule;
    if (side->written) return add_name(p, r->written, &r->n_written, RULE_VALUES, name, index);
    TRY(add_name(p, r->values, &r->n_values, RULE_VALUES, name, index));
    r->value_node[*index] = -1;
    return TN_OK;
}

/* %x as an operand. */
static tn_status value_index(Parser *p, Side *side, Str name, size_t at, RuleOperand *out) {
    Rule *r = p->rule;
    out->written = false;
    if (side->written) {
        out->value = find_name(r->written, r->n_written, name);
        out->written = out->value >= 0;
        if (out->written) return TN_OK;
    }
    out->value = find_name(r->values, r->n_values, name);
    if (out->value >= 0) return TN_OK;
    if (!side->written) return new_value(p, side, name, &out->value);
    const char *names[RULE_VALUES];
    for (size_t i = 0; i < r->n_values; i++)
        if (!(names[i] = arena_strndup(p->arena, r->values[i].s, r->values[i].n))) return TN_OUT_OF_MEMORY;
    const char *near = nearest_name(name, names, r->n_values);
    return near ? WRONG(p, at, "there is no %%%.*s; did you mean %%%s?", (int)name.n, name.s, near)
                : WRONG(p, at, "there is no %%%.*s on the left side", (int)name.n, name.s);
}

/* ---- expressions --------------------------------------------------------------------------------------------- */

static tn_status parse_expr(Parser *p, bool may_bind, Expr **out);

static tn_status new_expr(Parser *p, ExprKind kind, size_t n, Expr **out) {
    Expr *e = arena_new(p->arena, Expr);
    if (!e || (n && !(e->args = arena_array(p->arena, Expr *, n)))) return TN_OUT_OF_MEMORY;
    e->kind = kind;
    e->n = n;
    e->at = p->token.at;
    *out = e;
    return TN_OK;
}

static tn_status parse_number(Parser *p, Expr **out) {
    TRY(new_expr(p, EXPR_NUMBER, 0, out));
    char buffer[64];
    Str t = p->token.text;
    if (t.n >= sizeof buffer) return WRONG(p, p->token.at, "this number is too long");
    memcpy(buffer, t.s, t.n);
    buffer[t.n] = 0;
    (*out)->is_float = p->token.kind == TOKEN_FLOAT;
    (*out)->f = strtod(buffer, NULL);
    if (!(*out)->is_float) (*out)->i = strtoll(buffer, NULL, 10);
    advance(p);
    return TN_OK;
}

static tn_status parse_args(Parser *p, int close, bool may_bind, Expr *e) {
    Expr *args[LIST_MAX];
    size_t n = 0;
    while (!at_punct(p, close)) {
        if (n == LIST_MAX) return WRONG(p, p->token.at, "more than %d elements", LIST_MAX);
        TRY(parse_expr(p, may_bind, &args[n++]));
        if (!take(p, ',')) break;
    }
    e->args = copy_array(p->arena, args, n, sizeof *args);
    e->n = n;
    return e->args ? expect(p, close) : TN_OUT_OF_MEMORY;
}

static tn_status parse_call_of_function(Parser *p, bool may_bind, Expr **out) {
    size_t at = p->token.at, n_args;
    bool takes_values;
    Str name = p->token.text;
    TRY(new_expr(p, EXPR_CALL, 0, out));
    (*out)->text = name;
    (*out)->function = function_find(name, &n_args, &takes_values);
    if (!(*out)->function) {
        const char *names[96];
        size_t n = 96;
        function_names(names, &n);
        const char *near = nearest_name(name, names, n);
        return near ? WRONG(p, at, "there is no function %.*s; did you mean %s?", (int)name.n, name.s, near)
                    : WRONG(p, at, "there is no function %.*s", (int)name.n, name.s);
    }
    advance(p);
    TRY(expect(p, '('));
    TRY(parse_args(p, ')', may_bind, *out));
    if (n_args != SIZE_MAX && (*out)->n != n_args)
        return WRONG(p, at, "%.*s takes %zu arguments, not %zu", (int)name.n, name.s, n_args, (*out)->n);
    for (size_t i = 0; i < (*out)->n; i++) {
        bool is_value = (*out)->args[i]->kind == EXPR_VALUE;
        if (is_value && !takes_values)
            return WRONG(p, (*out)->args[i]->at, "%.*s takes no %%values", (int)name.n, name.s);
        if (!is_value && takes_values && i == 0)
            return WRONG(p, (*out)->args[i]->at, "%.*s asks about a %%value", (int)name.n, name.s);
    }
    return TN_OK;
}

/* In conditions and on the right only, where all values are known. */
static tn_status parse_value_in_expr(Parser *p, Expr **out) {
    TRY(new_expr(p, EXPR_VALUE, 0, out));
    (*out)->var = find_name(p->rule->values, p->rule->n_values, p->token.text);
    if ((*out)->var < 0)
        return WRONG(p, p->token.at, "there is no %%%.*s on the left side", (int)p->token.text.n, p->token.text.s);
    advance(p);
    return TN_OK;
}

static tn_status parse_word(Parser *p, bool may_bind, Expr **out) {
    bool yes = at_word(p, "true"), no = at_word(p, "false");
    if (!yes && !no && !at_word(p, "none")) return parse_call_of_function(p, may_bind, out);
    TRY(new_expr(p, yes || no ? EXPR_NUMBER : EXPR_NONE, 0, out));
    (*out)->i = yes;
    (*out)->f = yes;
    advance(p);
    return TN_OK;
}

static tn_status parse_primary(Parser *p, bool may_bind, Expr **out) {
    switch (p->token.kind) {
    case TOKEN_INT:
    case TOKEN_FLOAT: return parse_number(p, out);
    case TOKEN_VALUE: return parse_value_in_expr(p, out);
    case TOKEN_NAME: return parse_word(p, may_bind, out);
    case TOKEN_STRING:
        TRY(new_expr(p, EXPR_STRING, 0, out));
        TRY(unescape(p->arena, &p->token, &(*out)->text));
        advance(p);
        return TN_OK;
    case '[':
        TRY(new_expr(p, EXPR_LIST, 0, out));
        advance(p);
        return parse_args(p, ']', may_bind, *out);
    case '(':
        advance(p);
        TRY(parse_expr(p, may_bind, out));
        return expect(p, ')');
    case '$':
        TRY(new_expr(p, EXPR_VAR, 0, out));
        advance(p);
        if (p->token.kind != TOKEN_NAME) return expected(p, "a name");
        TRY(var_index(p, p->token.text, may_bind, p->token.at, &(*out)->var));
        advance(p);
        return TN_OK;
    default: return expected(p, "an expression");
    }
}

static tn_status parse_postfix(Parser *p, bool may_bind, Expr **out) {
    TRY(parse_primary(p, may_bind, out));
    while (at_punct(p, '[')) {
        Expr *base = *out;
        TRY(new_expr(p, EXPR_INDEX, 2, out));
        advance(p);
        (*out)->args[0] = base;
        TRY(parse_expr(p, may_bind, &(*out)->args[1]));
        TRY(expect(p, ']'));
    }
    return TN_OK;
}

static tn_status parse_unary(Parser *p, bool may_bind, Expr **out) {
    bool minus = at_punct(p, '-'), no = at_word(p, "not");
    if (!minus && !no) return parse_postfix(p, may_bind, out);
    if (++p->depth > RULE_DEPTH) return WRONG(p, p->token.at, "expressions are nested too deep");
    TRY(new_expr(p, minus ? EXPR_NEGATE : EXPR_NOT, 1, out));
    advance(p);
    TRY(parse_unary(p, may_bind, &(*out)->args[0]));
    p->depth--;
    return TN_OK;
}

/* The operator at hand and how strongly it binds; 0: none. */
static int operator_at(const Parser *p, char *op, size_t *tokens) {
    *tokens = 1;
    char next = next_char(p);
    switch (p->token.kind) {
    case '*':
    case '/': *op = (char)p->token.kind; return 5;
    case '+':
    case '-': *op = (char)p->token.kind; return 4;
    case '<':
    case '>':
        *op = (char)p->token.kind;
        if (next == '=') *op = *op == '<' ? 'l' : 'g', *tokens = 2;
        return 3;
    case '=': *op = '=', *tokens = 2; return next == '=' ? 3 : 0;
    case '!': *op = '!', *tokens = 2; return next == '=' ? 3 : 0;
    default: break;
    }
    if (at_word(p, "in")) return *op = 'i', 3;
    if (at_word(p, "and")) return *op = '&', 2;
    if (at_word(p, "or")) return *op = '|', 1;
    return 0;
}

static tn_status parse_binary(Parser *p, int least, bool may_bind, Expr **out) {
    char op;
    size_t tokens;
    int binds;
    if (++p->depth > RULE_DEPTH) return WRONG(p, p->token.at, "expressions are nested too deep");
    TRY(parse_unary(p, may_bind, out));
    while ((binds = operator_at(p, &op, &tokens)) >= least && binds > 0) {
        Expr *left = *out;
        TRY(new_expr(p, EXPR_BINARY, 2, out));
        for (size_t i = 0; i < tokens; i++) advance(p);
        (*out)->op = op;
        (*out)->args[0] = left;
        TRY(parse_binary(p, binds + 1, may_bind, &(*out)->args[1]));
    }
    p->depth--;
    return TN_OK;
}

static tn_status parse_expr(Parser *p, bool may_bind, Expr **out) { return parse_binary(p, 1, may_bind, out); }

/* ---- ops ----------------------------------------------------------------------------------------------------- */

typedef struct OpList {
    const OpSchema *ops[64];
    size_t n;
} OpList;

static tn_status add_op(Parser *p, OpList *list, const OpSchema *op) {
    if (list->n == sizeof list->ops / sizeof *list->ops) return WRONG(p, p->token.at, "too many ops in one place");
    list->ops[list->n++] = op;
    return TN_OK;
}

static size_t count_operands(const OpSchema *op) {
    size_t n = 0;
    while (op_inputs(op)[n].name) n++;
    return n;
}

/* Of two operands either may be the larger one. */
static bool broadcasts_both_ways(const OpSchema *op) {
    return strcmp(op->name, "PRelu") != 0 && strcmp(op->name, "SwiGLU") != 0;
}

static bool in_class(const OpSchema *op, Str class) {
    bool one = count_operands(op) == 1, two = count_operands(op) == 2;
    bool elementwise = op->flags & OP_ELEMENTWISE && !(op->flags & OP_RANDOM) && !op->domain;
    if (str_equal(class, STR("unary"))) return elementwise && one;
    if (str_equal(class, STR("binary"))) return elementwise && two && broadcasts_both_ways(op);
    return str_equal(class, STR("elementwise")) && elementwise;
}

static tn_status add_class(Parser *p, OpList *list, Str class, bool *found) {
    size_t n;
    const OpSchema *const *all = op_table(&n);
    *found = false;
    if (!str_equal(class, STR("unary")) && !str_equal(class, STR("binary")) && !str_equal(class, STR("elementwise")))
        return TN_OK;
    for (size_t i = 0; i < n; i++) {
        if (!in_class(all[i], class)) continue;
        *found = true;
        TRY(add_op(p, list, all[i]));
    }
    return TN_OK;
}

static tn_status find_op(Parser *p, OpList *list) {
    bool found;
    Str name = p->token.text;
    if (p->token.kind != TOKEN_NAME) return expected(p, "the name of an op");
    TRY(add_class(p, list, name, &found));
    const OpSchema *op = found ? NULL : op_named(name);
    OpHint hint;
    if (!found && !op)
        return WRONG(p, p->token.at, "there is no op \"%.*s\"%s", (int)name.n, name.s, op_hint(name, &hint));
    if (op) TRY(add_op(p, list, op));
    advance(p);
    return TN_OK;
}

static tn_status parse_op_var(Parser *p, const Side *side, OpList *list, int *var) {
    Rule *r = p->rule;
    advance(p);
    if (p->token.kind != TOKEN_NAME) return expected(p, "a name");
    Str name = p->token.text;
    size_t at = p->token.at;
    *var = find_name(r->op_vars, r->n_op_vars, name);
    advance(p);
    if (*var >= 0 && !at_punct(p, '[')) return TN_OK;
    if (side->written || *var >= 0)
        return WRONG(p, at, "$%.*s %s", (int)name.n, name.s,
                     *var >= 0 ? "has its ops already" : "stands for no op on the left side");
    TRY(add_name(p, r->op_vars, &r->n_op_vars, RULE_OPS, name, var));
    TRY(expect(p, '['));
    do TRY(find_op(p, list));
    while (take(p, '|'));
    return expect(p, ']');
}

/* The ops that $op stood for where it was first written. */
static tn_status ops_of_var(Parser *p, const Side *side, int var, RuleNode *node) {
    for (size_t i = 0; i < side->n; i++)
        if (side->nodes[i].op_var == var) {
            node->ops = side->nodes[i].ops;
            node->n_ops = side->nodes[i].n_ops;
            return TN_OK;
        }
    for (size_t i = 0; i < p->rule->n_match; i++)
        if (p->rule->match[i].op_var == var) {
            node->ops = p->rule->match[i].ops;
            node->n_ops = p->rule->match[i].n_ops;
        }
    return TN_OK;
}

static tn_status parse_ops(Parser *p, const Side *side, RuleNode *node) {
    OpList list = {.n = 0};
    node->op_var = -1;
    if (at_punct(p, '$')) {
        TRY(parse_op_var(p, side, &list, &node->op_var));
        if (list.n == 0) return ops_of_var(p, side, node->op_var, node);
    } else {
        do TRY(find_op(p, &list));
        while (!side->written && take(p, '|'));
        if (side->written && list.n != 1) return WRONG(p, p->last_end, "one op must be written, not a choice");
    }
    node->ops = copy_array(p->arena, list.ops, list.n, sizeof *list.ops);
    node->n_ops = list.n;
    return node->ops ? TN_OK : TN_OUT_OF_MEMORY;
}

/* ---- nodes --------------------------------------------------------------------------------------------------- */

static tn_status parse_node(Parser *p, Side *side, const Str *results, size_t n_results, int *first);

static bool is_op_name(Str s) {
    for (size_t i = 0; i < s.n; i++)
        if (s.s[i] == '.') return true;
    return s.n && s.s[0] >= 'A' && s.s[0] <= 'Z';
}

/* $op(...) or $op[...], not a $variable. */
static bool at_op_var(const Parser *p) {
    if (!at_punct(p, '$')) return false;
    Token name = rule_token(p->text, p->token.end), after = rule_token(p->text, name.end);
    return name.kind == TOKEN_NAME &&
           (after.kind == '(' || (after.kind == '[' && find_name(p->rule->vars, p->rule->n_vars, name.text) < 0));
}

static tn_status parse_value_operand(Parser *p, Side *side, RuleOperand *o) {
    Str name = p->token.text;
    size_t at = p->token.at;
    advance(p);
    TRY(value_index(p, side, name, at, o));
    if (take(p, TOKEN_DOTS)) o->kind = OPERAND_REST;
    if (!at_punct(p, '?')) return TN_OK;
    bool is_else = next_char(p) == ':';
    advance(p);
    if (!side->written) {
        o->optional = true;
        return TN_OK;
    }
    if (!is_else) return expected(p, "',' or ')'");
    TRY(expect(p, ':'));
    o->kind = OPERAND_ELSE;
    return parse_expr(p, false, &o->expr);
}

static tn_status parse_operand(Parser *p, Side *side, RuleOperand *o) {
    *o = (RuleOperand){.kind = OPERAND_VALUE, .value = -1};
    if (p->token.kind == TOKEN_VALUE) return parse_value_operand(p, side, o);
    if (at_word(p, "_")) {
        advance(p);
        o->kind = OPERAND_NOTHING;
        return TN_OK;
    }
    if ((p->token.kind == TOKEN_NAME && is_op_name(p->token.text)) || at_op_var(p)) {
        o->written = side->written;
        return parse_node(p, side, NULL, 0, &o->value);
    }
    o->kind = OPERAND_EXPR;
    TRY(parse_expr(p, !side->written, &o->expr));
    if (!side->written && take(p, '?')) o->optional = true;
    return TN_OK;
}

static tn_status parse_operands(Parser *p, Side *side, RuleNode *node) {
    RuleOperand list[OP_MAX_INPUTS];
    size_t n = 0;
    TRY(expect(p, '('));
    while (!at_punct(p, ')')) {
        if (n == OP_MAX_INPUTS) return WRONG(p, p->token.at, "more than %d operands", OP_MAX_INPUTS);
        TRY(parse_operand(p, side, &list[n]));
        if (list[n++].kind == OPERAND_REST && !side->written && !at_punct(p, ')'))
            return WRONG(p, p->token.at, "nothing may follow %%x...");
        if (!take(p, ',')) break;
    }
    node->operands = copy_array(p->arena, list, n, sizeof *list);
    node->n_operands = n;
    return node->operands ? expect(p, ')') : TN_OUT_OF_MEMORY;
}

static bool ops_have_attr(const RuleNode *node, Str name) {
    for (size_t i = 0; i < node->n_ops; i++)
        if (op_attr_spec(node->ops[i], name)) return true;
    return node->n_ops == 0;
}

static tn_status no_such_attr(Parser *p, const RuleNode *node, Str name, size_t at) {
    const char *names[24];
    size_t n = 0;
    for (const AttrSpec *spec = op_attrs(node->ops[0]); n < 24 && spec->name; spec++) names[n++] = spec->name;
    const char *near = nearest_name(name, names, n);
    return WRONG(p, at, "%s has no attribute %.*s%s%s", node->ops[0]->name, (int)name.n, name.s,
                 near ? "; did you mean " : "", near ? near : "");
}

/* Whose other attributes `*` passes on: the node named, or the first matched one of the same op. */
static tn_status parse_star(Parser *p, const Side *side, RuleNode *node) {
    node->all_attrs = true;
    if (!side->written) return TN_OK;
    size_t at = p->token.at;
    if (p->token.kind == TOKEN_VALUE) {
        int v = find_name(p->rule->values, p->rule->n_values, p->token.text);
        if (v >= 0) node->attrs_of = p->rule->value_node[v];
        advance(p);
    } else {
        for (size_t i = p->rule->n_match; i-- > 0;)
            if (p->rule->match[i].n_ops && node->n_ops && p->rule->match[i].ops[0] == node->ops[0])
                node->attrs_of = (int)i;
    }
    return node->attrs_of >= 0 ? TN_OK : WRONG(p, at, "say whose attributes these are: *%%name of a node on the left");
}

static tn_status parse_attr(Parser *p, const Side *side, RuleNode *node, RuleAttr *list, size_t *n) {
    if (take(p, '*')) return parse_star(p, side, node);
    if (p->token.kind != TOKEN_NAME) return expected(p, "the name of an attribute, or *");
    Str name = p->token.text;
    size_t at = p->token.at;
    if (!ops_have_attr(node, name)) return no_such_attr(p, node, name, at);
    for (size_t i = 0; i < *n; i++)
        if (str_equal(list[i].name, name)) return WRONG(p, at, "%.*s stands here twice", (int)name.n, name.s);
    advance(p);
    list[*n] = (RuleAttr){.name = name};
    bool given = take(p, '=');
    if (given) TRY(parse_expr(p, !side->written, &list[*n].expr));
    else if (side->written) return expected(p, "'='");
    ++*n;
    return TN_OK;
}

static tn_status parse_attrs(Parser *p, const Side *side, RuleNode *node) {
    RuleAttr list[24];
    size_t n = 0;
    node->attrs_of = -1;
    if (!take(p, '{')) return TN_OK;
    while (!at_punct(p, '}')) {
        if (n == 24) return WRONG(p, p->token.at, "more than 24 attributes");
        TRY(parse_attr(p, side, node, list, &n));
        if (!take(p, ',')) break;
    }
    node->attrs = copy_array(p->arena, list, n, sizeof *list);
    node->n_attrs = n;
    return node->attrs ? expect(p, '}') : TN_OUT_OF_MEMORY;
}

/* On the left a name may be used before it is defined: then it is the same value. */
static tn_status define_results(Parser *p, Side *side, RuleNode *node, const Str *results, size_t n_results,
                                int *first) {
    Rule *r = p->rule;
    node->n_results = n_results ? n_results : 1;
    for (size_t i = 0; i < node->n_results; i++) {
        Str name = n_results ? results[i] : STR("");
        int index = -1;
        if (n_results && name.n == 0) {
            node->results[i] = -1;
            continue;
        }
        if (!side->written && name.n) index = find_name(r->values, r->n_values, name);
        if (index >= 0 && r->value_node[index] >= 0)
            return WRONG(p, node->at, "%%%.*s is defined twice", (int)name.n, name.s);
        if (side->written && name.n && find_name(r->written, r->n_written, name) >= 0)
            return WRONG(p, node->at, "%%%.*s is defined twice", (int)name.n, name.s);
        if (index < 0) TRY(new_value(p, side, name, &index));
        if (!side->written) r->value_node[index] = (int)side->n;
        node->results[i] = index;
    }
    if (first) *first = node->results[0];
    return TN_OK;
}

static tn_status finish_node(Parser *p, Side *side, RuleNode *node, const Str *results, size_t n_results, int *first) {
    if (side->n == RULE_NODES) return WRONG(p, node->at, "a side of a rule has at most %d nodes", RULE_NODES);
    TRY(define_results(p, side, node, results, n_results, first));
    side->nodes[side->n++] = *node;
    return TN_OK;
}

/* How many operands, or results, an op has at least and at most. */
static void arity_of(const OperandSpec *specs, size_t *least, size_t *most) {
    *least = *most = 0;
    for (size_t i = 0; specs[i].name; i++) {
        bool optional = specs[i].flags & OPERAND_OPTIONAL, variadic = specs[i].flags & OPERAND_VARIADIC;
        *least = optional ? *least : i + 1;
        *most = variadic ? OP_MAX_INPUTS : i + 1;
    }
}

static tn_status wrong_number(Parser *p, const RuleNode *node, size_t least, size_t most, const char *what) {
    const char *name = node->ops[0]->name;
    if (least == most) return WRONG(p, node->at, "%s has %zu %s%s", name, least, what, least == 1 ? "" : "s");
    return WRONG(p, node->at, "%s has %zu to %zu %ss", name, least, most, what);
}

/* Some of the ops must have as many operands and results. On the left what is not named may be there all the same. */
static tn_status check_arity(Parser *p, const Side *side, const RuleNode *node, size_t n_results) {
    size_t least, most;
    bool rest = node->n_operands && node->operands[node->n_operands - 1].kind == OPERAND_REST, fits = false;
    for (size_t i = 0; i < node->n_ops && !fits; i++) {
        arity_of(op_inputs(node->ops[i]), &least, &most);
        fits = node->n_operands - rest <= most && (rest || node->n_operands >= least);
    }
    if (!fits) {
        arity_of(op_inputs(node->ops[0]), &least, &most);
        return wrong_number(p, node, least, most, "operand");
    }
    for (size_t i = 0; i < node->n_ops; i++) {
        arity_of(op_outputs(node->ops[i]), &least, &most);
        if (n_results <= most && (!side->written || n_results >= least || n_results == 0)) return TN_OK;
    }
    arity_of(op_outputs(node->ops[0]), &least, &most);
    return wrong_number(p, node, least, most, "result");
}

/* What an op cannot be made without. */
static tn_status check_required(Parser *p, const RuleNode *node) {
    const OpSchema *op = node->ops[0];
    for (const AttrSpec *spec = op_attrs(op); spec->name; spec++) {
        bool there = !(spec->flags & ATTR_REQUIRED);
        for (size_t k = 0; k < node->n_attrs && !there; k++) there = str_equal(node->attrs[k].name, str_of(spec->name));
        if (!there) return WRONG(p, node->at, "%s needs the attribute %s", op->name, spec->name);
    }
    return TN_OK;
}

static tn_status parse_node(Parser *p, Side *side, const Str *results, size_t n_results, int *first) {
    RuleNode node = {.op_var = -1, .attrs_of = -1, .at = p->token.at};
    if (++p->depth > RULE_DEPTH) return WRONG(p, p->token.at, "expressions are nested too deep");
    TRY(parse_ops(p, side, &node));
    TRY(parse_operands(p, side, &node));
    TRY(parse_attrs(p, side, &node));
    TRY(check_arity(p, side, &node, n_results));
    if (side->written && node.n_ops == 1 && !node.all_attrs) TRY(check_required(p, &node));
    p->depth--;
    return finish_node(p, side, &node, results, n_results, first);
}

/* `%y = %x`. */
static tn_status parse_alias(Parser *p, Side *side, const Str *results, size_t n_results) {
    RuleNode node = {.op_var = -1, .attrs_of = -1, .at = p->token.at, .n_operands = 1};
    RuleOperand operand;
    if (!side->written) return expected(p, "an op");
    if (n_results != 1) return WRONG(p, node.at, "one name stands for one value");
    TRY(parse_operand(p, side, &operand));
    node.operands = copy_array(p->arena, &operand, 1, sizeof operand);
    if (!node.operands) return TN_OUT_OF_MEMORY;
    return finish_node(p, side, &node, results, n_results, NULL);
}

static tn_status parse_statement(Parser *p, Side *side) {
    Str results[RULE_RESULTS];
    size_t n = 0;
    do {
        if (n == RULE_RESULTS) return WRONG(p, p->token.at, "more than %d results", RULE_RESULTS);
        if (p->token.kind != TOKEN_VALUE && !at_word(p, "_")) return expected(p, "a result, such as %y, or _");
        results[n++] = at_word(p, "_") ? STR("") : p->token.text;
        advance(p);
    } while (take(p, ','));
    TRY(expect(p, '='));
    bool op = at_punct(p, '$') ? at_op_var(p) : p->token.kind == TOKEN_NAME && is_op_name(p->token.text);
    return op ? parse_node(p, side, results, n, NULL) : parse_alias(p, side, results, n);
}

static bool at_statement(const Parser *p) { return p->token.kind == TOKEN_VALUE || at_word(p, "_"); }

static tn_status parse_side(Parser *p, bool written, RuleNode **nodes, size_t *n) {
    Side side;
    side.n = 0;
    side.written = written;
    while (at_statement(p)) TRY(parse_statement(p, &side));
    if (side.n == 0) return expected(p, "a statement, such as %y = Relu(%x)");
    *nodes = copy_array(p->arena, side.nodes, side.n, sizeof *side.nodes);
    *n = side.n;
    return *nodes ? TN_OK : TN_OUT_OF_MEMORY;
}

/* ---- rules --------------------------------------------------------------------------------------------------- */

static tn_status parse_where(Parser *p, Rule *r) {
    Expr *list[LIST_MAX];
    size_t n = 0;
    do {
        if (n == LIST_MAX) return WRONG(p, p->token.at, "more than %d conditions", LIST_MAX);
        TRY(parse_expr(p, false, &list[n++]));
    } while (take(p, ','));
    r->where = copy_array(p->arena, list, n, sizeof *list);
    r->n_where = n;
    return r->where ? TN_OK : TN_OUT_OF_MEMORY;
}

/* What both sides name is replaced, if the left makes it; some result of the root must be. */
static tn_status find_replaced(Parser *p, Rule *r) {
    const RuleNode *root = &r->match[r->n_match - 1];
    bool of_root = false;
    r->replaced = arena_array(p->arena, int, r->n_values + 1);
    if (!r->replaced) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < r->n_values; i++) {
        r->replaced[i] = -1;
        if (r->value_node[i] < 0 || r->values[i].n == 0) continue;
        r->replaced[i] = find_name(r->written, r->n_written, r->values[i]);
        of_root |= r->replaced[i] >= 0 && r->value_node[i] == (int)r->n_match - 1;
    }
    for (size_t i = 0; i < r->n_write; i++)
        for (size_t k = 0; k < r->write[i].n_operands; k++) {
            const RuleOperand *o = &r->write[i].operands[k];
            if (o->value >= 0 && !o->written && o->kind != OPERAND_EXPR && r->replaced[o->value] >= 0)
                return WRONG(p, r->write[i].at, "%%%.*s is replaced, so the right side cannot read it",
                             (int)r->values[o->value].n, r->values[o->value].s);
        }
    return of_root ? TN_OK : WRONG(p, root->at, "the right side says nothing of what the last node on the left makes");
}

/* What stands behind # on the rule's first line. */
static Str summary_of(const Parser *p, size_t from) {
    size_t i = from;
    while (i < p->text.n && p->text.s[i] != '\n' && p->text.s[i] != '#') i++;
    if (i == p->text.n || p->text.s[i] != '#') return STR("");
    while (i < p->text.n && (p->text.s[i] == '#' || p->text.s[i] == ' ')) i++;
    size_t end = i;
    while (end < p->text.n && p->text.s[end] != '\n') end++;
    return (Str){p->text.s + i, end - i};
}

static bool at_keyword(const Parser *p) {
    return at_word(p, "rule") || at_word(p, "match") || at_word(p, "where") || at_word(p, "write");
}

static tn_status parse_header(Parser *p, Rule *r) {
    size_t start = p->token.at;
    r->text = (Str){p->text.s + start, 0};
    advance(p);
    if (p->token.kind != TOKEN_NAME || at_keyword(p)) return expected(p, "the name of the rule");
    const char *name = arena_strndup(p->arena, p->token.text.s, p->token.text.n);
    if (!name) return TN_OUT_OF_MEMORY;
    r->name = (Str){name, p->token.text.n};
    r->level = 1;
    size_t end = p->token.end;
    advance(p);
    if (take_word(p, "level")) {
        if (p->token.kind != TOKEN_INT) return expected(p, "a number from 0 to 3");
        r->level = p->token.text.s[0] - '0';
        if (p->token.text.n != 1 || r->level > 4) return expected(p, "a number from 0 to 4");
        end = p->token.end;
        advance(p);
    }
    Str summary = summary_of(p, end);
    const char *kept = arena_strndup(p->arena, summary.s, summary.n);
    if (!kept) return TN_OUT_OF_MEMORY;
    r->summary = (Str){kept, summary.n};
    r->body = p->token.at;
    return TN_OK;
}

/* Into the arena, now that it is known how many there are. */
static tn_status keep_names(Parser *p, Rule *r) {
    r->values = copy_array(p->arena, r->values, r->n_values, sizeof *r->values);
    r->value_node = copy_array(p->arena, r->value_node, r->n_values, sizeof *r->value_node);
    r->written = copy_array(p->arena, r->written, r->n_written, sizeof *r->written);
    r->vars = copy_array(p->arena, r->vars, r->n_vars, sizeof *r->vars);
    r->op_vars = copy_array(p->arena, r->op_vars, r->n_op_vars, sizeof *r->op_vars);
    return r->values && r->value_node && r->written && r->vars && r->op_vars ? TN_OK : TN_OUT_OF_MEMORY;
}

/* From "match" on. */
static tn_status parse_body(Parser *p, Rule *r) {
    r->values = p->names->values, r->value_node = p->names->value_node, r->written = p->names->written;
    r->vars = p->names->vars, r->op_vars = p->names->op_vars;
    p->rule = r;
    p->depth = 0;
    if (!take_word(p, "match")) return expected(p, "\"match\"");
    TRY(parse_side(p, false, &r->match, &r->n_match));
    if (take_word(p, "where")) TRY(parse_where(p, r));
    if (!take_word(p, "write")) return expected(p, "\"where\" or \"write\"");
    TRY(parse_side(p, true, &r->write, &r->n_write));
    r->text.n = (size_t)(p->text.s + p->last_end - r->text.s);
    TRY(keep_names(p, r));
    TRY(find_replaced(p, r));
    tn_status status = rule_plan(p->set, r);
    return status == TN_OK ? TN_OK : located(p, r->match[r->n_match - 1].at, status);
}

static tn_status begin_rule(Parser *p, Rule **out) {
    Rule *r = arena_new(p->arena, Rule);
    if (!r) return TN_OUT_OF_MEMORY;
    r->set = p->set;
    p->rule = NULL;
    if (!at_word(p, "rule")) return expected(p, "\"rule\"");
    *out = r;
    return parse_header(p, r);
}

static tn_status parse_rule(Parser *p) {
    Rule *r;
    size_t at = rule_token(p->text, p->token.end).at;
    TRY(begin_rule(p, &r));
    for (size_t i = 0; i < p->set->rules.len; i++)
        if (str_equal(p->set->rules.data[i]->name, r->name))
            return WRONG(p, at, "there is a rule %s already", r->name.s);
    TRY(parse_body(p, r));
    for (size_t i = 0; i < r->match[r->n_match - 1].n_ops; i++)
        opset_add(&r->roots, str_of(r->match[r->n_match - 1].ops[i]->name));
    atomic_init(&r->read, true);
    return vec_push(p->arena->allocator, &p->set->rules, r);
}

static tn_status parse_all(Parser *p) {
    char *copy = arena_strndup(p->arena, p->text.s ? p->text.s : "", p->text.n), *name;
    if (!copy || !(name = arena_strndup(p->arena, p->set->name.s, p->set->name.n))) return TN_OUT_OF_MEMORY;
    p->text.s = copy;
    p->set->text = p->text;
    p->set->name.s = name;
    p->token = rule_token(p->text, 0);
    while (p->token.kind != TOKEN_END) TRY(parse_rule(p));
    return TN_OK;
}

/* Nothing is copied: the text stays. */
static tn_status skim_all(Parser *p) {
    p->set->text = p->text;
    p->token = rule_token(p->text, 0);
    while (p->token.kind != TOKEN_END) {
        Rule *r;
        TRY(begin_rule(p, &r));
        TRY(vec_push(p->arena->allocator, &p->set->rules, r));
        p->token = rule_token(p->text, rule_skim(p->text, p->token.at, r));
    }
    return TN_OK;
}

static tn_status make_set(const Allocator *allocator, Str text, Str name, tn_status (*fill)(Parser *p), RuleSet **out) {
    RuleSet *set = mem_alloc(allocator, sizeof *set, alignof(RuleSet));
    if (!set) return TN_OUT_OF_MEMORY;
    arena_init(&set->arena, allocator);
    set->name = name;
    Names names;
    Parser p = {.set = set, .arena = &set->arena, .text = text, .names = &names};
    tn_status status = fill(&p);
    if (status == TN_OK) *out = set;
    else rules_free(set);
    return status;
}

tn_status rules_parse(const Allocator *allocator, Str text, Str name, RuleSet **out) {
    return make_set(allocator, text, name, parse_all, out);
}

tn_status rules_skim(const Allocator *allocator, Str text, Str name, RuleSet **out) {
    return make_set(allocator, text, name, skim_all, out);
}

/* Perhaps again, when memory was out before. */
static tn_status read_rest(Rule *r) {
    Names names;
    Parser p = {.set = r->set, .arena = &r->set->arena, .text = r->set->text, .names = &names};
    r->n_match = r->n_write = r->n_where = r->n_steps = 0;
    r->n_values = r->n_written = r->n_vars = r->n_op_vars = 0;
    p.token = rule_token(p.text, r->body);
    return parse_body(&p, r);
}

tn_status rule_read(const Rule *rule) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    Rule *r = (Rule *)rule; /* it is the same rule, of which more is there */
    if (atomic_load_explicit(&r->read, memory_order_acquire)) return TN_OK;
    pthread_mutex_lock(&lock);
    tn_status status = atomic_load_explicit(&r->read, memory_order_relaxed) ? TN_OK : read_rest(r);
    if (status == TN_OK) atomic_store_explicit(&r->read, true, memory_order_release);
    pthread_mutex_unlock(&lock);
    return status;
}

void rules_free(RuleSet *set) {
    if (!set) return;
    const Allocator *a = set->arena.allocator;
    vec_free(a, &set->rules);
    arena_free(&set->arena);
    mem_free(a, set, sizeof *set);
}

size_t rules_count(const RuleSet *set) { return set->rules.len; }
const Rule *rules_at(const RuleSet *set, size_t i) { return set->rules.data[i]; }
const char *rules_name(const RuleSet *set) { return set->name.s; }
const char *rule_name(const Rule *rule) { return rule->name.s; }
const char *rule_summary(const Rule *rule) { return rule->summary.s; }
int rule_level(const Rule *rule) { return rule->level; }
bool rule_begins_at(const Rule *rule, const OpSchema *op) {
    const RuleNode *root = &rule->match[rule->n_match - 1];
    size_t i = 0;
    while (i < root->n_ops && root->ops[i] != op) i++;
    return i < root->n_ops;
}
size_t rule_line(const Rule *rule) {
    size_t line = 1;
    for (const char *c = rule->set->text.s; c < rule->text.s; c++) line += *c == '\n';
    return line;
}
Str rule_text(const Rule *rule) { return rule->text; }
