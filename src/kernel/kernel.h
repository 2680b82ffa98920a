/* SPDX-License-Identifier: Apache-2.0 */
/* What a kernel is. The table kernels.def names them; a backend's file fills a KernelDesc; plug-ins add theirs. A node
   gets the first kernel of its op, by priority, that matches; every op ends its list in the reference kernel. */
#ifndef TENON_KERNEL_KERNEL_H
#define TENON_KERNEL_KERNEL_H

#include "geom/geom.h"
#include "ir/ir.h"

/* Where a kernel runs and what it reads. */
typedef enum Target { TARGET_ANY, TARGET_REFERENCE, TARGET_CPU, TARGET_MINIMAL } Target;
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
    int way;                         /* of `kernel`, to prepare for; 0: its own choice */
    bool accurate;                   /* TN_ACCURACY_HIGH: sums only of the products that the op's definition names */
} KernelQuery;

/* One of several ways in which a kernel may do the same work. */
typedef struct KernelWay {
    const char *name;  /* "winograd4" */
    const char *packs; /* the form of constants that it reads, which ways may share; NULL: it reads them as they lie */
} KernelWay;
enum { KERNEL_WAYS = 20 };

/* Bytes made once of a constant (packed weights), shared by all who ask for the same while anyone holds them. */
typedef struct Packed {
    void *data; /* at a multiple of 64 bytes */
    size_t size;
} Packed;
typedef struct PackKey {
    const void *source; /* the constant's bytes, which stay where they are while the result is held */
    const char *format; /* how they are packed; fewer than 32 characters, none of them a colon */
    int64_t params[6];  /* whatever else decides the bytes */
    size_t n_bytes;     /* of the source, when it is one run of bytes that will not be read again: its pages go back */
} PackKey;
/* `make` fills `size` bytes that are zero; it runs once, on one thread. To be given back with packed_put. */
tn_status packed_get(Context *context, const PackKey *key, size_t size, tn_status (*make)(void *arg, void *dst),
                     void *arg, const Packed **out);
void packed_put(const Packed *packed); /* NULL is ignored */
/* Bytes that were packed before, in memory that `buffer` keeps: whoever asks for that key gets them. Held until packed_put.
   *out NULL: somebody has them already. */
tn_status packed_offer(Context *context, const PackKey *key, const void *data, size_t size, Buffer *buffer,
                       const Packed **out);
/* Calls fn for all that are made of bytes within [from, from + n), in no order. */
tn_status packed_each(const Context *context, const void *from, size_t n,
                      tn_status (*fn)(void *user, const PackKey *key, const Packed *packed), void *user);

/* What `prepare` made of a node (packed weights, tables): owned by the program, read-only while it runs. */
typedef struct Prepared {
    void *data;
    size_t size;
    void (*release)(struct Prepared *prepared, const Allocator *allocator);
    uint32_t replaces; /* bit i: launch does not read operand i, a constant */
} Prepared;

typedef struct KernelDesc {
    const char *name;                 /* the row in kernels.def and the file's name */
    const char *op;                   /* "Conv", "tn.Fused", several with blanks between; NULL: `runs` says */
    bool (*runs)(const OpSchema *op); /* where `op` is NULL: which ops; NULL: all that have a reference function */
    Place place;
    /* How the target wants an op that no kernel of its own runs. NULL, and LOWERING_UNSAID: it is for another row to say; where
       none does, LOWERING_LOOP. */
    Lowering (*wants)(const OpSchema *op);
    const char *isa; /* NULL: baseline */
    int priority;    /* the higher comes first */
    bool (*match)(const KernelQuery *q);
    /* Of a kernel for tn.Fused: whether a body may hold this node, as its heavy one or beside it. Asked before sizes are
       known; what it takes then, `match` must accept whatever the sizes are. */
    bool (*fuses)(const Node *inner);
    /* How result k should lie, given dense and row-major: may change its strides to another order of the same elements
       without gaps (say, channels last). NULL: row-major. */
    void (*order)(const KernelQuery *q, int k, Tensor *out);
    /* Bit i: operand i may be any strided reading; else the program hands over a dense one. */
    uint32_t (*strided)(const Node *node);
    /* Bit i: result 0 may lie in the memory of operand i when sizes and readings agree. */
    uint32_t (*in_place)(const Node *node);
    /* The operand that result k begins with and behind which the kernel can write what is new, when both have the same memory
       and strides (a decoder's keys of before); -1. NULL: none has one. */
    int (*grows)(const Node *node, int k);
    /* Result 0 may lie in rows with gaps between them: elements of a row one behind the other, rows any distance apart. */
    bool gaps;
    /* Whether it is slow where rows of operand 0 or of result 0 lie parts of a page apart, all at the same few places of
       their pages; the planner then lays them a little further apart where everybody takes that. NULL: it is not. */
    bool (*avoids_pages)(const Node *node);
    /* Modelled nanoseconds on one thread; NULL: flops of the op / 1e9. */
    double (*cost)(const KernelQuery *q);
    /* Names the bytes that `prepare` makes of constants, so that equal ones are made once. NULL: none. */
    const char *pack_format;
    /* Way w is ways[w - 1]; the last has no name. NULL: there is one way only. */
    const KernelWay *ways;
    /* Those that may be taken for the node, bit w - 1 each, and the one that the kernel takes by itself, from what sizes and
       constants say: what is timed when a session tunes. A way may round differently, but is no less exact than its op
       promises. 0: there is nothing to choose. */
    uint32_t (*offers)(const KernelQuery *q, int *usual);
    size_t (*workspace)(const KernelQuery *q); /* bytes of scratch that launch wants; NULL: what it takes */
    /* Asked whenever the node is planned, so what takes time goes through packed_get. NULL: nothing to prepare. */
    tn_status (*prepare)(const KernelQuery *q, Context *context, Prepared *out);
    /* Whether what was prepared for this node at other sizes is what `prepare` would make now. NULL: it is made anew. */
    bool (*keeps)(const KernelQuery *q, const Prepared *prepared);
    tn_status (*launch)(KernelCtx *c, const Prepared *prepared);
} KernelDesc;

/* For `strided`, of kernels that take any reading of any operand. */
uint32_t strided_all(const Node *node);

/* The table, by priority. */
const KernelDesc *const *kernel_table(size_t *n);
/* Whether some kernel there may run this op. "fc" and the like are no ops: false. */
bool kernel_exists(const char *op, const char *target, tn_dtype precision);
/* How the target runs it: LOWERING_ORIGIN by a kernel of its own, else what its rows want. */
Lowering kernel_lowering(const char *op, const char *target, tn_dtype precision);
const char *target_name(Target target); /* "cpu" */
/* Bits of targets, by name; 0 for one that has no kernels here. */
uint32_t target_bit(const char *name);
#define TARGETS_ALL UINT32_MAX
/* The first that matches and is for one of these targets, or for any; TN_UNSUPPORTED naming the op when none does. */
tn_status kernel_pick(KernelQuery *q, uint32_t targets, const KernelDesc **out);
/* Whether some kernel for tn.Fused takes the node in a body. */
bool kernel_fuses(const Node *inner);
/* Whether it is a kernel of this op. */
bool kernel_runs_op(const KernelDesc *kernel, const OpSchema *op);

/* The table of now and `n` more kernels, which must stay, before those of the same priority; picked once it is published.
   One thread at a time. */
typedef struct KernelTable KernelTable;
tn_status kernel_table_extend(const KernelDesc *const *more, size_t n, KernelTable **out);
void kernel_table_publish(KernelTable *table);
void kernel_table_discard(KernelTable *table); /* one that was not published; NULL is ignored */

#endif
