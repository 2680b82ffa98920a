/* SPDX-License-Identifier: Apache-2.0 */
/* Tensors, types and numbers as text and as JSON. */
#include "cli.h"

#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- types ---------------------------------------------------------------------------------------------------- */

/* "name[a,b]" */
static char *shaped_text(const char *name, int rank, const int64_t *dims, const char *const *texts) {
    char text[64 + TN_MAX_RANK * 64];
    int n = snprintf(text, sizeof text, "%s", name);
    for (int i = 0; i < rank; i++) {
        n += snprintf(text + n, sizeof text - (size_t)n, "%c", i ? ',' : '[');
        if (dims[i] >= 0) n += snprintf(text + n, sizeof text - (size_t)n, "%" PRId64, dims[i]);
        else n += snprintf(text + n, sizeof text - (size_t)n, "%.60s", texts && texts[i] ? texts[i] : "?");
    }
    return format_text("%s%s", text, rank > 0 ? "]" : rank == 0 ? "[]" : "[?]");
}

char *type_text(const tn_value_info *info) {
    if (info->kind != TN_TENSOR) return format_text("%s", info->type);
    return shaped_text(tn_dtype_name(info->dtype), info->rank, info->dims, info->dim_text);
}

const char *kind_name(const tn_tensor *t) {
    static const char *const kinds[] = {"tensor", "sequence", "optional", "map"};
    return kinds[tn_tensor_kind(t)];
}

char *tensor_type_text(const tn_tensor *t) {
    if (tn_tensor_kind(t) != TN_TENSOR) return format_text("%s of %zu", kind_name(t), tn_tensor_n_items(t));
    return shaped_text(tn_dtype_name(tn_tensor_dtype(t)), tn_tensor_rank(t), tn_tensor_dims(t), NULL);
}

char *dims_text(int rank, const int64_t *dims) { return shaped_text("", rank, dims, NULL); }

json_t *dims_json(int rank, const int64_t *dims) {
    json_t *list = json_array();
    for (int i = 0; i < rank; i++) json_array_append_new(list, dims[i] < 0 ? json_null() : json_integer(dims[i]));
    return list;
}

json_t *info_json(const tn_value_info *info) {
    char *type = type_text(info);
    json_t *object = json_pack("{s:s, s:s, s:s}", "name", info->name, "type", type, "dtype",
                               tn_dtype_name(info->dtype));
    if (info->rank >= 0) json_object_set_new(object, "shape", dims_json(info->rank, info->dims));
    free(type);
    return object;
}

/* ---- elements ------------------------------------------------------------------------------------------------- */

static char *string_text(const tn_tensor *t, int64_t i) {
    const char *text;
    size_t n;
    if (tn_tensor_get_string(t, i, &text, &n) != TN_OK) return format_text("?");
    return format_text("\"%.*s\"%s", (int)(n < 40 ? n : 40), text, n <= 40 ? "" : "...");
}

/* 64-bit integers do not pass through double; complex numbers are pairs. */
static char *element_text(const tn_tensor *t, int64_t i) {
    const void *data = tn_tensor_data(t);
    switch (tn_tensor_dtype(t)) {
    case TN_STRING: return string_text(t, i);
    case TN_I64: return format_text("%" PRId64, ((const int64_t *)data)[i]);
    case TN_U64: return format_text("%" PRIu64, ((const uint64_t *)data)[i]);
    case TN_F64: return format_text("%.10g", ((const double *)data)[i]);
    case TN_C64: return format_text("%.6g%+.6gi", ((const float *)data)[2 * i], ((const float *)data)[2 * i + 1]);
    case TN_C128: return format_text("%.10g%+.10gi", ((const double *)data)[2 * i], ((const double *)data)[2 * i + 1]);
    default: return format_text("%.6g", tn_tensor_get_double(t, i));
    }
}

/* The type of an item stands for it. */
static char *item_text(const tn_tensor *t, size_t i) {
    tn_tensor *item = NULL;
    if (tn_tensor_item(t, i, &item) != TN_OK) return format_text("?");
    char *text = tensor_type_text(item);
    tn_tensor_release(item);
    return text;
}

char *first_elements(const tn_tensor *t, int64_t n) {
    bool object = tn_tensor_kind(t) != TN_TENSOR;
    int64_t count = object ? (int64_t)tn_tensor_n_items(t) : tn_tensor_count(t);
    char *text = format_text("%s", "");
    for (int64_t i = 0; i < n && i < count; i++) {
        char *element = object ? item_text(t, (size_t)i) : element_text(t, i);
        char *longer = format_text("%s%s%s", text, i ? ", " : "", element);
        free(element);
        free(text);
        text = longer;
    }
    if (count <= n) return text;
    char *longer = format_text("%s, ...", text);
    free(text);
    return longer;
}

json_t *number_json(double value) {
    bool whole = isfinite(value) && value == floor(value) && fabs(value) < 9e15;
    return whole ? json_integer((json_int_t)value) : isfinite(value) ? json_real(value) : json_null();
}

json_t *element_json(const tn_tensor *t, int64_t i) {
    const void *data = tn_tensor_data(t);
    const char *text;
    size_t n;
    switch (tn_tensor_dtype(t)) {
    case TN_STRING: {
        json_t *string = tn_tensor_get_string(t, i, &text, &n) == TN_OK ? json_stringn(text, n) : NULL;
        return string ? string : json_null(); /* it may not be UTF-8 */
    }
    case TN_BOOL: return json_boolean(((const uint8_t *)data)[i]);
    case TN_I64: return json_integer(((const int64_t *)data)[i]);
    case TN_C64:
        return json_pack("[f, f]", (double)((const float *)data)[2 * i], (double)((const float *)data)[2 * i + 1]);
    case TN_C128: return json_pack("[f, f]", ((const double *)data)[2 * i], ((const double *)data)[2 * i + 1]);
    default: return number_json(tn_tensor_get_double(t, i));
    }
}

Stats tensor_stats(const tn_tensor *t) {
    Stats s = {.min = INFINITY, .max = -INFINITY};
    int64_t count = tn_tensor_dtype(t) == TN_STRING ? 0 : tn_tensor_count(t);
    double sum = 0;
    for (int64_t i = 0; i < count; i++) {
        double x = tn_tensor_get_double(t, i);
        if (isnan(x)) {
            s.nan++;
        } else if (isinf(x)) {
            s.infinite++;
        } else {
            s.finite++;
            sum += x;
            if (x < s.min) s.min = x;
            if (x > s.max) s.max = x;
        }
    }
    s.mean = sum / (double)s.finite;
    return s;
}

/* ---- numbers for people --------------------------------------------------------------------------------------- */

static char *scaled_text(double n, double step, const char *const *units) {
    size_t i = 0;
    for (; fabs(n) >= step && units[i + 1]; i++) n /= step;
    return format_text(i == 0 ? "%.0f%s%s" : "%.4g%s%s", n, *units[i] ? " " : "", units[i]);
}

char *bytes_text(uint64_t bytes) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB", NULL};
    return scaled_text((double)bytes, 1024, units);
}

char *count_text(double n) {
    static const char *const units[] = {"", "K", "M", "G", "T", "P", NULL};
    return scaled_text(n, 1000, units);
}

void print_json(json_t *root) {
    json_dumpf(root, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
    fputc('\n', stdout);
    json_decref(root);
}
