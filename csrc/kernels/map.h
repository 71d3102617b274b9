/* map.h: element-wise functions, the rows of ../functions.def, over arrays whose elements are evenly spaced. Loops over
 * dense arrays are left to the compiler, which makes vectors of them. What is spaced otherwise passes through dense
 * buffers. */
#include "../functions.h"

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
}

typedef void dense_fn(T *restrict to, const T *restrict x, const T *restrict y, const T *restrict z, intptr_t count);

#define SMM_FUNCTION(NAME, name, ...) \
    SHARED void dense_##name(T *restrict to, const T *restrict x, const T *restrict y, const T *restrict z, \
                             intptr_t count) { \
        map_dense(SMM_FN_##NAME, to, x, y, z, count); \
    }
#include "../functions.def"
#undef SMM_FUNCTION

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

/* x[0]: the result; x[1] ..: the arguments. Those that are missing are read and forgotten. */
static void KERNEL(map)(smm_function function, char *const x[], const intptr_t step[], intptr_t count) {
    enum { MOST = 3, BLOCK = 256 };
    const intptr_t size = sizeof(T);
    const int arguments = arguments_of[function];
    T room[MOST + 1][BLOCK];
    bool in_place[MOST + 1];
    for (int i = 0; i <= arguments; i++) {
        in_place[i] = step[i] == size;
        if (i && step[i] == 0)
            for (intptr_t j = 0; j < least(count, BLOCK); j++) room[i][j] = *(const T *)x[i];
    }
    bool dense = true;
    for (int i = 0; i <= arguments; i++) dense &= in_place[i];
    for (intptr_t first = 0, some; first < count; first += some) {
        some = dense ? count : least(BLOCK, count - first);
        T *at[MOST + 1];
        for (int i = 0; i <= arguments; i++) {
            at[i] = in_place[i] ? (T *)x[i] + first : room[i];
            if (i && !in_place[i] && step[i])
                for (intptr_t j = 0; j < some; j++) room[i][j] = *(const T *)(x[i] + (first + j) * step[i]);
        }
        for (int i = arguments + 1; i <= MOST; i++) at[i] = at[1];
        dense_functions[function](at[0], at[1], at[2], at[3], some);
        if (!in_place[0])
            for (intptr_t j = 0; j < some; j++) *(T *)(x[0] + (first + j) * step[0]) = room[0][j];
    }
}
