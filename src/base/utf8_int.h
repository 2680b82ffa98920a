/* SPDX-License-Identifier: Apache-2.0 */
/* One UTF-8 sequence, shared by diagnostics and strings. */
#ifndef TENON_BASE_UTF8_INT_H
#define TENON_BASE_UTF8_INT_H

#include <stddef.h>

/* Bytes of the well-formed sequence that s begins with, or 0: no overlong forms, no surrogates, nothing above
   U+10FFFF. */
size_t utf8_length(const char *s, size_t n);

#endif
