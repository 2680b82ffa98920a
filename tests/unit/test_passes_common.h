/* SPDX-License-Identifier: Apache-2.0 */
/* For tests of passes: models from text, and a context that keeps its log. */
#ifndef TEST_PASSES_COMMON_H
#define TEST_PASSES_COMMON_H

#include "test_ir_common.h"

#include <tenon/passes.h>

#include "pass/pass.h"
#include "session/session.h"

/* What was logged, but for "running pass ", with spaces between. */
typedef struct Log {
    char text[4096];
    size_t n;
} Log;

static inline void keep_line(void *user, tn_log_level level, const char *line) {
    static const char start[] = "running pass ";
    Log *log = user;
    if (strncmp(line, start, sizeof start - 1) == 0) line += sizeof start - 1;
    assert_int_equal(level, TN_LOG_INFO);
    int n = snprintf(log->text + log->n, sizeof log->text - log->n, "%s%s", log->n ? " " : "", line);
    assert_true(n >= 0 && (size_t)n < sizeof log->text - log->n);
    log->n += (size_t)n;
}

static inline void assert_log(Log *log, const char *want) {
    if (strcmp(log->text, want) != 0) print_error("logged \"%s\", not \"%s\"\n", log->text, want);
    assert_string_equal(log->text, want);
    *log = (Log){0};
}

static inline tn_context *logging_context(Log *log) {
    tn_context *context;
    *log = (Log){0};
    tn_context_options options = {.threads = 1, .log = keep_line, .log_user = log, .log_level = TN_LOG_INFO};
    OK(tn_context_create(&options, &context));
    return context;
}

static inline tn_model *model_of(tn_context *context, const char *text) {
    tn_model *model;
    OK(tn_model_load_memory(context, text, strlen(text), NULL, NULL, NULL, &model));
    return model;
}

static inline tn_pass_record record_of(const tn_pass_report *report, size_t i) {
    tn_pass_record r;
    OK(tn_pass_report_at(report, i, &r));
    return r;
}

#endif
