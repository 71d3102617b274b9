/* map_numbers.h: element-wise functions of complex numbers, the rows of ../functions_complex.def, over arrays whose
 * elements are evenly spaced. They pass through dense buffers, of real parts and of imaginary ones. */

enum { MOST_ARGUMENTS = 2, PART = 64 };
_Static_assert(PART % LANES == 0, "a buffer is vectors");

typedef struct pairs {
    T re[PART], im[PART];
} pairs;

INLINE num number_of(smm_function function, num x, num y) {
    switch ((int)function) {
#define SMM_FUNCTION(NAME, name, arguments, value) \
    case SMM_FN_##NAME: return value;
#include "../functions_complex.def"
#undef SMM_FUNCTION
    }
    return (void)y, x;
}

INLINE void map_pairs(smm_function function, pairs *to, const pairs *x, const pairs *y, intptr_t count) {
    for (intptr_t i = 0; i < count; i += LANES) {
        const num a = {lane_load(x->re + i), lane_load(x->im + i)}, b = {lane_load(y->re + i), lane_load(y->im + i)};
        const num value = number_of(function, a, b);
        lane_store(to->re + i, value.re);
        lane_store(to->im + i, value.im);
    }
}

typedef void pairs_fn(pairs *to, const pairs *x, const pairs *y, intptr_t count);

#define SMM_FUNCTION(NAME, name, ...) \
    SHARED void pairs_##name(pairs *to, const pairs *x, const pairs *y, intptr_t count) { \
        map_pairs(SMM_FN_##NAME, to, x, y, count); \
    }
#include "../functions_complex.def"
#undef SMM_FUNCTION

static pairs_fn *const pairs_functions[SMM_FUNCTIONS] = {
#define SMM_FUNCTION(NAME, name, ...) [SMM_FN_##NAME] = pairs_##name,
#include "../functions_complex.def"
#undef SMM_FUNCTION
};

static const int8_t arguments_of[SMM_FUNCTIONS] = {
#define SMM_FUNCTION(NAME, name, arguments, ...) [SMM_FN_##NAME] = arguments,
#include "../functions_complex.def"
#undef SMM_FUNCTION
};

/* As that of real numbers (map.h). */
static void KERNEL(map)(smm_function function, char *const x[], const intptr_t step[], intptr_t count,
                        const intptr_t next[], intptr_t rows) {
    pairs room[MOST_ARGUMENTS + 1];
    memset(room, 0, sizeof room); /* vectors go on behind the last number */
    for (intptr_t r = 0; r < rows; r++)
        for (intptr_t first = 0; first < count; first += PART) {
            const intptr_t some = least(PART, count - first);
            for (int i = 1; i <= arguments_of[function]; i++)
                for (intptr_t j = 0; j < some; j++) {
                    const T *z = (const T *)(const void *)(x[i] + r * next[i] + (first + j) * step[i]);
                    room[i].re[j] = z[0], room[i].im[j] = z[1];
                }
            pairs_functions[function](&room[0], &room[1], &room[2], some);
            for (intptr_t j = 0; j < some; j++) {
                T *z = (T *)(void *)(x[0] + r * next[0] + (first + j) * step[0]);
                z[0] = room[0].re[j], z[1] = room[0].im[j];
            }
        }
}
