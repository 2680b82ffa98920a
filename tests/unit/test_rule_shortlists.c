/* SPDX-License-Identifier: Apache-2.0 */
/* Shortlists of rules: on instances of every rule of the tree, all rules that match are on the list of the root. */
#include "test_ir_common.h"

#include "rewrite/index_int.h"
#include "rewrite/prove_int.h"

enum { MOST_RULES = 1024, DRAWS = 40 };

typedef struct All {
    Context *ctx;
    Arena arena;
    const Rule *rules[MOST_RULES];
    size_t n;
    Matcher *matcher;
    Shortlists *shortlists;
    Match match;
    size_t n_roots, n_matches, n_tried; /* nodes, rules that match there, rules on their lists */
} All;

static void all_begin(All *all) {
    const RuleSet *const *sets;
    size_t n;
    *all = (All){0};
    OK(context_new(NULL, NULL, &all->ctx));
    arena_init(&all->arena, &all->ctx->allocator);
    OK(rules_library(&all->arena, &sets, &n));
    for (size_t i = 0; i < n; i++)
        for (size_t k = 0; k < rules_count(sets[i]); k++) {
            assert_true(all->n < MOST_RULES);
            OK(rule_read(rules_at(sets[i], k)));
            all->rules[all->n++] = rules_at(sets[i], k);
        }
    OK(matcher_new(&all->ctx->allocator, all->rules, all->n, &all->matcher));
    all->shortlists = mem_alloc(&all->ctx->allocator, sizeof *all->shortlists, alignof(Shortlists));
    assert_non_null(all->shortlists);
    arena_init(&all->shortlists->arena, &all->ctx->allocator);
}

static void all_end(All *all) {
    const Allocator *a = &all->ctx->allocator;
    arena_free(&all->shortlists->arena);
    mem_free(a, all->shortlists, sizeof *all->shortlists);
    matcher_free(all->matcher);
    arena_free(&all->arena);
    context_unref(all->ctx);
}

static bool is_listed(const Rule *const *list, const Rule *rule) {
    for (; *list; list++)
        if (*list == rule) return true;
    return false;
}

static void check_root(All *all, const Varying *varying, Node *root) {
    const Rule *const *list;
    const Entry *e;
    OK(shortlist_find(all->shortlists, all->matcher, varying, root, &list));
    all->match.varies = varying->data;
    all->match.n_varies = varying->len;
    for (size_t i = 0; list[i]; i++) all->n_tried++;
    all->n_roots++;
    OK(matcher_rules(all->matcher, root->op, &e));
    for (; e; e = e->next) {
        bool matched;
        Arena arena;
        arena_init(&arena, &all->ctx->allocator);
        OK(rule_match(e->rule, root, &arena, &all->match, &matched));
        arena_free(&arena);
        all->n_matches += matched;
        bool listed = !matched || is_listed(list, e->rule);
        if (!listed) print_error("%s matches, but is not on the list\n", rule_name(e->rule));
        assert_true(listed);
    }
}

static void check_instance(All *all, const Instance *x) {
    Model *model;
    Varying varying = {0};
    const Allocator *a = &all->ctx->allocator;
    OK(instance_model(all->ctx, x, &model, NULL));
    if (infer_model(model) == TN_OK) {
        for (const Node *node = model->main->first; node; node = node->next) OK(varying_add(&varying, a, node));
        for (Node *node = model->main->first; node; node = node->next) check_root(all, &varying, node);
    } else diag_clear();
    vec_free(a, &varying);
    model_free(model);
}

static void what_matches_is_listed(void **state) {
    static All all;
    (void)state;
    all_begin(&all);
    for (size_t i = 0; i < all.n; i++) {
        Sampler *s = mem_alloc(&all.ctx->allocator, sizeof *s, alignof(Sampler));
        assert_non_null(s);
        OK(sampler_init(s, all.ctx, all.rules[i]));
        for (uint64_t seed = 0; seed < DRAWS; seed++) {
            bool drawn;
            OK(sampler_draw(s, seed * 977 + i, (Knobs){6, false}, &drawn));
            if (drawn) check_instance(&all, s->instance);
        }
        sampler_free(s);
        mem_free(&all.ctx->allocator, s, sizeof *s);
    }
    print_message("%zu nodes, %zu matches, %zu tries\n", all.n_roots, all.n_matches, all.n_tried);
    assert_true(all.n_matches > all.n * DRAWS / 8); /* most rules have instances by then */
    assert_true(all.n_tried < 4 * all.n_matches);   /* and little else is tried */
    all_end(&all);
}

int main(void) {
    const struct CMUnitTest tests[] = {cmocka_unit_test(what_matches_is_listed)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
