/* SPDX-License-Identifier: Apache-2.0 */
/* TfIdfVectorizer (ONNX 9): counts in each row the n-grams of a pool, some words between their parts skipped. */
#include <stdlib.h>

#include "ops/string_int.h"

typedef enum Mode { MODE_TF, MODE_IDF, MODE_TFIDF } Mode;

static tn_status read_mode(const Node *node, Mode *out) {
    static const char *const names[] = {"TF", "IDF", "TFIDF"};
    for (int i = 0; i < 3; i++) {
        *out = (Mode)i;
        if (attr_string_is(node, "mode", names[i])) return TN_OK;
    }
    Str s = attr_string(node, "mode");
    return fail(TN_INVALID_MODEL, "mode is \"%.*s\"; TF, IDF or TFIDF is wanted", (int)s.n, s.s);
}

/* The attributes, checked; how many n-grams there are of which size follows from ngram_counts. */
typedef struct Attrs {
    Mode mode;
    IntList counts, columns, ints; /* ngram_counts, ngram_indexes, pool_int64s */
    const Attr *strings, *weights; /* pool_strings, weights; NULL where absent */
    int64_t total, grams, width;   /* pool elements, n-grams, columns of the result */
    int64_t smallest, largest, skips;
} Attrs;

static int64_t pool_begin(const Attrs *a, size_t size) { return size < a->counts.n ? a->counts.data[size] : a->total; }

static tn_status check_counts(Attrs *a) {
    for (size_t i = 0; i < a->counts.n; i++) {
        int64_t begin = pool_begin(a, i), end = pool_begin(a, i + 1), size = (int64_t)i + 1;
        if (begin < 0 || end < begin || end > a->total || (end - begin) % size)
            return fail(TN_INVALID_MODEL, "ngram_counts does not divide the pool of %lld into n-grams",
                        (long long)a->total);
        a->grams += (end - begin) / size;
    }
    if ((size_t)a->grams != a->columns.n)
        return fail(TN_INVALID_MODEL, "%zu ngram_indexes for %lld n-grams", a->columns.n, (long long)a->grams);
    for (size_t i = 0; i < a->columns.n; i++) {
        if (a->columns.data[i] < 0 || a->columns.data[i] == INT64_MAX)
            return fail(TN_INVALID_MODEL, "ngram_indexes[%zu] is %lld", i, (long long)a->columns.data[i]);
        a->width = max_i64(a->width, a->columns.data[i] + 1);
    }
    return TN_OK;
}

static tn_status read_attrs(const Node *node, Attrs *a) {
    *a = (Attrs){.counts = attr_ints(node, "ngram_counts"),
                 .columns = attr_ints(node, "ngram_indexes"),
                 .ints = attr_ints(node, "pool_int64s"),
                 .strings = attr_get(node, "pool_strings"),
                 .weights = attr_get(node, "weights"),
                 .smallest = attr_int(node, "min_gram_length"),
                 .largest = attr_int(node, "max_gram_length"),
                 .skips = attr_int(node, "max_skip_count")};
    TRY(read_mode(node, &a->mode));
    if (a->strings && a->strings->n == 0) a->strings = NULL;
    if (a->weights && a->weights->n == 0) a->weights = NULL;
    if (!a->strings == !a->ints.n) return fail(TN_INVALID_MODEL, "one of pool_int64s and pool_strings is wanted");
    a->total = a->strings ? (int64_t)a->strings->n : (int64_t)a->ints.n;
    if (a->smallest < 1 || a->largest < a->smallest || a->skips < 0)
        return fail(TN_INVALID_MODEL, "n-grams of length %lld to %lld with %lld skips", (long long)a->smallest,
                    (long long)a->largest, (long long)a->skips);
    TRY(check_counts(a));
    if (a->weights && a->weights->n != a->columns.n)
        return fail(TN_INVALID_MODEL, "%zu weights for %zu n-grams", a->weights->n, a->columns.n);
    a->largest = min_i64(a->largest, (int64_t)a->counts.n);
    return TN_OK;
}

static tn_status tfidf_infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    Attrs a;
    TRY(read_attrs(c->node, &a));
    if (in_dtype(c, 0) && (in_dtype(c, 0) == TN_STRING) != (a.strings != NULL))
        return fail(TN_SHAPE, "X is %s, but the pool is of %s", dtype_name(in_dtype(c, 0)),
                    a.strings ? "strings" : "integers");
    if (x->rank < 0) return TN_OK;
    if (x->rank > 2) return fail(TN_SHAPE, "X has %d dimensions; 1 or 2 are wanted", x->rank);
    Shape y = {.rank = max_i64(x->rank, 1) == 2 ? 2 : 1, .dims = {x->rank == 2 ? x->dims[0] : a.width, a.width}};
    set_shape(c, 0, &y);
    return TN_OK;
}

/* ---- kernel -------------------------------------------------------------------------------------------------- */

typedef struct Gram {
    const int64_t *tokens;
    int64_t size, index; /* index: in the pool */
} Gram;

static int compare_tokens(const Gram *a, const Gram *b) {
    if (a->size != b->size) return a->size < b->size ? -1 : 1;
    for (int64_t i = 0; i < a->size; i++)
        if (a->tokens[i] != b->tokens[i]) return a->tokens[i] < b->tokens[i] ? -1 : 1;
    return 0;
}

static int compare_grams(const void *a, const void *b) {
    const Gram *x = a, *y = b;
    int order = compare_tokens(x, y);
    return order ? order : (x->index > y->index) - (x->index < y->index);
}

static int compare_words(const void *a, const void *b) {
    const Str *x = a, *y = b;
    size_t n = x->n < y->n ? x->n : y->n;
    int order = n ? memcmp(x->s, y->s, n) : 0;
    return order ? order : (x->n > y->n) - (x->n < y->n);
}

/* The first of the sorted words that is not less. */
static int64_t find_word(const Str *words, int64_t n, Str word) {
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (compare_words(&words[middle], &word) < 0) low = middle + 1;
        else high = middle;
    }
    return low < n && compare_words(&words[low], &word) == 0 ? low : -1;
}

/* The pool's last n-gram that is the same; -1: none is. */
static int64_t find_gram(const Gram *grams, int64_t n, const Gram *key) {
    int64_t low = 0, high = n;
    while (low < high) {
        int64_t middle = low + (high - low) / 2;
        if (compare_tokens(&grams[middle], key) <= 0) low = middle + 1;
        else high = middle;
    }
    return low > 0 && compare_tokens(&grams[low - 1], key) == 0 ? grams[low - 1].index : -1;
}

/* Pool and operand as numbers: of strings, the place of the word among the pool's sorted ones, -1 for strangers. */
static tn_status read_tokens(KernelCtx *c, const Attrs *a, const int64_t **pool, const int64_t **x) {
    if (!a->strings) {
        *pool = a->ints.data;
        return dense_i64(c, 0, x);
    }
    int64_t n = tensor_count(c->in[0]);
    Str *words = kernel_scratch(c, Str, (size_t)a->total);
    int64_t *own = kernel_scratch(c, int64_t, (size_t)a->total), *tokens = kernel_scratch(c, int64_t, (size_t)n + 1);
    RcString *const *strings;
    if (!words || !own || !tokens) return TN_OUT_OF_MEMORY;
    TRY(dense_strings(c, 0, &strings));
    memcpy(words, a->strings->strings, (size_t)a->total * sizeof *words);
    qsort(words, (size_t)a->total, sizeof *words, compare_words);
    for (int64_t i = 0; i < a->total; i++) own[i] = find_word(words, a->total, a->strings->strings[i]);
    for (int64_t i = 0; i < n; i++) tokens[i] = find_word(words, a->total, rc_string_get(strings[i]));
    *pool = own, *x = tokens;
    return TN_OK;
}

static tn_status sort_grams(KernelCtx *c, const Attrs *a, const int64_t *pool, Gram **out) {
    Gram *grams = kernel_scratch(c, Gram, (size_t)max_i64(a->grams, 1));
    int64_t n = 0;
    if (!grams) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < a->counts.n; i++) {
        int64_t size = (int64_t)i + 1;
        for (int64_t at = pool_begin(a, i); at < pool_begin(a, i + 1); at += size, n++)
            grams[n] = (Gram){pool + at, size, n};
    }
    qsort(grams, (size_t)n, sizeof *grams, compare_grams);
    *out = grams;
    return TN_OK;
}

/* What finding n-gram i once more makes of its column: "the i-th element in weights is the weight of the i-th n-gram in
   pool", wherever the result has it. */
static void count_gram(const Attrs *a, int64_t i, float *y) {
    float weight = a->weights && a->mode != MODE_TF ? a->weights->floats[i] : 1;
    if (a->mode == MODE_IDF) *y = weight;
    else *y += weight;
}

/* Single words are counted once, since no skip changes them. */
static void count_row(const Attrs *a, const Gram *grams, const int64_t *row, int64_t n, int64_t *buffer, float *y) {
    for (int64_t step = 1; step - 1 <= a->skips && step <= max_i64(n, 1); step++) {
        for (int64_t size = step == 1 ? a->smallest : max_i64(a->smallest, 2); size <= a->largest; size++) {
            if (size > 1 && step > (n - 1) / (size - 1)) break;
            for (int64_t start = 0; start + step * (size - 1) < n; start++) {
                for (int64_t i = 0; i < size; i++) buffer[i] = row[start + i * step];
                int64_t found = find_gram(grams, a->grams, &(Gram){buffer, size, 0});
                if (found >= 0) count_gram(a, found, &y[a->columns.data[found]]);
            }
        }
    }
}

static tn_status tfidf_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    int64_t rows = x->rank == 2 ? x->dims[0] : 1, n = x->rank ? x->dims[x->rank - 1] : 1;
    const int64_t *pool, *tokens;
    Gram *grams;
    Attrs a;
    float *y;
    TRY(read_attrs(c->node, &a));
    TRY(read_tokens(c, &a, &pool, &tokens));
    TRY(sort_grams(c, &a, pool, &grams));
    TRY(result_f32(c, 0, &y));
    int64_t *buffer = kernel_scratch(c, int64_t, a.counts.n + 1);
    if (!buffer) return TN_OUT_OF_MEMORY;
    for (int64_t row = 0; row < rows; row++) {
        float *to = y + row * a.width;
        for (int64_t i = 0; i < a.width; i++) to[i] = 0;
        TRY(kernel_poll(c));
        count_row(&a, grams, tokens + row * n, n, buffer, to);
    }
    return TN_OK;
}

const OpSchema op_TfIdfVectorizer = {
    .name = "TfIdfVectorizer",
    .summary = "Counts n-grams of a pool (ONNX 9)",
    .kind = OP_ATOMIC,
    .inputs = OPERANDS({"X", TS(TN_STRING) | TS(TN_I32) | TS(TN_I64)}),
    .outputs = OPERANDS({"Y", TS(TN_F32)}),
    .attrs = ATTRIBUTES({"max_gram_length", ATTR_INT, ATTR_REQUIRED}, {"max_skip_count", ATTR_INT, ATTR_REQUIRED},
                        {"min_gram_length", ATTR_INT, ATTR_REQUIRED}, {"mode", ATTR_STRING, ATTR_REQUIRED},
                        {"ngram_counts", ATTR_INTS, ATTR_REQUIRED}, {"ngram_indexes", ATTR_INTS, ATTR_REQUIRED},
                        {"pool_int64s", ATTR_INTS}, {"pool_strings", ATTR_STRINGS}, {"weights", ATTR_FLOATS}),
    .infer = tfidf_infer,
    .reference = tfidf_reference,
};
