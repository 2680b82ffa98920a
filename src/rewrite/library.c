/* SPDX-License-Identifier: Apache-2.0 */
/* The rules there are: the library's own, found on first use and read one by one, and those that users and plug-ins add. */
#include "rewrite/rewrite_int.h"

#include <pthread.h>

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static VEC(const RuleSet *) library;
static bool skimmed_own;
static size_t n_added;

/* With the lock held. */
static tn_status skim_own_rules(void) {
    if (skimmed_own) return TN_OK;
    for (const RulesText *t = rules_texts + library.len; t->name; t++) { /* some, when memory was out before */
        RuleSet *set;
        TRY(rules_skim(&allocator_default, (Str){t->text, t->size}, str_of(t->name), &set));
        tn_status status = vec_push(&allocator_default, &library, set);
        if (status != TN_OK) {
            rules_free(set);
            return status;
        }
    }
    skimmed_own = true;
    return TN_OK;
}

static tn_status copy_list(Arena *arena, const RuleSet *const **sets, size_t *n) {
    TRY(skim_own_rules());
    const RuleSet **list = arena_array(arena, const RuleSet *, library.len + 1);
    if (!list) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < library.len; i++) list[i] = library.data[i];
    *sets = list;
    *n = library.len;
    return TN_OK;
}

tn_status rules_library(Arena *arena, const RuleSet *const **sets, size_t *n) {
    pthread_mutex_lock(&lock);
    tn_status status = copy_list(arena, sets, n);
    pthread_mutex_unlock(&lock);
    return status;
}

size_t rules_n_added(void) {
    pthread_mutex_lock(&lock);
    size_t n = n_added;
    pthread_mutex_unlock(&lock);
    return n;
}

static tn_status check_names(const RuleSet *set) {
    for (size_t i = 0; i < library.len; i++) {
        const RuleSet *other = library.data[i];
        if (str_equal(other->name, set->name))
            return fail(TN_INVALID_ARGUMENT, "there are rules \"%s\" already", set->name.s);
        for (size_t k = 0; k < other->rules.len; k++)
            for (size_t j = 0; j < set->rules.len; j++)
                if (str_equal(other->rules.data[k]->name, set->rules.data[j]->name))
                    return fail(TN_INVALID_ARGUMENT, "there is a rule %s already, in \"%s\"",
                                set->rules.data[j]->name.s, other->name.s);
    }
    return TN_OK;
}

tn_status rules_add(RuleSet *set) {
    pthread_mutex_lock(&lock);
    tn_status status = skim_own_rules();
    if (status == TN_OK) status = check_names(set);
    if (status == TN_OK) status = vec_push(&allocator_default, &library, set);
    n_added += status == TN_OK;
    pthread_mutex_unlock(&lock);
    return status;
}
