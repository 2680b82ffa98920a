/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of pass/ share with each other only. */
#ifndef TENON_PASS_PASS_INT_H
#define TENON_PASS_PASS_INT_H

#include "pass/pass.h"

/* The same but for dashes and underscores. */
bool name_equal(Str a, Str b);
/* TN_NOT_FOUND, with the nearest name there is. */
tn_status no_such_pass(const char *what, Str name);

/* options.c: a value from its text, of the option's kind. */
tn_status option_parse(const PassOption *option, Str text, OptionValue *out);
int pass_option_index(const Pass *pass, Str name); /* -1: none */
void option_print(const PassOption *option, const OptionValue *value, Text *out);

/* say.c: to a file, which appears when all of it is written. */
tn_status write_text(const Allocator *a, const char *path, const Text *text);

/* What the manager knows of a pass that it ran. */
typedef struct PassState {
    const Pass *pass;
    bool holds;           /* nothing that it did was undone since */
    uint64_t clean_edits; /* of the model, when a run with presets found nothing to do; UINT64_MAX: never */
} PassState;

#endif
