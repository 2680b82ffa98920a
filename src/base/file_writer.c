/* SPDX-License-Identifier: Apache-2.0 */
/* Writing files so that a half-written one is never seen under its name. */
#define _GNU_SOURCE
#include "base/base.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER_SIZE = 1 << 16, TRIES = 64, LONGEST_STEM = 200 };

struct FileWriter {
    const Allocator *allocator;
    int fd;
    tn_status status; /* the first failure */
    size_t fill;
    char path[PATH_MAX], temporary[PATH_MAX + 16];
    char buffer[BUFFER_SIZE];
};

static tn_status io_error(const char *what, const char *path) {
    return fail(TN_IO, "cannot %s \"%s\": %s", what, path, strerror(errno));
}

/* Where the file will stand: behind a link, its target is replaced and not the link. `mode` gets the permissions of
   the file that is replaced, or -1. */
static tn_status find_target(FileWriter *writer, const char *path, int *mode) {
    struct stat info;
    *mode = -1;
    size_t n = strlen(path);
    if (n == 0 || n >= PATH_MAX || path[n - 1] == '/') return fail(TN_IO, "\"%s\" is no name of a file", path);
    memcpy(writer->path, path, n + 1);
    if (stat(path, &info) != 0) return errno == ENOENT ? TN_OK : io_error("write", path);
    if (!S_ISREG(info.st_mode)) return fail(TN_IO, "cannot write \"%s\": it is not a regular file", path);
    *mode = info.st_mode & 0777;
    return realpath(path, writer->path) ? TN_OK : io_error("write", path);
}

/* Six characters that are not in use beside the target. Made by open rather than by mkstemp, so that the system and
   not we apply the umask, which other threads may be changing. */
static void name_temporary(FileWriter *writer, unsigned attempt) {
    static const char letters[] = "abcdefghijklmnopqrstuvwxyz012345";
    const char *slash = strrchr(writer->path, '/');
    int folder = slash ? (int)(slash + 1 - writer->path) : 0;
    uint32_t random = 0;
    char ending[7] = "";
    if (getentropy(&random, sizeof random) != 0) random = (uint32_t)getpid() + attempt * 0x9e3779b9u;
    for (int i = 0; i < 6; i++, random >>= 5) ending[i] = letters[random & 31];
    snprintf(writer->temporary, sizeof writer->temporary, "%.*s.%.*s.%s", folder, writer->path, LONGEST_STEM,
             writer->path + folder, ending);
}

static tn_status open_temporary(FileWriter *writer, const char *path) {
    int mode;
    TRY(find_target(writer, path, &mode));
    for (unsigned attempt = 0; attempt < TRIES && writer->fd < 0; attempt++) {
        name_temporary(writer, attempt);
        writer->fd = open(writer->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
        if (writer->fd < 0 && errno != EEXIST) break;
    }
    if (writer->fd < 0) return io_error("write", path);
    if (mode < 0 || fchmod(writer->fd, (mode_t)mode) == 0) return TN_OK;
    return io_error("set the permissions of", path);
}

tn_status file_writer_open(const Allocator *a, const char *path, FileWriter **out) {
    *out = NULL;
    FileWriter *writer = mem_alloc(a, sizeof *writer, alignof(FileWriter));
    if (!writer) return TN_OUT_OF_MEMORY;
    writer->allocator = a;
    writer->fd = -1;
    tn_status status = open_temporary(writer, path);
    if (status == TN_OK) *out = writer;
    else file_writer_abort(writer);
    return status;
}

static tn_status write_all(FileWriter *writer, const char *data, size_t n) {
    while (n > 0) {
        ssize_t done = write(writer->fd, data, n < SSIZE_MAX ? n : SSIZE_MAX);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) return io_error("write", writer->path);
        data += done;
        n -= (size_t)done;
    }
    return TN_OK;
}

static tn_status flush(FileWriter *writer) {
    size_t n = writer->fill;
    writer->fill = 0;
    return write_all(writer, writer->buffer, n);
}

tn_status file_writer_write(FileWriter *writer, const void *data, size_t n) {
    if (writer->status != TN_OK) return fail(writer->status, "writing \"%s\" failed before", writer->path);
    if (n > BUFFER_SIZE - writer->fill) writer->status = flush(writer);
    if (writer->status == TN_OK && n >= BUFFER_SIZE) writer->status = write_all(writer, data, n);
    else if (writer->status == TN_OK && n > 0) {
        memcpy(writer->buffer + writer->fill, data, n);
        writer->fill += n;
    }
    return writer->status;
}

/* A power failure must not undo the renaming. Some file systems cannot do this, which is no error of ours. */
static void sync_folder(char *path) {
    char *slash = strrchr(path, '/');
    if (slash) slash[slash == path] = 0;
    int fd = open(slash ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    fsync(fd);
    close(fd);
}

static tn_status finish(FileWriter *writer) {
    if (writer->status != TN_OK) return fail(writer->status, "writing \"%s\" failed before", writer->path);
    TRY(flush(writer));
    if (fsync(writer->fd) != 0) return io_error("write", writer->path);
    int fd = writer->fd;
    writer->fd = -1;
    /* Some network file systems tell only now that they have no room. */
    if (close(fd) != 0 && errno != EINTR) return io_error("write", writer->path);
    if (rename(writer->temporary, writer->path) != 0) return io_error("replace", writer->path);
    writer->temporary[0] = 0;
    sync_folder(writer->path);
    return TN_OK;
}

tn_status file_writer_commit(FileWriter *writer) {
    tn_status status = finish(writer);
    file_writer_abort(writer);
    return status;
}

void file_writer_abort(FileWriter *writer) {
    if (!writer) return;
    if (writer->fd >= 0) close(writer->fd);
    if (writer->temporary[0]) unlink(writer->temporary);
    mem_free(writer->allocator, writer, sizeof *writer);
}
