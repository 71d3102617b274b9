/* banded_tiles.cuh: X of A X = B where A has few diagonals: three, in arrays of their own (SOLVE_TRIDIAGONAL); any,
 * with row exchanges (SOLVE_BANDED); one half of those of a positive definite matrix (SOLVEH_BANDED). Of any order.
 *
 * The results are those of kernels/banded_lanes.h. A thread has a system. Of the matrix it keeps what a step changes in
 * registers: the REACH rows below the pivot's, and as many of B. A step takes in one more row, and gives one of U (a
 * column of L if A is positive definite) and one of L^-1 B: as many numbers as it took, whose place they get.
 *
 * Rows come in tiles of ROWS, of which a warp moves those of its 32 systems together: the threads stand side by side
 * along each diagonal of a system, and then read that of their own. There is no room for what elimination gives for
 * long systems, so only the last tile is kept. For each of the others a thread writes down what it had in registers
 * before. Substitution goes back tile by tile, and eliminates each once more. So A and B are read twice, and X is
 * written once, which is less than if U were written and read.
 *
 * Grid: as many blocks as fit the device, of THREADS threads; each warp takes 32 systems at a time.
 * Shared memory: of each warp, the tile, and where the matrices of each operand begin.
 * Memory of the device: of each thread, what is written down.
 * Operands: any that args.h can describe; B and X are taken COLUMNS columns at a time.
 * May overwrite B in place, matrix by matrix: rows of X that lie where B is still to be read wait in registers. */
#include "common.cuh"
#include "lanes.cuh"
#include "element.cuh"
#include "element_vectors.cuh"

constexpr bool TRIDIAGONAL = SMM_OP == SMM_OP_SOLVE_TRIDIAGONAL, DEFINITE = SMM_OP == SMM_OP_SOLVEH_BANDED;
constexpr bool PIVOTED = !(SMM_FORM & 16), UPPER = SMM_FORM & 1;
constexpr int DIAGONALS = SMM_M, BEYOND = DIAGONALS - 1, REACH = DEFINITE ? BEYOND : int(SMM_LOWER);
constexpr int ROWS = SMM_ROWS, COLUMNS = SMM_COLS, THREADS = SMM_THREADS, TAKEN = DIAGONALS + COLUMNS;
constexpr int SYSTEMS = 32, LINE = min_of(ROWS, SYSTEMS), AT_ONCE = SYSTEMS / LINE;
/* Distances of systems in shared memory, which are odd: the threads find theirs in different banks. */
constexpr int PITCH = ROWS | 1, PITCH_X = (ROWS + REACH) | 1;
constexpr int INPUTS = TRIDIAGONAL ? 3 : 1, PLACE_B = INPUTS, PLACE_X = INPUTS + 1, PLACES = INPUTS + 2;
constexpr int TILE = SYSTEMS * (DIAGONALS * PITCH + COLUMNS * PITCH_X);
constexpr int WARP_BYTES = PLACES * SYSTEMS * int(sizeof(long long)) + TILE * int(sizeof(Element));
static_assert(SMM_SHARED == THREADS / SYSTEMS * WARP_BYTES && LANES == 1, "the plan counts otherwise");
static_assert(ROWS >= REACH && ROWS % LINE == 0, "rows that wait are of the next tile alone");

#include "banded_steps.cuh"

/* --- moving --- */

/* What step p takes of a diagonal or of a column of B: number (p + shift), if there are so many. */
struct Line {
    const Stored *data;
    long long step, length, system; /* system: to that of the next one, where all are evenly spaced */
    int shift, place;
};

__device__ inline Line line_of(const smm_cuda_args &args, int which, long long column) {
    if (which >= DIAGONALS) {
        const smm_cuda_operand &b = args.operand[SMM_B];
        column += which - DIAGONALS;
        return {static_cast<const Stored *>(b.data) + column * b.col,
                b.row,
                column < args.k ? args.n : 0,
                b.batch[0],
                REACH,
                PLACE_B};
    }
    if (TRIDIAGONAL) {
        const smm_cuda_operand &x = args.operand[which];
        return {
            static_cast<const Stored *>(x.data), x.row, which == 1 ? args.n : args.n - 1, x.batch[0], which > 0, which};
    }
    const smm_cuda_operand &ab = args.operand[SMM_A];
    const int row = !DEFINITE ? BEYOND - which : UPPER ? which : REACH - which;
    return {static_cast<const Stored *>(ab.data) + row * ab.row,
            ab.col,
            args.n,
            ab.batch[0],
            DEFINITE && UPPER ? REACH : which,
            0};
}

/* A warp's systems, what it has in shared memory, and where its threads stand. */
struct WarpTile {
    long long *where; /* the matrices of its systems begin, of each operand */
    Element *tile;
    int thread, count; /* systems */
    long long first;   /* system, if they are evenly spaced and as many as threads; else -1 */

    __device__ explicit WarpTile(char *shared) : thread(threadIdx.x % SYSTEMS) {
        char *const mine = shared + threadIdx.x / SYSTEMS * WARP_BYTES;
        where = reinterpret_cast<long long *>(mine);
        tile = reinterpret_cast<Element *>(mine + PLACES * SYSTEMS * sizeof(long long));
    }
    /* Take so many systems from `begin` on. Threads without one do the last one, too. Returns the thread's. */
    __device__ long long take(const smm_cuda_args &args, long long begin) {
        count = args.batch - begin < SYSTEMS ? static_cast<int>(args.batch - begin) : SYSTEMS;
        first = args.dims <= 1 && count == SYSTEMS ? begin : -1;
        const long long q = begin + min_of(thread, count - 1);
        __syncwarp();
#pragma unroll 1
        for (int place = 0; place < PLACES; place++) {
            const int operand = place == PLACE_B ? int(SMM_B) : place == PLACE_X ? int(SMM_C) : place;
            where[place * SYSTEMS + thread] = offset_apart(args, operand, q);
        }
        __syncwarp();
        return q;
    }
    /* Where the lines of a system are. */
    __device__ Element *at(int which, int system) const {
        return which < DIAGONALS
                   ? tile + (which * SYSTEMS + system) * PITCH
                   : tile + DIAGONALS * SYSTEMS * PITCH + ((which - DIAGONALS) * SYSTEMS + system) * PITCH_X;
    }
    __device__ void read(Element (&numbers)[TAKEN], int slot) const {
#pragma unroll
        for (int which = 0; which < TAKEN; which++) numbers[which] = at(which, thread)[slot];
    }
    __device__ void write(const Element (&numbers)[TAKEN], int slot) const {
#pragma unroll
        for (int which = 0; which < TAKEN; which++) at(which, thread)[slot] = numbers[which];
    }
};

/* What steps `begin` and on take; zeros where a matrix has no element. */
__device__ inline void stage(const smm_cuda_args &args, const WarpTile &own, long long begin, long long column) {
    __syncwarp();
#pragma unroll
    for (int which = 0; which < TAKEN; which++) {
        const Line line = line_of(args, which, column);
        const int pitch = which < DIAGONALS ? PITCH : PITCH_X, system = own.thread / LINE;
#pragma unroll
        for (int slot = own.thread % LINE; slot < ROWS; slot += LINE) {
            const long long step = begin + slot;
            Element *const to = own.at(which, system) + slot;
            const Stored *from = line.data + (step + line.shift) * line.step;
            if (step + REACH >= args.n || step + line.shift >= line.length) {
#pragma unroll 1
                for (int q = 0; q < SYSTEMS; q += AT_ONCE) to[q * pitch] = element_of(0);
            } else if (own.first >= 0) {
                from += (own.first + system) * line.system;
#pragma unroll 8
                for (int q = 0; q < SYSTEMS; q += AT_ONCE, from += AT_ONCE * line.system) copy<1>(to + q * pitch, from);
            } else {
                const long long *const where = own.where + line.place * SYSTEMS + system;
#pragma unroll 2
                for (int q = 0; q < SYSTEMS; q += AT_ONCE) copy<1>(to + q * pitch, from + where[q]);
            }
        }
    }
    copies_done();
    __syncwarp();
}

/* Rows begin + low to begin + high - 1 of X. */
__device__ inline void unstage(const smm_cuda_args &args, const WarpTile &own, long long begin, int low, int high,
                               long long column) {
    const smm_cuda_operand &x = args.operand[SMM_C];
    __syncwarp();
#pragma unroll
    for (int c = 0; c < COLUMNS; c++) {
        if (column + c >= args.k) break;
#pragma unroll
        for (int slot = own.thread % LINE; slot < ROWS + REACH; slot += LINE) {
            if (slot < low || slot >= high || begin + slot >= args.n) continue;
            Stored *to = static_cast<Stored *>(x.data) + (begin + slot) * x.row + (column + c) * x.col;
            const int system = own.thread / LINE;
            const Element *const from = own.at(DIAGONALS + c, system) + slot;
            if (own.first >= 0) {
                to += (own.first + system) * x.batch[0];
#pragma unroll 8
                for (int q = 0; q < SYSTEMS; q += AT_ONCE, to += AT_ONCE * x.batch[0]) *to = from[q * PITCH_X];
            } else {
#pragma unroll 2
                for (int q = 0; q < SYSTEMS; q += AT_ONCE)
                    if (system + q < own.count) to[own.where[PLACE_X * SYSTEMS + system + q]] = from[q * PITCH_X];
            }
        }
    }
}

/* --- a warp's systems --- */

/* The first rows, which no step takes in. */
__device__ inline State first_rows(const smm_cuda_args &args, const WarpTile &own, long long column) {
    State state;
    const auto number = [&](int place, const smm_cuda_operand &x, long long i, long long j) {
        return Element(
            static_cast<const Stored *>(x.data)[own.where[place * SYSTEMS + own.thread] + i * x.row + j * x.col]);
    };
#pragma unroll
    for (int t = 0; t < REACH; t++) {
#pragma unroll
        for (int s = 0; s < BEYOND; s++) {
            const int row = DEFINITE ? (UPPER ? BEYOND + s - t : t - s) : BEYOND - REACH + t - s;
            const int col = DEFINITE && UPPER ? t : s;
            state.a[t][s] = element_of(0);
            if (t >= args.n || s >= args.n || !State::has(t, s)) continue;
            if (TRIDIAGONAL)
                state.a[t][s] = number(1 + s, args.operand[1 + s], 0, 0);
            else if (row >= 0 && row < DIAGONALS)
                state.a[t][s] = of_lower(number(0, args.operand[SMM_A], row, col));
        }
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            state.y[t][c] =
                t < args.n && column + c < args.k ? number(PLACE_B, args.operand[SMM_B], t, column + c) : element_of(0);
    }
    return state;
}

/* Steps begin to begin + count - 1, of a tile. `keep`: what they give takes the place of what they took. */
__device__ inline void forward(const WarpTile &own, State &state, long long begin, int count, bool keep, int &info) {
    Element next[TAKEN];
    own.read(next, 0);
#pragma unroll 1
    for (int slot = 0; slot < count; slot++) {
        Element numbers[TAKEN];
#pragma unroll
        for (int which = 0; which < TAKEN; which++)
            numbers[which] = which < DIAGONALS ? of_lower(next[which]) : next[which];
        own.read(next, min_of(slot + 1, ROWS - 1));
        advance(state, numbers, static_cast<int>(begin) + slot, info);
        if (keep) own.write(numbers, slot);
    }
}

/* From what those steps gave their rows of X, and behind these the next REACH ones. */
__device__ inline void backward(const WarpTile &own, Solution &solution, long long after, int count, bool bad) {
#pragma unroll
    for (int t = 0; t < REACH; t++)
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            if (count == ROWS) own.at(DIAGONALS + c, own.thread)[ROWS + t] = bad ? not_an_element() : solution.x[t][c];
    Element next[TAKEN];
    own.read(next, count - 1);
#pragma unroll 1
    for (int slot = count - 1; slot >= 0; slot--) {
        Element numbers[TAKEN];
#pragma unroll
        for (int which = 0; which < TAKEN; which++) numbers[which] = next[which];
        own.read(next, max_of(slot - 1, 0));
        substitute(solution, numbers, after + (count - 1 - slot));
#pragma unroll
        for (int c = 0; c < COLUMNS; c++)
            own.at(DIAGONALS + c, own.thread)[slot] = bad ? not_an_element() : numbers[DIAGONALS + c];
    }
}

/* Columns of X. Returns info. `workspace`: the thread's own, whose numbers are `apart`.
 *
 * Visits go to the last tile and back. */
__device__ inline int solve(const smm_cuda_args &args, const WarpTile &own, long long column, Element *workspace,
                            long long apart) {
    constexpr int NUMBERS = State::count();
    const long long last = (args.n - 1) / ROWS;
    State state = first_rows(args, own, column);
    Solution solution = {};
    int info = 0;
#pragma unroll 1
    for (long long visit = 0; visit <= 2 * last; visit++) {
        const long long tile = visit < last ? visit : 2 * last - visit, begin = tile * ROWS;
        const int steps = tile == last ? static_cast<int>(args.n - begin) : ROWS;
        Element *const noted = workspace + tile * NUMBERS * apart;
        if (visit < last) state.for_all([&](int i, Element x) { noted[i * apart] = x; });
        if (visit > last) state.for_all([&](int i, Element &x) { x = noted[i * apart]; });
        stage(args, own, begin, column);
        forward(own, state, begin, steps, visit >= last, info);
        if (visit < last) continue;
        backward(own, solution, args.n - begin - steps, steps, info != 0);
        unstage(args, own, begin, tile ? REACH : 0, tile < last ? ROWS + REACH : steps, column);
    }
    return info;
}

extern "C" __global__ void BOUNDS SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) char shared[];
    WarpTile own(shared);
    const long long all = static_cast<long long>(gridDim.x) * THREADS;
    const long long apart = all < args.batch ? all : args.batch; /* threads with a system of their own */
    const long long me = static_cast<long long>(blockIdx.x) * THREADS + threadIdx.x;
    Element *const workspace = static_cast<Element *>(args.workspace) + (me < apart ? me : apart - 1);
#pragma unroll 1
    for (long long begin = me - own.thread; begin < args.batch; begin += all) {
        const long long q = own.take(args, begin);
        int info = 0;
#pragma unroll 1
        for (long long column = 0; column < args.k; column += COLUMNS)
            info = solve(args, own, column, workspace, apart);
        if (own.thread < own.count && args.operand[SMM_INFO].data) *beside<int>(args, SMM_INFO, q, 1) = info;
    }
}
