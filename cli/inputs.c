/* SPDX-License-Identifier: Apache-2.0 */
/* --input: a tensor for each input of a model. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

void tensors_free(tn_tensor **tensors, size_t n) {
    for (size_t i = 0; tensors && i < n; i++) tn_tensor_release(tensors[i]);
    free(tensors);
}

/* ---- what was asked for --------------------------------------------------------------------------------------- */

static int unknown_input(const tn_value_info *infos, size_t n, const char *text, size_t length) {
    char *wrong = format_text("%.*s", (int)length, text);
    const char **names = need(malloc((n + 1) * sizeof *names));
    for (size_t i = 0; i < n; i++) names[i] = infos[i].name;
    report("--input: the model has no input \"%s\"%s", wrong, suggestion(wrong, names, n));
    free(names);
    free(wrong);
    return USAGE;
}

/* Which input each --input is for, and what it is to be: sources[i] points into the option or is NULL. */
static int assign_sources(char **inputs, const tn_value_info *infos, size_t n, const char **sources) {
    for (; inputs && *inputs; inputs++) {
        /* Names may hold a '=' themselves, so the longest that fits counts. */
        size_t best = SIZE_MAX, length = 0;
        for (size_t i = 0; i < n; i++) {
            size_t m = strlen(infos[i].name);
            if (m < length || strncmp(*inputs, infos[i].name, m) != 0 || (*inputs)[m] != '=') continue;
            best = i;
            length = m;
        }
        const char *equals = strchr(*inputs, '=');
        if (best != SIZE_MAX) sources[best] = *inputs + length + 1;
        else if (!equals && n == 1) sources[0] = *inputs;
        else if (equals) return unknown_input(infos, n, *inputs, (size_t)(equals - *inputs));
        else return report("--input %s: say for which input, as in NAME=%s", *inputs, *inputs), USAGE;
    }
    return GO_ON;
}

/* ---- making one ----------------------------------------------------------------------------------------------- */

static int unknown_size(const tn_value_info *info) {
    char *type = type_text(info);
    if (info->kind != TN_TENSOR)
        report("input \"%s\" is %s: give it a file, as in --input %s=value.pb", info->name, type, info->name);
    else if (info->rank < 0)
        report("input \"%s\" is %s: say its sizes, as in --shape %s=1x3x224x224", info->name, type, info->name);
    else {
        char *example = format_text("%s", "");
        for (int d = 0; d < info->rank; d++) {
            char *longer = format_text("%s%s%lld", example, d ? "x" : "",
                                       info->dims[d] < 0 ? 224LL : (long long)info->dims[d]);
            free(example);
            example = longer;
        }
        report("input \"%s\" is %s: say its sizes, as in --shape %s=%s", info->name, type, info->name, example);
        free(example);
    }
    free(type);
    return USAGE;
}

static int make_filled(tn_context *context, const tn_value_info *info, const char *source, uint64_t *random,
                       tn_tensor **out) {
    double number = 0;
    if (info->kind != TN_TENSOR || !sizes_known(info)) return unknown_size(info);
    if (tn_tensor_create(context, info->dtype, info->rank, info->dims, out) != TN_OK) return report_last_error();
    if (!source || strcmp(source, "random") == 0) return fill_random(*out, random);
    if (strcmp(source, "zeros") != 0) number = strtod(source, NULL);
    return number != 0 || info->dtype == TN_STRING ? fill_number(*out, number) : GO_ON;
}

static bool is_number(const char *text) {
    char *end;
    errno = 0;
    strtod(text, &end);
    return end != text && *end == '\0' && errno == 0;
}

static int make_input(tn_context *context, const tn_value_info *info, const char *source, const InputOptions *options,
                      uint64_t *random, tn_tensor **out) {
    if (!source && info->has_default) return GO_ON;
    bool filled = !source || strcmp(source, "random") == 0 || strcmp(source, "zeros") == 0;
    if (filled || (is_number(source) && !is_file(source))) return make_filled(context, info, source, random, out);
    if (!is_file(source)) return report("input \"%s\": there is no file \"%s\"", info->name, source);
    if (ends_with(source, ".png") || ends_with(source, ".jpg") || ends_with(source, ".jpeg"))
        return picture_load(context, source, info, options, out);
    if (ends_with(source, ".npz")) return npz_load(context, source, info->name, out);
    return tn_tensor_load_as(context, source, info->kind, out, NULL) == TN_OK ? GO_ON : report_last_error();
}

int inputs_make(tn_context *context, const tn_model *model, const InputOptions *options, tn_tensor ***tensors) {
    size_t n = tn_model_n_inputs(model);
    tn_value_info *infos = NULL;
    const char **sources = need(calloc(n + 1, sizeof *sources));
    uint64_t random = (uint64_t)options->seed;
    *tensors = need(calloc(n + 1, sizeof(tn_tensor *)));
    int code = shapes_apply(model, options->shapes, true, &infos);
    if (code == GO_ON) code = assign_sources(options->inputs, infos, n, sources);
    for (size_t i = 0; i < n && code == GO_ON; i++)
        code = make_input(context, &infos[i], sources[i], options, &random, &(*tensors)[i]);
    free(sources);
    free(infos);
    return code;
}
