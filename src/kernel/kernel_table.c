/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels: kernels.def's rows as pointers, and those that plug-ins add, tried by priority. */
#include "kernel/kernel.h"

#include <stddef.h>

#define KERNEL(id) extern const KernelDesc kernel_##id;
#include "kernel/kernels.def"
#undef KERNEL

/* By descending priority; a unit test holds the rows to it. */
static const KernelDesc *const built_in[] = {
#define KERNEL(id) &kernel_##id,
#include "kernel/kernels.def"
#undef KERNEL
};

/* Which rows run an op: bit i for row i. Found once for each op; a slot belongs to the op that came first. */
enum { CACHED_OPS = 512 };
typedef struct RowsOfOp {
    _Atomic(const OpSchema *) op;
    _Atomic uint64_t rows; /* 0: not known yet */
} RowsOfOp;

/* A table is never changed once it is published, nor freed: whoever picks a kernel needs no lock. */
struct KernelTable {
    const KernelDesc *const *rows;
    size_t n;
    KernelTable *before;
    RowsOfOp cache[CACHED_OPS];
};
static KernelTable first = {.rows = built_in, .n = sizeof built_in / sizeof *built_in};
static _Atomic(KernelTable *) current = &first;

static KernelTable *table_now(void) { return atomic_load_explicit(&current, memory_order_acquire); }

const KernelDesc *const *kernel_table(size_t *n) {
    const KernelTable *table = table_now();
    *n = table->n;
    return table->rows;
}

static bool is_named(const OpSchema *op, Str name) {
    size_t n = name.n; /* of the domain, with its dot */
    while (n > 0 && name.s[n - 1] != '.') n--;
    return str_equal(str_of(op->name), (Str){name.s + n, name.n - n}) &&
           str_equal(str_of(op->domain ? op->domain : ""), (Str){name.s, n ? n - 1 : 0});
}

bool kernel_runs_op(const KernelDesc *kernel, const OpSchema *op) {
    if (!kernel->op) return kernel->runs ? kernel->runs(op) : op->reference != NULL;
    for (const char *at = kernel->op; at && *at; at += strspn(at, " ")) {
        size_t n = strcspn(at, " ");
        if (is_named(op, (Str){at, n})) return true;
        at += n;
    }
    return false;
}

/* Of the first 64 rows. */
static uint64_t rows_of(KernelTable *table, const OpSchema *op) {
    RowsOfOp *slot = &table->cache[((uintptr_t)op >> 5) % CACHED_OPS];
    const OpSchema *none = NULL;
    bool mine = atomic_load(&slot->op) == op || atomic_compare_exchange_strong(&slot->op, &none, op) || none == op;
    uint64_t rows = mine ? atomic_load(&slot->rows) : 0;
    if (rows) return rows;
    for (size_t i = 0; i < table->n && i < 64; i++)
        if (kernel_runs_op(table->rows[i], op)) rows |= (uint64_t)1 << i;
    if (mine) atomic_store(&slot->rows, rows); /* whoever else looks finds the same */
    return rows;
}

tn_status kernel_pick(KernelQuery *q, uint32_t targets, const KernelDesc **out) {
    targets |= 1u << TARGET_ANY;
    KernelTable *table = table_now();
    uint64_t rows = rows_of(table, q->node->op);
    for (size_t i = 0; i < table->n; i++) {
        const KernelDesc *k = q->kernel = table->rows[i];
        if (!(targets & 1u << k->place.target)) continue;
        if (i < 64 ? !(rows >> i & 1) : !kernel_runs_op(k, q->node->op)) continue;
        if (k->match && !k->match(q)) continue;
        *out = k;
        return TN_OK;
    }
    return fail(TN_UNSUPPORTED, "no kernel runs this op");
}

uint32_t strided_all(const Node *node) {
    (void)node;
    return UINT32_MAX;
}

bool kernel_fuses(const Node *inner) {
    const KernelTable *table = table_now();
    for (size_t i = 0; i < table->n; i++)
        if (table->rows[i]->fuses && table->rows[i]->fuses(inner)) return true;
    return false;
}

static const char *const target_names[] = {"any", "reference", "cpu", "minimal"};

const char *target_name(Target target) { return target_names[target]; }

uint32_t target_bit(const char *name) {
    for (size_t i = 0; i < sizeof target_names / sizeof *target_names; i++)
        if (strcmp(target_names[i], name) == 0) return 1u << i;
    return 0;
}

bool kernel_exists(const char *name, const char *target, tn_dtype precision) {
    const OpSchema *op = op_named(str_of(name));
    const KernelTable *table = table_now();
    for (size_t i = 0; op && i < table->n; i++) {
        const KernelDesc *k = table->rows[i];
        bool here = k->place.target == TARGET_ANY || strcmp(target_name(k->place.target), target) == 0;
        bool fits = !k->place.precision || !precision || k->place.precision == precision;
        if (here && fits && kernel_runs_op(k, op)) return true;
    }
    return false;
}

Lowering kernel_lowering(const char *name, const char *target, tn_dtype precision) {
    const OpSchema *op = op_named(str_of(name));
    const KernelTable *table = table_now();
    if (!op || kernel_exists(name, target, precision)) return LOWERING_ORIGIN;
    for (size_t i = 0; i < table->n; i++) {
        const KernelDesc *k = table->rows[i];
        Lowering how = k->wants && strcmp(target_name(k->place.target), target) == 0 ? k->wants(op) : LOWERING_UNSAID;
        if (how) return how;
    }
    return LOWERING_LOOP;
}

/* ---- adding -------------------------------------------------------------------------------------------------- */

tn_status kernel_table_extend(const KernelDesc *const *more, size_t n, KernelTable **out) {
    KernelTable *before = table_now();
    size_t size = sizeof *before + (before->n + n) * sizeof *before->rows;
    KernelTable *table = mem_alloc(&allocator_default, size, alignof(max_align_t));
    if (!table) return TN_OUT_OF_MEMORY;
    const KernelDesc **rows = (const KernelDesc **)(table + 1);
    memcpy(rows, before->rows, before->n * sizeof *rows);
    table->rows = rows;
    table->n = before->n;
    table->before = before;
    for (size_t i = 0; i < n; i++) {
        size_t at = 0;
        while (at < table->n && rows[at]->priority > more[i]->priority) at++;
        memmove(&rows[at + 1], &rows[at], (table->n - at) * sizeof *rows);
        rows[at] = more[i];
        table->n++;
    }
    *out = table;
    return TN_OK;
}

void kernel_table_publish(KernelTable *table) { atomic_store_explicit(&current, table, memory_order_release); }

void kernel_table_discard(KernelTable *table) {
    if (table) mem_free(&allocator_default, table, sizeof *table + table->n * sizeof *table->rows);
}
