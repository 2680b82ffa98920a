/* SPDX-License-Identifier: Apache-2.0 */
/* Choices among a kernel's ways, by what the work is. Nothing here measures: tune.c does; session/tuning.c keeps
   choices in a file. */
#include "program/program.h"

typedef struct Entry {
    TuningChoice choice;
    size_t size; /* of this, with its texts */
} Entry;

struct Tuning {
    const Allocator *allocator;
    Map entries;
    size_t measured;
};

/* ---- the table ----------------------------------------------------------------------------------------------- */

tn_status tuning_new(const Allocator *a, Tuning **out) {
    Tuning *t = mem_alloc(a, sizeof *t, alignof(Tuning));
    if (!t) return TN_OUT_OF_MEMORY;
    t->allocator = a;
    map_init(&t->entries, a);
    *out = t;
    return TN_OK;
}

void tuning_free(Tuning *t) {
    if (!t) return;
    for (size_t i = 0; i < t->entries.len; i++) {
        Entry *e = t->entries.entries[i].value;
        if (e) mem_free(t->allocator, e, e->size);
    }
    map_free(&t->entries);
    mem_free(t->allocator, t, sizeof *t);
}

const TuningChoice *tuning_find(const Tuning *t, Str work) {
    const Entry *e = map_get(&t->entries, work);
    return e ? &e->choice : NULL;
}

static const char *put_text(char **at, const char *text, size_t n) {
    char *start = *at;
    memcpy(start, text, n);
    start[n] = 0;
    *at += n + 1;
    return start;
}

tn_status tuning_set(Tuning *t, Str work, const TuningChoice *choice, bool measured) {
    size_t way = choice->way ? strlen(choice->way) : 0, packs = choice->packs ? strlen(choice->packs) : 0;
    size_t size = sizeof(Entry) + work.n + way + packs + 3;
    Entry *e = mem_alloc(t->allocator, size, alignof(Entry));
    if (!e) return TN_OUT_OF_MEMORY;
    char *at = (char *)(e + 1);
    *e = (Entry){*choice, size};
    Str key = {put_text(&at, work.s, work.n), work.n};
    if (choice->way) e->choice.way = put_text(&at, choice->way, way);
    if (choice->packs) e->choice.packs = put_text(&at, choice->packs, packs);
    MapEntry *entry = map_entry(&t->entries, key);
    if (!entry) {
        mem_free(t->allocator, e, size);
        return TN_OUT_OF_MEMORY;
    }
    Entry *before = entry->value;
    entry->key = key;
    entry->value = e;
    if (before) mem_free(t->allocator, before, before->size);
    t->measured += measured && choice->way;
    return TN_OK;
}

size_t tuning_measured(const Tuning *t) { return t->measured; }

tn_status tuning_each(const Tuning *t, tn_status (*fn)(void *user, Str work, const TuningChoice *choice), void *user) {
    for (size_t i = 0; i < t->entries.len; i++) {
        const Entry *e = t->entries.entries[i].value;
        if (e) TRY(fn(user, t->entries.entries[i].key, &e->choice));
    }
    return TN_OK;
}

/* ---- what the work is ---------------------------------------------------------------------------------------- */

static void put_attr(const Attr *a, Text *out) {
    text_printf(out, " %.*s=", (int)a->name.n, a->name.s);
    switch (a->kind) {
    case ATTR_INT: text_printf(out, "%lld", (long long)a->i); break;
    case ATTR_FLOAT: text_printf(out, "%.9g", (double)a->f); break;
    case ATTR_STRING: text_put(out, a->s.n ? a->s.s : "", a->s.n); break;
    case ATTR_INTS:
        for (size_t i = 0; i < a->n; i++) text_printf(out, i ? ",%lld" : "%lld", (long long)a->ints[i]);
        break;
    case ATTR_FLOATS:
        for (size_t i = 0; i < a->n; i++) text_printf(out, i ? ",%.9g" : "%.9g", (double)a->floats[i]);
        break;
    default: text_puts(out, "..."); break; /* contents that decide no time */
    }
}

static void put_op(const Node *node, Text *out) {
    op_print_name(node->op, out);
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (node->attrs[i].kind != ATTR_GRAPH) put_attr(&node->attrs[i], out);
}

/* Values by where they come from, since names are as the model has them. */
static void put_inner(const Graph *body, const Value *v, Text *out) {
    int at = 0;
    if (!v) text_puts(out, " _");
    else if (value_payload(v)) text_puts(out, " const");
    else if (!v->def) text_printf(out, v->graph == body ? " in%u" : " outer%u", v->index);
    if (!v || !v->def || value_payload(v)) return;
    for (const Node *n = body->first; n && n != v->def; n = n->next) at++;
    text_printf(out, " %d.%u", at, v->index);
}

static void put_body(const Graph *body, Text *out) {
    text_puts(out, " {");
    for (const Node *n = body->first; n; n = n->next) {
        if (n->n_results == 1 && value_payload(n->results[0])) continue;
        put_op(n, out);
        for (uint32_t i = 0; i < n->n_operands; i++) put_inner(body, node_operand(n, i), out);
        text_puts(out, "; ");
    }
    for (uint32_t i = 0; i < body->ret->n_operands; i++) put_inner(body, node_operand(body->ret, i), out);
    text_puts(out, "}");
}

static void put_tensor(const Tensor *t, Text *out) {
    if (!t) {
        text_puts(out, " _");
        return;
    }
    text_printf(out, " %s%s[", t->data ? "const " : "", dtype_name(t->dtype));
    for (int d = 0; d < t->rank; d++) text_printf(out, d ? ",%lld" : "%lld", (long long)t->dims[d]);
    text_puts(out, "]");
    if (tensor_is_dense(t)) return;
    for (int d = 0; d < t->rank; d++) text_printf(out, d ? ",%lld" : "@%lld", (long long)t->strides[d]);
}

static void put_declared(const Node *node, const Value *v, Text *out) {
    text_puts(out, " ");
    if (v) type_print(node->graph->model, v->type, out);
    else text_puts(out, "_");
}

/* So that any file can have it. */
static void make_plain(Text *out, size_t from) {
    for (size_t i = from; out->status == TN_OK && i < out->n; i++)
        if (out->s[i] < ' ' || out->s[i] > '~') out->s[i] = '?';
}

void tuning_describe(const KernelQuery *q, bool declared, Text *out) {
    const Node *node = q->node;
    size_t from = out->n;
    text_printf(out, "%s%s: ", q->kernel->name, q->accurate ? " accurately" : "");
    put_op(node, out);
    for (uint32_t i = 0; i < node->n_attrs; i++)
        if (node->attrs[i].kind == ATTR_GRAPH) put_body(node->attrs[i].graph, out);
    text_puts(out, declared ? " of declared" : " of");
    for (int i = 0; i < q->n_in; i++) {
        if (declared) put_declared(node, node_operand(node, (uint32_t)i), out);
        else put_tensor(q->in[i], out);
    }
    text_puts(out, " to");
    for (int i = 0; i < q->n_out && !declared; i++) put_tensor(&q->out[i], out);
    make_plain(out, from);
}

static bool is_known(const Value *v) {
    return !v || (v->type->kind == TYPE_TENSOR && v->type->dtype && shape_is_known(&v->type->shape));
}

bool tuning_is_declared(const KernelQuery *q) {
    for (uint32_t i = 0; i < q->node->n_operands; i++)
        if (!is_known(node_operand(q->node, i))) return false;
    return true;
}

/* ---- choices ------------------------------------------------------------------------------------------------- */

static tn_status find(const Tuning *t, const KernelQuery *q, bool declared, const TuningChoice **out) {
    Text work;
    text_init(&work, t->allocator);
    tuning_describe(q, declared, &work);
    tn_status status = work.status;
    *out = status == TN_OK ? tuning_find(t, (Str){work.s, work.n}) : NULL;
    text_free(&work);
    return status;
}

tn_status tuning_way(const Tuning *t, const KernelQuery *q, int *way) {
    const TuningChoice *choice;
    *way = 0;
    TRY(find(t, q, false, &choice));
    for (int w = 1; choice && choice->way && w <= KERNEL_WAYS && q->kernel->ways[w - 1].name; w++)
        if (strcmp(q->kernel->ways[w - 1].name, choice->way) == 0) *way = w;
    return TN_OK;
}

static bool same_packs(const char *a, const char *b) { return a && b ? strcmp(a, b) == 0 : a == b; }

tn_status tuning_allowed(const Tuning *t, const KernelQuery *q, uint32_t offered, uint32_t *allowed) {
    const TuningChoice *choice = NULL;
    uint32_t some = 0;
    if (!tuning_is_declared(q)) TRY(find(t, q, true, &choice));
    for (int w = 1; choice && w <= KERNEL_WAYS && q->kernel->ways[w - 1].name; w++)
        if (same_packs(q->kernel->ways[w - 1].packs, choice->packs)) some |= 1u << (w - 1);
    *allowed = offered & some ? offered & some : offered;
    return TN_OK;
}

tn_status tuning_keep(Tuning *t, const KernelDesc *kernel, Str work, Str declared, int way, double us,
                      double usual_us) {
    const KernelWay *w = &kernel->ways[way - 1];
    TRY(tuning_set(t, work, &(TuningChoice){w->name, NULL, us, usual_us}, true));
    if (!declared.n || tuning_find(t, declared)) return TN_OK;
    return tuning_set(t, declared, &(TuningChoice){NULL, w->packs, 0, 0}, true);
}
