/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon show`: what its files share. */
#ifndef TENON_CLI_SHOW_H
#define TENON_CLI_SHOW_H

#include "cli.h"

typedef struct OpCount {
    char *op; /* with its domain */
    size_t n;
} OpCount;

/* What a model is made of. Weights are counted, not read. */
typedef struct Summary {
    OpCount *ops; /* most frequent first */
    size_t n_ops, n_nodes;
    double parameters;
    uint64_t weight_bytes;
} Summary;
int summarise(tn_model *model, Summary *summary); /* GO_ON or FAILED */
void free_summary(Summary *summary);

/* A model being shown. `session` is NULL when none could be made; `trouble` says why. */
typedef struct Show {
    const char *path;
    tn_model *model;
    tn_value_info *inputs; /* as --shape has them */
    tn_session *session;
    char *trouble;
} Show;
void print_summary_of(const Show *show, const Summary *summary);
void print_memory_of(const Show *show); /* the summary's part about work and memory */
json_t *summary_json(const Show *show, const Summary *summary);
int print_values(const Show *show, bool json);          /* --shapes */
int print_plan(const Show *show, bool json);            /* --plan */
int print_moves(const Show *show, bool json);           /* --memory */
int write_svg(const tn_model *model, const char *path); /* GO_ON or FAILED */

#endif
