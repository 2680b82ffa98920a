/* SPDX-License-Identifier: Apache-2.0 */
/* What a rule is about, found without reading it: the ops that its left side cannot do without. There are hundreds of rules and
   a model has a few kinds of ops, so most need never be read. */
#include "rewrite/rewrite_int.h"

/* ---- sets of ops ----------------------------------------------------------------------------------------------- */

void opset_add(OpSet *set, Str name) {
    uint32_t h = 2166136261u;
    for (size_t i = 0; i < name.n; i++) h = (h ^ (uint8_t)name.s[i]) * 16777619u;
    h ^= h >> 15;
    set->bits[h % OPSET_WORDS] |= (uint64_t)1 << (h >> 8 & 63);
}

bool opset_within(const OpSet *set, const OpSet *of) {
    uint64_t beyond = 0;
    for (size_t i = 0; i < OPSET_WORDS; i++) beyond |= set->bits[i] & ~of->bits[i];
    return beyond == 0;
}

/* ---- left sides ------------------------------------------------------------------------------------------------ */

typedef struct Skim {
    Rule *rule;
    Str text;
    size_t at;
    char last;    /* that was no space */
    int depth;    /* of brackets */
    bool at_root; /* behind the = of a statement, perhaps of the last one */
    bool any;     /* no op stood there, or a class of them */
} Skim;

static inline bool is_letter(char c) { return (unsigned)((c | 32) - 'a') < 26 || c == '_'; }
static inline bool is_wordy(char c) { return is_letter(c) || (unsigned)(c - '0') < 10 || c == '.'; }

/* Without the domain. */
static Str op_in(Str word) {
    size_t dot = word.n;
    while (dot > 0 && word.s[dot - 1] != '.') dot--;
    return (Str){word.s + dot, word.n - dot};
}

static void meet_word(Skim *s, Str word) {
    Str op = op_in(word);
    bool is_op = op.n && op.s[0] >= 'A' && op.s[0] <= 'Z';
    char next = word.s + word.n < s->text.s + s->text.n ? word.s[word.n] : 0;
    if (s->last == '%' || s->last == '$') return;
    if (s->at_root && is_op) {
        s->any = false;
        opset_add(&s->rule->roots, op);
    }
    if (is_op && next == '(' && s->last != '|') opset_add(&s->rule->needs, op); /* no choice */
}

static void meet_punct(Skim *s, char c) {
    if (c == '=' && s->depth == 0) {
        s->rule->roots = (OpSet){{0}};
        s->at_root = s->any = true;
    }
    if (c == '(' && s->depth == 0) s->at_root = false;
    s->depth += (c == '(' || c == '[' || c == '{') - (c == ')' || c == ']' || c == '}');
}

/* What stands at `at`, up to behind it. */
static void pass_over(Skim *s) {
    const char *text = s->text.s;
    char c = text[s->at];
    size_t n = s->text.n, end = s->at + 1;
    if (c == ' ') {
        while (end < n && text[end] == ' ') end++;
    } else if (c == '#') {
        while (end < n && text[end] != '\n') end++;
    } else if (c == '"') {
        while (end < n && text[end] != '"') end += text[end] == '\\' ? 2 : 1;
        end = end < n ? end + 1 : n;
    } else if (is_wordy(c)) {
        while (end < n && is_wordy(text[end])) end++;
        if (is_letter(c)) meet_word(s, (Str){text + s->at, end - s->at});
    } else {
        meet_punct(s, c);
    }
    if (c != ' ' && c != '\n' && c != '#') s->last = c;
    s->at = end;
}

static bool at_word(const Skim *s, Str word) {
    size_t end = s->at + word.n;
    return end < s->text.n && memcmp(s->text.s + s->at, word.s, word.n) == 0 && !is_wordy(s->text.s[end]);
}

static bool at_end(const Skim *s) {
    if (s->at >= s->text.n) return true;
    if (s->text.s[s->at] != 'w') return false;
    return s->last != '%' && s->last != '$' && (at_word(s, STR("where")) || at_word(s, STR("write")));
}

size_t rule_skim(Str text, size_t from, Rule *rule) {
    Skim s = {.rule = rule, .text = text, .at = from};
    while (!at_end(&s)) pass_over(&s);
    if (s.any) memset(&rule->roots, 0xff, sizeof rule->roots);
    while (s.at < text.n) {
        const char *line = memchr(text.s + s.at, '\n', text.n - s.at);
        s.at = line ? (size_t)(line + 1 - text.s) : text.n;
        if (text.n - s.at >= 5 && memcmp(text.s + s.at, "rule ", 5) == 0) break;
    }
    return s.at;
}
