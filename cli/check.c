/* SPDX-License-Identifier: Apache-2.0 */
/* Does a model still answer what was recorded? Used by `tenon run --test` and `tenon test`. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* One model while its sets are run. */
typedef struct Check {
    tn_context *context;
    tn_model *model;
    tn_session *session;
    double rtol, atol; /* negative: by the type */
    const tn_pass_settings *passes;
    size_t n_quantising, n_nodes;
    size_t n_inputs, n_outputs;
    const char **input_names, **output_names;
    tn_value_kind *input_kinds, *output_kinds;
} Check;

/* ---- tolerances ----------------------------------------------------------------------------------------------- */

/* rtol and atol of FOLDER/data.json, which the ONNX project's own tests have too. */
static void read_tolerances(const char *model, Check *check) {
    const char *slash = strrchr(model, '/');
    char *path = format_text("%.*sdata.json", slash ? (int)(slash + 1 - model) : 0, model);
    json_t *json = is_file(path) ? json_load_file(path, 0, NULL) : NULL, *rtol = json_object_get(json, "rtol"),
           *atol = json_object_get(json, "atol");
    if (check->rtol < 0 && json_is_number(rtol)) check->rtol = json_number_value(rtol);
    if (check->atol < 0 && json_is_number(atol)) check->atol = json_number_value(atol);
    json_decref(json);
    free(path);
}

static tn_status count_quantising(void *user, tn_node *node) {
    static const char *const names[] = {"Quantize", "QLinear", "QGemm", "QAttention", "MatMulInteger", "ConvInteger"};
    Check *check = user;
    bool quantising = false;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) quantising |= strstr(tn_node_op(node), names[i]) != NULL;
    check->n_quantising += quantising;
    check->n_nodes++;
    return TN_OK;
}

/* A value that falls on the other side of a rounding step is right too, and a whole network of such steps carries it
   on. A graph of a few nodes has to be as exact as any. */
static bool is_quantised(const Check *check) { return check->n_quantising > 0 && check->n_nodes > 8; }

static double rtol_of(const Check *check, tn_dtype dtype) {
    if (check->rtol >= 0) return check->rtol;
    return is_quantised(check) || dtype == TN_F16 || dtype == TN_BF16 ? 2e-2 : 1e-4;
}

/* ---- one set -------------------------------------------------------------------------------------------------- */

static void compare_output(const Check *check, size_t i, const tn_tensor *got, const tn_tensor *want, CheckResult *r) {
    tn_dtype dtype = tn_tensor_dtype(want);
    double rtol = rtol_of(check, dtype), atol = check->atol >= 0 ? check->atol : 1e-7;
    tn_difference d = tn_tensor_compare(got, want, rtol, atol);
    double relative = d.scale > 0 ? d.largest / d.scale : d.largest;
    if (relative > r->difference || relative != relative) r->difference = relative;
    if (d.same || r->reason) return;
    if (d.why[0]) r->reason = format_text("output \"%s\": %s", check->output_names[i], d.why);
    else
        r->reason = format_text("output \"%s\" (%s): %lld of %lld are wrong; [%lld] is off by %.3g, allowed is %.3g",
                                check->output_names[i], tn_dtype_name(dtype), (long long)d.n_wrong,
                                (long long)tn_tensor_count(want), (long long)d.at, d.largest, atol + rtol * d.scale);
}

static void run_set(Check *check, const char *set, tn_tensor **inputs, tn_tensor **outputs, CheckResult *r) {
    double start = seconds_now();
    tn_status status = tn_session_run(check->session, NULL, (const tn_tensor *const *)inputs, check->n_inputs, outputs,
                                      check->n_outputs);
    r->seconds = seconds_now() - start;
    if (status != TN_OK) {
        r->reason = format_text("%s", tn_last_error());
        return;
    }
    tn_tensor **wanted = load_set(check->context, set, "output_", check->output_names, check->output_kinds,
                                  check->n_outputs, &r->reason);
    size_t compared = 0;
    for (size_t i = 0; wanted && i < check->n_outputs; i++) {
        if (!wanted[i]) continue;
        compare_output(check, i, outputs[i], wanted[i], r);
        compared++;
    }
    if (wanted && compared == 0 && check->n_outputs > 0) r->reason = format_text("the set has no output_N.pb");
    tensors_free(wanted, check->n_outputs);
}

static void check_set(Check *check, const char *set, CheckResult *r) {
    tn_tensor **inputs = load_set(check->context, set, "input_", check->input_names, check->input_kinds,
                                  check->n_inputs, &r->reason);
    tn_tensor **outputs = need(calloc(check->n_outputs + 1, sizeof(tn_tensor *)));
    if (inputs) run_set(check, set, inputs, outputs, r);
    tensors_free(inputs, check->n_inputs);
    tensors_free(outputs, check->n_outputs);
}

/* ---- expected failures ---------------------------------------------------------------------------------------- */

/* What an `expect_error` file in the set, beside the sets or beside the model says; NULL when no failure is expected.
   Its text is for people, but for a line `contains: WORDS`: then the message must hold these words. */
static char *expected_error(const char *set, const char *folder) {
    char *above = join_path(set, "..");
    const char *const places[] = {set, above, folder};
    char *found = NULL;
    for (int i = 0; i < 3 && !found; i++) {
        size_t size;
        char *path = join_path(places[i], "expect_error"), *text = read_file(path, &size);
        free(path);
        if (!text) continue;
        const char *words = strstr(text, "contains: ");
        found = format_text("%.*s", words ? (int)strcspn(words + 10, "\r\n") : 0, words ? words + 10 : "");
        free(text);
    }
    free(above);
    return found;
}

static void judge(CheckResult *r, const char *expected) {
    if (!expected) {
        r->passed = !r->reason;
        return;
    }
    char *got = r->reason;
    r->difference = 0;
    r->passed = got && strstr(got, expected);
    if (r->passed) r->reason = NULL;
    else if (got) r->reason = format_text("the error should say \"%s\", but says: %s", expected, got);
    else r->reason = format_text("should have failed, but did not");
    free(got);
}

/* ---- one model ------------------------------------------------------------------------------------------------ */

typedef tn_status (*InfoFn)(const tn_model *model, size_t i, tn_value_info *info);

static void read_infos(const Check *check, InfoFn info_of, size_t n, const char ***names, tn_value_kind **kinds) {
    *names = need(calloc(n + 1, sizeof **names));
    *kinds = need(calloc(n + 1, sizeof **kinds));
    for (size_t i = 0; i < n; i++) {
        tn_value_info info = {.name = ""};
        info_of(check->model, i, &info);
        (*names)[i] = info.name;
        (*kinds)[i] = info.kind;
    }
}

static void read_names(Check *check) {
    check->n_inputs = tn_model_n_inputs(check->model);
    check->n_outputs = tn_model_n_outputs(check->model);
    read_infos(check, tn_model_input, check->n_inputs, &check->input_names, &check->input_kinds);
    read_infos(check, tn_model_output, check->n_outputs, &check->output_names, &check->output_kinds);
}

/* What stands in the way of running any set, to be freed; NULL when nothing does. */
static char *prepare(Check *check, const char *model) {
    if (tn_model_load(check->context, model, &check->model) != TN_OK) return format_text("%s", tn_last_error());
    read_names(check);
    tn_visitor visitor = {.node = count_quantising, .user = check};
    if (tn_visit(check->model, &visitor) != TN_OK) return format_text("%s", tn_last_error());
    tn_status status = tn_session_create(check->model, &(tn_session_options){.passes = check->passes}, &check->session);
    return status == TN_OK ? NULL : format_text("%s", tn_last_error());
}

static void check_sets(Check *check, const char *model, char **sets, size_t n, const char *folder, CheckFn fn,
                       void *user) {
    char *trouble = prepare(check, model);
    for (size_t i = 0; i < n; i++) {
        const char *slash = strrchr(sets[i], '/');
        char *expected = expected_error(sets[i], folder);
        CheckResult r = {.set = slash ? slash + 1 : sets[i], .reason = trouble ? format_text("%s", trouble) : NULL};
        if (!trouble) check_set(check, sets[i], &r);
        judge(&r, expected);
        fn(user, &r);
        free(r.reason);
        free(expected);
    }
    free(trouble);
    tn_session_release(check->session);
    tn_model_release(check->model);
    free(check->input_names);
    free(check->output_names);
    free(check->input_kinds);
    free(check->output_kinds);
}

int check_model(tn_context *context, const char *model, const char *folder, const CheckOptions *options, CheckFn fn,
                void *user) {
    Check check = {.context = context, .rtol = options->rtol, .atol = options->atol, .passes = options->passes};
    const char *slash = strrchr(model, '/');
    char *beside = folder  ? format_text("%s", folder)
                   : slash ? format_text("%.*s", (int)(slash - model), model)
                           : format_text(".");
    size_t n;
    int code = GO_ON;
    char **sets = find_sets(*beside ? beside : "/", &n), *expected = expected_error(beside, beside);
    if (n == 0 && expected) sets[n++] = format_text("%s", beside); /* must fail without any input */
    read_tolerances(model, &check);
    if (n == 0) code = report("\"%s\" holds no test_data_set_* folder and no input_0.pb", beside);
    else check_sets(&check, model, sets, n, beside, fn, user);
    free(expected);
    free_list(sets, n);
    free(beside);
    return code;
}
