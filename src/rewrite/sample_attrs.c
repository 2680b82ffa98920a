/* SPDX-License-Identifier: Apache-2.0 */
/* Attributes that a rule leaves open: by name, mostly the same for all ops. */
#include "rewrite/prove_int.h"

#include <stdlib.h>

/* ---- what there is ------------------------------------------------------------------------------------------- */

const Attr *ask_attr(const Ask *a, const char *name) {
    for (size_t i = 0; i < a->n_attrs; i++)
        if (str_equal(a->attrs[i].name, str_of(name))) return &a->attrs[i];
    return NULL;
}

int64_t ask_int(const Ask *a, const char *name) {
    const Attr *attr = ask_attr(a, name);
    const AttrSpec *spec = op_attr_spec(a->op, str_of(name));
    return attr && attr->kind == ATTR_INT ? attr->i : spec ? spec->i : 0;
}

static int index_of(const OpSchema *op, const char *name) {
    for (int i = 0; i < INSTANCE_ATTRS && op_attrs(op)[i].name; i++)
        if (strcmp(op_attrs(op)[i].name, name) == 0) return i;
    return -1;
}

bool ask_is_open(const Ask *a, const char *name) {
    int i = index_of(a->op, name);
    return i >= 0 && a->open >> i & 1;
}

tn_status ask_set(Ask *a, const Attr *attr) {
    int i = index_of(a->op, attr->name.s);
    if (i >= 0) a->open &= ~(1u << i);
    if (a->n_attrs == INSTANCE_ATTRS) return fail(TN_LIMIT, "too many attributes");
    a->attrs[a->n_attrs++] = *attr;
    return TN_OK;
}

static bool set_ints(Ask *a, const char *name, const int64_t *from, size_t n) {
    int64_t *data = arena_array(&a->s->arena, int64_t, n + 1);
    if (data) memcpy(data, from, n * sizeof *data);
    tn_status status = data ? ask_set(a, &(Attr){.name = str_of(name), .kind = ATTR_INTS, .n = n, .ints = data})
                            : TN_OUT_OF_MEMORY;
    if (status != TN_OK) a->s->failed = status;
    return status == TN_OK;
}

static bool set_int(Ask *a, const char *name, int64_t i) {
    tn_status status = ask_set(a, &(Attr){.name = str_of(name), .kind = ATTR_INT, .i = i});
    if (status != TN_OK) a->s->failed = status;
    return status == TN_OK;
}

/* ---- lists --------------------------------------------------------------------------------------------------- */

static int rank_of(const Ask *a, int i) { return i < a->n_in ? a->in[i].rank : -1; }

/* The same op's before: patterns repeat themselves. */
static const Attr *earlier(const Ask *a, const char *name, size_t n) {
    const Instance *x = a->s->instance;
    for (int i = x->n_pieces; i-- > 0;) {
        if (x->pieces[i].op != a->op) continue;
        for (size_t k = 0; k < x->pieces[i].n_attrs; k++) {
            const Attr *attr = &x->pieces[i].attrs[k];
            if (attr->kind == ATTR_INTS && attr->n == n && str_equal(attr->name, str_of(name))) return attr;
        }
    }
    return NULL;
}

static bool repeat(Ask *a, const char *name, size_t n) {
    const Attr *before = dice_chance(&a->s->dice, 40) ? earlier(a, name, n) : NULL;
    return before && set_ints(a, name, before->ints, n);
}

static void shuffle(Dice *dice, int64_t *list, int64_t n) {
    for (int64_t i = n - 1; i > 0; i--) {
        int64_t k = dice_int(dice, 0, i), t = list[i];
        list[i] = list[k];
        list[k] = t;
    }
}

static bool draw_perm(Ask *a, const char *name) {
    int64_t perm[TN_MAX_RANK];
    int n = rank_of(a, 0);
    if (n < 0 || repeat(a, name, (size_t)n)) return n >= 0;
    for (int i = 0; i < n; i++) perm[i] = i;
    if (n >= 2 && dice_chance(&a->s->dice, 25)) perm[n - 1] = n - 2, perm[n - 2] = n - 1;
    else if (dice_chance(&a->s->dice, 95)) shuffle(&a->s->dice, perm, n);
    return set_ints(a, name, perm, (size_t)n);
}

static bool draw_axes(Ask *a, const char *name) {
    int64_t axes[TN_MAX_RANK];
    int rank = rank_of(a, 0);
    if (rank < 1) return false;
    for (int i = 0; i < rank; i++) axes[i] = i;
    shuffle(&a->s->dice, axes, rank);
    int64_t n = dice_int(&a->s->dice, 1, rank);
    for (int64_t i = 0; i < n; i++) axes[i] -= dice_chance(&a->s->dice, 40) ? rank : 0;
    return set_ints(a, name, axes, (size_t)n);
}

/* How many dimensions a window has. */
static int window_rank(const Ask *a) { return rank_of(a, 0) - 2; }

static bool draw_kernel(Ask *a, const char *name) {
    int64_t kernel[TN_MAX_RANK];
    int n = window_rank(a), w = strncmp(a->op->name, "QLinearConv", 11) == 0 ? 3 : 1;
    if (n < 1) return false;
    bool weights = rank_of(a, w) == n + 2;
    if (weights && dice_chance(&a->s->dice, 50)) return true;
    for (int i = 0; i < n; i++) kernel[i] = weights ? a->in[w].dims[2 + i] : dice_int(&a->s->dice, 1, 3);
    return set_ints(a, name, kernel, (size_t)n);
}

static bool draw_ones(Ask *a, const char *name) {
    int64_t list[TN_MAX_RANK];
    int n = window_rank(a);
    if (n < 1 || dice_chance(&a->s->dice, 35)) return n >= 1;
    if (repeat(a, name, (size_t)n)) return true;
    bool ones = dice_chance(&a->s->dice, 40), equal = dice_chance(&a->s->dice, 40);
    for (int i = 0; i < n; i++) list[i] = ones ? 1 : equal && i ? list[0] : dice_int(&a->s->dice, 1, 3);
    return set_ints(a, name, list, (size_t)n);
}

static int64_t window(const Ask *a, int i) {
    const Attr *kernel = ask_attr(a, "kernel_shape"), *spread = ask_attr(a, "dilations");
    int w = strncmp(a->op->name, "QLinearConv", 11) == 0 ? 3 : 1, n = window_rank(a);
    int64_t k = kernel ? kernel->ints[i] : rank_of(a, w) == n + 2 ? a->in[w].dims[2 + i] : 1;
    return (k - 1) * (spread ? spread->ints[i] : 1) + 1;
}

static bool draw_pads(Ask *a, const char *name) {
    int64_t list[2 * TN_MAX_RANK];
    const Attr *automatic = ask_attr(a, "auto_pad");
    int n = window_rank(a);
    if (n < 1 || (automatic && !str_equal(automatic->s, STR("NOTSET")))) return n >= 1;
    if (dice_chance(&a->s->dice, 30) || repeat(a, name, (size_t)n * 2)) return true;
    bool keep = dice_chance(&a->s->dice, 50);
    for (int i = 0; i < n; i++) {
        int64_t most = window(a, i) - 1, more = min_i64(most, 2);
        list[i] = keep ? most / 2 : dice_int(&a->s->dice, 0, more);
        list[n + i] = keep ? most - most / 2 : dice_int(&a->s->dice, 0, more);
    }
    return set_ints(a, name, list, (size_t)n * 2);
}

static bool draw_output_padding(Ask *a, const char *name) {
    int64_t list[TN_MAX_RANK];
    int n = window_rank(a);
    if (!ask_draw_attr(a, "strides") || n < 1) return false;
    const Attr *strides = ask_attr(a, "strides");
    if (!strides || dice_chance(&a->s->dice, 60)) return true;
    for (int i = 0; i < n; i++) list[i] = dice_int(&a->s->dice, 0, strides->ints[i] - 1);
    return set_ints(a, name, list, (size_t)n);
}

/* ---- numbers ------------------------------------------------------------------------------------------------- */

static bool draw_axis(Ask *a, const char *name) {
    int64_t rank = rank_of(a, 0), more = strcmp(a->op->name, "Flatten") == 0 || strcmp(a->op->name, "OneHot") == 0;
    if (rank + more < 1) return false;
    return set_int(a, name,
                   dice_chance(&a->s->dice, 25) ? -1 - more
                                                : dice_int(&a->s->dice, -rank - (more && rank == 0), rank - 1 + more));
}

/* The element type that what reads the result wants. */
static bool draw_to(Ask *a, const char *name) {
    int v = a->rule->results[0];
    if (v < 0) return set_int(a, name, a->s->real);
    tn_dtype dtype = guide_dtype(a->s, v);
    return dtype && set_int(a, name, dtype);
}

/* That of the zero point, or what conditions ask for. */
static bool draw_output_dtype(Ask *a, const char *name) {
    int v = a->rule->results[0];
    if (slot_there(a, 2)) return dice_chance(&a->s->dice, 50) || set_int(a, name, a->in[2].dtype);
    if (v < 0 || !(guide_knows_dtype(a->s, v) || dice_chance(&a->s->dice, 20))) return true;
    tn_dtype dtype = guide_dtype(a->s, v);
    return dtype && set_int(a, name, dtype);
}

static bool draw_parts(Ask *a, const char *name) { return slot_there(a, 1) || set_int(a, name, a->n_out); }

static bool draw_bound(Ask *a, const char *name) {
    return dice_chance(&a->s->dice, 40) || set_int(a, name, dice_int(&a->s->dice, -2, 3));
}

static bool draw_nothing(Ask *a, const char *name) {
    (void)a, (void)name;
    return true;
}

/* ---- choices ------------------------------------------------------------------------------------------------- */

/* One of a list with | between; by the attribute's kind. */
static bool draw_choice(Ask *a, const AttrSpec *spec, const char *choices) {
    char word[40];
    size_t n = 1, length = 0;
    for (const char *p = choices; *p; p++) n += *p == '|';
    const char *p = choices;
    for (int64_t skip = dice_int(&a->s->dice, 0, (int64_t)n - 1); skip > 0; p++) skip -= *p == '|';
    while (p[length] && p[length] != '|' && length + 1 < sizeof word) word[length] = p[length], length++;
    word[length] = 0;
    Attr attr = {.name = str_of(spec->name), .kind = spec->kind};
    if (spec->kind == ATTR_STRING) {
        char *text = arena_strndup(&a->s->arena, word, length);
        if (!text) a->s->failed = TN_OUT_OF_MEMORY;
        attr.s = (Str){text, length};
    } else if (spec->kind == ATTR_FLOAT) attr.f = strtof(word, NULL);
    else attr.i = strtoll(word, NULL, 10);
    tn_status status = a->s->failed == TN_OK ? ask_set(a, &attr) : a->s->failed;
    if (status != TN_OK) a->s->failed = status;
    return status == TN_OK;
}

typedef struct AttrRow {
    const char *op; /* NULL: of any */
    const char *name, *choices;
    bool (*draw)(Ask *a, const char *name);
} AttrRow;

/* Rows of one op stand in front of those of any. */
static const AttrRow rows[] = {
    {"Attention", "q_num_heads", NULL, draw_nothing},
    {"Attention", "kv_num_heads", NULL, draw_nothing},
    {"BatchNormalization", "training_mode", "0|1", NULL},
    {"DepthToSpace", "mode", "DCR|CRD", NULL},
    {"FusedMatMul", "alpha", "1|0.5|-2", NULL},
    {"Gemm", "alpha", "1|1|0.5|-2", NULL},
    {"Gemm", "beta", "1|1|0.5|-2|0", NULL},
    {"HardSigmoid", "alpha", "0.2|0.1666666667|0.5", NULL},
    {"HardSigmoid", "beta", "0.5|0|0.25", NULL},
    {"Pad", "mode", "constant|constant|reflect|edge|wrap", NULL},
    {"QuantizeLinear", "output_dtype", NULL, draw_output_dtype},
    {"Reshape", "allowzero", "0|1", NULL},
    {"Resize", "keep_aspect_ratio_policy", "stretch|not_larger|not_smaller", NULL},
    {"Resize", "mode", "nearest|linear|cubic", NULL},
    {"Shape", "start", NULL, draw_bound},
    {"Shape", "end", NULL, draw_bound},
    {"SpaceToDepth", "mode", "DCR|CRD", NULL},
    {NULL, "activation", "Relu|Tanh|Sigmoid", NULL},
    {NULL, "alpha", "0.01|0.3|1|2", NULL},
    {NULL, "approximate", "none|tanh", NULL},
    {NULL, "auto_pad", "NOTSET|NOTSET|NOTSET|NOTSET|VALID|SAME_UPPER|SAME_LOWER", NULL},
    {NULL, "axes", NULL, draw_axes},
    {NULL, "axis", NULL, draw_axis},
    {NULL, "beta", "1|0.5|2", NULL},
    {NULL, "bias", "0|0.5|1", NULL},
    {NULL, "blocksize", "1|2|3", NULL},
    {NULL, "ceil_mode", "0|1", NULL},
    {NULL, "coordinate_transformation_mode", "half_pixel|asymmetric|align_corners|pytorch_half_pixel", NULL},
    {NULL, "count_include_pad", "0|1", NULL},
    {NULL, "detect_negative", "0|1", NULL},
    {NULL, "detect_positive", "0|1", NULL},
    {NULL, "dilations", NULL, draw_ones},
    {NULL, "direction", "LEFT|RIGHT", NULL},
    {NULL, "dtype", NULL, draw_to},
    {NULL, "epsilon", "0.00001|0.001|0.1|0.000001|0.000000000001", NULL},
    {NULL, "exclusive", "0|1", NULL},
    {NULL, "fmod", "0|1", NULL},
    {NULL, "gamma", "1|0.5|2", NULL},
    {NULL, "group", "1|1|2|3", NULL},
    {NULL, "interleaved", "0|1", NULL},
    {NULL, "is_causal", "0|1", NULL},
    {NULL, "keepdims", "0|1", NULL},
    {NULL, "kernel_shape", NULL, draw_kernel},
    {NULL, "lambd", "0|0.5|1", NULL},
    {NULL, "largest", "0|1", NULL},
    {NULL, "nearest_mode", "round_prefer_floor|round_prefer_ceil|floor|ceil", NULL},
    {NULL, "noop_with_empty_axes", "0|0|1", NULL},
    {NULL, "num_groups", "1|2|3", NULL},
    {NULL, "num_heads", "1|2", NULL},
    {NULL, "num_outputs", NULL, draw_parts},
    {NULL, "output_padding", NULL, draw_output_padding},
    {NULL, "p", "1|2", NULL},
    {NULL, "pads", NULL, draw_pads},
    {NULL, "perm", NULL, draw_perm},
    {NULL, "reduction", "none|add", NULL},
    {NULL, "reverse", "0|1", NULL},
    {NULL, "saturate", "0|1", NULL},
    {NULL, "scale", "0.5|1|0.25", NULL},
    {NULL, "select_last_index", "0|1", NULL},
    {NULL, "size", "1|3|5", NULL},
    {NULL, "softcap", "0|0|2", NULL},
    {NULL, "strides", NULL, draw_ones},
    {NULL, "to", NULL, draw_to},
    {NULL, "transA", "0|1", NULL},
    {NULL, "transB", "0|1", NULL},
    {NULL, "upper", "0|1", NULL},
};

/* Unknown ones stay as they are preset. */
static bool draw(Ask *a, int i) {
    const AttrSpec *spec = &op_attrs(a->op)[i];
    if (!(a->open >> i & 1)) return true;
    a->open &= ~(1u << i);
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) {
        if (strcmp(rows[k].name, spec->name) != 0 || (rows[k].op && strcmp(rows[k].op, a->op->name) != 0)) continue;
        return rows[k].draw ? rows[k].draw(a, spec->name) : draw_choice(a, spec, rows[k].choices);
    }
    return !(spec->flags & ATTR_REQUIRED);
}

bool ask_draw_attr(Ask *a, const char *name) {
    int i = index_of(a->op, name);
    return i < 0 || draw(a, i);
}

bool ask_draw_attrs(Ask *a) {
    for (int i = 0; i < INSTANCE_ATTRS && op_attrs(a->op)[i].name; i++)
        if (!draw(a, i)) return false;
    return true;
}
