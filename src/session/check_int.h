/* SPDX-License-Identifier: Apache-2.0 */
/* Checking passes: what a model answers on the reference kernels, and how far that is from what it should. */
#ifndef TENON_SESSION_CHECK_INT_H
#define TENON_SESSION_CHECK_INT_H

#include "eval/eval.h"
#include "session/passes_int.h"

/* Knows the right answer: that of the model before any pass. */
typedef struct Oracle {
    Context *ctx;
    Memo *memo;
    Arena arena;
    double rtol, atol; /* 0: by element type */
    bool quantised;
    const Tensor **inputs;
    size_t n; /* outputs */
    Tensor *want;
    uint64_t *contents;
    bool *random;
    uint64_t random_set;
} Oracle;

/* What became of the answer. */
typedef struct Verdict {
    bool same;
    size_t output;      /* else the first that is wrong */
    tn_difference diff; /* its difference */
    bool broken;        /* the model does not run any more */
    const Node *node;   /* that failed; may be NULL */
    char message[240];
    double worst;    /* of the outputs that are right, relative to their scale */
    size_t n_exempt; /* outputs that random numbers decide, drawn by nodes with other names than before */
} Verdict;

/* Where two models that should mean the same part. */
typedef struct Spot {
    Str value;        /* as it is called in both or, where its name is gone, before */
    const Node *node; /* that makes it; NULL: it is an input */
    const Node *was;  /* that made it before; NULL likewise, or not known */
    tn_difference diff;
    bool alone; /* the outputs of the two models differ; else only from the right answer */
} Spot;

/* `inputs` one an input of the model, NULL for its default; they must stay. oracle_free is due in any case. */
tn_status oracle_init(Oracle *o, const Model *model, const tn_check_options *options, const tn_tensor *const *inputs);
void oracle_free(Oracle *o);
tn_status oracle_ask(Oracle *o, const Model *model, Verdict *verdict);
/* The first value, in the order of `after`, that has another meaning than under the same name in `before`. */
tn_status oracle_locate(Oracle *o, const Model *before, const Model *after, const Verdict *verdict, Spot *spot);
double oracle_rtol(const Oracle *o, tn_dtype dtype);
double oracle_atol(const Oracle *o);

#endif
