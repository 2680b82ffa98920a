/* SPDX-License-Identifier: Apache-2.0 */
/* Mapping files, files beneath a folder, writing files. */
#define _GNU_SOURCE
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "test_base_alloc.h"

static char root[64];
static char where[256];

static const char *in_root(const char *name) {
    snprintf(where, sizeof where, "%s/%s", root, name);
    return where;
}

static void put_file(const char *name, const char *content) {
    FILE *f = fopen(in_root(name), "w");
    assert_non_null(f);
    assert_true(fputs(content, f) >= 0);
    assert_int_equal(fclose(f), 0);
}

/* model/ is the model's folder; secret, blobs/ and model2/ lie beside it. */
static int make_tree(void **state) {
    (void)state;
    strcpy(root, "/tmp/tenon-test-XXXXXX");
    if (!mkdtemp(root)) return -1;
    const char *folders[] = {"model", "model/sub", "blobs", "model2"};
    for (int i = 0; i < 4; i++) assert_int_equal(mkdir(in_root(folders[i]), 0777), 0);
    put_file("model/w.bin", "weights");
    put_file("model/sub/w.bin", "deeper");
    put_file("model/empty", "");
    put_file("secret", "secret");
    put_file("blobs/b1", "blob");
    put_file("model2/w.bin", "other");
    char absolute[128];
    snprintf(absolute, sizeof absolute, "%s/model/w.bin", root);
    assert_int_equal(symlink("w.bin", in_root("model/link")), 0);
    assert_int_equal(symlink("sub", in_root("model/folder")), 0);
    assert_int_equal(symlink(absolute, in_root("model/absolute")), 0);
    assert_int_equal(symlink("../secret", in_root("model/out")), 0);
    assert_int_equal(symlink("..", in_root("model/up")), 0);
    assert_int_equal(symlink("../blobs/b1", in_root("model/blob")), 0);
    assert_int_equal(symlink("loop", in_root("model/loop")), 0);
    assert_int_equal(symlink("/dev/zero", in_root("model/zero")), 0);
    assert_int_equal(symlink("model", in_root("alias")), 0);
    return mkfifo(in_root("model/pipe"), 0666);
}

static int remove_tree(void **state) {
    (void)state;
    char command[128];
    snprintf(command, sizeof command, "rm -rf '%s'", root);
    return system(command);
}

static void expect_content(Buffer *buffer, const char *content) {
    assert_non_null(buffer);
    assert_int_equal(buffer->size, strlen(content));
    assert_memory_equal(buffer->data, content, buffer->size);
    buffer_unref(buffer);
}

static void test_map(void **state) {
    (void)state;
    Buffer *buffer;
    assert_int_equal(file_map(&allocator_default, in_root("secret"), &buffer), TN_OK);
    expect_content(buffer, "secret");
    assert_int_equal(file_map(&allocator_default, in_root("model/empty"), &buffer), TN_OK);
    expect_content(buffer, "");
    const char *bad[] = {"model", "none", "model/pipe", "model/loop", "model/zero", "model/w.bin/x"};
    for (int i = 0; i < 6; i++) {
        assert_int_equal(file_map(&allocator_default, in_root(bad[i]), &buffer), TN_IO);
        assert_null(buffer);
        assert_non_null(strstr(diag_text(), bad[i]));
    }
}

static void test_beneath(void **state) {
    (void)state;
    static const char *const good[][2] = {
        {"w.bin", "weights"},          {"./w.bin", "weights"},   {"sub/../w.bin", "weights"},
        {"sub/w.bin", "deeper"},       {"sub//w.bin", "deeper"}, {"link", "weights"},
        {"folder/w.bin", "deeper"},    {"absolute", "weights"},  {"../model/w.bin", "weights"},
        {"folder/../link", "weights"},
    };
    static const Str bad[] = {STR(""),
                              STR("/etc/passwd"),
                              STR("w.bin\0x"),
                              STR("../secret"),
                              STR("sub/../../secret"),
                              STR("out"),
                              STR("up/secret"),
                              STR("up/model2/w.bin"),
                              STR("../model2/w.bin"),
                              STR("blob"),
                              STR("loop"),
                              STR("zero"),
                              STR("pipe"),
                              STR("sub"),
                              STR("."),
                              STR(".."),
                              STR("none"),
                              STR("w.bin/"),
                              STR("w.bin/x"),
                              STR("../../../../../../etc/passwd")};
    static const char *const folders[] = {"model", "alias", "model/", "model/sub/.."};
    Buffer *buffer;
    for (int f = 0; f < 4; f++) {
        for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
            assert_int_equal(file_map_beneath(&allocator_default, in_root(folders[f]), str_of(good[i][0]), &buffer),
                             TN_OK);
            expect_content(buffer, good[i][1]);
        }
        for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
            assert_int_equal(file_map_beneath(&allocator_default, in_root(folders[f]), bad[i], &buffer), TN_IO);
            assert_null(buffer);
        }
    }
    assert_int_equal(file_map_beneath(&allocator_default, in_root("none"), STR("w.bin"), &buffer), TN_IO);
    /* Where model hubs keep their files behind links, the message says what to do. */
    assert_int_equal(file_map_beneath(&allocator_default, in_root("model"), STR("blob"), &buffer), TN_IO);
    assert_non_null(strstr(diag_text(), "outside the model's folder"));
    assert_non_null(strstr(diag_text(), "blobs/b1"));
    assert_non_null(strstr(diag_text(), "cp -rL"));
}

static void test_beneath_odd_names(void **state) {
    (void)state;
    Buffer *buffer;
    char *name = malloc(1 << 20);
    memset(name, 'x', 1 << 20);
    const size_t lengths[] = {200, 256, PATH_MAX - 2, PATH_MAX, 1 << 20};
    for (int i = 0; i < 5; i++)
        assert_int_equal(file_map_beneath(&allocator_default, root, (Str){name, lengths[i]}, &buffer), TN_IO);
    free(name);
    assert_int_equal(file_map_beneath(&allocator_default, "/", str_of(in_root("secret") + 1), &buffer), TN_OK);
    expect_content(buffer, "secret");
    char before[PATH_MAX];
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(in_root("model")), 0);
    assert_int_equal(file_map_beneath(&allocator_default, ".", STR("w.bin"), &buffer), TN_OK);
    expect_content(buffer, "weights");
    assert_int_equal(file_map_beneath(&allocator_default, ".", STR("../secret"), &buffer), TN_IO);
    assert_int_equal(chdir(before), 0);
}

static int open_files(void) {
    int n = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (!folder) return 0;
    while (readdir(folder)) n++;
    closedir(folder);
    return n;
}

static void test_no_file_stays_open(void **state) {
    (void)state;
    int before = open_files();
    for (int64_t at = 0; at < 5; at++) {
        TestHeap heap;
        test_heap_init(&heap);
        heap.fail_at = at;
        Buffer *buffer;
        tn_status status = file_map(&heap.allocator, in_root("secret"), &buffer);
        assert_int_equal(status, at == 1 || at == 2 ? TN_OUT_OF_MEMORY : TN_OK);
        buffer_unref(buffer);
        status = file_map_beneath(&heap.allocator, in_root("model"), STR("sub/w.bin"), &buffer);
        assert_true(status == TN_OK || status == TN_OUT_OF_MEMORY);
        buffer_unref(buffer);
        file_map_beneath(&heap.allocator, in_root("model"), STR("sub"), &buffer);
        file_map_beneath(&heap.allocator, in_root("model"), STR("pipe"), &buffer);
        FileWriter *writer;
        status = file_writer_open(&heap.allocator, in_root("model/w.bin"), &writer);
        file_writer_abort(writer);
        assert_int_equal(heap.living, 0);
    }
    assert_int_equal(open_files(), before);
}

static void test_dirname(void **state) {
    (void)state;
    static const char *const rows[][2] = {{"a/b", "a"},  {"a", "."},       {"/a", "/"},  {"//a", "/"},
                                          {"a//b", "a"}, {"a/b/c", "a/b"}, {"./a", "."}, {"", "."}};
    Arena arena;
    arena_init(&arena, &allocator_default);
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_string_equal(path_dirname(&arena, rows[i][0]), rows[i][1]);
    arena_free(&arena);
}

static int entries_of_root(void) {
    int n = 0;
    DIR *folder = opendir(root);
    assert_non_null(folder);
    while (readdir(folder)) n++;
    closedir(folder);
    return n;
}

static void expect_file(const char *name, const char *content, mode_t mode) {
    Buffer *buffer;
    struct stat info;
    assert_int_equal(stat(in_root(name), &info), 0);
    assert_int_equal(info.st_mode & 0777, mode);
    assert_int_equal(file_map(&allocator_default, in_root(name), &buffer), TN_OK);
    expect_content(buffer, content);
}

static void write_file(const char *name, const char *content) {
    FileWriter *writer;
    assert_int_equal(file_writer_open(&allocator_default, in_root(name), &writer), TN_OK);
    assert_int_equal(file_writer_write(writer, content, strlen(content)), TN_OK);
    assert_int_equal(file_writer_commit(writer), TN_OK);
}

static void test_write(void **state) {
    (void)state;
    mode_t mask = umask(027);
    write_file("new", "first");
    umask(mask);
    expect_file("new", "first", 0640);
    assert_int_equal(chmod(in_root("new"), 0604), 0);
    write_file("new", "second");
    expect_file("new", "second", 0604);
    char target[256];
    strcpy(target, in_root("new"));
    assert_int_equal(symlink(target, in_root("to-new")), 0);
    write_file("to-new", "third"); /* the link stays */
    struct stat info;
    assert_int_equal(lstat(in_root("to-new"), &info), 0);
    assert_true(S_ISLNK(info.st_mode));
    expect_file("new", "third", 0604);
    int entries = entries_of_root();
    FileWriter *writer;
    assert_int_equal(file_writer_open(&allocator_default, in_root("new"), &writer), TN_OK);
    assert_int_equal(file_writer_write(writer, "lost", 4), TN_OK);
    assert_int_equal(entries_of_root(), entries + 1);
    file_writer_abort(writer);
    file_writer_abort(NULL);
    assert_int_equal(entries_of_root(), entries);
    expect_file("new", "third", 0604);
}

static void test_write_much(void **state) {
    (void)state;
    FileWriter *writer;
    Buffer *buffer;
    char piece[70000];
    size_t total = 0;
    assert_int_equal(file_writer_open(&allocator_default, in_root("big"), &writer), TN_OK);
    for (size_t n = 0; n < sizeof piece; n += 997) {
        for (size_t i = 0; i < n; i++) piece[i] = (char)((total + i) * 7 >> 3);
        assert_int_equal(file_writer_write(writer, piece, n), TN_OK);
        total += n;
    }
    assert_int_equal(file_writer_commit(writer), TN_OK);
    assert_int_equal(file_map(&allocator_default, in_root("big"), &buffer), TN_OK);
    assert_int_equal(buffer->size, total);
    for (size_t i = 0; i < total; i++) assert_true((char)buffer->data[i] == (char)(i * 7 >> 3));
    buffer_unref(buffer);
}

static void test_write_refuses(void **state) {
    (void)state;
    FileWriter *writer;
    const char *bad[] = {"model", "none/x", "model/pipe", "model/w.bin/x", "model/zero", "model/loop", "x/", ""};
    int entries = entries_of_root();
    for (int i = 0; i < 8; i++) {
        assert_int_equal(file_writer_open(&allocator_default, *bad[i] ? in_root(bad[i]) : "", &writer), TN_IO);
        assert_null(writer);
    }
    char name[400];
    memset(name, 'n', sizeof name);
    name[255] = 0; /* the longest name there is */
    char path[512];
    snprintf(path, sizeof path, "%s/%s", root, name);
    assert_int_equal(file_writer_open(&allocator_default, path, &writer), TN_OK);
    assert_int_equal(file_writer_commit(writer), TN_OK);
    assert_int_equal(unlink(path), 0);
    assert_int_equal(entries_of_root(), entries);
}

/* A full disk, played by a limit on the size of files. */
static void test_write_fails(void **state) {
    (void)state;
    struct rlimit before, small = {100000, 100000};
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    small.rlim_max = before.rlim_max;
    put_file("kept", "old");
    signal(SIGXFSZ, SIG_IGN);
    int entries = entries_of_root();
    for (int size = 1000; size <= 70000; size += 69000) {
        FileWriter *writer;
        char data[70000] = {0};
        assert_int_equal(file_writer_open(&allocator_default, in_root("kept"), &writer), TN_OK);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &small), 0);
        tn_status status = TN_OK;
        for (int written = 0; written < 300000 && status == TN_OK; written += size)
            status = file_writer_write(writer, data, (size_t)size);
        assert_int_equal(status, TN_IO);
        assert_int_equal(file_writer_write(writer, data, 1), TN_IO);
        assert_int_equal(file_writer_commit(writer), TN_IO);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
        assert_int_equal(entries_of_root(), entries);
        Buffer *buffer;
        assert_int_equal(file_map(&allocator_default, in_root("kept"), &buffer), TN_OK);
        expect_content(buffer, "old");
    }
    signal(SIGXFSZ, SIG_DFL);
}

int main(void) {
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_map),
        cmocka_unit_test(test_beneath),
        cmocka_unit_test(test_beneath_odd_names),
        cmocka_unit_test(test_no_file_stays_open),
        cmocka_unit_test(test_dirname),
        cmocka_unit_test(test_write),
        cmocka_unit_test(test_write_much),
        cmocka_unit_test(test_write_refuses),
        cmocka_unit_test(test_write_fails),
    };
    return cmocka_run_group_tests(tests, make_tree, remove_tree);
}
