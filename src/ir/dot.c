/* SPDX-License-Identifier: Apache-2.0 */
/* Models as Graphviz text: ops are yellow boxes, values are ellipses, nested graphs are clusters. */
#include "ir/ir_int.h"
#include "ir/text_int.h"

#include <inttypes.h>

typedef struct Dot {
    const Model *model;
    Text *out;
    Text label; /* being put together, unescaped; a NUL begins a new line */
    size_t depth;
} Dot;

static void put_label(Dot *d) {
    size_t done = 0;
    Text *label = &d->label;
    for (size_t i = 0; i < label->n; i++) {
        const char *escape = NULL;
        switch (label->s[i]) {
        case '"': escape = "\\\""; break;
        case '\\': escape = "\\\\"; break;
        case '&': escape = "&amp;"; break;
        case 0: escape = "\\n"; break;
        }
        if (!escape) continue;
        text_put(d->out, label->s + done, i - done);
        text_puts(d->out, escape);
        done = i + 1;
    }
    if (label->n > done) text_put(d->out, label->s + done, label->n - done);
    if (d->out->status == TN_OK) d->out->status = label->status;
    label->n = 0;
}

static void new_line(Dot *d) { text_put(&d->label, "", 1); }

static void draw_value(Dot *d, const Value *value) {
    spell_indent(d->out, d->depth);
    text_printf(d->out, "v%" PRIu32 " [label=\"", value->id);
    text_puts(&d->label, "%");
    if (value->name.n > 0) spell_name(&d->label, value->name);
    else text_printf(&d->label, "%" PRIu32, value->id);
    if (value->type != d->model->type_any) {
        new_line(d);
        type_print(d->model, value->type, &d->label);
    }
    put_label(d);
    text_puts(d->out, "\"];\n");
}

static void draw_node(Dot *d, const Node *node) {
    spell_indent(d->out, d->depth);
    text_printf(d->out, "n%" PRIu32 " [shape=box, style=filled, fillcolor=yellow, label=\"", node->id);
    op_print_name(node->op, &d->label);
    if (node->loc.n > 0) {
        new_line(d);
        spell_name(&d->label, node->loc);
    }
    put_label(d);
    text_puts(d->out, "\"];\n");
    for (uint32_t i = 0; i < node->n_results; i++) draw_value(d, node->results[i]);
}

static void enter_graph(Dot *d, const Graph *graph) {
    spell_indent(d->out, d->depth);
    text_puts(d->out, d->depth == 0 ? "digraph {\n" : "");
    if (d->depth > 0) text_printf(d->out, "subgraph cluster_%" PRIu32 " {\n", graph->ret->id);
    d->depth++;
    spell_indent(d->out, d->depth);
    text_puts(d->out, "label=\"");
    spell_name(&d->label, graph->name);
    put_label(d);
    text_puts(d->out, "\";\n");
    for (size_t i = 0; i < graph->inputs.len; i++) draw_value(d, graph->inputs.data[i]);
}

static void leave_graph(Dot *d) {
    d->depth--;
    if (d->depth == 0) return; /* edges are still to come */
    spell_indent(d->out, d->depth);
    text_puts(d->out, "}\n");
}

/* Edges are drawn last: one that stood in a cluster would pull its ends into it. */
static void draw_edges(Dot *d, const Node *node) {
    for (uint32_t i = 0; i < node->n_operands; i++) {
        const Value *value = node->operands[i].value;
        if (value) text_printf(d->out, "  v%" PRIu32 " -> n%" PRIu32 ";\n", value->id, node->id);
    }
    for (uint32_t i = 0; i < node->n_results; i++)
        text_printf(d->out, "  n%" PRIu32 " -> v%" PRIu32 ";\n", node->id, node->results[i]->id);
}

/* The root's outputs have a double line; those of a nested graph go to the op that owns it. */
static void draw_outputs(Dot *d, const Graph *graph) {
    for (size_t i = 0; i < graph_n_outputs(graph); i++) {
        const Value *value = graph_output(graph, i);
        if (!value) continue;
        if (!graph->owner) text_printf(d->out, "  v%" PRIu32 " [peripheries=2];\n", value->id);
        else text_printf(d->out, "  v%" PRIu32 " -> n%" PRIu32 " [style=dashed];\n", value->id, graph->owner->id);
    }
}

static void draw_event(Dot *d, const Walk *walk, WalkEvent event) {
    if (event == WALK_ENTER) enter_graph(d, walk->graph);
    if (event == WALK_BEFORE) draw_node(d, walk->node);
    if (event == WALK_LEAVE) leave_graph(d);
}

static void draw_event_edges(Dot *d, const Walk *walk, WalkEvent event) {
    if (event == WALK_BEFORE) draw_edges(d, walk->node);
    if (event == WALK_LEAVE) draw_outputs(d, walk->graph);
}

static tn_status draw(Dot *d, void (*fn)(Dot *, const Walk *, WalkEvent)) {
    Walk walk;
    WalkEvent event;
    walk_init(&walk, &d->model->ctx->allocator, d->model->main);
    tn_status status = walk_next(&walk, &event);
    while (status == TN_OK && event != WALK_END && d->out->status == TN_OK) {
        fn(d, &walk, event);
        status = walk_next(&walk, &event);
    }
    walk_free(&walk);
    return status == TN_OK ? d->out->status : status;
}

tn_status model_dot(const Model *model, Text *out) {
    Dot d = {.model = model, .out = out};
    text_init(&d.label, &model->ctx->allocator);
    tn_status status = draw(&d, draw_event);
    if (status == TN_OK) status = draw(&d, draw_event_edges);
    text_puts(out, "}\n");
    text_free(&d.label);
    return status == TN_OK ? out->status : status;
}
