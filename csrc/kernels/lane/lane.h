/* lane.h: what the kernel texts are written in, common to all instruction sets.
 *
 * Each csrc/kernels/<isa>_<dtype>.c includes one lane_<isa>.h, which defines the vector type `vec` of
 * LANES elements of type T and the lane verbs over it, and then all_kernels.h, a text per algorithm. The
 * texts are ordinary C: constant shapes are constant arguments of inlined functions. A `mask` holds a truth
 * value per lane; masks combine by & | ~, and lane_select(m, x, y) is x where m holds, else y. lane_bits and lane_mask
 * turn a mask into an integer, bit l for lane l, and back. lane_turn multiplies the complex numbers in a vector, pairs
 * of lanes, by i: (re, im) becomes (-im, re); lane_re and lane_im make them (re, re) and (im, im). lane_or combines the
 * bits of two vectors. lane_max(x, y) is x where it is greater, else y. lane_fma(x, y, z) is x y + z, lane_fnma
 * z - x y, rounded once, but in `portable`; lane_fnma_once is everywhere.
 */
#ifndef SMM_LANE_H
#define SMM_LANE_H

#include <math.h>

#include "../../core/kernel.h"

#define INLINE static inline __attribute__((always_inline))
/* One copy of the code for all its callers. */
#if defined(__clang__)
#define SHARED static __attribute__((noinline))
#else
#define SHARED static __attribute__((noinline, noclone))
#endif
/* A for loop that is unrolled completely, when its trip count is a constant, by four or two, or not at all. */
#define UNROLLED(...) _Pragma("GCC unroll 32") for (__VA_ARGS__)
#define UNROLLED_BY_4(...) _Pragma("GCC unroll 4") for (__VA_ARGS__)
#define UNROLLED_BY_2(...) _Pragma("GCC unroll 2") for (__VA_ARGS__)
#define ROLLED(...) _Pragma("GCC unroll 1") for (__VA_ARGS__)

/* DTYPE, the name of the element type, is defined by the file that is compiled. */
#define COMPUTED_OF_(name) name##_computed
#define COMPUTED_OF(name) COMPUTED_OF_(name)
#define ROW(x, NAME, name, in_memory, computed, ...) typedef computed COMPUTED_OF(name);
SMM_DTYPES(ROW, _)
#undef ROW
typedef COMPUTED_OF(DTYPE) T; /* of complex numbers, the type of their parts */
/* How many elements a number has: complex numbers, whose files define REAL_DTYPE, have a real and an imaginary part. */
#if defined(REAL_DTYPE)
enum { PARTS = 2 };
#else
enum { PARTS = 1 };
#endif
#if defined(SMM_KERNELS_F64)
#define FMA __builtin_fma
#define SQRT __builtin_sqrt
#else
#define FMA __builtin_fmaf
#define SQRT __builtin_sqrtf
#endif

/* Forget where a pointer came from: for loops over blocks, in which GCC would otherwise keep a pointer for every row of
 * a block, more than there are registers. */
#define FORGET(pointer) __asm__("" : "+r"(pointer))
/* Forget that a vector was loaded: GCC would load it once more for a second use. */
#if defined(__x86_64__)
#define LOADED(x) __asm__("" : "+v"(x))
#else
#define LOADED(x) (void)(x)
#endif
/* Forget that a mask was compared: combined with another, GCC would compare under that one, and so wait for it. */
#if defined(SMM_KERNELS_AVX512)
#define COMPARED(x) __asm__("" : "+k"(x))
#else
#define COMPARED(x) (void)(x)
#endif

/* smm_<operation>_<strategy>_<dtype>_<isa> */
#define NAME_(stem, dtype, isa) smm_##stem##_##dtype##_##isa
#define NAME(stem, dtype, isa) NAME_(stem, dtype, isa)
#define KERNEL(stem) NAME(stem, DTYPE, ISA)

/* Strides of an operand in elements; of complex numbers, in parts. */
typedef struct strides {
    intptr_t batch, row, col;
} strides;

INLINE strides strides_of(const smm_operand *x) {
    const intptr_t size = sizeof(T);
    return (strides){x->batch / size, x->row / size, x->col / size};
}

#endif
