/* SPDX-License-Identifier: Apache-2.0 */
/* Drives a fuzz target without libFuzzer:

       TARGET [--cuts] [--runs N] [--seed S] [--save FILE] FILE...

   runs the target on each file as it is; with --cuts on what is left of it when it ends early (at any byte of the first
   4 KiB, at the fields of a protobuf message behind); and N times on a random change of a random file. An input that ends
   the process, or takes more than ten seconds, is saved. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A sanitizer's finding shall be a signal that the handler below sees. */
__attribute__((visibility("default"))) const char *__asan_default_options(void);
const char *__asan_default_options(void) { return "abort_on_error=1:allocator_may_return_null=1"; }

typedef struct Bytes {
    const char *name;
    uint8_t *data;
    size_t n;
} Bytes;

static const uint8_t *current; /* what the target reads, for the handler */
static size_t current_size;
static const char *save_path = "fuzz-input";
static long n_runs;

/* ---- running ----------------------------------------------------------------------------------------------------- */

/* Only what a handler may call. */
static void on_signal(int number) {
    static const char message[] = "the input that did this was saved\n";
    int fd = open(save_path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd >= 0 && write(fd, current, current_size) == (ssize_t)current_size &&
        write(2, message, sizeof message - 1) > 0)
        close(fd);
    signal(number, SIG_DFL);
    if (number == SIGALRM) _exit(124);
    raise(number);
}

/* A copy of its own size, so that a sanitizer sees the first byte read behind it. */
static void run(const uint8_t *data, size_t n) {
    uint8_t *copy = malloc(n ? n : 1);
    struct itimerval limit = {.it_value.tv_sec = 10}, none = {0};
    if (!copy) exit(1);
    if (n) memcpy(copy, data, n);
    current = copy;
    current_size = n;
    setitimer(ITIMER_REAL, &limit, NULL);
    LLVMFuzzerTestOneInput(copy, n);
    setitimer(ITIMER_REAL, &none, NULL);
    free(copy);
    n_runs++;
}

/* ---- cuts -------------------------------------------------------------------------------------------------------- */

static bool read_varint(const Bytes *b, size_t *at, size_t end, uint64_t *value) {
    *value = 0;
    for (int shift = 0; *at < end && shift < 64; shift += 7) {
        uint8_t byte = b->data[(*at)++];
        *value |= (uint64_t)(byte & 0x7f) << shift;
        if (byte < 0x80) return true;
    }
    return false;
}

/* Cuts in front of each field, behind its key, and into what looks like messages. */
static void cut_fields(const Bytes *b, size_t at, size_t end, int depth) {
    while (at < end) {
        uint64_t key, n = 0;
        run(b->data, at);
        if (!read_varint(b, &at, end, &key)) return;
        run(b->data, at);
        if ((key & 7) == 0 && !read_varint(b, &at, end, &n)) return;
        if ((key & 7) == 1) n = 8;
        if ((key & 7) == 5) n = 4;
        if ((key & 7) == 2 && !read_varint(b, &at, end, &n)) return;
        if ((key & 7) == 0) continue;
        if ((key & 7) > 5 || (key & 7) == 3 || (key & 7) == 4 || n > end - at) return;
        if ((key & 7) == 2 && depth < 4 && n > 1) cut_fields(b, at, at + n, depth + 1);
        at += n;
    }
}

static void cut(const Bytes *b) {
    size_t near = b->n < 4096 ? b->n : 4096;
    for (size_t n = 0; n < near; n++) run(b->data, n);
    if (b->n > near) cut_fields(b, 0, b->n, 0);
}

/* ---- changes ------------------------------------------------------------------------------------------------------ */

static uint64_t random_state;

static uint64_t next(void) {
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return random_state;
}

static size_t below(size_t n) { return n ? (size_t)(next() % n) : 0; }

static const char *const words[] = {"graph",
                                    "->",
                                    "{",
                                    "}",
                                    "(",
                                    ")",
                                    "[",
                                    "]",
                                    "%",
                                    "f32",
                                    "i64",
                                    "x \"",
                                    "...",
                                    "inf",
                                    "nan",
                                    "-1",
                                    "9223372036854775807",
                                    "-9223372036854775808",
                                    "4294967296",
                                    "0",
                                    "?",
                                    "*",
                                    "@\"",
                                    "Add",
                                    "Reshape",
                                    "If",
                                    "Loop",
                                    "Const",
                                    "Concat",
                                    "NonZero",
                                    "_",
                                    "=",
                                    ",",
                                    "\\",
                                    "\""};

/* Replaces `gone` bytes at `at` by others; the buffer has room. */
static void splice(Bytes *b, size_t at, size_t gone, const void *put, size_t n) {
    memmove(b->data + at + n, b->data + at + gone, b->n - at - gone);
    if (n) memmove(b->data + at, put, n);
    b->n += n - gone;
}

enum { ROOM = 4096 };

static void change(Bytes *b, const Bytes *other) {
    static const uint8_t edges[] = {0, 1, 2, 0x7f, 0x80, 0xff, 0xfe, 0x08, 0x0a, 0x12, '\n', '"'};
    size_t at = below(b->n), n = 1 + below(8);
    uint8_t huge[10];
    if (b->n == 0) return;
    if (n > b->n - at) n = b->n - at;
    switch (below(9)) {
    case 0: b->data[at] ^= (uint8_t)(1u << below(8)); break;
    case 1: b->data[at] = (uint8_t)next(); break;
    case 2: b->data[at] = edges[below(sizeof edges)]; break;
    case 3: splice(b, at, n, NULL, 0); break;
    case 4: splice(b, at, 0, b->data + below(b->n - n + 1), n); break;
    case 5: { /* a varint, often huge */
        size_t length = 1 + below(10);
        memset(huge, 0xff, sizeof huge);
        huge[length - 1] = (uint8_t)(next() & 0x7f);
        splice(b, at, below(2) ? n : 0, huge, length);
        break;
    }
    case 6: { /* a piece of another file */
        size_t length = 1 + below(200), from = below(other->n);
        if (length > other->n - from) length = other->n - from;
        splice(b, at, below(2) ? n : 0, other->data + from, length);
        break;
    }
    case 7: {
        const char *word = words[below(sizeof words / sizeof *words)];
        splice(b, at, below(2) ? n : 0, word, strlen(word));
        break;
    }
    case 8: b->data[at] = (uint8_t)(b->data[at] + below(5) - 2); break;
    }
}

static void run_changed(const Bytes *files, size_t n_files, long n) {
    for (long i = 0; i < n; i++) {
        const Bytes *from = &files[below(n_files)], *other = &files[below(n_files)];
        Bytes b = {.data = malloc(from->n + ROOM), .n = from->n};
        if (!b.data) exit(1);
        memcpy(b.data, from->data, from->n);
        for (size_t k = 1 + below(6); k > 0; k--) change(&b, other);
        run(b.data, b.n);
        free(b.data);
    }
}

/* ---- files -------------------------------------------------------------------------------------------------------- */

static Bytes read_file(const char *path) {
    Bytes b = {.name = path};
    FILE *file = fopen(path, "rb");
    if (!file || fseek(file, 0, SEEK_END) != 0) {
        fprintf(stderr, "%s: %s\n", path, strerror(errno));
        exit(2);
    }
    b.n = (size_t)ftell(file);
    rewind(file);
    b.data = malloc(b.n ? b.n : 1);
    if (!b.data || fread(b.data, 1, b.n, file) != b.n) exit(2);
    fclose(file);
    return b;
}

int main(int argc, char **argv) {
    long runs = 0, seed = 1;
    bool cuts = false;
    int first = 1;
    for (; first < argc && strncmp(argv[first], "--", 2) == 0; first++) {
        if (strcmp(argv[first], "--cuts") == 0) cuts = true;
        else if (first + 1 == argc) return 2;
        else if (strcmp(argv[first], "--runs") == 0) runs = strtol(argv[++first], NULL, 10);
        else if (strcmp(argv[first], "--seed") == 0) seed = strtol(argv[++first], NULL, 10);
        else if (strcmp(argv[first], "--save") == 0) save_path = argv[++first];
        else return 2;
    }
    size_t n = (size_t)(argc - first);
    if (n == 0) return fprintf(stderr, "no files\n"), 2;
    random_state = (uint64_t)seed * 0x9e3779b97f4a7c15u + 1;
    static const int deadly[] = {SIGABRT, SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGALRM};
    for (size_t i = 0; i < sizeof deadly / sizeof *deadly; i++) signal(deadly[i], on_signal);
    Bytes *files = calloc(n, sizeof *files);
    if (!files) return 1;
    for (size_t i = 0; i < n; i++) {
        files[i] = read_file(argv[first + (int)i]);
        run(files[i].data, files[i].n);
        if (cuts) cut(&files[i]);
    }
    run_changed(files, n, runs);
    printf("%zu files, %ld inputs\n", n, n_runs);
    for (size_t i = 0; i < n; i++) free(files[i].data);
    free(files);
    return 0;
}
