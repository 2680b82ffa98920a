/* SPDX-License-Identifier: Apache-2.0 */
/* Text that grows. A failure is kept, so that a printer asks once, at its end. */
#include "base/base.h"

#include <stdio.h>

void text_init(Text *text, const Allocator *allocator) { *text = (Text){.allocator = allocator}; }

static bool make_room(Text *text, size_t n) {
    if (text->status != TN_OK) return false;
    size_t want;
    if (__builtin_add_overflow(text->n, n, &want) || want == SIZE_MAX) text->status = fail_memory(SIZE_MAX);
    else text->status = vec_reserve_(text->allocator, (void **)&text->s, &text->cap, want + 1, 1);
    return text->status == TN_OK;
}

void text_put(Text *text, const char *s, size_t n) {
    if (!make_room(text, n)) return;
    if (n > 0) memcpy(text->s + text->n, s, n);
    text->n += n;
    text->s[text->n] = 0;
}

void text_puts(Text *text, const char *s) { text_put(text, s, strlen(s)); }

static void text_vprintf(Text *text, const char *format, va_list args) {
    char small[256]; /* most pieces are short and are formatted once */
    va_list again;
    va_copy(again, args);
    int n = vsnprintf(small, sizeof small, format, args);
    if (n < 0) text->status = fail(TN_INTERNAL, "cannot format \"%s\"", format);
    else if ((size_t)n < sizeof small) text_put(text, small, (size_t)n);
    else if (make_room(text, (size_t)n)) {
        vsnprintf(text->s + text->n, (size_t)n + 1, format, again);
        text->n += (size_t)n;
    }
    va_end(again);
}

void text_printf(Text *text, const char *format, ...) {
    if (text->status != TN_OK) return;
    va_list args;
    va_start(args, format);
    text_vprintf(text, format, args);
    va_end(args);
}

void text_free(Text *text) {
    mem_free(text->allocator, text->s, text->cap);
    text_init(text, text->allocator);
}
