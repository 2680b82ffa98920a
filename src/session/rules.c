/* SPDX-License-Identifier: Apache-2.0 */
/* Rules behind the public interface. */
#include <tenon/rules.h>

#include <stdio.h>

#include "rewrite/rewrite.h"
#include "session/session.h"

/* ---- what there is ------------------------------------------------------------------------------------------- */

/* Texts that end in NUL live until the thread asks again. */
static _Thread_local char text_of_rule[1 << 16];

static void describe(const RuleSet *set, const Rule *rule, tn_rule_info *info) {
    Str text = rule_text(rule);
    size_t n = text.n < sizeof text_of_rule ? text.n : sizeof text_of_rule - 1;
    memcpy(text_of_rule, text.s, n);
    text_of_rule[n] = 0;
    *info = (tn_rule_info){.name = rule_name(rule),
                           .set = rules_name(set),
                           .summary = rule_summary(rule),
                           .text = text_of_rule,
                           .level = rule_level(rule),
                           .line = rule_line(rule)};
}

/* Calls `fn` for each rule until it answers false. */
typedef bool (*EachRule)(void *user, const RuleSet *set, const Rule *rule);
static tn_status each_rule(EachRule fn, void *user) {
    Arena arena;
    const RuleSet *const *sets;
    size_t n = 0;
    bool more = true;
    arena_init(&arena, &allocator_default);
    tn_status status = rules_library(&arena, &sets, &n);
    for (size_t i = 0; status == TN_OK && more && i < n; i++)
        for (size_t k = 0; status == TN_OK && more && k < rules_count(sets[i]); k++) {
            status = rule_read(rules_at(sets[i], k));
            if (status == TN_OK) more = fn(user, sets[i], rules_at(sets[i], k));
        }
    arena_free(&arena);
    return status;
}

static bool count_one(void *user, const RuleSet *set, const Rule *rule) {
    (void)set, (void)rule;
    ++*(size_t *)user;
    return true;
}

size_t tn_n_rules(void) {
    size_t n = 0;
    return each_rule(count_one, &n) == TN_OK ? n : 0;
}

typedef struct Wanted {
    size_t left;      /* how many to pass over */
    const char *name; /* or the name */
    tn_rule_info *info;
    bool found;
} Wanted;

static bool is_wanted(void *user, const RuleSet *set, const Rule *rule) {
    Wanted *w = user;
    w->found = w->name ? strcmp(w->name, rule_name(rule)) == 0 : w->left-- == 0;
    if (w->found) describe(set, rule, w->info);
    return !w->found;
}

tn_status tn_rule_at(size_t i, tn_rule_info *info) {
    Wanted w = {.left = i, .info = info};
    if (!info) return fail(TN_INVALID_ARGUMENT, "info is NULL");
    TRY(each_rule(is_wanted, &w));
    return w.found ? TN_OK : fail(TN_OUT_OF_RANGE, "there is no rule number %zu", i);
}

typedef struct Names {
    const char *list[4096];
    size_t n;
} Names;

static void add_name(Names *names, const char *name) {
    if (names->n < sizeof names->list / sizeof *names->list) names->list[names->n++] = name;
}

static bool keep_names(void *user, const RuleSet *set, const Rule *rule) {
    add_name(user, rule_name(rule));
    add_name(user, rules_name(set));
    return true;
}

static tn_status no_such(const char *name) {
    Names names = {.n = 0};
    TRY(each_rule(keep_names, &names));
    const char *near = nearest_name(str_of(name), names.list, names.n);
    return near ? fail(TN_NOT_FOUND, "there is no rule \"%s\"; did you mean %s?", name, near)
                : fail(TN_NOT_FOUND, "there is no rule \"%s\"", name);
}

tn_status tn_rule_find(const char *name, tn_rule_info *info) {
    Wanted w = {.name = name, .info = info};
    if (!name || !info) return fail(TN_INVALID_ARGUMENT, "name or info is NULL");
    TRY(each_rule(is_wanted, &w));
    return w.found ? TN_OK : no_such(name);
}

/* ---- proofs -------------------------------------------------------------------------------------------------- */

enum { INSTANCES = 200 };

/* Instances are small; what grows is not worth looking at. */
static tn_status prover_context(Context **out) {
    return context_new(NULL, &(tn_limits){.max_bytes = 1 << 20, .max_nodes = 4096}, out);
}

typedef struct Proving {
    const tn_prove_options *options;
    Context *ctx;
    tn_status status;
} Proving;

static bool is_asked_for(const tn_prove_options *o, const RuleSet *set, const Rule *rule) {
    for (size_t i = 0; i < o->n_rules; i++)
        if (strcmp(o->rules[i], rule_name(rule)) == 0 || strcmp(o->rules[i], rules_name(set)) == 0) return true;
    return o->n_rules == 0;
}

static bool tell(const tn_prove_options *o, const RuleSet *set, const Rule *rule, const Proof *proof) {
    tn_rule_proof told = {.outcome = (tn_proof_outcome)proof->outcome,
                          .instances = proof->instances,
                          .tried = proof->tried,
                          .exact = proof->exact,
                          .worst = proof->worst,
                          .why = proof->why,
                          .unseen = proof->unseen,
                          .counterexample = proof->counterexample.s ? proof->counterexample.s : ""};
    describe(set, rule, &told.rule);
    return !o->done || o->done(o->user, &told);
}

static bool prove_one(void *user, const RuleSet *set, const Rule *rule) {
    Proving *p = user;
    Proof proof;
    bool more = true;
    if (!is_asked_for(p->options, set, rule)) return true;
    ProofOptions options = {p->options->instances ? p->options->instances : INSTANCES, p->options->seed,
                            p->options->as_found};
    p->status = rule_prove(p->ctx, rule, &options, &proof);
    if (p->status == TN_OK) more = tell(p->options, set, rule, &proof);
    proof_free(&proof);
    return p->status == TN_OK && more;
}

static tn_status check_name(const char *name) {
    Names names = {.n = 0};
    TRY(each_rule(keep_names, &names));
    for (size_t i = 0; i < names.n; i++)
        if (strcmp(names.list[i], name) == 0) return TN_OK;
    return no_such(name);
}

tn_status tn_rules_prove(const tn_prove_options *options) {
    tn_prove_options none = {0};
    Proving p = {.options = options ? options : &none};
    if (p.options->n_rules && !p.options->rules) return fail(TN_INVALID_ARGUMENT, "rules is NULL");
    for (size_t i = 0; i < p.options->n_rules; i++) TRY(check_name(p.options->rules[i]));
    TRY(prover_context(&p.ctx));
    tn_status status = each_rule(prove_one, &p);
    context_unref(p.ctx);
    return status == TN_OK ? p.status : status;
}

/* ---- more rules ---------------------------------------------------------------------------------------------- */

static tn_status refuse(const RuleSet *set, const Rule *rule, Proof *proof, char **counterexample) {
    tn_status status = fail(TN_INVALID_ARGUMENT, "rule %s %s: %s", rule_name(rule),
                            proof->outcome == PROOF_REFUTED ? "is wrong" : "is not proven", proof->why);
    diag_note("at line %zu of %s", rule_line(rule), rules_name(set));
    if (counterexample && proof->counterexample.n)
        return give_text(TN_OK, &proof->counterexample, counterexample) == TN_OK ? status : TN_OUT_OF_MEMORY;
    return status;
}

static tn_status prove_set(const RuleSet *set, char **counterexample) {
    Context *ctx;
    TRY(prover_context(&ctx));
    tn_status status = TN_OK;
    for (size_t i = 0; status == TN_OK && i < rules_count(set); i++) {
        Proof proof;
        status = rule_prove(ctx, rules_at(set, i), &(ProofOptions){.instances = INSTANCES}, &proof);
        if (status == TN_OK && proof.outcome != PROOF_HOLDS)
            status = refuse(set, rules_at(set, i), &proof, counterexample);
        proof_free(&proof);
    }
    context_unref(ctx);
    return status;
}

static tn_status add_rules(Str text, const char *name, bool prove, char **counterexample) {
    RuleSet *set;
    if (counterexample) *counterexample = NULL;
    TRY(rules_parse(&allocator_default, text, str_of(name), &set));
    tn_status status = prove ? prove_set(set, counterexample) : TN_OK;
    if (status == TN_OK) status = rules_add(set);
    if (status != TN_OK) rules_free(set);
    return status;
}

tn_status tn_register_rules(const char *text, const char *name, bool prove, char **counterexample) {
    if (!text || !name || !*name) return fail(TN_INVALID_ARGUMENT, "text or name is missing");
    return add_rules(str_of(text), name, prove, counterexample);
}

tn_status tn_load_rules(const char *path, bool prove, char **counterexample) {
    Buffer *bytes;
    if (!path || !*path) return fail(TN_INVALID_ARGUMENT, "path is missing");
    TRY(file_map(&allocator_default, path, &bytes));
    tn_status status = add_rules((Str){(const char *)bytes->data, bytes->size}, path, prove, counterexample);
    buffer_unref(bytes);
    return status;
}
