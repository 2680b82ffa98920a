/* SPDX-License-Identifier: Apache-2.0 */
/* A map from pointers to pointers: open addressing, half full at most. */
#include "ir/ir_int.h"

static PtrMapSlot *slot_of(const PtrMap *map, const void *key) {
    uint64_t h = (uint64_t)(uintptr_t)key * 0x9e3779b97f4a7c15u;
    for (size_t i = (size_t)(h >> 20) & (map->cap - 1);; i = (i + 1) & (map->cap - 1)) {
        PtrMapSlot *slot = &map->slots[i];
        if (!slot->key || slot->key == key) return slot;
    }
}

PtrMapSlot *ptrmap_find(const PtrMap *map, const void *key) {
    if (!map->cap) return NULL;
    PtrMapSlot *slot = slot_of(map, key);
    return slot->key ? slot : NULL;
}

static tn_status grow(PtrMap *map) {
    PtrMap bigger = {.allocator = map->allocator, .n = map->n, .cap = map->cap ? map->cap * 2 : 16};
    bigger.slots = mem_alloc(map->allocator, bigger.cap * sizeof *bigger.slots, alignof(PtrMapSlot));
    if (!bigger.slots) return TN_OUT_OF_MEMORY;
    for (size_t i = 0; i < map->cap; i++)
        if (map->slots[i].key) *slot_of(&bigger, map->slots[i].key) = map->slots[i];
    ptrmap_free(map);
    *map = bigger;
    return TN_OK;
}

tn_status ptrmap_set(PtrMap *map, const void *key, void *value) {
    if (2 * (map->n + 1) > map->cap) TRY(grow(map));
    PtrMapSlot *slot = slot_of(map, key);
    map->n += !slot->key;
    *slot = (PtrMapSlot){key, value};
    return TN_OK;
}

void ptrmap_free(PtrMap *map) {
    mem_free(map->allocator, map->slots, map->cap * sizeof *map->slots);
    map->slots = NULL;
    map->n = map->cap = 0;
}
