/* SPDX-License-Identifier: Apache-2.0 */
/* Proofs: instances of a rule's left side, how they are drawn, what becomes of them. */
#ifndef TENON_REWRITE_PROVE_INT_H
#define TENON_REWRITE_PROVE_INT_H

#include "eval/eval.h"
#include "rewrite/rewrite_int.h"

/* ---- chance -------------------------------------------------------------------------------------------------- */

/* The same sequence on every machine. */
typedef struct Dice {
    uint64_t state;
} Dice;
static inline uint64_t dice_roll(Dice *dice) {
    uint64_t z = dice->state += 0x9E3779B97F4A7C15u;
    z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9u;
    z = (z ^ z >> 27) * 0x94D049BB133111EBu;
    return z ^ z >> 31;
}

/* Both included. */
static inline int64_t dice_int(Dice *dice, int64_t from, int64_t to) {
    return to <= from ? from : from + (int64_t)(dice_roll(dice) % (uint64_t)(to - from + 1));
}

/* In [0, 1). */
static inline double dice_unit(Dice *dice) { return (double)(dice_roll(dice) >> 11) * 0x1p-53; }
static inline bool dice_chance(Dice *dice, int percent) { return dice_int(dice, 0, 99) < percent; }

/* ---- instances (instance.c) ---------------------------------------------------------------------------------- */

enum { INSTANCE_VALUES = 192, INSTANCE_NODES = 80, INSTANCE_ATTRS = 24, INSTANCE_RANK = 6 };

/* What an instance is given. */
typedef struct Leaf {
    Tensor data;
    bool constant;               /* a Const; else an input of the graph */
    bool no_shape;               /* not even the rank is declared */
    uint8_t symbol[TN_MAX_RANK]; /* the name of a size that is declared as one; 0: it is a number */
} Leaf;

/* A node. */
typedef struct Piece {
    const OpSchema *op;
    int in[OP_MAX_INPUTS]; /* values; -1: absent */
    int n_in, out, n_out;  /* results are values out, out + 1 ... */
    Attr attrs[INSTANCE_ATTRS];
    size_t n_attrs;
} Piece;

/* A left side as a whole model, as data: to be built as often as need be. */
typedef struct Instance {
    Leaf leaves[INSTANCE_VALUES];
    int n_leaves;
    Piece pieces[INSTANCE_NODES];
    int n_pieces, root;
    struct InstanceValue {
        int leaf;  /* -1: a piece's result */
        int piece; /* -1: a leaf */
        Str name;  /* as in the rule; may be empty */
    } values[INSTANCE_VALUES];
    int n_values;
    bool output[INSTANCE_VALUES]; /* of the graph */
    bool reread[INSTANCE_VALUES]; /* an Identity, which is an output, reads it too */
    bool odd;                     /* NaN and infinities are among the numbers: what is not exact may differ */
    bool constants_first;         /* Const nodes stand before all others; else before what reads them */
} Instance;

void instance_free(Instance *x); /* the leaves' data */
/* `root` may be NULL. */
tn_status instance_model(Context *ctx, const Instance *x, Model **model, Node **root);
int64_t instance_weight(const Instance *x); /* how much there is to read */

/* ---- judging (judge.c) --------------------------------------------------------------------------------------- */

typedef enum Verdict {
    VERDICT_NONE, /* the rule does not match here, or the left side itself does not run */
    VERDICT_HOLDS,
    VERDICT_REFUTED
} Verdict;
typedef struct Judgement {
    Verdict verdict;
    bool tells;        /* some number was compared that is finite */
    bool exact;        /* no bit differs, NaNs aside */
    double difference; /* the largest in f64, of the scale */
    char why[512];     /* it is refuted */
} Judgement;
/* `rewritten`, unless NULL, is the graph that the rule made, as text. */
tn_status instance_judge(Context *ctx, const Instance *x, Matcher *matcher, Judgement *out, Text *rewritten);

/* ---- drawing (sample.c) -------------------------------------------------------------------------------------- */

/* What numbers are like in one instance. */
enum { NORMAL, SMALL, LARGE, ALL_EQUAL, MANY_ZEROS };

/* How wild instances are. */
typedef struct Knobs {
    int64_t max_size; /* of a dimension */
    bool plain;       /* no symbols, no readers besides, no odd shapes of constants */
} Knobs;

/* What conditions ask of a value of the left side. */
typedef struct Want {
    TypeSet types;
    uint32_t ranks;  /* bit r: may be of rank r */
    int8_t constant; /* 1: must be; 0: must not; -1: either */
    int8_t present;
    bool one_use;
} Want;

/* A condition to aim at, with bits of the values and of the $variables that it mentions. */
typedef struct Hint {
    const Expr *e;
    uint64_t values;
    uint32_t vars;
} Hint;

typedef struct Sampler {
    const Rule *rule;
    Context *ctx;  /* its own, with tight limits */
    Arena arena;   /* of one instance */
    Arena scratch; /* of kernels */
    Dice dice;
    Knobs knobs;
    const Expr *tests[LIST_MAX * 2]; /* the conditions, `and` taken apart */
    size_t n_tests;
    Hint hints[LIST_MAX * 2]; /* the same, of `or` one side: what to aim at */
    size_t n_hints;
    int64_t sizes[3]; /* that dimensions are drawn from */
    int n_sizes;
    tn_dtype real; /* the element type of floats */
    bool mixed;    /* but where operands need not be of one type they may be of two */
    int magnitude; /* NORMAL ... */
    bool positive, coarse, symbols, prefer_f32;
    Model *model; /* where the pieces are tried out */
    Graph *graph;
    Match match;
    Want wants[RULE_VALUES];
    int classes[2 * RULE_VALUES]; /* values of one element type: those of the left, then those of the right */
    TypeSet class_types[2 * RULE_VALUES];
    tn_dtype class_dtype[2 * RULE_VALUES];
    const OpSchema *ops[RULE_NODES];
    bool done[RULE_NODES];
    int value_of[RULE_VALUES];     /* of the instance; UNBORN, ABSENT */
    Value *tried[INSTANCE_VALUES]; /* in `model` */
    Tensor known[INSTANCE_VALUES]; /* what it is; of leaves their data */
    Instance *instance;
    struct Ask *ask;
    int turn;          /* of instances that were drawn: goes round alternatives */
    const Expr *unmet; /* the condition that did not hold last */
    char problem[256]; /* or what else was wrong */
    tn_status failed;  /* memory is out */
} Sampler;
enum { UNBORN = -1, ABSENT = -2 };

tn_status sampler_init(Sampler *s, Context *ctx, const Rule *rule);
void sampler_free(Sampler *s); /* is due in any case */
/* *drawn false: it led nowhere; s->unmet or s->problem say why. The instance lives until the next call. */
tn_status sampler_draw(Sampler *s, uint64_t seed, Knobs knobs, bool *drawn);

/* ---- one node that is drawn (sample*.c) -------------------------------------------- */

typedef enum FillKind {
    FILL_RANDOM,
    FILL_NUMBER, /* all of them */
    FILL_INTS,   /* a list, which decides the shape */
    FILL_FLOATS,
    FILL_STARTS,   /* these integers, of any sign, at the start of each row; zeros behind them */
    FILL_RANGE,    /* integers from low to high */
    FILL_VARIANCE, /* not negative, down to 0 */
    FILL_SCALE,    /* powers of two */
    FILL_FAR,      /* so far apart that their exponentials are zeros and infinities */
    FILL_HOLES,    /* some of them NaN */
    FILL_MASK,     /* some of them -inf, but not the first of a row */
    FILL_ROWS,     /* a mask of which whole rows may be -inf */
    FILL_HALVES,   /* twice the same along the last dimension */
    FILL_TRIANGLE  /* a mask that hides what lies behind each row's place */
} FillKind;
typedef struct Fill {
    FillKind kind;
    double number;
    int64_t low, high;
    size_t n;
    const int64_t *ints;
    const double *floats;
} Fill;

typedef enum SlotState { SLOT_ABSENT, SLOT_KNOWN, SLOT_FREE } SlotState;
typedef struct Slot {
    SlotState state;
    const RuleOperand *operand; /* NULL: one of %x... */
    const OperandSpec *spec;
    int value; /* of the instance, when known */
    tn_dtype dtype;
    int rank;                      /* -1: open */
    int64_t dims[TN_MAX_RANK];     /* -1: open */
    int64_t from_end[TN_MAX_RANK]; /* sizes asked for while the rank is open; -1: none */
    bool number;                   /* a number that the rule writes: mostly a scalar */
    bool no_grow;                  /* must broadcast to the others */
    bool filled;
    Fill fill;
} Slot;

typedef struct Ask {
    Sampler *s;
    int node; /* of the rule */
    const RuleNode *rule;
    const OpSchema *op;
    Slot in[OP_MAX_INPUTS];
    int n_in, n_out;
    Attr attrs[INSTANCE_ATTRS];
    size_t n_attrs;
    uint32_t open; /* bit i: attribute i of the op is still to be drawn */
    bool wanted;   /* the result should have this shape, and rank if only `ranks` is set */
    Shape want;
    uint32_t ranks;
    Slot aim; /* what conditions say of the result's sizes so far: -1 is open */
} Ask;

static inline bool slot_open(const Ask *a, int i) { return i < a->n_in && a->in[i].state == SLOT_FREE; }
static inline bool slot_there(const Ask *a, int i) { return i < a->n_in && a->in[i].state != SLOT_ABSENT; }
bool slot_shaped(const Slot *slot); /* every size is there */
int64_t some_size(Sampler *s);
int some_rank(Sampler *s, uint32_t mask); /* -1: the mask is empty */
void slot_set(Slot *slot, int rank, const int64_t *dims);

/* sample_shapes.c. Sizes of all operands, except those whose contents decide them. False: nothing fits. */
bool ask_shapes(Ask *a);
/* Of the op alone: ranks that operand i may have; whether result 0 has the rank of operand 0. */
uint32_t op_ranks(const OpSchema *op, int i);
bool op_keeps_rank(const OpSchema *op);

/* sample_attrs.c */
const Attr *ask_attr(const Ask *a, const char *name); /* NULL: not there */
int64_t ask_int(const Ask *a, const char *name);      /* or its default */
bool ask_is_open(const Ask *a, const char *name);
/* Draws it if it is open: those that shapes depend on before them. */
bool ask_draw_attr(Ask *a, const char *name);
bool ask_draw_attrs(Ask *a);
tn_status ask_set(Ask *a, const Attr *attr);

/* sample_data.c. Whether the contents of an operand have a meaning: a list of axes, indices, scales. */
bool has_part(const Ask *a, int i);
bool ask_contents(Ask *a, int i); /* of a free one, sizes included where they are open still */
tn_status leaf_data(Sampler *s, const Slot *slot, Tensor *out);

/* guide.c */
void guide_begin(Sampler *s);                  /* element types, ranks and the like, once ops are chosen */
tn_dtype guide_dtype(Sampler *s, int value);   /* of a value of the left side */
bool guide_knows_dtype(Sampler *s, int value); /* conditions, or others of its kind, say it */
bool guide_ready(const Sampler *s, const Expr *e);
/* What conditions say of a value that is about to be made. */
bool guide_slot(Sampler *s, int value, Slot *slot);
/* Whether a condition equates something of it with what is not there yet. */
bool guide_awaits(const Sampler *s, int value);
/* A value for a $variable that is not bound: from the conditions. */
bool guide_var(Sampler *s, int var, Val *out);
/* What numbers of a value, or of what a variable stands for, are to be; their places decide how many. */
bool guide_fill(Sampler *s, int var, int value, Slot *slot);
/* Finds the variable in `e` that makes it `want`, and binds it. */
bool guide_bind(Sampler *s, const Expr *e, const Val *want);
bool guide_holds(Sampler *s); /* every condition that can be asked by now; s->unmet */

#endif
