/* SPDX-License-Identifier: Apache-2.0 */
/* Drawing a graph with Graphviz, which runs as a process of its own and reads from a pipe. */
#include "show.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static bool write_all(int fd, const char *text) {
    size_t n = strlen(text);
    while (n > 0) {
        ssize_t done = write(fd, text, n);
        if (done < 0 && errno == EINTR) continue;
        if (done <= 0) return false;
        text += done;
        n -= (size_t)done;
    }
    return true;
}

/* Starts `dot -Tsvg -o PATH` with `input` as its input; 0 or an errno. */
static int start_dot(const char *path, int input, int other_end, pid_t *pid) {
    char *target = format_text("%s%s", path[0] == '-' ? "./" : "", path);
    char *argv[] = {"dot", "-Tsvg", "-o", target, NULL};
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, input, STDIN_FILENO);
    posix_spawn_file_actions_addclose(&actions, other_end);
    int error = posix_spawnp(pid, "dot", &actions, NULL, argv, environ);
    posix_spawn_file_actions_destroy(&actions);
    free(target);
    return error;
}

static int draw(const char *text, const char *path) {
    int ends[2], status = -1;
    pid_t pid;
    if (pipe(ends) != 0) return report("cannot make a pipe: %s", strerror(errno));
    int error = start_dot(path, ends[0], ends[1], &pid);
    close(ends[0]);
    if (error) {
        close(ends[1]);
        if (error == ENOENT)
            return report("drawing needs Graphviz's program `dot`, which is not installed; see also --dot");
        return report("cannot start `dot`: %s", strerror(error));
    }
    signal(SIGPIPE, SIG_IGN); /* dot may end early: its status tells */
    bool written = write_all(ends[1], text);
    close(ends[1]);
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR) continue;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 127)
        return report("drawing needs Graphviz's program `dot`, which is not installed");
    if (!written || status != 0) return report("`dot` failed to draw \"%s\"", path);
    return GO_ON;
}

int write_svg(const tn_model *model, const char *path) {
    char *text;
    if (tn_model_dot(model, &text) != TN_OK) return report_last_error();
    int code = draw(text, path);
    tn_free_text(text);
    return code;
}
