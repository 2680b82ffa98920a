/* SPDX-License-Identifier: Apache-2.0 */
/* Runs the rows of .case files (those of tests/ops, or those named on the command line): each as a graph of one node
   with concrete, symbolic and unknown shapes, its operands given or constant, dense and strided, by the evaluator and
   by a session, on one thread and several. Prints FILE:LINE of each row that is wrong. */
#include "test_base_alloc.h"

#include <dirent.h>
#include <math.h>

#include "op_case_parse.h"
#include "session/passes_int.h"

/* ---- one row's graph ------------------------------------------------------------------------------------------ */

typedef enum Form {
    FORM_CONCRETE,
    FORM_SYMBOLIC, /* each size of each operand is a symbol of its own */
    FORM_NO_RANK,
    FORM_CONTENTS, /* operands whose contents decide shapes are constants */
    FORM_CONSTANT, /* all operands are */
    N_FORMS
} Form;
static const char *const form_names[] = {"concrete", "symbolic", "unknown rank", "constant contents", "constants"};

typedef struct Run {
    Context *ctx;
    const Case *c;
    Form form;
    Model *model; /* owned by `handle` once that is made */
    tn_model *handle;
    int n_wrong;
} Run;

static void wrong(Run *r, const char *how, const char *format, ...) TN_PRINTF(3, 4);
static void wrong(Run *r, const char *how, const char *format, ...) {
    char text[1200];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (r->n_wrong++ == 0)
        print_error("%s:%d: %s (%s%s%s): %s\n", r->c->file, r->c->line, r->c->op,
                    r->form < N_FORMS ? form_names[r->form] : "", how[0] ? ", " : "", how, text);
}

static const char *dim_name(char name[32], int i, int k) {
    snprintf(name, 32, "s%d_%d", i, k);
    return name;
}

static void write_graph(const Run *r, Text *text) {
    char name[32];
    const Case *c = r->c;
    bool first = true;
    text_puts(text, "tn 1\ngraph @case(");
    for (int i = 0; i < c->n_in; i++) {
        const Tensor *t = &c->in[i].t;
        if (c->in[i].absent) continue;
        text_printf(text, "%s%%x%d: ", first ? "" : ", ", i);
        first = false;
        if (t->kind != TYPE_TENSOR) {
            text_puts(text, c->in[i].type);
            continue;
        }
        text_printf(text, "%s[", dtype_name(t->dtype));
        if (r->form == FORM_NO_RANK) text_puts(text, "*");
        for (int k = 0; k < t->rank && r->form != FORM_NO_RANK; k++)
            if (r->form == FORM_SYMBOLIC) text_printf(text, "%s%s", k ? "," : "", dim_name(name, i, k));
            else text_printf(text, "%s%lld", k ? "," : "", (long long)t->dims[k]);
        text_puts(text, "]");
    }
    int n_out = c->n_out ? c->n_out : 1;
    text_puts(text, ") -> (");
    first = true;
    for (int i = 0; i < n_out; i++) {
        if (c->out[i].absent) continue;
        text_printf(text, "%s%%y%d", first ? "" : ", ", i);
        first = false;
    }
    text_puts(text, ") {\n  ");
    for (int i = 0; i < n_out; i++)
        if (c->out[i].absent) text_printf(text, "%s_", i ? ", " : "");
        else text_printf(text, "%s%%y%d", i ? ", " : "", i);
    text_printf(text, " = %s(", c->op);
    for (int i = 0; i < c->n_in; i++)
        if (c->in[i].absent) text_printf(text, "%s_", i ? ", " : "");
        else text_printf(text, "%s%%x%d", i ? ", " : "", i);
    text_printf(text, ")%s%s%s\n}\n", c->attrs.n ? " {" : "", c->attrs.n ? c->attrs.s : "", c->attrs.n ? "}" : "");
}

/* The node's operands become constants, as the form says; the inputs stay, read by nobody. */
static tn_status bind_constants(Run *r) {
    Graph *g = r->model->main;
    Node *node = g->last;
    for (uint32_t i = 0; i < node->n_operands; i++) {
        Tensor *payload;
        Node *constant;
        if (!node_operand(node, i) || r->c->in[i].t.kind != TYPE_TENSOR) continue;
        bool decides = i < 32 && node->op->content_inputs & 1u << i;
        if (r->form != FORM_CONSTANT && !(r->form == FORM_CONTENTS && decides)) continue;
        TRY(model_tensor(r->model, &payload));
        *payload = r->c->in[i].t;
        buffer_ref(payload->buffer);
        TRY(const_new(g, payload, (Str){0}, &constant));
        node_insert_before(constant, node);
        TRY(node_set_operand(node, i, constant->results[0]));
    }
    return TN_OK;
}

static tn_status make_model(Run *r) {
    Text text;
    text_init(&text, &r->ctx->allocator);
    write_graph(r, &text);
    tn_status status = text.status;
    if (status == TN_OK) status = model_parse(r->ctx, (Str){text.s, text.n}, NULL, (Str){0}, &r->model);
    text_free(&text);
    if (status == TN_OK) status = bind_constants(r);
    if (status == TN_OK) status = infer_model(r->model);
    if (status == TN_OK) status = model_verify(r->model);
    return status;
}

/* ---- comparing ------------------------------------------------------------------------------------------------- */

static double tolerance(const Case *c, tn_dtype dtype) {
    if (c->rtol > 0) return c->rtol;
    if (dtype == TN_F16) return 1e-3;
    if (dtype == TN_BF16) return 8e-3;
    return dtype_bits(dtype) <= 8 ? 0 : 1e-5;
}

/* --place NAME: sessions whose kernels are that target's, without passes that optimise. What an op is made of there may lose
   digits that its operands have. --lowering TEXT: and ops are run as it says. */
static const char *place, *lowering;

static double scale_of_operands(const Case *c) {
    double scale = 0;
    for (int i = 0; place && i < c->n_in; i++) {
        const Tensor *t = &c->in[i].t;
        if (c->in[i].absent || t->kind != TYPE_TENSOR || !dtype_is_float(t->dtype)) continue;
        for (int64_t k = 0; k < tensor_count(t); k++) {
            double v;
            load_f64(&v, t->dtype, t->data, t->offset + k, 1, 1);
            if (fabs(v) < 1e30) scale = fmax(scale, fabs(v));
        }
    }
    return scale;
}

static bool same_numbers(const Case *c, tn_dtype dtype, const double *got, const double *want, int64_t n, int64_t *at) {
    double scale = scale_of_operands(c), rtol = tolerance(c, dtype);
    for (int64_t i = 0; i < n; i++)
        if (fabs(want[i]) < 1e30 && fabs(want[i]) > scale) scale = fabs(want[i]);
    for (*at = 0; *at < n; ++*at) {
        double a = got[*at], b = want[*at];
        if (isnan(a) && isnan(b)) continue;
        if (isfinite(a) && isfinite(b) && fabs(a - b) <= rtol * (fabs(b) < 1e30 ? scale : fabs(b))) continue;
        if (a == b) continue;
        return false;
    }
    return true;
}

static bool same_exactly(const Tensor *got, const Tensor *want, int64_t n, int64_t *at) {
    for (*at = 0; *at < n; ++*at) {
        if (want->dtype == TN_STRING) {
            RcString **a = got->data, **b = want->data;
            if (!str_equal(rc_string_get(a[*at]), rc_string_get(b[*at]))) return false;
        } else if (element_code(got->dtype, got->data, *at) != element_code(want->dtype, want->data, *at)) {
            return false;
        }
    }
    return true;
}

static void element_text(const Tensor *t, int64_t i, char text[64]) {
    if (t->dtype == TN_STRING) {
        Str s = rc_string_get(((RcString **)t->data)[i]);
        snprintf(text, 64, "\"%.*s\"", (int)(s.n < 50 ? s.n : 50), s.n ? s.s : "");
    } else if (dtype_is_float(t->dtype) || dtype_is_complex(t->dtype)) {
        double d[2];
        if (dtype_is_complex(t->dtype)) load_c128(d, t->dtype, t->data, i, 1, 1);
        else load_f64(d, t->dtype, t->data, i, 1, 1);
        snprintf(text, 64, "%.9g", d[0]);
    } else {
        int64_t v;
        load_i64(&v, t->dtype, t->data, i, 1, 1);
        snprintf(text, 64, "%lld", (long long)v);
    }
}

static void shape_text(const Tensor *t, char *text, size_t size) {
    int n = snprintf(text, size, "%s[", dtype_name(t->dtype));
    for (int k = 0; k < t->rank; k++)
        n += snprintf(text + n, size - (size_t)n, "%s%lld", k ? "," : "", (long long)t->dims[k]);
    snprintf(text + n, size - (size_t)n, "]");
}

static void compare(Run *r, const char *how, int k, const Tensor *got, const CaseValue *expected);

static void compare_items(Run *r, const char *how, int k, const Tensor *got, const Tensor *want) {
    size_t n = got->kind == want->kind ? object_of(got)->n : 0;
    if (got->kind != want->kind || n != object_of(want)->n) {
        wrong(r, how, "result %d is of kind %d with %zu items, not %d with %zu", k, got->kind, n, want->kind,
              object_of(want)->n);
        return;
    }
    for (size_t i = 0; i < n; i++)
        compare(r, how, k, &object_of(got)->items[i], &(CaseValue){.t = object_of(want)->items[i], .has_data = true});
}

/* Dense tensors, and objects of them. */
static void compare(Run *r, const char *how, int k, const Tensor *got, const CaseValue *expected) {
    const Tensor *want = &expected->t;
    char a[300], b[300];
    if (want->kind != TYPE_TENSOR) {
        compare_items(r, how, k, got, want);
        return;
    }
    if (got->dtype != want->dtype || got->rank != want->rank ||
        memcmp(got->dims, want->dims, (size_t)want->rank * sizeof *want->dims) != 0) {
        shape_text(got, a, sizeof a);
        shape_text(want, b, sizeof b);
        wrong(r, how, "result %d is %s, not %s", k, a, b);
        return;
    }
    int64_t n = tensor_count(want), at = 0;
    if (n == 0 || !expected->has_data) return;
    bool same;
    if (dtype_is_float(want->dtype) || dtype_is_complex(want->dtype)) {
        int64_t parts = dtype_is_complex(want->dtype) ? 2 * n : n;
        double *x = test_malloc((size_t)parts * sizeof *x), *y = test_malloc((size_t)parts * sizeof *y);
        if (parts == n) {
            load_f64(x, got->dtype, got->data, got->offset, 1, n);
            load_f64(y, want->dtype, want->data, 0, 1, n);
        } else {
            load_c128(x, got->dtype, got->data, got->offset, 1, n);
            load_c128(y, want->dtype, want->data, 0, 1, n);
        }
        same = same_numbers(r->c, want->dtype, x, y, parts, &at);
        at = parts == n ? at : at / 2;
        test_free(x);
        test_free(y);
    } else {
        same = same_exactly(got, want, n, &at);
    }
    if (same) return;
    element_text(got, at, a);
    element_text(want, at, b);
    wrong(r, how, "element %lld of result %d is %s, not %s", (long long)at, k, a, b);
}

/* ---- what inference says ---------------------------------------------------------------------------------------- */

static Dim size_of_symbol(void *user, Str symbol) {
    const Case *c = user;
    int i = 0, k = 0;
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)symbol.n, symbol.s);
    if (sscanf(text, "s%d_%d", &i, &k) != 2 || i >= c->n_in || k >= TN_MAX_RANK) return DIM_UNKNOWN;
    return c->in[i].t.dims[k];
}

static void check_type(Run *r, int k, const Type *type, const Tensor *want) {
    const Node *node = r->model->main->last;
    bool contents_known = node->op->content_inputs == 0 || r->form == FORM_CONTENTS || r->form == FORM_CONSTANT;
    bool sizes_known = r->form != FORM_SYMBOLIC && r->form != FORM_NO_RANK;
    if (type->kind != want->kind) wrong(r, "inference", "result %d is of kind %d, not %d", k, type->kind, want->kind);
    if (type->kind != TYPE_TENSOR || want->kind != TYPE_TENSOR) return;
    if (type->dtype && type->dtype != want->dtype) {
        wrong(r, "inference", "result %d is of type %s, not %s", k, dtype_name(type->dtype), dtype_name(want->dtype));
        return;
    }
    if (!type->dtype) wrong(r, "inference", "the element type of result %d is not known", k);
    if (type->shape.rank >= 0 && type->shape.rank != want->rank) {
        wrong(r, "inference", "result %d has %d dimensions, not %d", k, type->shape.rank, want->rank);
        return;
    }
    for (int d = 0; d < type->shape.rank; d++) {
        Dim size = dim_eval(&r->model->dims, type->shape.dims[d], size_of_symbol, (void *)r->c);
        if (size != DIM_UNKNOWN && size != want->dims[d])
            wrong(r, "inference", "dimension %d of result %d is %lld, not %lld", d, k, (long long)size,
                  (long long)want->dims[d]);
    }
    if (contents_known && sizes_known && !(node->op->flags & OP_DYNAMIC_OUT) && !shape_is_known(&type->shape))
        wrong(r, "inference", "the shape of result %d is not known although it should be", k);
}

/* ---- readings of the operands ----------------------------------------------------------------------------------- */

typedef enum Storage { STORED_DENSE, STORED_TRANSPOSED, STORED_SPREAD, STORED_BACKWARDS, N_STORAGES } Storage;
static const char *const storage_names[] = {"dense", "transposed storage", "storage with gaps", "backwards storage"};

/* The same elements, laid out otherwise. Strings stay dense. */
static tn_status restore(Context *ctx, const Tensor *t, Storage storage, Tensor *out) {
    int64_t count = tensor_count(t), span = 1, extent = 1;
    *out = *t;
    buffer_ref(out->buffer);
    if (storage == STORED_DENSE || t->kind != TYPE_TENSOR || t->dtype == TN_STRING || count == 0) return TN_OK;
    Tensor fresh = *t;
    fresh.offset = 0;
    for (int i = 0; i < t->rank; i++) {
        int k = storage == STORED_TRANSPOSED ? i : t->rank - 1 - i;
        int64_t gap = storage == STORED_SPREAD ? 2 : 1;
        fresh.strides[k] = span * gap;
        span = span * gap * t->dims[k];
        extent += (t->dims[k] - 1) * fresh.strides[k];
    }
    fresh.offset = storage == STORED_SPREAD ? 3 : 0;
    Tensor memory;
    int64_t room = extent + fresh.offset + 1;
    TRY(tensor_new(ctx, t->dtype, 1, &room, &memory));
    if (storage == STORED_BACKWARDS)
        for (int k = 0; k < t->rank; k++) {
            fresh.offset += (t->dims[k] - 1) * fresh.strides[k];
            fresh.strides[k] = -fresh.strides[k];
        }
    int64_t index[TN_MAX_RANK] = {0};
    for (int64_t i = 0; i < count; i++) {
        int64_t at = fresh.offset;
        for (int k = 0; k < t->rank; k++) at += index[k] * fresh.strides[k];
        copy_elements(t->dtype, memory.data, at, 1, t->data, i, 1, 1);
        for (int k = t->rank - 1; k >= 0 && ++index[k] == t->dims[k]; k--) index[k] = 0;
    }
    tensor_release(out);
    *out = fresh;
    out->data = memory.data;
    out->buffer = memory.buffer;
    return TN_OK;
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static void check_status(Run *r, const char *how, tn_status status) {
    const Case *c = r->c;
    if (status == TN_OK && c->is_error) wrong(r, how, "should fail with \"%s\"", c->error ? c->error : "");
    if (status != TN_OK && !c->is_error) wrong(r, how, "%s: %s", status_name(status), diag_text());
    if (status != TN_OK && !place && c->error && !strstr(diag_text(), c->error))
        wrong(r, how, "fails with \"%s\", which does not say \"%s\"", diag_text(), c->error);
}

static void run_evaluator(Run *r, Storage storage) {
    const Case *c = r->c;
    if (place) return;
    Tensor in[CASE_OPERANDS], out[CASE_RESULTS] = {0};
    const Tensor *given[CASE_OPERANDS];
    char how[64];
    int n = 0;
    snprintf(how, sizeof how, "evaluator, %s", storage_names[storage]);
    for (int i = 0; i < c->n_in; i++) {
        if (c->in[i].absent) continue;
        assert_int_equal(restore(r->ctx, &c->in[i].t, storage, &in[n]), TN_OK);
        given[n] = &in[n];
        n++;
    }
    diag_clear();
    tn_status status = eval_graph(r->ctx, r->model->main, given, out);
    check_status(r, how, status);
    for (int k = 0, o = 0; status == TN_OK && k < (c->n_out ? c->n_out : 1); k++) {
        if (c->out[k].absent) continue;
        if (!c->is_error) compare(r, how, k, &out[o], &c->out[k]);
        tensor_release(&out[o++]);
    }
    for (int i = 0; i < n; i++) tensor_release(&in[i]);
}

/* Bits of a dense result. */
static bool same_bits(const Tensor *a, const Tensor *b) {
    size_t bytes = 0;
    if (a->kind != TYPE_TENSOR) return true;
    assert_int_equal(checked_bytes(a->dtype, tensor_count(a), &bytes), TN_OK);
    return a->dtype == TN_STRING || bytes == 0 || memcmp(a->data, b->data, bytes) == 0;
}

/* No pool, and pools of 1 and 3 threads, made once. */
static Pool *pools[4];

/* Runs on 0, 1 and 3 threads; the bits must agree. */
static void run_session(Run *r, Storage storage) {
    const Case *c = r->c;
    tn_session *session = NULL;
    tn_tensor *in[CASE_OPERANDS], *first[CASE_RESULTS] = {0};
    int n = 0, n_out = 0;
    char how[64];
    snprintf(how, sizeof how, "session, %s", storage_names[storage]);
    for (int k = 0; k < (c->n_out ? c->n_out : 1); k++) n_out += !c->out[k].absent;
    for (int i = 0; i < c->n_in; i++) {
        Tensor t;
        if (c->in[i].absent) continue;
        assert_int_equal(restore(r->ctx, &c->in[i].t, storage, &t), TN_OK);
        assert_int_equal(tensor_handle(r->ctx, &t, &in[n++]), TN_OK);
    }
    diag_clear();
    tn_place only = {.target = place};
    tn_pass_settings settings = {.opt_level = TN_OPT_0, .places = &only, .n_places = 1, .lowering = lowering};
    tn_session_options options = {.passes = &settings};
    tn_status status = tn_session_create(r->handle, place ? &options : NULL, &session);
    if (status != TN_OK) check_status(r, how, status);
    for (int threads = 0; status == TN_OK && threads <= 3; threads += 1 + (threads > 0)) {
        tn_tensor *out[CASE_RESULTS] = {0};
        r->ctx->pool = pools[threads];
        diag_clear();
        status = tn_session_run(session, NULL, (const tn_tensor *const *)in, (size_t)n, out, (size_t)n_out);
        r->ctx->pool = NULL;
        check_status(r, how, status);
        if (status != TN_OK) break;
        for (int k = 0, o = 0; k < (c->n_out ? c->n_out : 1); k++) {
            if (c->out[k].absent) continue;
            if (!c->is_error && threads == 0) compare(r, how, k, &out[o]->t, &c->out[k]);
            if (threads > 0 && !same_bits(&out[o]->t, &first[o]->t))
                wrong(r, how, "result %d has other bits on %d threads than on none", k, threads);
            if (threads == 0) first[o] = out[o];
            else tn_tensor_release(out[o]);
            o++;
        }
    }
    for (int k = 0; k < CASE_RESULTS; k++) tn_tensor_release(first[k]);
    for (int i = 0; i < n; i++) tn_tensor_release(in[i]);
    tn_session_release(session);
}

static void run_form(Run *r) {
    const Case *c = r->c;
    diag_clear();
    tn_status status = make_model(r);
    if (status != TN_OK) {
        check_status(r, "inference", status);
        model_free(r->model);
        return;
    }
    assert_int_equal(model_handle(r->ctx, r->model, &r->handle), TN_OK);
    for (int k = 0, o = 0; !c->is_error && k < c->n_out; k++)
        if (!c->out[k].absent) check_type(r, k, graph_output(r->model->main, (size_t)o++)->type, &c->out[k].t);
    run_evaluator(r, STORED_DENSE);
    run_session(r, STORED_DENSE);
    for (Storage s = STORED_TRANSPOSED; s < N_STORAGES && r->form == FORM_CONCRETE && !c->is_error; s++) {
        run_evaluator(r, s);
        run_session(r, s);
    }
    tn_model_release(r->handle);
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

typedef struct Totals {
    int rows, wrong;
} Totals;

static void run_row(Context *ctx, const char *file, int line, char *row, Totals *totals) {
    Arena arena;
    arena_init(&arena, &ctx->allocator);
    Case c = {.file = file, .line = line, .op = row};
    CaseReader reader = {.ctx = ctx, .arena = &arena, .at = row};
    text_init(&c.attrs, &ctx->allocator);
    bool good = case_row(&reader, &c);
    if (!good) {
        print_error("%s:%d: %s\n", file, line, reader.problem);
        totals->wrong++;
    } else {
        totals->rows++;
        Run r = {.ctx = ctx, .c = &c};
        for (Form form = 0; form < N_FORMS && r.n_wrong == 0; form++) {
            r.form = form;
            r.model = NULL;
            r.handle = NULL;
            run_form(&r);
        }
        totals->wrong += r.n_wrong > 0;
    }
    case_free(&c);
    arena_free(&arena);
}

/* A row goes on in the lines below it that begin with a blank. */
static void run_file(const char *path, Totals *totals) {
    FILE *file = fopen(path, "r");
    char *line = NULL;
    size_t cap = 0;
    int number = 0, row_at = 0;
    if (!file) print_error("cannot read %s\n", path);
    assert_non_null(file);
    Context *ctx;
    assert_int_equal(context_new(NULL, NULL, &ctx), TN_OK);
    Text row;
    text_init(&row, &ctx->allocator);
    bool more = true;
    while (more) {
        more = getline(&line, &cap, file) >= 0;
        number++;
        if (more) case_strip(line);
        if (more && !*line) continue;
        if (more && isspace((unsigned char)*line) && row.n) {
            text_puts(&row, line);
            continue;
        }
        if (row.n) run_row(ctx, path, row_at, row.s, totals);
        row.n = 0;
        row_at = number;
        if (more) text_puts(&row, line + strspn(line, " \t"));
    }
    text_free(&row);
    free(line);
    fclose(file);
    context_unref(ctx);
}

static int by_name(const struct dirent **a, const struct dirent **b) { return strcmp((*a)->d_name, (*b)->d_name); }
static int is_case_file(const struct dirent *e) {
    size_t n = strlen(e->d_name);
    return n > 5 && strcmp(e->d_name + n - 5, ".case") == 0;
}

static int n_files;
static char **files;

static void test_cases(void **state) {
    (void)state;
    Totals totals = {0};
    assert_int_equal(pool_new(&allocator_default, 1, &pools[1]), TN_OK);
    assert_int_equal(pool_new(&allocator_default, 3, &pools[3]), TN_OK);
    for (int i = 0; i < n_files; i++) run_file(files[i], &totals);
    struct dirent **list;
    int n = n_files ? 0 : scandir("tests/ops", &list, is_case_file, by_name);
    assert_true(n >= 0);
    for (int i = 0; i < n; i++) {
        char path[300];
        snprintf(path, sizeof path, "tests/ops/%s", list[i]->d_name);
        run_file(path, &totals);
        free(list[i]);
    }
    if (!n_files) free(list);
    pool_free(pools[1]);
    pool_free(pools[3]);
    printf("%d rows, %d wrong\n", totals.rows, totals.wrong);
    assert_int_equal(totals.wrong, 0);
    assert_true(totals.rows > 0);
}

int main(int argc, char **argv) {
    for (; argc > 2 && strncmp(argv[1], "--", 2) == 0; argv += 2, argc -= 2) {
        if (strcmp(argv[1], "--place") == 0) place = argv[2];
        if (strcmp(argv[1], "--lowering") == 0) lowering = argv[2];
    }
    n_files = argc - 1;
    files = argv + 1;
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_cases)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
