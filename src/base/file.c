/* SPDX-License-Identifier: Apache-2.0 */
/* Reading files by mapping them. What a model names is opened beneath the model's folder only. */
#define _GNU_SOURCE
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#ifndef O_PATH
#define O_PATH O_RDONLY
#endif

/* NONBLOCK: opening a pipe would wait for its writer. It means nothing for a regular file. */
enum { READ_FLAGS = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY };

/* ---- mappings ------------------------------------------------------------------------------------------------ */

/* One that lives; its record lies in the heap. */
typedef struct Mapping {
    char *data;
    size_t size;
    const Allocator *allocator;
    struct Mapping *next;
} Mapping;
static Mapping *mappings;
static pthread_mutex_t mappings_lock = PTHREAD_MUTEX_INITIALIZER;

static void unmap(void *user, void *data, size_t size) {
    Mapping *m = user;
    pthread_mutex_lock(&mappings_lock);
    Mapping **at = &mappings;
    while (*at != m) at = &(*at)->next;
    *at = m->next;
    pthread_mutex_unlock(&mappings_lock);
    mem_free(m->allocator, m, sizeof *m);
    munmap(data, size);
}

static tn_status note_mapping(const Allocator *a, void *data, size_t size, Mapping **out) {
    Mapping *m = mem_alloc(a, sizeof *m, alignof(Mapping));
    if (!m) return TN_OUT_OF_MEMORY;
    pthread_mutex_lock(&mappings_lock);
    *m = (Mapping){data, size, a, mappings};
    *out = mappings = m;
    pthread_mutex_unlock(&mappings_lock);
    return TN_OK;
}

void file_forget(const void *bytes, size_t n) {
    void *first;
    size_t size = whole_pages(bytes, n, &first);
    uintptr_t from = (uintptr_t)first;
    if (size == 0) return;
    pthread_mutex_lock(&mappings_lock);
    for (const Mapping *m = mappings; m; m = m->next)
        if ((uintptr_t)m->data <= from && from + size <= (uintptr_t)m->data + m->size)
            (void)madvise(first, size, MADV_DONTNEED);
    pthread_mutex_unlock(&mappings_lock);
}

static tn_status map_bytes(const Allocator *a, int fd, size_t size, Buffer **out) {
    if (size == 0) return buffer_new(a, 0, out); /* nothing can be mapped */
    void *data = mmap(NULL, size, PROT_READ, MAP_PRIVATE, fd, 0);
    if (data == MAP_FAILED)
        return fail(errno == ENOMEM ? TN_OUT_OF_MEMORY : TN_IO, "cannot map %zu bytes: %s", size, strerror(errno));
    Mapping *mapping = NULL;
    tn_status status = note_mapping(a, data, size, &mapping);
    if (status == TN_OK) status = buffer_borrow(a, data, size, unmap, mapping, out);
    if (status != TN_OK && mapping) unmap(mapping, data, size);
    else if (status != TN_OK) munmap(data, size);
    return status;
}

/* ---- files --------------------------------------------------------------------------------------------------- */

/* Asks the open file, not its name, which may stand for another file by now. Closes it. */
static tn_status map_open_file(const Allocator *a, int fd, const char *path, Buffer **out) {
    struct stat info;
    tn_status status;
    if (fstat(fd, &info) != 0) status = fail(TN_IO, "cannot read \"%s\": %s", path, strerror(errno));
    else if (S_ISDIR(info.st_mode)) status = fail(TN_IO, "\"%s\" is a folder, not a file", path);
    else if (!S_ISREG(info.st_mode)) status = fail(TN_IO, "\"%s\" is a pipe or a device, not a regular file", path);
    else if (info.st_size < 0 || (uint64_t)info.st_size > PTRDIFF_MAX)
        status = fail(TN_IO, "\"%s\" is too big to be mapped", path);
    else status = map_bytes(a, fd, (size_t)info.st_size, out);
    close(fd);
    return status;
}

tn_status file_map(const Allocator *a, const char *path, Buffer **out) {
    *out = NULL;
    int fd = open(path, READ_FLAGS);
    if (fd < 0) return fail(TN_IO, "cannot open \"%s\": %s", path, strerror(errno));
    return map_open_file(a, fd, path, out);
}

/* ---- beneath a folder ---------------------------------------------------------------------------------------- */

/* The part of `real` below the folder `dir`, both without links, or NULL. */
static const char *below(const char *dir, const char *real) {
    size_t n = strlen(dir);
    if (strcmp(dir, "/") == 0) return real + 1;
    return strncmp(dir, real, n) == 0 && real[n] == '/' ? real + n + 1 : NULL;
}

/* Opens a path that has neither links nor ".." one part at a time and follows no link: if one was put there since the
   path was resolved, opening fails. Closes `folder`. -1 with errno. */
static int open_parts(int folder, const char *path) {
    char part[NAME_MAX + 1];
    while (folder >= 0) {
        size_t n = strcspn(path, "/");
        bool last = path[n] == 0;
        int fd = -1;
        if (n <= NAME_MAX) {
            memcpy(part, path, n);
            part[n] = 0;
            fd = openat(folder, part, O_NOFOLLOW | (last ? READ_FLAGS : O_PATH | O_DIRECTORY | O_CLOEXEC));
        } else errno = ENAMETOOLONG;
        int error = errno;
        close(folder);
        errno = error;
        if (last) return fd;
        folder = fd;
        path += n + 1;
    }
    return -1;
}

static tn_status check_relative(Str path) {
    if (path.n == 0) return fail(TN_IO, "the name of an external file is empty");
    if (memchr(path.s, 0, path.n)) return fail(TN_IO, "the name of an external file contains a zero byte");
    if (path.s[0] == '/')
        return fail(TN_IO, "external file \"%.*s\": only names relative to the model's folder are allowed",
                    (int)min_i64((int64_t)path.n, 256), path.s);
    if (path.n >= PATH_MAX) return fail(TN_IO, "the name of an external file is %zu bytes long", path.n);
    return TN_OK;
}

/* The real places of the folder and of the file in it. */
static tn_status resolve(const char *dir, Str path, char real_dir[PATH_MAX], char real[PATH_MAX]) {
    char joined[PATH_MAX];
    if (!realpath(dir, real_dir)) return fail(TN_IO, "cannot open the folder \"%s\": %s", dir, strerror(errno));
    size_t n = strlen(real_dir);
    if (n + path.n + 2 > PATH_MAX) return fail(TN_IO, "the path of an external file is longer than %d", PATH_MAX);
    memcpy(joined, real_dir, n);
    joined[n] = '/';
    memcpy(joined + n + 1, path.s, path.n);
    joined[n + 1 + path.n] = 0;
    if (realpath(joined, real)) return TN_OK;
    return fail(TN_IO, "cannot open the external file \"%s\": %s", joined + n + 1, strerror(errno));
}

tn_status file_map_beneath(const Allocator *a, const char *dir, Str path, Buffer **out) {
    char real_dir[PATH_MAX] = "", real[PATH_MAX] = "";
    *out = NULL;
    TRY(check_relative(path));
    TRY(resolve(dir, path, real_dir, real));
    const char *inside = below(real_dir, real);
    if (!inside || !*inside) {
        tn_status status = fail(TN_IO, "external file \"%.*s\" lies outside the model's folder", (int)path.n, path.s);
        diag_note("it is %s; the folder is %s", real, real_dir);
        diag_note("if you trust the model, copy its folder with links resolved (cp -rL) and open the copy");
        return status;
    }
    int fd = open_parts(open(real_dir, O_PATH | O_DIRECTORY | O_CLOEXEC), inside);
    if (fd < 0) return fail(TN_IO, "cannot open the external file \"%s\": %s", inside, strerror(errno));
    return map_open_file(a, fd, inside, out);
}

char *path_dirname(Arena *arena, const char *path) {
    const char *slash = strrchr(path, '/');
    if (!slash) return arena_strndup(arena, ".", 1);
    size_t n = (size_t)(slash - path);
    while (n > 0 && path[n - 1] == '/') n--;
    return n == 0 ? arena_strndup(arena, "/", 1) : arena_strndup(arena, path, n);
}
