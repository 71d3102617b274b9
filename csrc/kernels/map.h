/* map.h: element-wise functions, the rows of ../functions.def, over arrays whose elements are evenly spaced. Loops over
 * dense arrays are left to the compiler, which makes vectors of them. What is spaced otherwise passes through dense
 * buffers. */
#if !defined(__clang__)
/* With an eye to traps, gcc 12 makes no vectors of a sum that is then selected or not, except with AVX-512's masks. The
 * bits do not depend on it. */
#pragma GCC push_options
#pragma GCC optimize("no-trapping-math")
#endif
#include "../functions.h"
#include "../functions_f32.h"

#if defined(SMM_KERNELS_F64)
#define ABS __builtin_fabs
#define FLOOR __builtin_floor
#define CEIL __builtin_ceil
#define COPYSIGN __builtin_copysign
#else
#define ABS __builtin_fabsf
#define FLOOR __builtin_floorf
#define CEIL __builtin_ceilf
#define COPYSIGN __builtin_copysignf
#endif

INLINE T value_of(smm_function function, T x, T y, T z) {
    switch (function) {
#define SMM_FUNCTION(NAME, name, arguments, value) \
    case SMM_FN_##NAME: return value;
#include "../functions.def"
#undef SMM_FUNCTION
    case SMM_FUNCTIONS: break;
    }
    return (void)y, (void)z, x;
}

INLINE void map_dense(smm_function function, T *restrict to, const T *restrict x, const T *restrict y,
                      const T *restrict z, intptr_t count) {
    for (intptr_t i = 0; i < count; i++) to[i] = value_of(function, x[i], y[i], z[i]);
    if (function != SMM_FN_SIN && function != SMM_FN_COS) return;
    for (intptr_t i = 0; i < count; i++) /* apart: it would not become vectors */
        if (smm_is_far((double)x[i])) to[i] = (T)smm_far_sine((double)x[i], function == SMM_FN_COS);
}

typedef void dense_fn(T *restrict to, const T *restrict x, const T *restrict y, const T *restrict z, intptr_t count);

#define SMM_FUNCTION(NAME, name, ...) \
    SHARED void dense_##name(T *restrict to, const T *restrict x, const T *restrict y, const T *restrict z, \
                             intptr_t count) { \
        map_dense(SMM_FN_##NAME, to, x, y, z, count); \
    }
#include "../functions.def"
#undef SMM_FUNCTION
#if !defined(__clang__)
#pragma GCC pop_options
#endif

static dense_fn *const dense_functions[SMM_FUNCTIONS] = {
#define SMM_FUNCTION(NAME, name, ...) dense_##name,
#include "../functions.def"
#undef SMM_FUNCTION
};

static const int8_t arguments_of[SMM_FUNCTIONS] = {
#define SMM_FUNCTION(NAME, name, arguments, ...) arguments,
#include "../functions.def"
#undef SMM_FUNCTION
};

/* An array of an element-wise step: the result, or an argument. Rows of dense arrays are used where they lie. */
typedef struct row {
    char *at;
    intptr_t step;
    bool in_place;
    T *room; /* PART elements, for what is spaced otherwise */
} row;

enum { MOST_ARGUMENTS = 3, PART = 256 };

/* x[0] = function(x[1], ...), of one row. */
INLINE void map_row(dense_fn *function, int arguments, row x[], intptr_t count, bool dense) {
    for (intptr_t first = 0, some; first < count; first += some) {
        some = dense ? count : least(PART, count - first);
        T *at[MOST_ARGUMENTS + 1];
        for (int i = 0; i <= arguments; i++) {
            at[i] = x[i].in_place ? (T *)(void *)x[i].at + first : x[i].room;
            if (!i || x[i].in_place) continue;
            for (intptr_t j = 0; j < some; j++)
                at[i][j] = *(const T *)(const void *)(x[i].at + (first + j) * x[i].step);
        }
        for (int i = arguments + 1; i <= MOST_ARGUMENTS; i++) at[i] = at[1];
        function(at[0], at[1], at[2], at[3], some);
        if (!x[0].in_place)
            for (intptr_t j = 0; j < some; j++) *(T *)(void *)(x[0].at + (first + j) * x[0].step) = at[0][j];
    }
}

/* x[0]: the result; x[1] ..: the arguments. A row has `count` elements, step[i] bytes apart, the next row begins
 * next[i] bytes further. Arguments that a function does not have are read and forgotten. */
static void KERNEL(map)(smm_function function, char *const x[], const intptr_t step[], intptr_t count,
                        const intptr_t next[], intptr_t rows) {
    const int arguments = arguments_of[function];
    T room[MOST_ARGUMENTS + 1][PART];
    row all[MOST_ARGUMENTS + 1];
    bool dense = true;
    for (int i = 0; i <= arguments; i++) {
        all[i] = (row){x[i], step[i], step[i] == (intptr_t)sizeof(T) || count == 1, room[i]};
        dense &= all[i].in_place;
    }
    for (intptr_t r = 0; r < rows; r++) {
        map_row(dense_functions[function], arguments, all, count, dense);
        for (int i = 0; i <= arguments; i++) all[i].at += next[i];
    }
}
