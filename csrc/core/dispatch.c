/* dispatch.c: which instruction set runs, chosen at the first call from what the CPU and the operating
 * system support, or forced by SMALLMM_ISA or smm_select_isa; and which kernel is forced, if any. */
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "core.h"

/* The compiler's run-time check reads CPUID and, for AVX state, XGETBV. */
#if !defined(SMM_WITHOUT_PORTABLE)
static bool has_portable(void) { return true; }
#endif
#if defined(__x86_64__)
static bool has_avx2(void) {
    unsigned a, b, c = 0, d; /* not every compiler's check knows F16C */
    return __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __get_cpuid(1, &a, &b, &c, &d) &&
           c & bit_F16C;
}
#if !defined(SMM_WITHOUT_AVX512)
static bool has_avx512(void) {
    return has_avx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif
#elif defined(__aarch64__)
static bool has_neon(void) { return true; }
#endif

static const struct isa {
    const char *name;
    bool (*available)(void);
    const smm_kernels *kernels[SMM_COMPUTED_TYPES];
} isas[] = {
#define SMM_KERNELS(isa, NAME, name, ...) &smm_kernels_##isa##_##name,
#define SMM_ISA(isa, needs) {#isa, has_##isa, {SMM_COMPUTED(SMM_KERNELS, isa)}},
#include "../defs/isa.def"
#undef SMM_ISA
#undef SMM_KERNELS
};
enum { ISAS = sizeof isas / sizeof *isas };

static _Atomic(const struct isa *) selected;
static atomic_uint choices;

unsigned smm_choice(void) { return atomic_load_explicit(&choices, memory_order_relaxed); }

/* Asked once: on a virtual machine CPUID takes microseconds. */
static bool is_available(int i) {
    static atomic_int known[ISAS]; /* 1: it is, -1: it is not; threads that race find the same */
    int is = atomic_load_explicit(&known[i], memory_order_relaxed);
    if (!is) atomic_store_explicit(&known[i], is = isas[i].available() ? 1 : -1, memory_order_relaxed);
    return is > 0;
}

/* The instruction set of that name; NULL asks for the best. Returns NULL if there is none here. */
static const struct isa *find(const char *name) {
    for (int i = ISAS - 1; i >= 0; i--)
        if ((!name || !strcmp(name, isas[i].name)) && is_available(i)) return &isas[i];
    return NULL;
}

smm_status smm_select_isa(const char *name) {
    const char *forced = getenv("SMALLMM_ISA");
    const struct isa *isa = find(name ? name : forced && *forced ? forced : NULL);
    if (!isa) return SMM_ERR_ISA;
    atomic_store(&selected, isa);
    atomic_fetch_add(&choices, 1);
    return SMM_OK;
}

static const struct isa *current(void) {
    if (!atomic_load(&selected)) smm_select_isa(NULL);
    return atomic_load(&selected);
}

const char *smm_isa(void) {
    const struct isa *isa = current();
    return isa ? isa->name : NULL;
}

const char *const *smm_isas_available(void) {
    static const char *names[ISAS + 1]; /* threads that race write the same value */
    int count = 0;
    for (int i = 0; i < ISAS; i++)
        if (is_available(i)) names[count++] = isas[i].name;
    return names;
}

/* --- a kernel forced by name --- */

enum { NAME_LENGTH = 64 };
/* Operation and strategy of the forced kernel; "" if none is forced, NULL before the first call. */
static _Atomic(const char *) forced_kernel;

/* Names that were forced: they stay, since other threads may be reading one. */
typedef struct kept_name {
    struct kept_name *next;
    char name[NAME_LENGTH];
} kept_name;
static _Atomic(kept_name *) kept_names;

static const char *keep_name(const char *name) {
    kept_name *first = atomic_load(&kept_names);
    for (kept_name *x = first; x; x = x->next)
        if (!strcmp(x->name, name)) return x->name;
    kept_name *x = malloc(sizeof *x);
    if (!x) return NULL;
    snprintf(x->name, sizeof x->name, "%s", name);
    do x->next = first;
    while (!atomic_compare_exchange_weak(&kept_names, &first, x));
    return x->name;
}

static bool is_named(const smm_kernel *kernel, const char *stem, smm_dtype dtype, const char *isa) {
    char name[2 * NAME_LENGTH];
    snprintf(name, sizeof name, "smm_%s_%s_%s", stem, smm_dtypes[dtype].name, isa);
    return !strcmp(name, kernel->name);
}

static bool has_kernel(const char *stem) {
    for (int i = 0; i < ISAS; i++)
        for (int dtype = 0; dtype < SMM_COMPUTED_TYPES; dtype++)
            for (int op = 0; op < SMM_OPS; op++)
                for (size_t row = 0; row < isas[i].kernels[dtype]->lists[op].count; row++)
                    if (is_named(&isas[i].kernels[dtype]->lists[op].rows[row], stem, dtype, isas[i].name)) return true;
    return false;
}

smm_status smm_select_kernel(const char *name) {
    const char *stem = name ? name : getenv("SMALLMM_KERNEL");
    if (!stem) stem = "";
    if (*stem && (strlen(stem) >= NAME_LENGTH || !has_kernel(stem))) return SMM_ERR_KERNEL;
    const char *const kept = keep_name(stem);
    if (!kept) return SMM_ERR_MEMORY;
    atomic_store(&forced_kernel, kept);
    atomic_fetch_add(&choices, 1);
    return SMM_OK;
}

bool smm_is_kernel_forced(void) {
    const char *stem = atomic_load_explicit(&forced_kernel, memory_order_acquire);
    return stem && *stem;
}

bool smm_is_forced(const smm_kernel *kernel, smm_dtype dtype) {
    return is_named(kernel, atomic_load_explicit(&forced_kernel, memory_order_acquire), dtype, smm_isa());
}

/* All instruction sets support the same operations; they differ only in their kernels. */
bool smm_takes(smm_op op, smm_dtype dtype) { return isas[0].kernels[smm_dtypes[dtype].computed]->lists[op].count; }

smm_status smm_kernels_of(smm_dtype dtype, const smm_kernels **kernels) {
    const struct isa *isa = current();
    if (!isa) return SMM_ERR_ISA;
    if (!atomic_load_explicit(&forced_kernel, memory_order_acquire)) {
        const smm_status status = smm_select_kernel(NULL);
        if (status) return status;
    }
    *kernels = isa->kernels[smm_dtypes[dtype].computed];
    return SMM_OK;
}
