/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers: of operands whose contents have a meaning, and of all others. */
#include "rewrite/prove_int.h"

#include <math.h>
#include <stdio.h>

/* ---- lists --------------------------------------------------------------------------------------------------- */

static bool fill_ints(Ask *a, int i, const int64_t *from, size_t n) {
    Slot *slot = &a->in[i];
    int64_t *data = arena_array(&a->s->arena, int64_t, n + 1);
    if (!data) a->s->failed = TN_OUT_OF_MEMORY;
    if (!data || slot->filled || slot->state != SLOT_FREE) return data != NULL;
    if (n) memcpy(data, from, n * sizeof *data);
    slot->fill = (Fill){.kind = FILL_INTS, .n = n, .ints = data};
    slot->filled = true;
    slot_set(slot, 1, &(int64_t){(int64_t)n});
    return true;
}

static bool fill_number(Ask *a, int i, double number) {
    Slot *slot = &a->in[i];
    if (slot->filled || slot->state != SLOT_FREE) return true;
    if (slot->rank < 0) slot_set(slot, 0, NULL);
    for (int k = 0; k < slot->rank; k++)
        if (slot->dims[k] < 0) slot->dims[k] = 1;
    slot->fill = (Fill){.kind = FILL_NUMBER, .number = number};
    return slot->filled = true;
}

static bool fill_kind(Ask *a, int i, FillKind kind, int64_t low, int64_t high) {
    Slot *slot = &a->in[i];
    if (slot->state != SLOT_FREE || slot->filled) return true;
    slot->fill = (Fill){.kind = kind, .low = low, .high = high};
    return slot->filled = true;
}

/* Contents that are there already, chosen or computed: of a list of integers. */
static bool known_ints(const Ask *a, int i, const int64_t **out, size_t *n) {
    if (!slot_there(a, i)) return false;
    const Slot *slot = &a->in[i];
    if (slot->state == SLOT_FREE) {
        *out = slot->fill.ints;
        *n = slot->fill.n;
        return slot->filled && slot->fill.kind == FILL_INTS;
    }
    int64_t count;
    int64_t *data = arena_array(&a->s->arena, int64_t, 64);
    if (!data || tensor_ints(&a->s->known[slot->value], data, 64, &count) != TN_OK) {
        diag_clear();
        return false;
    }
    *out = data;
    *n = (size_t)count;
    return true;
}

/* Some of the axes of operand 0, some of them negative. */
static size_t some_axes(Ask *a, int rank, int64_t *axes, int64_t least, int64_t most) {
    Dice *dice = &a->s->dice;
    int64_t n = dice_int(dice, least, min_i64(most, rank)), order[TN_MAX_RANK];
    if (rank < 1 || rank > TN_MAX_RANK || least > rank) return 0;
    for (int i = 0; i < rank; i++) order[i] = i;
    for (int64_t i = rank - 1; i > 0; i--) {
        int64_t k = dice_int(dice, 0, i), t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
    if (n == 1 && dice_chance(dice, 40)) order[0] = rank - 1;
    for (int64_t i = 0; i < n; i++) axes[i] = order[i] - (dice_chance(dice, 40) ? rank : 0);
    return (size_t)n;
}

static bool data_axes(Ask *a, int i) {
    int64_t axes[TN_MAX_RANK], kept[TN_MAX_RANK];
    const Slot *x = &a->in[0];
    bool squeeze = strcmp(a->op->name, "Squeeze") == 0, unsqueeze = strcmp(a->op->name, "Unsqueeze") == 0;
    int more = (int)dice_int(&a->s->dice, 1, 2);
    if (unsqueeze && x->rank + more > INSTANCE_RANK) return false;
    size_t n = some_axes(a, x->rank + (unsqueeze ? more : 0), axes, unsqueeze ? more : 1, unsqueeze ? more : 8), m = 0;
    for (size_t k = 0; k < n; k++)
        if (!squeeze || x->dims[axes[k] < 0 ? axes[k] + x->rank : axes[k]] == 1) kept[m++] = axes[k];
    return m > 0 && fill_ints(a, i, kept, m);
}

static int64_t count_of(const Slot *x) {
    int64_t n = 1;
    for (int i = 0; i < x->rank; i++) n *= x->dims[i];
    return n;
}

/* A shape that some value has already, of as many elements. */
static bool earlier_shape(Ask *a, int i, int64_t count, uint32_t ranks) {
    const Instance *x = a->s->instance;
    int64_t at = dice_int(&a->s->dice, 0, x->n_values);
    for (int k = 0; k < x->n_values; k++) {
        const Tensor *t = &a->s->known[(at + k) % x->n_values];
        if (tensor_count(t) == count && ranks >> t->rank & 1) return fill_ints(a, i, t->dims, (size_t)t->rank);
    }
    return false;
}

/* A number whose square goes into n, mostly more than 1 where there is one. */
static int64_t some_root(Dice *dice, int64_t n) {
    int64_t most = 1, root;
    while ((most + 1) * (most + 1) <= n) most++;
    root = dice_int(dice, most > 1 ? 2 : 1, most);
    while (root > 1 && n % (root * root)) root--;
    return root;
}

/* Of a shape that is known in part the rest, which is so many elements: two of its sizes are often the same. */
static bool complete(Dice *dice, int64_t *dims, int rank, int64_t rest) {
    int open[TN_MAX_RANK], n = 0;
    for (int k = 0; k < rank; k++)
        if (dims[k] < 0) open[n++] = k;
    if (n == 0 || rest < 1) return n == 0 && rest == 1;
    if (n > 1 && dice_chance(dice, 75)) {
        int at = (int)dice_int(dice, 0, n - 2);
        int64_t root = some_root(dice, rest);
        dims[open[at]] = dims[open[at + 1]] = root;
        rest /= root * root;
        for (n -= 2; at < n; at++) open[at] = open[at + 2];
        if (n == 0) return rest == 1;
    }
    for (int k = 0; k < n; k++) {
        int64_t part = k == n - 1 ? rest : dice_int(dice, 1, rest);
        while (rest % part) part--;
        dims[open[k]] = part;
        rest /= part;
    }
    return true;
}

/* What conditions say of the result. */
static bool aimed_at(Ask *a, int64_t *dims, int64_t count) {
    const Slot *aim = &a->aim;
    int64_t known = 1;
    if (aim->rank < 1) return false;
    for (int k = 0; k < aim->rank; k++) {
        dims[k] = aim->dims[k];
        if (dims[k] >= 0) known *= dims[k];
    }
    return known > 0 && count % known == 0 && complete(&a->s->dice, dims, aim->rank, count / known);
}

/* Sizes that come out somehow, some of them those of the operand. */
static void any_sizes(Ask *a, int64_t *dims, int rank, int64_t left) {
    const Slot *x = &a->in[0];
    Dice *dice = &a->s->dice;
    bool copies = dice_chance(dice, 60);
    for (int k = 0; k < rank; k++) {
        int64_t part = left > 0 ? dice_int(dice, 1, left) : 0;
        while (part > 0 && left % part) part--;
        if (copies && k < x->rank && x->dims[k] > 0 && left % x->dims[k] == 0 && dice_chance(dice, 60))
            part = x->dims[k];
        dims[k] = k == rank - 1 ? left : part;
        left = part > 0 ? left / part : 0;
    }
}

static bool data_reshape(Ask *a, int i) {
    const Slot *x = &a->in[0];
    Dice *dice = &a->s->dice;
    int64_t dims[TN_MAX_RANK], left = count_of(x);
    uint32_t ranks = a->ranks ? a->ranks : (2u << INSTANCE_RANK) - 1;
    Slot wanted = {.rank = a->want.rank};
    for (int k = 0; k < wanted.rank; k++) wanted.dims[k] = a->want.dims[k];
    if (a->wanted && count_of(&wanted) == left) return fill_ints(a, i, wanted.dims, (size_t)wanted.rank);
    if (dice_chance(dice, 30) && earlier_shape(a, i, left, ranks)) return true;
    bool aimed = dice_chance(dice, 80) && aimed_at(a, dims, left);
    int rank = aimed ? a->aim.rank : some_rank(a->s, ranks);
    if (rank < 0 || (rank == 0 && left != 1)) return false;
    if (!aimed) any_sizes(a, dims, rank, left);
    bool zero = count_of(x) == 0 || ask_int(a, "allowzero"); /* what 0 means there is another thing */
    for (int k = 0; k < rank && k < x->rank && !zero; k++)
        if (dims[k] == x->dims[k] && dice_chance(dice, 30)) dims[k] = 0;
    if (rank > 0 && !zero && dice_chance(dice, 40)) dims[dice_int(dice, 0, rank - 1)] = -1;
    return fill_ints(a, i, dims, (size_t)rank);
}

static bool data_expand(Ask *a, int i) {
    const Slot *x = &a->in[0];
    int64_t dims[TN_MAX_RANK];
    int more = dice_chance(&a->s->dice, 30) && x->rank < 5 ? 1 : 0, rank = x->rank + more;
    if (a->wanted && a->want.rank >= x->rank && dice_chance(&a->s->dice, 60))
        return fill_ints(a, i, a->want.dims, (size_t)a->want.rank);
    for (int k = 0; k < rank; k++) {
        int64_t d = k < more ? some_size(a->s) : x->dims[k - more];
        dims[k] = d == 1 && dice_chance(&a->s->dice, 70)      ? some_size(a->s)
                  : dice_chance(&a->s->dice, 15) && k >= more ? 1
                                                              : d;
    }
    return fill_ints(a, i, dims, (size_t)rank);
}

static bool data_sizes(Ask *a, int i) {
    int64_t dims[TN_MAX_RANK];
    int rank = slot_there(a, 0) && i > 0 ? a->in[0].rank : (int)dice_int(&a->s->dice, 0, 4);
    for (int k = 0; k < rank; k++) dims[k] = some_size(a->s);
    return fill_ints(a, i, dims, (size_t)rank);
}

/* As many as the result that is wanted has, where that is possible. */
static bool data_repeats(Ask *a, int i) {
    int64_t list[TN_MAX_RANK];
    const Slot *x = &a->in[0];
    bool wanted = a->wanted && a->want.rank == x->rank && dice_chance(&a->s->dice, 60);
    for (int k = 0; k < x->rank; k++) {
        bool fits = wanted && x->dims[k] > 0 && a->want.dims[k] % x->dims[k] == 0;
        list[k] = fits ? a->want.dims[k] / x->dims[k] : dice_int(&a->s->dice, 1, 3);
    }
    return fill_ints(a, i, list, (size_t)x->rank);
}

/* Which axes an operand of axes says, all when it is absent. */
static bool axes_of(Ask *a, int i, int64_t *axes, size_t *n) {
    const int64_t *known;
    int rank = a->in[0].rank;
    if (rank < 0) return false;
    if (slot_there(a, i)) {
        if (!known_ints(a, i, &known, n) || *n > TN_MAX_RANK) return false;
        for (size_t k = 0; k < *n; k++) axes[k] = known[k] < 0 ? known[k] + rank : known[k];
    } else
        for (*n = 0; *n < (size_t)rank; ++*n) axes[*n] = (int64_t)*n;
    for (size_t k = 0; k < *n; k++)
        if (axes[k] < 0 || axes[k] >= rank) return false;
    return true;
}

static size_t list_length(const Ask *a, int from, int to) {
    const int64_t *list;
    size_t n = 0;
    for (int i = from; i <= to; i++)
        if (known_ints(a, i, &list, &n)) return n;
    return 0;
}

/* Starts, ends, axes and steps are of one length. */
static bool data_slice(Ask *a, int i) {
    int64_t axes[TN_MAX_RANK], starts[TN_MAX_RANK], ends[TN_MAX_RANK], steps[TN_MAX_RANK];
    const Slot *x = &a->in[0];
    Dice *dice = &a->s->dice;
    size_t n, length = list_length(a, 1, 4);
    (void)i;
    if (slot_open(a, 3) && !a->in[3].filled) {
        int64_t most = length ? (int64_t)length : dice_int(dice, 1, 2);
        n = some_axes(a, x->rank, axes, length ? most : 1, most);
        if (!n || !fill_ints(a, 3, axes, n)) return false;
    }
    if (!axes_of(a, 3, axes, &n) || (length && length > n)) return false;
    if (length && !slot_there(a, 3)) n = length;
    bool steps_there = slot_there(a, 4);
    for (size_t k = 0; k < n; k++) {
        int64_t d = x->dims[axes[k]];
        bool back = steps_there && dice_chance(dice, 25);
        steps[k] = steps_there && dice_chance(dice, 50) ? dice_int(dice, 1, 3) : 1;
        bool nothing = dice_chance(dice, 5);
        int64_t from = nothing ? d : dice_int(dice, 0, max_i64(0, d - 1)),
                to = dice_chance(dice, 30) ? INT64_MAX : dice_int(dice, from, d);
        starts[k] = dice_chance(dice, 30) && from < d ? from - d : from;
        ends[k] = to > d || dice_chance(dice, 60) ? to : to - d - (to == d);
        if (back) steps[k] = -steps[k], starts[k] = -1, ends[k] = INT64_MIN + 1;
    }
    bool i32 = a->in[1].dtype == TN_I32;
    for (size_t k = 0; k < n && i32; k++) {
        ends[k] = min_i64(max_i64(ends[k], INT32_MIN + 1), INT32_MAX);
    }
    return fill_ints(a, 1, starts, n) && fill_ints(a, 2, ends, n) && (!steps_there || fill_ints(a, 4, steps, n));
}

static bool data_pads(Ask *a, int i) {
    int64_t axes[TN_MAX_RANK], list[2 * TN_MAX_RANK];
    size_t n;
    if (slot_open(a, 3) && !a->in[3].filled) {
        n = some_axes(a, a->in[0].rank, axes, 1, 8);
        if (!n || !fill_ints(a, 3, axes, n)) return false;
    }
    if (!axes_of(a, 3, axes, &n)) return false;
    const Attr *mode = ask_attr(a, "mode");
    bool plain = !mode || str_equal(mode->s, STR("constant")), spatial = dice_chance(&a->s->dice, 50);
    for (size_t k = 0; k < 2 * n; k++) {
        int64_t d = a->in[0].dims[axes[k % n]];
        list[k] = spatial && axes[k % n] < 2 ? 0
                  : plain                    ? dice_int(&a->s->dice, dice_chance(&a->s->dice, 10) && d > 2 ? -1 : 0, 2)
                                             : dice_int(&a->s->dice, 0, max_i64(0, min_i64(2, d - 1)));
    }
    if (slot_open(a, 2)) slot_set(&a->in[2], 0, NULL);
    return fill_ints(a, i, list, 2 * n);
}

static bool data_split(Ask *a, int i) {
    int64_t list[OP_MAX_OUTPUTS], axis = ask_int(a, "axis"), left;
    const Slot *x = &a->in[0];
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank || a->n_out < 1) return false;
    left = x->dims[axis];
    bool equal = left % a->n_out == 0 && dice_chance(&a->s->dice, 60);
    for (int k = 0; k < a->n_out; k++) {
        list[k] = k == a->n_out - 1 ? left : equal ? x->dims[axis] / a->n_out : dice_int(&a->s->dice, 0, left);
        left -= list[k];
    }
    return fill_ints(a, i, list, (size_t)a->n_out);
}

/* Either scales or sizes. */
static bool data_resize(Ask *a, int i) {
    static const double scales[] = {1, 2, 0.5, 1.5, 3, 4};
    const Slot *x = &a->in[0];
    double *list = arena_array(&a->s->arena, double, TN_MAX_RANK);
    if (!list) a->s->failed = TN_OUT_OF_MEMORY;
    if (!list || a->in[i].filled || x->rank < 0) return list && x->rank >= 0;
    bool spatial = dice_chance(&a->s->dice, 80);
    for (int k = 0; k < x->rank; k++)
        list[k] = spatial && k < 2 && x->rank > 2 ? 1 : scales[dice_int(&a->s->dice, 0, 5)];
    a->in[i].fill = (Fill){.kind = FILL_FLOATS, .n = (size_t)x->rank, .floats = list};
    a->in[i].filled = true;
    slot_set(&a->in[i], 1, &(int64_t){x->rank});
    return true;
}

static bool data_new_sizes(Ask *a, int i) {
    int64_t dims[TN_MAX_RANK];
    if (a->in[0].rank < 0) return false;
    for (int k = 0; k < a->in[0].rank; k++) dims[k] = k < 2 ? a->in[0].dims[k] : dice_int(&a->s->dice, 1, 6);
    return fill_ints(a, i, dims, (size_t)a->in[0].rank);
}

static bool data_roi(Ask *a, int i) {
    slot_set(&a->in[i], 1, &(int64_t){0});
    return fill_kind(a, i, FILL_NUMBER, 0, 0);
}

/* ---- single numbers ------------------------------------------------------------------------------------------ */

static bool data_indices(Ask *a, int i) {
    int64_t axis = ask_int(a, "axis"), d;
    const Slot *x = &a->in[0];
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank || (d = x->dims[axis]) == 0) return false;
    return fill_kind(a, i, FILL_RANGE, dice_chance(&a->s->dice, 40) ? -d : 0, d - 1);
}

static bool data_positions(Ask *a, int i) {
    int cache = strcmp(a->op->name, "RotaryEmbedding") == 0 && !a->op->domain ? 1 : 2;
    return slot_there(a, cache) && a->in[cache].rank > 0 && fill_kind(a, i, FILL_RANGE, 0, a->in[cache].dims[0] - 1);
}

static bool data_k(Ask *a, int i) {
    int64_t axis = ask_int(a, "axis");
    const Slot *x = &a->in[0];
    bool diagonal = strcmp(a->op->name, "Trilu") == 0;
    if (diagonal) return fill_number(a, i, (double)dice_int(&a->s->dice, -2, 2));
    if (axis < 0) axis += x->rank;
    if (axis < 0 || axis >= x->rank) return false;
    int64_t k = dice_int(&a->s->dice, 1, x->dims[axis]);
    return fill_ints(a, i, &k, 1);
}

static bool data_axis(Ask *a, int i) {
    int rank = a->in[0].rank;
    return fill_number(a, i, (double)dice_int(&a->s->dice, -rank, rank - 1));
}

static bool data_low(Ask *a, int i) {
    return fill_number(a, i, dice_chance(&a->s->dice, 50) ? 0 : (double)dice_int(&a->s->dice, -3, 3));
}
static bool data_high(Ask *a, int i) {
    return fill_number(a, i, dice_chance(&a->s->dice, 40) ? 6 : (double)dice_int(&a->s->dice, -2, 4));
}
static bool data_no(Ask *a, int i) { return fill_number(a, i, 0); }
static bool data_half(Ask *a, int i) { return fill_number(a, i, 0.5); }
static bool data_few(Ask *a, int i) { return fill_number(a, i, (double)dice_int(&a->s->dice, 1, 5)); }
/* One number that a slot holds. */
static bool known_number(const Ask *a, int i, double *out) {
    const Slot *slot = &a->in[i];
    const Tensor *t = slot->value >= 0 ? &a->s->known[slot->value] : NULL;
    if (slot->filled && slot->fill.kind == FILL_NUMBER) *out = slot->fill.number;
    else if (t && tensor_count(t) == 1) load_f64(out, t->dtype, t->data, t->offset, 1, 1);
    else return false;
    return true;
}

/* As far apart as the result that is wanted is long. */
static bool data_limit(Ask *a, int i) {
    double start;
    if (a->wanted && a->want.rank == 1 && known_number(a, 0, &start))
        return fill_number(a, i, start + (double)a->want.dims[0]);
    return data_few(a, i);
}
static bool data_start(Ask *a, int i) {
    double limit;
    if (a->wanted && a->want.rank == 1 && known_number(a, 1, &limit))
        return fill_number(a, i, limit - (double)a->want.dims[0]);
    return fill_number(a, i, (double)dice_int(&a->s->dice, -3, 0));
}
static bool data_variance(Ask *a, int i) { return fill_kind(a, i, FILL_VARIANCE, 0, 0); }
static bool data_scale(Ask *a, int i) { return fill_kind(a, i, FILL_SCALE, 0, 0); }

static bool data_holes(Ask *a, int i) { return fill_kind(a, i, FILL_HOLES, 0, 0); }

/* Of the left side, the node that reads a value as operand 0; NULL: none, or it is another op. */
static const RuleNode *reader(const Sampler *s, int value, const char *op) {
    for (size_t k = 0; k < s->rule->n_match; k++) {
        const RuleNode *node = &s->rule->match[k];
        bool reads = node->n_operands && node->operands[0].kind == OPERAND_VALUE && node->operands[0].value == value;
        if (reads && strcmp(s->ops[k]->name, op) == 0) return node;
    }
    return NULL;
}

/* What is added to scores of attention hides some of them; all of a row where that is guarded against. */
static bool data_mask(Ask *a, int i) {
    const RuleNode *softmax = i == 1 ? reader(a->s, a->rule->results[0], "Softmax") : NULL;
    if (!softmax || !dtype_is_float(a->in[i].dtype)) return true;
    bool guarded = reader(a->s, softmax->results[0], "IsNaN"),
         weights = guarded || reader(a->s, softmax->results[0], "MatMul");
    if (!weights || !slot_shaped(&a->in[i]) || !dice_chance(&a->s->dice, 50)) return true;
    return fill_kind(a, i, guarded ? FILL_ROWS : FILL_MASK, dice_int(&a->s->dice, 0, 2), 0);
}

/* Now and then integers whose squares sum up to one less than a square, which roots of floats do not tell from it, or to
   nearly 2^64. */
static bool data_lengths(Ask *a, int i) {
    static const int64_t most[] = {4294967295, 92681, 370, 173};
    Slot *slot = &a->in[i];
    tn_dtype t = slot->dtype;
    bool wide = t == TN_I64 || t == TN_U64, whole = wide || t == TN_I32 || t == TN_U32;
    if (slot->state != SLOT_FREE || slot->filled || !whole || slot->rank < 1 || !dice_chance(&a->s->dice, 40))
        return true;
    int64_t columns = slot->dims[slot->rank - 1], x = dice_int(&a->s->dice, 1 << 12, wide ? 46340 : 30000),
            pair[] = {2 * x * x, 2 * x};
    bool all = columns >= 4 && t != TN_I32 && dice_chance(&a->s->dice, 50);
    int64_t *data = arena_array(&a->s->arena, int64_t, 4);
    if (!data) a->s->failed = TN_OUT_OF_MEMORY;
    if (!data) return false;
    memcpy(data, all ? most : pair, all ? sizeof most : sizeof pair);
    slot->fill = (Fill){.kind = FILL_STARTS, .n = all ? 4 : 2, .ints = data};
    return slot->filled = true;
}

/* Where exponentials are summed up by one op; of several ops each its own may overflow. */
static bool data_exponents(Ask *a, int i) {
    bool alone = a->s->rule->n_match == 1 && a->in[i].state == SLOT_FREE && !a->in[i].filled;
    return !alone || !dice_chance(&a->s->dice, 20) || fill_kind(a, i, FILL_FAR, 0, 0);
}

static bool data_zero_point(Ask *a, int i) {
    bool is_signed = dtype_is_signed_int(a->in[i].dtype);
    return fill_kind(a, i, FILL_RANGE, is_signed ? -3 : 0, a->in[i].dtype == TN_I32 ? 0 : 5);
}

/* ---- the table ----------------------------------------------------------------------------------------------- */

static const struct DataRow {
    const char *op, *operand; /* op NULL: of any */
    bool (*draw)(Ask *a, int i);
} rows[] = {
    {"Add", "B", data_mask},
    {"IsNaN", "X", data_holes},
    {"LogSoftmax", "input", data_exponents},
    {"ReduceL2", "data", data_lengths},
    {"ReduceLogSumExp", "data", data_exponents},
    {"Softmax", "input", data_exponents},
    {NULL, "axes", data_axes},
    {"Reshape", "shape", data_reshape},
    {"Expand", "shape", data_expand},
    {"CenterCropPad", "shape", data_sizes},
    {"ConstantOfShape", "input", data_sizes},
    {"Slice", "starts", data_slice},
    {"Slice", "ends", data_slice},
    {"Slice", "steps", data_slice},
    {"Pad", "pads", data_pads},
    {"Tile", "repeats", data_repeats},
    {NULL, "split", data_split},
    {"Resize", "scales", data_resize},
    {"Resize", "sizes", data_new_sizes},
    {"Resize", "roi", data_roi},
    {NULL, "indices", data_indices},
    {NULL, "position_ids", data_positions},
    {NULL, "k", data_k},
    {"TopK", "K", data_k},
    {NULL, "axis", data_axis},
    {"Clip", "min", data_low},
    {"Clip", "max", data_high},
    {NULL, "training_mode", data_no},
    {NULL, "ratio", data_half},
    {NULL, "depth", data_few},
    {"Range", "start", data_start},
    {"Range", "limit", data_limit},
    {"Range", "delta", data_few},
    {NULL, "input_var", data_variance},
};

static bool ends_with(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n >= m && strcmp(name + n - m, end) == 0;
}

static bool (*part_of(const Ask *a, int i))(Ask *a, int i) {
    const char *name = a->in[i].spec ? a->in[i].spec->name : "";
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
        if (rows[k].operand[0] == name[0] && strcmp(rows[k].operand, name) == 0 &&
            (!rows[k].op || strcmp(rows[k].op, a->op->name) == 0))
            return rows[k].draw;
    if (ends_with(name, "_scale")) return data_scale;
    return ends_with(name, "zero_point") ? data_zero_point : NULL;
}

bool has_part(const Ask *a, int i) { return part_of(a, i) != NULL; }

bool ask_contents(Ask *a, int i) {
    Slot *slot = &a->in[i];
    bool (*part)(Ask * a, int i) = part_of(a, i);
    if (!slot->filled && part && !part(a, i)) return false;
    if (slot->filled && slot->rank < 0) slot_set(slot, 0, NULL);
    if (slot_shaped(slot)) return true;
    snprintf(a->s->problem, sizeof a->s->problem, "nothing is known of operand %d of %s", i, a->op->name);
    return false;
}

/* ---- elements ------------------------------------------------------------------------------------------------ */

static double some_real(Sampler *s) {
    Dice *dice = &s->dice;
    double x = dice_unit(dice) * 4 - (s->positive ? 0 : 2);
    if (s->coarse) x = (double)dice_int(dice, s->positive ? 0 : -8, 8) / 4;
    if (s->magnitude == SMALL) x *= 1e-3;
    if (s->magnitude == LARGE) x *= 16;
    if (s->magnitude == MANY_ZEROS && dice_chance(dice, 40)) x = dice_chance(dice, 20) ? -0.0 : 0;
    if (s->instance->odd && dice_chance(dice, 12))
        x = dice_chance(dice, 50) ? NAN : dice_chance(dice, 50) ? INFINITY : -INFINITY;
    return x;
}

/* Such as attributes can hold, which are f32. */
static double some_number(Sampler *s) {
    static const double usual[] = {1, 0.5, 2, -1, 0.25, 1e-5, 3, 0.7, 0, 1e-12};
    if (dice_chance(&s->dice, 70)) return (double)(float)usual[dice_int(&s->dice, 0, 9)];
    return (double)(float)some_real(s);
}

static double masked_real(Sampler *s, const Slot *slot, int64_t i) {
    int64_t columns = slot->rank > 0 ? max_i64(1, slot->dims[slot->rank - 1]) : 1;
    bool row = slot->fill.kind == FILL_ROWS && (i / columns + slot->fill.low) % 3 == 0;
    return row || (i % columns && dice_chance(&s->dice, 30)) ? -INFINITY : some_real(s);
}

static double real_of(Sampler *s, const Slot *slot, int64_t i) {
    const Fill *f = &slot->fill;
    if (!slot->filled) return slot->number ? some_number(s) : some_real(s);
    switch (f->kind) {
    case FILL_NUMBER: return f->number;
    case FILL_INTS: return (double)f->ints[i];
    case FILL_FLOATS: return f->floats[i];
    case FILL_RANGE: return (double)dice_int(&s->dice, f->low, f->high);
    case FILL_VARIANCE:
        return dice_chance(&s->dice, 15)   ? 0
               : dice_chance(&s->dice, 20) ? 1e-6 * dice_unit(&s->dice)
                                           : fabs(some_real(s));
    case FILL_HALVES: return some_real(s);
    case FILL_SCALE: return 0x1p-4 * (double)(1 << dice_int(&s->dice, 0, 5));
    case FILL_FAR: return some_real(s) * 1000;
    case FILL_HOLES: return dice_chance(&s->dice, 20) ? NAN : some_real(s);
    case FILL_MASK:
    case FILL_ROWS: return masked_real(s, slot, i);
    default: return dice_unit(&s->dice);
    }
}

static int64_t start_of_row(Sampler *s, const Slot *slot, int64_t i) {
    int64_t at = i % slot->dims[slot->rank - 1], x = at < (int64_t)slot->fill.n ? slot->fill.ints[at] : 0;
    return dtype_is_signed_int(slot->dtype) && dice_chance(&s->dice, 50) ? -x : x;
}

static int64_t whole_of(Sampler *s, const Slot *slot, int64_t i) {
    bool is_signed = dtype_is_signed_int(slot->dtype);
    if (slot->filled && slot->fill.kind == FILL_INTS) return slot->fill.ints[i];
    if (slot->filled && slot->fill.kind == FILL_STARTS) return start_of_row(s, slot, i);
    if (slot->filled) return (int64_t)real_of(s, slot, i);
    if (slot->dtype == TN_BOOL) return dice_int(&s->dice, 0, 1);
    if (dice_chance(&s->dice, s->magnitude == LARGE ? 40 : 3)) return (int64_t)dice_roll(&s->dice);
    return dice_int(&s->dice, is_signed && !s->positive ? -6 : 0, 6);
}

static bool all_equal(const Sampler *s, const Slot *slot) {
    return !slot->filled && ((s->magnitude == ALL_EQUAL && !slot->number) || slot->number);
}

/* What depends on the place. */
static void arrange(Sampler *s, const Slot *slot, Tensor *t, int64_t n) {
    int64_t columns = slot->rank > 0 ? slot->dims[slot->rank - 1] : 1,
            rows = slot->rank > 1 ? slot->dims[slot->rank - 2] : 1;
    double low = dice_chance(&s->dice, 50) ? -INFINITY : -1e30;
    for (int64_t i = 0; i < n; i++) {
        double x = i % columns > i / columns % rows ? low : 0;
        int64_t from = i % columns >= columns / 2 ? i - columns / 2 : i;
        if (slot->fill.kind == FILL_HALVES) load_f64(&x, t->dtype, t->data, from, 1, 1);
        store_f64(t->dtype, t->data, i, 1, &x, 1);
    }
}

static void fill_reals(Sampler *s, const Slot *slot, Tensor *t, int64_t n) {
    double x[64];
    bool equal = all_equal(s, slot);
    for (int64_t k = 0; k < n; k += 64) {
        int64_t m = min_i64(64, n - k);
        for (int64_t i = 0; i < m; i++) x[i] = k + i > 0 && equal ? x[0] : real_of(s, slot, k + i);
        store_f64(t->dtype, t->data, k, 1, x, m);
    }
    if (slot->filled && slot->fill.kind >= FILL_HALVES) arrange(s, slot, t, n);
}

static void fill_wholes(Sampler *s, const Slot *slot, Tensor *t, int64_t n) {
    int64_t x[64];
    bool equal = all_equal(s, slot);
    for (int64_t k = 0; k < n; k += 64) {
        int64_t m = min_i64(64, n - k);
        for (int64_t i = 0; i < m; i++) x[i] = k + i > 0 && equal ? x[0] : whole_of(s, slot, k + i);
        store_i64(t->dtype, t->data, k, 1, x, m);
    }
}

static tn_status fill_strings(Sampler *s, Tensor *t, int64_t n) {
    static const char *const words[] = {"", "a", "b", "ab"};
    RcString **data = t->data;
    for (int64_t i = 0; i < n; i++)
        TRY(rc_string_new(&s->ctx->allocator, str_of(words[dice_int(&s->dice, 0, 3)]), &data[i]));
    return TN_OK;
}

enum { MAX_ELEMENTS = 1 << 12 };

tn_status leaf_data(Sampler *s, const Slot *slot, Tensor *out) {
    int64_t n;
    TRY(checked_count(slot->rank, slot->dims, &n));
    if (n > MAX_ELEMENTS) return fail(TN_LIMIT, "too large for an instance");
    TRY(tensor_new(s->ctx, slot->dtype, slot->rank, slot->dims, out));
    tn_status status = TN_OK;
    if (slot->dtype == TN_STRING) status = fill_strings(s, out, n);
    else if (dtype_is_float(slot->dtype)) fill_reals(s, slot, out, n);
    else if (dtype_is_complex(slot->dtype))
        for (int64_t i = 0; i < n; i++) {
            double pair[2] = {some_real(s), some_real(s)};
            store_c128(slot->dtype, out->data, i, 1, pair, 1);
        }
    else fill_wholes(s, slot, out, n);
    if (status != TN_OK) tensor_release(out);
    return status;
}
