/* SPDX-License-Identifier: Apache-2.0 */
/* Text, files and folders. */
#define _GNU_SOURCE
#include "cli.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

void *need(void *memory) {
    if (memory) return memory;
    fputs("tenon: out of memory\n", stderr);
    exit(FAILED);
}

char *format_text(const char *format, ...) {
    char *text = NULL;
    va_list list;
    va_start(list, format);
    if (vasprintf(&text, format, list) < 0) text = NULL;
    va_end(list);
    return need(text);
}

char *join_path(const char *folder, const char *name) {
    return format_text("%s%s%s", folder, ends_with(folder, "/") ? "" : "/", name);
}

bool is_folder(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && S_ISDIR(info.st_mode);
}

bool is_file(const char *path) {
    struct stat info;
    return stat(path, &info) == 0 && !S_ISDIR(info.st_mode);
}

bool starts_with(const char *text, const char *start) { return strncmp(text, start, strlen(start)) == 0; }

bool ends_with(const char *text, const char *end) {
    size_t n = strlen(text), m = strlen(end);
    return n >= m && strcasecmp(text + n - m, end) == 0;
}

static int by_version(const void *a, const void *b) { return strverscmp(*(char *const *)a, *(char *const *)b); }

char **list_folder(const char *path, size_t *n) {
    DIR *folder = opendir(path);
    if (!folder) return NULL;
    char **names = need(malloc(sizeof *names));
    *n = 0;
    for (struct dirent *entry; (entry = readdir(folder));) {
        if (entry->d_name[0] == '.') continue;
        names = need(realloc(names, (*n + 1) * sizeof *names));
        names[(*n)++] = format_text("%s", entry->d_name);
    }
    closedir(folder);
    qsort(names, *n, sizeof *names, by_version);
    return names;
}

void free_list(char **names, size_t n) {
    for (size_t i = 0; names && i < n; i++) free(names[i]);
    free(names);
}

char *read_file(const char *path, size_t *size) {
    FILE *file = fopen(path, "rb");
    if (!file) return NULL;
    char *data = need(malloc(1));
    size_t n = 0, got, room = 1 << 16;
    do {
        data = need(realloc(data, n + room + 1));
        got = fread(data + n, 1, room, file);
        n += got;
        room += room / 2;
    } while (got > 0);
    bool bad = ferror(file);
    fclose(file);
    data[n] = '\0';
    *size = n;
    if (!bad) return data;
    free(data);
    errno = EIO;
    return NULL;
}

static double seconds_of(clockid_t clock) {
    struct timespec t;
    clock_gettime(clock, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

double seconds_now(void) { return seconds_of(CLOCK_MONOTONIC); }

double processor_seconds(void) { return seconds_of(CLOCK_PROCESS_CPUTIME_ID); }
