/* SPDX-License-Identifier: Apache-2.0 */
/* Whether a pass applies to the places at hand. */
#include "pass/pass_int.h"

static bool is_place(const PassSetup *setup, const char *target) {
    for (size_t i = 0; i < setup->n_places; i++)
        if (strcmp(setup->places[i].target, target) == 0) return true;
    return false;
}

static bool has_kernel(const PassSetup *setup, const PassKernel *kernel) {
    const PassHost *host = setup->host;
    if (!host || !host->has_kernel) return false;
    for (size_t i = 0; i < setup->n_places; i++) {
        if (kernel->target && strcmp(kernel->target, setup->places[i].target) != 0) continue;
        if (host->has_kernel(host->user, kernel->op, &setup->places[i])) return true;
    }
    return false;
}

static void list_targets(const char *const *targets, Text *out) {
    for (int i = 0; i < PASS_MAX_TARGETS && targets[i]; i++) text_printf(out, "%s%s", i ? ", " : "", targets[i]);
}

/* What keeps it from applying is written to `out`. */
static bool check(const Pass *pass, const PassSetup *setup, Text *out) {
    bool bound = !pass->targets[0] || (pass->for_wishes && setup->n_wishes > 0);
    for (int i = 0; i < PASS_MAX_TARGETS && pass->targets[i]; i++) bound |= is_place(setup, pass->targets[i]);
    if (!bound) {
        text_puts(out, "it is for ");
        list_targets(pass->targets, out);
        text_puts(out, " only, which is no valid place");
        return false;
    }
    for (int i = 0; i < PASS_MAX_TARGETS && pass->not_targets[i]; i++) {
        if (!is_place(setup, pass->not_targets[i])) continue;
        text_printf(out, "it is not for %s, which is a valid place", pass->not_targets[i]);
        return false;
    }
    for (int i = 0; i < PASS_MAX_KERNELS && pass->kernels[i].op; i++) {
        const PassKernel *k = &pass->kernels[i];
        if (has_kernel(setup, k)) continue;
        text_printf(out, "it wants a kernel for %s on %s, and there is none", k->op,
                    k->target ? k->target : "one of the valid places");
        return false;
    }
    return true;
}

bool pass_applies(const Pass *pass, const PassSetup *setup, Arena *arena, Str *why) {
    Text text;
    text_init(&text, arena->allocator);
    bool applies = check(pass, setup, &text);
    const char *kept = text.n ? arena_strndup(arena, text.s, text.n) : "";
    *why = kept ? str_of(kept) : STR("");
    text_free(&text);
    return applies;
}
