/* SPDX-License-Identifier: Apache-2.0 */
/* Dimensions: the table of expressions, evaluation and text. Simplification stands in dim_poly.c. */
#include "ir/ir_int.h"
#include "ir/text_int.h"

/* Bounds on an expression as a tree: recursion and evaluation stay cheap whatever a model says. What is beyond them
   is unknown. */
enum { DEPTH_MAX = 100, SIZE_MAX_NODES = 1024 };

void dim_table_init(DimTable *table, Arena *arena) {
    *table = (DimTable){.arena = arena};
    map_init(&table->symbols, arena->allocator);
}

void dim_table_free(DimTable *table) {
    if (!table->arena) return;
    const Allocator *a = table->arena->allocator;
    map_free(&table->symbols);
    mem_free(a, table->slots, table->n_slots * sizeof *table->slots);
    vec_free(a, &table->exprs);
    table->slots = NULL;
    table->n_slots = 0;
}

static Dim dim_of_index(size_t index) { return DIM_UNKNOWN + 1 + (Dim)index; }

const DimExpr *dim_expr(const DimTable *table, Dim d) {
    if (dim_is_const(d) || d == DIM_UNKNOWN || !table) return NULL;
    uint64_t index = (uint64_t)d - (uint64_t)DIM_UNKNOWN - 1;
    return index < table->exprs.len ? &table->exprs.data[index] : NULL;
}

static Dim push_expr(DimTable *table, const DimExpr *expr) {
    if (table->exprs.len >= UINT32_MAX - 2) return DIM_UNKNOWN;
    if (vec_push(table->arena->allocator, &table->exprs, *expr) != TN_OK) return DIM_UNKNOWN;
    return dim_of_index(table->exprs.len - 1);
}

Dim dim_symbol(DimTable *table, Str name) {
    void *found = map_get(&table->symbols, name);
    if (found) return dim_of_index((uintptr_t)found - 1);
    char *copy = arena_strndup(table->arena, name.s, name.n);
    if (!copy) return DIM_UNKNOWN;
    DimExpr expr = {.op = DIM_SYMBOL, .depth = 1, .size = 1, .name = {copy, name.n}};
    Dim d = push_expr(table, &expr);
    if (d == DIM_UNKNOWN) return d;
    if (map_set(&table->symbols, expr.name, (void *)(uintptr_t)table->exprs.len) == TN_OK) return d;
    table->exprs.len--;
    return DIM_UNKNOWN;
}

static uint64_t hash_expr(DimOp op, Dim a, Dim b) {
    int64_t key[3] = {op, a, b};
    return hash_bytes(key, sizeof key);
}

/* The slot of an expression, or the free one where it belongs. */
static uint32_t *find_slot(DimTable *table, DimOp op, Dim a, Dim b) {
    size_t mask = table->n_slots - 1;
    for (size_t i = hash_expr(op, a, b) & mask;; i = (i + 1) & mask) {
        uint32_t *slot = &table->slots[i];
        if (!*slot) return slot;
        const DimExpr *e = &table->exprs.data[*slot - 1];
        if (e->op == op && e->a == a && e->b == b) return slot;
    }
}

static bool grow_slots(DimTable *table) {
    if (table->n_slots >= 2 * (table->exprs.len + 1)) return true;
    const Allocator *a = table->arena->allocator;
    size_t n = table->n_slots ? table->n_slots : 8;
    while (n < 4 * (table->exprs.len + 1)) n *= 2;
    uint32_t *slots = mem_alloc(a, n * sizeof *slots, alignof(uint32_t));
    if (!slots) return false;
    mem_free(a, table->slots, table->n_slots * sizeof *slots);
    table->slots = slots;
    table->n_slots = n;
    for (size_t i = 0; i < table->exprs.len; i++) {
        const DimExpr *e = &table->exprs.data[i];
        if (e->op != DIM_SYMBOL) *find_slot(table, e->op, e->a, e->b) = (uint32_t)i + 1;
    }
    return true;
}

static void add_measure(const DimTable *table, Dim d, int *depth, int *size) {
    const DimExpr *e = dim_expr(table, d);
    *depth = (int)max_i64(*depth, e ? e->depth : 1);
    *size += e ? e->size : 1;
}

Dim dim_intern(DimTable *table, DimOp op, Dim a, Dim b) {
    if (a == DIM_UNKNOWN || b == DIM_UNKNOWN) return DIM_UNKNOWN;
    if (!grow_slots(table)) return DIM_UNKNOWN;
    uint32_t *slot = find_slot(table, op, a, b);
    if (*slot) return dim_of_index(*slot - 1);
    int depth = 0, size = 1;
    add_measure(table, a, &depth, &size);
    add_measure(table, b, &depth, &size);
    if (depth + 1 > DEPTH_MAX || size > SIZE_MAX_NODES) return DIM_UNKNOWN;
    DimExpr expr = {.op = op, .depth = (uint16_t)(depth + 1), .size = (uint16_t)size, .a = a, .b = b};
    Dim d = push_expr(table, &expr);
    if (d != DIM_UNKNOWN) *slot = (uint32_t)table->exprs.len;
    return d;
}

/* a op b for two constants. */
static Dim dim_fold(DimOp op, Dim a, Dim b) {
    int64_t r = 0;
    bool bad = false;
    switch (op) {
    case DIM_SYMBOL: return DIM_UNKNOWN;
    case DIM_ADD: bad = add_overflows(a, b, &r); break;
    case DIM_SUB: bad = sub_overflows(a, b, &r); break;
    case DIM_MUL: bad = mul_overflows(a, b, &r); break;
    case DIM_FLOORDIV:
    case DIM_CEILDIV:
    case DIM_MOD:
        if (b == 0) return DIM_UNKNOWN;
        r = a / b - (a % b != 0 && (a < 0) != (b < 0));
        if (op == DIM_CEILDIV) r += a % b != 0;
        if (op == DIM_MOD) r = a - r * b;
        break;
    case DIM_MIN: r = min_i64(a, b); break;
    case DIM_MAX: r = max_i64(a, b); break;
    }
    return bad || !dim_is_const(r) ? DIM_UNKNOWN : r;
}

Dim dim_make(DimTable *table, DimOp op, Dim a, Dim b) {
    if (a == DIM_UNKNOWN || b == DIM_UNKNOWN) return DIM_UNKNOWN;
    if (dim_is_const(a) && dim_is_const(b)) return dim_fold(op, a, b);
    if (!table) return DIM_UNKNOWN;
    /* The commonest cases need no polynomial. */
    if (op == DIM_ADD && (a == 0 || b == 0)) return a == 0 ? b : a;
    if (op == DIM_MUL && (a == 1 || b == 1)) return a == 1 ? b : a;
    if ((op == DIM_SUB && b == 0) || ((op == DIM_FLOORDIV || op == DIM_CEILDIV) && b == 1)) return a;
    return dim_simplify(table, op, a, b);
}

Dim dim_import(DimTable *into, const DimTable *from, Dim d) {
    const DimExpr *e = dim_expr(from, d);
    if (!e || into == from) return d;
    if (e->op == DIM_SYMBOL) return dim_symbol(into, e->name);
    return dim_make(into, e->op, dim_import(into, from, e->a), dim_import(into, from, e->b));
}

/* Recursion is bounded by DEPTH_MAX. */
Dim dim_eval(const DimTable *table, Dim d, Dim (*lookup)(void *user, Str symbol), void *user) {
    const DimExpr *e = dim_expr(table, d);
    if (!e) return dim_is_const(d) ? d : DIM_UNKNOWN;
    if (e->op == DIM_SYMBOL) return lookup(user, e->name);
    Dim a = dim_eval(table, e->a, lookup, user);
    if (!dim_is_const(a)) return DIM_UNKNOWN;
    Dim b = dim_eval(table, e->b, lookup, user);
    return dim_is_const(b) ? dim_fold(e->op, a, b) : DIM_UNKNOWN;
}

/* ---- text ---------------------------------------------------------------------------------------------------- */

static const char *function_name(DimOp op) {
    switch (op) {
    case DIM_CEILDIV: return "ceildiv";
    case DIM_MOD: return "mod";
    case DIM_MIN: return "min";
    case DIM_MAX: return "max";
    default: return NULL;
    }
}

/* Quoted where it would read as something else. */
static void print_name(Str name, Text *out) {
    for (DimOp op = DIM_SYMBOL; op <= DIM_MAX; op++) {
        const char *word = function_name(op);
        if (!word || !str_equal(name, str_of(word))) continue;
        spell_quoted(out, name);
        return;
    }
    spell_name(out, name);
}

enum { IN_SUM, IN_PRODUCT, IN_FACTOR };

/* `place` is what the operand stands in: parentheses where it binds less. Recursion is bounded by DEPTH_MAX. */
static void print_at(const DimTable *table, Dim d, int place, Text *out) {
    const DimExpr *e = dim_expr(table, d);
    if (!e) {
        if (d == DIM_UNKNOWN) text_puts(out, "?");
        else text_printf(out, "%lld", (long long)d);
        return;
    }
    if (e->op == DIM_SYMBOL) {
        print_name(e->name, out);
        return;
    }
    const char *function = function_name(e->op);
    if (function) {
        text_printf(out, "%s(", function);
        print_at(table, e->a, IN_SUM, out);
        text_puts(out, ", ");
        print_at(table, e->b, IN_SUM, out);
        text_puts(out, ")");
        return;
    }
    bool sum = e->op == DIM_ADD || e->op == DIM_SUB;
    bool parentheses = place > (sum ? IN_SUM : IN_PRODUCT);
    if (parentheses) text_puts(out, "(");
    print_at(table, e->a, sum ? IN_SUM : IN_PRODUCT, out);
    text_puts(out, e->op == DIM_ADD ? " + " : e->op == DIM_SUB ? " - " : e->op == DIM_MUL ? "*" : "/");
    print_at(table, e->b, sum ? IN_PRODUCT : IN_FACTOR, out);
    if (parentheses) text_puts(out, ")");
}

void dim_print(const DimTable *table, Dim d, Text *out) { print_at(table, d, IN_SUM, out); }
