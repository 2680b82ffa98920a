/* SPDX-License-Identifier: Apache-2.0 */
/* Tenon: read a trained model, run it.
 *
 *     tn_context *ctx;  tn_model *model;  tn_session *session;  tn_tensor *x, *y = NULL;
 *     tn_context_create(NULL, &ctx);
 *     tn_model_load(ctx, "model.onnx", &model);
 *     tn_session_create(model, NULL, &session);
 *     tn_tensor_create(ctx, TN_F32, 4, (int64_t[]){1, 3, 224, 224}, &x);     ... fill tn_tensor_data(x) ...
 *     tn_session_run(session, NULL, (const tn_tensor *[]){x}, 1, &y, 1);     ... read tn_tensor_data(y) ...
 *     tn_tensor_release(y); tn_tensor_release(x);
 *     tn_session_release(session); tn_model_release(model); tn_context_release(ctx);
 *
 * Errors. Each function that can fail returns a tn_status; tn_last_error() then says, on the same thread, what went
 * wrong with which node of which file. On failure no out-parameter is written, unless the function says otherwise.
 * A bad model, a bad tensor or a bad argument is always a status, never a crash.
 *
 * Ownership. What a `create`, `load` or `run` hands out is released by the caller with the `release` of its type; a
 * NULL is ignored there. Objects keep what they are made of alive: the order of releases does not matter. Strings that
 * functions return as `const char *` belong to the object they were asked of.
 *
 * Threads. A context, a model and a tensor that nobody changes may be used from any number of threads at once. A
 * session is used by one thread at a time, but sessions of one model run side by side and share its weights; only
 * tn_session_cancel may be called while another thread runs the session (a second run or resize answers TN_STATE). All
 * share the context's pool of threads.
 *
 * fork. A child process may go on using contexts, models and sessions that it inherited, as long as no other thread of
 * the parent was inside Tenon when it forked; it computes on one thread, since threads are not inherited. A context
 * made in the child has threads again.
 *
 * Files. Models and their weights are mapped, not copied: a file that another program cuts short while it is in use
 * ends the process with SIGBUS. Replace files by renaming, as tn_model_save does.
 *
 * Answers are bitwise the same on every run and for every number of threads (with a tuning file: for what it says).
 */
#ifndef TENON_H
#define TENON_H

#include <tenon/types.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_context tn_context;
typedef struct tn_model tn_model;
typedef struct tn_session tn_session;
typedef struct tn_tensor tn_tensor;

/* ---- the library ---------------------------------------------------------------------------------------------- */

TN_API const char *tn_version(void); /* "0.1.0" */

/* "TN_SHAPE", and "shape or type mismatch". */
TN_API const char *tn_status_name(tn_status status);
TN_API const char *tn_status_text(tn_status status);

/* What the last failing call on this thread had to say, most important line first; "" when none failed. Valid until
   the next failing call on this thread. */
TN_API const char *tn_last_error(void);

TN_API const char *tn_dtype_name(tn_dtype dtype);     /* "f32"; "?" for TN_UNDEFINED */
TN_API tn_dtype tn_dtype_from_name(const char *name); /* TN_UNDEFINED when unknown */
TN_API int tn_dtype_bits(tn_dtype dtype);             /* 32 for TN_F32, 4 for TN_I4; 0 for TN_UNDEFINED */

/* Gives back text that a function of this library allocated (those that return `char **`). */
TN_API void tn_free_text(char *text);

/* ---- context -------------------------------------------------------------------------------------------------- */

/* Zero means the default in each field. */
typedef struct tn_context_options {
    int threads;       /* 0: one for each processor; 1: everything on the calling thread. Without work they give their
                               cores back after 100 us, or after as many as the environment's TENON_SPIN_US says */
    void *pthreadpool; /* a pthreadpool_t of the caller's, to be used instead; outlives the context */
    tn_allocator allocator; /* alloc NULL: the C library's. Gets all memory but what the system libraries take */
    tn_log_fn log;          /* NULL: nothing is logged */
    void *log_user;
    tn_log_level log_level; /* messages above this level are not made; default TN_LOG_ERROR */
    tn_limits limits;
} tn_context_options;

/* options NULL: defaults. TN_OUT_OF_MEMORY, TN_INVALID_ARGUMENT. */
TN_API tn_status tn_context_create(const tn_context_options *options, tn_context **context);
TN_API void tn_context_release(tn_context *context);
TN_API int tn_context_threads(const tn_context *context);

/* ---- tensors -------------------------------------------------------------------------------------------------- */

/* A dense row-major tensor of zeros (of empty strings), 64-byte aligned. TN_LIMIT beyond the context's max_bytes. */
TN_API tn_status tn_tensor_create(tn_context *context, tn_dtype dtype, int rank, const int64_t *dims,
                                  tn_tensor **tensor);
/* A tensor over the caller's memory: not copied. `bytes` must be what the shape takes. `release` (may be NULL) is
   called once nobody reads it any more. Not for strings. */
TN_API tn_status tn_tensor_wrap(tn_context *context, tn_dtype dtype, int rank, const int64_t *dims, void *data,
                                size_t bytes, void (*release)(void *user, void *data, size_t size), void *user,
                                tn_tensor **tensor);
TN_API tn_tensor *tn_tensor_retain(tn_tensor *tensor);
TN_API void tn_tensor_release(tn_tensor *tensor);

TN_API tn_dtype tn_tensor_dtype(const tn_tensor *tensor);
TN_API int tn_tensor_rank(const tn_tensor *tensor);
TN_API const int64_t *tn_tensor_dims(const tn_tensor *tensor); /* tn_tensor_rank of them */
TN_API int64_t tn_tensor_count(const tn_tensor *tensor);       /* elements */
TN_API size_t tn_tensor_bytes(const tn_tensor *tensor);        /* elements under 8 bits are packed, first one lowest */
TN_API void *tn_tensor_data(const tn_tensor *tensor);          /* NULL for strings and for tensors without elements */
/* Element i of a tensor of strings; text may contain NUL. TN_OUT_OF_RANGE, TN_INVALID_ARGUMENT. */
TN_API tn_status tn_tensor_get_string(const tn_tensor *tensor, int64_t i, const char **text, size_t *length);
TN_API tn_status tn_tensor_set_string(tn_tensor *tensor, int64_t i, const char *text, size_t length);
/* A copy of element i as a double (integers beyond 2^53 round; a complex number's real part). 0 outside. */
TN_API double tn_tensor_get_double(const tn_tensor *tensor, int64_t i);

/* Values that are no tensors have handles of the same type: a sequence is a list of tensors, an optional of none or one,
   a map of two (a tensor of keys, a tensor or sequence of values). Their dtype is TN_UNDEFINED, they have no data. */
typedef enum tn_value_kind { TN_TENSOR, TN_SEQUENCE, TN_OPTIONAL, TN_MAP } tn_value_kind;
TN_API tn_value_kind tn_tensor_kind(const tn_tensor *tensor);
TN_API size_t tn_tensor_n_items(const tn_tensor *tensor); /* 0 for a tensor */
/* A new handle of item i, to be released. TN_OUT_OF_RANGE. */
TN_API tn_status tn_tensor_item(const tn_tensor *tensor, size_t i, tn_tensor **item);
/* A sequence, optional or map of these tensors, which it keeps. TN_INVALID_ARGUMENT for a number of items that the kind
   cannot have. */
TN_API tn_status tn_tensor_from_items(tn_context *context, tn_value_kind kind, const tn_tensor *const *items, size_t n,
                                      tn_tensor **tensor);

/* Reads a tensor: .npy, or .pb (an ONNX TensorProto). `name`, if not NULL, gets the tensor's own name ("" when it has
   none), to be given back with tn_free_text. TN_IO, TN_MALFORMED, TN_UNSUPPORTED. */
TN_API tn_status tn_tensor_load(tn_context *context, const char *path, tn_tensor **tensor, char **name);
/* The same for a value of that kind: a .pb then holds an ONNX SequenceProto, OptionalProto or MapProto, which the file
   itself does not say. */
TN_API tn_status tn_tensor_load_as(tn_context *context, const char *path, tn_value_kind kind, tn_tensor **tensor,
                                   char **name);
/* The same from memory; format "npy" or "pb". */
TN_API tn_status tn_tensor_parse(tn_context *context, const char *format, const void *data, size_t size,
                                 tn_tensor **tensor, char **name);
/* Writes .npy or .pb by the path's ending; the file appears complete or not at all. Types that numpy lacks (bf16, f8,
   4- and 2-bit) go into .npy as unsigned integers of their bits; sequences, optionals and maps go into .pb only. */
TN_API tn_status tn_tensor_save(const tn_tensor *tensor, const char *path, const char *name);

/* How far two tensors are apart. Floats are compared to the scale of `want`, its largest finite magnitude below 1e30:
   |got - want| <= atol + rtol * scale, infinities and NaNs by position; all else exactly. */
typedef struct tn_difference {
    bool same;      /* within the tolerance */
    double largest; /* largest absolute difference */
    double scale;
    int64_t at;      /* flat index of the largest difference, -1 when none */
    int64_t n_wrong; /* elements outside */
    char why[160];   /* "" or one line: shapes differ ..., "nan at 12" */
} tn_difference;
TN_API tn_difference tn_tensor_compare(const tn_tensor *got, const tn_tensor *want, double rtol, double atol);

/* ---- models --------------------------------------------------------------------------------------------------- */

/* Reads a model; the format is found from the contents: ONNX (.onnx), Tenon's own text (.tn). The file is mapped and
   weights are read when they are first needed. TN_IO, TN_MALFORMED, TN_INVALID_MODEL, TN_UNSUPPORTED (all unsupported
   ops are listed at once), TN_LIMIT. */
TN_API tn_status tn_model_load(tn_context *context, const char *path, tn_model **model);
/* The same from memory, which is not copied and must stay unchanged until `release` (may be NULL) is called, which
   happens also when loading fails. Weights in other files are looked for beneath `folder`; NULL: such a model is
   refused. */
TN_API tn_status tn_model_load_memory(tn_context *context, const void *data, size_t size, const char *folder,
                                      void (*release)(void *user, void *data, size_t size), void *user,
                                      tn_model **model);
TN_API tn_model *tn_model_retain(tn_model *model);
TN_API void tn_model_release(tn_model *model);
/* Writes .onnx or .tn (with large constants in NAME.safetensors beside it), by the path's ending. Each file appears
   complete or not at all. TN_UNSUPPORTED for an op that the format has not, TN_IO. */
TN_API tn_status tn_model_save(const tn_model *model, const char *path);

/* What is known of an input or output. */
typedef struct tn_value_info {
    const char *name;
    tn_value_kind kind;
    tn_dtype dtype;
    int rank;                          /* -1: not known */
    int64_t dims[TN_MAX_RANK];         /* -1: not known, or depends on the inputs' sizes */
    const char *dim_text[TN_MAX_RANK]; /* "3", "batch", "batch*2", "?" */
    bool has_default;                  /* an input that need not be given */
    const char *type;                  /* as docs/ir.md spells it: "f32[batch,3]", "seq(f32[*])"; "?" when not known */
} tn_value_info;
TN_API size_t tn_model_n_inputs(const tn_model *model);
TN_API size_t tn_model_n_outputs(const tn_model *model);
/* TN_OUT_OF_RANGE. */
TN_API tn_status tn_model_input(const tn_model *model, size_t i, tn_value_info *info);
TN_API tn_status tn_model_output(const tn_model *model, size_t i, tn_value_info *info);
/* "producer_name", "description", ... and the model's own properties; NULL when absent. */
TN_API const char *tn_model_metadata(const tn_model *model, const char *key);
TN_API size_t tn_model_n_metadata(const tn_model *model);
TN_API tn_status tn_model_metadata_at(const tn_model *model, size_t i, const char **key, const char **value);

/* ---- sessions ------------------------------------------------------------------------------------------------- */

/* A part of a model, from values to values; any value may be named that stands in no nested graph. docs/sessions.md. */
typedef struct tn_path {
    const char *const *inputs; /* where it begins; these are inputs unless another path makes them */
    size_t n_inputs;           /* 0: it goes back to the model's inputs */
    const char *const *outputs;
    size_t n_outputs;     /* at least 1 */
    const char *lowering; /* how ops are run that no earlier path needs, as in tn_pass_settings; NULL: as those say */
} tn_path;

typedef struct tn_session_options {
    const char *const *outputs; /* names of the outputs wanted, in this order; any value of the model may be named */
    size_t n_outputs;           /* 0: all of the model's outputs */
    int max_plans;              /* plans kept for shapes seen before; 0: 8 */
    const struct tn_pass_settings *passes; /* <tenon/passes.h>; NULL: the default list */
    const tn_path *paths; /* parts of the model, in place of `outputs`, which is short for one without inputs */
    size_t n_paths;       /* 0: the whole model */
    bool defer_plan;      /* plan at the first resize or run, also when all input shapes are known */
    bool defer_packing;   /* plan without reading weights, which are packed at the first run: to look at plans */
    /* Where kernels have several ways to compute, the ones found to be fastest before: read where the file is there. NULL: they
       go by sizes. docs/kernels.md. */
    const char *tuning_file;
    /* What that file lacks for the sizes at hand is measured whenever they are planned, by some dozens of runs on made up
       inputs, and added to it (without a file it is for this session only). */
    bool tune;
    void (*tuning)(void *user, size_t done, size_t of); /* before each of these runs; may be NULL */
    void *tuning_user;
} tn_session_options;

/* Makes the program. When all input shapes are known the memory is planned at once. options NULL: defaults.
   TN_NOT_FOUND for a name that the model has not; TN_INVALID_ARGUMENT for a path that begins where none of its ends
   leads. */
TN_API tn_status tn_session_create(tn_model *model, const tn_session_options *options, tn_session **session);
TN_API void tn_session_release(tn_session *session);
/* Those of the model, in its order. Of paths that begin inside: where they begin, in their order, each once, then the
   model's inputs that they need besides. */
TN_API size_t tn_session_n_inputs(const tn_session *session);
/* Those asked for; of paths their ends, in their order, one that an earlier path has too once. */
TN_API size_t tn_session_n_outputs(const tn_session *session);
/* The part of a model that a session with these paths runs, as a model of its own. */
TN_API tn_status tn_model_extract(const tn_model *model, const tn_path *paths, size_t n_paths, tn_model **part);

/* Output `present` is input `past` of the next run: it stays in the session. In a run, NULL for that input takes what is
   remembered, a tensor takes its place; for that output NULL leaves NULL, a tensor is filled with a copy. A run that fails
   changes nothing. The first run, and the first after a reset, begins with the input's default, else with zeros of the
   declared shape; there a size has the number that other inputs have under its name, else 0. `capacity`: room is reserved for that many
   positions along the dimension in which the state grows; 0: for what is there. Growing beyond it is no error.
   TN_NOT_FOUND, TN_SHAPE, TN_UNSUPPORTED for what is no tensor of numbers. */
TN_API tn_status tn_session_bind_state(tn_session *session, const char *past, const char *present, int64_t capacity);
TN_API tn_status tn_session_reset_state(tn_session *session); /* all of them; the memory stays */

/* Plans for these input shapes, one an input in the session's order (rank and dims; a NULL dims keeps the declared
   shape, of a state the shape that is remembered). Running with inputs of other shapes resizes by itself; this does it
   ahead of time. If it fails, the session is not planned and says so (tn_session_info) until a resize, or a run with
   shapes that work, succeeds. */
typedef struct tn_shape {
    int rank;
    const int64_t *dims;
} tn_shape;
TN_API tn_status tn_session_resize(tn_session *session, const tn_shape *shapes, size_t n_shapes);

/* For sessions that meet many sizes. While traced, the session notes from plan to plan, the one it has included, which
   instructions stay: whose results have the same sizes each time (tn_session_info counts them). Fixed, what stays is relied on:
   sizes that would change it fail with TN_SHAPE, which names the node. Free is how a session begins; going there or to
   tracing forgets what was traced. TN_STATE when nothing was; TN_UNSUPPORTED where passes make a graph for each set of sizes. */
typedef enum tn_shape_mode { TN_SHAPES_FREE, TN_SHAPES_TRACED, TN_SHAPES_FIXED } tn_shape_mode;
TN_API tn_status tn_session_set_shape_mode(tn_session *session, tn_shape_mode mode);

/* Writes what the session runs: the optimised model as NAME.tn, its weights in NAME.safetensors, and in
   NAME.packed.safetensors the weights as this processor's kernels want them for the shapes that the session is planned for
   (TN_STATE when it is not). A session of the model that tn_model_load reads from there maps them: it neither optimises nor
   packs. On another kind of processor they are packed as usual. `path` ends in .tn. TN_IO, TN_INVALID_ARGUMENT. */
TN_API tn_status tn_session_save(tn_session *session, const char *path);

/* Adds what this session has measured to a tuning file (NULL: its own); what the file has already stays, and the file is
   replaced as a whole. Sessions that tune do it after each plan, where a failure goes to the log only. TN_STATE without a file,
   TN_IO, TN_MALFORMED for a file that is something else. */
TN_API tn_status tn_session_update_tuning(tn_session *session, const char *path);

/* An input or output as planned: concrete sizes, -1 where they depend on contents. Before a resize an input is as declared,
   of an output it is TN_STATE. */
TN_API tn_status tn_session_input(const tn_session *session, size_t i, tn_value_info *info);
TN_API tn_status tn_session_output(const tn_session *session, size_t i, tn_value_info *info);
/* The bytes that a caller's own tensor for output i needs. TN_STATE when it depends on contents. */
TN_API tn_status tn_session_output_bytes(const tn_session *session, size_t i, size_t *bytes);

typedef struct tn_instruction_info {
    size_t index;
    const char *node;   /* its name in the model */
    const char *op;     /* "Conv"; of nodes that are run as one "Conv+Relu" */
    const char *kernel; /* what runs it: "reference_any", "raster"; without work: "view", "virtual", "folded" */
    const char *way;    /* of those that the kernel has: "winograd4"; "" where it has one only */
    bool tuned;         /* that way was chosen by measuring */
    tn_dtype dtype;     /* of the first result */
    int rank;           /* likewise; -1 when not known */
    int64_t dims[TN_MAX_RANK];
    double flops;
    uint64_t nanoseconds;               /* of the last run when profiled; 0 else */
    uint64_t began;                     /* likewise: when, in nanoseconds of the system's monotonic clock */
    uint64_t bytes_read, bytes_written; /* elements of operands and of results, each once */
    uint64_t
        moved_bytes; /* written without arithmetic: by rasters, by ops that only move data, as copies of operands */
    size_t n_operands, n_results; /* for tn_session_instruction_value */
} tn_instruction_info;

/* What a call-back around an op may answer. */
typedef enum tn_action { TN_CONTINUE, TN_SKIP_OP /* before only */, TN_STOP /* run returns TN_CANCELLED */ } tn_action;

typedef struct tn_run_options {
    uint64_t timeout_ns; /* 0: none. TN_DEADLINE when it passes; checked inside loops and long kernels */
    tn_action (*before)(void *user, const tn_instruction_info *instruction);
    /* `outputs` are the op's results, valid during the call. */
    tn_action (*after)(void *user, const tn_instruction_info *instruction, tn_tensor *const *outputs, size_t n_outputs);
    void *user;
    bool profile; /* measure each instruction */
} tn_run_options;

/* Runs. `inputs` are in the session's order (a NULL takes the input's default); `outputs[i]` on entry is NULL, then a
   new tensor is made that the caller releases, or a tensor of the caller's with the right type and shape, then it is
   filled. options NULL: defaults. When it fails, the entries that were NULL are NULL. TN_SHAPE, TN_INVALID_ARGUMENT,
   TN_OUT_OF_RANGE (say, an index outside its dimension), TN_CANCELLED, TN_DEADLINE, TN_LIMIT, TN_OUT_OF_MEMORY. */
TN_API tn_status tn_session_run(tn_session *session, const tn_run_options *options, const tn_tensor *const *inputs,
                                size_t n_inputs, tn_tensor **outputs, size_t n_outputs);
/* From any thread: the current run, or the next one when none is under way, ends with TN_CANCELLED soon. */
TN_API void tn_session_cancel(tn_session *session);

typedef enum tn_resize_status {
    TN_RESIZE_NEEDED, /* nothing is planned yet; a run does it by itself */
    TN_RESIZE_DONE,
    TN_RESIZE_FAILED /* the last resize, or a run's own */
} tn_resize_status;

/* What the session takes and does. Bytes are 0 before the first plan. */
typedef struct tn_session_info {
    size_t n_instructions;
    size_t n_segments;        /* parts planned one after the other since sizes depend on contents; 1: planned at once */
    size_t n_planned;         /* instructions planned so far; the others wait for sizes that depend on contents */
    bool planned;             /* all of them */
    double flops;             /* of what is planned, one run */
    uint64_t weight_bytes;    /* constants, mapped ones included */
    uint64_t arena_bytes;     /* intermediate memory as planned */
    uint64_t bound_bytes;     /* the largest sum of sizes live at once: no plan can take less */
    uint64_t plain_bytes;     /* the same without views and in-place results, in the model's own order */
    uint64_t allocated_bytes; /* what the session holds now */
    uint64_t moved_bytes;     /* that one run writes without arithmetic: rasters, copies, gathers inside kernels */
    uint64_t moves_bytes;     /* that the model's ops which only move data would write, each by itself */
    tn_resize_status resize_status;
    const char *resize_error; /* why it failed, as tn_last_error said it; else "". Valid until the next resize or run */
    size_t n_plans;           /* plans kept, for the shapes seen last */
    size_t n_stay;     /* instructions whose sizes were the same in all plans traced; see tn_session_set_shape_mode */
    size_t n_tuned;    /* instructions whose way was chosen by measuring, now or before */
    size_t n_measured; /* choices that this session has measured itself */
} tn_session_info;
TN_API tn_status tn_session_get_info(const tn_session *session, tn_session_info *info);
TN_API tn_status tn_session_instruction(const tn_session *session, size_t i, tn_instruction_info *info);
/* Operand k of instruction i, or its result k - n_operands, as planned. What is absent has no name and an unknown rank. */
TN_API tn_status tn_session_instruction_value(const tn_session *session, size_t i, size_t k, tn_value_info *info);

/* A kernel that an instruction's op may have, and what became of it. */
typedef struct tn_kernel_choice {
    const char *kernel;
    const char *target; /* "any", "cpu" */
    int priority;       /* the higher is asked first */
    bool chosen;
    bool asked; /* chosen, or it did not match the instruction; false: one before it matched */
} tn_kernel_choice;
/* Kernel k for instruction i, in the order in which they are asked. TN_OUT_OF_RANGE behind the last, and where no kernel was
   chosen (rasters, views, what is folded or not planned). */
TN_API tn_status tn_session_kernel(const tn_session *session, size_t i, size_t k, tn_kernel_choice *choice);

/* ---- the machine ---------------------------------------------------------------------------------------------- */

/* Rates a second that no kernel exceeds, with all of a context's threads at work. */
typedef struct tn_peak {
    const char *isa;   /* the instruction set that kernels use: "avx512" */
    double flops;      /* float32; a multiplication and an addition are two */
    double read, copy; /* bytes; a copied byte counts twice, as it is read and written */
} tn_peak;
/* Measures them, in some tenths of a second. `bytes`: how much memory is gone over, which decides the cache it lies in; 0:
   none. A machine that has other work to do gives less. TN_OUT_OF_MEMORY. */
TN_API tn_status tn_measure_peak(tn_context *context, size_t bytes, tn_peak *peak);

/* ---- ops ------------------------------------------------------------------------------------------------------ */

typedef struct tn_op_info {
    const char *domain; /* "" for ONNX's own */
    const char *name;
    const char *kind; /* "atomic", "deformable", "composite", "host" */
    const char *summary;
    const char *types;    /* element types of the first operand: "f32 f64 i8 ..." */
    const char *kernels;  /* what runs it: "regions", "reference_any", ... */
    const char *lowering; /* what it is made of, for targets without a kernel for it; "" of an atomic one */
    const char *ways;     /* of "origin geometry loop" those that it has: see docs/geometry.md */
} tn_op_info;
TN_API size_t tn_n_ops(void);
TN_API tn_status tn_op(size_t i, tn_op_info *info); /* sorted by domain and name; strings live as long as the thread's
                                                       next call */
/* How a target ("cpu", "minimal", "reference") runs an op: the name of a kernel of its own, "regions", "lowered" (taken apart
   into ops that it runs), "host" (known while planning), "reference" (on the reference kernels that stand behind it), or ""
   when it does not. TN_NOT_FOUND for a target that is not there. */
TN_API tn_status tn_op_on(size_t i, const char *target, const char **how);

#ifdef __cplusplus
}
#endif
#endif
