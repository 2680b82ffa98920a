/* SPDX-License-Identifier: Apache-2.0 */
/* What this processor has. */
#include "backends/cpu/cpu.h"
#include "backends/cpu/isa_int.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static const char *const level_names[] = {"baseline", "avx2", "avx512"};

const char *cpu_level_name(CpuLevel level) { return level_names[level]; }

static CpuLevel best_level(void) {
#if defined(__x86_64__)
    __builtin_cpu_init();
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) return CPU_BASELINE;
    bool wide = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
    return wide ? CPU_AVX512 : CPU_AVX2;
#else
    return CPU_BASELINE;
#endif
}

static CpuLevel wanted_level(void) {
    CpuLevel best = best_level();
    const char *name = getenv("TENON_ISA");
    for (CpuLevel level = CPU_BASELINE; name && level < best; level++)
        if (strcmp(name, level_names[level]) == 0) return level;
    return best;
}

/* One more than the level; 0: not asked for yet. Whoever asks first finds the same as others who do at once. */
static atomic_int chosen;

CpuLevel cpu_level(void) {
    int level = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (level == 0) atomic_store_explicit(&chosen, level = (int)wanted_level() + 1, memory_order_relaxed);
    return (CpuLevel)(level - 1);
}

CpuLevel cpu_level_set(CpuLevel level) {
    if (level > best_level()) level = best_level();
    atomic_store_explicit(&chosen, (int)level + 1, memory_order_relaxed);
    return level;
}

static int64_t cache_size(int name, int64_t likely) {
    long size = sysconf(name);
    return size > 0 ? size : likely;
}

const CpuCaches *cpu_caches(void) {
    static CpuCaches caches;
    static atomic_int known;
    if (atomic_load_explicit(&known, memory_order_acquire)) return &caches;
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    pthread_mutex_lock(&lock);
    caches = (CpuCaches){
#ifdef _SC_LEVEL1_DCACHE_SIZE
        cache_size(_SC_LEVEL1_DCACHE_SIZE, 32 << 10), cache_size(_SC_LEVEL2_CACHE_SIZE, 512 << 10),
        cache_size(_SC_LEVEL3_CACHE_SIZE, 8 << 20)
#else
        32 << 10, 512 << 10, 8 << 20
#endif
    };
    atomic_store_explicit(&known, 1, memory_order_release);
    pthread_mutex_unlock(&lock);
    return &caches;
}

/* ---- its name ------------------------------------------------------------------------------------------------ */

#if defined(__x86_64__)
static void name_processor(char *text, size_t size) {
    unsigned words[12] = {0}, a = 0, b, c, d;
    char name[sizeof words + 1] = "";
    for (unsigned i = 0; i < 3; i++)
        if (!__get_cpuid(0x80000002 + i, &words[4 * i], &words[4 * i + 1], &words[4 * i + 2], &words[4 * i + 3]))
            return;
    memcpy(name, words, sizeof words);
    size_t n = strlen(name);
    while (n > 0 && name[n - 1] == ' ') name[--n] = 0;
    __get_cpuid(1, &a, &b, &c, &d);
    snprintf(text, size, "%s (%x)", name, a & 0x0fff0ff0); /* family and model */
}
#else
static void name_processor(char *text, size_t size) {
    FILE *file = fopen("/sys/devices/system/cpu/cpu0/regs/identification/midr_el1", "r");
    if (!file) return;
    char line[32] = "";
    if (fgets(line, sizeof line, file)) snprintf(text, size, "%.*s", (int)strcspn(line, "\n"), line);
    fclose(file);
}
#endif

void cpu_describe(char *text, size_t size) {
    char name[80] = "unknown";
    name_processor(name, sizeof name);
    snprintf(text, size, "%s, %s", name, cpu_level_name(cpu_level()));
}
