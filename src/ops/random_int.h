/* SPDX-License-Identifier: Apache-2.0 */
/* Random numbers (random.c) that depend on seed, node and position only: Philox 4x32-10, a generator without a state,
   so any thread may make any element. A node that has no seed gets one from its name, and two nodes with one seed
   still draw different numbers; each run of a model draws the same. */
#ifndef TENON_OPS_RANDOM_INT_H
#define TENON_OPS_RANDOM_INT_H

#include "ops/nn_int.h"

typedef struct Random {
    uint32_t key[2];
    bool fine; /* 53 random bits in a number, else the 24 of a float */
} Random;
/* The generator of a node with an attribute `seed`, an integer or a float. */
Random random_of(const Node *node, tn_dtype result);
/* Number i, in [0, 1). Numbers 2i and 2i + 1 come from one block. */
double random_uniform(const Random *r, int64_t i);
/* Number i of the normal distribution with mean 0 and deviation 1. */
double random_normal(const Random *r, int64_t i);

#endif
