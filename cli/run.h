/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon run`: what running (run.c) and showing (run_print.c) share. */
#ifndef TENON_CLI_RUN_H
#define TENON_CLI_RUN_H

#include "cli.h"

typedef struct RunOptions {
    InputOptions inputs;
    PassOptions passes;
    TuneOptions tune;
    char *output, *test;
    char **from, **to; /* names of values */
    int threads, repeat, profile, json;
    double rtol, atol;
} RunOptions;

typedef struct Run {
    const char *path;
    tn_model *model;
    tn_session *session;
    size_t n_inputs, n_outputs, n_runs;
    tn_tensor **inputs, **outputs;
    double *seconds; /* of each run */
} Run;

const char *output_name(const Run *run, size_t i);
void print_run(const Run *run, bool profile);
void print_run_json(const Run *run, bool profile);

#endif
