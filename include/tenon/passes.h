/* SPDX-License-Identifier: Apache-2.0 */
/* Passes: which there are, which run, and what each of them did to a model. docs/passes.md tells what each does.
 *
 *     tn_model *better;  tn_pass_report *report;
 *     tn_model_optimize(model, &(tn_pass_settings){.opt_level = TN_OPT_1}, &better, &report);
 *     for (size_t i = 0; i < tn_pass_report_size(report); i++) { tn_pass_record r; tn_pass_report_at(report, i, &r); ... }
 *     tn_pass_report_release(report); tn_model_release(better);
 *
 * Sessions run the same passes by themselves (tn_session_options.passes). Functions fail as in tenon.h. */
#ifndef TENON_PASSES_H
#define TENON_PASSES_H

#include <tenon/tenon.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- what there is -------------------------------------------------------------------------------------------- */

typedef enum tn_pass_kind {
    TN_PASS_PROGRAM, /* may change anything */
    TN_PASS_STMT,    /* changes attributes, types and names, but no structure */
    TN_PASS_DEBUG    /* only reads */
} tn_pass_kind;

/* Points in building a session. A pass without a phase runs only where a pipeline names it. */
typedef enum tn_phase {
    TN_NO_PHASE,
    TN_PRE_PLACEMENT,  /* the model as read; no device is chosen */
    TN_POST_PLACEMENT, /* nodes have their target */
    TN_POST_REWRITE,   /* the graph is pruned to what the chosen outputs need, ready to be cut for devices */
    TN_POST_PARTITION  /* concrete shapes; runs for each set of them */
} tn_phase;

typedef struct tn_pass_info {
    const char *name; /* "fold-constants" */
    const char *summary;
    tn_pass_kind kind;
    tn_phase phase;
    int order;            /* within the phase, then by name */
    int opt_level;        /* scheduled at this level and above */
    bool each_graph;      /* runs on each nested graph, not only on the whole */
    const char *targets;  /* "cpu reference"; "": any */
    const char *excluded; /* targets that it is not for */
    const char *kernels;  /* "Gemm Conv@cpu": must be there */
    const char *required; /* passes that must hold before it */
    const char *keeps;    /* passes that still hold after it */
    const char *pipeline; /* what it stands for; "": it is a function */
    size_t n_options;
} tn_pass_info;
typedef struct tn_pass_option_info {
    const char *name;
    const char *kind; /* "int", "float", "bool", "string" */
    const char *preset;
    const char *help;
} tn_pass_option_info;

/* Sorted by name; plug-ins may add some at any time. Strings live as long as the thread's next call. TN_NOT_FOUND, with a
   suggestion for a misspelt name; dashes and underscores are one. */
TN_API size_t tn_n_passes(void);
TN_API tn_status tn_pass_at(size_t i, tn_pass_info *info);
TN_API tn_status tn_pass_find(const char *name, tn_pass_info *info);
TN_API tn_status tn_pass_option_at(const char *name, size_t i, tn_pass_option_info *info);
TN_API const char *tn_phase_name(tn_phase phase); /* "pre-placement"; "" */

/* ---- what runs ------------------------------------------------------------------------------------------------ */

typedef enum tn_opt_level {
    TN_OPT_DEFAULT, /* 2 */
    TN_OPT_0,       /* nothing but what running needs */
    TN_OPT_1,       /* clean-up: folding, sharing, dead code, control flow */
    TN_OPT_2,       /* and fusion */
    TN_OPT_3        /* and what searches */
} tn_opt_level;

/* Where nodes may run, best first. */
typedef struct tn_place {
    const char *target; /* "cpu", "reference" */
    tn_dtype precision; /* TN_UNDEFINED: any */
} tn_place;

/* What a pass did, or why it did not run; or a group of passes. Strings belong to the report. */
typedef enum tn_pass_outcome {
    TN_PASS_RAN,
    TN_PASS_NOT_APPLICABLE,
    TN_PASS_DISABLED,
    TN_PASS_UP_TO_DATE, /* nothing changed since it last found nothing to do */
    TN_PASS_BEYOND_LIMIT,
    TN_PASS_FAILED
} tn_pass_outcome;
typedef struct tn_pass_count {
    const char *what; /* "folded" */
    int64_t n;
} tn_pass_count;
typedef struct tn_pass_record {
    const char *pass; /* "": a group, `repeat` or a phase */
    const char *text; /* as a pipeline spells it, options included */
    tn_phase phase;
    int depth;       /* of nesting */
    uint64_t number; /* of passes that ran, from 1; 0: it did not */
    tn_pass_outcome outcome;
    const char *why; /* it did not run */
    bool changed;
    uint64_t nanoseconds;
    size_t nodes_before, nodes_after;
    uint64_t bytes;        /* that the model took more */
    uint64_t first_change; /* its changes have numbers of their own, see max_changes */
    uint64_t n_changes;
    const char *last_change; /* the last of them in words; "" */
    const tn_pass_count *counts;
    size_t n_counts;
} tn_pass_record;

typedef enum tn_print_when {
    TN_PRINT_BEFORE = 1,
    TN_PRINT_AFTER = 2,
    TN_PRINT_ON_CHANGE = 4,
    TN_PRINT_ON_FAILURE = 8
} tn_print_when;

/* How exact kernels are where being less so is faster. docs/kernels.md. */
typedef enum tn_accuracy {
    TN_ACCURACY_NORMAL, /* they may compute sums of products by other products, as Winograd's algorithm does: within 1e-3 of the
                           result's scale, in practice 1e-5 */
    TN_ACCURACY_HIGH /* sums are of the products that the op's definition names */
} tn_accuracy;

/* Zero means the default in each field. */
typedef struct tn_pass_settings {
    tn_opt_level opt_level;
    const char *pipeline;     /* replaces the default list; "" runs nothing; see docs/passes.md for the language */
    const char *const *added; /* passes, with options, that run besides: at their phase, or at the end of the first */
    size_t n_added;
    const char *const *disabled; /* names */
    size_t n_disabled;
    const tn_place *places; /* none: the processor, then the reference kernels */
    size_t n_places;
    const char *lowering;     /* how ops are run, whatever their target would do: "Conv=geometry,Gather=loop,*=origin";
                                        see docs/geometry.md. In sessions. NULL: as the target does */
    tn_accuracy accuracy;     /* in sessions */
    uint64_t max_passes;      /* only the first of them run; 0: all */
    uint64_t max_changes;     /* and only so many single changes are made; 0: all */
    bool verify_each;         /* check the model after each pass that changed it; always done after each phase */
    const char *print_folder; /* where print_when writes numbered files */
    unsigned print_when;      /* tn_print_when, added up */
    const char *const *print_passes; /* none: all */
    size_t n_print_passes;
    const char *reproducer; /* .tn: written before each pass and removed after it, so that it stays when one fails or
                               crashes: the model, the pass, in one file */
    /* Around each pass that runs; an answer other than TN_OK stops. */
    tn_status (*before)(void *user, const tn_pass_record *record, const tn_model *model);
    tn_status (*after)(void *user, const tn_pass_record *record, const tn_model *model);
    void *user;
} tn_pass_settings;

/* The pipeline that these settings stand for, in the form that parses back to it; to be given back with tn_free_text.
   settings NULL: defaults. TN_NOT_FOUND, TN_INVALID_ARGUMENT with the column. */
TN_API tn_status tn_pipeline_text(const tn_pass_settings *settings, char **text);
/* Whether a pass would run with these settings and, if not, why; `why` is to be given back with tn_free_text. */
TN_API tn_status tn_pass_applies(const char *name, const tn_pass_settings *settings, bool *applies, char **why);

typedef struct tn_pass_report tn_pass_report;
TN_API size_t tn_pass_report_size(const tn_pass_report *report);
TN_API tn_status tn_pass_report_at(const tn_pass_report *report, size_t i, tn_pass_record *record);
TN_API void tn_pass_report_release(tn_pass_report *report);

/* A model with everything done to it that does not depend on concrete shapes. `model` stays as it is; what it holds is
   shared. Saved as .tn it is opened without passes. `report` may be NULL; it is also given when a pass fails. */
TN_API tn_status tn_model_optimize(const tn_model *model, const tn_pass_settings *settings, tn_model **optimized,
                                   tn_pass_report **report);
/* Runs a pipeline on the model itself: handles of what is not erased stay valid. When a pass fails the model is as that
   pass left it. Not while a session of the model runs. settings->pipeline NULL: the default list. Needs less memory than
   tn_model_optimize where the model as it was is not wanted. */
TN_API tn_status tn_model_run_passes(tn_model *model, const tn_pass_settings *settings, tn_pass_report **report);

/* ---- blame ---------------------------------------------------------------------------------------------------- */

typedef struct tn_check_options {
    double rtol, atol;      /* 0: by element type, see tn_tensor_compare */
    bool bisect;            /* find it by halving limits, which also names the single change */
    const char *reproducer; /* .tn: written when a pass is to blame: model, pass and inputs */
} tn_check_options;

/* Which pass changed the answer. Strings belong to the result. */
typedef struct tn_check_result tn_check_result;
typedef struct tn_check_info {
    bool same;            /* no pass changed any output beyond the tolerance */
    const char *pass;     /* the first that did, as in the pipeline */
    uint64_t pass_number; /* tn_pass_settings.max_passes of one less gives the right answer */
    uint64_t change;      /* found by bisection: max_changes of one less gives the right answer; 0: not asked for */
    const char *value;    /* the first value that differs, in the graph's order */
    const char *node;     /* the node that makes it: its name in the model, or its result's */
    const char *op;
    double largest, scale; /* difference of that value */
    double worst;          /* the largest difference of any output after any pass that was let through, to its scale */
    uint64_t n_passes;     /* that ran */
    const char *why;       /* one line */
    const char *by;        /* the change in words, where the pass has some: "rule square at node ..."; "" */
} tn_check_info;

/* Runs the model on the reference kernels before any pass and after each, on these inputs (as for tn_session_run), and
   compares. Values that no pass touched are not computed again. */
TN_API tn_status tn_model_check(const tn_model *model, const tn_pass_settings *settings,
                                const tn_check_options *options, const tn_tensor *const *inputs, size_t n_inputs,
                                tn_check_result **result);
TN_API const tn_check_info *tn_check_result_info(const tn_check_result *result);
TN_API void tn_check_result_release(tn_check_result *result);

#ifdef __cplusplus
}
#endif
#endif
