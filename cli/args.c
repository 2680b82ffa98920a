/* SPDX-License-Identifier: Apache-2.0 */
/* Options by popt: messages with suggestions, help from the same table. */
#include "cli.h"

#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

int usage_error(const Command *command, const char *format, ...) {
    va_list list;
    va_start(list, format);
    fprintf(stderr, "%stenon %s:%s ", colour(stderr, RED), command->name, colour(stderr, PLAIN));
    vfprintf(stderr, format, list);
    va_end(list);
    fprintf(stderr, "\nTry `tenon %s --help`.\n", command->name);
    return USAGE;
}

/* ---- help ----------------------------------------------------------------------------------------------------- */

static bool is_end(const struct poptOption *option) { return !option->longName && !option->shortName; }

static void print_option(const struct poptOption *option) {
    bool optional = (option->argInfo & POPT_ARGFLAG_OPTIONAL) != 0;
    char left[64], short_name[8] = "    ";
    if (option->shortName) snprintf(short_name, sizeof short_name, "-%c, ", option->shortName);
    snprintf(left, sizeof left, "%s--%s%s%s%s", short_name, option->longName,
             optional             ? "[="
             : option->argDescrip ? " "
                                  : "",
             option->argDescrip ? option->argDescrip : "", optional ? "]" : "");
    printf("  %-28s %s\n", left, option->descrip);
}

static void print_help(const Command *command, struct poptOption *table) {
    printf("Usage: tenon %s %s\n\n%c%s.\n\nOptions:\n", command->name, command->synopsis, command->summary[0] - 32,
           command->summary + 1);
    for (; !is_end(table); table++) print_option(table);
    if (command->details[0]) printf("\n%s", command->details);
}

/* ---- parsing -------------------------------------------------------------------------------------------------- */

/* The long options' names with their dashes in front, and a suggestion for a mistyped one. */
static const char *suggest_option(const struct poptOption *table, const char *wrong) {
    static char found[64];
    const char *names[64];
    size_t n = 0;
    for (; !is_end(table) && n < 64; table++) names[n++] = table->longName;
    while (*wrong == '-') wrong++;
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(wrong, "="), wrong);
    const char *near = nearest(name, names, n);
    found[0] = '\0';
    if (near) snprintf(found, sizeof found, "; did you mean --%s?", near);
    return found;
}

static int option_error(const Args *args, int error) {
    const char *bad = poptBadOption(args->popt, POPT_BADOPTION_NOALIAS);
    switch (error) {
    case POPT_ERROR_BADOPT: return usage_error(args->command, "no option %s%s", bad, suggest_option(args->table, bad));
    case POPT_ERROR_NOARG: return usage_error(args->command, "%s needs an argument", bad);
    case POPT_ERROR_BADNUMBER:
    case POPT_ERROR_OVERFLOW: return usage_error(args->command, "%s: a number is expected", bad);
    default: return usage_error(args->command, "%s: %s", bad, poptStrerror(error));
    }
}

static int count_rest(Args *args, int least, int most) {
    args->rest = poptGetArgs(args->popt);
    while (args->rest && args->rest[args->n_rest]) args->n_rest++;
    if (args->n_rest < least)
        return usage_error(args->command, "an argument is missing: tenon %s %s", args->command->name,
                           args->command->synopsis);
    if (args->rest && most >= 0 && args->n_rest > most)
        return usage_error(args->command, "\"%s\" is one argument too many", args->rest[most]);
    return GO_ON;
}

static int load_plugin(Args *args) {
    char *file = poptGetOptArg(args->popt);
    int code = plugins_load(file);
    free(file);
    return code;
}

int args_parse(Args *args, const Command *command, struct poptOption *table, int argc, const char **argv, int least,
               int most) {
    *args = (Args){.command = command, .table = table};
    args->popt = need(poptGetContext(NULL, argc, argv, table, 0));
    int got;
    while ((got = poptGetNextOpt(args->popt)) > 0) {
        if (got == SEEN_PLUGIN && load_plugin(args) != GO_ON) return FAILED;
        args->seen |= 1u << got;
    }
    if (got < -1) return option_error(args, got);
    if (args->seen & 1u << SEEN_HELP) {
        print_help(command, table);
        return DONE;
    }
    return count_rest(args, least, most);
}

static void free_strings(char **list) {
    for (size_t i = 0; list && list[i]; i++) free(list[i]);
    free(list);
}

void args_free(Args *args) {
    for (struct poptOption *o = args->table; !is_end(o); o++) {
        unsigned kind = o->argInfo & POPT_ARG_MASK;
        if (kind == POPT_ARG_STRING && o->arg) free(*(char **)o->arg);
        if (kind == POPT_ARG_ARGV && o->arg) free_strings(*(char ***)o->arg);
    }
    poptFreeContext(args->popt);
}
