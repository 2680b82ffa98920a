/* SPDX-License-Identifier: Apache-2.0 */
/* Read and change graphs. Handles belong to their model; they stay valid until the model is released or the object is
   erased, after which nothing may be asked of them but tn_node_is_alive and its like. One thread changes a model at a
   time, and none may while a session of it runs. Functions fail as in tenon.h. */
#ifndef TENON_GRAPH_H
#define TENON_GRAPH_H

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_graph tn_graph;
typedef struct tn_node tn_node;
typedef struct tn_value tn_value;

/* ---- text ----------------------------------------------------------------------------------------------------- */

/* Each gives text that the caller returns with tn_free_text. Large constants are elided as `...`. */
TN_API tn_status tn_model_text(const tn_model *model, char **text);
TN_API tn_status tn_model_dot(const tn_model *model, char **text);  /* Graphviz: ops yellow boxes, values ellipses */
TN_API tn_status tn_value_text(const tn_value *value, char **text); /* a fragment with its free variables declared */
/* A model from text; constants must stand in the text. */
TN_API tn_status tn_model_from_text(tn_context *context, const char *text, tn_model **model);
/* An empty model with a graph of that name. */
TN_API tn_status tn_model_new(tn_context *context, const char *name, tn_model **model);
/* A whole copy, which shares the constants' memory. Give it back with tn_model_release. */
TN_API tn_status tn_model_clone(const tn_model *model, tn_model **copy);
/* Checks every rule of the IR. TN_INVALID_MODEL says which is broken where. */
TN_API tn_status tn_model_verify(const tn_model *model);
/* Verifies, then finds types and shapes of all values anew. */
TN_API tn_status tn_model_infer(tn_model *model);

/* ---- reading -------------------------------------------------------------------------------------------------- */

TN_API tn_graph *tn_model_graph(const tn_model *model); /* the main graph */
TN_API const char *tn_graph_name(const tn_graph *graph);
TN_API size_t tn_graph_n_inputs(const tn_graph *graph);
TN_API tn_value *tn_graph_input(const tn_graph *graph, size_t i); /* NULL when out of range, as everywhere below */
TN_API size_t tn_graph_n_outputs(const tn_graph *graph);
TN_API tn_value *tn_graph_output(const tn_graph *graph, size_t i);
TN_API size_t tn_graph_n_nodes(const tn_graph *graph);
TN_API tn_node *tn_graph_first(const tn_graph *graph); /* in an order where operands stand before users */
TN_API tn_node *tn_node_next(const tn_node *node);
TN_API tn_graph *tn_node_owner(const tn_node *node);    /* the graph it stands in */
TN_API const char *tn_node_op(const tn_node *node);     /* "Conv" */
TN_API const char *tn_node_domain(const tn_node *node); /* "" for ONNX's own */
TN_API const char *tn_node_name(const tn_node *node);   /* in the model it came from; may be "" */
TN_API size_t tn_node_n_operands(const tn_node *node);
TN_API tn_value *tn_node_operand(const tn_node *node, size_t i); /* NULL also for an absent optional one */
TN_API size_t tn_node_n_results(const tn_node *node);
TN_API tn_value *tn_node_result(const tn_node *node, size_t i);
TN_API tn_graph *tn_node_graph(const tn_node *node, size_t k); /* nested graphs: bodies, branches */
TN_API size_t tn_node_n_attrs(const tn_node *node);
TN_API const char *tn_node_attr_name(const tn_node *node, size_t i);
/* The node's value or the op's default. TN_NOT_FOUND, TN_INVALID_ARGUMENT for another kind. */
TN_API tn_status tn_node_get_int(const tn_node *node, const char *name, int64_t *value);
TN_API tn_status tn_node_get_float(const tn_node *node, const char *name, double *value);
TN_API tn_status tn_node_get_string(const tn_node *node, const char *name, const char **text, size_t *length);
TN_API tn_status tn_node_get_ints(const tn_node *node, const char *name, const int64_t **values, size_t *n);
TN_API tn_status tn_node_get_floats(const tn_node *node, const char *name, const float **values, size_t *n);
/* Element i of a list of strings; TN_OUT_OF_RANGE behind the last. */
TN_API tn_status tn_node_get_string_at(const tn_node *node, const char *name, size_t i, const char **text,
                                       size_t *length);
/* A tensor to be released, as of tn_value_constant. */
TN_API tn_status tn_node_get_tensor(const tn_node *node, const char *name, tn_tensor **tensor);
/* A nested graph: "body", "then_branch". */
TN_API tn_status tn_node_get_graph(const tn_node *node, const char *name, tn_graph **graph);
/* The kind of an attribute that the node has or may have. */
typedef enum tn_attr_kind {
    TN_ATTR_INT,
    TN_ATTR_FLOAT,
    TN_ATTR_STRING,
    TN_ATTR_TENSOR,
    TN_ATTR_GRAPH,
    TN_ATTR_TYPE,
    TN_ATTR_INTS,
    TN_ATTR_FLOATS,
    TN_ATTR_STRINGS,
    TN_ATTR_TENSORS,
    TN_ATTR_GRAPHS,
    TN_ATTR_TYPES,
    TN_ATTR_INT_LISTS
} tn_attr_kind;
TN_API tn_status tn_node_attr_kind(const tn_node *node, const char *name, tn_attr_kind *kind);
TN_API const char *tn_value_name(const tn_value *value); /* "" when it has none */
TN_API tn_node *tn_value_def(const tn_value *value);     /* NULL for a graph input */
TN_API tn_graph *tn_value_owner(const tn_value *value);  /* the graph whose input or node's result it is */
TN_API size_t tn_value_n_uses(const tn_value *value);
TN_API tn_status tn_value_get_info(const tn_value *value, tn_value_info *info);
/* A constant's payload as a tensor to be released, or NULL. It shares the model's memory: do not write to it. */
TN_API tn_tensor *tn_value_constant(const tn_value *value);

/* ---- changing ------------------------------------------------------------------------------------------------- */

TN_API tn_status tn_graph_add_input(tn_graph *graph, const char *name, tn_dtype dtype, int rank, const int64_t *dims,
                                    tn_value **value); /* dims of -1 are unknown */
/* The same with the type as the text form has it: "f32[batch,3,(h + 1)/2]" (names are sizes that are known when the
   model runs), "seq(f32[*])", "?". TN_MALFORMED names the place in the text. */
TN_API tn_status tn_graph_add_input_typed(tn_graph *graph, const char *name, const char *type, tn_value **value);
TN_API tn_status tn_graph_add_output(tn_graph *graph, tn_value *value, const char *name);
TN_API tn_status tn_graph_add_constant(tn_graph *graph, const tn_tensor *tensor, const char *name, tn_value **value);
/* A node at the end of the graph, or before `before` when that is not NULL. op is "Add" or "com.microsoft.QGemm". An
   operand may be NULL where the op allows it. TN_UNSUPPORTED for an unknown op, with a suggestion. */
TN_API tn_status tn_graph_add_node(tn_graph *graph, const char *op, tn_value *const *operands, size_t n_operands,
                                   size_t n_results, tn_node *before, tn_node **node);
TN_API tn_status tn_node_set_int(tn_node *node, const char *name, int64_t value);
TN_API tn_status tn_node_set_float(tn_node *node, const char *name, double value);
TN_API tn_status tn_node_set_string(tn_node *node, const char *name, const char *text, size_t length);
TN_API tn_status tn_node_set_ints(tn_node *node, const char *name, const int64_t *values, size_t n);
TN_API tn_status tn_node_set_floats(tn_node *node, const char *name, const float *values, size_t n);
TN_API tn_status tn_node_set_strings(tn_node *node, const char *name, const char *const *texts, const size_t *lengths,
                                     size_t n);
TN_API tn_status tn_node_set_tensor(tn_node *node, const char *name, const tn_tensor *tensor);
TN_API tn_status tn_node_set_operand(tn_node *node, size_t i, tn_value *value);
/* A graph to be nested in a node of `around`, such as the body of a Loop: it gets inputs, nodes and outputs like any
   other, its nodes may read what is visible in `around`, and it may be filled before or after a node holds it. Until
   one does (tn_node_set_graph) a model whose values it reads is not valid; tn_graph_erase gives it up. TN_LIMIT beyond
   tn_limits.max_nesting. */
TN_API tn_status tn_graph_new_nested(tn_graph *around, const char *name, tn_graph **graph);
/* Makes it the node's: "body", "then_branch". It then goes with the node. The node stands in the graph that it was made
   for. A graph that the attribute held before is erased. TN_NOT_FOUND where the op has no such attribute, TN_STATE when
   a node holds the graph already. */
TN_API tn_status tn_node_set_graph(tn_node *node, const char *name, tn_graph *graph);
/* Takes a nested graph out of its node again, to give it to another node of the same graph. TN_NOT_FOUND. */
TN_API tn_status tn_node_take_graph(tn_node *node, const char *name, tn_graph **graph);
/* Erases a nested graph that no node holds, with all in it. TN_STATE when one does. */
TN_API tn_status tn_graph_erase(tn_graph *graph);
TN_API tn_status tn_value_rename(tn_value *value, const char *name);
TN_API tn_status tn_value_replace(tn_value *value, tn_value *with); /* every reading of it */
/* TN_STATE while a result is read. The handles of the node, its results and all that is nested in it are invalid
   afterwards. */
TN_API tn_status tn_node_erase(tn_node *node);
/* Whether it was not erased. These may be asked of erased objects too, until the model is released. */
TN_API bool tn_node_is_alive(const tn_node *node);
TN_API bool tn_graph_is_alive(const tn_graph *graph);
TN_API bool tn_value_is_alive(const tn_value *value);

/* ---- walking -------------------------------------------------------------------------------------------------- */

/* Call-backs for a graph, its inputs and its nodes, operands before users, each once. Of a node: its location, its op,
   the types of its results, the graphs nested in it with all in them, then the function for the node itself. The order
   is found before the first call, so that call-backs may change the graph, and erase the node that they are given or
   any other: what is erased is not visited any more, what is added is not visited yet. An answer other than TN_OK stops
   the walk and is returned; user is the caller's context, and where results go. */
typedef tn_status (*tn_visit_fn)(void *user, tn_node *node);
typedef struct tn_visit_op {
    const char *op; /* "Conv", "com.microsoft.QGemm"; NULL ends the table */
    tn_visit_fn fn;
} tn_visit_op;
typedef struct tn_visitor { /* any member may be NULL */
    const tn_visit_op *ops; /* by op */
    tn_visit_fn node;       /* for all others */
    tn_status (*input)(void *user, tn_value *value);
    tn_status (*graph)(void *user, tn_graph *graph);
    void *user;
    tn_visit_fn constant; /* tn.Const nodes; NULL: like other nodes */
    /* Each is text that lives until the call-back returns, and whose it is. Nodes without a location are left out. */
    tn_status (*location)(void *user, const char *location, tn_node *node);
    tn_status (*op)(void *user, const char *op, tn_node *node);
    tn_status (*type)(void *user, const char *type, tn_value *value); /* "f32[2,3]"; of inputs too */
    bool (*descend)(void *user, const tn_node *node); /* into the graphs nested in it? NULL: yes. May change nothing */
    /* Where to write, before each call, how often its object was reached: the same location, op or type so far; in
       tn_visit_value a node or an input in all, that is how often what was visited reads it; else 1. */
    uint32_t *count;
} tn_visitor;
/* A whole model, a graph with what is nested in it, or all that one value depends on, up to graph inputs. TN_NOT_FOUND
   when the table has an op that does not exist. */
TN_API tn_status tn_visit(tn_model *model, const tn_visitor *visitor);
TN_API tn_status tn_visit_graph(tn_graph *graph, const tn_visitor *visitor);
TN_API tn_status tn_visit_value(tn_value *value, const tn_visitor *visitor);

/* ---- rebuilding ----------------------------------------------------------------------------------------------- */

/* Called for each node in order, before what is nested in it. `operands` are what became of the node's operands in the
   new model, where `into` is the graph under construction. To replace the node, add others to `into`, set results[i]
   for each result to a value that is visible there, and set *changed; a result that nobody reads may stay NULL, and the
   new value takes the old one's name unless it has its own. What is nested in a replaced node is not rebuilt. Otherwise
   the node is copied. The old model must not be changed meanwhile. */
typedef tn_status (*tn_mutate_fn)(void *user, const tn_node *node, tn_graph *into, tn_value *const *operands,
                                  tn_value **results, bool *changed);
typedef struct tn_mutate_op {
    const char *op; /* NULL ends the table */
    tn_mutate_fn fn;
} tn_mutate_op;
typedef struct tn_mutator {  /* any member may be NULL */
    const tn_mutate_op *ops; /* by op */
    tn_mutate_fn node;       /* for all others */
    tn_mutate_fn constant;   /* tn.Const nodes; NULL: like other nodes */
    /* *value is the new model's input; what it is set to is what its readers get. */
    tn_status (*input)(void *user, const tn_value *input, tn_value **value);
    /* `fresh` has all that came of `graph`, outputs included. Sets *changed when it changes it. */
    tn_status (*graph)(void *user, const tn_graph *graph, tn_graph *fresh, bool *changed);
    /* Other text for a copied node's location, and for the type of inputs and of copied nodes' results; NULL, which
       *other is at first, keeps it. The text is read at once after the call. Each type is asked for once; those of
       constants, which their data say, are not. */
    tn_status (*location)(void *user, const char *location, const char **other);
    tn_status (*type)(void *user, const char *type, const char **other);
    void *user;
} tn_mutator;
/* Rebuilds a model; each value is rebuilt once, whoever reads it. Where nothing changed *out is `model` itself, with
   one more reference, else a new model whose new nodes have no types until tn_model_infer. Either is given back with
   tn_model_release. Fails with what a call-back answered, TN_INVALID_ARGUMENT for results of the wrong graph or missing
   ones, TN_NOT_FOUND when the table has an op that does not exist. */
TN_API tn_status tn_mutate(tn_model *model, const tn_mutator *mutator, tn_model **out);

#ifdef __cplusplus
}
#endif
#endif
