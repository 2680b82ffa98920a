/* SPDX-License-Identifier: Apache-2.0 */
/* Attribute values from text; nested graphs are the parser's own. */
#include "ir/text_int.h"

/* ---- what stands here ---------------------------------------------------------------------------------------- */

bool at_graph(const Parser *p) { return at_word(p, "graph"); }

static bool next_is(const Parser *p, const char *word) {
    Token next = lex(p->source, p->token.end);
    return next.kind == TOKEN_NAME && str_equal(next.text, str_of(word));
}

bool at_graph_list(const Parser *p, bool empty_is) {
    if (at_word(p, "graphs")) return true;
    if (p->token.kind != '[') return false;
    return next_is(p, "graph") || (empty_is && lex(p->source, p->token.end).kind == ']');
}

/* The words in front of a list, in the order of their kinds. */
static const struct ListWord {
    const char *word;
    AttrKind kind;
} list_words[] = {
    {"ints", ATTR_INTS},       {"floats", ATTR_FLOATS}, {"strings", ATTR_STRINGS},
    {"tensors", ATTR_TENSORS}, {"types", ATTR_TYPES},   {"lists", ATTR_INT_LISTS},
};
enum { N_LIST_WORDS = sizeof list_words / sizeof *list_words };

/* ---- lists --------------------------------------------------------------------------------------------------- */

/* A copy in scratch memory of what a stack of the parser holds. */
static tn_status copy_list(Parser *p, const void *data, size_t n, size_t size, Attr *attr, const void **to) {
    void *copy = arena_array_(&p->scratch, n, size, alignof(max_align_t));
    if (!copy) return TN_OUT_OF_MEMORY;
    if (n > 0) memcpy(copy, data, n * size);
    attr->n = n;
    *to = copy;
    return TN_OK;
}

static tn_status parse_numbers(Parser *p, AttrKind kind, Attr *attr) {
    const void *copy;
    bool floats;
    size_t at = p->token.at;
    TRY(parse_number_list(p, kind == ATTR_FLOATS, &floats));
    if (kind == ATTR_INTS && floats) return parse_fail(p, at, "these are not all integers");
    attr->kind = floats ? ATTR_FLOATS : ATTR_INTS;
    if (floats) {
        TRY(copy_list(p, p->floats.data, p->floats.len, sizeof(float), attr, &copy));
        attr->floats = copy;
    } else {
        TRY(copy_list(p, p->ints.data, p->ints.len, sizeof(int64_t), attr, &copy));
        attr->ints = copy;
    }
    return TN_OK;
}

static tn_status push_item(Parser *p, AttrKind kind) {
    Str string;
    Tensor *tensor;
    const Type *type;
    if (kind == ATTR_STRINGS) {
        TRY(parse_string(p, &string));
        return vec_push(p->allocator, &p->strings, string);
    }
    if (kind == ATTR_TENSORS) {
        TRY(parse_tensor(p, &tensor));
        return vec_push(p->allocator, &p->tensors, tensor);
    }
    if (!accept_word(p, "type")) return parse_expected(p, "`type`");
    TRY(parse_type(p, &type));
    return vec_push(p->allocator, &p->types, type);
}

static tn_status parse_items(Parser *p, AttrKind kind, Attr *attr) {
    const void *copy;
    attr->kind = kind;
    p->strings.len = p->tensors.len = p->types.len = 0;
    while (!accept(p, ']')) {
        TRY(push_item(p, kind));
        if (p->token.kind != ']') TRY(expect(p, ',', "`,` or `]`"));
    }
    if (kind == ATTR_STRINGS) {
        TRY(copy_list(p, p->strings.data, p->strings.len, sizeof(Str), attr, &copy));
        attr->strings = copy;
    } else if (kind == ATTR_TENSORS) {
        TRY(copy_list(p, p->tensors.data, p->tensors.len, sizeof(Tensor *), attr, &copy));
        memcpy(&attr->tensors, &copy, sizeof copy);
    } else {
        TRY(copy_list(p, p->types.data, p->types.len, sizeof(Type *), attr, &copy));
        memcpy(&attr->types, &copy, sizeof copy);
    }
    return TN_OK;
}

/* [[0,1],[2]], the outer bracket being consumed. */
static tn_status parse_int_lists(Parser *p, Attr *attr) {
    VEC(IntList) lists = {0};
    tn_status status = TN_OK;
    while (status == TN_OK && !accept(p, ']')) {
        Attr inner = {0};
        status = expect(p, '[', "`[`");
        if (status == TN_OK) status = parse_numbers(p, ATTR_INTS, &inner);
        if (status == TN_OK) status = vec_push(p->allocator, &lists, (IntList){inner.ints, inner.n});
        if (status == TN_OK && p->token.kind != ']') status = expect(p, ',', "`,` or `]`");
    }
    const void *copy = NULL;
    if (status == TN_OK) status = copy_list(p, lists.data, lists.len, sizeof(IntList), attr, &copy);
    vec_free(p->allocator, &lists);
    attr->kind = ATTR_INT_LISTS;
    attr->lists = copy;
    return status;
}

static tn_status parse_list_of(Parser *p, AttrKind kind, Attr *attr) {
    if (kind == ATTR_INT_LISTS) return parse_int_lists(p, attr);
    if (kind == ATTR_INTS || kind == ATTR_FLOATS) return parse_numbers(p, kind, attr);
    return parse_items(p, kind, attr);
}

static bool is_list_kind(AttrKind kind) { return kind >= ATTR_INTS && kind != ATTR_GRAPHS; }

/* A list without a word in front: its first item tells what it is. */
static tn_status parse_list(Parser *p, const AttrSpec *spec, Attr *attr) {
    size_t at = p->token.at;
    advance(p);
    if (at_number(p)) return parse_numbers(p, spec && spec->kind == ATTR_FLOATS ? ATTR_FLOATS : ATTR_INT, attr);
    if (p->token.kind == TOKEN_STRING) return parse_items(p, ATTR_STRINGS, attr);
    if (p->token.kind == '[') return parse_int_lists(p, attr);
    if (at_word(p, "type")) return parse_items(p, ATTR_TYPES, attr);
    if (at_tensor(p)) return parse_items(p, ATTR_TENSORS, attr);
    if (p->token.kind != ']') return parse_expected(p, "an item of a list");
    if (!spec || !is_list_kind(spec->kind))
        return parse_fail(p, at, "an empty list needs its kind in front, such as `ints []`");
    return parse_list_of(p, spec->kind, attr);
}

/* ---- values -------------------------------------------------------------------------------------------------- */

/* An integer where the schema wants a float is one. */
static tn_status parse_scalar(Parser *p, const AttrSpec *spec, Attr *attr) {
    Token digits = p->token.kind == '-' ? lex(p->source, p->token.end) : p->token;
    bool is_int = digits.kind == TOKEN_INT && !(spec && spec->kind == ATTR_FLOAT);
    attr->kind = is_int ? ATTR_INT : ATTR_FLOAT;
    return is_int ? parse_int(p, &attr->i) : parse_float(p, &attr->f);
}

tn_status parse_attr_value(Parser *p, const AttrSpec *spec, Attr *attr) {
    if (p->token.kind == '[') return parse_list(p, spec, attr);
    if (at_number(p)) return parse_scalar(p, spec, attr);
    if (p->token.kind == TOKEN_STRING) {
        attr->kind = ATTR_STRING;
        return parse_string(p, &attr->s);
    }
    if (at_word(p, "true") || at_word(p, "false")) {
        attr->kind = ATTR_INT;
        attr->i = at_word(p, "true");
        advance(p);
        return TN_OK;
    }
    if (accept_word(p, "type")) {
        attr->kind = ATTR_TYPE;
        return parse_type(p, &attr->type);
    }
    for (size_t i = 0; i < N_LIST_WORDS; i++) {
        if (!accept_word(p, list_words[i].word)) continue;
        TRY(expect(p, '[', "`[`"));
        return parse_list_of(p, list_words[i].kind, attr);
    }
    if (!at_tensor(p)) return parse_expected(p, "an attribute's value");
    attr->kind = ATTR_TENSOR;
    return parse_tensor(p, &attr->tensor);
}
