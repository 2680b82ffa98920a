/* SPDX-License-Identifier: Apache-2.0 */
/* Models, graphs, nodes and fragments as text, without recursion. docs/ir.md is the language's manual. */
#include "ir/ir_int.h"
#include "ir/text_int.h"

#include <inttypes.h>
#include <stdlib.h>

/* A graph being printed. */
typedef struct PrintFrame {
    const Graph *graph;
    const Node *node; /* the next one; while `in_node`, the one whose attributes are being printed */
    bool in_node;
    uint32_t attr;
    size_t item; /* of the nested graphs of an attribute */
} PrintFrame;

typedef struct Printer {
    const Model *model;
    const Allocator *allocator;
    PrintOptions options;
    Text *out;
    uint32_t *numbers; /* by value id: number + 1 of those without a name. NULL: the id is the number */
    uint32_t next_number;
    size_t indent;
    bool one_line; /* nested graphs are left out */
    VEC(PrintFrame) frames;
} Printer;

enum { INLINE_ELEMENTS = 16 };

/* ---- values -------------------------------------------------------------------------------------------------- */

static void number_value(Printer *p, const Value *value) {
    if (p->numbers && value->name.n == 0 && p->numbers[value->id] == 0) p->numbers[value->id] = ++p->next_number;
}

static void print_value(Printer *p, const Value *value) {
    if (!value) {
        text_puts(p->out, "_");
        return;
    }
    text_puts(p->out, "%");
    number_value(p, value);
    if (value->name.n > 0) spell_name(p->out, value->name);
    else text_printf(p->out, "%" PRIu32, p->numbers ? p->numbers[value->id] - 1 : value->id);
}

static void print_typed(Printer *p, const Value *value, bool with_type) {
    print_value(p, value);
    if (!with_type || value->type == p->model->type_any) return;
    text_puts(p->out, ": ");
    type_print(p->model, value->type, p->out);
}

/* ---- constants and attributes -------------------------------------------------------------------------------- */

static void print_constant(Printer *p, const Tensor *t, const Value *value) {
    size_t before = p->out->n;
    int64_t count = tensor_count(t);
    if ((p->options.constant || count <= (int64_t)p->options.inline_elements) && p->out->status == TN_OK)
        p->out->status = buffer_keep(t->buffer);
    /* Who asks for constants wants text that can be read back. */
    if (!t->data && count > 0 && p->options.constant && p->out->status == TN_OK)
        p->out->status = fail(TN_STATE, "a constant's data are not there to be printed");
    if (count > (int64_t)p->options.inline_elements) {
        if (!p->options.constant) {
            print_shape_of(t, p->out);
            text_puts(p->out, " ...");
            return;
        }
        tn_status status = p->options.constant(p->options.user, t, value, p->out);
        if (p->out->status == TN_OK) p->out->status = status;
    }
    if (p->out->n == before) print_tensor(t, p->out);
}

static void print_attr_type(Printer *p, const Type *type) {
    text_puts(p->out, "type ");
    type_print(p->model, type, p->out);
}

static void print_ints(Printer *p, const int64_t *values, size_t n) {
    text_puts(p->out, "[");
    for (size_t i = 0; i < n; i++) text_printf(p->out, i ? ",%" PRId64 : "%" PRId64, values[i]);
    text_puts(p->out, "]");
}

static void print_item(Printer *p, const Attr *attr, size_t i) {
    switch (attr->kind) {
    case ATTR_FLOATS: spell_float(p->out, attr->floats[i]); break;
    case ATTR_STRINGS: spell_quoted(p->out, attr->strings[i]); break;
    case ATTR_TENSORS: print_constant(p, attr->tensors[i], NULL); break;
    case ATTR_TYPES: print_attr_type(p, attr->types[i]); break;
    case ATTR_INT_LISTS: print_ints(p, attr->lists[i].data, attr->lists[i].n); break;
    default: break;
    }
}

/* What stands before an empty list, which does not show what it is a list of. */
static const char *list_word(AttrKind kind) {
    switch (kind) {
    case ATTR_INTS: return "ints ";
    case ATTR_FLOATS: return "floats ";
    case ATTR_STRINGS: return "strings ";
    case ATTR_TENSORS: return "tensors ";
    case ATTR_GRAPHS: return "graphs ";
    case ATTR_TYPES: return "types ";
    case ATTR_INT_LISTS: return "lists ";
    default: return "";
    }
}

static void print_list(Printer *p, const Attr *attr) {
    if (attr->n == 0) text_puts(p->out, list_word(attr->kind));
    if (attr->kind == ATTR_INTS) {
        print_ints(p, attr->ints, attr->n);
        return;
    }
    text_puts(p->out, "[");
    for (size_t i = 0; i < attr->n && p->out->status == TN_OK; i++) {
        if (i) text_puts(p->out, attr->kind == ATTR_FLOATS || attr->kind == ATTR_INT_LISTS ? "," : ", ");
        print_item(p, attr, i);
    }
    text_puts(p->out, "]");
}

static void print_attr_value(Printer *p, const Node *node, const Attr *attr) {
    switch (attr->kind) {
    case ATTR_INT: text_printf(p->out, "%" PRId64, attr->i); break;
    case ATTR_FLOAT: spell_float(p->out, attr->f); break;
    case ATTR_STRING: spell_quoted(p->out, attr->s); break;
    case ATTR_TENSOR: print_constant(p, attr->tensor, op_is_constant(node->op) ? node_result(node, 0) : NULL); break;
    case ATTR_TYPE: print_attr_type(p, attr->type); break;
    default: print_list(p, attr); break;
    }
}

/* ---- graphs -------------------------------------------------------------------------------------------------- */

static void print_inputs(Printer *p, const Graph *graph) {
    text_puts(p->out, "(");
    for (size_t i = 0; i < graph->inputs.len; i++) {
        if (i) text_puts(p->out, ", ");
        print_typed(p, graph->inputs.data[i], true);
        const Tensor *payload = graph_input_default(graph, i);
        if (!payload) continue;
        text_puts(p->out, " = ");
        print_constant(p, payload, graph->inputs.data[i]);
    }
    text_puts(p->out, ")");
}

static void number_results(Printer *p, const Node *node) {
    for (uint32_t i = 0; i < node->n_results; i++) number_value(p, node->results[i]);
}

/* Outputs are named before the statements that define them: a number must be what the definition will get. */
static void print_outputs(Printer *p, const Graph *graph) {
    text_puts(p->out, " -> (");
    for (size_t i = 0; i < graph_n_outputs(graph); i++) {
        const Value *value = graph_output(graph, i);
        Str name = i < graph->output_names.len ? graph->output_names.data[i] : STR("");
        if (i) text_puts(p->out, ", ");
        if (name.n > 0 && !(value && str_equal(name, value->name))) {
            spell_quoted(p->out, name);
            text_puts(p->out, " = ");
        }
        print_value(p, value);
    }
    text_puts(p->out, ")");
}

static void print_graph_name(Printer *p, const Graph *graph) {
    text_puts(p->out, "graph ");
    if (graph->name.n == 0) return;
    text_puts(p->out, "@");
    spell_name(p->out, graph->name);
}

static tn_status open_frame(Printer *p, const Graph *graph) {
    PrintFrame frame = {.graph = graph, .node = graph->first};
    TRY(vec_push(p->allocator, &p->frames, frame));
    print_graph_name(p, graph);
    print_inputs(p, graph);
    print_outputs(p, graph);
    text_puts(p->out, " {\n");
    p->indent++;
    return TN_OK;
}

static void close_frame(Printer *p) {
    p->frames.len--;
    p->indent--;
    spell_indent(p->out, p->indent);
    text_puts(p->out, "}");
}

/* ---- nodes --------------------------------------------------------------------------------------------------- */

static void print_results(Printer *p, const Node *node) {
    for (uint32_t i = 0; i < node->n_results; i++) {
        if (i) text_puts(p->out, ", ");
        print_typed(p, node->results[i], !p->options.no_types);
    }
    if (node->n_results > 0) text_puts(p->out, " = ");
}

static void print_call(Printer *p, const Node *node) {
    size_t before = p->out->n;
    op_print_name(node->op, p->out);
    Str name = {p->out->s + before, p->out->n - before};
    if (p->out->status == TN_OK && !is_plain_name(name)) {
        Text quoted;
        text_init(&quoted, p->allocator);
        spell_quoted(&quoted, name);
        p->out->n = before;
        if (quoted.status == TN_OK) text_put(p->out, quoted.s, quoted.n);
        else p->out->status = quoted.status;
        text_free(&quoted);
    }
    if (op_is_constant(node->op)) return;
    text_puts(p->out, "(");
    for (uint32_t i = 0; i < node->n_operands; i++) {
        if (i) text_puts(p->out, ", ");
        print_value(p, node->operands[i].value);
    }
    text_puts(p->out, ")");
}

/* Nested graphs on one line: their heads. */
static void print_graph_heads(Printer *p, const Attr *attr) {
    size_t n = attr->kind == ATTR_GRAPH ? 1 : attr->n;
    if (attr->kind == ATTR_GRAPHS) text_puts(p->out, n ? "[" : "graphs [");
    for (size_t i = 0; i < n; i++) {
        const Graph *graph = attr->kind == ATTR_GRAPH ? attr->graph : attr->graphs[i];
        if (i) text_puts(p->out, ", ");
        print_graph_name(p, graph);
        print_inputs(p, graph);
        text_puts(p->out, " {...}");
    }
    if (attr->kind == ATTR_GRAPHS) text_puts(p->out, "]");
}

/* The nested graph of an attribute that is to be printed next, or NULL when the attribute is done. */
static const Graph *next_graph(Printer *p, PrintFrame *frame, const Attr *attr) {
    if (p->one_line) {
        print_graph_heads(p, attr);
        return NULL;
    }
    if (attr->kind == ATTR_GRAPH) return frame->item++ == 0 ? attr->graph : NULL;
    if (frame->item == 0) text_puts(p->out, attr->n ? "[" : "graphs [");
    else if (frame->item < attr->n) text_puts(p->out, ", ");
    if (frame->item < attr->n) return attr->graphs[frame->item++];
    text_puts(p->out, "]");
    return NULL;
}

static bool is_long(AttrKind kind) {
    return kind == ATTR_TENSOR || kind == ATTR_TENSORS || kind == ATTR_GRAPH || kind == ATTR_GRAPHS;
}

/* Attributes from where the frame stands. *nested: the graph that must be printed before going on. */
static void print_attrs(Printer *p, PrintFrame *frame, const Graph **nested) {
    const Node *node = frame->node;
    *nested = NULL;
    for (; frame->attr < node->n_attrs && p->out->status == TN_OK; frame->attr++, frame->item = 0) {
        const Attr *attr = &node->attrs[frame->attr];
        if (frame->item == 0) {
            text_puts(p->out, frame->attr == 0 ? " {" : ", ");
            spell_name(p->out, attr->name);
            text_puts(p->out, is_long(attr->kind) ? " = " : "=");
        }
        if (attr->kind != ATTR_GRAPH && attr->kind != ATTR_GRAPHS) print_attr_value(p, node, attr);
        else if ((*nested = next_graph(p, frame, attr)) != NULL) return;
    }
    if (node->n_attrs > 0) text_puts(p->out, "}");
    if (node->loc.n == 0) return;
    text_puts(p->out, " loc ");
    spell_quoted(p->out, node->loc);
}

static void start_node(Printer *p, PrintFrame *frame, bool with_results) {
    frame->in_node = true;
    frame->attr = 0;
    frame->item = 0;
    number_results(p, frame->node);
    if (with_results) print_results(p, frame->node);
    print_call(p, frame->node);
}

/* Goes on until the frames above `bottom` are done. */
static tn_status run(Printer *p, size_t bottom) {
    while (p->frames.len > bottom && p->out->status == TN_OK) {
        PrintFrame *frame = &p->frames.data[p->frames.len - 1];
        const Graph *nested;
        if (!frame->node) {
            close_frame(p);
            continue;
        }
        if (!frame->in_node) {
            spell_indent(p->out, p->indent);
            start_node(p, frame, true);
        }
        print_attrs(p, frame, &nested);
        if (nested) {
            TRY(open_frame(p, nested));
            continue;
        }
        text_puts(p->out, "\n");
        frame->in_node = false;
        frame->node = frame->node->next;
    }
    return p->out->status;
}

/* One node whose frame is not that of a graph. */
static tn_status print_single(Printer *p, const Node *node, bool with_results) {
    PrintFrame frame = {.graph = node->graph, .node = node};
    size_t bottom = p->frames.len + 1;
    const Graph *nested;
    TRY(vec_push(p->allocator, &p->frames, frame));
    start_node(p, &p->frames.data[bottom - 1], with_results);
    for (;;) {
        print_attrs(p, &p->frames.data[bottom - 1], &nested);
        if (!nested) break;
        TRY(open_frame(p, nested));
        TRY(run(p, bottom));
    }
    p->frames.len--;
    return p->out->status;
}

/* ---- printers ------------------------------------------------------------------------------------------------ */

static tn_status printer_init(Printer *p, const Model *model, const PrintOptions *options, bool numbered, Text *out) {
    *p = (Printer){.model = model, .allocator = &model->ctx->allocator, .out = out};
    if (options) p->options = *options;
    if (p->options.inline_elements == 0) p->options.inline_elements = INLINE_ELEMENTS;
    if (!numbered) return TN_OK;
    p->numbers = mem_alloc(p->allocator, ((size_t)model->n_values + 1) * sizeof *p->numbers, alignof(uint32_t));
    return p->numbers ? TN_OK : TN_OUT_OF_MEMORY;
}

static void printer_free(Printer *p) {
    vec_free(p->allocator, &p->frames);
    mem_free(p->allocator, p->numbers, p->numbers ? ((size_t)p->model->n_values + 1) * sizeof *p->numbers : 0);
}

static void print_metadata(Printer *p) {
    const Model *model = p->model;
    if (model->metadata.len < 2) return;
    text_puts(p->out, "model {");
    for (size_t i = 0; i + 1 < model->metadata.len; i += 2) {
        if (i) text_puts(p->out, ", ");
        spell_name(p->out, model->metadata.data[i]);
        text_puts(p->out, " = ");
        spell_quoted(p->out, model->metadata.data[i + 1]);
    }
    text_puts(p->out, "}\n");
}

static tn_status print_root(Printer *p, const Graph *graph) {
    TRY(open_frame(p, graph));
    TRY(run(p, 0));
    text_puts(p->out, "\n");
    return p->out->status;
}

tn_status model_print(const Model *model, const PrintOptions *options, Text *out) {
    Printer p;
    TRY(printer_init(&p, model, options, true, out));
    text_puts(out, "tn 1\n");
    print_metadata(&p);
    tn_status status = print_root(&p, model->main);
    printer_free(&p);
    return status;
}

tn_status graph_print(const Graph *graph, const PrintOptions *options, Text *out) {
    Printer p;
    TRY(printer_init(&p, graph->model, options, true, out));
    tn_status status = print_root(&p, graph);
    printer_free(&p);
    return status;
}

/* Of a single line nobody sees where its numbers come from, so values without a name go by their ids. */
tn_status node_print(const Node *node, const PrintOptions *options, Text *out) {
    Printer p;
    TRY(printer_init(&p, node->graph->model, options, false, out));
    p.one_line = true;
    tn_status status = print_single(&p, node, true);
    printer_free(&p);
    return status;
}

/* ---- fragments ----------------------------------------------------------------------------------------------- */

/* What a fragment is made of. Marks are by node id and by value id. */
typedef struct Fragment {
    Printer *printer;
    const Graph *graph;
    Arena arena;
    uint8_t *node_marks, *value_marks;
    VEC(const Node *) work, nodes;
    VEC(const Value *) free;
} Fragment;

/* A value that the fragment reads: its node belongs to the fragment, or it is free. Values defined within a nested
   graph of the fragment are neither. */
static tn_status need(Fragment *f, const Value *value) {
    if (!value || f->value_marks[value->id]) return TN_OK;
    if (!value_visible_in(value, f->graph)) return TN_OK;
    f->value_marks[value->id] = 1;
    if (!value->def || value->graph != f->graph) return vec_push(f->printer->allocator, &f->free, value);
    if (f->node_marks[value->def->id]) return TN_OK;
    f->node_marks[value->def->id] = 1;
    TRY(vec_push(f->printer->allocator, &f->work, value->def));
    return vec_push(f->printer->allocator, &f->nodes, value->def);
}

static tn_status need_operands(Fragment *f, const Node *node) {
    for (uint32_t i = 0; i < node->n_operands; i++) TRY(need(f, node->operands[i].value));
    return TN_OK;
}

static tn_status need_captures(Fragment *f, Graph *nested) {
    Walk walk;
    WalkEvent event;
    walk_init(&walk, f->printer->allocator, nested);
    tn_status status = walk_next(&walk, &event);
    while (status == TN_OK && event != WALK_END) {
        if (event == WALK_BEFORE) status = need_operands(f, walk.node);
        if (event == WALK_LEAVE) status = need_operands(f, walk.graph->ret);
        if (status == TN_OK) status = walk_next(&walk, &event);
    }
    walk_free(&walk);
    return status;
}

static tn_status collect(Fragment *f, const Value *value) {
    TRY(need(f, value));
    while (f->work.len > 0) {
        const Node *node = f->work.data[--f->work.len];
        uint32_t attr = 0;
        size_t item = 0;
        TRY(need_operands(f, node));
        for (Graph *nested; (nested = node_next_graph(node, &attr, &item));) TRY(need_captures(f, nested));
    }
    return TN_OK;
}

/* Sorts by place in the graph. The order of nodes is theirs to compare in constant time. */
static int by_place(const void *a, const void *b) {
    const Node *x = *(const Node *const *)a, *y = *(const Node *const *)b;
    return (x->order > y->order) - (x->order < y->order);
}

static int by_id(const void *a, const void *b) {
    const Value *x = *(const Value *const *)a, *y = *(const Value *const *)b;
    return (x->id > y->id) - (x->id < y->id);
}

static tn_status print_fragment(Fragment *f, const Value *value) {
    Printer *p = f->printer;
    for (size_t i = 0; i < f->free.len; i++) {
        text_puts(p->out, "free_var ");
        print_typed(p, f->free.data[i], true);
        text_puts(p->out, "\n");
    }
    bool unnamed = value->def && value->graph == f->graph && value->def->n_results == 1;
    for (size_t i = 0; i < f->nodes.len; i++) {
        TRY(print_single(p, f->nodes.data[i], !(unnamed && f->nodes.data[i] == value->def)));
        text_puts(p->out, "\n");
    }
    if (unnamed) return p->out->status;
    print_value(p, value);
    text_puts(p->out, "\n");
    return p->out->status;
}

static tn_status make_fragment(Fragment *f, const Value *value) {
    const Model *model = f->graph->model;
    f->node_marks = arena_array(&f->arena, uint8_t, (size_t)model->n_nodes + 1);
    f->value_marks = f->node_marks ? arena_array(&f->arena, uint8_t, (size_t)model->n_values + 1) : NULL;
    if (!f->value_marks) return TN_OUT_OF_MEMORY;
    TRY(collect(f, value));
    if (f->nodes.len > 1) qsort(f->nodes.data, f->nodes.len, sizeof *f->nodes.data, by_place);
    if (f->free.len > 1) qsort(f->free.data, f->free.len, sizeof *f->free.data, by_id);
    return print_fragment(f, value);
}

tn_status value_print(const Value *value, const PrintOptions *options, Text *out) {
    Printer p;
    Fragment f = {.printer = &p, .graph = value->graph};
    TRY(printer_init(&p, value->graph->model, options, true, out));
    arena_init(&f.arena, p.allocator);
    tn_status status = make_fragment(&f, value);
    vec_free(p.allocator, &f.work);
    vec_free(p.allocator, &f.nodes);
    vec_free(p.allocator, &f.free);
    arena_free(&f.arena);
    printer_free(&p);
    return status;
}
