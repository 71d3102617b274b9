/* arithmetic.cuh: the type of numbers, arithmetic with fixed rounding, and that of sizes: all that an algorithm needs
 * which neither knows where operands lie nor what a kernel is. */

typedef SMM_T T; /* of all numbers in registers and in shared memory */

constexpr int VECTOR = 16 / sizeof(T); /* elements of the widest access */

__host__ __device__ constexpr int ceil_div(int x, int y) { return (x + y - 1) / y; }
__host__ __device__ constexpr int min_of(int x, int y) { return x < y ? x : y; }
__host__ __device__ constexpr int max_of(int x, int y) { return x > y ? x : y; }

/* The widest vector that divides a length: 1, 2 or 4 elements. */
__host__ __device__ constexpr int width_of(int length) {
    return length % VECTOR == 0 ? VECTOR : length % 2 == 0 ? 2 : 1;
}

/* The least power of two that is not less. */
__host__ __device__ constexpr int power_of_two(int x) { return x > 1 ? 2 * power_of_two(ceil_div(x, 2)) : 1; }

/* Rounded to nearest, never contracted: the same bits as the CPU's kernels. */
__device__ inline double product(double x, double y) { return __dmul_rn(x, y); }
__device__ inline float product(float x, float y) { return __fmul_rn(x, y); }
__device__ inline double multiply_add(double x, double y, double z) { return __fma_rn(x, y, z); }
__device__ inline float multiply_add(float x, float y, float z) { return __fmaf_rn(x, y, z); }

/* Of shared memory and an operand's the one that a constant says. */
template <bool SHARED, class Own, class X> __device__ inline auto either(Own *shared, X *memory) {
    if constexpr (SHARED)
        return shared;
    else
        return memory;
}
