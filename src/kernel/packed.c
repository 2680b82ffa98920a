/* SPDX-License-Identifier: Apache-2.0 */
/* Packed constants of the whole process. They are few and asked for while planning only, so one lock and one list of
   chains do. Whoever asks for what another thread is just making waits for it. */
#include "kernel/kernel.h"

#include <pthread.h>
#include <stdio.h>

typedef struct Entry {
    Packed packed; /* first: a packed pointer is an Entry pointer */
    PackKey key;
    char format[32]; /* the key's */
    Context *context;
    Buffer *buffer; /* that the bytes lie in; NULL: they are ours */
    struct Entry *next;
    int users;
    bool made;
    tn_status status;
} Entry;

enum { CHAINS = 1024, ALIGN = 64 };
static Entry *chains[CHAINS];
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t made = PTHREAD_COND_INITIALIZER;

static Entry **chain_of(const PackKey *key) {
    uint64_t h = (uint64_t)(uintptr_t)key->source;
    for (size_t i = 0; i < sizeof key->params / sizeof *key->params; i++)
        h = (h ^ (uint64_t)key->params[i]) * 0x9e3779b97f4a7c15u;
    return &chains[(h * 0x9e3779b97f4a7c15u) >> 54];
}

static bool same_key(const Entry *e, const PackKey *key, const Context *context, size_t size) {
    return e->key.source == key->source && e->packed.size == size && e->context == context &&
           strcmp(e->key.format, key->format) == 0 && memcmp(e->key.params, key->params, sizeof key->params) == 0;
}

/* One that a caller gave is asked for everything. */
static const Allocator *store_of(const Context *context) {
    bool given = context->allocator.alloc != allocator_default.alloc;
    return given ? &context->allocator : &allocator_store;
}

static void discard(Entry *e) {
    Entry **at = chain_of(&e->key);
    while (*at != e) at = &(*at)->next;
    *at = e->next;
    Context *context = e->context;
    if (!e->buffer) mem_free(store_of(context), e->packed.data, e->packed.size);
    buffer_unref(e->buffer);
    mem_free(&context->allocator, e, sizeof *e);
    context_unref(context);
}

static Entry *find(const PackKey *key, const Context *context, size_t size) {
    Entry *e = *chain_of(key);
    while (e && !same_key(e, key, context, size)) e = e->next;
    return e;
}

static Entry *add(Context *context, const PackKey *key, size_t size, void *data, Buffer *buffer) {
    Entry *e = mem_alloc(&context->allocator, sizeof *e, alignof(Entry));
    if (e && !buffer) data = mem_alloc(store_of(context), size, ALIGN);
    if (!e || !data) {
        mem_free(&context->allocator, e, sizeof *e);
        return NULL;
    }
    *e = (Entry){.packed = {data, size},
                 .key = *key,
                 .context = context_ref(context),
                 .buffer = buffer_ref(buffer),
                 .next = *chain_of(key)};
    snprintf(e->format, sizeof e->format, "%s", key->format);
    e->key.format = e->format;
    *chain_of(key) = e;
    return e;
}

/* With the lock held, which is given up while `make` runs. */
static tn_status fill(Entry *e, tn_status (*make)(void *arg, void *dst), void *arg) {
    pthread_mutex_unlock(&lock);
    tn_status status = bytes_hold(e->key.source, e->context->pool);
    if (status == TN_OK) {
        if (e->packed.size >= STORE_BIG) mem_touch(e->context->pool, e->packed.data, e->packed.size);
        status = make(arg, e->packed.data);
        bytes_let_go(e->key.source);
        if (e->key.n_bytes) file_forget(e->key.source, e->key.n_bytes);
    }
    pthread_mutex_lock(&lock);
    e->status = status;
    e->made = true;
    pthread_cond_broadcast(&made);
    return status;
}

tn_status packed_get(Context *context, const PackKey *key, size_t size, tn_status (*make)(void *arg, void *dst),
                     void *arg, const Packed **out) {
    size = size ? size : 1;
    pthread_mutex_lock(&lock);
    Entry *e = find(key, context, size);
    bool fresh = !e;
    if (fresh) e = add(context, key, size, NULL, NULL);
    if (!e) {
        pthread_mutex_unlock(&lock);
        return TN_OUT_OF_MEMORY;
    }
    e->users++;
    if (fresh) fill(e, make, arg);
    while (!e->made) pthread_cond_wait(&made, &lock);
    tn_status status = e->status;
    if (status != TN_OK && --e->users == 0) discard(e);
    pthread_mutex_unlock(&lock);
    *out = status == TN_OK ? &e->packed : NULL;
    return status;
}

void packed_put(const Packed *packed) {
    if (!packed) return;
    pthread_mutex_lock(&lock);
    Entry *e = (Entry *)packed;
    if (--e->users == 0) discard(e);
    pthread_mutex_unlock(&lock);
}

tn_status packed_offer(Context *context, const PackKey *key, const void *data, size_t size, Buffer *buffer,
                       const Packed **out) {
    *out = NULL;
    pthread_mutex_lock(&lock);
    bool taken = find(key, context, size) != NULL;
    Entry *e = taken ? NULL : add(context, key, size, (void *)data, buffer);
    if (e) {
        e->users = 1;
        e->made = true;
        *out = &e->packed;
    }
    pthread_mutex_unlock(&lock);
    return e || taken ? TN_OK : TN_OUT_OF_MEMORY;
}

tn_status packed_each(const Context *context, const void *from, size_t n,
                      tn_status (*fn)(void *user, const PackKey *key, const Packed *packed), void *user) {
    tn_status status = TN_OK;
    uintptr_t start = (uintptr_t)from;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < CHAINS && status == TN_OK; i++)
        for (const Entry *e = chains[i]; e && status == TN_OK; e = e->next) {
            uintptr_t at = (uintptr_t)e->key.source;
            if (e->context != context || !e->made || e->status != TN_OK || at < start || at - start >= n) continue;
            status = fn(user, &e->key, &e->packed);
        }
    pthread_mutex_unlock(&lock);
    return status;
}
