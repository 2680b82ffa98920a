/* SPDX-License-Identifier: Apache-2.0 */
/* --shape: sizes of inputs, and of the unknown sizes that they name. */
#include "cli.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

bool sizes_known(const tn_value_info *info) {
    for (int d = 0; d < info->rank; d++)
        if (info->dims[d] < 0) return false;
    return info->rank >= 0;
}

/* "1x3x224x224" or "1,3,224,224"; "" is a scalar. False when it is neither. */
static bool parse_sizes(const char *text, int *rank, int64_t dims[TN_MAX_RANK]) {
    for (*rank = 0; *text; (*rank)++) {
        char *end;
        errno = 0;
        if (*rank == TN_MAX_RANK || !isdigit((unsigned char)*text)) return false;
        dims[*rank] = strtoll(text, &end, 10);
        if (errno || (*end && !strchr("xX,", *end))) return false;
        text = *end ? end + 1 : end;
        if (*end && !*text) return false;
    }
    return true;
}

static tn_value_info *find_input(tn_value_info *infos, size_t n, const char *name, size_t length) {
    for (size_t i = 0; i < n; i++)
        if (strlen(infos[i].name) == length && strncmp(infos[i].name, name, length) == 0) return &infos[i];
    return NULL;
}

/* Sets each unknown size of that name; false when there is none. */
static bool set_symbol(tn_value_info *infos, size_t n, const char *name, size_t length, int64_t size) {
    bool found = false;
    for (size_t i = 0; i < n; i++)
        for (int d = 0; d < infos[i].rank; d++) {
            const char *text = infos[i].dim_text[d];
            if (!text || strlen(text) != length || strncmp(text, name, length) != 0) continue;
            infos[i].dims[d] = size;
            found = true;
        }
    return found;
}

static int unknown_name(const tn_value_info *infos, size_t n, const char *name, size_t length) {
    char wrong[64];
    const char *names[256];
    size_t n_names = 0;
    snprintf(wrong, sizeof wrong, "%.*s", (int)(length < 60 ? length : 60), name);
    for (size_t i = 0; i < n; i++) {
        if (n_names < 256) names[n_names++] = infos[i].name;
        for (int d = 0; d < infos[i].rank && n_names < 256; d++)
            if (infos[i].dims[d] < 0 && infos[i].dim_text[d]) names[n_names++] = infos[i].dim_text[d];
    }
    report("--shape: the model has no input or unknown size \"%s\"%s", wrong, suggestion(wrong, names, n_names));
    return USAGE;
}

static int set_sizes(tn_value_info *info, int rank, const int64_t *dims) {
    bool fits = info->rank < 0 || info->rank == rank;
    for (int d = 0; fits && d < rank && info->rank >= 0; d++) fits = info->dims[d] < 0 || info->dims[d] == dims[d];
    if (!fits) {
        char *type = type_text(info), *given = dims_text(rank, dims);
        report("--shape: input \"%s\" is %s and cannot be %s", info->name, type, given);
        free(type);
        free(given);
        return USAGE;
    }
    info->rank = rank;
    memcpy(info->dims, dims, (size_t)rank * sizeof *dims);
    return GO_ON;
}

/* NAME=SIZES; the name may be left out when there is one input. */
static int apply_shape(tn_value_info *infos, size_t n, const char *text) {
    const char *equals = strrchr(text, '=');
    size_t length = equals ? (size_t)(equals - text) : 0;
    int rank;
    int64_t dims[TN_MAX_RANK];
    if (!parse_sizes(equals ? equals + 1 : text, &rank, dims)) {
        report("--shape %s: sizes are written as in x=1x3x224x224", text);
        return USAGE;
    }
    if (!equals && n == 1) return set_sizes(&infos[0], rank, dims);
    if (!equals) {
        report("--shape %s: say which input, as in x=1x3x224x224", text);
        return USAGE;
    }
    tn_value_info *info = find_input(infos, n, text, length);
    if (info) return set_sizes(info, rank, dims);
    if (rank == 1 && set_symbol(infos, n, text, length, dims[0])) return GO_ON;
    return unknown_name(infos, n, text, length);
}

int shapes_apply(const tn_model *model, char **shapes, bool guess, tn_value_info **infos) {
    size_t n = tn_model_n_inputs(model);
    int code = GO_ON;
    *infos = need(calloc(n + 1, sizeof **infos));
    for (size_t i = 0; i < n; i++)
        if (tn_model_input(model, i, &(*infos)[i]) != TN_OK) return report_last_error();
    for (size_t i = 0; shapes && shapes[i] && code == GO_ON; i++) code = apply_shape(*infos, n, shapes[i]);
    for (size_t i = 0; i < n && guess; i++)
        if ((*infos)[i].rank > 0 && (*infos)[i].dims[0] < 0) (*infos)[i].dims[0] = 1;
    return code;
}
