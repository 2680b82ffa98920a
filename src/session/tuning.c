/* SPDX-License-Identifier: Apache-2.0 */
/* Tuning files: choices that sessions measured, by processor and build, as JSON.

       {"tenon-tuning": 1, "machines": {PROCESSOR, BUILD: {WORK: {"way": "winograd4", "us": 12.5, "usual_us": 20.1}}}} */
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <unistd.h>

#include "backends/cpu/cpu.h"
#include "session/session_int.h"

enum { VERSION = 1, LARGEST_FILE = 256 << 20 };

/* Kernels of another build or at another level may be as fast in another way. */
static void name_machine(char *text, size_t size) {
    char processor[160];
    cpu_describe(processor, sizeof processor);
    snprintf(text, size, "%s; tenon %s, %s", processor, tn_version(), __VERSION__);
    for (char *c = text; *c; c++)
        if (*c < ' ' || *c > '~') *c = '?';
}

/* ---- reading ------------------------------------------------------------------------------------------------- */

static tn_status no_file(const char *path, const char *why) {
    return fail(TN_MALFORMED, "\"%s\" is no tuning file: %s", path, why);
}

static tn_status parse(const char *path, const Buffer *bytes, json_t **out) {
    json_error_t error;
    if (bytes->size > LARGEST_FILE) return no_file(path, "it is too large");
    *out = json_loadb((const char *)bytes->data, bytes->size, 0, &error);
    if (!*out && json_error_code(&error) == json_error_out_of_memory) return fail_memory(bytes->size);
    if (!*out) return no_file(path, error.text);
    const json_t *version = json_object_get(*out, "tenon-tuning");
    if (!json_is_integer(version) || !json_is_object(json_object_get(*out, "machines")))
        return no_file(path, "it does not say \"tenon-tuning\" and \"machines\"");
    if (json_integer_value(version) == VERSION) return TN_OK;
    return fail(TN_UNSUPPORTED, "\"%s\" is a tuning file of version %lld, this is version %d", path,
                (long long)json_integer_value(version), (int)VERSION);
}

/* What the file holds; an empty table where there is no file. To be given back, also after a failure. */
static tn_status open_file(const Allocator *a, const char *path, json_t **out) {
    Buffer *bytes;
    *out = NULL;
    if (access(path, F_OK) != 0) {
        *out = json_pack("{s:i, s:{}}", "tenon-tuning", VERSION, "machines");
        return *out ? TN_OK : fail_memory(1);
    }
    TRY(file_map(a, path, &bytes));
    tn_status status = parse(path, bytes, out);
    buffer_unref(bytes);
    return status;
}

static tn_status read_choice(Tuning *tuning, const char *path, const char *work, const json_t *entry) {
    const json_t *way = json_object_get(entry, "way"), *packs = json_object_get(entry, "packs");
    bool chosen = json_is_string(way) && !packs, form = !way && (json_is_string(packs) || json_is_null(packs));
    if (!chosen && !form) return no_file(path, "some work has neither a way nor what it packs");
    TuningChoice choice = {.way = json_string_value(way), .packs = json_string_value(packs)};
    choice.us = json_number_value(json_object_get(entry, "us"));
    choice.usual_us = json_number_value(json_object_get(entry, "usual_us"));
    return tuning_set(tuning, str_of(work), &choice, false);
}

static tn_status read_machine(Tuning *tuning, const char *path, json_t *root) {
    char machine[320];
    name_machine(machine, sizeof machine);
    json_t *entries = json_object_get(json_object_get(root, "machines"), machine), *entry;
    const char *work;
    if (entries && !json_is_object(entries)) return no_file(path, "a machine has no work");
    json_object_foreach(entries, work, entry) TRY(read_choice(tuning, path, work, entry));
    return TN_OK;
}

static tn_status read_file(Tuning *tuning, const Allocator *a, const char *path) {
    json_t *root;
    tn_status status = open_file(a, path, &root);
    if (status == TN_OK) status = read_machine(tuning, path, root);
    json_decref(root);
    return status;
}

/* ---- writing ------------------------------------------------------------------------------------------------- */

/* What another session has put there meanwhile stays. */
static tn_status add_choice(void *entries, Str work, const TuningChoice *choice) {
    if (json_object_get(entries, work.s)) return TN_OK;
    json_t *entry = choice->way ? json_pack("{s:s, s:f, s:f}", "way", choice->way, "us", choice->us, "usual_us",
                                            choice->usual_us)
                                : json_pack("{s:s?}", "packs", choice->packs);
    return json_object_set_new(entries, work.s, entry) == 0 ? TN_OK : fail_memory(work.n);
}

static int write_some(const char *data, size_t n, void *writer) {
    return file_writer_write(writer, data, n) == TN_OK ? 0 : -1;
}

static tn_status write_root(const Allocator *a, const char *path, const json_t *root) {
    FileWriter *writer;
    TRY(file_writer_open(a, path, &writer));
    if (json_dump_callback(root, write_some, writer, JSON_INDENT(1) | JSON_SORT_KEYS | JSON_REAL_PRECISION(6)) == 0 &&
        file_writer_write(writer, "\n", 1) == TN_OK)
        return file_writer_commit(writer);
    file_writer_abort(writer);
    return fail(TN_IO, "cannot write \"%s\"", path);
}

static tn_status add_to_file(const Tuning *tuning, const Allocator *a, const char *path, json_t *root) {
    char machine[320];
    json_t *machines = json_object_get(root, "machines");
    name_machine(machine, sizeof machine);
    json_t *entries = json_object_get(machines, machine);
    if (!entries && json_object_set_new(machines, machine, json_object()) == 0)
        entries = json_object_get(machines, machine);
    if (!entries) return fail_memory(1);
    if (!json_is_object(entries)) return no_file(path, "a machine has no work");
    TRY(tuning_each(tuning, add_choice, entries));
    return write_root(a, path, root);
}

static tn_status write_file(const Tuning *tuning, const Allocator *a, const char *path) {
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* so that sessions do not lose each other's */
    json_t *root;
    pthread_mutex_lock(&lock);
    tn_status status = open_file(a, path, &root);
    if (status == TN_OK) status = add_to_file(tuning, a, path, root);
    pthread_mutex_unlock(&lock);
    json_decref(root);
    return status;
}

/* ---- measuring -------------------------------------------------------------------------------------------------- */

/* Of each way, samples at least, and at most where that does not take long. */
enum { LEAST_SAMPLES = 4, MOST_SAMPLES = 12 };
static const uint64_t ENOUGH_NS = 1500 * 1000 * 1000ull;

/* Made up inputs, and memory for outputs. */
typedef struct Rehearsal {
    tn_session *s;
    Tensor *inputs;
    Buffer **outputs;
    int64_t number; /* of what is one number and no float */
} Rehearsal;

static void fill_random(const Tensor *t, Buffer *buffer) {
    uint64_t state = 0x9e3779b97f4a7c15u;
    int64_t n = dtype_size(t->dtype) ? (int64_t)(buffer->size / (size_t)dtype_size(t->dtype)) : 0;
    for (int64_t i = 0; i < n && dtype_is_float(t->dtype); i += 64) {
        float some[64];
        for (int k = 0; k < 64; k++) {
            state = state * 6364136223846793005u + 1442695040888963407u;
            some[k] = (float)(int32_t)(state >> 32) * 0x1p-31f;
        }
        store_f32(t->dtype, buffer->data, i, 1, some, min_i64(64, n - i));
    }
}

/* Numbers between -1 and 1, and zeros of what is no float: an index of 0 is nearly always right. One by itself may be a number
   of turns, or a condition. A state that grows has room. */
static tn_status make_input(Rehearsal *r, size_t i) {
    const tn_session *s = r->s;
    Tensor *t = &r->inputs[i], whole = s->inputs[i];
    size_t bytes;
    *t = whole;
    if (t->kind != TYPE_TENSOR || t->dtype == TN_STRING) return fail(TN_UNSUPPORTED, "nothing can be made up for it");
    for (size_t k = 0; k < s->runner.n_growths; k++) {
        const Growth *g = &s->runner.growths[k];
        if (g->input == i) whole.dims[g->axis] = max_i64(whole.dims[g->axis], g->room);
    }
    TRY(checked_bytes(t->dtype, tensor_count(&whole), &bytes));
    TRY(buffer_new(&s->ctx->allocator, bytes, &t->buffer));
    t->data = t->buffer->data;
    t->offset = 0;
    fill_random(t, t->buffer);
    if (tensor_count(t) == 1 && dtype_size(t->dtype) && !dtype_is_float(t->dtype) && !dtype_is_complex(t->dtype))
        store_i64(t->dtype, t->data, 0, 1, &r->number, 1);
    return TN_OK;
}

static tn_status output_memory(void *user, size_t i, const Tensor *like, void **data) {
    Rehearsal *r = user;
    size_t bytes;
    TRY(checked_bytes(like->dtype, tensor_count(like), &bytes));
    if (r->outputs[i] && r->outputs[i]->size < bytes) {
        buffer_unref(r->outputs[i]);
        r->outputs[i] = NULL;
    }
    if (!r->outputs[i]) TRY(buffer_new(&r->s->ctx->allocator, bytes, &r->outputs[i]));
    *data = r->outputs[i]->data;
    return TN_OK;
}

static tn_status run_once(Rehearsal *r) {
    tn_status status = frame_run(r->s->current, r->inputs, NULL);
    frame_finish(r->s->current);
    return status;
}

static tn_status start(Rehearsal *r, int64_t number) {
    r->number = number;
    for (size_t i = 0; i < r->s->ir->main->inputs.len; i++) {
        buffer_unref(r->inputs[i].buffer);
        r->inputs[i].buffer = NULL;
        TRY(make_input(r, i));
    }
    return run_once(r);
}

/* The first run tells what there is to be measured in nested graphs, and in parts that are planned on arrival. */
static tn_status rehearse(Rehearsal *r) {
    tn_session *s = r->s;
    uint64_t began = monotonic_ns();
    tn_status status = start(r, 1);
    if (status != TN_OK && status != TN_OUT_OF_MEMORY && status != TN_CANCELLED) status = start(r, 0);
    for (size_t *round = &s->runner.round; status == TN_OK;) {
        size_t ways = frame_most_ways(s->current);
        if (++*round > ways * MOST_SAMPLES) break;
        if (*round > ways * LEAST_SAMPLES && monotonic_ns() - began > ENOUGH_NS) break;
        if (s->tuning) s->tuning(s->tuning_user, *round, 1 + ways * MOST_SAMPLES);
        status = run_once(r);
    }
    if (s->tuning) s->tuning(s->tuning_user, 1, 1);
    return status;
}

/* What cannot be run on made up inputs, or not to its end, is left as it was but for what was measured by then. */
tn_status session_tune(tn_session *s) {
    Arena arena;
    if (!frame_may_measure(s->current)) return TN_OK;
    Runner *runner = &s->runner;
    size_t n_in = s->ir->main->inputs.len;
    arena_init(&arena, &s->ctx->allocator);
    Rehearsal r = {s, arena_array(&arena, Tensor, n_in + 1), arena_array(&arena, Buffer *, s->n_out + 1)};
    tn_status status = r.inputs && r.outputs ? TN_OK : TN_OUT_OF_MEMORY;
    runner->user = &r;
    runner->output = output_memory;
    runner->before = runner->after = NULL;
    runner->deadline = 0;
    runner->round = 0;
    runner->measuring = true;
    if (status == TN_OK) status = rehearse(&r);
    runner->measuring = false;
    if (status != TN_OK && status != TN_OUT_OF_MEMORY) {
        log_message(s->ctx, TN_LOG_WARNING, "tuning ended early: %s", diag_text());
        diag_clear();
        status = TN_OK;
    }
    tn_status settled = frame_settle(s->current);
    for (size_t i = 0; r.inputs && i < n_in; i++) buffer_unref(r.inputs[i].buffer);
    for (size_t i = 0; r.outputs && i < s->n_out; i++) buffer_unref(r.outputs[i]);
    arena_free(&arena);
    if (status == TN_OK && settled == TN_OK) session_keep_tuning(s);
    return status == TN_OK ? settled : status;
}

/* ---- sessions --------------------------------------------------------------------------------------------------- */

/* A file that cannot be written is said at once, and not when all has been measured. */
tn_status session_open_tuning(tn_session *s, const tn_session_options *o) {
    const Allocator *a = &s->ctx->allocator;
    if (!o->tuning_file && !o->tune) return TN_OK;
    TRY(tuning_new(a, &s->runner.tuning));
    s->tunes = o->tune;
    s->tuning = o->tuning;
    s->tuning_user = o->tuning_user;
    if (!o->tuning_file) return TN_OK;
    s->tuning_file = arena_strndup(&s->arena, o->tuning_file, strlen(o->tuning_file));
    if (!s->tuning_file) return TN_OUT_OF_MEMORY;
    TRY(read_file(s->runner.tuning, a, s->tuning_file));
    return o->tune ? write_file(s->runner.tuning, a, s->tuning_file) : TN_OK;
}

/* The choices serve this session all the same. */
void session_keep_tuning(tn_session *s) {
    size_t measured = s->runner.tuning && s->tuning_file ? tuning_measured(s->runner.tuning) : 0;
    if (measured == s->tuning_kept) return;
    s->tuning_kept = measured;
    if (write_file(s->runner.tuning, &s->ctx->allocator, s->tuning_file) != TN_OK)
        log_message(s->ctx, TN_LOG_WARNING, "what was measured is not kept: %s", diag_text());
}

tn_status tn_session_update_tuning(tn_session *s, const char *path) {
    if (!s) return fail(TN_INVALID_ARGUMENT, "session is NULL");
    path = path ? path : s->tuning_file;
    if (!s->runner.tuning || !path) return fail(TN_STATE, "the session has no tuning file");
    TRY(session_enter(s));
    return session_leave(s, write_file(s->runner.tuning, &s->ctx->allocator, path));
}
