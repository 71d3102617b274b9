/* pivots.cuh: what the kernels that share rows among threads know of the choice of pivots.
 *
 * A row that waits to be a pivot row is one word: the leading bits of its element's magnitude, above its index. So one
 * maximum finds the pivot row, unless another row shares those bits, or they are special: zero, infinite, too small or
 * large for a quick reciprocal. Then a slower search compares all bits, in the order in which exchanges would have
 * brought the rows. */

constexpr unsigned ROW_BITS = 31, MAGNITUDE_BITS = 0x7fffffff & ~ROW_BITS;

__device__ inline unsigned leading_bits(double x) { return __double2hiint(x); }
__device__ inline unsigned leading_bits(float x) { return __float_as_uint(x); }

constexpr unsigned SMALL = sizeof(T) == 8 ? 0x00400000 : 0x01800000, LARGE = sizeof(T) == 8 ? 0x7fa00000 : 0x7d000000;
__device__ inline bool is_special(unsigned word) { return word - SMALL >= LARGE - SMALL; }

/* The reciprocal as the compiler has it, without the branch for what is special. */
__device__ inline double quick_reciprocal(double x) {
    double y = __hiloint2double(__double2hiint(table_reciprocal(x)), __double2hiint(x) + 0x300402);
    double e = multiply_add(-x, y, 1.0);
    e = multiply_add(e, e, e);
    y = multiply_add(y, e, y);
    return multiply_add(y, multiply_add(-x, y, 1.0), y);
}
__device__ inline float quick_reciprocal(float x) {
    const float y = table_reciprocal(x);
    return multiply_add(y, multiply_add(-x, y, 1.0f), y);
}

/* Where k exchanges bring a row that no kernel moves. Exchange t puts the row that was in place t where its pivot row
 * came from, which the exchanges before t had brought there in the same way. */
template <class PivotRow> __device__ inline int position_of(int row, int k, PivotRow pivot_row) {
#pragma unroll 1
    while (row < k) row = pivot_row(row);
    return row;
}
