/* SPDX-License-Identifier: Apache-2.0 */
/* The thread's diagnostics. Fixed storage, so that an error can still be told when memory is out. */
#include "base/base.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/utf8_int.h"

enum { MESSAGE_SIZE = 1024, NOTES_SIZE = 1536, NAME_SIZE = 256, OP_SIZE = 80, FILE_SIZE = 512 };

typedef struct Diag {
    tn_status status;
    bool has_node, has_op, has_file, has_offset;
    uint64_t offset;
    char message[MESSAGE_SIZE], notes[NOTES_SIZE];
    char node[NAME_SIZE], op[OP_SIZE], file[FILE_SIZE];
    char text[MESSAGE_SIZE + NOTES_SIZE + NAME_SIZE + OP_SIZE + FILE_SIZE + 128];
} Diag;

static _Thread_local Diag diag;

/* A bounded text being written; what does not fit is cut and the cut is shown. */
typedef struct Out {
    char *s;
    size_t n, cap;
    bool full;
} Out;

static void out_put(Out *out, const char *s, size_t n) {
    if (out->full || out->n + n + sizeof "..." > out->cap) {
        out->full = true;
        return;
    }
    memcpy(out->s + out->n, s, n);
    out->n += n;
}

/* Ends the text. The room for the dots was kept free by out_put. */
static void out_end(Out *out, bool cut) {
    if (cut || out->full) {
        memcpy(out->s + out->n, "...", 3);
        out->n += 3;
    }
    out->s[out->n] = 0;
}

/* Bytes that are not printable text appear as \n, \t or \xNN: names come from models and may hold anything, line ends
   and terminal commands included. */
static void out_escaped(Out *out, const char *s, size_t n, bool quoted) {
    for (size_t i = 0; i < n && !out->full;) {
        unsigned char c = (unsigned char)s[i];
        size_t length = utf8_length(s + i, n - i);
        bool control = c < 0x20 || c == 0x7f || (c == 0xc2 && length == 2 && (unsigned char)s[i + 1] < 0xa0);
        char escape[8];
        if (length > 0 && !control) {
            if (quoted && (c == '"' || c == '\\')) out_put(out, (char[]){'\\', (char)c}, 2);
            else out_put(out, s + i, length);
            i += length;
            continue;
        }
        if (c == '\n') out_put(out, "\\n", 2);
        else if (c == '\t') out_put(out, "\\t", 2);
        else out_put(out, escape, (size_t)snprintf(escape, sizeof escape, "\\x%02x", c));
        i++;
    }
}

/* The length without a sequence that a cut left incomplete at the end. */
static size_t trim_cut(const char *s, size_t n) {
    size_t end = n;
    while (end > 0 && n - end < 4) {
        unsigned char c = (unsigned char)s[end - 1];
        if (c < 0x80) return n;
        end--;
        if (c >= 0xc0) return utf8_length(s + end, n - end) ? n : end;
    }
    return n;
}

/* Formats into a buffer of its own first, as the arguments may point into the text that is about to change. */
static void out_format(Out *out, const char *format, va_list args) {
    char raw[MESSAGE_SIZE];
    int n = vsnprintf(raw, sizeof raw, format, args);
    bool cut = n >= (int)sizeof raw;
    if (n < 0) n = 0;
    size_t length = cut ? trim_cut(raw, sizeof raw - 1) : (size_t)n;
    out_escaped(out, raw, length, false);
    out_end(out, cut);
}

tn_status(fail)(tn_status code, const char *format, ...) {
    assert(code != TN_OK);
    char message[MESSAGE_SIZE];
    Out out = {message, 0, sizeof message, false};
    va_list args;
    va_start(args, format);
    out_format(&out, format, args);
    va_end(args);
    diag_clear();
    diag.status = code;
    memcpy(diag.message, message, out.n + 1);
    return code;
}

tn_status fail_memory(size_t bytes) { return fail(TN_OUT_OF_MEMORY, "cannot allocate %zu bytes of memory", bytes); }

static void set_place(char *place, size_t cap, const char *s, bool quoted) {
    Out out = {place, 0, cap, false};
    size_t n = strnlen(s, cap); /* an absurd name is not walked to its end */
    out_escaped(&out, s, n == cap ? trim_cut(s, n) : n, quoted);
    out_end(&out, n == cap);
}

/* A name without an op may join an op without a name when they speak of the same node; a call of an outer node, such
   as the If around it, must not. */
void diag_set_node(const char *node, const char *op) {
    if (diag.status == TN_OK || (diag.has_node && diag.has_op)) return;
    if (diag.has_node) return;
    char name[OP_SIZE] = "";
    if (op) set_place(name, sizeof name, op, false);
    if (diag.has_op && op && strcmp(name, diag.op) != 0) return;
    if (node) set_place(diag.node, sizeof diag.node, node, true);
    if (op) memcpy(diag.op, name, sizeof name);
    diag.has_node = node != NULL;
    diag.has_op = diag.has_op || op;
}

void diag_set_file(const char *file) {
    if (diag.status == TN_OK || diag.has_file || !file || !*file) return;
    set_place(diag.file, sizeof diag.file, file, false);
    diag.has_file = true;
}

void diag_set_offset(uint64_t offset) {
    if (diag.status == TN_OK || diag.has_offset) return;
    diag.offset = offset;
    diag.has_offset = true;
}

void diag_note(const char *format, ...) {
    if (diag.status == TN_OK) return;
    char note[MESSAGE_SIZE];
    Out line = {note, 0, sizeof note, false};
    va_list args;
    va_start(args, format);
    out_format(&line, format, args);
    va_end(args);
    size_t n = strlen(diag.notes);
    if (n + line.n + 4 > sizeof diag.notes) return; /* full: the first notes are the nearest to the cause */
    memcpy(diag.notes + n, "\n  ", 3);
    memcpy(diag.notes + n + 3, note, line.n + 1);
}

void diag_clear(void) {
    diag.status = TN_OK;
    diag.has_node = diag.has_op = diag.has_file = diag.has_offset = false;
    diag.message[0] = diag.notes[0] = diag.node[0] = diag.op[0] = diag.file[0] = diag.text[0] = 0;
}

const char *diag_text(void) {
    if (diag.status == TN_OK) return "";
    size_t n = 0, cap = sizeof diag.text; /* each part is bounded, so that their sum always fits */
    diag.text[0] = 0;
    if (diag.has_file) n += (size_t)snprintf(diag.text + n, cap - n, "%s: ", diag.file);
    if (diag.node[0]) n += (size_t)snprintf(diag.text + n, cap - n, "node \"%s\"", diag.node);
    if (diag.op[0]) n += (size_t)snprintf(diag.text + n, cap - n, diag.node[0] ? " (%s)" : "%s", diag.op);
    if (diag.node[0] || diag.op[0]) n += (size_t)snprintf(diag.text + n, cap - n, ": ");
    n += (size_t)snprintf(diag.text + n, cap - n, "%s%s", diag.message, diag.notes);
    if (diag.has_offset)
        snprintf(diag.text + n, cap - n, "\n  at byte %" PRIu64 "%s", diag.offset, diag.has_file ? " of the file" : "");
    return diag.text;
}

tn_status diag_status(void) { return diag.status; }

const char *status_name(tn_status status) {
    switch ((int)status) {
#define STATUS(name, value, text) \
    case value:                   \
        return "TN_" #name;
#include <tenon/status.def>
#undef STATUS
    default: return "TN_?";
    }
}

const char *status_text(tn_status status) {
    switch ((int)status) {
#define STATUS(name, value, text) \
    case value:                   \
        return text;
#include <tenon/status.def>
#undef STATUS
    default: return "unknown status";
    }
}
