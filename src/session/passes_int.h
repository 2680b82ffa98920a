/* SPDX-License-Identifier: Apache-2.0 */
/* Passes behind the public interface: settings as the manager wants them, reports, optimised models. */
#ifndef TENON_SESSION_PASSES_INT_H
#define TENON_SESSION_PASSES_INT_H

#include <tenon/passes.h>

#include "pass/pass.h"
#include "session/session.h"

/* Settings in the manager's terms. Points at itself: not to be moved. Nothing of the settings need stay. */
typedef struct PassPlan {
    Arena arena;
    PassSetup setup;
    tn_accuracy accuracy; /* of kernels */
    PassHost host;
    Pipeline pipeline;
    Pipeline shapes; /* what it says of post-partition, or what is scheduled there */
    PrintInstrument print;
    struct Observer {
        Instrument base;
        tn_pass_settings settings; /* its call-backs */
        tn_model *model;           /* a handle for the call-backs, made when needed */
    } observer;
    struct Reproducer {
        Instrument base;
        const char *path;
    } reproducer;
} PassPlan;

/* NULL settings: defaults. pass_plan_free is due in any case. */
tn_status pass_plan_init(PassPlan *plan, const Allocator *allocator, const tn_pass_settings *settings);
void pass_plan_free(PassPlan *plan);
/* What identifies the outcome of the passes before shapes are known; NULL when memory is out. */
char *pass_plan_key(PassPlan *plan);
/* Whether some pass of post-partition wants to see a graph with concrete shapes. */
bool pass_plan_wants_shapes(PassPlan *plan);
void pass_plan_add_instrument(PassPlan *plan, Instrument *instrument);

/* instruments.c. The reproducer's file holds the model, the pipeline to run on it and, unless `inputs` is NULL, presets for
   its inputs. */
void observer_instrument(PassPlan *plan, const tn_pass_settings *settings);
void observer_free(PassPlan *plan);
tn_status reproducer_instrument(PassPlan *plan, const char *path);
tn_status reproducer_write(const Model *model, Str pipeline, const Tensor *const *inputs, const char *path);

/* report.c: a record as callers see it. */
void public_record(const PassRecord *record, tn_pass_record *out);

/* Runs on `model`. `report` may be NULL; else it is made also on failure. */
tn_status pass_plan_run(PassPlan *plan, Model *model, const Pipeline *pipeline, tn_pass_report **report);

struct tn_pass_report {
    PassManager manager; /* its records */
    PassSetup setup;
    Context *ctx;
};

/* paths.c. The part of a model that somebody wants; none: all of it. */
typedef struct Paths {
    const tn_path *list;
    size_t n;
} Paths;
/* lowerings.c. What `text` says of ops, for one path or (-1) for all; and what the paths of a session say. */
tn_status pass_plan_add_wishes(PassPlan *plan, const char *text, int path);
tn_status pass_plan_add_paths(PassPlan *plan, const Paths *paths);
tn_status paths_check(const Paths *paths); /* that no name is missing */
/* Makes their outputs the model's. Where one begins inside, so does the model, and what no end needs is erased. */
tn_status paths_choose(Model *model, const Paths *paths);

/* The model that sessions of a handle run: with their outputs chosen, all passes done that need no shapes. A handle keeps
   some that no session uses, for the next. */
typedef struct OptimizedModel {
    struct OptimizedModel *next;
    char *key; /* NULL: not for others, somebody watched it being made */
    Model *ir;
    int users;
} OptimizedModel;

/* *out NULL: the handle's own model will do. *report may stay NULL: it was done before. To be given back with
   optimized_release. */
tn_status optimized_acquire(tn_model *model, PassPlan *plan, const Paths *paths, OptimizedModel **out,
                            tn_pass_report **report);
void optimized_release(tn_model *model, OptimizedModel *optimized); /* NULL is ignored */
void optimized_free(tn_model *model);

/* Marks a model as having been through the passes of `key`; whether it was, and was not changed since it was read. */
tn_status mark_optimized(Model *ir, const char *key);
bool is_optimized(const tn_model *model, const char *key);

#endif
