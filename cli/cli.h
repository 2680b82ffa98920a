/* SPDX-License-Identifier: Apache-2.0 */
/* What the sub-commands share: options, messages, tables, inputs and checks. Out of memory ends the process. */
#ifndef TENON_CLI_H
#define TENON_CLI_H

#include <jansson.h>
#include <popt.h>
#include <stdio.h>
#include <tenon/graph.h>
#include <tenon/passes.h>

/* Exit codes; GO_ON where a function that returns one found nothing to exit for. */
enum { GO_ON = -1, DONE = 0, FAILED = 1, USAGE = 2 };

typedef struct Command {
    const char *name;
    const char *synopsis; /* behind the name: "MODEL [OPTION...]" */
    const char *summary;  /* one line */
    const char *details;  /* paragraphs below the options, examples last; lines of at most 100 characters */
    int (*run)(int argc, const char **argv); /* argv[0] is the command's name */
} Command;
extern const Command command_run, command_test, command_show, command_convert, command_opt, command_check,
    command_passes, command_rules, command_ops, command_bench, command_profile, command_version, command_help;
extern const Command *const commands[]; /* ends with NULL */

/* ---- options (args.c) ----------------------------------------------------------------------------------------- */

/* Ends each table of options. Its strings, and lists of strings, are freed by args_free. */
#define END_OF_OPTIONS                                                                                            \
    {                                                                                                             \
        "plugin", '\0', POPT_ARG_STRING, NULL, SEEN_PLUGIN, "a shared object that brings passes, ops or kernels", \
        "FILE"},                                                                                                  \
        {"help", 'h', POPT_ARG_NONE, NULL, SEEN_HELP, "show this text", NULL}, POPT_TABLEEND
/* Values of options that are remembered in `seen`, since their argument may be absent. */
enum { SEEN_HELP = 1, SEEN_TEST, SEEN_SVG, SEEN_PLUGIN };

typedef struct Args {
    const Command *command;
    struct poptOption *table;
    poptContext popt;
    const char **rest; /* what is not an option */
    int n_rest;
    unsigned seen; /* bits 1 << SEEN_... */
} Args;

/* Fills the table's variables. GO_ON, or an exit code after help or a message; args_free is due in any case. At least
   `least` and at most `most` arguments must be left (most -1: any number). */
int args_parse(Args *args, const Command *command, struct poptOption *table, int argc, const char **argv, int least,
               int most);
void args_free(Args *args);
/* "tenon run: MESSAGE" and where help is; USAGE. */
int usage_error(const Command *command, const char *format, ...) TN_PRINTF(2, 3);

/* ---- messages (report.c) -------------------------------------------------------------------------------------- */

/* "tenon: MESSAGE" on stderr; FAILED. */
int report(const char *format, ...) TN_PRINTF(1, 2);
/* The same with what the library had to say. */
int report_last_error(void);
/* The nearest of n names to a mistyped one, or NULL. */
const char *nearest(const char *wrong, const char *const *names, size_t n);
/* `; did you mean "x"?` or "" in a buffer of its own, overwritten by the next call. */
const char *suggestion(const char *wrong, const char *const *names, size_t n);
/* A context, and the model at `path`: a file, or a folder that holds model.onnx or model.tn. GO_ON or FAILED, reported. */
int open_context(int threads, tn_context **context);
int open_context_loud(int threads, bool verbose, tn_context **context); /* tells what it does */
int open_model(tn_context *context, const char *path, tn_model **model);
/* Where a folder's model is, to be freed; NULL when it has none. */
char *model_in_folder(const char *folder);

void *need(void *memory);                                   /* never NULL */
char *format_text(const char *format, ...) TN_PRINTF(1, 2); /* to be freed */
char *join_path(const char *folder, const char *name);      /* to be freed */
bool is_folder(const char *path);
bool is_file(const char *path);
bool starts_with(const char *text, const char *start);
bool ends_with(const char *text, const char *end);
/* The names in a folder, sorted with numbers in their order, hidden ones left out; NULL when it cannot be read. */
char **list_folder(const char *path, size_t *n);
void free_list(char **names, size_t n);
/* The plan of a session in figures; null without one. */
json_t *plan_summary_json(const tn_session *session);
/* All of a file, a NUL behind it; NULL with errno set. */
char *read_file(const char *path, size_t *size);
double seconds_now(void);
double processor_seconds(void); /* that this process has had, all threads together */

/* ---- the terminal (term.c, table.c) --------------------------------------------------------------------------- */

typedef enum Colour { PLAIN, BOLD, DIM, RED, GREEN, YELLOW } Colour;
/* The escape sequence, or "" when the stream is no terminal or colours are not wanted. */
const char *colour(FILE *stream, Colour colour);
int term_width(FILE *stream); /* in columns; 0: no terminal */
/* A bar on stderr, shown once a second has passed since the first call, and on a terminal only. */
void progress(const char *what, size_t done, size_t of);
void progress_end(void);

/* Cells in columns. A column is described by its heading with '<' (left), '>' (right) or '~' (left, may be cut short
   to fit the terminal) in front. */
typedef struct Table Table;
Table *table_new(size_t n_columns, const char *const *columns);
void table_cell(Table *table, const char *format, ...) TN_PRINTF(2, 3); /* row by row */
void table_print(Table *table, FILE *stream);                           /* and frees it */

/* ---- tensors (tensors.c, values.c) ---------------------------------------------------------------------------- */

char *type_text(const tn_value_info *info);               /* "f32[batch,3]"; to be freed */
char *tensor_type_text(const tn_tensor *tensor);          /* the same; "sequence of 3" of what is no tensor */
const char *kind_name(const tn_tensor *tensor);           /* "tensor", "sequence", "optional", "map" */
char *dims_text(int rank, const int64_t *dims);           /* "[1,3]"; to be freed */
char *first_elements(const tn_tensor *tensor, int64_t n); /* "1, 2, 3, ..."; to be freed */
json_t *element_json(const tn_tensor *tensor, int64_t i);
json_t *number_json(double value); /* null where JSON has no such number */
json_t *dims_json(int rank, const int64_t *dims);
json_t *info_json(const tn_value_info *info);
void print_json(json_t *root);    /* and drops it */
char *bytes_text(uint64_t bytes); /* "12.3 MiB"; to be freed */
char *count_text(double n);       /* "12.3 M"; to be freed */

/* Of the numbers of a tensor, those that are not finite apart. */
typedef struct Stats {
    double min, max, mean;
    int64_t finite, nan, infinite;
} Stats;
Stats tensor_stats(const tn_tensor *tensor);

/* ---- inputs (inputs.c, shapes.c, fill.c, picture.c, npz.c) ---------------------------------------------------- */

typedef struct InputOptions {
    char **inputs; /* NAME=FILE|random|zeros|NUMBER */
    char **shapes; /* NAME=1x3x224x224, or the name of an unknown size: batch=4 */
    int seed;
    double scale; /* of pictures: (pixel * scale - mean) / std */
    char *mean, *std;
    int bgr;
} InputOptions;
#define INPUT_OPTIONS(o)                                                                                            \
    {"input",     'i', POPT_ARG_ARGV,                                                                               \
     &(o).inputs, 0,   "an input: .npy, .npz, .pb, .png, .jpg, `random`, `zeros` or a number",                      \
     "NAME=FILE"},                                                                                                  \
        {"seed", '\0', POPT_ARG_INT, &(o).seed, 0, "where random inputs begin (0)", "N"},                           \
        {"scale", '\0', POPT_ARG_DOUBLE, &(o).scale, 0, "pictures: (pixel * SCALE - mean) / std; 1/255 for floats", \
         "X"},                                                                                                      \
        {"mean", '\0', POPT_ARG_STRING, &(o).mean, 0, "pictures: one number, or one a channel (0)", "X,X,X"},       \
        {"std", '\0', POPT_ARG_STRING, &(o).std, 0, "pictures: likewise (1)", "X,X,X"}, {                           \
        "bgr", '\0', POPT_ARG_NONE, &(o).bgr, 0, "pictures: blue first", NULL                                       \
    }
#define SHAPE_OPTION(o)                                                                                              \
    {                                                                                                                \
        "shape", 's', POPT_ARG_ARGV, &(o).shapes, 0, "an input's sizes, x=1x3x224x224, or an unknown size, batch=4", \
            "NAME=SIZES"                                                                                             \
    }

/* What is known of the model's inputs once --shape is heeded. `guess`: a first size that is unknown is 1. GO_ON, or
   USAGE after a message. *infos is to be freed. */
int shapes_apply(const tn_model *model, char **shapes, bool guess, tn_value_info **infos);
bool sizes_known(const tn_value_info *info);

/* One tensor an input of the model, NULL for a default. GO_ON or an exit code, reported. */
int inputs_make(tn_context *context, const tn_model *model, const InputOptions *options, tn_tensor ***tensors);
void tensors_free(tn_tensor **tensors, size_t n);

int fill_random(tn_tensor *tensor, uint64_t *state); /* small numbers; GO_ON or FAILED */
int fill_number(tn_tensor *tensor, double value);
/* The picture in the layout that the input has; sizes that are unknown are the picture's. */
int picture_load(tn_context *context, const char *path, const tn_value_info *declared, const InputOptions *options,
                 tn_tensor **tensor);
/* Eight-bit pixels, 3 channels, to be freed; NULL after a message. */
uint8_t *picture_decode(const char *path, int *width, int *height);
/* The array of that name, or the only one. */
int npz_load(tn_context *context, const char *path, const char *name, tn_tensor **tensor);

/* ---- passes (settings.c, records.c) --------------------------------------------------------------------------- */

typedef struct PassOptions {
    char *passes, *level, *lowering, *accuracy;
    char **added, **disabled, **places, **rules;
    int unproven;
    tn_pass_settings settings; /* filled by passes_read */
    tn_place *place_list;
} PassOptions;
#define PASS_OPTIONS(o)                                                                                                \
    {"passes", '\0', POPT_ARG_STRING, &(o).passes, 0, "the passes to run instead of the default list", "LIST"},        \
        {"level", 'O', POPT_ARG_STRING, &(o).level, 0, "opt level, 0 to 3 (2)", "N"},                                  \
        {"add", '\0', POPT_ARG_ARGV, &(o).added, 0, "passes to run besides", "LIST"},                                  \
        {"disable", '\0', POPT_ARG_ARGV, &(o).disabled, 0, "a pass not to run", "PASS"},                               \
        {"place", '\0', POPT_ARG_ARGV, &(o).places, 0, "where nodes may run, best first: cpu, cpu/f16", "PLACE"},      \
        {"lowering", '\0', POPT_ARG_STRING, &(o).lowering, 0, "how ops are run: Conv=geometry,Gather=loop", "OP=HOW"}, \
        {"accuracy", '\0', POPT_ARG_STRING, &(o).accuracy, 0, "how exact kernels are: normal, high (normal)", "HOW"},  \
        {"rules", '\0', POPT_ARG_ARGV, &(o).rules, 0, "a file of rewrite rules, proven when it is read", "FILE"}, {    \
        "unproven", '\0', POPT_ARG_NONE, &(o).unproven, 0, "take those rules as they are", NULL                        \
    }
/* Reads the rules and checks the names. GO_ON or an exit code, reported. passes_free is due in any case. */
int passes_read(const Command *command, PassOptions *options);
void passes_free(PassOptions *options);
/* A plug-in, and at the first call before it those of TENON_PLUGINS. GO_ON or FAILED. NULL: those only. */
int plugins_load(const char *file);
/* Rules of one's own. GO_ON or FAILED, reported with a counterexample. NULL: none. */
int rules_load(char *const *files, bool prove);

/* Which ways kernels take. */
typedef struct TuneOptions {
    char *tune, *tuning;
} TuneOptions;
#define TUNE_OPTIONS(o)                                                                                        \
    {"tune",    '\0', POPT_ARG_STRING,                                                                         \
     &(o).tune, 0,    "measure which ways to compute are the fastest here, and keep in FILE what it lacks",    \
     "FILE"},                                                                                                  \
    {                                                                                                          \
        "tuning", '\0', POPT_ARG_STRING, &(o).tuning, 0, "compute as FILE says, which --tune has made", "FILE" \
    }
int tune_check(const Command *command, const TuneOptions *options); /* GO_ON, or USAGE or FAILED after a message */
void tune_session(const TuneOptions *options, tn_session_options *session);

/* What a report says of one pass, all its runs together. */
typedef struct PassSum {
    const char *text; /* as in the pipeline */
    const char *pass; /* its name */
    size_t ran, changed;
    const char *why; /* it did not run, the first time that it did not; NULL */
    tn_pass_count *counts;
    size_t n_counts;
} PassSum;
PassSum *pass_sums(const tn_pass_report *report, size_t *n); /* in the order of their first runs */
void pass_sums_free(PassSum *sums, size_t n);
void print_pass_tree(const tn_pass_report *report, FILE *stream); /* times, nodes, memory */
/* What each did; those that did not run only `all`, those that changed nothing unless `changed`. */
void print_pass_sums(const tn_pass_report *report, bool all, bool changed, FILE *stream);
json_t *pass_report_json(const tn_pass_report *report);

/* ---- checks against recorded outputs (check.c, sets.c) -------------------------------------------------------- */

typedef struct CheckOptions {
    double rtol, atol;              /* negative: by data.json beside the model, or by the type */
    const tn_pass_settings *passes; /* NULL: the default list */
} CheckOptions;
typedef struct CheckResult {
    const char *set; /* name of the folder */
    bool passed;
    double difference; /* the largest, relative to its output's scale */
    double seconds;
    char *reason; /* why it failed; NULL */
} CheckResult;
typedef void (*CheckFn)(void *user, const CheckResult *result);
/* Runs the model on the sets beneath `folder` (NULL: beside the model). GO_ON, or FAILED reported when there are none. */
int check_model(tn_context *context, const char *model, const char *folder, const CheckOptions *options, CheckFn fn,
                void *user);

/* The test_data_set_* folders in `folder`, or `folder` itself when it holds tensors; paths to be freed. */
char **find_sets(const char *folder, size_t *n);
/* Tensors PREFIX0.pb, PREFIX1.pb, ... of a set, in the order of `names`: by their own names when all are known, else
   by number. What kind of value a file holds goes by its number. Absent ones are NULL. On failure NULL, with the reason
   to be freed. */
tn_tensor **load_set(tn_context *context, const char *set, const char *prefix, const char *const *names,
                     const tn_value_kind *kinds, size_t n, char **reason);

#endif
