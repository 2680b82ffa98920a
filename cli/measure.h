/* SPDX-License-Identifier: Apache-2.0 */
/* What `tenon bench` and `tenon profile` share: a model made ready, with inputs, and run again and again. */
#ifndef TENON_CLI_MEASURE_H
#define TENON_CLI_MEASURE_H

#include "cli.h"

typedef struct MeasureOptions {
    InputOptions inputs;
    PassOptions passes;
    TuneOptions tune;
    int threads, json;
    int repeat;     /* runs to measure; 0: as many as `seconds` has time for */
    double seconds; /* but no fewer than LEAST_RUNS and no more than MOST_RUNS */
    int warmup;     /* runs before those, after the first */
} MeasureOptions;
enum { LEAST_RUNS = 3, MOST_RUNS = 100000 };
#define MEASURE_DEFAULTS \
    { .seconds = 2, .warmup = 2 }
#define MEASURE_OPTIONS(o)                                                                                            \
    {"threads", 't', POPT_ARG_INT, &(o).threads, 0, "threads (one a processor)", "N"},                                \
        {"repeat", 'r', POPT_ARG_INT, &(o).repeat, 0, "runs to measure, in place of --seconds", "N"},                 \
        {"seconds", '\0', POPT_ARG_DOUBLE, &(o).seconds, 0, "how long to measure (2)", "X"}, {                        \
        "warmup", '\0', POPT_ARG_INT, &(o).warmup, 0, "runs before those that are measured, after the first (2)", "N" \
    }
/* GO_ON or USAGE after a message. */
int measure_check(const Command *command, MeasureOptions *options);

typedef struct Measured {
    const char *path;
    tn_context *context;
    tn_model *model;
    tn_session *session;
    size_t n_inputs, n_outputs, n_runs;
    tn_tensor **inputs, **outputs;
    double load, prepare, first; /* seconds: reading the model, making the session, the first run */
    double *seconds;             /* of the runs that were measured, sorted once they are done */
    double *processor;           /* likewise, of all threads together: what other processes do does not count */
    int64_t added, peak;         /* bytes of memory after the first run, and at most until then; -1: not known */
} Measured;

/* Loads the model, finds inputs, makes the session, runs it once. GO_ON, or an exit code, reported. measure_end is due in any
   case. Inputs come from the options, else from a test_data_set_0 beside the model, else they are random. */
int measure_begin(Measured *m, const char *path, const MeasureOptions *options);
/* The warm-up and the runs; `after`, if not NULL, is called after each that is measured. */
int measure_runs(Measured *m, const MeasureOptions *options, const tn_run_options *run,
                 void (*after)(Measured *m, void *user), void *user);
void measure_end(Measured *m);

/* Of sorted values: the q-quantile, 0 to 1. */
double quantile(const double *sorted, size_t n, double q);
void sort_values(double *values, size_t n);
/* The types of the inputs that were given, with commas between, neighbours that are alike once; to be freed. */
char *measured_inputs(const Measured *m);

/* ---- `tenon profile`: what profile.c gathers and profile_print.c shows ----------------------------------------- */

typedef struct Line {
    tn_instruction_info info;
    char *shapes;         /* of operands and results; to be freed */
    char *refused;        /* kernels that were asked before and did not match; to be freed */
    double least, median; /* nanoseconds */
} Line;

/* Sums over the lines of one op. */
typedef struct OpSum {
    const char *op;
    size_t n;
    double median, least, flops, bytes, moved;
} OpSum;

typedef struct Profile {
    const Measured *measured;
    tn_peak peak;
    Line *lines; /* by instruction */
    size_t n_lines;
    OpSum *ops; /* the slowest first */
    size_t n_ops;
    OpSum all;
} Profile;

typedef struct ProfileOptions {
    MeasureOptions measure;
    int all, why, top;
    char *trace;
} ProfileOptions;

void print_profile_of(const Profile *profile, const ProfileOptions *options);
json_t *profile_of_json(const Profile *profile);
/* The last run in the form that chrome://tracing and Perfetto read. GO_ON or FAILED. */
int write_trace(const Profile *profile, const char *file);

#endif
