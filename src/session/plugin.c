/* SPDX-License-Identifier: Apache-2.0 */
/* Plug-ins: shared objects are loaded, and what they describe is registered, all of it or nothing. */
#define _GNU_SOURCE /* dladdr, secure_getenv */
#include <dlfcn.h>
#include <elf.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "session/plugin_int.h"

/* ---- what the files share ------------------------------------------------------------------------------------ */

enum { MAX_SIZE = 1 << 16 }; /* of a struct from outside */

tn_status tn_fail(tn_status status, const char *format, ...) {
    char text[1024];
    va_list list;
    va_start(list, format);
    vsnprintf(text, sizeof text, format, list);
    va_end(list);
    return status == TN_OK ? fail(TN_INTERNAL, "%s", text) : fail(status, "%s", text);
}

tn_status plugin_read(void *to, size_t known, const void *from, size_t given, const char *what) {
    const char *bytes = from;
    if (given < sizeof(uint32_t) || given > MAX_SIZE)
        return fail(TN_INVALID_ARGUMENT, "the size of a %s is %zu, which is none: it has to be its sizeof", what,
                    given);
    for (size_t i = known; i < given; i++)
        if (bytes[i])
            return fail(TN_UNSUPPORTED, "a %s uses what Tenon %s does not have: a newer Tenon is needed", what,
                        tn_version());
    memset(to, 0, known);
    memcpy(to, from, given < known ? given : known);
    return TN_OK;
}

const char *plugin_copy(Arena *arena, const char *text) {
    return text ? arena_strndup(arena, text, strlen(text)) : NULL;
}

bool plugin_is_word(const char *text, const char *also) {
    if (!text || !*text) return false;
    for (; *text; text++)
        if (!(*text >= 'a' && *text <= 'z') && !(*text >= 'A' && *text <= 'Z') && !(*text >= '0' && *text <= '9') &&
            *text != '_' && !strchr(also, *text))
            return false;
    return true;
}

static bool is_status(tn_status status) { return strcmp(status_name(status), "TN_?") != 0; }

tn_status plugin_answer(tn_status status, const char *what, const char *name) {
    if (status == TN_OK) return TN_OK;
    if (!is_status(status))
        return fail(TN_INTERNAL, "%s \"%s\" answered %d, which is no status", what, name, (int)status);
    if (diag_status() == TN_OK) return fail(status, "%s \"%s\" failed and did not say why (tn_fail)", what, name);
    return status;
}

/* ---- what is registered -------------------------------------------------------------------------------------- */

/* What came in one go. Stays for the rest of the process: passes and kernels that are no longer found may be in use. */
typedef struct Addition {
    struct Addition *next;
    Arena arena;
    const char *plugin; /* its name; NULL: a single pass */
    const char *path;   /* NULL: part of the program */
    void *handle;
    const Pass **passes;
    const OpSchema **ops;
    const KernelDesc **kernels;
    size_t n_passes, n_ops, n_kernels;
} Addition;

/* Whoever adds holds the lock. Nobody who runs something does. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static Addition *additions;

static tn_status addition_new(Addition **out) {
    Addition *a = mem_alloc(&allocator_default, sizeof *a, alignof(Addition));
    if (!a) return TN_OUT_OF_MEMORY;
    arena_init(&a->arena, &allocator_default);
    *out = a;
    return TN_OK;
}

static void addition_free(Addition *a) {
    arena_free(&a->arena);
    mem_free(&allocator_default, a, sizeof *a);
}

static tn_status make_passes(Addition *a, const tn_plugin *p) {
    size_t n = p->passes ? (size_t)(p->passes_end - p->passes) : 0;
    a->passes = arena_array(&a->arena, const Pass *, n + 1);
    if (!a->passes) return TN_OUT_OF_MEMORY;
    for (; a->n_passes < n; a->n_passes++)
        TRY(plugin_make_pass(&a->arena, p->passes[a->n_passes], &a->passes[a->n_passes]));
    return TN_OK;
}

static tn_status make_ops(Addition *a, const tn_plugin *p) {
    size_t n = p->ops ? (size_t)(p->ops_end - p->ops) : 0;
    a->ops = arena_array(&a->arena, const OpSchema *, n + 1);
    if (!a->ops) return TN_OUT_OF_MEMORY;
    for (; a->n_ops < n; a->n_ops++) TRY(plugin_make_op(&a->arena, p->ops[a->n_ops], &a->ops[a->n_ops]));
    return TN_OK;
}

static bool has_kernel(const KernelDesc *const *kernels, size_t n, const char *name) {
    for (size_t i = 0; i < n; i++)
        if (strcmp(kernels[i]->name, name) == 0) return true;
    return false;
}

static tn_status make_kernels(Addition *a, const tn_plugin *p) {
    size_t n_there, n = p->kernels ? (size_t)(p->kernels_end - p->kernels) : 0;
    const KernelDesc *const *there = kernel_table(&n_there);
    a->kernels = arena_array(&a->arena, const KernelDesc *, n + 1);
    if (!a->kernels) return TN_OUT_OF_MEMORY;
    for (; a->n_kernels < n; a->n_kernels++) {
        const KernelDesc *made;
        TRY(plugin_make_kernel(&a->arena, p->kernels[a->n_kernels], a->ops, a->n_ops, &made));
        if (has_kernel(there, n_there, made->name) || has_kernel(a->kernels, a->n_kernels, made->name))
            return fail(TN_INVALID_ARGUMENT, "there is a kernel \"%s\" already", made->name);
        a->kernels[a->n_kernels] = made;
    }
    return TN_OK;
}

/* The last step that can fail comes before the first that others see. */
static tn_status publish(Addition *a) {
    OpTable *ops = NULL;
    KernelTable *kernels = NULL;
    tn_status status = a->n_ops ? op_table_extend(a->ops, a->n_ops, &ops) : TN_OK;
    if (status == TN_OK && a->n_kernels) status = kernel_table_extend(a->kernels, a->n_kernels, &kernels);
    if (status == TN_OK) status = pass_register_all(a->passes, a->n_passes);
    if (status != TN_OK) {
        op_table_discard(ops);
        kernel_table_discard(kernels);
        return status;
    }
    if (ops) op_table_publish(ops);
    if (kernels) kernel_table_publish(kernels);
    return TN_OK;
}

/* Frees it when it cannot be. */
static tn_status keep(Addition *a, tn_status status) {
    if (status == TN_OK) status = publish(a);
    if (status != TN_OK) {
        addition_free(a);
        return status;
    }
    a->next = additions;
    additions = a;
    return TN_OK;
}

tn_status tn_register_pass(const tn_pass_desc *desc) {
    Addition *a;
    if (!desc) return fail(TN_INVALID_ARGUMENT, "desc is NULL");
    TRY(addition_new(&a));
    pthread_mutex_lock(&lock);
    tn_status status = make_passes(a, &(tn_plugin){.passes = &desc, .passes_end = &desc + 1});
    status = keep(a, status);
    pthread_mutex_unlock(&lock);
    return status;
}

tn_status tn_unregister_pass(const char *name) {
    if (!name) return fail(TN_INVALID_ARGUMENT, "name is NULL");
    return pass_unregister(str_of(name));
}

/* ---- plug-ins ------------------------------------------------------------------------------------------------ */

static tn_status check_version(const tn_plugin *p) {
    if (p->api == TN_PLUGIN_API) return TN_OK;
    return fail(TN_UNSUPPORTED,
                "it was built for version %u of plug-ins, Tenon %s loads version %u: build it again with this Tenon's "
                "<tenon/plugin.h>",
                p->api, tn_version(), TN_PLUGIN_API);
}

/* A plug-in's calls go to whichever engine of the process its symbols are found in. */
static tn_status check_engine(const tn_plugin *p) {
    if (p->engine == tn_version) return TN_OK;
    return fail(TN_STATE,
                "its calls would go to another copy of Tenon in this process: load one copy only, or load the "
                "plug-in through the copy that was loaded first");
}

/* With the lock held. */
static tn_status check_name(const tn_plugin *p) {
    if (!plugin_is_word(p->name, "-.")) return fail(TN_INVALID_ARGUMENT, "its name is empty or no word");
    for (const Addition *a = additions; a; a = a->next)
        if (a->plugin && strcmp(a->plugin, p->name) == 0)
            return fail(TN_INVALID_ARGUMENT, "a plug-in \"%s\" is there already, %s", p->name,
                        a->path ? a->path : "in the program itself");
    return TN_OK;
}

static tn_status check_plugin(const tn_plugin *given, tn_plugin *p) {
    TRY(check_version(given));
    TRY(plugin_read(p, sizeof *p, given, given->size, "plug-in"));
    return check_engine(p);
}

/* With the lock held. */
static bool is_loaded(const void *handle) {
    const Addition *a = additions;
    while (a && a->handle != handle) a = a->next;
    return a && handle;
}

/* With the lock held. */
static tn_status make_all(Addition *a, const tn_plugin *p, const char *path, void *handle) {
    TRY(check_name(p));
    a->plugin = plugin_copy(&a->arena, p->name);
    a->path = plugin_copy(&a->arena, path);
    a->handle = handle;
    if (!a->plugin || (path && !a->path)) return TN_OUT_OF_MEMORY;
    TRY(make_passes(a, p));
    TRY(make_ops(a, p));
    return make_kernels(a, p);
}

/* *again: it was loaded before, so there is nothing to do. */
static tn_status register_plugin(const tn_plugin *given, const char *path, void *handle, bool *again) {
    tn_plugin p;
    Addition *a;
    TRY(check_plugin(given, &p));
    TRY(addition_new(&a));
    pthread_mutex_lock(&lock);
    *again = is_loaded(handle);
    tn_status status = TN_OK;
    if (*again) addition_free(a);
    else status = keep(a, make_all(a, &p, path, handle));
    pthread_mutex_unlock(&lock);
    if (status != TN_OK) diag_note("so nothing of this plug-in was registered");
    return status;
}

tn_status tn_register_plugin(const tn_plugin *plugin) {
    bool again;
    return plugin ? register_plugin(plugin, NULL, NULL, &again) : fail(TN_INVALID_ARGUMENT, "plugin is NULL");
}

/* ---- shared objects ------------------------------------------------------------------------------------------ */

/* The loader of the C library maps what the headers say without asking whether the file is that long. */
static bool is_whole(const uint8_t *bytes, size_t size) {
    Elf64_Ehdr head;
    if (size < sizeof head || memcmp(bytes, ELFMAG, SELFMAG) != 0) return false;
    memcpy(&head, bytes, sizeof head);
    if (head.e_ident[EI_CLASS] != ELFCLASS64) return true; /* the loader knows */
    if (head.e_phentsize != sizeof(Elf64_Phdr) || head.e_phoff > size ||
        (size - head.e_phoff) / sizeof(Elf64_Phdr) < head.e_phnum)
        return false;
    for (unsigned i = 0; i < head.e_phnum; i++) {
        Elf64_Phdr part;
        memcpy(&part, bytes + head.e_phoff + i * sizeof part, sizeof part);
        if (part.p_type == PT_LOAD && (part.p_offset > size || size - part.p_offset < part.p_filesz)) return false;
    }
    return true;
}

static tn_status check_file(const char *path) {
    Buffer *bytes;
    TRY(file_map(&allocator_default, path, &bytes));
    bool whole = is_whole(bytes->data, bytes->size);
    buffer_unref(bytes);
    return whole ? TN_OK : fail(TN_MALFORMED, "it is no shared object, or cut short");
}

/* A plug-in is not linked to the engine. Where that is the program or was linked to it, its functions are found; where it
   was itself loaded for one module only, as Python does, it has to be made visible. */
static void show_engine(void) {
    Dl_info self;
    if (dladdr((void *)&tn_load_plugin, &self) && self.dli_fname)
        dlopen(self.dli_fname, RTLD_LAZY | RTLD_NOLOAD | RTLD_GLOBAL);
}

static tn_status load_error(void) {
    const char *said = dlerror();
    fail(TN_IO, "%s", said ? said : "it cannot be loaded");
    if (said && strstr(said, "undefined symbol: tn_"))
        diag_note("either it was built for another version than Tenon %s, or the program that holds the engine was not "
                  "linked with -rdynamic",
                  tn_version());
    return TN_IO;
}

static tn_status open_and_register(const char *path) {
    static pthread_once_t shown = PTHREAD_ONCE_INIT;
    TRY(check_file(path));
    pthread_once(&shown, show_engine);
    void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!handle) return load_error();
    const tn_plugin *plugin = dlsym(handle, "tn_plugin_info");
    bool again = false;
    tn_status status = plugin ? register_plugin(plugin, path, handle, &again)
                              : fail(TN_MALFORMED, "it is no plug-in of Tenon's: it exports no tn_plugin_info, which "
                                                   "TN_PLUGIN(\"name\") makes");
    if (again || status != TN_OK) dlclose(handle);
    return status;
}

tn_status tn_load_plugin(const char *path) {
    char real[PATH_MAX];
    if (!path) return fail(TN_INVALID_ARGUMENT, "path is NULL");
    tn_status status = realpath(path, real) ? open_and_register(real) : fail(TN_IO, "there is no such file");
    if (status != TN_OK) diag_set_file(path);
    return status;
}

tn_status tn_load_plugins_from_env(void) {
    const char *list = secure_getenv("TENON_PLUGINS");
    Arena arena;
    tn_status status = TN_OK;
    arena_init(&arena, &allocator_default);
    while (list && *list && status == TN_OK) {
        size_t n = strcspn(list, ":");
        const char *path = n ? arena_strndup(&arena, list, n) : "";
        status = !path ? TN_OUT_OF_MEMORY : n ? tn_load_plugin(path) : TN_OK;
        if (status != TN_OK) diag_note("the environment's TENON_PLUGINS names it");
        list += n + (list[n] == ':');
    }
    arena_free(&arena);
    return status;
}
