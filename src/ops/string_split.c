/* SPDX-License-Identifier: Apache-2.0 */
/* StringSplit (ONNX 20): each string cut at a delimiter, or at blanks; shorter rows are filled up with empty strings.
   */
#define _GNU_SOURCE /* memmem */
#include "ops/string_int.h"

static bool is_blank(char ch) { return ch == ' ' || (ch >= '\t' && ch <= '\r'); }

static Str trim(Str s) {
    while (s.n && is_blank(s.s[0])) s.s++, s.n--;
    while (s.n && is_blank(s.s[s.n - 1])) s.n--;
    return s;
}

/* Takes the next piece off *rest; false when nothing is left. `last`: the piece is all that is left. */
static bool next_piece(Str *rest, Str delimiter, bool last, Str *piece) {
    if (!rest->s) return false;
    size_t end = 0, skip = delimiter.n ? delimiter.n : 1;
    if (!delimiter.n && !rest->n) return false;
    if (last) end = rest->n;
    else if (delimiter.n) {
        const char *at = rest->n ? memmem(rest->s, rest->n, delimiter.s, delimiter.n) : NULL;
        end = at ? (size_t)(at - rest->s) : rest->n;
    } else {
        while (end < rest->n && !is_blank(rest->s[end])) end++;
    }
    *piece = (Str){rest->s, end};
    if (end == rest->n) *rest = (Str){0};
    else *rest = (Str){rest->s + end + skip, rest->n - end - skip};
    if (!delimiter.n && rest->s) *rest = trim(*rest);
    return true;
}

typedef struct Cut {
    Str delimiter;
    int64_t max; /* cuts; -1: any number */
} Cut;

/* Counts the pieces; writes them from element `at` of the result on, unless that is negative. */
static tn_status cut(KernelCtx *c, const Cut *how, RcString *string, int64_t at, int64_t *pieces) {
    Str rest = rc_string_get(string), piece;
    if (!rest.s) rest.s = "";
    if (!how->delimiter.n) rest = trim(rest);
    int64_t n = 0;
    for (; next_piece(&rest, how->delimiter, how->max >= 0 && n == how->max, &piece); n++)
        if (at >= 0) TRY(put_string(c, 0, at + n, piece));
    *pieces = n;
    return TN_OK;
}

static Cut read_cut(const Node *node) {
    return (Cut){attr_string(node, "delimiter"), attr_present(node, "maxsplit") ? attr_int(node, "maxsplit") : -1};
}

static tn_status string_split_infer(InferCtx *c) {
    const Shape *x = in_shape(c, 0);
    set_shape(c, 1, x);
    if (x->rank < 0) return TN_OK;
    if (x->rank == TN_MAX_RANK) return fail(TN_LIMIT, "the result would have more than %d dimensions", TN_MAX_RANK);
    Shape y = *x;
    y.dims[y.rank++] = DIM_UNKNOWN;
    set_shape(c, 0, &y);
    return TN_OK;
}

static tn_status string_split_reference(KernelCtx *c) {
    const Tensor *x = c->in[0];
    int64_t count = tensor_count(x), dims[TN_MAX_RANK] = {0}, longest = 0;
    int64_t *pieces = kernel_scratch(c, int64_t, (size_t)max_i64(count, 1));
    Cut how = read_cut(c->node);
    RcString *const *strings;
    if (!pieces) return TN_OUT_OF_MEMORY;
    TRY(dense_strings(c, 0, &strings));
    for (int64_t k = 0; k < count; k++) {
        TRY(cut(c, &how, strings[k], -1, &pieces[k]));
        longest = max_i64(longest, pieces[k]);
    }
    memcpy(dims, x->dims, (size_t)x->rank * sizeof *dims);
    dims[x->rank] = longest;
    if (output_wanted(c, 0)) {
        TRY(output_ready(c, 0, x->rank + 1, dims));
        TRY(output_zero(c, 0));
        for (int64_t k = 0; k < count; k++) TRY(cut(c, &how, strings[k], k * longest, &pieces[k]));
    }
    if (!output_wanted(c, 1)) return TN_OK;
    TRY(output_ready(c, 1, x->rank, x->dims));
    if (count) store_i64(TN_I64, c->out[1].data, c->out[1].offset, 1, pieces, count);
    return TN_OK;
}

const OpSchema op_StringSplit = {
    .name = "StringSplit",
    .summary = "Cuts strings into pieces (ONNX 20)",
    .kind = OP_ATOMIC,
    .flags = OP_DYNAMIC_OUT,
    .inputs = OPERANDS({"X", TS(TN_STRING)}),
    .outputs = OPERANDS({"Y", TS(TN_STRING)}, {"Z", TS(TN_I64), 0, OPERAND_OPTIONAL}),
    .attrs = ATTRIBUTES({"delimiter", ATTR_STRING}, {"maxsplit", ATTR_INT}),
    .infer = string_split_infer,
    .reference = string_split_reference,
};
