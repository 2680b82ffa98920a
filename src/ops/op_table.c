/* SPDX-License-Identifier: Apache-2.0 */
/* The table of ops: ops.def's rows as pointers, and those that plug-ins add, found by binary search. */
#include "ops/op.h"

#include <stddef.h>

#define OP(id) extern const OpSchema op_##id;
#include "ops/ops.def"
#undef OP

static const OpSchema *const built_in[] = {
#define OP(id) &op_##id,
#include "ops/ops.def"
#undef OP
};

/* A table is never changed once it is published, nor freed: whoever looks things up needs no lock. */
struct OpTable {
    const OpSchema *const *rows;
    size_t n;
    OpTable *before;
};
static OpTable first = {built_in, sizeof built_in / sizeof *built_in, NULL};
static _Atomic(OpTable *) current = &first;

static const OpTable *table_now(void) { return atomic_load_explicit(&current, memory_order_acquire); }

static const char *domain_of(const OpSchema *op) { return op->domain ? op->domain : ""; }

/* Names differ in one of their first characters, so their lengths are not looked for. */
static int compare(Str a, const char *b) {
    for (size_t i = 0; i < a.n; i++) {
        int c = (unsigned char)a.s[i] - (unsigned char)b[i];
        if (c != 0) return c;
        if (!b[i]) return 1;
    }
    return b[a.n] ? -1 : 0;
}

/* Against the row's domain, then its name. */
static int compare_row(Str domain, Str name, const OpSchema *row) {
    int c = compare(domain, domain_of(row));
    return c ? c : compare(name, row->name);
}

static const OpSchema *search(const OpTable *table, Str domain, Str name) {
    size_t low = 0, high = table->n;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int c = compare_row(domain, name, table->rows[middle]);
        if (c == 0) return table->rows[middle];
        if (c < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

const OpSchema *op_find(Str domain, Str name) {
    const OpTable *table = table_now();
    if (domain.n == 0 || str_equal(domain, STR("ai.onnx"))) {
        const OpSchema *op = search(table, STR(""), name);
        return op ? op : search(table, STR("tn"), name);
    }
    return search(table, domain, name);
}

const OpSchema *const *op_table(size_t *n) {
    const OpTable *table = table_now();
    *n = table->n;
    return table->rows;
}

/* ---- adding -------------------------------------------------------------------------------------------------- */

static tn_status insert(OpTable *table, const OpSchema **rows, const OpSchema *op) {
    size_t at = table->n;
    while (at > 0 && compare_row(str_of(domain_of(op)), str_of(op->name), rows[at - 1]) < 0) at--;
    if (at > 0 && compare_row(str_of(domain_of(op)), str_of(op->name), rows[at - 1]) == 0)
        return fail(TN_INVALID_ARGUMENT, "there is an op \"%s.%s\" already", op->domain, op->name);
    memmove(&rows[at + 1], &rows[at], (table->n - at) * sizeof *rows);
    rows[at] = op;
    table->n++;
    return TN_OK;
}

tn_status op_table_extend(const OpSchema *const *more, size_t n, OpTable **out) {
    OpTable *before = (OpTable *)table_now();
    size_t size = sizeof *before + (before->n + n) * sizeof *before->rows;
    OpTable *table = mem_alloc(&allocator_default, size, alignof(max_align_t));
    if (!table) return TN_OUT_OF_MEMORY;
    const OpSchema **rows = (const OpSchema **)(table + 1);
    memcpy(rows, before->rows, before->n * sizeof *rows);
    *table = (OpTable){rows, before->n, before};
    tn_status status = TN_OK;
    for (size_t i = 0; i < n && status == TN_OK; i++) status = insert(table, rows, more[i]);
    if (status == TN_OK) *out = table;
    else mem_free(&allocator_default, table, size);
    return status;
}

void op_table_publish(OpTable *table) { atomic_store_explicit(&current, table, memory_order_release); }

void op_table_discard(OpTable *table) {
    if (table) mem_free(&allocator_default, table, sizeof *table + table->n * sizeof *table->rows);
}
