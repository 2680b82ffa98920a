/* SPDX-License-Identifier: Apache-2.0 */
/* Read and change graphs. Handles belong to their model; they stay valid until the model is released or the object is
   erased. One thread changes a model at a time, and none may while a session of it runs. Functions fail as in
   tenon.h. */
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
/* The kind of an attribute that the node has or may have. Nested graphs are asked for with tn_node_graph. */
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
TN_API size_t tn_value_n_uses(const tn_value *value);
TN_API tn_status tn_value_get_info(const tn_value *value, tn_value_info *info);
/* A constant's payload as a tensor to be released, or NULL. It shares the model's memory: do not write to it. */
TN_API tn_tensor *tn_value_constant(const tn_value *value);

/* ---- changing ------------------------------------------------------------------------------------------------- */

TN_API tn_status tn_graph_add_input(tn_graph *graph, const char *name, tn_dtype dtype, int rank, const int64_t *dims,
                                    tn_value **value); /* dims of -1 are unknown */
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
TN_API tn_status tn_value_rename(tn_value *value, const char *name);
TN_API tn_status tn_value_replace(tn_value *value, tn_value *with); /* every reading of it */
/* TN_STATE while a result is read. The handles of the node and its results are invalid afterwards. */
TN_API tn_status tn_node_erase(tn_node *node);

/* ---- walking -------------------------------------------------------------------------------------------------- */

/* Calls `node` for each node, operands before users, nested graphs before the node that owns them. An answer other
   than TN_OK stops the walk and is returned. */
typedef tn_status (*tn_visit_fn)(void *user, tn_node *node);
typedef struct tn_visit_op {
    const char *op; /* NULL ends the table */
    tn_visit_fn fn;
} tn_visit_op;
typedef struct tn_visitor {
    const tn_visit_op *ops; /* by op; may be NULL */
    tn_visit_fn node;       /* for all others; may be NULL */
    tn_status (*input)(void *user, tn_value *value);
    tn_status (*graph)(void *user, tn_graph *graph);
    void *user;
} tn_visitor;
TN_API tn_status tn_visit(tn_model *model, const tn_visitor *visitor);

#ifdef __cplusplus
}
#endif
#endif
