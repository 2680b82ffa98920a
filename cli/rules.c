/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon rules`: which rewrite rules there are, and whether they hold. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <tenon/rules.h>

int rules_load(char *const *files, bool prove) {
    for (; files && *files; files++) {
        char *counterexample = NULL;
        if (tn_load_rules(*files, prove, &counterexample) == TN_OK) continue;
        report_last_error();
        if (counterexample) fprintf(stderr, "\n%s", counterexample);
        tn_free_text(counterexample);
        return FAILED;
    }
    return GO_ON;
}

typedef struct Rules {
    char **files;
    const char **names; /* of rules or sets; n_names 0: all */
    size_t n_names;
    int prove, list, json, instances, seed, as_found;
    size_t n, n_wrong; /* proven so far, and of them not true */
    size_t of;
    json_t *answer;
} Rules;

static bool is_meant(const Rules *r, const tn_rule_info *info) {
    for (size_t i = 0; i < r->n_names; i++)
        if (strcmp(r->names[i], info->name) == 0 || strcmp(r->names[i], info->set) == 0) return true;
    return r->n_names == 0;
}

static size_t count_meant(const Rules *r) {
    size_t n = 0;
    tn_rule_info info;
    for (size_t i = 0; tn_rule_at(i, &info) == TN_OK; i++) n += is_meant(r, &info);
    return n;
}

static json_t *info_of(const tn_rule_info *info) {
    return json_pack("{s:s, s:s, s:s, s:i, s:I, s:s}", "name", info->name, "set", info->set, "summary", info->summary,
                     "level", info->level, "line", (json_int_t)info->line, "text", info->text);
}

/* ---- showing -------------------------------------------------------------------------------------------------- */

static void show_list(Rules *r) {
    static const char *const columns[] = {"<rule", "<set", ">level", "~summary"};
    Table *table = r->json ? NULL : table_new(4, columns);
    tn_rule_info info;
    size_t n = 0;
    for (size_t i = 0; tn_rule_at(i, &info) == TN_OK; i++) {
        if (!is_meant(r, &info)) continue;
        n++;
        if (r->json) json_array_append_new(r->answer, info_of(&info));
        if (!table) continue;
        table_cell(table, "%s", info.name);
        table_cell(table, "%s", info.set);
        table_cell(table, "%d", info.level);
        table_cell(table, "%s", info.summary);
    }
    if (!table) return;
    table_print(table, stdout);
    printf("%zu rules\n", n);
}

static void show_texts(const Rules *r) {
    tn_rule_info info;
    bool first = true;
    for (size_t i = 0; tn_rule_at(i, &info) == TN_OK; i++) {
        if (!is_meant(r, &info)) continue;
        printf("%s%s# %s, line %zu%s\n%s\n", first ? "" : "\n", colour(stdout, DIM), info.set, info.line,
               colour(stdout, PLAIN), info.text);
        first = false;
    }
}

/* ---- proving -------------------------------------------------------------------------------------------------- */

static json_t *proof_json(const tn_rule_proof *p) {
    static const char *const outcomes[] = {"holds", "refuted", "unknown"};
    json_t *object = info_of(&p->rule);
    json_object_del(object, "text");
    json_object_update_new(object, json_pack("{s:s, s:I, s:I, s:b, s:o, s:s, s:s, s:s}", "outcome",
                                             outcomes[p->outcome], "instances", (json_int_t)p->instances, "tried",
                                             (json_int_t)p->tried, "exact", p->exact, "worst", number_json(p->worst),
                                             "why", p->why, "unseen", p->unseen, "counterexample", p->counterexample));
    return object;
}

static void print_proof(const tn_rule_proof *p) {
    bool holds = p->outcome == TN_PROOF_HOLDS;
    printf("%s%-9s%s %-44s", colour(stdout, holds ? GREEN : RED),
           holds                            ? "holds"
           : p->outcome == TN_PROOF_REFUTED ? "WRONG"
                                            : "UNKNOWN",
           colour(stdout, PLAIN), p->rule.name);
    if (holds && p->exact) printf(" %6zu instances, the same bits\n", p->instances);
    else if (holds) printf(" %6zu instances, at most %.1e apart\n", p->instances, p->worst);
    else printf(" %s\n", p->why);
    if (*p->unseen) printf("          never seen: %s\n", p->unseen);
    if (*p->counterexample) printf("\n%s\n", p->counterexample);
    fflush(stdout);
}

static bool proven(void *user, const tn_rule_proof *p) {
    Rules *r = user;
    r->n++;
    r->n_wrong += p->outcome != TN_PROOF_HOLDS;
    progress_end();
    if (r->json) json_array_append_new(r->answer, proof_json(p));
    else print_proof(p);
    progress("proving", r->n, r->of);
    return true;
}

static int prove(Rules *r) {
    r->of = count_meant(r);
    tn_prove_options options = {.rules = r->names,
                                .n_rules = r->n_names,
                                .instances = (size_t)r->instances,
                                .seed = (uint64_t)r->seed,
                                .as_found = r->as_found != 0,
                                .done = proven,
                                .user = r};
    tn_status status = tn_rules_prove(&options);
    progress_end();
    if (status != TN_OK) return report_last_error();
    if (!r->json) printf("%zu of %zu rules hold\n", r->n - r->n_wrong, r->n);
    return r->n_wrong ? FAILED : DONE;
}

/* ---- command -------------------------------------------------------------------------------------------------- */

/* No rules at all is an answer; rules that cannot be read are an error. */
static int can_be_read(void) {
    tn_rule_info info;
    tn_status status = tn_rule_at(0, &info);
    return status == TN_OK || status == TN_OUT_OF_RANGE ? GO_ON : report_last_error();
}

/* Without names, rules of a file are what is meant. */
static int choose_names(Rules *r, const Args *args) {
    size_t n_files = 0;
    while (r->files && r->files[n_files]) n_files++;
    r->names = args->n_rest ? args->rest : (const char **)r->files;
    r->n_names = args->n_rest ? (size_t)args->n_rest : n_files;
    tn_rule_info info;
    for (int i = 0; i < args->n_rest; i++) {
        Rules one = {.names = &r->names[i], .n_names = 1};
        if (count_meant(&one) == 0 && tn_rule_find(r->names[i], &info) != TN_OK) return report_last_error(), USAGE;
    }
    return GO_ON;
}

static int answer(Rules *r) {
    int code = DONE;
    r->answer = r->json ? json_array() : NULL;
    if (r->prove) code = prove(r);
    else if (r->list || r->json || r->n_names == 0 || r->names == (const char **)r->files) show_list(r);
    else show_texts(r);
    if (r->answer) print_json(r->answer);
    return code;
}

static int run_rules(int argc, const char **argv) {
    Rules r = {.instances = 200};
    struct poptOption table[] = {
        {"prove", 'p', POPT_ARG_NONE, &r.prove, 0, "compare both sides on instances of each rule", NULL},
        {"instances", 'n', POPT_ARG_INT, &r.instances, 0, "how many of each rule (200)", "N"},
        {"seed", '\0', POPT_ARG_INT, &r.seed, 0, "where instances begin (0)", "N"},
        {"as-found", '\0', POPT_ARG_NONE, &r.as_found, 0, "do not make counterexamples smaller", NULL},
        {"rules", 'r', POPT_ARG_ARGV, &r.files, 0, "a file of rules; alone: only those", "FILE"},
        {"list", 'l', POPT_ARG_NONE, &r.list, 0, "a line for each rule, not its text", NULL},
        {"json", '\0', POPT_ARG_NONE, &r.json, 0, "answer in JSON", NULL},
        END_OF_OPTIONS};
    Args args;
    int code = args_parse(&args, &command_rules, table, argc, argv, 0, -1);
    if (code == GO_ON && (r.instances < 1 || r.seed < 0))
        code = usage_error(&command_rules, "--instances and --seed are numbers above 0");
    if (code == GO_ON) code = rules_load(r.files, false);
    if (code == GO_ON) code = can_be_read();
    if (code == GO_ON) code = choose_names(&r, &args);
    if (code == GO_ON) code = answer(&r);
    args_free(&args);
    return code;
}

const Command command_rules = {
    "rules", "[NAME...] [OPTION...]", "list the rewrite rules, show or prove them",
    "NAME is a rule or a set of rules. Without one: all, or those of --rules FILE. docs/rules.md is the manual\n"
    "of the language. A proof runs the left side and the right side of a rule on instances that are drawn from\n"
    "it; exit status 1 when one of them does not hold, with the smallest counterexample that was found.\n"
    "\n"
    "Examples:\n"
    "  tenon rules\n"
    "  tenon rules fold_batchnorm_into_conv\n"
    "  tenon rules --prove conv\n"
    "  tenon rules --prove --rules my.rules --instances 1000\n",
    run_rules};
