/* SPDX-License-Identifier: Apache-2.0 */
/* Passes, ops and kernels from outside: from a shared object that is not linked to the library, or from the program that
 * uses it. docs/plugins.md is the manual, docs/first-pass.md the tutorial. A whole plug-in:
 *
 *     #include <stdio.h>
 *     #include <tenon/plugin.h>
 *
 *     static tn_status count_nodes(tn_pass_run *run, tn_graph *graph) {
 *         printf("%zu nodes\n", tn_graph_n_nodes(graph));
 *         return TN_OK;
 *     }
 *     TN_REGISTER_PASS(TN_POST_REWRITE, 10, count_nodes);
 *     TN_PLUGIN("count");
 *
 *     cc -shared -fPIC -I include count.c -o count.so        tenon run --plugin ./count.so model.onnx
 *
 * What is registered is copied, strings included; functions must stay. Call-backs may run in several threads at once and
 * fail with tn_fail. Functions of this header fail as in tenon.h. */
#ifndef TENON_PLUGIN_H
#define TENON_PLUGIN_H

#include <tenon/graph.h>
#include <tenon/passes.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Rises when a struct below changes other than by members at its end. */
#define TN_PLUGIN_API 1

/* For call-backs: what went wrong, on one line, as tn_last_error will tell it. Returns `status`. */
TN_API tn_status tn_fail(tn_status status, const char *format, ...) TN_PRINTF(2, 3);

/* ---- passes --------------------------------------------------------------------------------------------------- */

typedef struct tn_pass_run tn_pass_run; /* one run of a pass; gone when the function returns */

typedef struct tn_pass_desc {
    size_t size;      /* sizeof(tn_pass_desc) */
    const char *name; /* "print-calls"; dashes and underscores are one */
    const char *summary;
    tn_pass_kind kind;
    tn_phase phase;  /* TN_NO_PHASE: runs only where a pipeline names it */
    int order;       /* within the phase, then by name */
    int opt_level;   /* scheduled at this level (0 to 3) and above */
    bool each_graph; /* called for each graph, those nested first; else once, with the main graph */
    bool per_shape;  /* must be set for TN_POST_PARTITION, where it runs again for each set of input sizes */
    /* Lists are words with spaces between them; NULL: none. */
    const char *targets;            /* "cpu": not unless one of them is a valid place */
    const char *excluded;           /* not if one of them is */
    const char *kernels;            /* "Gemm Conv@cpu": not unless there are kernels for these ops on a valid place */
    const char *required;           /* passes that are run before it unless what they did still holds */
    const char *keeps;              /* passes whose work still holds after this one */
    tn_pass_option_info options[8]; /* name, kind, preset, help */
    /* One of the two: what it does, or the passes that it stands for. */
    tn_status (*run)(tn_pass_run *run, tn_graph *graph);
    const char *pipeline;
    void *user; /* for tn_pass_run_user */
} tn_pass_desc;

/* The value of an option that the pass declared with that kind; asking for another fails the pass. The text lives as long
   as the run. */
TN_API int64_t tn_pass_run_int(tn_pass_run *run, const char *option);
TN_API double tn_pass_run_float(tn_pass_run *run, const char *option);
TN_API bool tn_pass_run_bool(tn_pass_run *run, const char *option);
TN_API const char *tn_pass_run_string(tn_pass_run *run, const char *option);
/* Adds to a statistic of the report: "folded". */
TN_API tn_status tn_pass_run_count(tn_pass_run *run, const char *what, int64_t n);
/* To be asked before each change: false when the caller's limit of changes is reached. It is how a wrong answer is traced
   to one change of one pass. */
TN_API bool tn_pass_run_may_change(tn_pass_run *run);
/* A handle of the model for the time of the run: neither it nor a session of it may outlast that (a tn_model_clone may).
   NULL when memory is out. */
TN_API tn_model *tn_pass_run_model(tn_pass_run *run);
TN_API tn_context *tn_pass_run_context(tn_pass_run *run);
TN_API const char *tn_pass_run_pass(tn_pass_run *run); /* its name */
TN_API void *tn_pass_run_user(tn_pass_run *run);
/* Zeroed memory that is gone after the run; NULL when it is out. */
TN_API void *tn_pass_run_scratch(tn_pass_run *run, size_t size);

/* For this process, from any thread. TN_INVALID_ARGUMENT for a name that is taken or a desc that contradicts itself. */
TN_API tn_status tn_register_pass(const tn_pass_desc *desc);
/* It is no longer found; what is being made with it goes on. TN_NOT_FOUND; TN_INVALID_ARGUMENT for the engine's own. */
TN_API tn_status tn_unregister_pass(const char *name);

/* ---- ops ------------------------------------------------------------------------------------------------------ */

/* Types are element types and classes of them, with | between: "f32|f64", "float" (f32 f64 f16 bf16), "int" (8 to 64 bits,
   signed or not), "numeric" (both), "any" (all but strings). An upper-case letter among them groups operands and results
   whose element types are the same: "float|T"; by itself, it takes the types of the first of its group. */
typedef struct tn_operand_desc {
    const char *name;
    const char *types;
    bool optional;
    bool variadic; /* the last one: once or more often; with `optional`, also never */
} tn_operand_desc;
typedef struct tn_attr_desc {
    const char *name;
    tn_attr_kind kind; /* a number, text, tensor, or a list of numbers or texts */
    bool required;
    int64_t i; /* what it is when a node has it not; a list is empty then */
    double f;
    const char *s;
} tn_attr_desc;

enum {
    TN_OP_COMMUTATIVE = 1, /* the first two operands may be swapped */
    TN_OP_ELEMENTWISE =
        2,             /* a result's element depends on the operands' elements at its place only, and is written after
                              they are read: the result may lie in an operand's memory */
    TN_OP_RANDOM = 4,  /* never computed ahead, never shared */
    TN_OP_DYNAMIC = 8, /* sizes of results follow from contents: `run` asks tn_call_alloc_output for their memory */
    TN_OP_STRIDED = 16 /* `run` takes operands in any strides; else it gets dense ones */
};

typedef struct tn_infer tn_infer; /* one inference; gone when the function returns */
typedef struct tn_call tn_call;   /* one run of an op or a kernel; likewise */

typedef struct tn_op_desc {
    size_t size;        /* sizeof(tn_op_desc) */
    const char *domain; /* "com.example"; ONNX's own and Tenon's are taken */
    const char *name;   /* "Scale" */
    const char *summary;
    unsigned flags;
    tn_operand_desc inputs[14]; /* the names end the lists */
    tn_operand_desc outputs[8];
    tn_attr_desc attrs[24];
    uint32_t content_inputs; /* bit i: the contents of operand i decide the results' sizes */
    /* Element types and shapes of the results, without computing them; those with a group letter have their element type.
       NULL: the results are like operand 0. */
    tn_status (*infer)(tn_infer *infer);
    /* Computes them. What other kernels are compared to: plain, and right. */
    tn_status (*run)(tn_call *call);
} tn_op_desc;

/* Operands, as far as known. A size is a number from 0 on; other sizes are negative, are known when the model runs, and may
   be handed on to tn_infer_set_output where a result has the same. -1 is known to nobody. */
TN_API const tn_node *tn_infer_node(const tn_infer *infer); /* for its attributes: tn_node_get_int ... */
TN_API size_t tn_infer_n_inputs(const tn_infer *infer);
TN_API size_t tn_infer_n_outputs(const tn_infer *infer);
TN_API bool tn_infer_has_input(const tn_infer *infer, size_t i);
TN_API tn_dtype tn_infer_input_dtype(const tn_infer *infer, size_t i);        /* TN_UNDEFINED: not known */
TN_API int tn_infer_input_rank(const tn_infer *infer, size_t i);              /* -1: not known */
TN_API int64_t tn_infer_input_dim(const tn_infer *infer, size_t i, int axis); /* axis -1 is the last */
/* The elements of a small integer operand, at most `max` of them; false while they are not known. */
TN_API bool tn_infer_input_ints(const tn_infer *infer, size_t i, int64_t *values, size_t max, size_t *n);
/* dtype TN_UNDEFINED: as its group says; rank -1: not known. TN_OUT_OF_RANGE, TN_LIMIT, TN_INVALID_ARGUMENT. */
TN_API tn_status tn_infer_set_output(tn_infer *infer, size_t i, tn_dtype dtype, int rank, const int64_t *dims);
/* Result i like operand k; like all operands broadcast as numpy does (TN_SHAPE). */
TN_API tn_status tn_infer_set_like(tn_infer *infer, size_t i, size_t k);
TN_API tn_status tn_infer_set_broadcast(tn_infer *infer, size_t i);

/* A tensor in memory. Strides count elements; elements under 8 bits are packed, first one lowest, and always dense. */
typedef struct tn_view {
    tn_dtype dtype;
    int rank;
    const int64_t *dims;
    const int64_t *strides;
    void *data; /* of element 0; may be NULL when there is none */
} tn_view;

TN_API const tn_node *tn_call_node(const tn_call *call);
TN_API size_t tn_call_n_inputs(const tn_call *call);
TN_API size_t tn_call_n_outputs(const tn_call *call);
/* False for an optional operand that is absent. Not to be written. */
TN_API bool tn_call_input(const tn_call *call, size_t i, tn_view *view);
/* False when nobody reads it: it need not be computed. Dense; without data where tn_call_alloc_output is to be called. */
TN_API bool tn_call_output(const tn_call *call, size_t i, tn_view *view);
TN_API tn_status tn_call_alloc_output(tn_call *call, size_t i, int rank, const int64_t *dims, tn_view *view);
/* Zeroed memory that is gone after the call; NULL when it is out. */
TN_API void *tn_call_scratch(tn_call *call, size_t size);
/* Calls fn for ranges that cover 0..n-1 once each, in several threads; `cost` is the rough number of nanoseconds of one
   item. What an item computes must not depend on how the range is cut. */
TN_API tn_status tn_call_parallel(tn_call *call, int64_t n, double cost,
                                  void (*fn)(void *arg, int64_t begin, int64_t end), void *arg);
/* For long loops: an error when the run is cancelled or past its deadline, to be returned. */
TN_API tn_status tn_call_poll(tn_call *call);

/* ---- kernels -------------------------------------------------------------------------------------------------- */

/* Another way to compute an op, the engine's or a plug-in's. Of the kernels that match a node, the one of the highest
   priority runs it; at equal priority those of plug-ins come before the engine's. Operands are dense. */
typedef struct tn_kernel_desc {
    size_t size;        /* sizeof(tn_kernel_desc) */
    const char *name;   /* "scale_fast": what `tenon show` says of a node that it runs */
    const char *op;     /* "Conv", "com.example.Scale" */
    const char *target; /* NULL: "cpu" */
    tn_dtype precision; /* of its results; TN_UNDEFINED: any */
    int priority;       /* from 0 on; the reference kernels have 0, the engine's others 90 to 199 */
    /* Whether it can run this node at these sizes. Operands have data where they are constants; attributes are the
       node's. NULL: all nodes. */
    bool (*match)(const tn_call *call);
    tn_status (*run)(tn_call *call);
} tn_kernel_desc;

/* ---- plug-ins ------------------------------------------------------------------------------------------------- */

/* What a shared object exports as `tn_plugin_info`. The first two members stay in all versions. */
typedef struct tn_plugin {
    uint32_t api;  /* TN_PLUGIN_API */
    uint32_t size; /* sizeof(tn_plugin) */
    const char *name;
    const char *(*engine)(void); /* tn_version: tells whether the plug-in's calls reach the engine that loads it */
    const tn_pass_desc *const *passes, *const *passes_end;
    const tn_op_desc *const *ops, *const *ops_end;
    const tn_kernel_desc *const *kernels, *const *kernels_end;
} tn_plugin;

/* Loads a shared object and registers all that it brings, or nothing when some of it cannot be. It stays for the rest of the
   process; loading it again does nothing. TN_IO, TN_MALFORMED for what is no plug-in, TN_UNSUPPORTED for one of another
   version, TN_INVALID_ARGUMENT for names that are taken. */
TN_API tn_status tn_load_plugin(const char *path);
/* Those that the environment's TENON_PLUGINS names, with colons between the paths. */
TN_API tn_status tn_load_plugins_from_env(void);
/* The same for a plug-in that is part of the program itself, such as its own tn_plugin_info. */
TN_API tn_status tn_register_plugin(const tn_plugin *plugin);

/* Each of these fills the plug-in's own tables: they may stand in any of its files, TN_PLUGIN("name") in one of them. */

/* A pass by the name of its function, for the main graph, at this place of the default list. */
#define TN_REGISTER_PASS(phase_, order_, function)                                                           \
    static const tn_pass_desc tn_desc_of_##function = {                                                      \
        .size = sizeof(tn_pass_desc), .name = #function, .phase = phase_, .order = order_, .run = function}; \
    TN_REGISTER_PASS_DESC(tn_desc_of_##function)
/* A tn_pass_desc, tn_op_desc or tn_kernel_desc by the name of the variable. */
#define TN_REGISTER_PASS_DESC(desc) TN_PLUGIN_ROW(tn_pass_desc, tn_plugin_passes, desc)
#define TN_REGISTER_OP(desc) TN_PLUGIN_ROW(tn_op_desc, tn_plugin_ops, desc)
#define TN_REGISTER_KERNEL(desc) TN_PLUGIN_ROW(tn_kernel_desc, tn_plugin_kernels, desc)

#define TN_PLUGIN(name_)                                         \
    TN_PLUGIN_TABLE(tn_pass_desc, tn_plugin_passes);             \
    TN_PLUGIN_TABLE(tn_op_desc, tn_plugin_ops);                  \
    TN_PLUGIN_TABLE(tn_kernel_desc, tn_plugin_kernels);          \
    extern const tn_plugin tn_plugin_info TN_API;                \
    const tn_plugin tn_plugin_info = {TN_PLUGIN_API,             \
                                      sizeof(tn_plugin),         \
                                      name_,                     \
                                      tn_version,                \
                                      __start_tn_plugin_passes,  \
                                      __stop_tn_plugin_passes,   \
                                      __start_tn_plugin_ops,     \
                                      __stop_tn_plugin_ops,      \
                                      __start_tn_plugin_kernels, \
                                      __stop_tn_plugin_kernels}

/* A pointer in a section of its own, between whose ends the linker puts those of all files; also where the linker drops
   sections that nothing refers to. */
#ifdef __has_attribute
#if __has_attribute(retain)
#define TN_PLUGIN_KEPT used, retain
#endif
#endif
#ifndef TN_PLUGIN_KEPT
#define TN_PLUGIN_KEPT used
#endif
#define TN_PLUGIN_ROW(type, section_, desc) \
    static const type *const tn_row_of_##desc __attribute__((TN_PLUGIN_KEPT, section(#section_))) = &desc
#define TN_PLUGIN_TABLE(type, section_)                                                        \
    extern const type *const __start_##section_[] __attribute__((weak, visibility("hidden"))); \
    extern const type *const __stop_##section_[] __attribute__((weak, visibility("hidden")))

#ifdef __cplusplus
}
#endif
#endif
