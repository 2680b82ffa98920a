/* SPDX-License-Identifier: Apache-2.0 */
/* Reads an ONNX model: the file's outermost message, and what lasts for the whole reading. */
#include "formats/onnx/onnx_int.h"

const char *onnx_text(OnnxReader *r, Str s) { return arena_strndup(&r->arena, s.s ? s.s : "", s.n); }

tn_status onnx_check_name(const OnnxReader *r, Str name, const char *what) {
    if (name.n && (memchr(name.s, 0, name.n) || !str_is_utf8(name))) {
        tn_status status = fail(TN_MALFORMED, "%s is not text", what);
        diag_set_offset((uint64_t)((const uint8_t *)name.s - r->proto.base));
        return status;
    }
    return TN_OK;
}

Str onnx_domain(Str domain) { return domain.n == 0 || str_equal(domain, STR("ai.onnx")) ? STR("") : domain; }

int64_t onnx_opset(const Opsets *opsets, Str domain) {
    for (size_t i = 0; i < opsets->n; i++) {
        if (str_equal(opsets->data[i].domain, domain)) return opsets->data[i].version;
    }
    return 0;
}

tn_status onnx_read_opsets(OnnxReader *r, const ProtoList *list, Opsets *out) {
    out->data = arena_array(&r->arena, Opset, list->len);
    if (!out->data) return TN_OUT_OF_MEMORY;
    out->n = 0;
    for (size_t i = 0; i < list->len; i++) {
        onnx_OperatorSetIdProto proto;
        TRY(proto_read(&r->proto, list->data[i], onnx_OperatorSetIdProto, &proto));
        Str domain = onnx_domain(proto.domain);
        int64_t before = onnx_opset(out, domain);
        if (proto.version < 1 || proto.version > INT32_MAX)
            return fail(TN_INVALID_MODEL, "opset version %lld is impossible", (long long)proto.version);
        if (before && before != proto.version)
            return fail(TN_INVALID_MODEL, "two opset versions for one domain: %lld and %lld", (long long)before,
                        (long long)proto.version);
        if (domain.n == 0 && proto.version > ONNX_OPSET_NEWEST)
            log_message(r->ctx, TN_LOG_WARNING, "%s: opset %lld is newer than %d; it is read as %d",
                        r->path ? r->path : "model", (long long)proto.version, ONNX_OPSET_NEWEST, ONNX_OPSET_NEWEST);
        if (!before) out->data[out->n++] = (Opset){domain, proto.version};
        if ((domain.n == 0 && proto.version < 13) || str_equal(domain, STR(ONNX_TRAINING))) r->infer = true;
    }
    return TN_OK;
}

static tn_status keep_text(OnnxReader *r, const char *key, Str value) {
    if (value.n == 0) return TN_OK;
    TRY(onnx_check_name(r, value, key));
    return model_set_metadata(r->model, str_of(key), value);
}

static tn_status keep_number(OnnxReader *r, const char *key, int64_t value) {
    Text text;
    text_init(&text, r->alloc);
    text_printf(&text, "%lld", (long long)value);
    tn_status status = text.status;
    if (status == TN_OK) status = model_set_metadata(r->model, str_of(key), (Str){text.s, text.n});
    text_free(&text);
    return status;
}

static tn_status read_metadata(OnnxReader *r, const onnx_ModelProto *proto) {
    TRY(keep_number(r, "ir_version", proto->ir_version));
    TRY(keep_text(r, "producer_name", proto->producer_name));
    TRY(keep_text(r, "producer_version", proto->producer_version));
    TRY(keep_text(r, "domain", proto->domain));
    if (proto->has_model_version) TRY(keep_number(r, "model_version", proto->model_version));
    TRY(keep_text(r, "doc_string", proto->doc_string));
    for (size_t i = 0; i < r->opsets.n; i++) {
        Str domain = r->opsets.data[i].domain;
        TRY(onnx_check_name(r, domain, "an opset's domain"));
        Text key;
        text_init(&key, r->alloc);
        text_puts(&key, "opset");
        if (domain.n) text_printf(&key, " %.*s", (int)domain.n, domain.s);
        tn_status status = key.status;
        if (status == TN_OK) status = keep_number(r, key.s, r->opsets.data[i].version);
        text_free(&key);
        TRY(status);
    }
    for (size_t i = 0; i < proto->metadata_props.len; i++) {
        onnx_StringStringEntryProto entry;
        TRY(proto_read(&r->proto, proto->metadata_props.data[i], onnx_StringStringEntryProto, &entry));
        TRY(onnx_check_name(r, entry.key, "a property's name"));
        TRY(onnx_check_name(r, entry.value, "a property"));
        if (entry.key.n) TRY(model_set_metadata(r->model, entry.key, entry.value));
    }
    return TN_OK;
}

static tn_status read_model(OnnxReader *r) {
    onnx_ModelProto proto;
    Str whole = {(const char *)r->bytes->data, r->bytes->size};
    TRY(proto_read(&r->proto, whole, onnx_ModelProto, &proto));
    if (!proto.graph.s) return fail(TN_MALFORMED, "there is no graph in it: this is not an ONNX model, or it is empty");
    if (r->path && (r->model->file = model_str(r->model, str_of(r->path))).s == NULL) return TN_OUT_OF_MEMORY;
    r->ir_version = proto.ir_version;
    r->main = proto.graph;
    TRY(onnx_read_opsets(r, &proto.opset_import, &r->opsets));
    /* the first models had no opset_import: they mean version 1 */
    if (r->opsets.n == 0 && r->ir_version < 3) {
        static Opset first = {{"", 0}, 1};
        r->opsets = (Opsets){&first, 1};
        r->infer = true;
    }
    TRY(read_metadata(r, &proto));
    TRY(onnx_read_functions(r, &proto.functions));
    Graph *graph;
    tn_status status = onnx_read_graph(r, proto.graph, NULL, NULL, &graph);
    if (status != TN_OK) return r->unsupported ? onnx_report_unsupported(r) : status;
    r->model->main = graph;
    TRY(onnx_infer(r));
    return model_verify(r->model); /* nodes were checked one by one, when not all types were known */
}

static void reader_start(OnnxReader *r, Context *ctx, Buffer *bytes, const char *path, const char *folder) {
    *r = (OnnxReader){.ctx = ctx, .alloc = &ctx->allocator, .bytes = bytes, .path = path, .folder = folder};
    arena_init(&r->arena, r->alloc);
    map_init(&r->functions, r->alloc);
    r->proto = (ProtoReader){bytes->data, bytes->size, &r->arena};
}

static void reader_end(OnnxReader *r) {
    for (size_t i = 0; i < r->files.len; i++) buffer_unref(r->files.data[i].bytes);
    vec_free(r->alloc, &r->files);
    vec_free(r->alloc, &r->hints);
    map_free(&r->functions);
    arena_free(&r->arena);
}

static tn_status read_once(Context *ctx, Buffer *bytes, const char *path, const char *folder, bool sort, bool *unsorted,
                           Model **out) {
    OnnxReader r;
    reader_start(&r, ctx, bytes, path, folder);
    r.sort = sort;
    tn_status status = model_new(ctx, &r.model);
    if (status == TN_OK) status = read_model(&r);
    *unsorted = status == TN_INVALID_MODEL && r.undefined && !sort;
    reader_end(&r);
    if (status == TN_OK) {
        *out = r.model;
        return TN_OK;
    }
    model_free(r.model);
    if (path) diag_set_file(path);
    return status;
}

/* Files are nearly always sorted as ONNX wants, so nodes are read as they come; only when a name turns out undefined
   the file is read once more with its nodes sorted first. */
tn_status onnx_read(Context *ctx, Buffer *bytes, const char *path, const char *folder, Model **out) {
    bool unsorted;
    *out = NULL;
    tn_status status = read_once(ctx, bytes, path, folder, false, &unsorted, out);
    if (unsorted) status = read_once(ctx, bytes, path, folder, true, &unsorted, out);
    return status;
}
