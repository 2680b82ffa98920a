/* SPDX-License-Identifier: Apache-2.0 */
/* Shapes and types: interning, merging and text. */
#include "ir/ir_int.h"
#include "ir/text_int.h"

/* Sequences of optionals of sequences ...: as deep as this, so recursion over types is safe. */
enum { TYPE_DEPTH_MAX = 64 };

bool shape_equal(const Shape *a, const Shape *b) {
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (a->dims[i] != b->dims[i]) return false;
    return true;
}

bool shape_is_known(const Shape *s) {
    for (int i = 0; i < s->rank; i++)
        if (s->dims[i] < 0) return false;
    return s->rank >= 0;
}

Shape shape_make(int rank, const int64_t *dims) {
    Shape s = {.rank = rank};
    for (int i = 0; i < rank; i++) s.dims[i] = dims[i];
    return s;
}

Shape shape_unknown(void) { return (Shape){.rank = -1}; }

/* ---- interning ----------------------------------------------------------------------------------------------- */

static bool layout_equal(const Layout *a, const Layout *b) {
    if (a == b) return true;
    if (!a || !b) return false;
    return a->rank == b->rank && a->block == b->block && (a->block == 0 || a->block_axis == b->block_axis) &&
           memcmp(a->perm, b->perm, (size_t)a->rank) == 0;
}

static bool quant_equal(const Quant *a, const Quant *b) {
    if (a == b) return true;
    if (!a || !b) return false;
    if (a->axis != b->axis || a->block != b->block || a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if ((a->zeros ? a->zeros[i] : 0) != (b->zeros ? b->zeros[i] : 0)) return false;
    return a->n == 0 || memcmp(a->scales, b->scales, a->n * sizeof *a->scales) == 0;
}

static bool type_equal(const Type *a, const Type *b) {
    return a->hash == b->hash && a->kind == b->kind && a->dtype == b->dtype && shape_equal(&a->shape, &b->shape) &&
           a->elem == b->elem && layout_equal(a->layout, b->layout) && quant_equal(a->quant, b->quant);
}

static uint64_t hash_more(uint64_t h, const void *data, size_t n) {
    uint64_t pair[2] = {h, hash_bytes(data, n)};
    return hash_bytes(pair, sizeof pair);
}

static uint64_t hash_type(const Type *t) {
    int64_t head[5] = {t->kind, t->dtype, t->shape.rank, (int64_t)(uintptr_t)t->elem, 0};
    if (t->layout) head[4] = t->layout->block + 1;
    uint64_t h = hash_bytes(head, sizeof head);
    if (t->shape.rank > 0) h = hash_more(h, t->shape.dims, (size_t)t->shape.rank * sizeof(Dim));
    if (t->layout) h = hash_more(h, t->layout->perm, (size_t)t->layout->rank);
    if (t->quant) h = hash_more(h, t->quant->scales, t->quant->n * sizeof(float));
    return h;
}

static tn_status copy_layout(Arena *arena, const Layout *layout, const Layout **out) {
    Layout *copy = arena_new(arena, Layout);
    if (!copy) return TN_OUT_OF_MEMORY;
    *copy = *layout;
    *out = copy;
    return TN_OK;
}

static tn_status copy_quant(Arena *arena, const Quant *quant, const Quant **out) {
    Quant *copy = arena_new(arena, Quant);
    float *scales = arena_array(arena, float, quant->n);
    int64_t *zeros = arena_array(arena, int64_t, quant->n);
    if (!copy || !scales || !zeros) return TN_OUT_OF_MEMORY;
    *copy = *quant;
    if (quant->n) memcpy(scales, quant->scales, quant->n * sizeof *scales);
    if (quant->n && quant->zeros) memcpy(zeros, quant->zeros, quant->n * sizeof *zeros);
    copy->scales = scales;
    copy->zeros = zeros;
    *out = copy;
    return TN_OK;
}

static uint32_t *find_slot(Model *model, const Type *type) {
    size_t mask = model->n_type_slots - 1;
    for (size_t i = type->hash & mask;; i = (i + 1) & mask) {
        uint32_t *slot = &model->type_slots[i];
        if (!*slot || type_equal(model->types.data[*slot - 1], type)) return slot;
    }
}

static bool grow_slots(Model *model) {
    if (model->n_type_slots >= 2 * (model->types.len + 1)) return true;
    size_t n = model->n_type_slots ? model->n_type_slots * 2 : 16;
    uint32_t *slots = mem_alloc(model_allocator(model), n * sizeof *slots, alignof(uint32_t));
    if (!slots) return false;
    mem_free(model_allocator(model), model->type_slots, model->n_type_slots * sizeof *slots);
    model->type_slots = slots;
    model->n_type_slots = n;
    for (size_t i = 0; i < model->types.len; i++) *find_slot(model, model->types.data[i]) = (uint32_t)i + 1;
    return true;
}

static const Type *add_type(Model *model, const Type *key, uint32_t *slot) {
    Type *copy = arena_new(&model->arena, Type);
    if (!copy) return NULL;
    *copy = *key;
    if (key->layout && copy_layout(&model->arena, key->layout, &copy->layout) != TN_OK) return NULL;
    if (key->quant && copy_quant(&model->arena, key->quant, &copy->quant) != TN_OK) return NULL;
    if (vec_push(model_allocator(model), &model->types, copy) != TN_OK) return NULL;
    *slot = (uint32_t)model->types.len;
    return copy;
}

/* What does not count is cleared, so that equal types look equal. */
static Type normal_form(const Type *type) {
    Type key = *type;
    bool tensor = type->kind == TYPE_TENSOR;
    if (!tensor) {
        key.shape = shape_unknown();
        key.layout = NULL;
        key.quant = NULL;
        if (type->kind != TYPE_MAP) key.dtype = TN_UNDEFINED;
    } else {
        key.elem = NULL;
    }
    for (int i = key.shape.rank < 0 ? 0 : key.shape.rank; i < TN_MAX_RANK; i++) key.shape.dims[i] = 0;
    key.hash = hash_type(&key);
    return key;
}

const Type *type_intern(Model *model, const Type *type) {
    int depth = 0;
    for (const Type *t = type; t; t = t->elem) depth++;
    if (depth > TYPE_DEPTH_MAX) {
        fail(TN_LIMIT, "a type is nested more than %d deep", TYPE_DEPTH_MAX);
        return NULL;
    }
    Type key = normal_form(type);
    if (!grow_slots(model)) return NULL;
    uint32_t *slot = find_slot(model, &key);
    return *slot ? model->types.data[*slot - 1] : add_type(model, &key, slot);
}

const Type *type_tensor(Model *model, tn_dtype dtype, const Shape *shape) {
    Type type = {.kind = TYPE_TENSOR, .dtype = dtype, .shape = *shape};
    return type_intern(model, &type);
}

const Type *type_of_kind(Model *model, TypeKind kind, const Type *elem) {
    Type type = {.kind = kind, .shape = shape_unknown(), .elem = elem};
    return type_intern(model, &type);
}

/* ---- merging ------------------------------------------------------------------------------------------------- */

static tn_status contradiction(const Model *model, const Type *a, const Type *b) {
    Text text;
    text_init(&text, model_allocator(model));
    type_print(model, a, &text);
    text_puts(&text, " and ");
    type_print(model, b, &text);
    tn_status status = text.status == TN_OK ? fail(TN_SHAPE, "the types %s contradict each other", text.s)
                                            : text.status;
    text_free(&text);
    return status;
}

/* Unknown gives way, then a symbol to a number; of two expressions the first, which was declared, stays. */
static bool merge_dim(Dim a, Dim b, Dim *out) {
    *out = a == DIM_UNKNOWN || (!dim_is_const(a) && dim_is_const(b)) ? b : a;
    return !(dim_is_const(a) && dim_is_const(b) && a != b);
}

static bool merge_shape(const Shape *a, const Shape *b, Shape *out) {
    *out = a->rank < 0 ? *b : *a;
    if (a->rank < 0 || b->rank < 0) return true;
    if (a->rank != b->rank) return false;
    for (int i = 0; i < a->rank; i++)
        if (!merge_dim(a->dims[i], b->dims[i], &out->dims[i])) return false;
    return true;
}

static bool says_nothing(const Type *t) {
    return t->kind == TYPE_TENSOR && t->dtype == TN_UNDEFINED && t->shape.rank < 0 && !t->layout && !t->quant;
}

/* Recursion is bounded by TYPE_DEPTH_MAX. */
tn_status type_merge(Model *model, const Type *a, const Type *b, const Type **out) {
    *out = a;
    if (a == b || says_nothing(b)) return TN_OK;
    if (says_nothing(a)) {
        *out = b;
        return TN_OK;
    }
    Type merged = *a;
    if (a->kind != b->kind) return contradiction(model, a, b);
    if (a->dtype != TN_UNDEFINED && b->dtype != TN_UNDEFINED && a->dtype != b->dtype) return contradiction(model, a, b);
    if (a->dtype == TN_UNDEFINED) merged.dtype = b->dtype;
    if (a->kind == TYPE_TENSOR) {
        if (!merge_shape(&a->shape, &b->shape, &merged.shape)) return contradiction(model, a, b);
        if (!a->layout) merged.layout = b->layout;
        if (!a->quant) merged.quant = b->quant;
    } else if (!a->elem) {
        merged.elem = b->elem;
    } else if (b->elem) {
        TRY(type_merge(model, a->elem, b->elem, &merged.elem));
    }
    const Type *interned = type_intern(model, &merged);
    if (!interned) return TN_OUT_OF_MEMORY; /* it is nested no deeper than the two */
    *out = interned;
    return TN_OK;
}

/* ---- text ---------------------------------------------------------------------------------------------------- */

static void print_layout(const Layout *l, Text *out) {
    text_puts(out, " @[");
    for (int i = 0; i < l->rank; i++) text_printf(out, "%s%d", i ? "," : "", l->perm[i]);
    if (l->block) text_printf(out, ";%d:%lld", l->block_axis, (long long)l->block);
    text_puts(out, "]");
}

static bool any_zero_point(const Quant *q) {
    for (size_t i = 0; i < q->n; i++)
        if (q->zeros[i]) return true;
    return false;
}

static void print_quant(const Quant *q, Text *out) {
    text_puts(out, " quant(scale=[");
    for (size_t i = 0; i < q->n; i++) {
        if (i) text_puts(out, ",");
        spell_float(out, q->scales[i]);
    }
    text_puts(out, "]");
    if (any_zero_point(q)) {
        for (size_t i = 0; i < q->n; i++) text_printf(out, "%s%lld", i ? "," : ", zero=[", (long long)q->zeros[i]);
        text_puts(out, "]");
    }
    if (q->axis >= 0) text_printf(out, ", axis=%d", q->axis);
    if (q->block > 0) text_printf(out, ", block=%lld", (long long)q->block);
    text_puts(out, ")");
}

static void print_tensor_type(const Model *model, const Type *type, Text *out) {
    text_puts(out, dtype_name(type->dtype));
    text_puts(out, type->shape.rank < 0 ? "[*" : "[");
    for (int i = 0; i < type->shape.rank; i++) {
        if (i) text_puts(out, ",");
        dim_print(&model->dims, type->shape.dims[i], out);
    }
    text_puts(out, "]");
    if (type->layout) print_layout(type->layout, out);
    if (type->quant) print_quant(type->quant, out);
}

/* Recursion is bounded by TYPE_DEPTH_MAX. */
void type_print(const Model *model, const Type *type, Text *out) {
    switch (type->kind) {
    case TYPE_TENSOR:
        if (says_nothing(type)) text_puts(out, "?");
        else print_tensor_type(model, type, out);
        return;
    case TYPE_SEQUENCE: text_puts(out, "seq("); break;
    case TYPE_OPTIONAL: text_puts(out, "opt("); break;
    case TYPE_MAP: text_printf(out, "map(%s, ", dtype_name(type->dtype)); break;
    }
    if (type->elem) type_print(model, type->elem, out);
    else text_puts(out, "?");
    text_puts(out, ")");
}
