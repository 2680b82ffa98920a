/* SPDX-License-Identifier: Apache-2.0 */
/* Passes, pipelines of passes, and the manager that runs them on a model. A pass is a struct; passes.def names those of
   the tree, plug-ins add theirs while the process runs. Whatever executes a model comes in as call-backs. */
#ifndef TENON_PASS_PASS_H
#define TENON_PASS_PASS_H

#include "ir/ir.h"

typedef struct PassRun PassRun;

/* ---- what a pass is ------------------------------------------------------------------------------------------ */

typedef enum PassKind {
    PASS_PROGRAM, /* may change anything */
    PASS_STMT,    /* changes attributes, types and names, but no structure */
    PASS_DEBUG    /* only reads */
} PassKind;

/* Points in building a session. TensorFlow calls them groupings, and what is `order` here its phase. */
typedef enum Phase {
    PHASE_NONE, /* runs only where a pipeline names it */
    PHASE_PRE_PLACEMENT,
    PHASE_POST_PLACEMENT,
    PHASE_POST_REWRITE,
    PHASE_POST_PARTITION,
    N_PHASES
} Phase;
const char *phase_name(Phase phase); /* "pre-placement" */
Phase phase_from_name(Str name);     /* PHASE_NONE when there is none */

typedef enum OptionKind { OPTION_INT, OPTION_FLOAT, OPTION_BOOL, OPTION_STRING } OptionKind;
typedef struct PassOption {
    const char *name;
    OptionKind kind;
    const char *preset; /* as text */
    const char *help;
} PassOption;

/* A kernel that must be there: of this op, on this target (NULL: on the target of any valid place). */
typedef struct PassKernel {
    const char *op, *target;
} PassKernel;

enum { PASS_MAX_TARGETS = 8, PASS_MAX_KERNELS = 8, PASS_MAX_NAMES = 8, PASS_MAX_OPTIONS = 8 };

/* Never changes: what a run has to remember lies in its PassRun, so two threads may run one pass at once. Lists end with
   an empty entry. */
typedef struct Pass {
    const char *name;    /* "fold-constants"; underscores and dashes are one in names */
    const char *summary; /* one line */
    PassKind kind;
    Phase phase;
    int order;       /* within the phase; then by name */
    int opt_level;   /* scheduled at this level and above */
    bool each_graph; /* `run` is called for each graph, those nested first; else once, with the main graph */
    bool
        plan_only; /* of post-partition: leaves the graph alone, so that none with concrete sizes need be made for it */
    const char *targets[PASS_MAX_TARGETS];     /* none: any */
    bool for_wishes;                           /* applies to any target where there are wishes */
    const char *not_targets[PASS_MAX_TARGETS]; /* one of them among the valid places: does not apply */
    PassKernel kernels[PASS_MAX_KERNELS];
    const char *requires[PASS_MAX_NAMES]; /* passes that are run before unless what they did still holds */
    const char *keeps[PASS_MAX_NAMES];    /* passes whose work still holds after this one changed something */
    PassOption options[PASS_MAX_OPTIONS];
    /* Exactly one of them: what it does, or the passes that it stands for. */
    tn_status (*run)(PassRun *run, Graph *graph);
    const char *pipeline;
    void *user; /* of a pass from outside */
} Pass;

/* ---- the registry (registry.c) ------------------------------------------------------------------------------- */

/* NULL, or the pass of that name. */
const Pass *pass_find(Str name);
/* TN_NOT_FOUND with a suggestion. */
tn_status pass_get(Str name, const Pass **out);
/* Adds a pass for the rest of the process; it and what it points to must stay. TN_INVALID_ARGUMENT for a name that is
   taken or a struct that contradicts itself. */
tn_status pass_register(const Pass *pass);
tn_status pass_register_all(const Pass *const *passes, size_t n); /* all or none */
/* It is no longer found, but runs under way may still use it. TN_NOT_FOUND; those of the tree stay. */
tn_status pass_unregister(Str name);
/* All of them, sorted by name. */
tn_status pass_list(Arena *arena, const Pass ***passes, size_t *n);
/* Those of one phase, by order, then name. */
tn_status pass_schedule(Arena *arena, Phase phase, const Pass ***passes, size_t *n);
/* Changes whenever the registry does. */
uint64_t pass_registry_version(void);

/* ---- pipelines (pipeline.c, options.c) ----------------------------------------------------------------------- */

typedef struct OptionValue {
    int64_t i;
    double f;
    Str s;
    bool given;
} OptionValue;

/* A list of passes as text:
       pipeline = item {"," item}
       item     = pass ["(" option "=" value {"," option "=" value} ")"]
                | "repeat" ["(" "max" "=" n ")"] "{" pipeline "}"    until nothing changes, at most n times (10)
                | phase ["{" pipeline "}"]    the passes scheduled there; or these, as that phase
   A value is a number, true, false, a plain word or text in double quotes. */
typedef struct PipelineItem {
    enum { ITEM_PASS, ITEM_REPEAT, ITEM_PHASE } kind;
    const Pass *pass;
    OptionValue options[PASS_MAX_OPTIONS]; /* as the pass declares them */
    int64_t max;
    Phase phase;
    struct Pipeline *body;
} PipelineItem;
typedef struct Pipeline {
    PipelineItem *items;
    size_t n;
} Pipeline;

/* On `arena`. Errors say at which column. */
tn_status pipeline_parse(Arena *arena, Str text, Pipeline *out);
/* What parses back to the same; options that are as preset are left out. */
void pipeline_print(const Pipeline *pipeline, Text *out);
void pipeline_print_item(const PipelineItem *item, Text *out);
/* The scheduled passes of a phase up to an opt level. */
tn_status pipeline_scheduled(Arena *arena, Phase phase, int opt_level, Pipeline *out);
/* The same item with nothing but presets. */
tn_status pipeline_item(const Pass *pass, PipelineItem *out);

/* ---- running (manager.c, apply.c) ---------------------------------------------------------------------------- */

/* Where nodes may run: target, and the element type and layout preferred there. */
typedef struct PassPlace {
    const char *target; /* "cpu", "reference" */
    tn_dtype precision; /* TN_UNDEFINED: any */
} PassPlace;

/* Which results of ops that only move data are made: as few as can be; all but views; all. */
typedef enum Moves { MOVES_LEAST, MOVES_BUT_VIEWS, MOVES_ALL } Moves;

/* What the manager and passes cannot do by themselves. Members may be NULL. */
typedef struct PassHost {
    void *user;
    bool (*has_kernel)(void *user, const char *op, const PassPlace *place);
    /* How a place runs an op, before anybody wishes otherwise. */
    Lowering (*lowering)(void *user, const char *op, const PassPlace *place);
    /* In a session, for the shapes at hand. Elsewhere there is no program to make and the passes that do so are no-ops. */
    tn_status (*choose_kernels)(void *user, Graph *graph, Moves moves);
    tn_status (*plan_memory)(void *user, Graph *graph);
    tn_status (*generate_program)(void *user, Graph *graph);
} PassHost;

typedef enum PassOutcome {
    PASS_RAN,
    PASS_NOT_APPLICABLE,
    PASS_DISABLED,
    PASS_UP_TO_DATE,
    PASS_BEYOND_LIMIT,
    PASS_FAILED
} PassOutcome;

typedef struct PassCount {
    const char *what; /* "folded" */
    int64_t n;
} PassCount;

/* One line of the report: a pass that ran or did not, or a group (pass NULL). */
typedef struct PassRecord {
    const Pass *pass;
    Str text; /* as in the pipeline */
    Phase phase;
    int depth;       /* inside groups, and of what another pass required */
    uint64_t number; /* of those that ran, from 1; 0: did not run */
    PassOutcome outcome;
    Str why; /* it did not run */
    bool changed;
    uint64_t nanoseconds;
    size_t nodes_before, nodes_after; /* nested ones included */
    uint64_t bytes;                   /* that the model grew by */
    uint64_t first_change, n_changes; /* numbers of its changes */
    char last_change[160];            /* in words; "" */
    VEC(PassCount) counts;
} PassRecord;

/* Looks on. Called for each pass that applies, in the order in which they were added. */
typedef struct Instrument {
    bool (*should_run)(struct Instrument *self, const PassRun *run);
    tn_status (*before)(struct Instrument *self, const PassRun *run);
    tn_status (*after)(struct Instrument *self, const PassRun *run, const PassRecord *record, tn_status status);
    struct Instrument *next;
} Instrument;

/* How nodes of an op are to be run, whatever their target would do. */
typedef struct LoweringWish {
    const OpSchema *op; /* NULL: of every op */
    Lowering how;
    int path; /* of nodes that this path of the session's is the first to need; -1: of all */
} LoweringWish;
/* Where a path of a session's ends: names of graph outputs. */
typedef struct PathEnds {
    const char *const *outputs;
    size_t n;
} PathEnds;

/* How passes are to be run. Read only while they are. */
typedef struct PassSetup {
    int opt_level;
    const PassPlace *places;
    size_t n_places;
    const Pass *const *disabled;
    size_t n_disabled;
    uint64_t max_passes;  /* the first that may run; UINT64_MAX: all */
    uint64_t max_changes; /* likewise of single changes */
    bool verify_each;     /* the model is verified after each pass that changed it; always after each phase */
    const PassHost *host;
    Instrument *instruments;
    const LoweringWish *wishes; /* the later one counts, and one for a path before one for all */
    size_t n_wishes;
    const PathEnds *paths; /* those that wishes count */
    size_t n_paths;
} PassSetup;

typedef struct PassManager {
    const PassSetup *setup;
    Model *model;
    Context *ctx;
    Arena arena;
    VEC(PassRecord) records;
    VEC(struct PassState) states;
    uint64_t n_runs, n_changes;
    Phase phase;
    int depth;
    bool interface_kept;
    Fingerprint interface; /* of inputs and outputs */
} PassManager;

/* What a pass is given. */
struct PassRun {
    const Pass *pass;
    PassManager *manager;
    Model *model;
    Context *ctx;
    Arena *scratch; /* freed when the pass is done */
    const PassSetup *setup;
    const PipelineItem *item;
    size_t record; /* its line in the report */
};

tn_status manager_init(PassManager *manager, Model *model, const PassSetup *setup);
void manager_free(PassManager *manager);
/* Runs a pipeline; the first pass that fails stops it, and the diagnostic says which. */
tn_status manager_run(PassManager *manager, const Pipeline *pipeline);
/* Whether the pass applies to these places; else `why`, as text on `arena`, says what is missing. */
bool pass_applies(const Pass *pass, const PassSetup *setup, Arena *arena, Str *why);

/* NULL when the pass declares no such option of that kind. */
const OptionValue *pass_option(const PassRun *run, const char *name, OptionKind kind);
/* For passes. Values of their options: */
int64_t pass_int(const PassRun *run, const char *option);
double pass_float(const PassRun *run, const char *option);
bool pass_bool(const PassRun *run, const char *option);
Str pass_string(const PassRun *run, const char *option);
/* Adds to a statistic; `what` is a literal. */
tn_status pass_count(PassRun *run, const char *what, int64_t n);
/* What a debug pass has to say: into that file or, without one, line by line to the log at the level of information. */
tn_status pass_say(PassRun *run, const Text *text, Str file);
/* To be asked before each change: false when the limit of changes is reached. It is how a wrong answer is traced to one
   change of one pass. */
bool pass_may_change(PassRun *run);
/* What the change just allowed was; kept of the last one, for whoever limits their number. */
void pass_describe_change(PassRun *run, const char *format, ...) TN_PRINTF(2, 3);

/* ---- instruments (instrument.c) ------------------------------------------------------------------------------ */

/* Writes the model to numbered files in a folder, which is made when it is missing. */
enum { PRINT_BEFORE = 1, PRINT_AFTER = 2, PRINT_ON_CHANGE = 4, PRINT_ON_FAILURE = 8 };
typedef struct PrintInstrument {
    Instrument base;
    const char *folder;
    unsigned when;
    const Pass *const *passes; /* none: all */
    size_t n_passes;
    uint64_t n_files;
} PrintInstrument;
void print_instrument(PrintInstrument *out, const char *folder, unsigned when);

#endif
