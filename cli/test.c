/* SPDX-License-Identifier: Apache-2.0 */
/* `tenon test`: whole trees of models with recorded inputs and outputs, each model in a process of its own. */
#include "cli.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

typedef struct TestOptions {
    int jobs, timeout, json;
    char *filter;
    CheckOptions check;
    PassOptions passes;
} TestOptions;

typedef enum Outcome { PASSED, FAILED_TEST, SKIPPED } Outcome;

typedef struct Test {
    char *folder, *model; /* model NULL: nothing to run */
    Outcome outcome;
    char *reason; /* why it failed */
    double seconds, difference;
} Test;

/* A child that runs a test and sends a line of JSON a set. */
typedef struct Job {
    pid_t pid;
    int fd;
    Test *test; /* NULL: free */
    double started;
    char *text;
    size_t n;
    bool timed_out;
} Job;

typedef struct Tests {
    Test *list;
    size_t n, finished;
    const TestOptions *options;
} Tests;

/* ---- finding -------------------------------------------------------------------------------------------------- */

static bool holds(const char *folder, const char *name) {
    char *path = join_path(folder, name);
    bool there = is_file(path);
    free(path);
    return there;
}

/* Takes the model's path. */
static void add_test(Tests *tests, const char *folder, char *model) {
    const char *filter = tests->options->filter;
    if (filter && !strstr(folder, filter)) {
        free(model);
        return;
    }
    tests->list = need(realloc(tests->list, (tests->n + 1) * sizeof *tests->list));
    tests->list[tests->n++] = (Test){
        .folder = format_text("%s", folder), .model = model, .outcome = holds(folder, "skip") ? SKIPPED : PASSED};
}

static void find_tests(Tests *tests, const char *folder) {
    char *model = model_in_folder(folder);
    size_t n;
    char **sets = find_sets(folder, &n);
    free_list(sets, n);
    if (model && (n > 0 || holds(folder, "expect_error"))) {
        add_test(tests, folder, model);
        return;
    }
    free(model);
    char **names = list_folder(folder, &n);
    for (size_t i = 0; names && i < n; i++) {
        char *path = join_path(folder, names[i]);
        if (is_folder(path)) find_tests(tests, path);
        free(path);
    }
    free_list(names, n);
}

/* ---- the child ------------------------------------------------------------------------------------------------ */

static void send_result(void *user, const CheckResult *r) {
    json_t *line = json_pack("{s:s, s:b, s:f, s:o, s:s*}", "set", r->set, "passed", r->passed, "seconds", r->seconds,
                             "difference", number_json(r->difference), "reason", r->reason);
    if (!line) line = json_pack("{s:b, s:s}", "passed", r->passed, "reason", "a message that is not UTF-8");
    json_dumpfd(line, *(int *)user, JSON_COMPACT);
    if (write(*(int *)user, "\n", 1) != 1) _exit(FAILED);
    json_decref(line);
}

static void run_child(const Test *test, const TestOptions *options, int fd) {
    tn_context *context = NULL;
    /* Tests run side by side, so each computes on one thread. */
    int code = open_context(1, &context);
    if (code == GO_ON) code = check_model(context, test->model, test->folder, &options->check, send_result, &fd);
    tn_context_release(context);
    fflush(NULL);
    _exit(code == GO_ON ? DONE : code);
}

static bool start_job(Job *job, Test *test, const TestOptions *options) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        run_child(test, options, ends[1]);
    }
    close(ends[1]);
    if (pid < 0) {
        close(ends[0]);
        return false;
    }
    *job = (Job){.pid = pid, .fd = ends[0], .test = test, .started = seconds_now()};
    return true;
}

/* ---- results -------------------------------------------------------------------------------------------------- */

static void read_line(Test *test, const char *line, size_t n) {
    json_t *json = json_loadb(line, n, 0, NULL);
    const char *reason = json_string_value(json_object_get(json, "reason")),
               *set = json_string_value(json_object_get(json, "set"));
    double difference = json_number_value(json_object_get(json, "difference"));
    if (difference > test->difference) test->difference = difference;
    if (!json_is_true(json_object_get(json, "passed")) && !test->reason)
        test->reason = format_text("%s: %s", set ? set : "?", reason ? reason : "failed");
    json_decref(json);
}

static void finish_job(Job *job, const TestOptions *options) {
    Test *test = job->test;
    int status = 0;
    size_t lines = 0;
    while (waitpid(job->pid, &status, 0) < 0 && errno == EINTR) continue;
    close(job->fd);
    for (char *line = job->text, *end; line && (end = memchr(line, '\n', job->n - (size_t)(line - job->text)));
         line = end + 1, lines++)
        read_line(test, line, (size_t)(end - line));
    char *ending = NULL;
    if (job->timed_out) ending = format_text("took more than %d seconds", options->timeout);
    else if (WIFSIGNALED(status)) ending = format_text("crashed: %s", strsignal(WTERMSIG(status)));
    else if (WEXITSTATUS(status) != 0 || lines == 0)
        ending = format_text("ended with status %d and %zu results", WEXITSTATUS(status), lines);
    if (ending) {
        free(test->reason);
        test->reason = ending;
    }
    test->outcome = test->reason ? FAILED_TEST : PASSED;
    test->seconds = seconds_now() - job->started;
    free(job->text);
    *job = (Job){0};
}

static void print_failure(const Test *test) {
    progress_end();
    printf("%sFAIL%s %s\n", colour(stdout, RED), colour(stdout, PLAIN), test->folder);
    for (const char *line = test->reason; line && *line;) {
        int n = (int)strcspn(line, "\n");
        printf("  %.*s\n", n, line);
        line += line[n] ? n + 1 : n;
    }
    fflush(stdout);
}

/* People see a failure when it happens; whatever else reads gets them in order, at the end. */
static bool show_at_once(const TestOptions *options) { return !options->json && term_width(stdout) > 0; }

/* ---- running side by side ------------------------------------------------------------------------------------- */

/* False at the end of the child's output. */
static bool read_job(Job *job) {
    char buffer[4096];
    ssize_t got = read(job->fd, buffer, sizeof buffer);
    if (got <= 0) return got < 0 && errno == EINTR;
    job->text = need(realloc(job->text, job->n + (size_t)got));
    memcpy(job->text + job->n, buffer, (size_t)got);
    job->n += (size_t)got;
    return true;
}

static void kill_late(Job *jobs, int n, int timeout) {
    double now = seconds_now();
    for (int i = 0; i < n; i++) {
        if (!jobs[i].test || jobs[i].timed_out || now - jobs[i].started < timeout) continue;
        jobs[i].timed_out = true;
        kill(jobs[i].pid, SIGKILL);
    }
}

static void wait_for_some(Tests *tests, Job *jobs, int n) {
    struct pollfd fds[256];
    const TestOptions *options = tests->options;
    for (int i = 0; i < n; i++) fds[i] = (struct pollfd){.fd = jobs[i].test ? jobs[i].fd : -1, .events = POLLIN};
    int ready = poll(fds, (nfds_t)n, 200);
    for (int i = 0; i < n && ready > 0; i++) {
        Test *test = jobs[i].test;
        if (!test || !fds[i].revents || read_job(&jobs[i])) continue;
        finish_job(&jobs[i], options);
        tests->finished++;
        if (test->outcome == FAILED_TEST && show_at_once(options)) print_failure(test);
    }
    kill_late(jobs, n, options->timeout);
}

static int run_tests(Tests *tests, int n) {
    Job jobs[256] = {0};
    size_t next = 0;
    while (tests->finished < tests->n) {
        for (int i = 0; i < n; i++) {
            while (next < tests->n && tests->list[next].outcome == SKIPPED) next++, tests->finished++;
            if (jobs[i].test || next == tests->n) continue;
            if (!start_job(&jobs[i], &tests->list[next], tests->options)) return report("cannot start a process");
            next++;
        }
        progress(next > 0 ? tests->list[next - 1].folder : "", tests->finished, tests->n);
        wait_for_some(tests, jobs, n);
    }
    progress_end();
    return GO_ON;
}

/* ---- the summary ---------------------------------------------------------------------------------------------- */

static json_t *tests_json(const Tests *tests) {
    static const char *const outcomes[] = {"passed", "failed", "skipped"};
    json_t *list = json_array();
    for (size_t i = 0; i < tests->n; i++) {
        const Test *t = &tests->list[i];
        json_array_append_new(list, json_pack("{s:s, s:s, s:o, s:f, s:s*}", "folder", t->folder, "outcome",
                                              outcomes[t->outcome], "difference", number_json(t->difference), "seconds",
                                              t->seconds, "reason", t->reason));
    }
    return list;
}

static int print_summary(const Tests *tests) {
    size_t n[3] = {0};
    for (size_t i = 0; i < tests->n; i++) {
        n[tests->list[i].outcome]++;
        if (tests->list[i].outcome == FAILED_TEST && !tests->options->json && !show_at_once(tests->options))
            print_failure(&tests->list[i]);
    }
    if (tests->options->json)
        print_json(json_pack("{s:I, s:I, s:I, s:o}", "passed", (json_int_t)n[PASSED], "failed",
                             (json_int_t)n[FAILED_TEST], "skipped", (json_int_t)n[SKIPPED], "tests",
                             tests_json(tests)));
    else
        printf("%s%zu passed, %zu failed, %zu skipped%s\n", colour(stdout, n[FAILED_TEST] ? RED : GREEN), n[PASSED],
               n[FAILED_TEST], n[SKIPPED], colour(stdout, PLAIN));
    return n[FAILED_TEST] ? FAILED : DONE;
}

static void free_tests(Tests *tests) {
    for (size_t i = 0; i < tests->n; i++) {
        free(tests->list[i].folder);
        free(tests->list[i].model);
        free(tests->list[i].reason);
    }
    free(tests->list);
}

static int test_folders(const Args *args, const TestOptions *options) {
    Tests tests = {.options = options};
    int code = GO_ON;
    for (int i = 0; i < args->n_rest && code == GO_ON; i++) {
        if (is_folder(args->rest[i])) find_tests(&tests, args->rest[i]);
        else code = report("\"%s\" is no folder", args->rest[i]);
    }
    if (code == GO_ON && tests.n == 0)
        code = report("no folder with a model.onnx or model.tn beside a test_data_set_*%s",
                      options->filter ? " and with a name that --filter lets through" : "");
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    int jobs = options->jobs > 0 ? options->jobs : processors > 0 ? (int)processors : 1;
    if (code == GO_ON) code = run_tests(&tests, jobs < 256 ? jobs : 256);
    if (code == GO_ON) code = print_summary(&tests);
    free_tests(&tests);
    return code;
}

static int run_test(int argc, const char **argv) {
    TestOptions o = {.timeout = 300, .check = {-1, -1, &o.passes.settings}};
    struct poptOption table[] = {
        {"jobs", 'j', POPT_ARG_INT, &o.jobs, 0, "models at a time (one a processor)", "N"},
        {"timeout", '\0', POPT_ARG_INT, &o.timeout, 0, "seconds that a model may take (300)", "N"},
        {"filter", 'f', POPT_ARG_STRING, &o.filter, 0, "only folders with this in their path", "TEXT"},
        {"rtol", '\0', POPT_ARG_DOUBLE, &o.check.rtol, 0, "allowed difference relative to an output's scale", "X"},
        {"atol", '\0', POPT_ARG_DOUBLE, &o.check.atol, 0, "allowed absolute difference (1e-7)", "X"},
        PASS_OPTIONS(o.passes),
        {"json", '\0', POPT_ARG_NONE, &o.json, 0, "answer in JSON", NULL},
        END_OF_OPTIONS};
    Args args;
    int code = args_parse(&args, &command_test, table, argc, argv, 1, -1);
    if (code == GO_ON) code = passes_read(&command_test, &o.passes);
    if (code == GO_ON) code = test_folders(&args, &o);
    passes_free(&o.passes);
    args_free(&args);
    return code;
}

const Command command_test = {
    "test", "DIR... [OPTION...]", "run trees of models on recorded inputs and compare the outputs",
    "A test is a folder with model.onnx or model.tn and test_data_set_*/{input,output}_N.pb, as the ONNX\n"
    "project's backend tests have them. A file `skip` in the folder skips it, `expect_error` says that it\n"
    "must fail (and what the message must contain), data.json sets {\"rtol\": x, \"atol\": x}. Each model\n"
    "runs in a process of its own: a crash is a failure of that test only.\n"
    "\n"
    "Examples:\n"
    "  tenon test backend/node\n"
    "  tenon test models --filter resnet --timeout 600 --json\n",
    run_test};
