/* SPDX-License-Identifier: Apache-2.0 */
/* choose-kernels: for the sizes at hand, what each instruction does: nothing (a view, or known already), a raster, or a
   kernel, in place where it may. */
#include "pass/pass.h"

static tn_status read_moves(PassRun *run, Moves *moves) {
    static const char *const names[] = {"least", "but-views", "all"};
    Str given = pass_string(run, "moves");
    for (int i = 0; i < 3; i++)
        if (str_equal(given, str_of(names[i]))) return *moves = (Moves)i, TN_OK;
    return fail(TN_INVALID_ARGUMENT, "moves=%.*s: it is least, but-views or all", (int)given.n, given.s);
}

static tn_status run(PassRun *run, Graph *graph) {
    const PassHost *host = run->setup->host;
    Moves moves;
    TRY(read_moves(run, &moves));
    return host && host->choose_kernels ? host->choose_kernels(host->user, graph, moves) : TN_OK;
}

const Pass pass_choose_kernels = {
    .name = "choose-kernels",
    .summary = "choose views, rasters and kernels for the sizes at hand",
    .phase = PHASE_POST_PARTITION,
    .order = 910,
    .plan_only = true,
    .requires = {"generate-program"},
    .options = {{"moves", OPTION_STRING, "least",
                 "which results that only move data are made: as few as can be; `but-views`; `all`: to compare with"}},
    .run = run};
