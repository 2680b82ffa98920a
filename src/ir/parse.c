/* SPDX-License-Identifier: Apache-2.0 */
/* Models from text, in one pass and without recursion: a stack of frames holds the graphs that are open. */
#include "ir/text_int.h"

#include <stdio.h>

/* Bounds where the model's own lists are searched one by one. */
enum { MAX_ATTRS = 1000, MAX_PROPERTIES = 10000 };

#define TOP(p) (&(p)->frames.data[(p)->frames.len - 1])

/* ---- places and errors --------------------------------------------------------------------------------------- */

static size_t line_start(Str s, size_t at) {
    while (at > 0 && s.s[at - 1] != '\n') at--;
    return at;
}

static bool is_inside_character(char c) { return (c & 0xc0) == 0x80; }

static size_t characters(Str s, size_t from, size_t to) {
    size_t n = 0;
    for (size_t i = from; i < to; i++) n += !is_inside_character(s.s[i]);
    return n;
}

/* The part of the line around `at`, and a caret below the place. */
static void note_line(const Parser *p, size_t at) {
    enum { BEFORE = 60, AFTER = 40 };
    char line[BEFORE + AFTER + 1], caret[BEFORE + 2];
    Str s = p->source;
    size_t from = line_start(s, at), n = 0;
    if (at - from > BEFORE) from = at - BEFORE;
    while (from < at && is_inside_character(s.s[from])) from++;
    for (size_t i = from; i < s.n && i < at + AFTER && s.s[i] != '\n' && s.s[i] != '\r'; i++)
        line[n++] = s.s[i] == '\t' ? ' ' : s.s[i];
    size_t spaces = characters(s, from, at);
    memset(caret, ' ', spaces);
    caret[spaces] = '^';
    caret[spaces + 1] = 0;
    diag_note("%.*s", (int)n, line);
    diag_note("%s", caret);
}

tn_status parse_place(const Parser *p, size_t at, tn_status status) {
    char place[480];
    size_t line = 1, start;
    if (status == TN_OK) return TN_OK;
    if (at > p->source.n) at = p->source.n;
    for (size_t i = 0; i < at; i++) line += p->source.s[i] == '\n';
    start = line_start(p->source, at);
    int n = (int)(p->file.n < 400 ? p->file.n : 400);
    snprintf(place, sizeof place, "%.*s:%zu:%zu", n ? n : 6, n ? p->file.s : "<text>", line,
             characters(p->source, start, at) + 1);
    diag_set_file(place);
    note_line(p, at);
    return status;
}

tn_status parse_fail(const Parser *p, size_t at, const char *format, ...) {
    char message[512];
    va_list args;
    va_start(args, format);
    vsnprintf(message, sizeof message, format, args);
    va_end(args);
    return parse_place(p, at, fail(TN_MALFORMED, "%s", message));
}

tn_status parse_expected(const Parser *p, const char *what) {
    const Token *t = &p->token;
    if (t->kind == TOKEN_BAD) return parse_fail(p, t->at, "%s", t->problem);
    if (t->kind == TOKEN_END) return parse_fail(p, t->at, "expected %s, but the text ends", what);
    size_t n = t->end - t->at;
    const char *dots = n > 40 ? "..." : "";
    return parse_fail(p, t->at, "expected %s, not `%.*s%s`", what, (int)(n > 40 ? 40 : n), p->source.s + t->at, dots);
}

/* ---- tokens -------------------------------------------------------------------------------------------------- */

void advance(Parser *p) { p->token = lex(p->source, p->token.end); }

bool accept(Parser *p, int kind) {
    if (p->token.kind != kind) return false;
    advance(p);
    return true;
}

tn_status expect(Parser *p, int kind, const char *what) { return accept(p, kind) ? TN_OK : parse_expected(p, what); }

bool at_word(const Parser *p, const char *word) {
    return p->token.kind == TOKEN_NAME && str_equal(p->token.text, str_of(word));
}

bool accept_word(Parser *p, const char *word) { return at_word(p, word) && accept(p, TOKEN_NAME); }

static tn_status intern(Parser *p, Str text, Str *out) {
    *out = model_str(p->model, text);
    return out->s ? TN_OK : TN_OUT_OF_MEMORY;
}

tn_status token_text(Parser *p, Str *out) {
    Str text;
    *out = (Str){0};
    TRY(unescape(&p->scratch, &p->token, &text));
    return intern(p, text, out);
}

tn_status parse_string(Parser *p, Str *out) {
    *out = (Str){0};
    if (p->token.kind != TOKEN_STRING) return parse_expected(p, "a string");
    TRY(token_text(p, out));
    advance(p);
    return TN_OK;
}

static tn_status parse_key(Parser *p, const char *what, Str *out) {
    *out = (Str){0};
    if (p->token.kind != TOKEN_NAME && p->token.kind != TOKEN_STRING) return parse_expected(p, what);
    TRY(token_text(p, out));
    advance(p);
    return TN_OK;
}

/* ---- names of values ----------------------------------------------------------------------------------------- */

static bool at_value(const Parser *p) { return p->token.kind == TOKEN_VALUE || p->token.kind == TOKEN_UNNAMED; }

static tn_status parse_value_name(Parser *p, Pending *name) {
    *name = (Pending){.at = p->token.at, .unnamed = p->token.kind == TOKEN_UNNAMED};
    if (!at_value(p)) return parse_expected(p, "a value, such as %x");
    if (name->unnamed) name->name = p->token.text;
    else TRY(token_text(p, &name->name));
    if (name->name.n == 0) return parse_fail(p, name->at, "a value's name cannot be empty");
    advance(p);
    return TN_OK;
}

static Value *lookup(const Parser *p, const Pending *name) {
    return name->unnamed ? map_get(&p->numbers, name->name) : model_value(p->model, name->name);
}

static tn_status bind(Parser *p, const Pending *name, Value *value) {
    if (name->name.n == 0) return TN_OK;
    if (lookup(p, name)) return parse_fail(p, name->at, "%%%.*s is defined twice", (int)name->name.n, name->name.s);
    if (name->unnamed) return map_set(&p->numbers, name->name, value);
    return parse_place(p, name->at, value_set_name(value, name->name));
}

/* A name like the one that is missing, among the last that were defined. */
static void suggest_value(Parser *p, Str wrong) {
    enum { TRIED = 1000 };
    const char *names[TRIED];
    size_t n = 0;
    const Map *map = &p->model->strings;
    for (size_t i = map->len; i-- > 0 && n < TRIED;) {
        if (!map->entries[i].value || !model_value(p->model, map->entries[i].key)) continue;
        names[n] = arena_strndup(&p->scratch, map->entries[i].key.s, map->entries[i].key.n);
        if (!names[n++]) return;
    }
    const char *nearest = nearest_name(wrong, names, n);
    if (nearest) diag_note("did you mean %%%s?", nearest);
}

static bool is_open(const Parser *p, const Graph *graph) {
    for (size_t i = p->frames.len; i-- > 0;)
        if (p->frames.data[i].graph == graph) return true;
    return false;
}

static tn_status resolve(Parser *p, const Pending *name, Value **out) {
    *out = lookup(p, name);
    if (*out && is_open(p, (*out)->graph)) return TN_OK;
    if (*out)
        return parse_fail(p, name->at, "%%%.*s belongs to a graph that is not around this place", (int)name->name.n,
                          name->name.s);
    parse_fail(p, name->at, "%%%.*s is not defined before this place", (int)name->name.n, name->name.s);
    if (!name->unnamed) suggest_value(p, name->name);
    return TN_MALFORMED;
}

/* What is known of a value from its payload, joined with the type that the text gives. */
static tn_status type_from_payload(Parser *p, Value *value, const Tensor *payload, size_t at) {
    Shape shape = shape_make(payload->rank, payload->dims);
    const Type *merged, *type = type_tensor(p->model, payload->dtype, &shape);
    if (!type) return TN_OUT_OF_MEMORY;
    TRY(parse_place(p, at, type_merge(p->model, value->type, type, &merged)));
    value->type = merged;
    return TN_OK;
}

/* ---- graphs -------------------------------------------------------------------------------------------------- */

static tn_status parse_input(Parser *p, Graph *graph) {
    Pending name;
    Value *value;
    Tensor *payload;
    size_t i = graph->inputs.len;
    const Type *type = p->model->type_any;
    TRY(parse_value_name(p, &name));
    if (accept(p, ':')) TRY(parse_type(p, &type));
    TRY(graph_add_input(graph, (Str){0}, type, &value));
    TRY(bind(p, &name, value));
    size_t at = p->token.at;
    if (!accept(p, '=')) return TN_OK;
    TRY(parse_tensor(p, &payload));
    TRY(type_from_payload(p, value, payload, at));
    return graph_set_input_default(graph, i, payload);
}

/* What an output stands for is found at the graph's end. */
static tn_status parse_output(Parser *p) {
    Pending output;
    Str api = {0};
    if (p->token.kind == TOKEN_STRING) {
        TRY(parse_string(p, &api));
        TRY(expect(p, '=', "`=` and the output's value"));
    }
    TRY(parse_value_name(p, &output));
    output.api = api;
    return vec_push(p->allocator, &p->outputs, output);
}

/* Behind `graph`, up to and with `{`. */
static tn_status open_graph(Parser *p, Node *owner) {
    Str name = STR("");
    Graph *graph;
    if (p->frames.len > p->ctx->limits.max_nesting)
        return parse_place(p, p->token.at,
                           fail(TN_LIMIT, "graphs are nested deeper than %u", (unsigned)p->ctx->limits.max_nesting));
    if (p->token.kind == TOKEN_SYMBOL) {
        TRY(token_text(p, &name));
        advance(p);
    }
    if (owner) {
        TRY(graph_new(p->model, owner, name, &graph));
    } else {
        graph = p->model->main;
        graph->name = name;
    }
    Frame frame = {.graph = graph, .first_output = p->outputs.len};
    TRY(vec_push(p->allocator, &p->frames, frame));
    TRY(expect(p, '(', "`(` and the graph's inputs"));
    while (!accept(p, ')')) {
        TRY(parse_input(p, graph));
        if (p->token.kind != ')') TRY(expect(p, ',', "`,` or `)`"));
    }
    TRY(expect(p, TOKEN_ARROW, "`->` and the graph's outputs"));
    TRY(expect(p, '(', "`(`"));
    while (!accept(p, ')')) {
        TRY(parse_output(p));
        if (p->token.kind != ')') TRY(expect(p, ',', "`,` or `)`"));
    }
    return expect(p, '{', "`{`");
}

static tn_status add_outputs(Parser *p, const Frame *frame) {
    for (size_t i = frame->first_output; i < p->outputs.len; i++) {
        Value *value;
        TRY(resolve(p, &p->outputs.data[i], &value));
        TRY(graph_add_output(frame->graph, value, p->outputs.data[i].api));
    }
    p->outputs.len = frame->first_output;
    return TN_OK;
}

/* ---- attributes ---------------------------------------------------------------------------------------------- */

/* The types of results are set, and their names are bound, only now: a nested graph cannot read its owner's results. */
static tn_status bind_results(Parser *p, Node *node, const Pending *results) {
    for (uint32_t i = 0; i < node->n_results; i++) {
        if (results[i].type) node->results[i]->type = results[i].type;
        TRY(bind(p, &results[i], node->results[i]));
    }
    if (node->n_results != 1) return TN_OK;
    const Tensor *payload = value_constant(node->results[0]);
    return payload ? type_from_payload(p, node->results[0], payload, results[0].at) : TN_OK;
}

static tn_status finish_node(Parser *p) {
    Frame *frame = TOP(p);
    Node *node = frame->node;
    if (accept_word(p, "loc")) TRY(parse_string(p, &node->loc));
    TRY(bind_results(p, node, p->results.data + frame->first_result));
    p->results.len = frame->first_result;
    frame->node = NULL;
    return parse_place(p, frame->node_at, node_check(node));
}

/* Behind an attribute's value. */
static tn_status end_attr(Parser *p) {
    bool more = accept(p, ',');
    if (accept(p, '}')) return finish_node(p);
    return more ? TN_OK : parse_expected(p, "`,` or `}`");
}

static tn_status set_attr(Parser *p, size_t at, const Attr *attr) {
    return parse_place(p, at, node_set_attr(TOP(p)->node, attr));
}

/* The graphs of an attribute that are not read yet: opens the next, or ends the attribute. */
static tn_status continue_graphs(Parser *p) {
    Frame *frame = TOP(p);
    bool more = frame->in_list && accept(p, ',');
    if (frame->in_list && (more || p->graphs.len == frame->first_graph) && at_graph(p)) {
        advance(p);
        return open_graph(p, frame->node);
    }
    if (frame->in_list) TRY(expect(p, ']', more ? "`graph` or `]`" : "`,` or `]`"));
    Attr attr = {.name = frame->attr, .kind = frame->in_list ? ATTR_GRAPHS : ATTR_GRAPH};
    attr.n = frame->in_list ? p->graphs.len - frame->first_graph : 0;
    if (frame->in_list) attr.graphs = p->graphs.data + frame->first_graph;
    else attr.graph = p->graphs.data[frame->first_graph];
    TRY(set_attr(p, p->token.at, &attr));
    p->graphs.len = frame->first_graph;
    return end_attr(p);
}

static tn_status parse_graph_attr(Parser *p, Str name) {
    Frame *frame = TOP(p);
    frame->attr = name;
    frame->first_graph = p->graphs.len;
    frame->in_list = !accept_word(p, "graph");
    if (!frame->in_list) return open_graph(p, frame->node);
    accept_word(p, "graphs");
    TRY(expect(p, '[', "`[`"));
    return continue_graphs(p);
}

static tn_status parse_attr(Parser *p) {
    Node *node = TOP(p)->node;
    size_t at = p->token.at;
    Attr attr = {0};
    TRY(parse_key(p, "an attribute's name", &attr.name));
    if (node_attr(node, attr.name))
        return parse_fail(p, at, "the attribute \"%.*s\" is there twice", (int)attr.name.n, attr.name.s);
    if (node->n_attrs == MAX_ATTRS) return parse_fail(p, at, "more than %d attributes", (int)MAX_ATTRS);
    TRY(expect(p, '=', "`=` and the attribute's value"));
    const AttrSpec *spec = op_attr_spec(node->op, attr.name);
    if (at_graph(p) || at_graph_list(p, spec && spec->kind == ATTR_GRAPHS)) return parse_graph_attr(p, attr.name);
    TRY(parse_attr_value(p, spec, &attr));
    TRY(set_attr(p, at, &attr));
    return end_attr(p);
}

/* `}` behind a graph's statements. */
static tn_status close_graph(Parser *p) {
    Frame frame = *TOP(p);
    TRY(add_outputs(p, &frame));
    p->frames.len--;
    if (p->frames.len == 0) return TN_OK;
    TRY(vec_push(p->allocator, &p->graphs, frame.graph));
    return continue_graphs(p);
}

/* ---- statements ---------------------------------------------------------------------------------------------- */

static tn_status parse_op(Parser *p, const OpSchema **op) {
    Str name;
    OpHint hint;
    size_t at = p->token.at;
    TRY(parse_key(p, "an op", &name));
    *op = op_named(name);
    return *op ? TN_OK : parse_fail(p, at, "there is no op \"%.*s\"%s", (int)name.n, name.s, op_hint(name, &hint));
}

static tn_status parse_results(Parser *p) {
    if (!at_value(p) && !at_word(p, "_")) return TN_OK;
    do {
        Pending result = {.at = p->token.at, .unnamed = true};
        if (!accept_word(p, "_")) TRY(parse_value_name(p, &result));
        if (accept(p, ':')) TRY(parse_type(p, &result.type));
        TRY(vec_push(p->allocator, &p->results, result));
    } while (accept(p, ','));
    return expect(p, '=', "`=` and an op");
}

static tn_status parse_operand(Parser *p, Graph *graph, Value **value) {
    Pending name;
    Tensor *payload;
    Node *node;
    *value = NULL;
    if (accept_word(p, "_")) return TN_OK;
    if (at_value(p)) {
        TRY(parse_value_name(p, &name));
        return resolve(p, &name, value);
    }
    TRY(parse_operand_literal(p, &payload));
    TRY(const_new(graph, payload, (Str){0}, &node));
    node_append(node);
    *value = node->results[0];
    return TN_OK;
}

static tn_status parse_operands(Parser *p, Graph *graph) {
    p->operands.len = 0;
    if (p->token.kind == '{') return TN_OK;
    TRY(expect(p, '(', "`(` and the operands"));
    while (!accept(p, ')')) {
        Value *value;
        TRY(parse_operand(p, graph, &value));
        TRY(vec_push(p->allocator, &p->operands, value));
        if (p->token.kind != ')') TRY(expect(p, ',', "`,` or `)`"));
    }
    return TN_OK;
}

/* %a, %b = Op(%x, _) up to its attributes. Without operands `Const {...}` will do. */
static tn_status parse_statement(Parser *p) {
    Frame *frame = TOP(p);
    const OpSchema *op;
    Node *node;
    arena_reset(&p->scratch);
    if (accept(p, '}')) return close_graph(p);
    frame->node_at = p->token.at;
    frame->first_result = p->results.len;
    TRY(parse_results(p));
    TRY(parse_op(p, &op));
    TRY(parse_operands(p, frame->graph));
    size_t n_results = p->results.len - frame->first_result;
    tn_status status = node_new(frame->graph, op, p->operands.data, p->operands.len, n_results, &node);
    if (status != TN_OK) return parse_place(p, frame->node_at, status);
    node_append(node);
    frame->node = node;
    if (!accept(p, '{') || accept(p, '}')) return finish_node(p);
    return TN_OK;
}

/* ---- models -------------------------------------------------------------------------------------------------- */

static tn_status parse_version(Parser *p) {
    int64_t version;
    if (!accept_word(p, "tn")) return parse_expected(p, "`tn 1`, which a model's text begins with");
    size_t at = p->token.at;
    TRY(parse_int(p, &version));
    if (version == 1) return TN_OK;
    return parse_place(
        p, at, fail(TN_UNSUPPORTED, "version %lld of the text form is not known; version 1 is", (long long)version));
}

static tn_status parse_metadata(Parser *p) {
    Str key, value;
    if (!accept_word(p, "model")) return TN_OK;
    TRY(expect(p, '{', "`{`"));
    for (int n = 0; !accept(p, '}'); n++) {
        if (n == MAX_PROPERTIES) return parse_fail(p, p->token.at, "more than %d properties", (int)MAX_PROPERTIES);
        TRY(parse_key(p, "a property's name", &key));
        TRY(expect(p, '=', "`=`"));
        TRY(parse_string(p, &value));
        TRY(model_set_metadata(p->model, key, value));
        if (p->token.kind != '}') TRY(expect(p, ',', "`,` or `}`"));
    }
    return TN_OK;
}

static tn_status parse_model(Parser *p) {
    advance(p);
    TRY(parse_version(p));
    TRY(parse_metadata(p));
    if (!accept_word(p, "graph")) return parse_expected(p, "`graph`");
    TRY(open_graph(p, NULL));
    while (p->frames.len > 0) TRY(TOP(p)->node ? parse_attr(p) : parse_statement(p));
    return p->token.kind == TOKEN_END ? TN_OK : parse_expected(p, "the end of the text");
}

static void parser_free(Parser *p) {
    arena_free(&p->scratch);
    map_free(&p->numbers);
    vec_free(p->allocator, &p->frames);
    vec_free(p->allocator, &p->results);
    vec_free(p->allocator, &p->outputs);
    vec_free(p->allocator, &p->graphs);
    vec_free(p->allocator, &p->operands);
    vec_free(p->allocator, &p->ints);
    vec_free(p->allocator, &p->floats);
    vec_free(p->allocator, &p->strings);
    vec_free(p->allocator, &p->tensors);
    vec_free(p->allocator, &p->types);
    vec_free(p->allocator, &p->dims);
    vec_free(p->allocator, &p->dim_ops);
}

tn_status type_parse(Model *model, Str text, const Type **out) {
    Parser p = {.ctx = model->ctx, .allocator = &model->ctx->allocator, .model = model, .source = text};
    p.file = STR("<type>");
    arena_init(&p.scratch, p.allocator);
    map_init(&p.numbers, p.allocator);
    locale_t before = text_locale_enter();
    advance(&p);
    tn_status status = parse_type(&p, out);
    if (status == TN_OK && p.token.kind != TOKEN_END) status = parse_expected(&p, "the end of the type");
    text_locale_leave(before);
    parser_free(&p);
    return status;
}

tn_status model_parse(Context *ctx, Str text, const ParseOptions *options, Str file, Model **out) {
    Parser p = {.ctx = ctx, .allocator = &ctx->allocator, .options = options, .source = text, .file = file};
    *out = NULL;
    TRY(model_new(ctx, &p.model));
    arena_init(&p.scratch, p.allocator);
    map_init(&p.numbers, p.allocator);
    locale_t before = text_locale_enter();
    tn_status status = intern(&p, file, &p.model->file);
    if (status == TN_OK) status = parse_model(&p);
    text_locale_leave(before);
    parser_free(&p);
    if (status == TN_OK) *out = p.model;
    else model_free(p.model);
    return status;
}
