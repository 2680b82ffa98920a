/* SPDX-License-Identifier: Apache-2.0 */
/* Graph to instructions: slots for values, instructions for nodes, nested graphs as programs of their own. */
#include "program/program_int.h"

#include <stdio.h>
#include <stdlib.h>

/* What a value is to the program under construction. A captured value has a slot in each program that reads it; the
   inner program puts the outer one's back when it is done. */
typedef struct Binding {
    uint32_t id;      /* of the value, in a list of saved places */
    uint32_t program; /* serial number of the program that the slot is of; 0: none */
    int32_t slot;
} Binding;

typedef struct Builder {
    Context *ctx;
    Binding *binding; /* by value id */
    uint32_t n_programs;
} Builder;

typedef struct Building {
    Program *p;
    uint32_t serial;
    VEC(Binding) saved;
} Building;

static tn_status build(Builder *b, const Graph *graph, Value *const *outputs, size_t n_outputs, Program **out);

static tn_status add_slot(Builder *b, Building *g, const Value *v, Slot slot) {
    slot.value = v;
    slot.last_use = -1;
    b->binding[v->id] = (Binding){v->id, g->serial, (int32_t)g->p->slots.len};
    return vec_push(&b->ctx->allocator, &g->p->slots, slot);
}

static tn_status slot_for(Builder *b, Building *g, const Value *v, int32_t *slot) {
    if (b->binding[v->id].program != g->serial) {
        if (v->graph == g->p->graph)
            return fail(TN_INVALID_MODEL, "value \"%s\" is read before it is made", v->name.n ? v->name.s : "");
        Binding outer = b->binding[v->id];
        outer.id = v->id;
        TRY(vec_push(&b->ctx->allocator, &g->saved, outer));
        TRY(add_slot(b, g, v, (Slot){.kind = SLOT_CAPTURE, .index = (uint32_t)g->p->captures.len, .def = -1}));
        TRY(vec_push(&b->ctx->allocator, &g->p->captures, b->binding[v->id].slot));
    }
    *slot = b->binding[v->id].slot;
    return TN_OK;
}

enum { MOST_NAMED = 5 };

/* NULL when memory is out. */
static const char *label_of(Program *p, const Node *node) {
    if (!node_is_fused(node)) return node->op->name;
    char text[160] = "";
    size_t n = 0, named = 0;
    for (const Node *inner = attr_graph(node, "body")->first; inner; inner = inner->next) {
        if (value_payload(node_result(inner, 0))) continue;
        bool more = named++ == MOST_NAMED;
        n += (size_t)snprintf(text + n, sizeof text - n, "%s%s", n ? "+" : "", more ? ".." : inner->op->name);
        if (n >= sizeof text) n = sizeof text - 1;
        if (more) break;
    }
    return arena_strndup(&p->arena, text, n);
}

static tn_status add_bodies(Builder *b, Building *g, const Node *node, Instr *instr) {
    uint32_t n = 0;
    while (node_graph(node, n)) n++;
    instr->bodies = arena_array(&g->p->arena, Program *, n ? n : 1);
    if (!instr->bodies) return TN_OUT_OF_MEMORY;
    size_t captures = 0;
    for (; instr->n_bodies < n; instr->n_bodies++) {
        TRY(build(b, node_graph(node, instr->n_bodies), NULL, 0, &instr->bodies[instr->n_bodies]));
        captures += instr->bodies[instr->n_bodies]->captures.len;
    }
    instr->captures = arena_array(&g->p->arena, int32_t, captures ? captures : 1);
    if (!instr->captures) return TN_OUT_OF_MEMORY;
    for (uint32_t k = 0; k < n; k++)
        for (size_t i = 0; i < instr->bodies[k]->captures.len; i++) {
            const Program *body = instr->bodies[k];
            const Value *v = body->slots.data[body->captures.data[i]].value;
            TRY(slot_for(b, g, v, &instr->captures[instr->n_captures++]));
        }
    return TN_OK;
}

static tn_status add_node(Builder *b, Building *g, const Node *node) {
    if (value_payload(node_result(node, 0)))
        return add_slot(b, g, node->results[0], (Slot){.kind = SLOT_CONST, .def = -1});
    Program *p = g->p;
    int32_t number = (int32_t)p->instrs.len;
    Instr instr = {.node = node, .label = label_of(p, node), .n_in = node->n_operands, .n_out = node->n_results};
    instr.in = arena_array(&p->arena, int32_t, node->n_operands + 1);
    instr.out = arena_array(&p->arena, int32_t, node->n_results + 1);
    if (!instr.in || !instr.out || !instr.label) return TN_OUT_OF_MEMORY;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        instr.in[i] = -1;
        if (node->operands[i].value) TRY(slot_for(b, g, node->operands[i].value, &instr.in[i]));
    }
    tn_status status = node->op->flags & OP_CONTROL ? add_bodies(b, g, node, &instr) : TN_OK;
    for (uint32_t i = 0; i < node->n_results && status == TN_OK; i++) {
        instr.out[i] = (int32_t)p->slots.len;
        status = add_slot(b, g, node->results[i], (Slot){.kind = SLOT_RESULT, .index = i, .def = number});
    }
    if (status == TN_OK) status = vec_push(&b->ctx->allocator, &p->instrs, instr);
    if (status != TN_OK)
        for (uint32_t k = 0; k < instr.n_bodies; k++) program_free(instr.bodies[k]);
    return status;
}

/* ---- dead instructions, lifetimes ---------------------------------------------------------------------------- */

static void mark(uint8_t *live, const int32_t *slots, uint32_t n) {
    for (uint32_t i = 0; i < n; i++)
        if (slots[i] >= 0) live[slots[i]] = 1;
}

static void free_bodies(Instr *instr) {
    for (uint32_t k = 0; k < instr->n_bodies; k++) program_free(instr->bodies[k]);
    instr->n_bodies = 0;
}

static tn_status drop_dead(Program *p) {
    ArenaMark top = arena_mark(&p->arena);
    uint8_t *live = arena_array(&p->arena, uint8_t, p->slots.len + 1);
    uint8_t *keep = arena_array(&p->arena, uint8_t, p->instrs.len + 1);
    if (!live || !keep) return TN_OUT_OF_MEMORY;
    mark(live, p->outputs.data, (uint32_t)p->outputs.len);
    for (size_t i = p->instrs.len; i-- > 0;) {
        Instr *instr = &p->instrs.data[i];
        for (uint32_t k = 0; k < instr->n_out; k++) keep[i] |= live[instr->out[k]];
        if (!keep[i]) continue;
        mark(live, instr->in, instr->n_in);
        mark(live, instr->captures, instr->n_captures);
    }
    size_t n = 0;
    for (size_t i = 0; i < p->instrs.len; i++) {
        if (!keep[i]) {
            free_bodies(&p->instrs.data[i]);
            continue;
        }
        for (uint32_t k = 0; k < p->instrs.data[i].n_out; k++) p->slots.data[p->instrs.data[i].out[k]].def = (int32_t)n;
        p->instrs.data[n++] = p->instrs.data[i];
    }
    p->instrs.len = n;
    arena_release(&p->arena, top);
    return TN_OK;
}

static void set_last_uses(Program *p) {
    for (size_t i = 0; i < p->instrs.len; i++) {
        const Instr *instr = &p->instrs.data[i];
        for (uint32_t k = 0; k < instr->n_in; k++)
            if (instr->in[k] >= 0) p->slots.data[instr->in[k]].last_use = (int32_t)i;
        for (uint32_t k = 0; k < instr->n_captures; k++) p->slots.data[instr->captures[k]].last_use = (int32_t)i;
    }
    for (size_t i = 0; i < p->outputs.len; i++) {
        p->slots.data[p->outputs.data[i]].is_output = true;
        p->slots.data[p->outputs.data[i]].last_use = (int32_t)p->instrs.len;
    }
}

static void keep_graph_order(Program *p) {
    set_last_uses(p);
    for (size_t i = 0; i < p->slots.len; i++) {
        Slot *slot = &p->slots.data[i];
        slot->graph_def = slot->def;
        slot->graph_last_use = slot->last_use;
    }
}

/* ---- order --------------------------------------------------------------------------------------------------- */

typedef struct Turn {
    int32_t at; /* the instruction that it stands before, or its own number */
    bool stays;
    int32_t index;
} Turn;

static int by_turn(const void *x, const void *y) {
    const Turn *a = x, *b = y;
    if (a->at != b->at) return a->at < b->at ? -1 : 1;
    if (a->stays != b->stays) return a->stays ? 1 : -1;
    return a->index < b->index ? -1 : 1;
}

/* Whether nothing that it reads can die: then it may as well run just before its result is wanted. */
static bool reads_constants_only(const Program *p, const Turn *turns, const Instr *instr) {
    if (instr->n_captures > 0 || instr->node->op->flags & (OP_RANDOM | OP_CONTROL)) return false;
    for (uint32_t k = 0; k < instr->n_in; k++) {
        const Slot *slot = instr->in[k] >= 0 ? &p->slots.data[instr->in[k]] : NULL;
        if (slot && slot->kind != SLOT_CONST && (slot->kind != SLOT_RESULT || turns[slot->def].stays)) return false;
    }
    return true;
}

static void wanted_by(const Program *p, Turn *turns, const int32_t *slots, uint32_t n, int32_t at) {
    for (uint32_t k = 0; k < n; k++) {
        if (slots[k] < 0 || p->slots.data[slots[k]].kind != SLOT_RESULT) continue;
        Turn *t = &turns[p->slots.data[slots[k]].def];
        if (!t->stays && at < t->at) t->at = at;
    }
}

/* Models put what unpacks or converts weights first; run there, all of it would lie in memory at once. */
static tn_status sink_constants(Program *p) {
    size_t n = p->instrs.len;
    ArenaMark top = arena_mark(&p->arena);
    Turn *turns = arena_array(&p->arena, Turn, n + 1);
    Instr *sorted = arena_array(&p->arena, Instr, n + 1);
    if (!turns || !sorted) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < n; i++) {
        bool sinks = reads_constants_only(p, turns, &p->instrs.data[i]);
        turns[i] = (Turn){sinks ? (int32_t)n : (int32_t)i, !sinks, (int32_t)i};
    }
    for (size_t i = n; i-- > 0;) {
        const Instr *instr = &p->instrs.data[i];
        wanted_by(p, turns, instr->in, instr->n_in, turns[i].at);
        wanted_by(p, turns, instr->captures, instr->n_captures, turns[i].at);
    }
    qsort(turns, n, sizeof *turns, by_turn);
    for (size_t i = 0; i < n; i++) {
        sorted[i] = p->instrs.data[turns[i].index];
        for (uint32_t k = 0; k < sorted[i].n_out; k++) p->slots.data[sorted[i].out[k]].def = (int32_t)i;
    }
    if (n) memcpy(p->instrs.data, sorted, n * sizeof *sorted);
    arena_release(&p->arena, top);
    return TN_OK;
}

/* ---- the whole ----------------------------------------------------------------------------------------------- */

static tn_status add_outputs(Builder *b, Building *g, Value *const *outputs, size_t n_outputs) {
    size_t n = outputs ? n_outputs : graph_n_outputs(g->p->graph);
    for (size_t i = 0; i < n; i++) {
        int32_t slot;
        TRY(slot_for(b, g, outputs ? outputs[i] : graph_output(g->p->graph, i), &slot));
        TRY(vec_push(&b->ctx->allocator, &g->p->outputs, slot));
    }
    return TN_OK;
}

static tn_status fill(Builder *b, Building *g, Value *const *outputs, size_t n_outputs) {
    const Graph *graph = g->p->graph;
    for (size_t i = 0; i < graph->inputs.len; i++) {
        TRY(vec_push(&b->ctx->allocator, &g->p->inputs, (int32_t)g->p->slots.len));
        TRY(add_slot(b, g, graph->inputs.data[i], (Slot){.kind = SLOT_INPUT, .index = (uint32_t)i, .def = -1}));
    }
    for (const Node *n = graph->first; n; n = n->next) TRY(add_node(b, g, n));
    TRY(add_outputs(b, g, outputs, n_outputs));
    TRY(drop_dead(g->p));
    keep_graph_order(g->p);
    TRY(sink_constants(g->p));
    set_last_uses(g->p);
    return TN_OK;
}

static tn_status build(Builder *b, const Graph *graph, Value *const *outputs, size_t n_outputs, Program **out) {
    Program *p = mem_alloc(&b->ctx->allocator, sizeof *p, alignof(Program));
    if (!p) return TN_OUT_OF_MEMORY;
    p->ctx = b->ctx;
    p->graph = graph;
    arena_init(&p->arena, &b->ctx->allocator);
    Building g = {.p = p, .serial = ++b->n_programs};
    tn_status status = fill(b, &g, outputs, n_outputs);
    for (size_t i = g.saved.len; i-- > 0;) b->binding[g.saved.data[i].id] = g.saved.data[i];
    vec_free(&b->ctx->allocator, &g.saved);
    if (status != TN_OK) {
        program_free(p);
        return status;
    }
    *out = p;
    return TN_OK;
}

tn_status program_build(Context *ctx, const Graph *graph, Value *const *outputs, size_t n_outputs, Program **out) {
    size_t bytes = ((size_t)graph->model->n_values + 1) * sizeof(Binding);
    Builder b = {.ctx = ctx, .binding = mem_alloc(&ctx->allocator, bytes, alignof(Binding))};
    if (!b.binding) return TN_OUT_OF_MEMORY;
    tn_status status = build(&b, graph, outputs, n_outputs, out);
    mem_free(&ctx->allocator, b.binding, bytes);
    return status;
}

void program_free(Program *p) {
    if (!p) return;
    const Allocator *a = &p->ctx->allocator;
    for (size_t i = 0; i < p->instrs.len; i++) free_bodies(&p->instrs.data[i]);
    vec_free(a, &p->slots);
    vec_free(a, &p->instrs);
    vec_free(a, &p->inputs);
    vec_free(a, &p->outputs);
    vec_free(a, &p->captures);
    arena_free(&p->arena);
    mem_free(a, p, sizeof *p);
}
