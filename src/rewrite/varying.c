/* SPDX-License-Identifier: Apache-2.0 */
/* Which nodes depend on what is not constant, noted once for a graph and kept up while it is rewritten: whether a value is
   constant is asked very often, and of most values a look upwards ends only where it gives up. */
#include "rewrite/index_int.h"

static tn_status reserve(Varying *x, const Allocator *a, uint32_t id) {
    size_t n = (size_t)id + 1;
    if (n <= x->len) return TN_OK;
    TRY(vec_reserve(a, x, n));
    memset(x->data + x->len, 0, n - x->len);
    x->len = n;
    return TN_OK;
}

static bool node_varies(const Varying *x, const Node *node) {
    if (value_payload(node_result(node, 0))) return false;
    if (!node_may_follow(node)) return true;
    for (uint32_t i = 0; i < node->n_operands; i++)
        if (value_varies(x->data, x->len, node->operands[i].value)) return true;
    return false;
}

tn_status varying_add(Varying *x, const Allocator *a, const Node *node) {
    TRY(reserve(x, a, node->id));
    x->data[node->id] = node_varies(x, node);
    return TN_OK;
}

tn_status varying_settle(Varying *x, const Allocator *a, const Value *value) {
    VEC(const Value *) open = {0};
    tn_status status = value_varies(x->data, x->len, value) ? TN_OK : vec_push(a, &open, value);
    while (open.len > 0 && status == TN_OK) {
        const Value *last = open.data[--open.len];
        for (const Use *u = last->uses; u && status == TN_OK; u = u->next) {
            const Node *node = u->user;
            if (node->id >= x->len || !x->data[node->id] || node_varies(x, node)) continue;
            x->data[node->id] = 0;
            for (uint32_t i = 0; i < node->n_results && status == TN_OK; i++)
                status = vec_push(a, &open, node->results[i]);
        }
    }
    vec_free(a, &open);
    return status;
}
