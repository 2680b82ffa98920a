/* SPDX-License-Identifier: Apache-2.0 */
/* The command `tenon`: picks the sub-command. */
#include "cli.h"

#include <locale.h>
#include <string.h>

const Command *const commands[] = {
    &command_run,   &command_test,   &command_bench, &command_profile, &command_show, &command_convert, &command_opt,
    &command_check, &command_passes, &command_rules, &command_ops,     &command_help, &command_version, NULL};

static const Command *find_command(const char *name) {
    for (size_t i = 0; commands[i]; i++)
        if (strcmp(commands[i]->name, name) == 0) return commands[i];
    return NULL;
}

static int unknown_command(const char *name) {
    const char *names[16];
    size_t n = 0;
    for (; commands[n]; n++) names[n] = commands[n]->name;
    report("no command \"%s\"%s", name, suggestion(name, names, n));
    fprintf(stderr, "Try `tenon help`.\n");
    return USAGE;
}

static void print_overview(void) {
    printf("Usage: tenon COMMAND ...\n\nReads trained models and runs them.\n\n");
    for (size_t i = 0; commands[i]; i++)
        printf("  %s%-9s%s %s\n", colour(stdout, BOLD), commands[i]->name, colour(stdout, PLAIN), commands[i]->summary);
    printf("\n`tenon COMMAND --help` tells more, with examples. Exit status: 0 done, 1 failed, 2 wrong usage.\n");
}

static int run_help(int argc, const char **argv) {
    if (argc < 2 || argv[1][0] == '-') {
        print_overview();
        return DONE;
    }
    const Command *command = find_command(argv[1]);
    const char *ask[] = {argv[1], "--help", NULL};
    return command == &command_help ? run_help(1, argv) : command ? command->run(2, ask) : unknown_command(argv[1]);
}
const Command command_help = {"help", "[COMMAND]", "show this text, or a command's", "", run_help};

static int run_version(int argc, const char **argv) {
    struct poptOption table[] = {END_OF_OPTIONS};
    Args args;
    int code = args_parse(&args, &command_version, table, argc, argv, 0, 0);
    if (code == GO_ON) printf("tenon %s\n", tn_version());
    args_free(&args);
    return code == GO_ON ? DONE : code;
}
const Command command_version = {"version", "", "show the version", "", run_version};

/* `tenon --plugin FILE COMMAND ...`, for any command. How many arguments it took, or -1 after a message. */
static int take_plugin(int argc, const char **argv) {
    const char *file = starts_with(argv[1], "--plugin=") ? argv[1] + 9 : argc > 2 ? argv[2] : NULL;
    if (!file) report("--plugin needs an argument");
    if (!file || plugins_load(file) != GO_ON) return -1;
    return file == argv[2] ? 2 : 1;
}

static int run_command(int argc, const char **argv) {
    while (argc > 1 && (strcmp(argv[1], "--plugin") == 0 || starts_with(argv[1], "--plugin="))) {
        int taken = take_plugin(argc, argv);
        if (taken < 0) return FAILED;
        argc -= taken;
        argv += taken;
    }
    if (argc < 2) {
        print_overview();
        return USAGE;
    }
    const char *name = argv[1];
    if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0) name = "help";
    if (strcmp(name, "--version") == 0 || strcmp(name, "-V") == 0) name = "version";
    const Command *command = find_command(name);
    if (!command) return unknown_command(name);
    if (command != &command_help && plugins_load(NULL) != GO_ON) return FAILED;
    return command->run(argc - 1, argv + 1);
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, "");
    int code = run_command(argc, (const char **)argv);
    if (fflush(stdout) != 0 || ferror(stdout)) {
        report("cannot write the output");
        return FAILED;
    }
    return code;
}
