/* SPDX-License-Identifier: Apache-2.0 */
/* Plug-ins, and the options that say which passes run. */
#include "cli.h"

#include <stdlib.h>
#include <string.h>
#include <tenon/plugin.h>

int plugins_load(const char *file) {
    static bool environment_read;
    tn_status status = environment_read ? TN_OK : tn_load_plugins_from_env();
    environment_read = true;
    if (status == TN_OK && file) status = tn_load_plugin(file);
    return status == TN_OK ? GO_ON : report_last_error();
}

static size_t count(char **list) {
    size_t n = 0;
    while (list && list[n]) n++;
    return n;
}

/* cpu, or cpu/f16. */
static int read_place(const Command *command, char *text, tn_place *place) {
    char *slash = strchr(text, '/');
    if (slash) *slash = '\0';
    *place = (tn_place){.target = text, .precision = slash ? tn_dtype_from_name(slash + 1) : TN_UNDEFINED};
    if (slash && place->precision == TN_UNDEFINED)
        return usage_error(command, "--place: \"%s\" is no element type", slash + 1);
    return GO_ON;
}

static int read_level(const Command *command, const char *level, tn_pass_settings *s) {
    if (!level) return GO_ON;
    if (strlen(level) != 1 || level[0] < '0' || level[0] > '3')
        return usage_error(command, "-O%s: the levels are 0 to 3", level);
    s->opt_level = (tn_opt_level)(TN_OPT_0 + (level[0] - '0'));
    return GO_ON;
}

static int read_accuracy(const Command *command, const char *how, tn_pass_settings *s) {
    static const char *const names[] = {[TN_ACCURACY_NORMAL] = "normal", [TN_ACCURACY_HIGH] = "high"};
    enum { N = sizeof names / sizeof *names };
    for (int k = 0; k < N; k++)
        if (!how || strcmp(how, names[k]) == 0) return s->accuracy = (tn_accuracy)k, GO_ON;
    return usage_error(command, "--accuracy: it is normal or high, not \"%s\"%s", how, suggestion(how, names, N));
}

int passes_read(const Command *command, PassOptions *o) {
    tn_pass_settings *s = &o->settings;
    s->pipeline = o->passes;
    s->lowering = o->lowering;
    s->disabled = (const char *const *)o->disabled;
    s->n_disabled = count(o->disabled);
    s->added = (const char *const *)o->added;
    s->n_added = count(o->added);
    s->n_places = count(o->places);
    s->places = o->place_list = need(calloc(s->n_places + 1, sizeof(tn_place)));
    int code = rules_load(o->rules, !o->unproven);
    if (code == GO_ON) code = read_level(command, o->level, s);
    if (code == GO_ON) code = read_accuracy(command, o->accuracy, s);
    for (size_t i = 0; i < s->n_places && code == GO_ON; i++)
        code = read_place(command, o->places[i], &o->place_list[i]);
    if (code != GO_ON) return code;
    char *text;
    if (tn_pipeline_text(s, &text) != TN_OK) return report_last_error(), USAGE;
    tn_free_text(text);
    return GO_ON;
}

static void show_measuring(void *user, size_t done, size_t of) {
    (void)user;
    progress("tuning", done, of);
    if (done == of) progress_end();
}

int tune_check(const Command *command, const TuneOptions *o) {
    if (o->tune && o->tuning) return usage_error(command, "--tune uses what its file has, too: no need for --tuning");
    if (o->tuning && !is_file(o->tuning)) return report("there is no file \"%s\"", o->tuning);
    return GO_ON;
}

void tune_session(const TuneOptions *o, tn_session_options *session) {
    session->tuning_file = o->tune ? o->tune : o->tuning;
    session->tune = o->tune != NULL;
    session->tuning = show_measuring;
}

void passes_free(PassOptions *o) { free(o->place_list); }
