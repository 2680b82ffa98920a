/* SPDX-License-Identifier: Apache-2.0 */
/* What the files that read and write the text form share: tokens, literals, the parser's state. See docs/ir.md. */
#ifndef TENON_IR_TEXT_INT_H
#define TENON_IR_TEXT_INT_H

#include <locale.h>

#include "ir/ir.h"

/* ---- spelling (spell.c) -------------------------------------------------------------------------------------- */

/* Numbers are read in the C locale, whatever the program has set: on this thread, between the two calls. What spells
   them sees to it itself. */
locale_t text_locale_enter(void);
void text_locale_leave(locale_t before);

static inline bool is_name_start(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_'; }
static inline bool is_name_char(char c) { return is_name_start(c) || (c >= '0' && c <= '9'); }
/* Letters, digits and `_`, in parts joined by dots, no part after a dot empty, no digit first. */
bool is_plain_name(Str s);
void spell_quoted(Text *out, Str s);      /* "text" with escapes */
void spell_name(Text *out, Str s);        /* plain, or quoted */
void spell_float(Text *out, float value); /* shortest text that reads back to the same bits, NaNs included */
void spell_indent(Text *out, size_t depth);

/* ---- elements (spell.c): one element of any type but strings and complex as its text, and back ------------------- */

/* The code of element i: its bits, zero-extended. For types of at most 64 bits. */
uint64_t element_code(tn_dtype dtype, const void *data, int64_t i);
void element_set_code(tn_dtype dtype, void *data, int64_t i, uint64_t code);
/* The code that text (NUL-terminated: a number, nan, inf, -inf, true, false) stands for. False: not of this type.
   In the C locale. */
bool code_of_text(tn_dtype dtype, const char *text, uint64_t *code);
/* The shortest text of a code. False when no text reads back to it (a NaN's payload, a bool that is 2). */
enum { CODE_TEXT = 48 };
bool text_of_code(tn_dtype dtype, uint64_t code, char text[CODE_TEXT]);
/* The type of the parts of a complex number. TN_UNDEFINED for others. */
tn_dtype complex_part(tn_dtype dtype);

/* ---- printing (print_literal.c) -------------------------------------------------------------------------------- */

/* `f32[2] [1.0, 2.0]`, in full; `...` for bytes that are not there. */
void print_tensor(const Tensor *t, Text *out);
void print_shape_of(const Tensor *t, Text *out); /* f32[2,3] */

/* ---- the parser (parse.c, parse_literal.c, parse_type.c, parse_attr.c) ------------------------------------------- */

/* A result or an output whose name is bound once what it names is complete. */
typedef struct Pending {
    Str name; /* interned; digits in the source when `unnamed` */
    Str api;  /* of an output */
    bool unnamed;
    const Type *type;
    size_t at;
} Pending;

/* A graph being read. */
typedef struct Frame {
    Graph *graph;
    Node *node; /* whose attributes are being read; NULL between statements */
    size_t node_at;
    Str attr; /* whose nested graphs are being read */
    bool in_list;
    size_t first_result, first_output, first_graph; /* what of the parser's stacks is this frame's */
} Frame;

typedef struct Parser {
    Context *ctx;
    const Allocator *allocator;
    Model *model;
    const ParseOptions *options;
    Str source, file;
    Token token;   /* the next one */
    Arena scratch; /* reset after each statement */
    Map numbers;   /* "17" -> Value */
    VEC(Frame) frames;
    VEC(Pending) results;
    VEC(Pending) outputs;
    VEC(Graph *) graphs;
    VEC(Value *) operands;
    /* Elements of the list being read. */
    VEC(int64_t) ints;
    VEC(float) floats;
    VEC(Str) strings;
    VEC(Tensor *) tensors;
    VEC(const Type *) types;
    VEC(Dim) dims;
    VEC(int) dim_ops;
} Parser;

/* TN_MALFORMED at a place of the source, with the line shown below it. */
tn_status parse_fail(const Parser *p, size_t at, const char *format, ...) TN_PRINTF(3, 4);
/* Adds the place to a diagnostic that another part made. */
tn_status parse_place(const Parser *p, size_t at, tn_status status);
/* `expected WHAT, not "TOKEN"`. */
tn_status parse_expected(const Parser *p, const char *what);
void advance(Parser *p);
bool accept(Parser *p, int kind); /* takes the token if it is of that kind */
tn_status expect(Parser *p, int kind, const char *what);
bool at_word(const Parser *p, const char *word);
bool accept_word(Parser *p, const char *word);
/* The text of a name, string or value token, interned; not consumed. */
tn_status token_text(Parser *p, Str *out);
/* A TOKEN_STRING's text; consumed. */
tn_status parse_string(Parser *p, Str *out);

bool at_number(const Parser *p);
tn_status parse_int(Parser *p, int64_t *out);
tn_status parse_float(Parser *p, float *out); /* an integer will do; nan"7fc00001" too */
/* Behind `[`, up to and with `]`: into p->ints and p->floats alike; integers too big for the former are an error
   unless floats are wanted or some element is one. */
tn_status parse_number_list(Parser *p, bool want_floats, bool *any_float);

/* Whether a tensor stands here: an element type, or @"file:key". */
bool at_tensor(const Parser *p);
tn_status parse_tensor(Parser *p, Tensor **out);
/* What may stand for an operand: a tensor, or a bare number, string, truth value or list. */
tn_status parse_operand_literal(Parser *p, Tensor **out);

tn_status parse_type(Parser *p, const Type **out);
/* Element type and shape alone; `[` may be missing, then rank is -1 and *bare is set. */
tn_status parse_dtype_and_dims(Parser *p, tn_dtype *dtype, Shape *shape, bool *bare);

/* Any attribute value but graphs. `spec` may be NULL. Lists lie in the scratch arena. */
tn_status parse_attr_value(Parser *p, const AttrSpec *spec, Attr *attr);
/* Whether the value here is one graph, or a list of them. */
bool at_graph(const Parser *p);
bool at_graph_list(const Parser *p, bool empty_is);

#endif
