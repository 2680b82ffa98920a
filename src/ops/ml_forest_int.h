/* SPDX-License-Identifier: Apache-2.0 */
/* Ensembles of decision trees in one form (ml_forest.c), which TreeEnsemble (ml_tree_ensemble.c) and its two
   forerunners (ml_tree_votes.c) make of their attributes. */
#ifndef TENON_OPS_ML_FOREST_INT_H
#define TENON_OPS_ML_FOREST_INT_H

#include "ops/ml_int.h"

/* As TreeEnsemble numbers them, then the leaf. */
typedef enum NodeMode { MODE_LEQ, MODE_LT, MODE_GTE, MODE_GT, MODE_EQ, MODE_NEQ, MODE_MEMBER, MODE_LEAF } NodeMode;
typedef enum Aggregate { AGGREGATE_AVERAGE, AGGREGATE_SUM, AGGREGATE_MIN, AGGREGATE_MAX } Aggregate;

typedef struct TreeNode {
    NodeMode mode;
    bool missing_yes; /* NaN goes the way of yes */
    int64_t feature;
    double split;
    int64_t yes, no;  /* nodes */
    int64_t first, n; /* a leaf's votes, or what a member test tests against */
} TreeNode;

typedef struct Vote {
    int64_t target;
    double weight;
} Vote;

typedef struct Forest {
    TreeNode *nodes;
    int64_t *roots;
    Vote *votes;
    const double *members, *base; /* base: one for each target, or NULL */
    int64_t n_nodes, n_roots, n_votes, n_members, targets;
    Aggregate aggregate;
    int64_t last_feature, asks_last; /* that a node asks for, and the first node that does; -1: none does */
} Forest;

/* Children, votes and members in range, no way that leads back: then any row that has the features ends at a leaf. Finds the
   last of these. */
tn_status forest_check(KernelCtx *c, Forest *f);
/* Whether rows of `width` numbers have all features. */
tn_status forest_fits(const Forest *f, int64_t width);
/* Sums of one row; has[t]: whether a leaf voted for target t. The base is added to all. Narrow: sums are rounded to floats at
   each step. */
void forest_sums(const Forest *f, bool narrow, const double *row, double *sums, bool *has);

/* An attribute tensor as doubles; n -1 and NULL when absent. */
tn_status attr_doubles(KernelCtx *c, const char *name, const double **out, int64_t *n);

#endif
