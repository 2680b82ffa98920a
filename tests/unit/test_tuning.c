/* SPDX-License-Identifier: Apache-2.0 */
/* Ways chosen by measuring, and the files that keep them: answers stay, whatever a file says; choices come back; files that are
   something else are refused and never replaced. */
#include "test_ir_common.h"

#include <math.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenon/passes.h>

#include "session/session.h"

/* ---- models ----------------------------------------------------------------------------------------------------- */

static void put_weights(Text *t, const char *name, const char *type, int64_t n, float scale) {
    text_printf(t, "  %%%s = Const {data = f32[%s] [", name, type);
    for (int64_t i = 0; i < n; i++)
        text_printf(t, "%s%.4f", i ? ", " : "", (double)scale * sin((double)(i * i % 1000)));
    text_puts(t, "]}\n");
}

enum { N_CHOSEN = 4 /* all but the convolution of 1 x 1, of which there is one way for so few pixels */ };

/* Convolutions of all kinds, products of a row, of a constant and of two values. `size` is the first input's. */
static char *net(const char *size) {
    Text t;
    text_init(&t, &allocator_default);
    text_printf(&t, "tn 1\ngraph @net(%%x: f32[%s]) -> (%%row, %%square) {\n", size);
    put_weights(&t, "w1", "16,16,3,3", 16 * 16 * 9, 0.1f);
    put_weights(&t, "w2", "16,1,3,3", 16 * 9, 0.3f);
    put_weights(&t, "w3", "24,16,1,1", 24 * 16, 0.3f);
    put_weights(&t, "w4", "24,10", 240, 0.5f);
    text_puts(&t, "  %a = Conv(%x, %w1) {pads=[1,1,1,1]}\n  %b = Relu(%a)\n"
                  "  %c = Conv(%b, %w2) {group=16, pads=[1,1,1,1]}\n  %d = Conv(%c, %w3)\n  %e = Relu(%d)\n"
                  "  %p = GlobalAveragePool(%e)\n  %f = Flatten(%p) {axis=1}\n  %row = Gemm(%f, %w4)\n"
                  "  %flat = Reshape(%e, i64[3] [0, 24, -1])\n  %turned = Transpose(%flat) {perm=[0,2,1]}\n"
                  "  %square = MatMul(%flat, %turned)\n}\n");
    OK(t.status);
    char *text = strdup(t.s);
    text_free(&t);
    return text;
}

typedef struct Fix {
    tn_context *ctx;
    tn_model *model;
    char *text;
} Fix;

static void begin(Fix *f, int threads, const char *size) {
    f->text = net(size);
    OK(tn_context_create(&(tn_context_options){.threads = threads}, &f->ctx));
    OK(tn_model_load_memory(f->ctx, f->text, strlen(f->text), NULL, NULL, NULL, &f->model));
}

static void end(Fix *f) {
    tn_model_release(f->model);
    tn_context_release(f->ctx);
    free(f->text);
}

static tn_tensor *image(tn_context *ctx, int64_t batch, int64_t size) {
    tn_tensor *t;
    OK(tn_tensor_create(ctx, TN_F32, 4, (int64_t[]){batch, 16, size, size}, &t));
    for (int64_t i = 0; i < tn_tensor_count(t); i++)
        ((float *)tn_tensor_data(t))[i] = (float)cos((double)(i * 7 % 911));
    return t;
}

/* ---- files ------------------------------------------------------------------------------------------------------ */

static char folder[64], path[96];

static int make_folder(void **state) {
    (void)state;
    snprintf(folder, sizeof folder, "/tmp/tenon-tuning-XXXXXX");
    if (!mkdtemp(folder)) return 1;
    snprintf(path, sizeof path, "%s/net.tuning.json", folder);
    return 0;
}

static int drop_folder(void **state) {
    (void)state;
    unlink(path);
    return rmdir(folder);
}

static void write_text(const char *text, size_t n) {
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(text, 1, n, file), n);
    fclose(file);
}

static char *read_text(void) {
    FILE *file = fopen(path, "rb");
    assert_non_null(file);
    char *text = calloc(1, 1 << 20);
    size_t n = fread(text, 1, (1 << 20) - 1, file);
    text[n] = 0;
    fclose(file);
    return text;
}

/* The file's text with each value of that key, a string, another one. */
static char *with_value(const char *text, const char *key, const char *value) {
    char mark[40], *out = calloc(1, 4 * strlen(text) + 1), *to = out;
    int n = snprintf(mark, sizeof mark, "\"%s\": \"", key);
    for (const char *at = text; *at;) {
        if (strncmp(at, mark, (size_t)n) != 0) {
            *to++ = *at++;
            continue;
        }
        to += sprintf(to, "%s%s", mark, value);
        at += n;
        at += strcspn(at, "\"");
    }
    return out;
}

/* ---- runs ------------------------------------------------------------------------------------------------------- */

static void answer(tn_session *s, tn_tensor *x, tn_tensor **out) {
    OK(tn_session_run(s, NULL, (const tn_tensor *const[]){x}, 1, out, 2));
}

static void release(tn_tensor **list, size_t n) {
    for (size_t i = 0; i < n; i++) {
        tn_tensor_release(list[i]);
        list[i] = NULL;
    }
}

static void assert_near(tn_tensor *const *got, tn_tensor *const *want) {
    for (int i = 0; i < 2; i++) {
        tn_difference d = tn_tensor_compare(got[i], want[i], 1e-5, 0);
        if (!d.same) print_error("output %d: %s\n", i, d.why);
        assert_true(d.same);
    }
}

static void assert_same(tn_tensor *const *a, tn_tensor *const *b) {
    for (int i = 0; i < 2; i++) assert_memory_equal(tn_tensor_data(a[i]), tn_tensor_data(b[i]), tn_tensor_bytes(a[i]));
}

static tn_session_info info_of(const tn_session *s) {
    tn_session_info info;
    OK(tn_session_get_info(s, &info));
    return info;
}

/* Whether some instruction goes that way because of a tuning. */
static bool goes(const tn_session *s, const char *way) {
    tn_instruction_info info;
    for (size_t i = 0; tn_session_instruction(s, i, &info) == TN_OK; i++)
        if (info.tuned && strcmp(info.way, way) == 0) return true;
    return false;
}

static bool goes_by_winograd(const tn_session *s) {
    tn_instruction_info info;
    for (size_t i = 0; tn_session_instruction(s, i, &info) == TN_OK; i++)
        if (strncmp(info.way, "winograd", 8) == 0) return true;
    return false;
}

static tn_session *open_session(const Fix *f, const tn_session_options *o) {
    tn_session *s;
    tn_status status = tn_session_create(f->model, o, &s);
    if (status != TN_OK) print_error("%s\n", tn_last_error());
    OK(status);
    return s;
}

static void by_reference(const Fix *f, tn_tensor *x, tn_tensor **out) {
    static const tn_place place = {.target = "reference"};
    static const tn_pass_settings settings = {.places = &place, .n_places = 1};
    tn_session *s = open_session(f, &(tn_session_options){.passes = &settings});
    answer(s, x, out);
    tn_session_release(s);
}

/* ---- tests ------------------------------------------------------------------------------------------------------ */

static void count_rounds(void *user, size_t done, size_t of) {
    assert_true(done <= of);
    ++*(size_t *)user;
}

static void test_measured_and_kept(void **state) {
    (void)state;
    Fix f;
    size_t rounds = 0;
    tn_tensor *want[2] = {0}, *got[2] = {0}, *again[2] = {0};
    begin(&f, 2, "1,16,12,12");
    tn_tensor *x = image(f.ctx, 1, 12);
    unlink(path);
    by_reference(&f, x, want);
    tn_session *s = open_session(
        &f, &(tn_session_options){.tuning_file = path, .tune = true, .tuning = count_rounds, .tuning_user = &rounds});
    tn_session_info info = info_of(s);
    assert_true(rounds > 8 && info.n_measured == N_CHOSEN && info.n_tuned == N_CHOSEN);
    answer(s, x, got);
    assert_near(got, want);
    tn_session_release(s);
    rounds = 0; /* all is known now */
    s = open_session(
        &f, &(tn_session_options){.tuning_file = path, .tune = true, .tuning = count_rounds, .tuning_user = &rounds});
    info = info_of(s);
    assert_true(rounds == 0 && info.n_measured == 0 && info.n_tuned == N_CHOSEN);
    answer(s, x, again);
    assert_same(got, again);
    tn_session_release(s);
    release(again, 2);
    end(&f);
    static const int threads[] = {1, 2, 3, 7};
    for (int i = 0; i < 4; i++) {
        begin(&f, threads[i], "1,16,12,12");
        s = open_session(&f, &(tn_session_options){.tuning_file = path});
        assert_int_equal(info_of(s).n_tuned, N_CHOSEN);
        answer(s, x, again);
        assert_same(got, again);
        release(again, 2);
        tn_session_release(s);
        end(&f);
    }
    release(want, 2);
    release(got, 2);
    tn_tensor_release(x);
}

/* A file may say anything that a kernel has: each of its ways is right where it may be taken, and others are not taken. */
static void test_each_way(void **state) {
    (void)state;
    static const char *const names[] = {"direct",
                                        "depthwise",
                                        "winograd2",
                                        "winograd4",
                                        "winograd2-narrow",
                                        "winograd4-narrow",
                                        "direct-small",
                                        "direct-large",
                                        "winograd2-small",
                                        "winograd4-small",
                                        "winograd2-large",
                                        "winograd4-large",
                                        "packed",
                                        "packed-by-block",
                                        "packed-first",
                                        "no such way",
                                        ""};
    Fix f;
    tn_tensor *want[2] = {0}, *got[2] = {0};
    begin(&f, 2, "1,16,31,31");
    tn_tensor *x = image(f.ctx, 1, 31);
    unlink(path);
    by_reference(&f, x, want);
    tn_session_release(open_session(&f, &(tn_session_options){.tuning_file = path, .tune = true}));
    char *text = read_text();
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char *forced = with_value(text, "way", names[i]);
        write_text(forced, strlen(forced));
        tn_session *s = open_session(&f, &(tn_session_options){.tuning_file = path});
        bool known = i + 2 < sizeof names / sizeof *names, narrow = strstr(names[i], "narrow");
        if (!narrow && goes(s, names[i]) != known) print_error("%s\n", names[i]);
        if (!narrow) assert_true(goes(s, names[i]) == known);
        answer(s, x, got);
        assert_near(got, want);
        release(got, 2);
        tn_session_release(s);
        free(forced);
    }
    free(text);
    release(want, 2);
    tn_tensor_release(x);
    end(&f);
}

/* The way of the first convolution without what says how much goes together: what it packs. */
static void form_of(const tn_session *s, char form[64]) {
    tn_instruction_info info;
    for (size_t i = 0; tn_session_instruction(s, i, &info) == TN_OK; i++)
        if (strstr(info.op, "Conv")) break;
    snprintf(form, 64, "%s", info.way);
    char *end_of_form = strstr(form, "-small") ? strstr(form, "-small") : strstr(form, "-large");
    if (end_of_form) *end_of_form = 0;
}

/* Runs at several sizes are right and read weights in one form; `want`: in this one. */
static void run_sizes(const Fix *f, bool tune, const char *want_form) {
    static const int64_t sizes[] = {12, 28, 7};
    char first[64] = "", form[64];
    tn_session *s = open_session(f, &(tn_session_options){.tuning_file = path, .tune = tune});
    for (int i = 0; i < 3; i++) {
        tn_tensor *x = image(f->ctx, 1, sizes[i]), *want[2] = {0}, *got[2] = {0};
        by_reference(f, x, want);
        answer(s, x, got);
        assert_near(got, want);
        form_of(s, form);
        if (i == 0) snprintf(first, sizeof first, "%s", want_form ? want_form : form);
        assert_string_equal(form, first);
        release(want, 2);
        release(got, 2);
        tn_tensor_release(x);
    }
    tn_session_release(s);
}

/* Constants are packed in one form whatever the sizes: what was chosen at the first ones. */
static void test_open_sizes(void **state) {
    (void)state;
    static const char *const forms[][2] = {{"conv_winograd4", "winograd4"}, {"conv_panels", "direct"}};
    Fix f;
    begin(&f, 1, "n,16,h,w");
    unlink(path);
    run_sizes(&f, true, NULL);
    char *text = read_text(), *no_ways = with_value(text, "way", "no such way");
    for (int i = 0; i < 2; i++) {
        char *forced = with_value(no_ways, "packs", forms[i][0]);
        write_text(forced, strlen(forced));
        run_sizes(&f, false, forms[i][1]);
        run_sizes(&f, true, forms[i][1]);
        free(forced);
    }
    free(no_ways);
    free(text);
    end(&f);
}

static void refuse(const Fix *f, const char *text, size_t n, tn_status want) {
    tn_session *s = NULL;
    for (int tune = 0; tune < 2; tune++) {
        write_text(text, n);
        tn_status status = tn_session_create(f->model, &(tn_session_options){.tuning_file = path, .tune = tune}, &s);
        if (status != want) print_error("%.60s gives %s\n", text, tn_status_name(status));
        assert_int_equal(status, want);
        assert_true(*tn_last_error());
        char *left = read_text();
        assert_memory_equal(left, text, n); /* whatever it is, somebody wants it */
        free(left);
    }
}

static void test_files_that_are_something_else(void **state) {
    (void)state;
    static const char *const none[] = {"",
                                       "{",
                                       "[]",
                                       "null",
                                       "{}",
                                       "{\"tenon-tuning\": 1}",
                                       "{\"tenon-tuning\": \"1\", \"machines\": {}}",
                                       "{\"tenon-tuning\": 1, \"machines\": []}",
                                       "{\"machines\": {}}",
                                       "\xff\xfe",
                                       "{\"tenon-tuning\": 1, \"machines\": {}} x"};
    Fix f;
    begin(&f, 1, "1,16,12,12");
    for (size_t i = 0; i < sizeof none / sizeof *none; i++) refuse(&f, none[i], strlen(none[i]), TN_MALFORMED);
    static const char later[] = "{\"tenon-tuning\": 2, \"machines\": {}}";
    refuse(&f, later, strlen(later), TN_UNSUPPORTED);
    char *deep = malloc(100000);
    memset(deep, '[', 100000);
    refuse(&f, deep, 100000, TN_MALFORMED);
    free(deep);
    /* This machine's part, spoilt. */
    unlink(path);
    tn_session_release(open_session(&f, &(tn_session_options){.tuning_file = path, .tune = true}));
    char *text = read_text();
    const char *machine = strstr(text, "\n  \"") + 4;
    static const char *const parts[] = {"[]",
                                        "3",
                                        "{\"work\": 1}",
                                        "{\"work\": {}}",
                                        "{\"work\": {\"way\": 5}}",
                                        "{\"work\": {\"way\": \"direct\", \"packs\": \"x\"}}",
                                        "{\"work\": {\"packs\": 1}}"};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        char spoilt[1000];
        snprintf(spoilt, sizeof spoilt, "{\"tenon-tuning\": 1, \"machines\": {\"%.*s\": %s}}",
                 (int)strcspn(machine, "\""), machine, parts[i]);
        refuse(&f, spoilt, strlen(spoilt), TN_MALFORMED);
    }
    free(text);
    end(&f);
}

/* Choices of other machines, and whatever else is in the file, stay; nobody takes them. */
static void test_others_stay(void **state) {
    (void)state;
    static const char others[] =
        "{\"tenon-tuning\": 1, \"note\": \"mine\", \"machines\": {\"another; tenon 9\": {\"cpu_conv: x\": "
        "{\"way\": \"direct\", \"us\": 1}}}}";
    Fix f;
    begin(&f, 1, "1,16,12,12");
    write_text(others, strlen(others));
    tn_session *s = open_session(&f, &(tn_session_options){.tuning_file = path});
    assert_int_equal(info_of(s).n_tuned, 0);
    assert_int_equal(tn_session_update_tuning(s, NULL), TN_OK);
    tn_session_release(s);
    tn_session_release(open_session(&f, &(tn_session_options){.tuning_file = path, .tune = true}));
    char *text = read_text();
    assert_non_null(strstr(text, "another; tenon 9"));
    assert_non_null(strstr(text, "\"note\": \"mine\""));
    assert_non_null(strstr(text, "winograd"));
    free(text);
    end(&f);
}

/* Nothing leads a session that is to be accurate to less exact ways: neither what kernels choose, nor measuring, nor a file. */
static void test_accurate(void **state) {
    (void)state;
    static const tn_pass_settings high = {.accuracy = TN_ACCURACY_HIGH};
    static const tn_pass_settings wrong = {.accuracy = (tn_accuracy)(TN_ACCURACY_HIGH + 1)};
    const tn_session_options accurate = {.passes = &high, .tuning_file = path},
                             tuned = {.passes = &high, .tuning_file = path, .tune = true};
    Fix f;
    tn_tensor *want[2] = {0}, *got[2] = {0};
    tn_session *s;
    begin(&f, 1, "1,16,12,12");
    tn_tensor *x = image(f.ctx, 1, 12);
    unlink(path);
    by_reference(&f, x, want);
    s = open_session(&f, &(tn_session_options){.tuning_file = path, .tune = true});
    tn_session_release(s);
    s = open_session(&f, &(tn_session_options){0});
    assert_true(goes_by_winograd(s));
    tn_session_release(s);
    s = open_session(&f, &accurate);
    assert_true(!goes_by_winograd(s) && info_of(s).n_tuned == 0);
    answer(s, x, got);
    assert_near(got, want);
    release(got, 2);
    tn_session_release(s);
    s = open_session(&f, &tuned);
    assert_true(!goes_by_winograd(s) && info_of(s).n_tuned > 0);
    tn_session_release(s);
    char *text = read_text(), *other = with_value(text, "way", "winograd4");
    write_text(other, strlen(other));
    s = open_session(&f, &accurate);
    assert_false(goes_by_winograd(s));
    answer(s, x, got);
    assert_near(got, want);
    release(got, 2);
    tn_session_release(s);
    assert_int_equal(tn_session_create(f.model, &(tn_session_options){.passes = &wrong}, &s), TN_INVALID_ARGUMENT);
    free(text);
    free(other);
    release(want, 2);
    tn_tensor_release(x);
    end(&f);
}

static void test_files_that_cannot_be(void **state) {
    (void)state;
    Fix f;
    tn_session *s;
    begin(&f, 1, "1,16,12,12");
    unlink(path);
    s = open_session(&f, &(tn_session_options){.tuning_file = path}); /* not there yet */
    assert_true(access(path, F_OK) != 0);
    tn_session_release(s);
    s = open_session(&f, &(tn_session_options){.tune = true});
    assert_true(info_of(s).n_tuned == N_CHOSEN);
    assert_int_equal(tn_session_update_tuning(s, NULL), TN_STATE);
    OK(tn_session_update_tuning(s, path));
    assert_int_equal(access(path, F_OK), 0);
    tn_session_release(s);
    s = open_session(&f, &(tn_session_options){0});
    assert_int_equal(tn_session_update_tuning(s, path), TN_STATE);
    tn_session_release(s);
    assert_int_equal(tn_session_update_tuning(NULL, path), TN_INVALID_ARGUMENT);
    const tn_session_options nowhere = {.tuning_file = "/nowhere/at/all.json", .tune = true};
    assert_int_equal(tn_session_create(f.model, &nowhere, &s), TN_IO); /* before anything is measured */
    end(&f);
}

/* A decoder's cache grows in place while its products are measured, as it does when it runs. */
static void test_state(void **state) {
    (void)state;
    Text t;
    tn_context *ctx;
    tn_model *model;
    text_init(&t, &allocator_default);
    text_puts(&t, "tn 1\ngraph @decoder(%x: f32[batch,2,new,4], %past: f32[batch,2,old,4]) -> (%y, %present) {\n");
    put_weights(&t, "w", "4,4", 16, 1);
    text_puts(&t,
              "  %p = MatMul(%x, %w)\n  %k = Tanh(%p)\n  %present = Concat(%past, %k) {axis=2}\n"
              "  %t = Transpose(%present) {perm=[0,1,3,2]}\n  %q = MatMul(%x, %t)\n  %y = MatMul(%q, %present)\n}\n");
    OK(tn_context_create(NULL, &ctx));
    OK(tn_model_load_memory(ctx, t.s, t.n, NULL, NULL, NULL, &model));
    tn_tensor *want[5] = {NULL};
    for (int tune = 0; tune < 2; tune++) {
        tn_session *s;
        OK(tn_session_create(model, &(tn_session_options){.tune = tune}, &s));
        OK(tn_session_bind_state(s, "past", "present", 4));
        for (int i = 0; i < 5; i++) {
            tn_tensor *x, *out[2] = {NULL};
            OK(tn_tensor_create(ctx, TN_F32, 4, (int64_t[]){1, 2, 1, 4}, &x));
            for (int k = 0; k < 8; k++) ((float *)tn_tensor_data(x))[k] = (float)sin((double)(i * 8 + k));
            OK(tn_session_run(s, NULL, (const tn_tensor *const[]){x, NULL}, 2, out, 2));
            if (!tune) want[i] = out[0];
            else assert_true(tn_tensor_compare(out[0], want[i], 1e-6, 0).same);
            if (tune) tn_tensor_release(out[0]);
            tn_tensor_release(x);
        }
        tn_session_release(s);
    }
    release(want, 5);
    tn_model_release(model);
    tn_context_release(ctx);
    text_free(&t);
}

/* A kernel of two ways, of which every other node takes more time in the one, and the others still more in the other. */
static bool slow_matches(const KernelQuery *q) { return q->out[0].dtype == TN_F32; }

static uint32_t slow_offers(const KernelQuery *q, int *usual) {
    (void)q;
    *usual = 1;
    return 3;
}

static tn_status slow_launch(KernelCtx *c, const Prepared *prepared) {
    (void)prepared;
    bool waits = c->node->id % 2 == (c->way == 2);
    uint64_t end = monotonic_ns() + (!waits ? 0 : c->way == 2 ? 300000 : 150000);
    while (monotonic_ns() < end) continue;
    const float *x = tensor_bytes(c->in[0]);
    for (int64_t i = 0; i < tensor_count(&c->out[0]); i++) ((float *)tensor_bytes(&c->out[0]))[i] = -x[i];
    return TN_OK;
}

static const KernelWay slow_ways[] = {{"one", NULL}, {"two", NULL}, {NULL, NULL}};
static const KernelDesc slow = {.name = "test_slow",
                                .op = "Neg",
                                .place = {.target = TARGET_CPU, .precision = TN_F32},
                                .priority = 1000,
                                .match = slow_matches,
                                .ways = slow_ways,
                                .offers = slow_offers,
                                .launch = slow_launch};

/* What does the same goes the same way, or a file could not say it. */
static void test_equal_work(void **state) {
    (void)state;
    static const char chain[] = "tn 1\ngraph @chain(%x: f32[8]) -> (%d) {\n  %a = Neg(%x)\n  %b = Neg(%a)\n"
                                "  %c = Neg(%b)\n  %d = Neg(%c)\n}\n";
    static const tn_pass_settings nothing = {.pipeline = ""};
    static const KernelDesc *const more[] = {&slow};
    KernelTable *table;
    OK(kernel_table_extend(more, 1, &table));
    kernel_table_publish(table);
    unlink(path);
    for (int i = 0; i < 2; i++) {
        tn_context *ctx;
        tn_model *model;
        tn_session *s;
        tn_instruction_info info;
        const tn_session_options options = {.tuning_file = path, .tune = i == 0, .passes = &nothing};
        OK(tn_context_create(NULL, &ctx));
        OK(tn_model_load_memory(ctx, chain, strlen(chain), NULL, NULL, NULL, &model));
        OK(tn_session_create(model, &options, &s));
        for (size_t k = 0; tn_session_instruction(s, k, &info) == TN_OK; k++) {
            assert_string_equal(info.kernel, "test_slow");
            assert_true(info.tuned);
            assert_string_equal(info.way, "one");
        }
        assert_int_equal(info_of(s).n_tuned, 4);
        assert_int_equal(info_of(s).n_measured, i == 0);
        tn_session_release(s);
        tn_model_release(model);
        tn_context_release(ctx);
    }
}

/* What stands in a body is measured, too, where made-up inputs reach it. */
static void test_body(void **state) {
    (void)state;
    Text t;
    tn_context *ctx;
    tn_model *model;
    tn_session *s;
    text_init(&t, &allocator_default);
    text_puts(&t, "tn 1\ngraph @loop(%n: i64[], %x: f32[2,16]) -> (%y) {\n");
    put_weights(&t, "w", "16,16", 256, 0.2f);
    text_puts(&t, "  %y = Loop(%n, _, %x) {body = graph (%i: i64[], %go: bool[], %h: f32[2,16]) -> (%go, %r) {\n"
                  "    %p = MatMul(%h, %w)\n    %r = Tanh(%p)\n  }}\n}\n");
    OK(tn_context_create(NULL, &ctx));
    OK(tn_model_load_memory(ctx, t.s, t.n, NULL, NULL, NULL, &model));
    unlink(path);
    OK(tn_session_create(model, &(tn_session_options){.tuning_file = path, .tune = true}, &s));
    assert_int_equal(info_of(s).n_measured, 1);
    tn_session_release(s);
    tn_tensor *n, *x, *want = NULL, *got = NULL;
    OK(tn_tensor_create(ctx, TN_I64, 0, NULL, &n));
    *(int64_t *)tn_tensor_data(n) = 5;
    OK(tn_tensor_create(ctx, TN_F32, 2, (int64_t[]){2, 16}, &x));
    for (int i = 0; i < 32; i++) ((float *)tn_tensor_data(x))[i] = (float)cos((double)i);
    const tn_tensor *const in[] = {n, x};
    char *text = read_text();
    for (int way = 0; way < 3; way++) {
        static const char *const names[] = {"no such way", "packed", "direct"};
        char *forced = with_value(text, "way", names[way]);
        write_text(forced, strlen(forced));
        OK(tn_session_create(model, &(tn_session_options){.tuning_file = path}, &s));
        OK(tn_session_run(s, NULL, in, 2, way ? &got : &want, 1));
        if (way) assert_true(tn_tensor_compare(got, want, 1e-6, 0).same);
        tn_tensor_release(got);
        got = NULL;
        tn_session_release(s);
        free(forced);
    }
    free(text);
    tn_tensor_release(want);
    tn_tensor_release(n);
    tn_tensor_release(x);
    tn_model_release(model);
    tn_context_release(ctx);
    text_free(&t);
}

static tn_status tuned_life(Context *ctx, const char *text) {
    tn_model *model;
    tn_session *s = NULL;
    TRY(tn_model_load_memory((tn_context *)ctx, text, strlen(text), NULL, NULL, NULL, &model));
    tn_status status = tn_session_create(model, &(tn_session_options){.tune = true, .tuning_file = path}, &s);
    tn_session_release(s);
    tn_model_release(model);
    return status;
}

static void test_memory_runs_out(void **state) {
    (void)state;
    char *text = net("1,16,12,12");
    tn_status status = TN_OUT_OF_MEMORY;
    for (int64_t at = 1; status != TN_OK; at += 1 + at / 24) {
        TestHeap heap;
        Context *ctx;
        unlink(path);
        test_heap_init(&heap);
        OK(context_new(&heap.allocator, NULL, &ctx));
        heap.fail_at = heap.calls + at;
        status = tuned_life(ctx, text);
        if (status != TN_OK) assert_int_equal(status, TN_OUT_OF_MEMORY);
        heap.fail_at = 0;
        context_unref(ctx);
        assert_int_equal(heap.living, 0);
    }
    free(text);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_measured_and_kept),
        cmocka_unit_test(test_each_way),
        cmocka_unit_test(test_open_sizes),
        cmocka_unit_test(test_files_that_are_something_else),
        cmocka_unit_test(test_others_stay),
        cmocka_unit_test(test_accurate),
        cmocka_unit_test(test_files_that_cannot_be),
        cmocka_unit_test(test_state),
        cmocka_unit_test(test_body),
        cmocka_unit_test(test_equal_work),
        cmocka_unit_test(test_memory_runs_out),
    };
    return cmocka_run_group_tests(tests, make_folder, drop_folder);
}
