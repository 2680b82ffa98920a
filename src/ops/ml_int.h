/* SPDX-License-Identifier: Apache-2.0 */
/* What the ops of ai.onnx.ml share (ml_util.c): transforms of scores, class labels, and finding values among keys.
   Where ONNX leaves something open they answer as onnxruntime does. */
#ifndef TENON_OPS_ML_INT_H
#define TENON_OPS_ML_INT_H

#include "ops/nn_int.h"
#include "ops/string_int.h"

#define ML_NUMBERS (TS(TN_F32) | TS(TN_F64) | TS(TN_I64) | TS(TN_I32))

/* ---- scores -------------------------------------------------------------------------------------------------- */

/* In the order that TreeEnsemble numbers them. */
typedef enum PostTransform { POST_NONE, POST_SOFTMAX, POST_LOGISTIC, POST_SOFTMAX_ZERO, POST_PROBIT } PostTransform;
/* Of the attribute post_transform, a string. */
tn_status read_post_transform(const Node *node, PostTransform *out);
/* What becomes of a single score v: it stays alone, or 1 - v or -v is put before it, LOGISTIC being applied to -v and
   v in both cases. */
typedef enum SecondScore { SECOND_NONE, SECOND_COMPLEMENT, SECOND_OPPOSITE } SecondScore;
/* Transforms n scores in place; with a second one, `scores` has room for two. */
void transform_scores(PostTransform t, SecondScore second, float *scores, int64_t n);

/* ---- rows and labels ----------------------------------------------------------------------------------------- */

/* An operand [rows, features], or [features] as one row; TN_SHAPE otherwise. */
tn_status want_rows(const InferCtx *c, int i);
static inline Dim rows_of(const InferCtx *c, int i) { return in_shape(c, i)->rank == 1 ? 1 : in_dim(c, i, 0); }
static inline int64_t row_count(const Tensor *x) { return x->rank == 1 ? 1 : x->dims[0]; }
static inline int64_t row_width(const Tensor *x) { return x->dims[x->rank - 1]; }

/* Class labels, one of two attributes; which == NULL: neither is there. */
typedef struct Labels {
    const Attr *which; /* ATTR_INTS or ATTR_STRINGS */
    int64_t n;
} Labels;
tn_status read_labels(const Node *node, const char *ints, const char *strings, Labels *out);
static inline tn_dtype labels_dtype(const Labels *l) { return l->which->kind == ATTR_INTS ? TN_I64 : TN_STRING; }
/* Element `at` of result i becomes label k; of the two that have no label: 0 and 1. */
tn_status put_label(KernelCtx *c, int i, int64_t at, const Labels *l, int64_t k);
tn_status put_default_label(KernelCtx *c, int i, int64_t at, const Labels *l, bool positive);

/* A list of floats, empty when absent. */
typedef struct FloatList {
    const float *data;
    int64_t n;
} FloatList;
FloatList attr_float_list(const Node *node, const char *name);

/* ---- finding values ------------------------------------------------------------------------------------------ */

typedef struct LookupKey {
    uint64_t number; /* as of sort_keys */
    Str text;
    int64_t index;
} LookupKey;
/* Keys sorted; of equal ones the last counts. NaN equals NaN. */
typedef struct Lookup {
    LookupKey *keys;
    int64_t n;
    bool is_text;
} Lookup;
tn_status lookup_texts(KernelCtx *c, const Str *keys, int64_t n, Lookup *out);
/* n numbers, or strings as elements, of `dtype` from element `offset` on. */
tn_status lookup_elements(KernelCtx *c, tn_dtype dtype, const void *data, int64_t offset, int64_t n, Lookup *out);
/* Which key element `at` of a dense array is; -1: none. */
int64_t lookup_find(const Lookup *l, tn_dtype dtype, const void *data, int64_t at);

#endif
