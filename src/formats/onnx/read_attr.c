/* SPDX-License-Identifier: Apache-2.0 */
/* AttributeProto to an attribute of a draft. Inside a function an attribute may refer to one of the call's. */
#include "formats/onnx/onnx_int.h"

Attr *onnx_attr(const Draft *d, const char *name) {
    for (size_t i = 0; i < d->n_attrs; i++) {
        if (str_equal(d->attrs[i].name, str_of(name))) return &d->attrs[i];
    }
    return NULL;
}

tn_status onnx_set_attr(Draft *d, Attr attr) {
    for (size_t i = 0; i < d->n_attrs; i++) {
        if (str_equal(d->attrs[i].name, attr.name)) {
            d->attrs[i] = attr;
            return TN_OK;
        }
    }
    if (d->n_attrs == d->cap_attrs) {
        Attr *more = arena_array(&d->reader->arena, Attr, d->cap_attrs * 2 + 4);
        if (!more) return TN_OUT_OF_MEMORY;
        if (d->n_attrs) memcpy(more, d->attrs, d->n_attrs * sizeof *more);
        d->attrs = more;
        d->cap_attrs = d->cap_attrs * 2 + 4;
    }
    d->attrs[d->n_attrs++] = attr;
    return TN_OK;
}

void onnx_remove_attr(Draft *d, const char *name) {
    Attr *attr = onnx_attr(d, name);
    if (attr) *attr = d->attrs[--d->n_attrs];
}

/* Files of IR version 1 name no type: then the field that is there decides. */
static int32_t type_of(const onnx_AttributeProto *p) {
    if (p->type) return p->type;
    if (p->has_f) return onnx_AttributeProto_AttributeType_FLOAT;
    if (p->has_i) return onnx_AttributeProto_AttributeType_INT;
    if (p->s.s) return onnx_AttributeProto_AttributeType_STRING;
    if (p->t.s) return onnx_AttributeProto_AttributeType_TENSOR;
    if (p->g.s) return onnx_AttributeProto_AttributeType_GRAPH;
    if (p->floats.count) return onnx_AttributeProto_AttributeType_FLOATS;
    if (p->strings.len) return onnx_AttributeProto_AttributeType_STRINGS;
    if (p->tensors.len) return onnx_AttributeProto_AttributeType_TENSORS;
    if (p->graphs.len) return onnx_AttributeProto_AttributeType_GRAPHS;
    return onnx_AttributeProto_AttributeType_INTS;
}

static tn_status read_numbers(OnnxReader *r, const onnx_AttributeProto *p, Attr *out) {
    if (out->kind == ATTR_INTS) {
        int64_t *ints = arena_array(&r->arena, int64_t, p->ints.count);
        if (!ints) return TN_OUT_OF_MEMORY;
        proto_run_ints(&p->ints, ints);
        out->ints = ints;
        out->n = p->ints.count;
        return TN_OK;
    }
    float *floats = arena_array(&r->arena, float, p->floats.count);
    if (!floats) return TN_OUT_OF_MEMORY;
    proto_run_floats(&p->floats, floats);
    out->floats = floats;
    out->n = p->floats.count;
    return TN_OK;
}

static tn_status read_tensors(OnnxReader *r, const ProtoList *list, bool sparse, Attr *out) {
    Tensor **tensors = arena_array(&r->arena, Tensor *, list->len);
    if (!tensors) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < list->len; i++) {
        if (sparse) TRY(onnx_read_sparse_tensor(r, list->data[i], &tensors[i], NULL));
        else TRY(onnx_read_tensor(r, list->data[i], &tensors[i], NULL));
    }
    out->tensors = tensors;
    out->n = list->len;
    return TN_OK;
}

static tn_status read_types(OnnxReader *r, const ProtoList *list, Attr *out) {
    const Type **types = arena_array(&r->arena, const Type *, list->len);
    if (!types) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < list->len; i++) TRY(onnx_read_type(r, list->data[i], &types[i]));
    out->types = types;
    out->n = list->len;
    return TN_OK;
}

static tn_status read_one_tensor(OnnxReader *r, Str bytes, bool sparse, Attr *out) {
    if (!bytes.s) return fail(TN_INVALID_MODEL, "attribute \"%.*s\" lacks its tensor", (int)out->name.n, out->name.s);
    return sparse ? onnx_read_sparse_tensor(r, bytes, &out->tensor, NULL)
                  : onnx_read_tensor(r, bytes, &out->tensor, NULL);
}

static tn_status read_value(OnnxReader *r, const onnx_AttributeProto *p, int32_t type, Attr *out) {
    switch (type) {
    case onnx_AttributeProto_AttributeType_FLOAT: out->kind = ATTR_FLOAT, out->f = p->f; return TN_OK;
    case onnx_AttributeProto_AttributeType_INT: out->kind = ATTR_INT, out->i = p->i; return TN_OK;
    case onnx_AttributeProto_AttributeType_STRING:
        out->kind = ATTR_STRING;
        out->s = p->s.s ? p->s : STR("");
        return TN_OK;
    case onnx_AttributeProto_AttributeType_FLOATS: out->kind = ATTR_FLOATS; return read_numbers(r, p, out);
    case onnx_AttributeProto_AttributeType_INTS: out->kind = ATTR_INTS; return read_numbers(r, p, out);
    case onnx_AttributeProto_AttributeType_STRINGS:
        out->kind = ATTR_STRINGS;
        out->strings = p->strings.data;
        out->n = p->strings.len;
        return TN_OK;
    case onnx_AttributeProto_AttributeType_TENSOR: out->kind = ATTR_TENSOR; return read_one_tensor(r, p->t, false, out);
    case onnx_AttributeProto_AttributeType_SPARSE_TENSOR:
        out->kind = ATTR_TENSOR;
        return read_one_tensor(r, p->sparse_tensor, true, out);
    case onnx_AttributeProto_AttributeType_TENSORS:
        out->kind = ATTR_TENSORS;
        return read_tensors(r, &p->tensors, false, out);
    case onnx_AttributeProto_AttributeType_SPARSE_TENSORS:
        out->kind = ATTR_TENSORS;
        return read_tensors(r, &p->sparse_tensors, true, out);
    case onnx_AttributeProto_AttributeType_TYPE_PROTO:
        out->kind = ATTR_TYPE;
        return onnx_read_type(r, p->tp, &out->type);
    case onnx_AttributeProto_AttributeType_TYPE_PROTOS:
        out->kind = ATTR_TYPES;
        return read_types(r, &p->type_protos, out);
    default:
        return fail(TN_INVALID_MODEL, "attribute \"%.*s\" has the unknown type %d", (int)out->name.n, out->name.s,
                    type);
    }
}

/* Graphs wait until the node is there that will own them. */
static tn_status defer_graphs(Draft *d, Str name, const onnx_AttributeProto *p, bool list) {
    GraphAttr *attr = &d->graphs[d->n_graphs];
    *attr = (GraphAttr){.name = name, .graphs = p->graphs, .list = list, .scope = d->scope};
    if (!list) {
        Str *one = arena_array(&d->reader->arena, Str, 1);
        if (!one) return TN_OUT_OF_MEMORY;
        if (!p->g.s) return fail(TN_INVALID_MODEL, "attribute \"%.*s\" lacks its graph", (int)name.n, name.s);
        *one = p->g;
        attr->graphs = (ProtoList){one, 1, 1};
    }
    d->n_graphs++;
    return TN_OK;
}

/* What the call of the function around gives for `ref`; nothing when it leaves an optional attribute out. */
static tn_status take_reference(Draft *d, Str name, Str ref) {
    const Call *call = d->scope->call;
    if (!call)
        return fail(TN_INVALID_MODEL, "attribute \"%.*s\" refers to \"%.*s\" outside of a function", (int)name.n,
                    name.s, (int)ref.n, ref.s);
    for (size_t i = 0; i < call->n_attrs; i++) {
        if (!str_equal(call->attrs[i].name, ref)) continue;
        Attr copy = call->attrs[i];
        copy.name = name;
        return onnx_set_attr(d, copy);
    }
    for (size_t i = 0; i < call->n_graphs; i++) {
        if (!str_equal(call->graphs[i].name, ref)) continue;
        d->graphs[d->n_graphs] = call->graphs[i];
        d->graphs[d->n_graphs++].name = name;
        return TN_OK;
    }
    return TN_OK;
}

static bool has_attr(const Draft *d, Str name) {
    for (size_t i = 0; i < d->n_attrs; i++) {
        if (str_equal(d->attrs[i].name, name)) return true;
    }
    for (size_t i = 0; i < d->n_graphs; i++) {
        if (str_equal(d->graphs[i].name, name)) return true;
    }
    return false;
}

tn_status onnx_read_attr(Draft *d, Str bytes) {
    onnx_AttributeProto p;
    Attr attr = {0};
    TRY(proto_read(&d->reader->proto, bytes, onnx_AttributeProto, &p));
    if (p.name.n == 0) return fail(TN_INVALID_MODEL, "an attribute has no name");
    TRY(onnx_check_name(d->reader, p.name, "an attribute's name"));
    if (has_attr(d, p.name))
        return fail(TN_INVALID_MODEL, "attribute \"%.*s\" is there more than once", (int)p.name.n, p.name.s);
    if (p.ref_attr_name.n) return take_reference(d, p.name, p.ref_attr_name);
    int32_t type = type_of(&p);
    if (type == onnx_AttributeProto_AttributeType_GRAPH) return defer_graphs(d, p.name, &p, false);
    if (type == onnx_AttributeProto_AttributeType_GRAPHS) return defer_graphs(d, p.name, &p, true);
    attr.name = p.name;
    TRY(read_value(d->reader, &p, type, &attr));
    return onnx_set_attr(d, attr);
}
