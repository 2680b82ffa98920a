/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of ir/ share with each other only. */
#ifndef TENON_IR_IR_INT_H
#define TENON_IR_IR_INT_H

#include "ir/ir.h"

/* ---- model.c ------------------------------------------------------------------------------------------------- */

/* What a model has beside what others see. */
typedef struct ModelStore {
    Model model;              /* first, so that the one pointer is the other */
    Arena texts;              /* interned text, apart from the nodes: what walks over these does not bring it along */
    Allocator arena_vectors;  /* on the model's arena; freeing does nothing. For the vectors of graphs */
    Map name_next;            /* name -> the next suffix to try for another value of that name */
    uint64_t n_live;          /* nodes made and not erased */
    uint64_t n_returns;       /* those of them that stand for a graph's outputs */
    const OpSchema *op_const; /* found on first use */
    VEC(Graph *) loose;       /* graphs that no node held when they came in here, so that ids reach them */
} ModelStore;

static inline ModelStore *model_store(const Model *model) { return (ModelStore *)model; }
static inline const Allocator *model_allocator(const Model *model) { return &model->ctx->allocator; }
/* For copies of whole models: all text of `from`, in a model that has none yet; then text of the one as that of the other,
   without looking it up. */
tn_status model_copy_strings(Model *to, const Model *from);
Str model_same_str(const Model *to, Str s);
tn_status value_set_same_name(Value *value, Str name); /* of the old model */
/* Whether the value's name, which is not empty, leads back to it. */
bool value_owns_name(const Value *value);
/* Gives up a value's name. */
void value_drop_name(Value *value);

/* ---- node.c, order.c ----------------------------------------------------------------------------------------- */

/* A node without results, with a number; in no list. */
tn_status node_alloc(Graph *graph, const OpSchema *op, size_t n_operands, Node **out);
tn_status value_alloc(Graph *graph, Node *def, size_t index, const Type *type, Value *value);
/* Gives a node that was just linked into its graph's list an order number between its neighbours'. */
void order_assign(Node *node);
enum { ORDER_OF_RETURN = -1 }; /* as uint64_t: after all others */

/* ---- dim_poly.c ---------------------------------------------------------------------------------------------- */

/* Finds or adds an expression that is already in its simplest form. */
Dim dim_intern(DimTable *table, DimOp op, Dim a, Dim b);
/* a op b where at least one is no constant and none is unknown. */
Dim dim_simplify(DimTable *table, DimOp op, Dim a, Dim b);

/* ---- schema.c ------------------------------------------------------------------------------------------------ */

bool op_is_constant(const OpSchema *op);
/* "com.microsoft.QGemm" or "Conv" in `buffer`, cut off when it does not fit. */
const char *op_full_name(const OpSchema *op, char *buffer, size_t size);

/* ---- ptrmap.c ------------------------------------------------------------------------------------------------ */

/* Pointers to pointers. */
typedef struct PtrMapSlot {
    const void *key; /* NULL: free */
    void *value;
} PtrMapSlot;
typedef struct PtrMap {
    const Allocator *allocator;
    PtrMapSlot *slots;
    size_t n, cap;
} PtrMap;
/* NULL when absent; valid until the next ptrmap_set. */
PtrMapSlot *ptrmap_find(const PtrMap *map, const void *key);
tn_status ptrmap_set(PtrMap *map, const void *key, void *value);
void ptrmap_free(PtrMap *map);

/* ---- visit.c ------------------------------------------------------------------------------------------------- */

/* Where the functions of a table by op stand: schema -> row. `whose` is said when there is no such op. */
tn_status add_op_row(PtrMap *rows, const char *whose, const char *name, size_t row);
bool find_op_row(const PtrMap *rows, const OpSchema *op, uint32_t *row);

/* ---- walk.c -------------------------------------------------------------------------------------------------- */

/* Goes through a graph and what is nested in it, without recursion. Of each graph: WALK_ENTER, then its nodes, then
   WALK_LEAVE; of each node: WALK_BEFORE, its nested graphs, WALK_AFTER. The node of WALK_AFTER may be erased before
   the next step. */
typedef enum WalkEvent { WALK_END, WALK_ENTER, WALK_BEFORE, WALK_AFTER, WALK_LEAVE } WalkEvent;
typedef struct WalkFrame {
    Graph *graph;
    Node *node; /* whose nested graphs are being walked; NULL: none */
    Node *next;
    uint32_t attr; /* the next nested graph of `node`: attribute and place in its list */
    size_t item;
} WalkFrame;
typedef struct Walk {
    const Allocator *allocator;
    VEC(WalkFrame) stack;
    Graph *start;
    Graph *graph;     /* of the event */
    Node *node;       /* of the event */
    bool skip_nested; /* set by the caller at WALK_BEFORE: go straight to WALK_AFTER */
} Walk;
void walk_init(Walk *walk, const Allocator *allocator, Graph *graph);
tn_status walk_next(Walk *walk, WalkEvent *event);
void walk_free(Walk *walk);
/* The nested graph at (*attr, *item), which then point behind it; NULL when there is none left. Start with zeros. */
Graph *node_next_graph(const Node *node, uint32_t *attr, size_t *item);

/* ---- copy.c -------------------------------------------------------------------------------------------------- */

/* Copies graphs, from one model to another or within one. */
typedef struct CopyFrame {
    const Graph *from;
    Graph *to;
    const Node *next;
    bool open; /* to be filled from the outside: inputs bound, outputs not added */
} CopyFrame;
typedef struct Copier {
    const Model *from;
    Model *to;
    const Allocator *allocator;
    PtrMap values, types, tensors; /* old -> new; a value bound to nothing is there with NULL */
    Value **by_id;                 /* instead of `values` where a whole model is copied: by the old value's id */
    size_t n_ids;
    VEC(CopyFrame) stack;
    bool kept_buffers;
    /* Asked for each node before it is copied; sets *done when it bound the results itself. NULL: copies all. */
    tn_status (*node)(void *user, struct Copier *copier, const Node *node, Graph *into, bool *done);
    /* Others that may be NULL. What an input's readers get; the type of a value; a node's location; a graph that is
       complete. */
    tn_status (*input)(void *user, const Value *old, Value **value);
    tn_status (*type)(void *user, const Value *old, const Type **type);
    tn_status (*location)(void *user, Str *loc);
    tn_status (*graph)(void *user, const Graph *old, Graph *graph);
    void *user;
    VEC(Value *) operands; /* scratch */
} Copier;
void copier_init(Copier *copier, const Model *from, Model *to);
void copier_free(Copier *copier);
tn_status copier_bind(Copier *copier, const Value *old, Value *value);
tn_status copier_value(Copier *copier, const Value *old, Value **out);
/* Inputs, their defaults, nodes, nested graphs and outputs of `from` into the empty graph `to`. */
tn_status copy_graph(Copier *copier, const Graph *from, Graph *to);
/* The nodes of `from` only, its inputs being bound already. */
tn_status copy_body(Copier *copier, const Graph *from, Graph *to);
/* File name, metadata, mapped buffers and an empty main graph. */
tn_status copy_model_shell(Copier *copier);

#endif
