/* SPDX-License-Identifier: Apache-2.0 */
/* Writes a model as ONNX. More constants than protobuf can hold go into a data file beside it. */
#include "formats/onnx/write_int.h"

/* protobuf ends at 2 GiB; well before that, weights are better off where they can be mapped by themselves. */
#define INLINE_MAX_BYTES ((uint64_t)1 << 30)

static tn_status write_model(OnnxWriter *w, const char *path) {
    FileWriter *file;
    TRY(file_writer_open(w->alloc, path, &file));
    pb_ostream_t out = proto_file_stream(file);
    diag_clear();
    if (onnx_put_model(&out, w)) return file_writer_commit(file);
    tn_status status = diag_status();
    file_writer_abort(file);
    return status ? status : fail(TN_UNSUPPORTED, "the model cannot be written as ONNX");
}

/* "model.onnx" to "model.onnx.data" */
static tn_status write_data(OnnxWriter *w, const char *path) {
    Text name;
    text_init(&name, w->alloc);
    text_printf(&name, "%s.data", path);
    tn_status status = name.status;
    if (status == TN_OK) status = onnx_write_data(w, name.s);
    if (status == TN_OK) {
        const char *slash = strrchr(name.s, '/');
        const char *base = slash ? slash + 1 : name.s;
        w->data_file = (Str){arena_strndup(&w->arena, base, strlen(base)), strlen(base)};
        if (!w->data_file.s) status = TN_OUT_OF_MEMORY;
    }
    text_free(&name);
    return status;
}

static tn_status write_all(OnnxWriter *w, const char *path) {
    TRY(onnx_plan(w));
    if (w->constant_bytes > INLINE_MAX_BYTES) TRY(write_data(w, path));
    return write_model(w, path);
}

static tn_status write_as_is(const Model *model, const char *path) {
    OnnxWriter w = {.model = model, .alloc = &model->ctx->allocator};
    arena_init(&w.arena, w.alloc);
    map_init(&w.taken, w.alloc);
    map_init(&w.taken_locs, w.alloc);
    map_init(&w.plans, w.alloc);
    text_init(&w.missing, w.alloc);
    tn_status status = write_all(&w, path);
    text_free(&w.missing);
    map_free(&w.plans);
    map_free(&w.taken);
    map_free(&w.taken_locs);
    arena_free(&w.arena);
    return status;
}

/* ---- what ONNX does not have ---------------------------------------------------------------------------------- */

static tn_status each_fused(const Model *model, Arena *arena, bool take_apart, size_t *n_found) {
    Graph **graphs;
    size_t n;
    TRY(model_graphs(model, arena, &graphs, &n));
    for (size_t i = 0; i < n; i++)
        for (Node *node = graphs[i]->first, *next; node; node = next) {
            next = node->next;
            if (!node_is_fused(node)) continue;
            ++*n_found;
            if (take_apart) TRY(fused_inline(node));
        }
    return TN_OK;
}

/* tn.Fused is ours: the nodes of its body are written. */
static tn_status write_plain(const Model *model, Arena *arena, const char *path) {
    size_t n = 0;
    Model *copy;
    TRY(each_fused(model, arena, false, &n));
    if (n == 0) return write_as_is(model, path);
    TRY(model_clone(model, &copy));
    tn_status status = each_fused(copy, arena, true, &n);
    if (status == TN_OK) status = write_as_is(copy, path);
    model_free(copy);
    return status;
}

tn_status onnx_write(const Model *model, const char *path) {
    Arena arena;
    if (!model->main) return fail(TN_INVALID_ARGUMENT, "the model has no graph");
    arena_init(&arena, &model->ctx->allocator);
    tn_status status = write_plain(model, &arena, path);
    arena_free(&arena);
    return status;
}
