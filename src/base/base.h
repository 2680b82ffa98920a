/* SPDX-License-Identifier: Apache-2.0 */
/* What every other part stands on: status and diagnostics, memory, containers, files, element conversion, threads.
   Knows nothing of graphs. Nothing here exits; a failed allocation is TN_OUT_OF_MEMORY. */
#ifndef TENON_BASE_BASE_H
#define TENON_BASE_BASE_H

#include <assert.h>
#include <stdalign.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>

#include <tenon/types.h>

/* ---- status and diagnostics (diag.c) ------------------------------------------------------------------------- */

#define TRY(expr)                                     \
    do {                                              \
        tn_status try_status_ = (expr);               \
        if (try_status_ != TN_OK) return try_status_; \
    } while (0)

/* Starts this thread's diagnostics anew with one message and returns `code`. The message says what is wrong and what
   to do, on one line (control characters are escaped, names may hold anything); who and where are added by the callers
   that know, with the functions below. */
tn_status fail(tn_status code, const char *format, ...) TN_PRINTF(2, 3);
/* So that the compiler sees that a constant code other than TN_OK is what comes back. */
#define fail(code, ...) failed_with((fail)((code), __VA_ARGS__), (code))
static inline tn_status failed_with(tn_status status, tn_status code) {
    (void)status;
    return code;
}
/* TN_OUT_OF_MEMORY with the number of bytes wanted. */
tn_status fail_memory(size_t bytes);
/* Each fills a place of the current diagnostic that is still empty: the innermost caller wins. */
void diag_set_node(const char *node, const char *op);
void diag_set_file(const char *file);
void diag_set_offset(uint64_t offset);
/* Adds a line of detail below the current diagnostic. */
void diag_note(const char *format, ...) TN_PRINTF(1, 2);
void diag_clear(void);
/* The thread's diagnostics as text: `FILE: node "NAME" (OP): MESSAGE`, then the notes, two spaces in front of each.
   Valid until the next call that fails on this thread. Empty text when there is none. */
const char *diag_text(void);
tn_status diag_status(void);
const char *status_name(tn_status status);
const char *status_text(tn_status status);

/* ---- checked sizes (size.c) ---------------------------------------------------------------------------------- */

static inline bool add_overflows(int64_t a, int64_t b, int64_t *out) { return __builtin_add_overflow(a, b, out); }
static inline bool mul_overflows(int64_t a, int64_t b, int64_t *out) { return __builtin_mul_overflow(a, b, out); }
static inline bool sub_overflows(int64_t a, int64_t b, int64_t *out) { return __builtin_sub_overflow(a, b, out); }
static inline int64_t min_i64(int64_t a, int64_t b) { return a < b ? a : b; }
static inline int64_t max_i64(int64_t a, int64_t b) { return a > b ? a : b; }

/* The number of elements of a box of non-negative sizes. An overflow is TN_LIMIT also where a later size is 0. */
tn_status checked_count(int rank, const int64_t *dims, int64_t *count);
/* The bytes that `count` elements take, the last byte of a sub-byte type filled up. */
tn_status checked_bytes(tn_dtype dtype, int64_t count, size_t *bytes);

/* ---- element types (dtype.c) --------------------------------------------------------------------------------- */

int dtype_bits(tn_dtype dtype);                            /* 0 for TN_UNDEFINED and numbers that are no type */
int dtype_size(tn_dtype dtype);                            /* whole bytes of one element; 0 for types under 8 bits */
const char *dtype_name(tn_dtype dtype);                    /* "f32" ...; "?" for TN_UNDEFINED */
tn_dtype dtype_from_name(const char *name, size_t length); /* TN_UNDEFINED when there is none */
bool dtype_is_float(tn_dtype dtype);                       /* any IEEE or reduced float, not complex */
bool dtype_is_signed_int(tn_dtype dtype);
bool dtype_is_unsigned_int(tn_dtype dtype); /* BOOL not included */
bool dtype_is_half(tn_dtype dtype);         /* F16, BF16 */
bool dtype_is_complex(tn_dtype dtype);

/* ---- memory (memory.c, arena.c) ------------------------------------------------------------------------------ */

typedef tn_allocator Allocator;
extern const Allocator allocator_default;
extern const Allocator allocator_store; /* store.c: for what is written at once and stays, such as packed weights */
enum { STORE_BIG = 512 << 10 /* bytes: the pages of such a block of it are for its owner to bring in, by mem_touch */ };
void store_trim(void); /* gives back what it holds in advance */

/* Zeroed memory of at least one byte, or NULL with the diagnostic set. */
void *mem_alloc(const Allocator *a, size_t size, size_t align);
/* The same, but *zero tells whether the memory is zero. */
void *mem_raw(const Allocator *a, size_t size, size_t align, bool *zero);
void mem_free(const Allocator *a, void *ptr, size_t size);
/* Of memory that is about to be written: brings in its pages at once, which is faster than one by one. `pool` may be NULL. */
typedef struct Pool Pool;
void mem_touch(Pool *pool, void *ptr, size_t size);
/* Between these, big blocks that are given back serve the next ones (recycle.c). Calls may nest. */
void recycle_begin(void);
void recycle_end(void);
size_t page_size(void);
/* The bytes of the whole pages in a piece of memory, and where they begin. */
size_t whole_pages(const void *ptr, size_t size, void **first);

/* A bump allocator that frees everything at once. Blocks are kept by arena_reset, so a loop that resets at each turn
   asks the allocator for nothing once it has seen its largest turn. */
typedef struct ArenaBlock ArenaBlock;
typedef struct Arena {
    const Allocator *allocator;
    ArenaBlock *first, *current;
    size_t used;       /* bytes handed out since the last reset */
    size_t block_size; /* of the next block; grows */
} Arena;

void arena_init(Arena *arena, const Allocator *allocator);
void *arena_alloc(Arena *arena, size_t size, size_t align); /* zeroed; NULL with the diagnostic set */
void *arena_raw(Arena *arena, size_t size, size_t align);   /* the same, not zeroed: what was there before */
char *arena_strndup(Arena *arena, const char *s, size_t n); /* adds a terminating NUL */
void arena_reset(Arena *arena);
void arena_free(Arena *arena);
/* Where an arena stands, to give back what was taken since. */
typedef struct ArenaMark {
    ArenaBlock *block;
    size_t offset, used;
} ArenaMark;
ArenaMark arena_mark(const Arena *arena);
void arena_release(Arena *arena, ArenaMark mark);

#define arena_new(arena, T) ((T *)arena_alloc((arena), sizeof(T), alignof(T)))
/* NULL with a diagnostic when n * sizeof(T) does not fit. */
void *arena_array_(Arena *arena, size_t n, size_t size, size_t align);
#define arena_array(arena, T, n) ((T *)arena_array_((arena), (n), sizeof(T), alignof(T)))

/* Bytes with a count of owners: mapped, from the heap, or borrowed with a release function. */
typedef struct Buffer {
    atomic_int references;
    uint8_t *data;
    size_t size;
    void (*release)(void *user, void *data, size_t size); /* NULL: data lies behind this header */
    void *user;
    const Allocator *allocator;
} Buffer;

/* 64-byte aligned zeroed memory, one reference. */
tn_status buffer_new(const Allocator *a, size_t size, Buffer **out);
tn_status buffer_borrow(const Allocator *a, void *data, size_t size, void (*release)(void *, void *, size_t),
                        void *user, Buffer **out);
Buffer *buffer_ref(Buffer *buffer); /* NULL is passed through */
void buffer_unref(Buffer *buffer);  /* NULL is ignored */

/* Memory that comes back when its buffer's last owner goes, and is lent again (shelf.c). For any number of threads. */
typedef struct Shelf Shelf;
tn_status shelf_new(const Allocator *a, Shelf **out);
/* A buffer whose bytes may be those of an earlier one; of a NULL shelf, or where they are few, as of buffer_new. */
tn_status shelf_take(Shelf *shelf, const Allocator *a, size_t size, Buffer **out);
/* What is lent goes back to the allocator from now on. NULL is ignored. */
void shelf_close(Shelf *shelf);
/* Lazy buffers (lazy.c): bytes that are made when somebody holds them, given up when nobody does any more, and made again
   when they are next held. Their place stays the same, but to read there unheld ends the process rather than give a wrong
   answer. */
typedef struct BytesMaker {
    void (*make)(void *user, void *data, Pool *pool); /* writes all bytes, each time alike */
    void (*drop)(void *user);                         /* once the buffer is gone */
    void *user;
} BytesMaker;
tn_status buffer_lazy(const Allocator *a, size_t size, const BytesMaker *maker, Buffer **out);
bool buffer_is_lazy(const Buffer *buffer); /* NULL: no */
/* Holds them for as long as the buffer lives. Nothing for other buffers and NULL. */
tn_status buffer_keep(Buffer *buffer);
/* For a while. Nothing for bytes in other memory. `pool` may be NULL. */
tn_status bytes_hold(const void *bytes, Pool *pool);
void bytes_let_go(const void *bytes);
/* Gives back the pages that are kept for the next bytes to be held. */
void bytes_trim(void);

/* ---- containers (vec.c, map.c, str.c) ------------------------------------------------------------------------ */

/* A growable array on an allocator: `VEC(int) v = {0}; TRY(vec_push(alloc, &v, 3));`. `vec_free` gives it back. */
#define VEC(T)           \
    struct {             \
        T *data;         \
        size_t len, cap; \
    }
tn_status vec_reserve_(const Allocator *a, void **data, size_t *cap, size_t want, size_t size);
#define vec_reserve(a, v, n) vec_reserve_((a), (void **)&(v)->data, &(v)->cap, (n), sizeof *(v)->data)
#define vec_push(a, v, ...)                                              \
    ((v)->len < (v)->cap || vec_reserve((a), (v), (v)->len + 1) == TN_OK \
         ? ((v)->data[(v)->len++] = (__VA_ARGS__), TN_OK)                \
         : TN_OUT_OF_MEMORY)
#define vec_free(a, v) \
    (mem_free((a), (v)->data, (v)->cap * sizeof *(v)->data), (v)->data = NULL, (v)->len = (v)->cap = 0)

/* Text that need not end in NUL and may contain it. */
typedef struct Str {
    const char *s;
    size_t n;
} Str;
#define STR(literal) ((Str){(literal), sizeof(literal) - 1})
static inline Str str_of(const char *s) { return (Str){s, s ? strlen(s) : 0}; }
static inline bool str_equal(Str a, Str b) { return a.n == b.n && (a.n == 0 || memcmp(a.s, b.s, a.n) == 0); }
bool str_is_utf8(Str s);
/* Seeded anew in each process, so that nobody can prepare names that collide: never to be stored. */
uint64_t hash_bytes(const void *data, size_t n);

/* Names to pointers. Keys are not copied: they must outlive the map. Iteration order is insertion order. */
typedef struct MapEntry {
    Str key;
    void *value;
    uint64_t hash;
} MapEntry;
typedef struct Map {
    const Allocator *allocator;
    MapEntry *entries; /* len of them, in insertion order; a removed one has value NULL */
    size_t len, cap;
    uint64_t *slots;
    size_t n_slots;
} Map;
void map_init(Map *map, const Allocator *allocator);
void *map_get(const Map *map, Str key);            /* NULL when absent */
tn_status map_set(Map *map, Str key, void *value); /* replaces; value is not NULL */
/* The entry of that key, valid until the next change. A new one has no value yet: set that, and the key when yours does not
   last, before anything else is done with the map. NULL when memory is out. */
MapEntry *map_entry(Map *map, Str key);
/* The same entries at the same places, for a caller that then gives each its own key and value. `to` is empty. */
tn_status map_clone(Map *to, const Map *from);
void map_remove(Map *map, Str key);
void map_free(Map *map);
/* The key nearest to a misspelt one (edit distance at most 1/3 of its length), or NULL. For "did you mean". */
const char *nearest_name(Str wrong, const char *const *names, size_t n);
/* For callers whose names stand in no array: the edit distance of a name that is as near as that, else SIZE_MAX. */
size_t name_distance(Str wrong, Str name);

/* Text that grows: printers write into it. */
typedef struct Text {
    const Allocator *allocator;
    char *s; /* always NUL-terminated once anything was written */
    size_t n, cap;
    tn_status status; /* the first failure; later writes do nothing */
} Text;
void text_init(Text *text, const Allocator *allocator);
void text_put(Text *text, const char *s, size_t n);
void text_puts(Text *text, const char *s);
void text_printf(Text *text, const char *format, ...) TN_PRINTF(2, 3);
void text_free(Text *text);

/* ---- files (file.c) ------------------------------------------------------------------------------------------ */

/* Maps a whole regular file read-only. An empty file is a buffer of size 0. Directories, pipes and devices are TN_IO.
   A file that another program truncates while it is mapped ends the process with SIGBUS: documented in tenon.h. */
tn_status file_map(const Allocator *a, const char *path, Buffer **out);
/* Maps `path`, which must be relative and name a regular file beneath the folder `dir` once symbolic links are
   followed (a link that stays beneath it is fine). Anything else is TN_IO. The diagnostic's file is left for the
   caller to set: the model that names `path`. */
tn_status file_map_beneath(const Allocator *a, const char *dir, Str path, Buffer **out);
/* Of a part of a mapped file that will hardly be read again: its pages need not stay in memory. Nothing for other memory. */
void file_forget(const void *bytes, size_t n);
/* The folder part of a path ("." when there is none), as arena text. */
char *path_dirname(Arena *arena, const char *path);

/* A file that appears under its name only once it is complete: written beside, then renamed. */
typedef struct FileWriter FileWriter;
tn_status file_writer_open(const Allocator *a, const char *path, FileWriter **out);
tn_status file_writer_write(FileWriter *writer, const void *data, size_t n);
tn_status file_writer_commit(FileWriter *writer); /* flushes, renames, frees the writer, also when it fails */
void file_writer_abort(FileWriter *writer);       /* removes what was written; NULL is ignored */

/* ---- element conversion (half.c, element.c) ------------------------------------------------------------------ */

float f16_to_f32(uint16_t h);
uint16_t f32_to_f16(float f); /* round to nearest, ties to even; overflow to infinity */
float bf16_to_f32(uint16_t h);
uint16_t f32_to_bf16(float f);
/* The 8- and 4-bit floats, by dtype. Encoding saturates when asked, else overflows as ONNX's Cast says; F4E2M1 always
   saturates, F8E8M0 rounds up. */
float small_float_decode(tn_dtype dtype, uint8_t bits);
uint8_t small_float_encode(tn_dtype dtype, double value, bool saturate);

/* Element streams: n elements of `dtype` at element positions offset + i*stride of `data`, at any byte address, to or
   from a dense array of a compute type. Sub-byte types are unpacked and packed; two threads must not write elements
   of one byte. Widening is exact; narrowing to floats rounds once (those of 8 and 4 bits saturate, F8E8M0 rounds up),
   to BOOL is "not zero". Integers wrap modulo 2^bits. Floats to integers truncate and then, on every processor, do as
   x86 does: 32 bits and fewer go through int32, which is INT32_MIN for NaN and what it cannot hold, and then wrap;
   u32 and i64 go through int64 and INT64_MIN; u64 is exact in its range, else as i64. f64 and f32 accept every float
   and every integer type except that no 64-bit integer passes through them unless the caller's op is a cast. Complex
   gives its real part and takes an imaginary part of 0. Strings have no numbers: an assertion. */
void load_f32(float *dst, tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n);
void store_f32(tn_dtype dtype, void *data, int64_t offset, int64_t stride, const float *src, int64_t n);
void load_f64(double *dst, tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n);
void store_f64(tn_dtype dtype, void *data, int64_t offset, int64_t stride, const double *src, int64_t n);
void load_i64(int64_t *dst, tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n);
void store_i64(tn_dtype dtype, void *data, int64_t offset, int64_t stride, const int64_t *src, int64_t n);
/* y[i] = x[i] * factors[i * step] in float64, rounded once; x may lie askew, step is 0 or 1. */
void scale_f32(float *y, const void *x, const double *factors, int64_t step, int64_t n);
/* u64 elements keep their bits in int64_t in the two functions above. Complex: pairs of doubles. */
void load_c128(double *dst, tn_dtype dtype, const void *data, int64_t offset, int64_t stride, int64_t n);
void store_c128(tn_dtype dtype, void *data, int64_t offset, int64_t stride, const double *src, int64_t n);
/* Copies n elements of one type between strided streams; sub-byte types included. The two streams must not overlap.
   Strings are assigned: a reference is taken, and the destination's old string, or NULL, is released. */
void copy_elements(tn_dtype dtype, void *dst, int64_t dst_offset, int64_t dst_stride, const void *src,
                   int64_t src_offset, int64_t src_stride, int64_t n);

/* Reference-counted string elements. NULL is the empty string. */
typedef struct RcString RcString;
tn_status rc_string_new(const Allocator *a, Str text, RcString **out);
RcString *rc_string_ref(RcString *s);
void rc_string_unref(RcString *s);
Str rc_string_get(const RcString *s);

/* ---- threads, context (threads.c, context.c) ----------------------------------------------------------------- */

tn_status pool_new(const Allocator *a, int threads, Pool **out); /* threads <= 0: one for each processor */
/* Uses a pthreadpool_t that the caller owns. */
tn_status pool_wrap(const Allocator *a, void *pthreadpool, Pool **out);
void pool_free(Pool *pool);
int pool_threads(const Pool *pool); /* 1 for NULL, and in a child after fork */

/* Calls fn(arg, begin, end) for ranges that cover 0..n-1 once each. `cost` is the rough number of nanoseconds of one
   item: what is not worth a thread runs here. How the range is cut never decides an answer: fn must write each item's
   result from that item alone. May be called from any number of threads at once (a caller that finds the pool taken
   works by itself until it is free) and from within fn (runs there, as does everything in a child after fork). */
typedef void (*RangeFn)(void *arg, int64_t begin, int64_t end);
void parallel_for(Pool *pool, int64_t n, double cost, RangeFn fn, void *arg);

/* What a caller brings once: allocator, threads, log, limits. Shared by models and sessions; reference-counted. */
typedef struct Context {
    atomic_int references;
    Allocator allocator;
    Pool *pool; /* owned: freed with the context */
    tn_log_fn log;
    void *log_user;
    tn_log_level log_level;
    tn_limits limits; /* defaults filled in */
} Context;
tn_status context_new(const Allocator *a, const tn_limits *limits, Context **out); /* NULLs: defaults; no pool */
Context *context_ref(Context *context);
void context_unref(Context *context);
void log_message(const Context *context, tn_log_level level, const char *format, ...) TN_PRINTF(3, 4);

#endif
