/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of rewrite/ share with each other only: rules as data, values of attributes while matching. */
#ifndef TENON_REWRITE_REWRITE_INT_H
#define TENON_REWRITE_REWRITE_INT_H

#include "ops/op.h"
#include "rewrite/rewrite.h"

enum {
    RULE_VALUES = 64, /* names of values in one rule */
    RULE_NODES = 64,  /* nodes on one side */
    RULE_VARS = 32,   /* $names */
    RULE_OPS = 4,     /* $names that stand for ops */
    RULE_RESULTS = 8, /* of one node */
    RULE_DEPTH = 32,  /* nesting of expressions */
    LIST_MAX = 64     /* elements of a list */
};

/* ---- expressions (expr.c) ------------------------------------------------------------------------------------ */

typedef enum ExprKind {
    EXPR_NUMBER, /* i, or f where `is_float` */
    EXPR_STRING,
    EXPR_LIST,
    EXPR_NONE,   /* `none`: not there */
    EXPR_VAR,    /* $x */
    EXPR_VALUE,  /* %x, in functions that ask about values */
    EXPR_CALL,   /* a function */
    EXPR_BINARY, /* op: + - * / % = ! < > l (<=) g (>=) & | i (in) */
    EXPR_NOT,
    EXPR_NEGATE,
    EXPR_INDEX
} ExprKind;
typedef struct Function Function;
typedef struct Expr {
    ExprKind kind;
    char op;
    bool is_float;
    int64_t i;
    double f;
    Str text;
    int var; /* of $x; index of %x */
    const Function *function;
    struct Expr **args;
    size_t n;
    size_t at; /* in the text */
} Expr;

/* What an expression is worth while matching. V_NONE: an attribute or an operand that is not there. V_UNKNOWN: cannot be
   said of this model; what is asked of it does not hold. */
typedef enum ValKind { V_UNKNOWN, V_NONE, V_BOOL, V_INT, V_FLOAT, V_STRING, V_INTS, V_FLOATS, V_ATTR } ValKind;
typedef struct Val {
    ValKind kind;
    tn_dtype dtype; /* of a constant operand that it was read from; else TN_UNDEFINED */
    int64_t i;
    double f;
    Str s;
    size_t n;
    const int64_t *ints;
    const double *floats;
    const Attr *attr; /* of another kind: passed on as it is */
} Val;
bool val_equal(const Val *a, const Val *b);

/* ---- rules --------------------------------------------------------------------------------------------------- */

typedef enum OperandKind {
    OPERAND_VALUE,   /* %x */
    OPERAND_REST,    /* %x...: all that follow */
    OPERAND_EXPR,    /* a number or a list; $x; in what is written any expression */
    OPERAND_NOTHING, /* _: absent */
    OPERAND_ELSE     /* %x ?: expression; in what is written */
} OperandSort;
typedef struct RuleOperand {
    OperandSort kind;
    bool optional;
    int value;    /* of %x: its number */
    bool written; /* %x is one that this side made */
    Expr *expr;
} RuleOperand;

typedef struct RuleAttr {
    Str name;
    Expr *expr; /* NULL: any value */
} RuleAttr;

typedef struct RuleNode {
    const OpSchema **ops; /* any of them; n_ops 0 in what is written: another name for its operand */
    size_t n_ops;
    int op_var; /* $op; -1 */
    RuleOperand *operands;
    size_t n_operands;
    RuleAttr *attrs;
    size_t n_attrs;
    bool all_attrs;            /* `*`: matched, any others; written, the others of the node `attrs_of` */
    int attrs_of;              /* a matched node; -1 */
    int results[RULE_RESULTS]; /* numbers of values; -1: no name */
    size_t n_results;
    size_t at;
} RuleNode;

/* Ops by name: a few bits of each, so one may look as if it were there though it is not. */
enum { OPSET_WORDS = 4 };
typedef struct OpSet {
    uint64_t bits[OPSET_WORDS];
} OpSet;
void opset_add(OpSet *set, Str name);
bool opset_within(const OpSet *set, const OpSet *of); /* whether all of `set` is in `of` */

/* One of the library's is read when it is wanted (rule_read): until then only what stands above `read` is there. */
struct Rule {
    RuleSet *set;
    Str name, summary, text; /* how long the text is becomes known when it is read */
    size_t body;             /* where in the set's text "match" stands */
    int level;
    OpSet roots, needs; /* the root is one of these; the left side has all of those. Of a rule that was skimmed */
    atomic_bool read;
    RuleNode *match, *write; /* the last one matched is the root */
    size_t n_match, n_write;
    Expr **where;
    size_t n_where;
    Str *values;     /* of the left side */
    int *value_node; /* the matched node that makes it; -1: one of the rule's operands */
    size_t n_values;
    Str *written; /* of the right side */
    size_t n_written;
    Str *vars;
    size_t n_vars;
    Str *op_vars;
    size_t n_op_vars;
    int *replaced;      /* by number on the left: the number on the right; -1 */
    size_t depth;       /* nodes on the longest way down from the root */
    bool joint;         /* nodes that are not above the root are among those matched */
    struct Step *steps; /* in the order in which they are matched */
    size_t n_steps;
};

/* skim.c. Finds `roots` and `needs` from behind the rule's first line on; returns where the next rule begins. */
size_t rule_skim(Str text, size_t from, Rule *rule);

struct RuleSet {
    Arena arena;
    Str name, text;
    VEC(Rule *) rules;
};

/* ---- matches (match.c) --------------------------------------------------------------------------------------- */

/* Which values are known to be equal, for saturation (saturate.c): all tables by value id. */
typedef struct Classes {
    uint32_t *parent; /* towards the class's representative */
    Value **values;   /* by id */
    uint32_t *next;   /* the values of a class in a ring */
    size_t n;
} Classes;
uint32_t value_class(const Classes *c, const Value *v);

typedef struct Match {
    const Rule *rule;
    const Classes *classes; /* NULL: a value is equal to itself only */
    bool unordered;         /* the order of nodes in the graph means nothing for now */
    /* Called for each match, when all are wanted instead of the first. */
    tn_status (*each)(void *user, struct Match *m);
    void *user;
    size_t budget; /* steps that the search may take when all are wanted; what it does not reach is left out */
    Node *nodes[RULE_NODES];
    Value *values[RULE_VALUES]; /* NULL with `bound`: an optional one that is absent */
    bool bound[RULE_VALUES];
    uint32_t rest_from[RULE_VALUES]; /* of %x...: the first operand of `rest_node` */
    Node *rest_node[RULE_VALUES];
    Val vars[RULE_VARS];
    bool var_bound[RULE_VARS];
    const OpSchema *ops[RULE_OPS];
    Arena *arena;          /* of lists */
    const uint8_t *varies; /* by node id: whether it is certain not to be constant; NULL: nothing is known */
    size_t n_varies;
} Match;

/* The order in which a rule is matched; found once. TN_INVALID_ARGUMENT when a part of the pattern hangs nowhere. */
tn_status rule_plan(RuleSet *set, Rule *rule);
/* Whether the rule matches with `root` as its root; `m` is filled. Predicates included. */
tn_status rule_match(const Rule *rule, Node *root, Arena *arena, Match *m, bool *matched);
/* drive.c. Matched nodes that go when the match is replaced, readers before what they read; at most RULE_NODES. */
size_t match_dying(const Match *m, Node **dying);

/* expr.c. What an expression is worth; never an error but TN_OUT_OF_MEMORY. */
tn_status expr_eval(const Expr *e, Match *m, Val *out);
const Function *function_find(Str name, size_t *n_args, bool *takes_values);
bool function_is_const(const Function *f); /* const(%a, ...): all that are there are */
bool function_is_rank(const Function *f);  /* rank(%a): unknown where it is not there */
bool function_is_splat(const Function *f); /* splat(%a): unknown of what is not */
void function_names(const char **names, size_t *n);
/* A constant operand as a value: a number, or a list of at most LIST_MAX; V_UNKNOWN when it is neither. */
tn_status val_of_constant(const Tensor *t, Arena *arena, Val *out);
/* An attribute, or its default. V_NONE: not there. */
tn_status val_of_attr(const Node *node, Str name, Arena *arena, Val *out);
/* Whether all elements of a constant are this number, as its element type has it. */
bool constant_is(const Tensor *t, const Expr *number);

/* ---- building (build.c) -------------------------------------------------------------------------------------- */

/* What a match is replaced with: new nodes, placed and typed, that nobody reads yet. */
typedef struct Built {
    Node *nodes[RULE_NODES * 4];
    size_t n;
    Value *values[RULE_VALUES]; /* by number on the right */
} Built;
/* *ok false: the other side cannot be made here (types do not fit, a shape would not be the same). Nothing is left then. */
tn_status rule_build(const Match *m, Built *built, bool *ok);
void built_discard(Built *built);
/* settle.c. Computes what is constant of it, in float64, rounded once. */
tn_status built_settle(const Match *m, Built *built);
/* scale.c. `y`, of which type and sizes are set, as the product of `x` and `factors`, f64, computed whenever its bytes are
   needed, so that weights are scaled while they are packed. *ok false: they are not of that kind, or not worth it. */
tn_status scaled_constant(Context *ctx, const Tensor *x, const Tensor *factors, Tensor *y, bool *ok);
/* A value as an attribute of that op, in the kind that the op declares. `out` has no name where nothing is to be set; *ok
   false: it is of no such kind. */
tn_status attr_of_val(const OpSchema *op, Str name, const Val *v, Arena *arena, Attr *out, bool *ok);

/* ---- cost (cost.c) ------------------------------------------------------------------------------------------- */

typedef struct Cost {
    double time;
    int64_t nodes;
    int64_t order; /* movements that stand above computations */
    int64_t words; /* operands and attributes */
} Cost;
Shape assumed_shape(const Value *v);                              /* a number stands in for a size that is not known */
double cost_of_node(const Node *node, const RewriteHooks *hooks); /* nanoseconds */
Cost cost_of(Node *const *nodes, size_t n, const RewriteHooks *hooks);
bool cost_lower(const Cost *a, const Cost *than);
/* Whether it is a constant, or follows from constants alone and so will be folded. */
bool value_is_constant(const Value *v);
bool node_may_follow(const Node *node); /* from constants, if its operands do */
/* By node id whether it is certain not to be constant (varying.c), of a value: see Match. */
static inline bool value_varies(const uint8_t *varies, size_t n, const Value *v) {
    return v && (!v->def || (v->def->id < n && varies[v->def->id]));
}
bool node_is_constant(const Node *node);

/* ---- what is computed together (measured.c) ------------------------------------------------------------------- */

typedef enum NodeRole { ROLE_OTHER, ROLE_LIGHT, ROLE_HEAVY } NodeRole;
NodeRole node_role(const Node *node);
double joining_saves(const Value *v, const Shape *shape);

#endif
