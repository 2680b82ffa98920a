/* SPDX-License-Identifier: Apache-2.0 */
/* The table of ops: ops.def's rows as pointers, found by binary search. */
#include "ops/op.h"

#define OP(id) extern const OpSchema op_##id;
#include "ops/ops.def"
#undef OP

static const OpSchema *const table[] = {
#define OP(id) &op_##id,
#include "ops/ops.def"
#undef OP
};

static Str domain_of(const OpSchema *op) { return str_of(op->domain ? op->domain : ""); }

static int compare(Str a, Str b) {
    int c = memcmp(a.s, b.s, a.n < b.n ? a.n : b.n);
    return c ? c : (a.n > b.n) - (a.n < b.n);
}

static const OpSchema *search(Str domain, Str name) {
    size_t low = 0, high = sizeof table / sizeof *table;
    while (low < high) {
        size_t middle = (low + high) / 2;
        int c = compare(domain, domain_of(table[middle]));
        if (c == 0) c = compare(name, str_of(table[middle]->name));
        if (c == 0) return table[middle];
        if (c < 0) high = middle;
        else low = middle + 1;
    }
    return NULL;
}

const OpSchema *op_find(Str domain, Str name) {
    if (domain.n == 0 || str_equal(domain, STR("ai.onnx"))) {
        const OpSchema *op = search(STR(""), name);
        return op ? op : search(STR("tn"), name);
    }
    return search(domain, name);
}

const OpSchema *const *op_table(size_t *n) {
    *n = sizeof table / sizeof *table;
    return table;
}
