/* banded_parts.cuh: long tridiagonal systems without row exchanges, in parts (SOLVE_TRIDIAGONAL, SMM_UNPIVOTED): the
 * levels of ../../parts.c, whose results these are.
 *
 * A thread has a part. The rows of a block's parts come to shared memory together: threads stand side by side along
 * each line. To reduce, a thread reads the rows on both sides of its separator; to substitute, it notes what
 * elimination leaves in place of what it took. A column of B is a system by itself: its levels have a matrix of their
 * own.
 *
 * Grid: blocks of THREADS parts of a level, of all columns of some systems; or, of the last levels, a block for each
 * column, which goes down to the last level and back. args.parts says which.
 * Shared memory: the rows of a block's parts, and of the one before.
 * Memory of the device: info of each system (SMM_CUDA_NO_ROW at first), then of each column the levels but the first.
 * Operands: any that args.h can describe. May overwrite B in place. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"
#include "element_vectors.cuh"

constexpr int PART = SMM_ROWS, THREADS = SMM_THREADS;
/* Parts lie an odd number of elements apart: threads find theirs in different banks. */
constexpr int PITCH = PART + 1, LINE = (THREADS + 1) * PITCH, LINES = 4;
static_assert(SMM_SHARED == LINES * LINE * int(sizeof(Element)) && LANES == 1, "the plan counts otherwise");

/* Rows low to high - 1; others are `beyond`. */
struct Line {
    Stored *data;
    long long step;
    int low, high;
    T beyond;

    __device__ Element at(int i) const { return i >= low && i < high ? Element(data[i * step]) : element_of(beyond); }
};

/* A column's system, or that of its separators. Row i is row 1 + i apart of the whole system. */
struct Level {
    int n, apart;
    Line dl, d, du, b, x;

    __device__ bool is_last() const { return n < PART; }
    __device__ int parts() const { return (n + PART - 1) / PART; }
};

__device__ inline int *info_of(const smm_cuda_args &args, long long q) {
    return static_cast<int *>(args.workspace) + (q - args.parts.first);
}

__device__ inline Level level_of(const smm_cuda_args &args, int number, long long q, long long column) {
    Level level = {static_cast<int>(args.n), 1};
    const long long columns = args.k ? args.k : 1;
    Element *place = reinterpret_cast<Element *>(static_cast<char *>(args.workspace) + args.parts.infos) +
                     ((q - args.parts.first) * columns + column) * args.parts.numbers;
    for (int i = 0; i < number; i++) {
        if (i) place += 4LL * level.n;
        level.n = level.parts();
        level.apart *= PART;
    }
    const auto line = [&](int which, int low, int high, T beyond) -> Line {
        if (number) return {place + min_of(which, 3) * static_cast<long long>(level.n), 1, low, high, beyond};
        const int operand = which < 3 ? which : which == 3 ? int(SMM_B) : int(SMM_C);
        const smm_cuda_operand &x = args.operand[operand];
        Stored *const data = static_cast<Stored *>(x.data) + offset_apart(args, operand, q);
        return {data + (which < 3 ? 0 : column * x.col) - low * x.row, x.row, low, high, beyond};
    };
    level.dl = line(0, 1, level.n, 0);
    level.d = line(1, 0, level.n, 1);
    level.du = line(2, 0, level.n - 1, 0);
    level.b = line(3, 0, args.k ? level.n : 0, 0);
    level.x = line(4, 0, args.k ? level.n : 0, 0);
    return level;
}

/* Where the rows are that a block has taken: of part p, row t is PITCH p + t. */
struct Taken {
    Element *dl, *d, *du, *b;
};

/* All threads: rows of so many parts, the first of which begins at row `first`. */
__device__ inline void take(const Taken &to, const Level &level, int first, int parts) {
    const auto one = [&](Element *to, const Line &line) {
#pragma unroll 4
        for (int r = threadIdx.x; r < parts * PART; r += THREADS) {
            Element *const place = to + r + r / PART;
            const int i = first + r;
            if (i >= line.low && i < line.high)
                copy<1>(place, line.data + i * line.step);
            else
                *place = element_of(line.beyond);
        }
    };
    __syncthreads();
    one(to.dl, level.dl);
    one(to.d, level.d);
    one(to.du, level.du);
    one(to.b, level.b);
    copies_done();
    __syncthreads();
}

/* A row of elimination: l = lower / d, d = main - l upper, y = right - l y; what couples it to the separator before. */
struct Sweep {
    Element d, y, spike;
    int row; /* the first whose pivot is useless */

    __device__ Element go_on(Element lower, Element main, Element upper, Element right, int here) {
        if (is_useless(d)) row = min_of(row, here);
        const Element l = quotient_of(lower, d);
        d = multiply_subtract(l, upper, main);
        y = multiply_subtract(l, y, right);
        spike = multiply_subtract(l, spike, element_of(0));
        return l;
    }
};

__device__ inline void note(const smm_cuda_args &args, long long q, int row) {
    if (row != SMM_CUDA_NO_ROW) atomicMin(info_of(args, q), row);
}

/* Parts from `begin` on, one of each thread: the rows that elimination leaves to their separators. */
__device__ inline void reduce(const smm_cuda_args &args, const Taken &taken, const Level &level, const Level &to,
                              int begin, long long q) {
    take(taken, level, (begin - 1) * PART, THREADS + 1);
    const int part = begin + threadIdx.x, base = threadIdx.x * PITCH;
    if (part >= level.parts()) return;
    const int first = (part - 1) * PART;
    const auto at = [&](int t) { return base + t + t / PART; };
    Sweep down = {taken.d[at(1)], taken.b[at(1)], taken.dl[at(1)], SMM_CUDA_NO_ROW};
    Sweep up = {taken.d[at(2 * PART - 1)], taken.b[at(2 * PART - 1)], taken.du[at(2 * PART - 1)], SMM_CUDA_NO_ROW};
#pragma unroll(COMPLEX ? 2 : 7)
    for (int t = 2; t < PART; t++) {
        const int low = at(t), high = at(2 * PART - t);
        down.go_on(taken.dl[low], taken.d[low], taken.du[low - 1], taken.b[low], 1 + (first + t - 1) * level.apart);
        up.go_on(taken.du[high], taken.d[high], taken.dl[high + 1], taken.b[high],
                 1 + (first + 2 * PART - t + 1) * level.apart);
    }
    const int own = at(PART);
    down.go_on(taken.dl[own], taken.d[own], taken.du[at(PART - 1)], taken.b[own], 1 + (first + PART - 1) * level.apart);
    up.go_on(taken.du[own], down.d, taken.dl[own + 1], down.y, 1 + (first + PART + 1) * level.apart);
    to.dl.data[part] = down.spike;
    to.d.data[part] = up.d;
    to.du.data[part] = up.spike;
    if (args.k) to.b.data[part] = up.y;
    note(args, q, min_of(down.row, up.row));
}

/* X of parts from `begin` on, one of each thread. All rows of the last level are one part's, behind a separator that is
 * none. */
__device__ inline void substitute(const smm_cuda_args &args, const Taken &taken, const Level &level,
                                  const Level &separators, int begin, long long q) {
    const int first = begin * PART - level.is_last();
    take(taken, level, first, THREADS);
    const int part = begin + threadIdx.x, base = threadIdx.x * PITCH;
    if (part < level.parts()) {
        Element *const dl = taken.dl + base, *const d = taken.d + base, *const du = taken.du + base,
                       *const b = taken.b + base;
        const bool alone = level.is_last();
        const Element left = alone ? element_of(0) : separators.x.at(part);
        Element x = alone ? element_of(0) : separators.x.at(part + 1);
        Sweep down = {d[1], multiply_subtract(dl[1], left, b[1]), element_of(0), SMM_CUDA_NO_ROW};
        b[0] = left;
        b[1] = down.y;
        const int row = 1 + (first + static_cast<int>(threadIdx.x) * PART) * level.apart;
#pragma unroll(COMPLEX ? 2 : 7)
        for (int t = 2; t < PART; t++) {
            down.go_on(dl[t], d[t], du[t - 1], b[t], row + (t - 1) * level.apart);
            d[t] = down.d;
            b[t] = down.y;
        }
        if (is_useless(down.d)) down.row = min_of(down.row, row + (PART - 1) * level.apart);
#pragma unroll(COMPLEX ? 2 : 5)
        for (int t = PART - 1; t > 0; t--) b[t] = x = quotient_of(multiply_subtract(du[t], x, b[t]), d[t]);
        note(args, q, down.row);
    }
    __syncthreads();
    const bool bad = level.apart == 1 && *info_of(args, q) != SMM_CUDA_NO_ROW;
#pragma unroll 4
    for (int r = threadIdx.x; r < THREADS * PART; r += THREADS) {
        const int i = first + r;
        if (i >= level.x.low && i < level.x.high)
            level.x.data[i * level.x.step] = bad ? not_an_element() : taken.b[r + r / PART];
    }
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) char shared[];
    Element *const rows = reinterpret_cast<Element *>(shared);
    const Taken taken = {rows, rows + LINE, rows + 2 * LINE, rows + 3 * LINE};
    const smm_cuda_parts &x = args.parts;
    const unsigned columns = args.k ? static_cast<unsigned>(args.k) : 1, system = blockIdx.x / x.blocks;
    const long long q = x.first + system / columns, column = system % columns;
    const int begin = static_cast<int>(blockIdx.x % x.blocks) * THREADS, step = static_cast<int>(x.blocks) * THREADS;
#pragma unroll 1
    for (int i = 0; i < x.reduced; i++) {
        const Level level = level_of(args, x.level + i, q, column), next = level_of(args, x.level + i + 1, q, column);
#pragma unroll 1
        for (int part = begin; part < level.parts(); part += step) reduce(args, taken, level, next, part, q);
    }
#pragma unroll 1
    for (int i = x.substituted - 1; i >= 0; i--) {
        const Level level = level_of(args, x.level + i, q, column), next = level_of(args, x.level + i + 1, q, column);
#pragma unroll 1
        for (int part = begin; part < level.parts(); part += step) substitute(args, taken, level, next, part, q);
    }
    int *const info = static_cast<int *>(args.operand[SMM_INFO].data);
    if (info && x.substituted && !x.level && !begin && !column && !threadIdx.x) {
        const int row = *info_of(args, q);
        *beside<int>(args, SMM_INFO, q, 1) = row == SMM_CUDA_NO_ROW ? 0 : row;
    }
}
