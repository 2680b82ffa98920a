/* SPDX-License-Identifier: Apache-2.0 */
/* Instruments that need more than a model's text: the caller's call-backs, and the file that reproduces a crash. */
#include "session/passes_int.h"

#include <unistd.h>

/* ---- the caller's call-backs --------------------------------------------------------------------------------- */

/* The handle lends the model: it is not freed with it. */
static tn_status lend(struct Observer *o, const PassRun *run) {
    if (o->model) return TN_OK;
    TRY(model_handle_lent(run->ctx, run->model, &o->model));
    return TN_OK;
}

static tn_status tell(Instrument *self, const PassRun *run, const PassRecord *record,
                      tn_status (*fn)(void *user, const tn_pass_record *record, const tn_model *model)) {
    struct Observer *o = (struct Observer *)self;
    tn_pass_record told;
    if (!fn) return TN_OK;
    TRY(lend(o, run));
    public_record(record, &told);
    return fn(o->settings.user, &told, o->model);
}

static tn_status observer_before(Instrument *self, const PassRun *run) {
    return tell(self, run, &run->manager->records.data[run->record], ((struct Observer *)self)->settings.before);
}

static tn_status observer_after(Instrument *self, const PassRun *run, const PassRecord *record, tn_status status) {
    (void)status;
    return tell(self, run, record, ((struct Observer *)self)->settings.after);
}

void observer_instrument(PassPlan *plan, const tn_pass_settings *settings) {
    plan->observer.base = (Instrument){.before = observer_before, .after = observer_after};
    plan->observer.settings = *settings;
    pass_plan_add_instrument(plan, &plan->observer.base);
}

void observer_free(PassPlan *plan) { model_handle_return(plan->observer.model); }

/* ---- the reproducer ------------------------------------------------------------------------------------------ */

/* Constants of more bytes than this all together go into a file beside. */
enum { ONE_FILE_BYTES = 16 << 20 };

static uint64_t constant_bytes(const Model *model) {
    uint64_t all = 0;
    for (size_t i = 0; i < model->tensors.len; i++) {
        size_t bytes = 0;
        const Tensor *t = model->tensors.data[i];
        if (checked_bytes(t->dtype, tensor_count(t), &bytes) == TN_OK) all += bytes;
    }
    return all;
}

static tn_status in_full(void *user, const Tensor *payload, const Value *value, Text *out) {
    (void)user, (void)payload, (void)value, (void)out;
    return TN_OK;
}

static tn_status write_text(const Model *model, const char *path) {
    FileWriter *writer;
    Text text;
    text_init(&text, &model->ctx->allocator);
    tn_status status = model_print(model, &(PrintOptions){.constant = in_full}, &text);
    if (status == TN_OK) status = text.status;
    if (status == TN_OK) status = file_writer_open(&model->ctx->allocator, path, &writer);
    if (status == TN_OK) {
        status = file_writer_write(writer, text.s, text.n);
        if (status == TN_OK) status = file_writer_commit(writer);
        else file_writer_abort(writer);
    }
    text_free(&text);
    return status;
}

/* Writes on a copy, since the model itself is not to change. */
tn_status reproducer_write(const Model *model, Str pipeline, const Tensor *const *inputs, const char *path) {
    Model *copy;
    TRY(model_clone(model, &copy));
    tn_status status = model_set_metadata(copy, STR("tenon.pipeline"), pipeline);
    for (size_t i = 0; inputs && i < copy->main->inputs.len && status == TN_OK; i++) {
        Tensor *preset;
        if (!inputs[i] || inputs[i]->kind != TYPE_TENSOR) continue;
        status = model_tensor(copy, &preset);
        if (status != TN_OK) break;
        *preset = *inputs[i];
        buffer_ref(preset->buffer);
        status = graph_set_input_default(copy->main, i, preset);
    }
    if (status == TN_OK)
        status = constant_bytes(copy) > ONE_FILE_BYTES ? model_write(copy, path) : write_text(copy, path);
    model_free(copy);
    return status;
}

static tn_status reproducer_before(Instrument *self, const PassRun *run) {
    return reproducer_write(run->model, run->manager->records.data[run->record].text, NULL,
                            ((struct Reproducer *)self)->path);
}

static tn_status reproducer_after(Instrument *self, const PassRun *run, const PassRecord *record, tn_status status) {
    (void)run, (void)record;
    if (status == TN_OK) unlink(((struct Reproducer *)self)->path);
    return TN_OK;
}

tn_status reproducer_instrument(PassPlan *plan, const char *path) {
    plan->reproducer.base = (Instrument){.before = reproducer_before, .after = reproducer_after};
    plan->reproducer.path = arena_strndup(&plan->arena, path, strlen(path));
    if (!plan->reproducer.path) return TN_OUT_OF_MEMORY;
    pass_plan_add_instrument(plan, &plan->reproducer.base);
    return TN_OK;
}
