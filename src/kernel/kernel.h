/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel is. The table kernels.def names them; a backend's file fills a KernelDesc; plug-ins add theirs. A node
   gets the first kernel of its op, by priority, that matches; every op ends its list in the reference kernel. */
#ifndef TENON_KERNEL_KERNEL_H
#define TENON_KERNEL_KERNEL_H

#include "geom/geom.h"
#include "ir/ir.h"

/* Where a kernel runs and what it reads. */
typedef enum Target { TARGET_ANY, TARGET_REFERENCE, TARGET_CPU } Target;
typedef struct Place {
    Target target;
    tn_dtype precision;   /* TN_UNDEFINED: any */
    const Layout *layout; /* NULL: row-major */
} Place;

/* A node with everything concrete that decides a kernel. */
typedef struct KernelQuery {
    const Node *node;
    int n_in, n_out;
    const Tensor *const *in; /* shapes, strides; data for constants only. NULL: absent */
    const Tensor *out;
    const struct KernelDesc *kernel; /* that is asked, or was picked; set by kernel_pick */
} KernelQuery;

/* What `prepare` made of a node once (packed weights, tables): owned by the program, read-only while it runs. */
typedef struct Prepared {
    void *data;
    size_t size;
    void (*release)(struct Prepared *prepared, const Allocator *allocator);
} Prepared;

typedef struct KernelDesc {
    const char *name; /* the row in kernels.def and the file's name */
    const char *op;   /* "Conv", "com.microsoft.QGemm"; NULL: any op that `match` accepts */
    Place place;
    const char *isa; /* NULL: baseline */
    int priority;    /* the higher comes first */
    bool (*match)(const KernelQuery *q);
    /* Bit i: operand i may be any strided reading; else the program hands over a dense one. */
    uint32_t (*strided)(const Node *node);
    /* Bit i: result 0 may lie in the memory of operand i when sizes and readings agree. */
    uint32_t (*in_place)(const Node *node);
    /* Modelled nanoseconds on one thread; NULL: flops of the op / 1e9. */
    double (*cost)(const KernelQuery *q);
    /* Names the bytes that `prepare` makes of constants, so that equal ones are made once. NULL: none. */
    const char *pack_format;
    size_t (*workspace)(const KernelQuery *q); /* bytes of scratch that launch wants; NULL: what it takes */
    tn_status (*prepare)(const KernelQuery *q, Context *context, Prepared *out); /* NULL: nothing to prepare */
    tn_status (*launch)(KernelCtx *c, const Prepared *prepared);
} KernelDesc;

/* The table, by priority. */
const KernelDesc *const *kernel_table(size_t *n);
/* Whether some kernel there may run this op. "fc" and the like are no ops: false. */
bool kernel_exists(const char *op, const char *target, tn_dtype precision);
const char *target_name(Target target); /* "cpu" */
/* The first that matches; TN_UNSUPPORTED naming the op when none does. `target` TARGET_ANY: any. */
tn_status kernel_pick(KernelQuery *q, Target target, const KernelDesc **out);
/* Whether it is of this op, not of any. */
bool kernel_names_op(const KernelDesc *kernel, const OpSchema *op);

/* The table of now and `n` more kernels, which must stay, before those of the same priority; picked once it is published.
   One thread at a time. */
typedef struct KernelTable KernelTable;
tn_status kernel_table_extend(const KernelDesc *const *more, size_t n, KernelTable **out);
void kernel_table_publish(KernelTable *table);
void kernel_table_discard(KernelTable *table); /* one that was not published; NULL is ignored */

#endif
