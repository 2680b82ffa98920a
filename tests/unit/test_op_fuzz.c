/* SPDX-License-Identifier: Apache-2.0 */
/* Random nodes of every op, made from its schema or out of a row of its .case file: checking, inference, the evaluator
   and a session must give a status or an answer, the same bits where both answer, and give back all memory. A case that
   crashes or hangs is printed as text that `tenon run` takes.

       test_op_fuzz [--times N] [--seed S] [--stop] [--rows FOLDER] [OP...]

   --rows names a folder with .case files besides those of tests/ops. */
#include "test_base_alloc.h"

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>
#include <tenon/passes.h>
#include <unistd.h>

#include "op_case_parse.h"
#include "op_fuzz_gen.h"
#include "session/session.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { DEFAULT_TIMES = 30 }; /* some ten times slower */
#else
enum { DEFAULT_TIMES = 100 };
#endif
enum { CASE_SECONDS = 30, MAX_RESULTS = 6 };

/* ---- the state of one case -------------------------------------------------------------------------------------- */

typedef enum How { AS_CONCRETE, AS_SYMBOLIC, AS_RANK, AS_DTYPE, AS_ANYTHING, AS_CONSTANT, N_HOWS } How;

typedef struct Operand {
    bool absent, object; /* object: `t` is no tensor */
    TypeKind kind;       /* what a tensor is put into */
    How how;
    Tensor t;
} Operand;

typedef struct Fuzz {
    TestHeap heap;
    Context *ctx;
    Rng rng;
    const OpSchema *op;
    uint64_t seed;
    Operand in[FUZZ_OPERANDS];
    int n_in;
    const Tensor *given[FUZZ_OPERANDS + 1]; /* for the graph's inputs: objects; NULL: the default */
    Case row;                               /* where the case comes from one */
    Arena row_arena;
    Model *model;
    Node *node;
    Text text;
    int64_t n_answers, n_refused, n_wrong;
} Fuzz;

/* What a signal handler can reach. */
static const char *volatile current_text = "";
static const char *volatile current_op = "";
static volatile uint64_t current_seed;

static void say(const char *s) {
    ssize_t ignored = write(STDERR_FILENO, s, strlen(s));
    (void)ignored;
}

static void on_signal(int number) {
    char line[200];
    snprintf(line, sizeof line, "\n%s in %s, seed %llu:\n", number == SIGALRM ? "HANGS" : "CRASHES", current_op,
             (unsigned long long)current_seed);
    say(line);
    say(current_text);
    _exit(3);
}

static void wrong(Fuzz *f, const char *format, ...) TN_PRINTF(2, 3);
static void wrong(Fuzz *f, const char *format, ...) {
    char text[1500];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    f->n_wrong++;
    fprintf(stderr, "\nWRONG in %s, seed %llu: %s\n%s", f->op->name, (unsigned long long)f->seed, text,
            f->text.s ? f->text.s : "");
}

/* ---- rows of .case files ---------------------------------------------------------------------------------------- */

typedef struct Rows {
    char **lines;
    size_t n, cap;
} Rows;
static Rows all_rows;

static void keep_row(char *line) {
    if (all_rows.n == all_rows.cap) {
        all_rows.cap = all_rows.cap * 2 + 256;
        all_rows.lines = realloc(all_rows.lines, all_rows.cap * sizeof *all_rows.lines);
        assert_non_null(all_rows.lines);
    }
    all_rows.lines[all_rows.n++] = line;
}

static void load_file(const char *path) {
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    assert_non_null(file);
    while (getline(&line, &cap, file) >= 0) {
        case_strip(line);
        if (!*line) continue;
        if (isspace((unsigned char)*line) && all_rows.n) { /* goes on */
            char **last = &all_rows.lines[all_rows.n - 1];
            size_t n = strlen(*last), more = strlen(line);
            assert_non_null(*last = realloc(*last, n + more + 1));
            memcpy(*last + n, line, more + 1);
        } else {
            keep_row(strdup(line));
        }
    }
    free(line);
    fclose(file);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }

static void load_rows(const char *folder) {
    struct dirent **list;
    int n = scandir(folder, &list, NULL, by_name);
    assert_true(n > 0);
    for (int i = 0; i < n; i++) {
        char path[1000];
        const char *end = strrchr(list[i]->d_name, '.');
        snprintf(path, sizeof path, "%s/%s", folder, list[i]->d_name);
        if (end && strcmp(end, ".case") == 0) load_file(path);
        free(list[i]);
    }
    free(list);
}

static void full_name(const OpSchema *op, char name[100]) {
    snprintf(name, 100, "%s%s%s", op->domain ? op->domain : "", op->domain ? "." : "", op->name);
}

/* The rows of one op: those that begin with its name. */
static Rows rows_of(const OpSchema *op) {
    char name[100];
    Rows rows = {0};
    full_name(op, name);
    size_t n = strlen(name);
    for (size_t i = 0; i < all_rows.n; i++) {
        if (strncmp(all_rows.lines[i], name, n) != 0 || !isspace((unsigned char)all_rows.lines[i][n])) continue;
        if (rows.n % 64 == 0) assert_non_null(rows.lines = realloc(rows.lines, (rows.n + 64) * sizeof *rows.lines));
        rows.lines[rows.n++] = all_rows.lines[i];
    }
    return rows;
}

/* ---- operands --------------------------------------------------------------------------------------------------- */

static tn_status fill_operand(Fuzz *f, int i, tn_dtype dtype, const Shape *shape) {
    return some_tensor(&f->rng, f->ctx, dtype, shape, &f->in[i].t);
}

static TypeKind kind_for(Rng *r, TypeSet set) {
    TypeSet others = set & (TS_SEQUENCE | TS_OPTIONAL | TS_MAP);
    if (!others || (set & TS_ALL_TENSOR && rng_chance(r, 60))) return TYPE_TENSOR;
    for (;;) {
        TypeKind kind = (TypeKind)rng_from(r, TYPE_SEQUENCE, TYPE_MAP);
        if (others & TS_SEQUENCE << (kind - TYPE_SEQUENCE)) return kind;
    }
}

static tn_status operands_by_schema(Fuzz *f, const Shape *base) {
    Rng *r = &f->rng;
    tn_dtype group[128] = {0};
    int n = 0;
    const OperandSpec *specs = op_inputs(f->op);
    while (n < FUZZ_OPERANDS && specs[n].name) n++;
    bool variadic = n && specs[n - 1].flags & OPERAND_VARIADIC;
    if (variadic) n += rng_below(r, 3) - (rng_chance(r, 10) ? 1 : 0);
    else if (rng_chance(r, 40)) n -= rng_below(r, n + 1);
    if (rng_chance(r, 2)) n++;
    if (n > FUZZ_OPERANDS) n = FUZZ_OPERANDS;
    for (f->n_in = 0; f->n_in < n; f->n_in++) {
        int i = f->n_in;
        const OperandSpec *spec = op_input_spec(f->op, (size_t)i);
        bool one_of_many = spec && spec->flags & OPERAND_VARIADIC;
        if (spec && spec->flags & OPERAND_OPTIONAL && rng_chance(r, one_of_many ? 3 : 25)) {
            f->in[i].absent = true;
            continue;
        }
        TypeSet set = spec ? spec->types : TS_ALL_TENSOR;
        tn_dtype dtype = some_dtype(r, set);
        if (spec && spec->group && group[(unsigned char)spec->group & 127])
            dtype = group[(unsigned char)spec->group & 127];
        if (spec && spec->group) group[(unsigned char)spec->group & 127] = dtype;
        if (one_of_many && i > 0 && set & TS(f->in[i - 1].t.dtype) && rng_chance(r, 70)) dtype = f->in[i - 1].t.dtype;
        if (rng_chance(r, 2)) dtype = some_dtype(r, TS_ALL_TENSOR);
        f->in[i].kind = kind_for(r, set);
        Shape shape = i == 0 && rng_chance(r, 80) ? *base : related_shape(r, base);
        bool decides = i < 32 && f->op->content_inputs >> i & 1;
        if (decides && rng_chance(r, 70))
            shape = (Shape){.rank = rng_chance(r, 80), .dims = {rng_from(r, 0, base->rank + 1)}};
        bool counts = spec && f->op->flags & OP_CONTROL && (set == TS(TN_I64) || set == TS(TN_BOOL));
        if (counts && rng_chance(r, 90)) shape = (Shape){.rank = rng_below(r, 2), .dims = {1}};
        TRY(fill_operand(f, i, dtype, &shape));
        if (counts && dtype != TN_STRING && tensor_count(&f->in[i].t) == 1)
            fill_number(r, &f->in[i].t, 0, SMALL_COUNTS);
    }
    return TN_OK;
}

static tn_status operands_of_row(Fuzz *f, const Rows *rows) {
    char *line = strdup(rows->lines[rng_below(&f->rng, (int)rows->n)]);
    assert_non_null(line);
    CaseReader reader = {.ctx = f->ctx, .arena = &f->row_arena, .at = line};
    bool good = case_row(&reader, &f->row) && f->row.n_in <= FUZZ_OPERANDS;
    free(line);
    if (!good) return TN_UNSUPPORTED;
    f->n_in = f->row.n_in;
    for (int i = 0; i < f->n_in; i++) {
        f->in[i].absent = f->row.in[i].absent;
        if (f->in[i].absent) continue;
        Tensor *t = &f->in[i].t;
        f->in[i].object = f->row.in[i].t.kind != TYPE_TENSOR;
        if (f->in[i].object) {
            TRY(tensor_keep(f->ctx, &f->row.in[i].t, t));
            continue;
        }
        TRY(tensor_new(f->ctx, f->row.in[i].t.dtype, f->row.in[i].t.rank, f->row.in[i].t.dims, t));
        copy_elements(t->dtype, t->data, 0, 1, f->row.in[i].t.data, 0, 1, tensor_count(t));
    }
    return TN_OK;
}

static void reshape_operand(Rng *r, Shape *s) {
    switch (rng_below(r, 5)) {
    case 0:
        if (s->rank > 0) s->rank--;
        break;
    case 1:
        if (s->rank < TN_MAX_RANK) s->dims[s->rank++] = some_size(r);
        break;
    case 2: *s = some_shape(r); break;
    default:
        if (s->rank > 0) s->dims[rng_below(r, s->rank)] = some_size(r);
    }
    bound_shape(s->rank, s->dims);
}

static tn_status other_tensor(Fuzz *f, const Tensor *like, Tensor *out) {
    Shape shape = shape_make(like->rank, like->dims);
    if (like->kind != TYPE_TENSOR || rng_chance(&f->rng, 80)) return tensor_keep(f->ctx, like, out);
    if (rng_chance(&f->rng, 50)) reshape_operand(&f->rng, &shape);
    return some_tensor(&f->rng, f->ctx, like->dtype, &shape, out);
}

/* Items left out, repeated, or of other sizes; a map has other values. */
static tn_status mutate_object(Fuzz *f, Operand *o) {
    Rng *r = &f->rng;
    const Object *old = object_of(&o->t);
    Tensor made;
    bool map = o->t.kind == TYPE_MAP;
    size_t most = o->t.kind == TYPE_OPTIONAL ? 1 : 4, n = map ? 2 : old->n ? (size_t)rng_below(r, (int)most + 1) : 0;
    TRY(object_new(f->ctx, o->t.kind, n, &made));
    tn_status status = TN_OK;
    for (size_t i = 0; i < n && status == TN_OK; i++) {
        const Tensor *like = &old->items[map ? i : (size_t)rng_below(r, (int)old->n)];
        Shape shape = shape_make(like->rank, like->dims);
        if (!map) status = other_tensor(f, like, &object_of(&made)->items[i]);
        else if (i == 0) status = tensor_keep(f->ctx, like, &object_of(&made)->items[i]);
        else status = some_tensor(r, f->ctx, like->dtype, &shape, &object_of(&made)->items[i]);
    }
    tensor_release(status == TN_OK ? &o->t : &made);
    if (status == TN_OK) o->t = made;
    return status;
}

static tn_status mutate_operand(Fuzz *f, int i) {
    Rng *r = &f->rng;
    Operand *o = &f->in[i];
    if (o->object && rng_chance(r, 80)) return mutate_object(f, o);
    const OperandSpec *spec = op_input_spec(f->op, (size_t)i);
    int kind = rng_below(r, 100);
    Shape shape = o->absent ? some_shape(r) : shape_make(o->t.rank, o->t.dims);
    tn_dtype dtype = o->absent ? some_dtype(r, spec ? spec->types : TS_ALL_TENSOR) : o->t.dtype;
    if (kind < 8) o->absent = true;
    else if (kind < 50 && !o->object) reshape_operand(r, &shape);
    else if (kind < 55) dtype = some_dtype(r, spec && rng_chance(r, 80) ? spec->types : TS_ALL_TENSOR);
    else if (kind < 75 && !o->absent && !o->object) { /* some elements only */ int64_t n = tensor_count(&o->t);
        for (int k = rng_from(r, 1, 3); k > 0 && n > 0; k--)
            if (dtype == TN_STRING) TRY(fill_string(r, f->ctx, &o->t, rng_below(r, (int)n)));
            else fill_number(r, &o->t, rng_below(r, (int)n), (Contents)rng_below(r, N_CONTENTS));
        return TN_OK;
    }
    if (o->object) dtype = some_dtype(r, TS_ALL_TENSOR), shape = some_shape(r);
    tensor_release(&o->t);
    o->t = (Tensor){0};
    o->object = false;
    if (kind < 8) return TN_OK;
    o->absent = false;
    return fill_operand(f, i, dtype, &shape);
}

/* ---- the model -------------------------------------------------------------------------------------------------- */

static void hide(How how, int i, const Tensor *t, Model *model, Shape *shape, tn_dtype *dtype) {
    *shape = shape_make(t->rank, t->dims);
    *dtype = how == AS_DTYPE || how == AS_ANYTHING ? TN_UNDEFINED : t->dtype;
    for (int k = 0; how == AS_SYMBOLIC && k < t->rank; k++) {
        char name[32];
        snprintf(name, sizeof name, "s%d_%d", i, k);
        shape->dims[k] = dim_symbol(&model->dims, str_of(name));
    }
    if (how == AS_RANK || how == AS_ANYTHING) *shape = shape_unknown();
}

static tn_status payload_of(Fuzz *f, const Tensor *t, Tensor **out) {
    TRY(model_tensor(f->model, out));
    **out = *t;
    buffer_ref(t->buffer);
    return TN_OK;
}

static tn_status append(Fuzz *f, const char *op, Value *const *operands, size_t n, Value **out, Node **node) {
    Graph *g = f->model->main;
    const OpSchema *schema = op_find(STR(""), str_of(op));
    if (!schema) return TN_UNSUPPORTED;
    TRY(node_new(g, schema, operands, n, 1, node));
    node_append(*node);
    *out = (*node)->results[0];
    return TN_OK;
}

/* Stored otherwise than it reads, or in memory that ends with the op. */
static tn_status disguise(Fuzz *f, const Tensor *t, Value **v) {
    Rng *r = &f->rng;
    Graph *g = f->model->main;
    int64_t perm[TN_MAX_RANK];
    Value *operands[5] = {*v};
    Node *node;
    Tensor *cond;
    switch (t->rank > 0 ? rng_below(r, 6) : 5) {
    case 0: /* two transpositions, so that the first is a view and the second gives the dims back */
        for (int k = 0; k < t->rank; k++) perm[k] = t->rank - 1 - k;
        for (int turn = 0; turn < 2; turn++) {
            TRY(append(f, "Transpose", v, 1, v, &node));
            TRY(node_set_ints(node, "perm", perm, (size_t)t->rank));
            if (turn == 0 && rng_chance(r, 70)) return TN_OK; /* the dims come the other way round */
        }
        return TN_OK;
    case 1:
        TRY(const_ints(g, (int64_t[]){-1}, 1, false, &operands[1]));
        TRY(const_ints(g, (int64_t[]){INT64_MIN}, 1, false, &operands[2]));
        TRY(const_ints(g, (int64_t[]){rng_below(r, t->rank)}, 1, false, &operands[3]));
        TRY(const_ints(g, (int64_t[]){-1}, 1, false, &operands[4]));
        return append(f, "Slice", operands, 5, v, &node);
    case 2:
        TRY(model_tensor(f->model, &cond));
        TRY(tensor_new(f->ctx, TN_BOOL, 0, NULL, cond));
        *(uint8_t *)cond->data = 1;
        TRY(const_new(g, cond, (Str){0}, &node));
        node_append(node);
        return append(f, "Where", (Value *[]){node->results[0], *v, *v}, 3, v, &node);
    default: return TN_OK;
    }
}

static tn_status wrap(Fuzz *f, TypeKind kind, Value **v) {
    Node *node;
    Value *items[3] = {*v, *v, *v};
    if (kind == TYPE_SEQUENCE) return append(f, "SequenceConstruct", items, (size_t)rng_from(&f->rng, 1, 3), v, &node);
    if (kind == TYPE_OPTIONAL) return append(f, "Optional", v, 1, v, &node);
    return TN_UNSUPPORTED;
}

static tn_status object_operand(Fuzz *f, int i, Value **out) {
    Graph *g = f->model->main;
    const Operand *o = &f->in[i];
    const Type *type;
    char name[24];
    snprintf(name, sizeof name, "x%d", i);
    TRY(type_parse(f->model, str_of(f->row.in[i].type), &type));
    TRY(graph_add_input(g, str_of(name), type, out));
    f->given[g->inputs.len - 1] = &o->t;
    return TN_OK;
}

static tn_status make_operand(Fuzz *f, int i, Value **out) {
    Graph *g = f->model->main;
    Operand *o = &f->in[i];
    Tensor *payload;
    Node *node;
    char name[24];
    *out = NULL;
    if (o->absent) return TN_OK;
    if (o->object) return object_operand(f, i, out);
    snprintf(name, sizeof name, "x%d", i);
    TRY(payload_of(f, &o->t, &payload));
    if (o->how == AS_CONSTANT) {
        TRY(const_new(g, payload, str_of(name), &node));
        node_append(node);
        *out = node->results[0];
    } else {
        Shape shape;
        tn_dtype dtype;
        hide(o->how, i, &o->t, f->model, &shape, &dtype);
        const Type *type = type_tensor(f->model, dtype, &shape);
        if (!type) return TN_OUT_OF_MEMORY;
        TRY(graph_add_input(g, str_of(name), type, out));
        TRY(graph_set_input_default(g, g->inputs.len - 1, payload));
    }
    if (o->kind != TYPE_TENSOR) return wrap(f, o->kind, out);
    return rng_chance(&f->rng, 40) ? disguise(f, &o->t, out) : TN_OK;
}

static tn_status make_node(Fuzz *f) {
    Rng *r = &f->rng;
    Value *operands[FUZZ_OPERANDS];
    for (int i = 0; i < f->n_in; i++) TRY(make_operand(f, i, &operands[i]));
    int most = 0, results;
    while (most < 8 && op_outputs(f->op)[most].name) most++;
    bool variadic = most && op_outputs(f->op)[most - 1].flags & OPERAND_VARIADIC;
    results = f->row.n_out && rng_chance(r, 90) ? f->row.n_out
              : rng_chance(r, 50)               ? most
                                                : rng_from(r, 1, most > 1 ? most : 1);
    if (variadic && rng_chance(r, 50)) results = most - 1 + rng_below(r, 4);
    if (results > MAX_RESULTS) results = MAX_RESULTS;
    TRY(node_new(f->model->main, f->op, operands, (size_t)f->n_in, (size_t)results, &f->node));
    return TN_OK;
}

/* The attributes of a row, through a model in text. */
static tn_status attrs_of_row(Fuzz *f) {
    Text text;
    Model *model;
    text_init(&text, &f->ctx->allocator);
    text_puts(&text, "tn 1\ngraph @g(");
    for (int i = 0, n = 0; i < f->n_in; i++)
        if (!f->row.in[i].absent) text_printf(&text, "%s%%x%d: ?", n++ ? ", " : "", i);
    text_puts(&text, ") -> () {\n  _");
    for (int i = 1; i < f->row.n_out; i++) text_puts(&text, ", _");
    text_printf(&text, " = %s(", f->row.op);
    for (int i = 0; i < f->n_in; i++)
        if (f->row.in[i].absent) text_printf(&text, "%s_", i ? ", " : "");
        else text_printf(&text, "%s%%x%d", i ? ", " : "", i);
    text_printf(&text, ") {%s}\n}\n", f->row.attrs.n ? f->row.attrs.s : "");
    tn_status status = model_parse(f->ctx, (Str){text.s, text.n}, NULL, (Str){0}, &model);
    text_free(&text);
    if (status != TN_OK) return status;
    const Node *node = model->main->last;
    for (uint32_t i = 0; i < node->n_attrs && status == TN_OK; i++) {
        Attr attr = node->attrs[i];
        if (attr.kind == ATTR_TENSOR) status = payload_of(f, node->attrs[i].tensor, &attr.tensor);
        else if (attr.kind > ATTR_STRING && attr.kind != ATTR_INTS && attr.kind != ATTR_FLOATS &&
                 attr.kind != ATTR_STRINGS)
            continue;
        if (status == TN_OK) status = node_set_attr(f->node, &attr);
    }
    model_free(model);
    return status;
}

static tn_status make_attrs(Fuzz *f, bool from_row, const Shape *base) {
    int n = n_attr_specs(f->op);
    if (from_row) {
        TRY(attrs_of_row(f));
        if (n && rng_chance(&f->rng, 40))
            TRY(set_some_attr(&f->rng, f->node, &op_attrs(f->op)[rng_below(&f->rng, n)], base));
        return TN_OK;
    }
    for (int k = 0; k < n; k++) {
        const AttrSpec *spec = &op_attrs(f->op)[k];
        if (rng_chance(&f->rng, spec->flags & ATTR_REQUIRED ? 98 : n > 6 ? 20 : 40))
            TRY(set_some_attr(&f->rng, f->node, spec, base));
    }
    return TN_OK;
}

static tn_status make_outputs(Fuzz *f) {
    Graph *g = f->model->main;
    char name[24];
    for (uint32_t i = 0; i < f->node->n_results; i++) {
        if (i + 1 < f->node->n_results && rng_chance(&f->rng, 15)) continue;
        snprintf(name, sizeof name, "y%u", i);
        TRY(value_set_name(f->node->results[i], str_of(name)));
        TRY(graph_add_output(g, f->node->results[i], (Str){0}));
    }
    return TN_OK;
}

static bool needs_graph(const OpSchema *op) {
    for (int k = 0; k < n_attr_specs(op); k++)
        if (op_attrs(op)[k].kind == ATTR_GRAPH && op_attrs(op)[k].flags & ATTR_REQUIRED) return true;
    return false;
}

static tn_status make_case(Fuzz *f, const Rows *rows) {
    Rng *r = &f->rng;
    static const How hows[] = {AS_CONCRETE, AS_CONCRETE, AS_CONCRETE, AS_SYMBOLIC, AS_SYMBOLIC, AS_RANK,
                               AS_DTYPE,    AS_ANYTHING, AS_CONSTANT, AS_CONSTANT, AS_CONSTANT};
    Shape base = some_shape(r);
    bool from_row = rows->n && !needs_graph(f->op) && rng_chance(r, 60); /* rows have none */
    if (from_row) {
        TRY(operands_of_row(f, rows));
        for (int k = rng_below(r, 3); k > 0 && f->n_in > 0; k--) TRY(mutate_operand(f, rng_below(r, f->n_in)));
        if (f->n_in && !f->in[0].absent && !f->in[0].object) base = shape_make(f->in[0].t.rank, f->in[0].t.dims);
    } else {
        TRY(operands_by_schema(f, &base));
    }
    How all = RNG_PICK(r, hows);
    for (int i = 0; i < f->n_in; i++) {
        bool decides = f->op->content_inputs >> i & 1;
        f->in[i].how = decides && rng_chance(r, 50) ? AS_CONSTANT : rng_chance(r, 80) ? all : RNG_PICK(r, hows);
    }
    TRY(model_new(f->ctx, &f->model));
    TRY(graph_new(f->model, NULL, STR("case"), &f->model->main));
    TRY(make_node(f));
    TRY(make_attrs(f, from_row, &base));
    node_append(f->node);
    TRY(make_outputs(f));
    return model_print(f->model, &(PrintOptions){.inline_elements = 4096}, &f->text);
}

/* ---- running ---------------------------------------------------------------------------------------------------- */

static bool same_tensor(const Tensor *a, const Tensor *b);

static bool same_object(const Object *a, const Object *b) {
    if (a->n != b->n) return false;
    for (size_t i = 0; i < a->n; i++)
        if (!same_tensor(&a->items[i], &b->items[i])) return false;
    return true;
}

static bool is_nan_at(const Tensor *t, int64_t at) {
    double x = 0;
    if (dtype_is_float(t->dtype)) load_f64(&x, t->dtype, t->data, at, 1, 1);
    return x != x;
}

/* Bits, of any reading; but which NaN it is is nobody's answer: a pass may leave out what would have quieted one. */
static bool same_tensor(const Tensor *a, const Tensor *b) {
    int64_t index[TN_MAX_RANK] = {0}, n = tensor_count(a);
    if (a->kind != b->kind) return false;
    if (a->kind != TYPE_TENSOR)
        return a->data == b->data || (a->data && b->data && same_object(object_of(a), object_of(b)));
    if (a->dtype != b->dtype || a->rank != b->rank || memcmp(a->dims, b->dims, (size_t)a->rank * sizeof *a->dims) != 0)
        return false;
    for (int64_t i = 0; i < n; i++) {
        int64_t at[2] = {a->offset, b->offset};
        for (int k = 0; k < a->rank; k++) at[0] += index[k] * a->strides[k], at[1] += index[k] * b->strides[k];
        if (a->dtype == TN_STRING) {
            if (!str_equal(rc_string_get(((RcString **)a->data)[at[0]]), rc_string_get(((RcString **)b->data)[at[1]])))
                return false;
        } else if (dtype_is_complex(a->dtype)) {
            int size = dtype_size(a->dtype);
            if (memcmp((char *)a->data + at[0] * size, (char *)b->data + at[1] * size, (size_t)size) != 0) return false;
        } else if (element_code(a->dtype, a->data, at[0]) != element_code(b->dtype, b->data, at[1])) {
            if (!is_nan_at(a, at[0]) || !is_nan_at(b, at[1])) return false;
        }
        for (int k = a->rank - 1; k >= 0 && ++index[k] == a->dims[k]; k--) index[k] = 0;
    }
    return true;
}

static Dim size_of_symbol(void *user, Str symbol) {
    const Fuzz *f = user;
    int i = 0, k = 0;
    char text[24];
    snprintf(text, sizeof text, "%.*s", (int)symbol.n, symbol.s);
    if (sscanf(text, "s%d_%d", &i, &k) != 2 || i >= f->n_in || k >= TN_MAX_RANK) return DIM_UNKNOWN;
    return f->in[i].t.dims[k];
}

/* Branches of different types are wrong, but nobody can know where the operands' types are not. */
static bool types_are_hidden(const Fuzz *f) {
    for (int i = 0; i < f->n_in; i++)
        if (f->in[i].how == AS_DTYPE || f->in[i].how == AS_ANYTHING) return true;
    return false;
}

/* What inference said holds of what came out. */
static void check_type(Fuzz *f, size_t i, const Tensor *t) {
    const Type *type = graph_output(f->model->main, i)->type;
    if (f->op->flags & OP_CONTROL && types_are_hidden(f)) return;
    if (type->kind != TYPE_TENSOR || t->kind != TYPE_TENSOR) {
        /* where one branch gives an optional, another may give what would be in it */
        bool optional = f->op->flags & OP_CONTROL && t->kind == TYPE_OPTIONAL;
        if (type->kind != t->kind && type != f->model->type_any && !optional)
            wrong(f, "output %zu is of another kind than inferred", i);
        return;
    }
    if (type->dtype && type->dtype != t->dtype)
        wrong(f, "output %zu is %s, inferred %s", i, dtype_name(t->dtype), dtype_name(type->dtype));
    if (type->shape.rank < 0) return;
    if (type->shape.rank != t->rank) {
        wrong(f, "output %zu has rank %d, inferred %d", i, t->rank, type->shape.rank);
        return;
    }
    /* The slices of a loop without a turn have no sizes: those that follow from symbols are 0 then. */
    if (f->op->flags & OP_CONTROL && tensor_count(t) == 0) return;
    for (int k = 0; k < t->rank; k++) {
        Dim d = dim_eval(&f->model->dims, type->shape.dims[k], size_of_symbol, f);
        if (d != DIM_UNKNOWN && d != t->dims[k])
            wrong(f, "dimension %d of output %zu is %lld, inferred %lld", k, i, (long long)t->dims[k], (long long)d);
    }
}

static tn_status keep_handle(Fuzz *f, const Tensor *t, tn_tensor **out) {
    Tensor kept;
    TRY(tensor_keep(f->ctx, t, &kept));
    return tensor_handle(f->ctx, &kept, out);
}

/* Other contents for the inputs, the same in `handles` and `tensors`. */
static tn_status other_inputs(Fuzz *f, const Tensor **tensors, tn_tensor **handles) {
    Graph *g = f->model->main;
    for (size_t i = 0; i < g->inputs.len; i++) {
        const Tensor *old = graph_input_default(g, i);
        if (!old) {
            TRY(keep_handle(f, f->given[i], &handles[i]));
            tensors[i] = f->given[i];
            continue;
        }
        Shape shape = shape_make(old->rank, old->dims);
        const Shape *declared = &g->inputs.data[i]->type->shape;
        Tensor t;
        if (rng_chance(&f->rng, 30) && !shape_is_known(declared)) {
            int rank = shape.rank;
            reshape_operand(&f->rng, &shape);
            if (declared->rank >= 0) shape.rank = rank;
        }
        TRY(some_tensor(&f->rng, f->ctx, old->dtype, &shape, &t));
        TRY(tensor_handle(f->ctx, &t, &handles[i]));
        tensors[i] = &handles[i]->t;
    }
    return TN_OK;
}

static bool for_want_of_room(tn_status status) {
    return status == TN_LIMIT || status == TN_OUT_OF_MEMORY || status == TN_DEADLINE;
}

/* Kernels other than the reference add up in another order, so they are held to an answer only where that matters little. */
static bool near_tensor(Fuzz *f, const Tensor *want, const tn_tensor *got) {
    tn_tensor *handle;
    Tensor kept;
    if (want->kind != TYPE_TENSOR || !dtype_is_float(want->dtype)) return true;
    if (tensor_keep(f->ctx, want, &kept) != TN_OK || tensor_handle(f->ctx, &kept, &handle) != TN_OK) return true;
    tn_difference d = tn_tensor_compare(got, handle, 1e-3, 1e-6);
    bool finite = d.scale < 1e6;
    for (int64_t i = 0; finite && i < tensor_count(&handle->t); i++) {
        double x = 0;
        load_f64(&x, want->dtype, handle->t.data, i, 1, 1);
        finite = isfinite(x);
    }
    tn_tensor_release(handle);
    return d.same || !finite;
}

static void compare_answers(Fuzz *f, const char *turn, tn_status a, tn_status b, const char *eval_error, Tensor *want,
                            tn_tensor **got, size_t n, bool bitwise) {
    if (a == TN_INTERNAL || b == TN_INTERNAL)
        wrong(f, "%s: an internal error: %s", turn, a == TN_INTERNAL ? eval_error : diag_text());
    if (for_want_of_room(a) || for_want_of_room(b)) return;
    /* A session does not run what no result of a body needs, and takes branches to be of one type. */
    bool exact = !(f->op->flags & OP_CONTROL);
    if (a != TN_OK && b == TN_OK && exact) wrong(f, "%s: the session answers, the evaluator says %s", turn, eval_error);
    if (a == TN_OK && b != TN_OK && exact)
        wrong(f, "%s: the evaluator answers, the session says %s", turn, diag_text());
    for (size_t i = 0; a == TN_OK && b == TN_OK && !(f->op->flags & OP_RANDOM) && i < n; i++)
        if (!(bitwise ? same_tensor(&want[i], &got[i]->t) : near_tensor(f, &want[i], got[i])))
            wrong(f, "%s: output %zu differs between evaluator and session", turn, i);
}

/* Both ways on one set of inputs (NULLs: the defaults). `inferred`: those that inference saw. */
static tn_status run_both(Fuzz *f, tn_session *session, const char *turn, const Tensor *const *tensors,
                          tn_tensor *const *handles, bool inferred, bool bitwise) {
    Graph *g = f->model->main;
    size_t n = graph_n_outputs(g);
    Tensor want[MAX_RESULTS] = {0};
    tn_tensor *got[MAX_RESULTS] = {0};
    char error[400];
    diag_clear();
    tn_status a = eval_graph(f->ctx, g, tensors, want), b = TN_INVALID_ARGUMENT;
    snprintf(error, sizeof error, "%s", diag_text());
    diag_clear();
    tn_run_options options = {.timeout_ns = 2000000000};
    if (session) b = tn_session_run(session, &options, (const tn_tensor *const *)handles, g->inputs.len, got, n);
    if (session) compare_answers(f, turn, a, b, error, want, got, n, bitwise);
    for (size_t i = 0; i < n; i++) {
        if (a == TN_OK && inferred) check_type(f, i, &want[i]);
        if (a == TN_OK) tensor_release(&want[i]);
        tn_tensor_release(got[i]);
    }
    return a == TN_OK ? a : b;
}

static tn_status run_turns(Fuzz *f, tn_session *session, bool bitwise) {
    size_t n = f->model->main->inputs.len;
    const Tensor *tensors[FUZZ_OPERANDS + 1] = {0};
    tn_tensor *first[FUZZ_OPERANDS + 1] = {0}, *other[FUZZ_OPERANDS + 1] = {0};
    tn_status status = TN_OK;
    for (size_t i = 0; i < n; i++)
        if (f->given[i] && status == TN_OK) status = keep_handle(f, f->given[i], &first[i]);
    if (status == TN_OK) status = run_both(f, session, "first run", f->given, first, true, bitwise);
    if (n && session) {
        if (other_inputs(f, tensors, other) == TN_OK)
            run_both(f, session, "other inputs", tensors, other, false, bitwise);
        run_both(f, session, "first inputs again", f->given, first, true, bitwise);
    }
    for (size_t i = 0; i < n; i++) tn_tensor_release(first[i]), tn_tensor_release(other[i]);
    return status;
}

static void run_case(Fuzz *f) {
    tn_model *handle;
    tn_session *session = NULL;
    tn_status status = node_check(f->node);
    if (status == TN_OK) status = infer_model(f->model);
    if (status != TN_OK) {
        f->n_refused++;
        return;
    }
    bool control = f->op->flags & OP_CONTROL; /* a branch may be left with types that contradict */
    if (!control && model_verify(f->model) != TN_OK) wrong(f, "verify: %s", diag_text());
    status = model_handle(f->ctx, f->model, &handle);
    if (status != TN_OK) f->model = NULL;
    assert_int_equal(status, TN_OK);
    /* On the reference kernels, bit for bit; then on the processor's. What is refused before it runs never answers. */
    const tn_place reference = {"reference", TN_UNDEFINED};
    const tn_pass_settings passes = {.places = &reference, .n_places = 1};
    const tn_session_options options[] = {{.passes = &passes}, {0}};
    for (int k = 0; k < 2; k++) {
        if (tn_session_create(handle, &options[k], &session) != TN_OK) session = NULL;
        status = run_turns(f, session, k == 0);
        tn_session_release(session);
    }
    if (status == TN_OK) f->n_answers++;
    else f->n_refused++;
    tn_model_release(handle);
    f->model = NULL;
}

/* ---- driver ----------------------------------------------------------------------------------------------------- */

static uint64_t hash_name(const char *s) { /* the same in every process */
    uint64_t h = 1469598103934665603u;
    for (; *s; s++) h = (h ^ (unsigned char)*s) * 1099511628211u;
    return h;
}

static void one_case(Fuzz *f, uint64_t seed, const Rows *rows) {
    static const tn_limits limits = {
        .max_bytes = 1 << 20, .max_nodes = 10000, .max_nesting = 16, .max_fold_bytes = 1 << 18, .max_loop_trips = 40};
    test_heap_init(&f->heap);
    assert_int_equal(context_new(&f->heap.allocator, &limits, &f->ctx), TN_OK);
    arena_init(&f->row_arena, &f->ctx->allocator);
    text_init(&f->row.attrs, &f->ctx->allocator);
    text_init(&f->text, &allocator_default);
    f->rng.state = hash_name(f->op->name) + seed * 0x2545f4914f6cdd1du;
    f->seed = current_seed = seed;
    alarm(CASE_SECONDS);
    tn_status status = make_case(f, rows);
    current_text = f->text.s ? f->text.s : "(not printed)\n";
    if (status == TN_OK) run_case(f);
    alarm(0);
    model_free(f->model);
    for (int i = 0; i < f->n_in; i++) tensor_release(&f->in[i].t);
    case_free(&f->row);
    arena_free(&f->row_arena);
    context_unref(f->ctx);
    if (f->heap.living) wrong(f, "%zu bytes are not given back", f->heap.living);
    current_text = "";
    text_free(&f->text);
}

typedef struct Options {
    const char *rows;
    int times;
    uint64_t seed;
    bool stop;
} Options;

/* In a process of its own: the number of wrong cases. */
static int fuzz_op(const OpSchema *op, const Options *o) {
    Rows rows = rows_of(op);
    int64_t answers = 0, refused = 0, bad = 0;
    for (int k = 0; k < o->times; k++) {
        Fuzz *f = calloc(1, sizeof *f);
        assert_non_null(f);
        f->op = op;
        one_case(f, o->seed + (uint64_t)k, &rows);
        answers += f->n_answers;
        refused += f->n_refused;
        bad += f->n_wrong;
        free(f);
        if (bad && o->stop) break;
    }
    free(rows.lines);
    printf("%-40s %5lld answers, %5lld refusals, %lld wrong\n", current_op, (long long)answers, (long long)refused,
           (long long)bad);
    return bad > 0;
}

static void catch_signals(void) {
    static const int numbers[] = {SIGABRT, SIGALRM, SIGSEGV, SIGBUS, SIGFPE, SIGILL};
#ifdef __SANITIZE_ADDRESS__
    int n = 2; /* the sanitizer reports the others, then aborts */
#else
    int n = sizeof numbers / sizeof *numbers;
#endif
    for (int i = 0; i < n; i++) signal(numbers[i], on_signal);
}

static bool in_child(const OpSchema *op, const Options *o) {
    char name[100];
    full_name(op, name);
    fflush(stdout);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        current_op = name;
        catch_signals();
        exit(fuzz_op(op, o));
    }
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    bool good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!good) printf("%-40s FAILED\n", name);
    return good;
}

static Options options = {.times = DEFAULT_TIMES, .seed = 1};
static char **wanted;
static int n_wanted;

static bool is_wanted(const OpSchema *op) {
    char name[100];
    full_name(op, name);
    for (int i = 0; i < n_wanted; i++)
        if (strcmp(wanted[i], name) == 0) return true;
    return n_wanted == 0 && strcmp(name, "tn.Const") != 0;
}

static void test_fuzz(void **state) {
    (void)state;
    size_t n;
    int bad = 0, ops = 0;
    const OpSchema *const *table = op_table(&n);
    load_rows("tests/ops");
    if (options.rows) load_rows(options.rows);
    for (size_t i = 0; i < n; i++) {
        if (!is_wanted(table[i])) continue;
        ops++;
        bad += !in_child(table[i], &options);
    }
    for (size_t i = 0; i < all_rows.n; i++) free(all_rows.lines[i]);
    free(all_rows.lines);
    printf("%d ops, %d of them wrong\n", ops, bad);
    assert_int_equal(bad, 0);
    assert_true(ops > 0);
}

int main(int argc, char **argv) {
    int i = 1;
    for (; i < argc && strncmp(argv[i], "--", 2) == 0; i++) {
        if (strcmp(argv[i], "--stop") == 0) options.stop = true;
        else if (i + 1 == argc) return 2;
        else if (strcmp(argv[i], "--rows") == 0) options.rows = argv[++i];
        else if (strcmp(argv[i], "--times") == 0) options.times = (int)strtol(argv[++i], NULL, 10);
        else if (strcmp(argv[i], "--seed") == 0) options.seed = strtoull(argv[++i], NULL, 10);
        else return 2;
    }
    wanted = argv + i;
    n_wanted = argc - i;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_fuzz)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
