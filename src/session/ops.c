/* SPDX-License-Identifier: Apache-2.0 */
/* What is to be told of ops: what they are made of, and how a target runs them. */
#include "rewrite/rewrite.h"
#include "session/passes_int.h"

/* ---- what an op is made of ----------------------------------------------------------------------------------- */

/* What the first rule for it says behind its name. The library's rules stay. */
static const char *by_rule(const OpSchema *op) {
    Arena arena;
    const RuleSet *const *sets;
    const char *found = NULL;
    size_t n = 0;
    arena_init(&arena, &allocator_default);
    if (rules_library(&arena, &sets, &n) != TN_OK) diag_clear();
    for (size_t i = 0; i < n; i++) {
        if (strcmp(rules_name(sets[i]), "lower") != 0) continue;
        for (size_t k = 0; k < rules_count(sets[i]) && !found; k++) {
            const Rule *rule = rules_at(sets[i], k);
            if (rule_read(rule) != TN_OK) diag_clear();
            else if (rule_begins_at(rule, op)) found = rule_summary(rule);
        }
    }
    arena_free(&arena);
    return found;
}

const char *op_lowering(const OpSchema *op) {
    if (op->lowering) return op->lowering;
    if (op->kind == OP_DEFORMABLE) return "regions";
    const char *rule = op->kind == OP_COMPOSITE ? by_rule(op) : NULL;
    return rule ? rule : "";
}

/* Every op that a target may be given whole has a reference function; what only moves data needs none. */
const char *op_ways(const OpSchema *op) {
    static const char *const with_origin[] = {"origin", "origin geometry", "origin loop", "origin geometry loop"};
    static const char *const without[] = {"", "geometry", "loop", "geometry loop"};
    bool geometry = op->regions || op->kind == OP_COMPOSITE, loop = op->flags & OP_LOOPS;
    return (op->reference ? with_origin : without)[geometry + 2 * loop];
}

/* ---- how it runs --------------------------------------------------------------------------------------------- */

static const char *kernel_on(const OpSchema *op, Target target) {
    size_t n;
    const KernelDesc *const *kernels = kernel_table(&n);
    for (size_t i = 0; i < n; i++)
        if (kernels[i]->place.target == target && kernel_runs_op(kernels[i], op)) return kernels[i]->name;
    return NULL;
}

static bool takes_apart(const char *target) {
    const Pass *pass = pass_find(STR("lower-composites"));
    for (int i = 0; pass && i < PASS_MAX_TARGETS && pass->targets[i]; i++)
        if (strcmp(pass->targets[i], target) == 0) return true;
    return false;
}

static tn_status find_target(const char *name, Target *target) {
    uint32_t bit = name ? target_bit(name) : 0;
    if (bit <= 1u << TARGET_ANY) return fail(TN_NOT_FOUND, "there is no target \"%s\"", name ? name : "");
    *target = TARGET_ANY;
    while (1u << *target != bit) ++*target;
    return TN_OK;
}

tn_status tn_op_on(size_t i, const char *name, const char **how) {
    size_t n;
    Target target;
    const OpSchema *const *ops = op_table(&n);
    if (i >= n || !how) return fail(TN_OUT_OF_RANGE, "op %zu of %zu", i, n);
    TRY(find_target(name, &target));
    const char *kernel = kernel_on(ops[i], target);
    if (ops[i]->kind == OP_HOST) *how = "host";
    else if (ops[i]->regions) *how = "regions";
    else if (kernel) *how = kernel;
    else if (ops[i]->kind == OP_COMPOSITE && takes_apart(name)) *how = "lowered";
    else *how = target != TARGET_MINIMAL && ops[i]->reference ? "reference" : "";
    return TN_OK;
}
