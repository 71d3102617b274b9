/* map_complex.h: element-wise functions of complex numbers, the rows of ../functions_complex.def, over arrays whose
 * elements are evenly spaced. They pass through dense buffers, of real parts and of imaginary ones. Loops over
 * functions of parts are left to the compiler, as those of map.h. */
#include "../../math/functions_complex.h"

enum { MAX_ARGUMENTS = 2, PART = 64 };
_Static_assert(PART % LANES == 0, "a buffer is vectors");

typedef struct pairs {
    T re[PART], im[PART];
} pairs;

INLINE elem number_of(smm_function function, elem x, elem y) {
    switch ((int)function) {
#define SMM_FUNCTION(NAME, name, arguments, value) \
    case SMM_FN_##NAME: return value;
#define SMM_FUNCTION_OF_PARTS(...)
#include "../../defs/functions_complex.def"
#undef SMM_FUNCTION
#undef SMM_FUNCTION_OF_PARTS
    }
    return (void)y, x;
}

INLINE void map_pairs(smm_function function, pairs *to, const pairs *x, const pairs *y, intptr_t count) {
    for (intptr_t i = 0; i < count; i += LANES) {
        const elem a = {lane_load(x->re + i), lane_load(x->im + i)}, b = {lane_load(y->re + i), lane_load(y->im + i)};
        const elem value = number_of(function, a, b);
        lane_store(to->re + i, value.re);
        lane_store(to->im + i, value.im);
    }
}

/* One number: far, if its angle is known to be so. */
INLINE smm_parts parts_of(smm_function function, double re, double im, bool far) {
    switch ((int)function) {
#define SMM_FUNCTION(...)
#define SMM_FUNCTION_OF_PARTS(NAME, name, angle) \
    case SMM_FN_##NAME: \
        return smm_complex_##name(re, im, far ? smm_far_sine(angle, 0) : smm_sin(angle), \
                                  far ? smm_far_sine(angle, 1) : smm_cos(angle));
#include "../../defs/functions_complex.def"
#undef SMM_FUNCTION
#undef SMM_FUNCTION_OF_PARTS
    }
    return (smm_parts){re, im};
}

INLINE bool is_far(smm_function function, double re, double im) {
    switch ((int)function) {
#define SMM_FUNCTION(...)
#define SMM_FUNCTION_OF_PARTS(NAME, name, angle) \
    case SMM_FN_##NAME: return smm_is_far(angle);
#include "../../defs/functions_complex.def"
#undef SMM_FUNCTION
#undef SMM_FUNCTION_OF_PARTS
    }
    return (void)re, (void)im, false;
}

INLINE void map_parts(smm_function function, pairs *restrict to, const pairs *restrict x, intptr_t count) {
    for (intptr_t i = 0; i < count; i++) {
        const smm_parts value = parts_of(function, (double)x->re[i], (double)x->im[i], false);
        to->re[i] = (T)value.re, to->im[i] = (T)value.im;
    }
    for (intptr_t i = 0; i < count; i++) { /* apart: it would not become vectors */
        if (!is_far(function, (double)x->re[i], (double)x->im[i])) continue;
        const smm_parts value = parts_of(function, (double)x->re[i], (double)x->im[i], true);
        to->re[i] = (T)value.re, to->im[i] = (T)value.im;
    }
}

typedef void pairs_fn(pairs *to, const pairs *x, const pairs *y, intptr_t count);

#define SMM_FUNCTION(NAME, name, ...) \
    SHARED void pairs_##name(pairs *to, const pairs *x, const pairs *y, intptr_t count) { \
        map_pairs(SMM_FN_##NAME, to, x, y, count); \
    }
#define SMM_FUNCTION_OF_PARTS(NAME, name, angle) \
    SHARED void pairs_##name(pairs *to, const pairs *x, const pairs *y, intptr_t count) { \
        (void)y; \
        map_parts(SMM_FN_##NAME, to, x, count); \
    }
#include "../../defs/functions_complex.def"
#undef SMM_FUNCTION
#undef SMM_FUNCTION_OF_PARTS

static pairs_fn *const pairs_functions[SMM_FUNCTIONS] = {
#define SMM_FUNCTION(NAME, name, ...) [SMM_FN_##NAME] = pairs_##name,
#define SMM_FUNCTION_OF_PARTS SMM_FUNCTION
#include "../../defs/functions_complex.def"
#undef SMM_FUNCTION
#undef SMM_FUNCTION_OF_PARTS
};

static const int8_t arguments_of[SMM_FUNCTIONS] = {
#define SMM_FUNCTION(NAME, name, arguments, ...) [SMM_FN_##NAME] = arguments,
#define SMM_FUNCTION_OF_PARTS(NAME, ...) [SMM_FN_##NAME] = 1,
#include "../../defs/functions_complex.def"
#undef SMM_FUNCTION
#undef SMM_FUNCTION_OF_PARTS
};

/* As that of real numbers (map.h). */
static void KERNEL(map)(smm_function function, char *const x[], const intptr_t step[], intptr_t count,
                        const intptr_t next[], intptr_t rows) {
    pairs workspace[MAX_ARGUMENTS + 1];
    memset(workspace, 0, sizeof workspace); /* vectors go on behind the last number */
    for (intptr_t r = 0; r < rows; r++)
        for (intptr_t first = 0; first < count; first += PART) {
            const intptr_t some = min_of(PART, count - first);
            for (int i = 1; i <= arguments_of[function]; i++)
                for (intptr_t j = 0; j < some; j++) {
                    const T *z = (const T *)(const void *)(x[i] + r * next[i] + (first + j) * step[i]);
                    workspace[i].re[j] = z[0], workspace[i].im[j] = z[1];
                }
            pairs_functions[function](&workspace[0], &workspace[1], &workspace[2], some);
            for (intptr_t j = 0; j < some; j++) {
                T *z = (T *)(void *)(x[0] + r * next[0] + (first + j) * step[0]);
                z[0] = workspace[0].re[j], z[1] = workspace[0].im[j];
            }
        }
}
