/* SPDX-License-Identifier: Apache-2.0 */
/* Fingerprints: whether something was done to a model, whoever did it and however. */
#include "ir/ir_int.h"

static void mix(uint64_t *h, uint64_t x) {
    *h = (*h ^ x) * 0x9E3779B97F4A7C15u;
    *h ^= *h >> 29;
}

static void mix_pointer(uint64_t *h, const void *p) { mix(h, (uint64_t)(uintptr_t)p); }
static void mix_text(uint64_t *h, Str s) { mix(h, hash_bytes(s.n ? s.s : "", s.n)); }

static void mix_attr(Fingerprint *f, const Attr *attr) {
    mix_pointer(&f->all, attr->name.s);
    mix(&f->all, (uint64_t)attr->kind << 32 ^ attr->n);
    switch (attr->kind) {
    case ATTR_FLOAT: mix(&f->all, hash_bytes(&attr->f, sizeof attr->f)); break;
    case ATTR_STRING: mix_text(&f->all, attr->s); break;
    case ATTR_INTS: mix(&f->all, hash_bytes(attr->ints, attr->n * sizeof *attr->ints)); break;
    case ATTR_FLOATS: mix(&f->all, hash_bytes(attr->floats, attr->n * sizeof *attr->floats)); break;
    case ATTR_STRINGS:
        for (size_t i = 0; i < attr->n; i++) mix_text(&f->all, attr->strings[i]);
        break;
    case ATTR_INT_LISTS:
        for (size_t i = 0; i < attr->n; i++)
            mix(&f->all, hash_bytes(attr->lists[i].data, attr->lists[i].n * sizeof(int64_t)));
        break;
    case ATTR_TENSOR: mix_pointer(&f->all, attr->tensor ? attr->tensor->data : NULL); break;
    case ATTR_TENSORS:
        for (size_t i = 0; i < attr->n; i++) mix_pointer(&f->all, attr->tensors[i]->data);
        break;
    case ATTR_TYPES:
        for (size_t i = 0; i < attr->n; i++) mix_pointer(&f->all, attr->types[i]);
        break;
    case ATTR_INT: mix(&f->all, (uint64_t)attr->i); break;
    case ATTR_TYPE: mix_pointer(&f->all, attr->type); break;
    case ATTR_GRAPH: mix_pointer(&f->structure, attr->graph); break;
    case ATTR_GRAPHS:
        for (size_t i = 0; i < attr->n; i++) mix_pointer(&f->structure, attr->graphs[i]);
        break;
    }
}

static void mix_value(Fingerprint *f, const Value *value) {
    mix_pointer(&f->structure, value);
    mix_pointer(&f->all, value->type);
    mix_pointer(&f->all, value->name.s);
}

static void mix_node(Fingerprint *f, const Node *node) {
    mix_pointer(&f->structure, node);
    mix_pointer(&f->structure, node->op);
    mix_pointer(&f->all, node->loc.s);
    for (uint32_t i = 0; i < node->n_operands; i++) mix_pointer(&f->structure, node->operands[i].value);
    for (uint32_t i = 0; i < node->n_results; i++) mix_value(f, node->results[i]);
    for (uint32_t i = 0; i < node->n_attrs; i++) mix_attr(f, &node->attrs[i]);
}

static void mix_graph(Fingerprint *f, const Graph *graph) {
    mix_pointer(&f->structure, graph);
    for (size_t i = 0; i < graph->inputs.len; i++) mix_value(f, graph->inputs.data[i]);
    for (size_t i = 0; i < graph->output_names.len; i++) mix_pointer(&f->all, graph->output_names.data[i].s);
}

tn_status model_fingerprint(const Model *model, Fingerprint *out) {
    Walk walk;
    WalkEvent event = WALK_ENTER;
    Fingerprint f = {0};
    walk_init(&walk, model_allocator(model), model->main);
    tn_status status = walk_next(&walk, &event);
    for (; status == TN_OK && event != WALK_END; status = walk_next(&walk, &event)) {
        if (event == WALK_ENTER) mix_graph(&f, walk.graph);
        if (event == WALK_BEFORE) mix_node(&f, walk.node);
        if (event == WALK_LEAVE) mix_node(&f, walk.graph->ret);
    }
    walk_free(&walk);
    for (size_t i = 0; i < model->metadata.len; i++) mix_pointer(&f.all, model->metadata.data[i].s);
    mix(&f.all, f.structure);
    if (status == TN_OK) *out = f;
    return status;
}
