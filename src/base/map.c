/* SPDX-License-Identifier: Apache-2.0 */
/* The map of names: entries in insertion order, found through open addressing with linear probing. */
#include "base/base.h"

enum { FIRST_ENTRIES = 8, SLOTS_PER_ENTRY = 2 };
#define REMOVED UINT32_MAX /* in a slot; no entry has that number: see grow */

void map_init(Map *map, const Allocator *allocator) { *map = (Map){.allocator = allocator}; }

/* A slot holds the entry's index + 1 and half of its hash, so that a probe touches an entry only when it is nearly sure
   to be the one; 0 ends a probe; that of a removed entry is passed over until it is used again, so
   that a name that comes and goes does not lengthen its own probe. */
static uint32_t number_of(uint64_t slot) { return (uint32_t)slot; }
static uint64_t tag_of(uint64_t hash) { return hash >> 32 << 32; }

static uint64_t *find_slot(const Map *map, Str key, uint64_t hash) {
    if (map->n_slots == 0) return NULL;
    size_t mask = map->n_slots - 1;
    for (size_t i = hash & mask; map->slots[i] != 0; i = (i + 1) & mask) {
        if (number_of(map->slots[i]) == REMOVED || tag_of(map->slots[i]) != tag_of(hash)) continue;
        const MapEntry *entry = &map->entries[number_of(map->slots[i]) - 1];
        if (entry->hash == hash && str_equal(entry->key, key)) return &map->slots[i];
    }
    return NULL;
}

static MapEntry *find(const Map *map, Str key, uint64_t hash) {
    const uint64_t *slot = find_slot(map, key, hash);
    return slot ? &map->entries[number_of(*slot) - 1] : NULL;
}

static void fill_slot(uint64_t *slots, size_t n_slots, uint64_t hash, size_t index) {
    size_t mask = n_slots - 1, i = hash & mask;
    while (slots[i] != 0 && number_of(slots[i]) != REMOVED) i = (i + 1) & mask;
    slots[i] = tag_of(hash) | (uint32_t)(index + 1);
}

/* Moves the living entries together into `to`, which may be the map's own array, and indexes them anew. */
static void rebuild(Map *map, MapEntry *to, uint64_t *slots, size_t n_slots) {
    size_t n = 0;
    for (size_t i = 0; i < map->len; i++) {
        if (!map->entries[i].value) continue;
        to[n] = map->entries[i];
        fill_slot(slots, n_slots, to[n].hash, n);
        n++;
    }
    map->len = n;
}

static tn_status grow(Map *map) {
    size_t cap = map->cap ? map->cap * 2 : FIRST_ENTRIES, n_slots = cap * SLOTS_PER_ENTRY;
    if (cap > UINT32_MAX / 2) return fail(TN_LIMIT, "more than %zu names in one table", map->cap);
    MapEntry *entries = mem_alloc(map->allocator, cap * sizeof *entries, alignof(MapEntry));
    uint64_t *slots = entries ? mem_alloc(map->allocator, n_slots * sizeof *slots, alignof(uint64_t)) : NULL;
    if (!slots) {
        mem_free(map->allocator, entries, cap * sizeof *entries);
        return TN_OUT_OF_MEMORY;
    }
    rebuild(map, entries, slots, n_slots);
    size_t len = map->len;
    map_free(map);
    map->entries = entries;
    map->slots = slots;
    map->len = len;
    map->cap = cap;
    map->n_slots = n_slots;
    return TN_OK;
}

tn_status map_clone(Map *to, const Map *from) {
    if (from->cap == 0) return TN_OK;
    to->entries = mem_alloc(to->allocator, from->cap * sizeof *to->entries, alignof(MapEntry));
    to->slots = to->entries ? mem_alloc(to->allocator, from->n_slots * sizeof *to->slots, alignof(uint64_t)) : NULL;
    if (!to->slots) {
        mem_free(to->allocator, to->entries, from->cap * sizeof *to->entries);
        to->entries = NULL;
        return TN_OUT_OF_MEMORY;
    }
    memcpy(to->entries, from->entries, from->len * sizeof *to->entries);
    memcpy(to->slots, from->slots, from->n_slots * sizeof *to->slots);
    to->len = from->len;
    to->cap = from->cap;
    to->n_slots = from->n_slots;
    return TN_OK;
}

static tn_status make_room(Map *map) {
    assert(map->cap ? map->entries && map->len <= map->cap : map->len == 0);
    if (map->len < map->cap) return TN_OK;
    size_t living = 0;
    for (size_t i = 0; i < map->len; i++) living += map->entries[i].value != NULL;
    if (map->cap == 0 || living > map->cap / 2) return grow(map);
    memset(map->slots, 0, map->n_slots * sizeof *map->slots);
    rebuild(map, map->entries, map->slots, map->n_slots);
    return TN_OK;
}

void *map_get(const Map *map, Str key) {
    if (map->len == 0) return NULL;
    MapEntry *entry = find(map, key, hash_bytes(key.s, key.n));
    return entry ? entry->value : NULL;
}

MapEntry *map_entry(Map *map, Str key) {
    uint64_t hash = hash_bytes(key.s, key.n);
    MapEntry *entry = find(map, key, hash);
    if (entry) return entry;
    if (make_room(map) != TN_OK) return NULL;
    fill_slot(map->slots, map->n_slots, hash, map->len);
    entry = &map->entries[map->len++];
    *entry = (MapEntry){key, NULL, hash};
    return entry;
}

tn_status map_set(Map *map, Str key, void *value) {
    assert(value);
    MapEntry *entry = map_entry(map, key);
    if (!entry) return TN_OUT_OF_MEMORY;
    entry->value = value;
    return TN_OK;
}

void map_remove(Map *map, Str key) {
    uint64_t *slot = map->len ? find_slot(map, key, hash_bytes(key.s, key.n)) : NULL;
    if (!slot) return;
    map->entries[number_of(*slot) - 1].value = NULL;
    map->entries[number_of(*slot) - 1].key = (Str){NULL, 0}; /* the caller may free the key now */
    *slot = REMOVED;
}

void map_free(Map *map) {
    mem_free(map->allocator, map->entries, map->cap * sizeof *map->entries);
    mem_free(map->allocator, map->slots, map->n_slots * sizeof *map->slots);
    map_init(map, map->allocator);
}
