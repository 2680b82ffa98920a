/* SPDX-License-Identifier: Apache-2.0 */
/* What the address sanitizer must be told of memory that is handed out in parts. Nothing in ordinary builds. */
#ifndef TENON_BASE_ASAN_INT_H
#define TENON_BASE_ASAN_INT_H

#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#define HAS_ASAN 1
#endif
#endif
#if defined(__SANITIZE_ADDRESS__)
#define HAS_ASAN 1
#endif

#ifdef HAS_ASAN
#include <sanitizer/asan_interface.h>
#define POISON(ptr, size) ASAN_POISON_MEMORY_REGION((ptr), (size))
#define UNPOISON(ptr, size) ASAN_UNPOISON_MEMORY_REGION((ptr), (size))
#else
#define POISON(ptr, size) ((void)(ptr), (void)(size))
#define UNPOISON(ptr, size) ((void)(ptr), (void)(size))
#endif

#endif
