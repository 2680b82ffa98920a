/* SPDX-License-Identifier: Apache-2.0 */
/* Rewrite rules: a pair of fragments in the language of the IR, what must hold between them, and the engine that finds
   the one and puts the other in its place. docs/rules.md is the manual. */
#ifndef TENON_REWRITE_REWRITE_H
#define TENON_REWRITE_REWRITE_H

#include "ir/ir.h"

/* ---- rules (parse.c) ----------------------------------------------------------------------------------------- */

typedef struct Rule Rule;
typedef struct RuleSet RuleSet; /* the rules of one text; never changes once it is made, so threads may share it */

/* Reads and checks rules. `name` says where they come from. Errors name line and column and what was expected. */
tn_status rules_parse(const Allocator *allocator, Str text, Str name, RuleSet **out);
/* The same of a text that is known to be right and stays: each rule is read when rule_read asks for it. */
tn_status rules_skim(const Allocator *allocator, Str text, Str name, RuleSet **out);
void rules_free(RuleSet *set); /* NULL is ignored */
size_t rules_count(const RuleSet *set);
const Rule *rules_at(const RuleSet *set, size_t i);
const char *rules_name(const RuleSet *set);

/* Before anything is asked of a rule but its name, summary, level and line. From any thread. */
tn_status rule_read(const Rule *rule);

const char *rule_name(const Rule *rule);    /* lives as long as its set */
const char *rule_summary(const Rule *rule); /* the comment behind its name; "" */
int rule_level(const Rule *rule);           /* of optimisation, from which on it is used */
/* The levels of variants for saturation, and of those that take ops apart for targets without a kernel: no part of optimising. */
enum { RULE_VARIES = 3, RULE_LOWERS = 4 };
size_t rule_line(const Rule *rule);
Str rule_text(const Rule *rule);                           /* as written */
bool rule_begins_at(const Rule *rule, const OpSchema *op); /* whether its root may be a node of that op */

/* ---- the rules there are (library.c) ------------------------------------------------------------------------- */

/* The texts of src/rules, in the library; the last row is empty. */
typedef struct RulesText {
    const char *name, *text;
    size_t size;
} RulesText;
extern const RulesText rules_texts[];

/* All sets: the library's own, whose rules may not have been read, then those added. On `arena`; the sets live as long as
   the process. */
tn_status rules_library(Arena *arena, const RuleSet *const **sets, size_t *n);
size_t rules_n_added(void); /* sets */
/* Adds a set for the rest of the process, which owns it from then on. TN_INVALID_ARGUMENT when a set or a rule of that name
   is there; the set is the caller's then. */
tn_status rules_add(RuleSet *set);

/* ---- the matcher (index.c, match.c) -------------------------------------------------------------------------- */

/* Rules ready to be matched, by the op of their root. */
typedef struct Matcher Matcher;
tn_status matcher_new(const Allocator *allocator, const Rule *const *rules, size_t n, Matcher **out);
void matcher_free(Matcher *matcher); /* NULL is ignored */

/* ---- rewriting (drive.c) ------------------------------------------------------------------------------------- */

/* Modelled nanoseconds of a node whose sizes are these; unknown ones stand in as some number. */
typedef double (*NodeCost)(void *user, const Node *node, const Shape *in, const Shape *out);
double node_cost_plain(void *user, const Node *node, const Shape *in, const Shape *out);    /* cost.c */
double node_cost_measured(void *user, const Node *node, const Shape *in, const Shape *out); /* measured.c */
/* Of all nodes of a graph, not of those nested in it, each by node_cost_measured, and what is computed together once; what is
   constant costs nothing. */
double graph_cost(const Graph *graph);

typedef struct RewriteHooks {
    NodeCost cost;       /* NULL: node_cost_plain */
    bool keep_constants; /* what is constant of a right side is not computed at once */
    /* Asked before each change; false: it is left out. NULL: all are made. */
    bool (*may_change)(void *user, const Rule *rule, const Node *root);
    void (*changed)(void *user, const Rule *rule, const Node *root); /* the rule was applied there; may be NULL */
    /* The rule matched, but applying it would lower neither cost nor nodes nor order. `made_by` made what it matched: the
       two undo each other; NULL: the model as it was. May be NULL. */
    void (*refused)(void *user, const Rule *rule, const Rule *made_by, const Node *root);
    void *user;
} RewriteHooks;

/* Applies rules to one graph (not to those nested in it) until none of them matches, or lowers anything. In one order on
   every run. */
tn_status rewrite_graph(Matcher *matcher, Graph *graph, const RewriteHooks *hooks);

/* Whether one rule matches with this node as its root and, if so, applies it, whatever that costs. For proofs. */
tn_status rewrite_once(Matcher *matcher, Node *root, bool *applied);

/* ---- saturation (saturate.c, extract.c) ---------------------------------------------------------------------- */

typedef struct SaturateLimits {
    size_t max_nodes; /* of the graph while it holds all variants */
    int max_iterations;
    size_t max_matches; /* of one rule in one iteration */
    uint64_t max_bytes; /* that the model may grow by meanwhile; 0: none */
    uint64_t max_ns;    /* 0: none. With one the outcome may differ from run to run */
} SaturateLimits;
typedef struct SaturateResult {
    const char *stopped; /* why: "saturated", "nodes", "iterations", "memory", "time" */
    int iterations;
    size_t nodes, applied;
    double cost_before, cost_after; /* modelled nanoseconds; equal when nothing better was found */
    bool changed;
} SaturateResult;
/* Applies rules without giving up what they replace, so that their order does not matter, then takes the cheapest graph
   that is among the variants. Of hooks only `cost` is asked, and `may_change` once, with no rule. */
tn_status saturate_graph(Matcher *matcher, Graph *graph, const RewriteHooks *hooks, const SaturateLimits *limits,
                         SaturateResult *result);

/* ---- proofs (prove.c) ---------------------------------------------------------------------------------------- */

typedef enum ProofOutcome {
    PROOF_HOLDS,
    PROOF_REFUTED,
    PROOF_NO_INSTANCE /* too few could be made: nothing is known */
} ProofOutcome;
typedef struct Proof {
    ProofOutcome outcome;
    size_t instances, tried; /* compared; drawn to that end */
    bool exact;              /* no bit differed, NaN and infinities among the inputs included; of NaNs any will do */
    double worst;            /* the largest difference, of the scale */
    char why[640];           /* it does not hold, or cannot be proven */
    char unseen[256];        /* it holds, but no instance had this: "%b absent, Abs for $op"; "" */
    Text counterexample;     /* .tn: the left side, small, with its inputs as presets */
} Proof;

typedef struct ProofOptions {
    size_t instances;
    uint64_t seed; /* the same seed gives the same proof */
    bool as_found; /* counterexamples are not made smaller */
} ProofOptions;

/* Draws instances of the left side until as many as asked for say something, applies the rule to each and runs both sides
   on the reference kernels. proof_free is due in any case. */
tn_status rule_prove(Context *ctx, const Rule *rule, const ProofOptions *options, Proof *out);
void proof_free(Proof *proof);

/* ---- small changes (edit.c) ---------------------------------------------------------------------------------- */

/* What passes that are written in C share. */

/* value_take_over, except that random numbers, which follow from a node's name, stay as they are, and so do the names of
   graph inputs. */
tn_status replace_value(Value *old, Value *with);
/* A constant list of i64 in front of `place`. */
tn_status insert_ints(Node *place, const int64_t *values, int64_t n, Value **out);
/* Whether it draws random numbers: such a node is neither computed ahead of time nor shared. */
bool node_is_random(const Node *node);
/* Whether its first two operands may be swapped without a bit of the result changing. Not so Min and Max of floats: which
   of 0 and -0 comes first decides. Of two NaNs either may come out. */
bool node_may_swap(const Node *node);
/* Whether any of its results is read. */
bool node_is_read(const Node *node);
/* Whether it is certain that both are tensors of one element type and of the same sizes. */
bool same_tensor_type(const Type *a, const Type *b);
/* Whether both constants are there, dense, and equal in element type, sizes and every bit; strings in every byte. Twice the
   same, or twice NULL: yes. */
bool same_payload(const Tensor *a, const Tensor *b);
/* All integers of a constant, false when the value is none or has more than `max`. */
bool constant_ints(const Value *value, int64_t *out, int64_t max, int *n);

/* Rows of a table by their op, whose name each row begins with, so that a walk compares pointers instead of names.
       for (const OpRow *r = op_rows_of(&rows, node->op); r && r->op == node->op; r++) ... r->row ... */
typedef struct OpRow {
    const OpSchema *op; /* NULL behind the last */
    const void *row;
} OpRow;
typedef struct OpRows {
    OpRow *rows; /* by op; those of one op in the table's order */
    size_t n;
} OpRows;
tn_status op_rows(Arena *arena, const void *table, size_t n, size_t row_size, OpRows *out);
const OpRow *op_rows_of(const OpRows *rows, const OpSchema *op); /* the first; NULL when there is none */

/* Gives back the memory of payloads whose constants were erased, unless something else in the model still reads them. */
tn_status release_payloads(Model *model, Arena *scratch, Tensor *const *payloads, size_t n, int64_t *n_released);

/* ---- the fuser (fuser.c) ------------------------------------------------------------------------------------- */

/* For fusions that are written in C. A pattern is a few rows, each an op whose operands are results of rows before it, or
   inputs of the pattern. The last row's result is the pattern's output; those of the others are intermediates: they must
   be read within the match only, and be no output of the graph. */
enum { FUSER_NODES = 8, FUSER_OPERANDS = 8, FUSER_INPUTS = 16 };

typedef struct FuserNode {
    const char *name;                     /* of its result */
    const char *op;                       /* "MatMul", "com.microsoft.QGemm" */
    const char *operands[FUSER_OPERANDS]; /* all of them: rows above by name; any other name is an input */
    bool (*fits)(const Node *node);       /* NULL: any node of that op */
} FuserNode;

typedef struct FuserMatch {
    const struct Fuser *fuser;
    Node *nodes[FUSER_NODES]; /* by row */
    const char *input_names[FUSER_INPUTS];
    Value *inputs[FUSER_INPUTS]; /* never NULL */
    size_t n_inputs;
} FuserMatch;

typedef struct Fuser {
    FuserNode nodes[FUSER_NODES]; /* ends with an empty row */
    /* What must hold besides; NULL: nothing. */
    bool (*accept)(const FuserMatch *m);
    /* Makes the new node, with attributes, for the graph of the last row's node; it is not inserted. */
    tn_status (*make)(const FuserMatch *m, Node **out);
    /* Puts it in the place of the others; NULL: fuser_insert. */
    tn_status (*insert)(const FuserMatch *m, Node *fresh);
} Fuser;

/* What the pattern calls by that name: an input, or a row's result. */
Value *fuser_value(const FuserMatch *m, const char *name);
/* In front of the last node, whose result and name it takes over; the matched nodes are erased. */
tn_status fuser_insert(const FuserMatch *m, Node *fresh);
/* Fuses in one graph wherever the pattern is found, from top to bottom. `may_change` is asked before each change. */
tn_status fuser_run(const Fuser *fuser, Graph *graph, bool (*may_change)(void *user), void *user, int64_t *n_fused);

/* ---- groups (outline.c) -------------------------------------------------------------------------------------- */

/* All nodes of a graph in its order, at least one, and for each the place of its group's last node. A node by itself is its
   own. */
typedef struct NodeGroups {
    Node *const *nodes;
    uint32_t n;
    const uint32_t *place; /* by node id */
    uint32_t *last;        /* by place */
} NodeGroups;
/* Where among the nodes a reading is made: a node that stands in the graph, perhaps around the reader. UINT32_MAX: the
   graph's outputs. */
uint32_t groups_reader(const NodeGroups *groups, const Use *use);
/* Moves nodes so that those of a group stand side by side. TN_INTERNAL, and nothing has moved, where a group depends on
   itself through a node outside of it. */
tn_status groups_gather(const NodeGroups *groups, Arena *arena);
/* Nodes that stand side by side become the body of a new node in their place. What others read are its results, under the
   names they had; what they read is its operands, each once, except that constants `goes_in` tells of are in the body. */
tn_status outline_nodes(Node *const *nodes, size_t n, const OpSchema *op,
                        bool (*goes_in)(const Node *reader, uint32_t operand), Node **out);

#endif
