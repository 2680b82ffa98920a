/* SPDX-License-Identifier: Apache-2.0 */
/* The public handles behind include/tenon, and what the files of this folder share. */
#ifndef TENON_SESSION_SESSION_H
#define TENON_SESSION_SESSION_H

#include <pthread.h>

#include <tenon/graph.h>

#include "program/program.h"

/* A context is the base's; handles of graphs, nodes and values are the IR's own. */
static inline Context *context_of(const tn_context *c) { return (Context *)c; }

struct tn_tensor {
    atomic_int references;
    Context *ctx;
    Tensor t; /* dense */
};

struct tn_model {
    atomic_int references;
    atomic_bool exposed; /* handles were given out: the graph may have been changed since it was verified */
    Context *ctx;
    Model *ir;
    uint64_t read_edits; /* of `ir` when it was read or made: more of them mean that it was changed since */
    pthread_mutex_t lock;
    struct OptimizedModel *optimized; /* what sessions run, by settings; under the lock */
    const Packed **packed;            /* weights that were saved packed, held for its sessions */
    size_t n_packed;
};

/* A tensor handle that takes over `t`'s buffer reference. */
tn_status tensor_handle(Context *ctx, const Tensor *t, tn_tensor **out);
/* A handle of a constant's or an attribute's tensor, which shares its memory where that is dense and aligned. NULL for
   NULL, and when memory is out. */
tn_tensor *payload_handle(Context *ctx, const Tensor *payload);
/* A model handle that takes over the model, also when it fails. */
tn_status model_handle(Context *ctx, Model *ir, tn_model **out);
/* One that does not own the model, for call-backs; goes with model_handle_return. */
tn_status model_handle_lent(Context *ctx, Model *ir, tn_model **out);
void model_handle_return(tn_model *model); /* NULL is ignored */
/* Hands the text over as memory for tn_free_text, unless `status` says that it failed; frees it in any case. */
tn_status give_text(tn_status status, Text *text, char **out);
/* packed.c. Takes what was saved packed beside the model's file, where it is of these weights; a file that does not fit is
   left alone, with a word to the log. */
void model_offer_packed(tn_model *model, const char *path);
void model_drop_packed(tn_model *model);
/* By the path's ending. */
tn_status model_write(const Model *ir, const char *path);
void fill_value_info(const Model *model, Str name, const Type *type, tn_value_info *info);

#endif
