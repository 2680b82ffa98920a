/* SPDX-License-Identifier: Apache-2.0 */
/* The table of kernels: kernels.def's rows as pointers, tried by priority. */
#include "kernel/kernel.h"

#define KERNEL(id) extern const KernelDesc kernel_##id;
#include "kernel/kernels.def"
#undef KERNEL

/* By descending priority; a unit test holds the rows to it. */
static const KernelDesc *const table[] = {
#define KERNEL(id) &kernel_##id,
#include "kernel/kernels.def"
#undef KERNEL
};

const KernelDesc *const *kernel_table(size_t *n) {
    *n = sizeof table / sizeof *table;
    return table;
}

static bool is_named(const OpSchema *op, const char *name) {
    const char *dot = strrchr(name, '.');
    const char *domain = op->domain && strcmp(op->domain, "tn") != 0 ? op->domain : "";
    size_t n = dot ? (size_t)(dot - name) : 0;
    return strcmp(op->name, dot ? dot + 1 : name) == 0 && strlen(domain) == n && memcmp(domain, name, n) == 0;
}

tn_status kernel_pick(const KernelQuery *q, Target target, const KernelDesc **out) {
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        const KernelDesc *k = table[i];
        if (target != TARGET_ANY && k->place.target != TARGET_ANY && k->place.target != target) continue;
        if (k->op && !is_named(q->node->op, k->op)) continue;
        if (k->match && !k->match(q)) continue;
        *out = k;
        return TN_OK;
    }
    return fail(TN_UNSUPPORTED, "no kernel runs this op");
}
