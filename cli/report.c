/* SPDX-License-Identifier: Apache-2.0 */
/* Messages, suggestions for what was mistyped, and opening models with both. */
#include "cli.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int report(const char *format, ...) {
    va_list list;
    va_start(list, format);
    progress_end();
    fflush(stdout);
    fprintf(stderr, "%stenon:%s ", colour(stderr, RED), colour(stderr, PLAIN));
    vfprintf(stderr, format, list);
    fputc('\n', stderr);
    va_end(list);
    return FAILED;
}

int report_last_error(void) { return report("%s", tn_last_error()); }

/* ---- suggestions ---------------------------------------------------------------------------------------------- */

enum { LONGEST = 63 };

static size_t smallest(size_t a, size_t b, size_t c) {
    size_t least = a < b ? a : b;
    return least < c ? least : c;
}

/* Insertions, deletions, replacements and swaps of neighbours that turn a into b. */
static size_t edit_distance(const char *a, const char *b) {
    size_t n = strlen(a), m = strlen(b), d[3][LONGEST + 1];
    if (n > LONGEST || m > LONGEST) return SIZE_MAX;
    for (size_t j = 0; j <= m; j++) d[0][j] = j;
    for (size_t i = 1; i <= n; i++) {
        size_t *now = d[i % 3], *before = d[(i + 2) % 3], *earlier = d[(i + 1) % 3];
        now[0] = i;
        for (size_t j = 1; j <= m; j++) {
            now[j] = smallest(before[j] + 1, now[j - 1] + 1, before[j - 1] + (a[i - 1] != b[j - 1]));
            bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
            if (swapped && earlier[j - 2] + 1 < now[j]) now[j] = earlier[j - 2] + 1;
        }
    }
    return d[n % 3][m];
}

const char *nearest(const char *wrong, const char *const *names, size_t n) {
    const char *best = NULL;
    size_t length = strlen(wrong), least = length < 3 ? 1 : (length + 2) / 3;
    for (size_t i = 0; i < n; i++) {
        size_t distance = edit_distance(wrong, names[i]);
        if (distance > least || (best && distance == least)) continue;
        best = names[i];
        least = distance;
    }
    return best;
}

const char *suggestion(const char *wrong, const char *const *names, size_t n) {
    static char text[LONGEST + 32];
    const char *near = nearest(wrong, names, n);
    text[0] = '\0';
    if (near) snprintf(text, sizeof text, "; did you mean \"%s\"?", near);
    return text;
}

/* ---- contexts and models -------------------------------------------------------------------------------------- */

static void log_line(void *user, tn_log_level level, const char *message) {
    (void)user;
    (void)level;
    progress_end();
    fprintf(stderr, "%stenon:%s %s\n", colour(stderr, YELLOW), colour(stderr, PLAIN), message);
}

int open_context_loud(int threads, bool verbose, tn_context **context) {
    tn_context_options options = {
        .threads = threads, .log = log_line, .log_level = verbose ? TN_LOG_INFO : TN_LOG_WARNING};
    return tn_context_create(&options, context) == TN_OK ? GO_ON : report_last_error();
}

int open_context(int threads, tn_context **context) { return open_context_loud(threads, false, context); }

char *model_in_folder(const char *folder) {
    static const char *const names[] = {"model.onnx", "model.tn"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *path = join_path(folder, names[i]);
        if (is_file(path)) return path;
        free(path);
    }
    return NULL;
}

static int no_such_file(const char *path) {
    const char *slash = strrchr(path, '/');
    char *folder = slash ? format_text("%.*s", (int)(slash - path), path) : format_text(".");
    const char *wrong = slash ? slash + 1 : path, *near = NULL;
    size_t n = 0;
    char **names = list_folder(*folder ? folder : "/", &n);
    if (names) near = nearest(wrong, (const char *const *)names, n);
    else if (errno == ENOENT) report("there is no folder \"%s\"", folder);
    if (names && near)
        report("there is no file \"%s\"; did you mean \"%.*s%s\"?", path, (int)(wrong - path), path, near);
    else if (names) report("there is no file \"%s\"", path);
    free_list(names, n);
    free(folder);
    return FAILED;
}

int open_model(tn_context *context, const char *path, tn_model **model) {
    char *inside = is_folder(path) ? model_in_folder(path) : NULL;
    int code = GO_ON;
    if (is_folder(path) && !inside) code = report("\"%s\" is a folder that holds no model.onnx or model.tn", path);
    else if (!inside && !is_file(path)) code = no_such_file(path);
    else if (tn_model_load(context, inside ? inside : path, model) != TN_OK) code = report_last_error();
    free(inside);
    return code;
}
