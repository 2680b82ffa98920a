/* SPDX-License-Identifier: Apache-2.0 */
/* Goes through nested graphs with a stack of its own: neither length nor depth of a model costs C stack. */
#include "ir/ir_int.h"

Graph *node_next_graph(const Node *node, uint32_t *attr, size_t *item) {
    for (; *attr < node->n_attrs; ++*attr, *item = 0) {
        const Attr *a = &node->attrs[*attr];
        if (a->kind == ATTR_GRAPH && *item == 0) {
            *item = 1;
            return a->graph;
        }
        if (a->kind == ATTR_GRAPHS && *item < a->n) return a->graphs[(*item)++];
    }
    return NULL;
}

void walk_init(Walk *walk, const Allocator *allocator, Graph *graph) {
    *walk = (Walk){.allocator = allocator, .start = graph};
}

void walk_free(Walk *walk) { vec_free(walk->allocator, &walk->stack); }

static tn_status enter(Walk *walk, Graph *graph, WalkEvent *event) {
    WalkFrame frame = {.graph = graph, .next = graph->first};
    TRY(vec_push(walk->allocator, &walk->stack, frame));
    walk->graph = graph;
    walk->node = NULL;
    *event = WALK_ENTER;
    return TN_OK;
}

static void pop(Walk *walk, WalkEvent *event) {
    walk->stack.len--;
    walk->node = NULL;
    *event = WALK_LEAVE;
}

tn_status walk_next(Walk *walk, WalkEvent *event) {
    if (walk->start) {
        Graph *graph = walk->start;
        walk->start = NULL;
        return enter(walk, graph, event);
    }
    if (walk->stack.len == 0) {
        *event = WALK_END;
        return TN_OK;
    }
    WalkFrame *top = &walk->stack.data[walk->stack.len - 1];
    walk->graph = top->graph;
    if (top->node) {
        Graph *nested = walk->skip_nested ? NULL : node_next_graph(top->node, &top->attr, &top->item);
        walk->skip_nested = false;
        if (nested) return enter(walk, nested, event);
        walk->node = top->node;
        /* Read now: the caller may have put nodes behind this one, or erase it before the next step. */
        top->next = top->node->next;
        top->node = NULL;
        *event = WALK_AFTER;
        return TN_OK;
    }
    if (!top->next) {
        pop(walk, event);
        return TN_OK;
    }
    top->node = walk->node = top->next;
    top->attr = 0;
    top->item = 0;
    *event = WALK_BEFORE;
    return TN_OK;
}
