/* SPDX-License-Identifier: Apache-2.0 */
/* A million random compositions. */
#define ROUNDS 1000000
#include "test_geom_random.c"
