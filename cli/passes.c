/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon passes`: which passes there are, where they stand, and whether they apply. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

typedef struct Passes {
    PassOptions passes;
    char *why; /* a model */
    int json, pipeline;
} Passes;

/* What became of one pass with a model. */
typedef struct Reason {
    bool applies;
    char *why; /* the library's */
    size_t ran, changed;
} Reason;

/* ---- reading -------------------------------------------------------------------------------------------------- */

static const char *kind_text(tn_pass_kind kind) {
    static const char *const names[] = {"program", "stmt", "debug"};
    return kind <= TN_PASS_DEBUG ? names[kind] : "";
}

typedef struct Key {
    size_t index;
    tn_phase phase;
    int order;
} Key;

/* As they run; those without a phase last. */
static int by_place(const void *a, const void *b) {
    const Key *x = a, *y = b;
    unsigned p = x->phase ? x->phase : 100u, q = y->phase ? y->phase : 100u;
    if (p != q) return p < q ? -1 : 1;
    if (x->order != y->order) return x->order < y->order ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

/* Indices for tn_pass_at, to be freed. */
static Key *passes_in_order(size_t *n) {
    size_t all = tn_n_passes();
    Key *keys = need(calloc(all + 1, sizeof *keys));
    tn_pass_info info;
    *n = 0;
    for (size_t i = 0; i < all; i++)
        if (tn_pass_at(i, &info) == TN_OK) keys[(*n)++] = (Key){i, info.phase, info.order};
    qsort(keys, *n, sizeof *keys, by_place);
    return keys;
}

static Reason reason_of(const char *name, const Passes *p, const PassSum *sums, size_t n) {
    Reason r = {0};
    tn_pass_info info;
    if (tn_pass_applies(name, &p->passes.settings, &r.applies, &r.why) != TN_OK) return r;
    if (tn_pass_find(name, &info) == TN_OK) name = info.name; /* dashes for underscores */
    for (size_t i = 0; i < n; i++) {
        if (strcmp(sums[i].pass, name) != 0) continue;
        r.ran += sums[i].ran;
        r.changed += sums[i].changed;
    }
    r.applies |= r.ran > 0;
    return r;
}

/* ---- showing -------------------------------------------------------------------------------------------------- */

static json_t *options_json(const char *name, size_t n) {
    json_t *list = json_array();
    tn_pass_option_info o;
    for (size_t i = 0; i < n; i++)
        if (tn_pass_option_at(name, i, &o) == TN_OK)
            json_array_append_new(list, json_pack("{s:s, s:s, s:s, s:s}", "name", o.name, "kind", o.kind, "preset",
                                                  o.preset, "help", o.help));
    return list;
}

static json_t *pass_json(const tn_pass_info *i, const Reason *r) {
    json_t *object = json_pack("{s:s, s:s, s:s, s:s, s:i, s:i, s:b, s:s, s:s, s:s, s:s, s:s, s:s}", "name", i->name,
                               "summary", i->summary, "kind", kind_text(i->kind), "phase", tn_phase_name(i->phase),
                               "order", i->order, "level", i->opt_level, "each_graph", i->each_graph, "targets",
                               i->targets, "excluded", i->excluded, "kernels", i->kernels, "required", i->required,
                               "keeps", i->keeps, "pipeline", i->pipeline);
    json_object_set_new(object, "options", options_json(i->name, i->n_options));
    if (r)
        json_object_update_new(object,
                               json_pack("{s:b, s:s, s:I, s:I}", "applies", r->applies, "why", r->why ? r->why : "",
                                         "ran", (json_int_t)r->ran, "changed", (json_int_t)r->changed));
    return object;
}

static void list_row(Table *table, const tn_pass_info *i) {
    table_cell(table, "%s", i->name);
    table_cell(table, "%s", kind_text(i->kind));
    table_cell(table, "%s", tn_phase_name(i->phase));
    if (i->phase) table_cell(table, "%d", i->order);
    else table_cell(table, "-");
    table_cell(table, "%d", i->opt_level);
    table_cell(table, "%s", i->summary);
}

static void why_row(Table *table, const tn_pass_info *i, const Reason *r) {
    table_cell(table, "%s", i->name);
    table_cell(table, "%s", r->applies ? "yes" : "no");
    table_cell(table, "%zu", r->ran);
    table_cell(table, "%zu", r->changed);
    if (r->applies && !r->ran && i->phase == TN_POST_PARTITION)
        table_cell(table, "runs once the input sizes are known");
    else table_cell(table, "%s", r->applies || !r->why ? "" : r->why);
}

static void print_line(const char *what, const char *text) {
    if (*text) printf("  %-9s %s\n", what, text);
}

static void print_pass(const tn_pass_info *i, const Reason *r) {
    tn_pass_option_info o;
    printf("%s%s%s: %s\n  %-9s %s\n", colour(stdout, BOLD), i->name, colour(stdout, PLAIN), i->summary, "kind",
           kind_text(i->kind));
    if (i->phase) printf("  %-9s %s, order %d, from -O%d\n", "phase", tn_phase_name(i->phase), i->order, i->opt_level);
    else print_line("phase", "none: runs where a pipeline names it");
    print_line("graphs", i->each_graph ? "each, those nested first" : "the main graph");
    print_line("targets", i->targets);
    print_line("excluded", i->excluded);
    print_line("kernels", i->kernels);
    print_line("required", i->required);
    print_line("keeps", i->keeps);
    print_line("pipeline", i->pipeline);
    for (size_t k = 0; k < i->n_options; k++)
        if (tn_pass_option_at(i->name, k, &o) == TN_OK)
            printf("  option    %s (%s, %s): %s\n", o.name, o.kind, *o.preset ? o.preset : "\"\"", o.help);
    if (!r) return;
    print_line("applies", r->applies ? "yes" : "no");
    if (!r->applies) print_line("why", r->why ? r->why : "");
    printf("  %-9s %zu times, changed the model %zu times\n", "ran", r->ran, r->changed);
}

/* ---- commands ------------------------------------------------------------------------------------------------- */

static void show_all(const Passes *p, const PassSum *sums, size_t n_sums) {
    static const char *const columns[] = {"<pass", "<kind", "<phase", ">order", ">level", "~summary"},
                             *const why_columns[] = {"<pass", "<applies", ">ran", ">changed", "~why"};
    size_t n;
    Key *keys = passes_in_order(&n);
    Table *table = p->json ? NULL : p->why ? table_new(5, why_columns) : table_new(6, columns);
    json_t *list = p->json ? json_array() : NULL;
    for (size_t i = 0; i < n; i++) {
        tn_pass_info info;
        if (tn_pass_at(keys[i].index, &info) != TN_OK) continue;
        Reason r = {0};
        if (p->why) r = reason_of(info.name, p, sums, n_sums);
        tn_pass_at(keys[i].index, &info); /* its texts do not outlive the question before */
        if (list) json_array_append_new(list, pass_json(&info, p->why ? &r : NULL));
        else if (p->why) why_row(table, &info, &r);
        else list_row(table, &info);
        tn_free_text(r.why);
    }
    if (list) print_json(list);
    else table_print(table, stdout);
    if (!list) printf("%zu passes\n", n);
    free(keys);
}

static int show_one(const Passes *p, const char *name, const PassSum *sums, size_t n_sums) {
    tn_pass_info info;
    Reason r = {0};
    if (p->why) r = reason_of(name, p, sums, n_sums);
    if (tn_pass_find(name, &info) != TN_OK) {
        tn_free_text(r.why);
        return report_last_error(), USAGE;
    }
    if (p->json) print_json(pass_json(&info, p->why ? &r : NULL));
    else print_pass(&info, p->why ? &r : NULL);
    tn_free_text(r.why);
    return DONE;
}

static int show(const Passes *p, const char *name, const tn_pass_report *told) {
    size_t n = 0;
    PassSum *sums = pass_sums(told, &n);
    int code = DONE;
    if (name) code = show_one(p, name, sums, n);
    else show_all(p, sums, n);
    pass_sums_free(sums, n);
    return code;
}

static int show_with_model(const Passes *p, const char *name) {
    tn_context *context = NULL;
    tn_model *model = NULL, *better = NULL;
    tn_pass_report *told = NULL;
    int code = open_context(0, &context);
    if (code == GO_ON) code = open_model(context, p->why, &model);
    if (code == GO_ON && tn_model_optimize(model, &p->passes.settings, &better, &told) != TN_OK)
        code = report_last_error();
    if (code == GO_ON) code = show(p, name, told);
    tn_pass_report_release(told);
    tn_model_release(better);
    tn_model_release(model);
    tn_context_release(context);
    return code;
}

static int show_pipeline(const Passes *p) {
    char *text;
    if (tn_pipeline_text(&p->passes.settings, &text) != TN_OK) return report_last_error();
    if (p->json) print_json(json_pack("{s:s}", "pipeline", text));
    else printf("%s\n", text);
    tn_free_text(text);
    return DONE;
}

static int run_passes(int argc, const char **argv) {
    Passes p = {0};
    struct poptOption table[] = {
        {"why", 'w', POPT_ARG_STRING, &p.why, 0, "run them on MODEL: which apply, and which changed it", "MODEL"},
        {"pipeline", '\0', POPT_ARG_NONE, &p.pipeline, 0, "show what would run, as text for --passes", NULL},
        PASS_OPTIONS(p.passes),
        {"json", '\0', POPT_ARG_NONE, &p.json, 0, "answer in JSON", NULL},
        END_OF_OPTIONS};
    Args args;
    int code = args_parse(&args, &command_passes, table, argc, argv, 0, 1);
    const char *name = code == GO_ON && args.n_rest ? args.rest[0] : NULL;
    if (code == GO_ON) code = passes_read(&command_passes, &p.passes);
    if (code == GO_ON) code = p.pipeline ? show_pipeline(&p) : p.why ? show_with_model(&p, name) : show(&p, name, NULL);
    passes_free(&p.passes);
    args_free(&args);
    return code;
}

const Command command_passes = {
    "passes", "[NAME] [OPTION...]", "list the passes, or tell about one",
    "Those with a phase run by themselves, in this order, from their level of optimisation on. Kinds: a\n"
    "program pass may change anything, a stmt pass no structure, a debug pass nothing.\n"
    "\n"
    "Examples:\n"
    "  tenon passes\n"
    "  tenon passes remove-dead\n"
    "  tenon passes --pipeline -O1\n"
    "  tenon passes --why net.onnx --place cpu\n",
    run_passes};
