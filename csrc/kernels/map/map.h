/* map.h: element-wise functions, the rows of ../functions.def, over arrays whose elements are evenly spaced. Loops over
 * dense arrays are left to the compiler, which makes vectors of them. What is spaced otherwise passes through dense
 * buffers. */
#if !defined(__clang__)
/* With an eye to traps, gcc 12 makes no vectors of a sum that is then selected or not, except with AVX-512's masks. The
 * bits do not depend on it. */
#pragma GCC push_options
#pragma GCC optimize("no-trapping-math")
#endif
#include "../../math/functions.h"
#include "../../math/functions_f32.h"

#if defined(SMM_KERNELS_F64)
typedef uint64_t map_flags; /* as wide as T */
#define ABS __builtin_fabs
#define FLOOR __builtin_floor
#define CEIL __builtin_ceil
#define COPYSIGN __builtin_copysign
#else
typedef uint32_t map_flags;
#define ABS __builtin_fabsf
#define FLOOR __builtin_floorf
#define CEIL __builtin_ceilf
#define COPYSIGN __builtin_copysignf
#endif

INLINE T value_of(smm_function function, T x, T y, T z) {
    switch (function) {
#define SMM_FUNCTION(NAME, name, arguments, value) \
    case SMM_FN_##NAME: return value;
#include "../../defs/functions.def"
#undef SMM_FUNCTION
    case SMM_FUNCTIONS: break;
    }
    return (void)y, (void)z, x;
}

enum { MAX_ARGUMENTS = 3, PART = 256, SHORT = 16 };

/* In two loops, because processors do not look far enough ahead to begin the next vector of a long one. */
INLINE void dense_powers(T *restrict to, const T *restrict x, const T *restrict y, intptr_t count) {
    const bool is_f32 = sizeof(T) == sizeof(float);
    double log[PART], low[PART];
    for (intptr_t first = 0; first < count; first += PART, to += PART, x += PART, y += PART) {
        const intptr_t some = min_of(PART, count - first);
        map_flags is_special = 0;
        for (intptr_t i = 0; i < some; i++) {
            log[i] = is_f32 ? smm_usual_log2_f32((float)x[i]) : smm_usual_log2((double)x[i], &low[i]);
            is_special |= is_f32 ? !smm_is_usual_power_f32((float)x[i], (float)y[i], log[i])
                                 : !smm_is_usual_power((double)x[i], (double)y[i], log[i]);
        }
        if (is_special)
            for (intptr_t i = 0; i < some; i++) to[i] = SMM_OF_TYPE_2(power, x[i], y[i]);
        else if (is_f32)
            for (intptr_t i = 0; i < some; i++) to[i] = (T)smm_usual_power_f32((float)y[i], log[i]);
        else
            for (intptr_t i = 0; i < some; i++) to[i] = (T)smm_usual_power((double)y[i], log[i], low[i]);
    }
}

INLINE void map_dense(smm_function function, T *restrict to, const T *restrict x, const T *restrict y,
                      const T *restrict z, intptr_t count) {
    if (function == SMM_FN_POWER) {
        dense_powers(to, x, y, count);
        return;
    }
    for (intptr_t i = 0; i < count; i++) to[i] = value_of(function, x[i], y[i], z[i]);
    if (function != SMM_FN_SIN && function != SMM_FN_COS) return;
    map_flags is_far = 0;
    for (intptr_t i = 0; i < count; i++) is_far |= !(ABS(x[i]) <= (T)0x1p40);
    for (intptr_t i = 0; is_far && i < count; i++) /* apart: it would not become vectors */
        if (smm_is_far((double)x[i])) to[i] = (T)smm_far_sine((double)x[i], function == SMM_FN_COS);
}

typedef void dense_fn(T *restrict to, const T *restrict x, const T *restrict y, const T *restrict z, intptr_t count);

#define SMM_FUNCTION(NAME, name, ...) \
    SHARED void dense_##name(T *restrict to, const T *restrict x, const T *restrict y, const T *restrict z, \
                             intptr_t count) { \
        map_dense(SMM_FN_##NAME, to, x, y, z, count); \
    }
#include "../../defs/functions.def"
#undef SMM_FUNCTION
#if !defined(__clang__)
#pragma GCC pop_options
#endif

static dense_fn *const dense_functions[SMM_FUNCTIONS] = {
#define SMM_FUNCTION(NAME, name, ...) dense_##name,
#include "../../defs/functions.def"
#undef SMM_FUNCTION
};

static const int8_t arguments_of[SMM_FUNCTIONS] = {
#define SMM_FUNCTION(NAME, name, arguments, ...) arguments,
#include "../../defs/functions.def"
#undef SMM_FUNCTION
};

/* Rows of an argument, one behind the other. */
INLINE void collect(T *to, const char *x, intptr_t step, intptr_t count, intptr_t next, intptr_t rows) {
    for (intptr_t r = 0; r < rows; r++)
        for (intptr_t j = 0; j < count; j++) *to++ = *(const T *)(const void *)(x + r * next + j * step);
}
INLINE void spread(char *x, intptr_t step, intptr_t count, intptr_t next, intptr_t rows, const T *from) {
    for (intptr_t r = 0; r < rows; r++)
        for (intptr_t j = 0; j < count; j++) *(T *)(void *)(x + r * next + j * step) = *from++;
}

/* x[0]: the result; x[1] ..: the arguments. A row has `count` elements, step[i] bytes apart, the next row begins
 * next[i] bytes further. Of long rows a function gets one at a time, or a part of it, of short ones several. An array
 * is used in place where it is dense; else it passes through the workspace, which keeps an argument that all rows
 * share. Arguments that a function does not have are read and forgotten. */
static void KERNEL(map)(smm_function function, char *const x[], const intptr_t step[], intptr_t count,
                        const intptr_t next[], intptr_t rows) {
    const int arguments = arguments_of[function];
    const intptr_t together = count <= SHORT ? min_of(rows, PART / count) : 1, size = sizeof(T);
    T workspace[MAX_ARGUMENTS + 1][PART];
    bool in_place[MAX_ARGUMENTS + 1], is_kept[MAX_ARGUMENTS + 1], dense = true;
    for (int i = 0; i <= arguments; i++) {
        in_place[i] = (step[i] == size || count == 1) && (next[i] == count * size || together == 1);
        is_kept[i] = i && !in_place[i] && (!next[i] || rows == 1) && (!step[i] || count <= PART);
        if (is_kept[i]) collect(workspace[i], x[i], step[i], min_of(count, PART), next[i], together);
        dense &= in_place[i];
    }
    for (intptr_t r = 0, some_rows; r < rows; r += some_rows) {
        some_rows = min_of(together, rows - r);
        for (intptr_t first = 0, some; first < count; first += some) {
            T *at[MAX_ARGUMENTS + 1];
            some = dense ? count : min_of(PART, count - first);
            for (int i = 0; i <= arguments; i++) {
                char *const from = x[i] + r * next[i] + first * step[i];
                at[i] = in_place[i] ? (T *)(void *)from : workspace[i];
                if (i && !in_place[i] && !is_kept[i]) collect(workspace[i], from, step[i], some, next[i], some_rows);
            }
            for (int i = arguments + 1; i <= MAX_ARGUMENTS; i++) at[i] = at[1];
            dense_functions[function](at[0], at[1], at[2], at[3], some * some_rows);
            if (!in_place[0]) spread(x[0] + r * next[0] + first * step[0], step[0], some, next[0], some_rows, at[0]);
        }
    }
}
