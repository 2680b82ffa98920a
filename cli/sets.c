/* SPDX-License-Identifier: Apache-2.0 */
/* Recorded inputs and outputs: the test_data_set_N folders of the ONNX project. */
#include "cli.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Whether `name` is PREFIX<number>.pb; the number. */
static bool parse_number(const char *name, const char *prefix, size_t *number) {
    if (!starts_with(name, prefix) || !ends_with(name, ".pb")) return false;
    char *end;
    errno = 0;
    *number = strtoull(name + strlen(prefix), &end, 10);
    return end != name + strlen(prefix) && strcmp(end, ".pb") == 0 && errno == 0 && *number < 100000;
}

static bool holds_tensors(char *const *names, size_t n) {
    size_t number;
    for (size_t i = 0; i < n; i++)
        if (parse_number(names[i], "input_", &number) || parse_number(names[i], "output_", &number)) return true;
    return false;
}

char **find_sets(const char *folder, size_t *n) {
    size_t n_names;
    char **names = list_folder(folder, &n_names), **sets = need(calloc(1, sizeof *sets));
    *n = 0;
    for (size_t i = 0; names && i < n_names; i++) {
        char *path = join_path(folder, names[i]);
        bool is_set = starts_with(names[i], "test_data_set") && is_folder(path);
        if (is_set) {
            sets = need(realloc(sets, (*n + 1) * sizeof *sets));
            sets[(*n)++] = path;
        } else {
            free(path);
        }
    }
    if (names && *n == 0 && holds_tensors(names, n_names)) sets[(*n)++] = format_text("%s", folder);
    free_list(names, n_names);
    return sets;
}

/* ---- tensors of a set ----------------------------------------------------------------------------------------- */

/* A file's tensor before it has its place. */
typedef struct Entry {
    size_t number;
    tn_tensor *tensor;
    char *name; /* the library's */
} Entry;

static int by_number(const void *a, const void *b) {
    size_t x = ((const Entry *)a)->number, y = ((const Entry *)b)->number;
    return (x > y) - (x < y);
}

static Entry *find_entries(const char *set, const char *prefix, size_t *n) {
    size_t n_names = 0;
    char **names = list_folder(set, &n_names);
    Entry *entries = need(calloc(n_names + 1, sizeof *entries));
    *n = 0;
    for (size_t i = 0; names && i < n_names; i++)
        if (parse_number(names[i], prefix, &entries[*n].number)) (*n)++;
    free_list(names, n_names);
    qsort(entries, *n, sizeof *entries, by_number);
    return entries;
}

static tn_status load_entry(tn_context *context, const char *set, const char *prefix, tn_value_kind kind,
                            Entry *entry) {
    char *path = format_text("%s/%s%zu.pb", set, prefix, entry->number);
    tn_status status = tn_tensor_load_as(context, path, kind, &entry->tensor, &entry->name);
    free(path);
    return status;
}

static size_t find_name(const char *name, const char *const *names, size_t n) {
    for (size_t i = 0; name && *name && i < n; i++)
        if (strcmp(name, names[i]) == 0) return i;
    return SIZE_MAX;
}

static bool all_named(const Entry *entries, size_t n_entries, const char *const *names, size_t n) {
    bool taken[256] = {false};
    if (n > 256) return false;
    for (size_t i = 0; i < n_entries; i++) {
        size_t at = find_name(entries[i].name, names, n);
        if (at == SIZE_MAX || taken[at]) return false;
        taken[at] = true;
    }
    return true;
}

static void free_entries(Entry *entries, size_t n) {
    for (size_t i = 0; i < n; i++) {
        tn_tensor_release(entries[i].tensor);
        if (entries[i].name) tn_free_text(entries[i].name);
    }
    free(entries);
}

tn_tensor **load_set(tn_context *context, const char *set, const char *prefix, const char *const *names,
                     const tn_value_kind *kinds, size_t n, char **reason) {
    size_t n_entries;
    Entry *entries = find_entries(set, prefix, &n_entries);
    tn_tensor **tensors = NULL;
    tn_status status = TN_OK;
    for (size_t i = 0; i < n_entries && status == TN_OK; i++)
        status = load_entry(context, set, prefix, entries[i].number < n ? kinds[entries[i].number] : TN_TENSOR,
                            &entries[i]);
    bool by_name = status == TN_OK && all_named(entries, n_entries, names, n);
    if (status != TN_OK) {
        *reason = format_text("%s", tn_last_error());
    } else if (!by_name && n_entries > 0 && entries[n_entries - 1].number >= n) {
        *reason = format_text("the set has %s%zu, but the model has only %zu", prefix, entries[n_entries - 1].number,
                              n);
    } else {
        tensors = need(calloc(n + 1, sizeof(tn_tensor *)));
        for (size_t i = 0; i < n_entries; i++) {
            tensors[by_name ? find_name(entries[i].name, names, n) : entries[i].number] = entries[i].tensor;
            entries[i].tensor = NULL;
        }
    }
    free_entries(entries, n_entries);
    return tensors;
}
