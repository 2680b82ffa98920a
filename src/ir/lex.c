/* SPDX-License-Identifier: Apache-2.0 */
/* Tokens of the text form. Any bytes may come in; what is no token is TOKEN_BAD and says why. */
#include "ir/text_int.h"

static char at(Str s, size_t i) { return i < s.n ? s.s[i] : 0; }
static bool is_digit(char c) { return c >= '0' && c <= '9'; }

static int hex_digit(char c) {
    if (is_digit(c)) return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    return c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static size_t skip_blanks(Str s, size_t i) {
    for (; i < s.n; i++) {
        char c = s.s[i];
        if (c == '#') {
            const char *end = memchr(s.s + i, '\n', s.n - i);
            if (!end) return s.n;
            i = (size_t)(end - s.s);
        } else if (c != ' ' && c != '\t' && c != '\n' && c != '\r') break;
    }
    return i;
}

static Token token_of(int kind, size_t from, size_t to) { return (Token){.kind = kind, .at = from, .end = to}; }

static Token bad(size_t from, size_t to, const char *problem) {
    return (Token){.kind = TOKEN_BAD, .at = from, .end = to, .problem = problem};
}

/* `i` is at the opening quote. */
static Token lex_string(Str s, size_t i, int kind) {
    Token token = {.kind = kind, .at = i};
    for (size_t k = i + 1; k < s.n; k++) {
        unsigned char c = (unsigned char)s.s[k];
        if (c == '"') {
            token.end = k + 1;
            token.text = (Str){s.s + i + 1, k - i - 1};
            return token;
        }
        if (c == '\n') break;
        if (c != '\\') continue;
        token.escaped = true;
        char next = at(s, ++k);
        if (next == 'x' && hex_digit(at(s, k + 1)) >= 0 && hex_digit(at(s, k + 2)) >= 0) k += 2;
        else if (next != 'n' && next != 't' && next != '\\' && next != '"')
            return bad(k - 1, k + (k < s.n), "only \\n \\t \\\\ \\\" and \\xHH may follow a backslash");
    }
    return bad(i, i + 1, "this string has no end on its line");
}

static size_t name_end(Str s, size_t i) {
    while (is_name_char(at(s, i)) || (at(s, i) == '.' && is_name_char(at(s, i + 1)))) i++;
    return i;
}

static Token lex_name(Str s, size_t i, size_t start, int kind) {
    Token token = token_of(kind, i, name_end(s, start));
    token.text = (Str){s.s + start, token.end - start};
    return token;
}

static Token lex_number(Str s, size_t i) {
    size_t k = i;
    int kind = TOKEN_INT;
    while (is_digit(at(s, k))) k++;
    if (at(s, k) == '.' && is_digit(at(s, k + 1))) {
        kind = TOKEN_FLOAT;
        for (k++; is_digit(at(s, k));) k++;
    }
    char c = at(s, k), sign = at(s, k + 1);
    if ((c == 'e' || c == 'E') && is_digit(at(s, k + 1 + (sign == '+' || sign == '-')))) {
        kind = TOKEN_FLOAT;
        for (k += 2; is_digit(at(s, k));) k++;
    }
    if (is_name_char(at(s, k))) return bad(i, name_end(s, k), "this is neither a number nor a name");
    Token token = token_of(kind, i, k);
    token.text = (Str){s.s + i, k - i};
    return token;
}

static Token lex_value(Str s, size_t i) {
    char c = at(s, i + 1);
    if (is_name_start(c)) return lex_name(s, i, i + 1, TOKEN_VALUE);
    if (c == '"') {
        Token token = lex_string(s, i + 1, TOKEN_VALUE);
        if (token.kind == TOKEN_VALUE) token.at = i;
        return token;
    }
    size_t k = i + 1;
    while (is_digit(at(s, k))) k++;
    if (k == i + 1 || is_name_char(at(s, k))) return bad(i, i + 1, "a value's name must follow %");
    Token token = token_of(TOKEN_UNNAMED, i, k);
    token.text = (Str){s.s + i + 1, k - i - 1};
    return token;
}

static Token lex_symbol(Str s, size_t i) {
    char c = at(s, i + 1);
    if (is_name_start(c)) return lex_name(s, i, i + 1, TOKEN_SYMBOL);
    if (c != '"') return token_of('@', i, i + 1);
    Token token = lex_string(s, i + 1, TOKEN_SYMBOL);
    if (token.kind == TOKEN_SYMBOL) token.at = i;
    return token;
}

Token lex(Str source, size_t from) {
    Str s = source;
    size_t i = skip_blanks(s, from);
    if (i >= s.n) return token_of(TOKEN_END, s.n, s.n);
    char c = s.s[i];
    if (is_name_start(c)) return lex_name(s, i, i, TOKEN_NAME);
    if (is_digit(c)) return lex_number(s, i);
    if (c == '"') return lex_string(s, i, TOKEN_STRING);
    if (c == '%') return lex_value(s, i);
    if (c == '@') return lex_symbol(s, i);
    if (c == '-' && at(s, i + 1) == '>') return token_of(TOKEN_ARROW, i, i + 2);
    if (c == '.' && at(s, i + 1) == '.' && at(s, i + 2) == '.') return token_of(TOKEN_DOTS, i, i + 3);
    switch (c) {
    case '(':
    case ')':
    case '{':
    case '}':
    case '[':
    case ']':
    case ',':
    case ':':
    case ';':
    case '=':
    case '+':
    case '-':
    case '*':
    case '/':
    case '?': return token_of(c, i, i + 1);
    default: return bad(i, i + 1, "no token begins with this character");
    }
}

tn_status unescape(Arena *arena, const Token *token, Str *out) {
    *out = token->text;
    if (!token->escaped) return TN_OK;
    char *to = arena_alloc(arena, token->text.n, 1);
    if (!to) return TN_OUT_OF_MEMORY;
    size_t n = 0;
    for (size_t i = 0; i < token->text.n; i++) {
        char c = token->text.s[i];
        if (c == '\\') {
            c = token->text.s[++i];
            if (c == 'n') c = '\n';
            else if (c == 't') c = '\t';
            else if (c == 'x') {
                c = (char)(hex_digit(token->text.s[i + 1]) * 16 + hex_digit(token->text.s[i + 2]));
                i += 2;
            }
        }
        to[n++] = c;
    }
    *out = (Str){to, n};
    return TN_OK;
}
