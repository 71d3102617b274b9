/* eigh_phases.cuh: eigh.cuh of many matrices of a call. A rotation of a QR sweep waits for the one before, so lanes of
 * a matrix would wait for one of them; here threads find the rotations of a matrix each, side by side. A block takes
 * MATRICES of them through three phases:
 *
 * 1. LANES threads reduce a matrix to T, and Q goes to memory of the device.
 * 2. A thread finds all rotations that make T diagonal, which go there, too; as far as there is room: then phases 2
 *    and 3 come again.
 * 3. LANES threads have the rows of Q in registers, and rotate them.
 *
 * Grid: blocks stay for the matrices that follow. THREADS / LANES groups of threads take the matrices of a block by
 * turns.
 * Shared memory: `Shared`. Workspace: of each matrix under way what `Outside` names, if vectors are wanted.
 * Operands: any that args.h can describe. Of A one triangle is read. May overwrite A in place, matrix by matrix.
 * Limits: LANES a power of two, from 2 to a warp; THREADS not less than MATRICES. */
#include "common.cuh"
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"
#include "place.cuh"

constexpr int N = SMM_N, MATRICES = SMM_MATRICES, THREADS = SMM_THREADS, GROUPS = THREADS / LANES;
constexpr bool VECTORS = SMM_OP == SMM_OP_EIGH, UPPER = SMM_FORM & 1;
#include "eigh.cuh"
#include "eigh_rows.cuh"

/* A part of T, of all matrices of a block, of which neighbouring threads have neighbouring ones. */
struct Column {
    T *x;
    __device__ T &operator[](int i) const { return x[i * MATRICES]; }
};
struct Chain {
    Column d, e;
};

/* The rotations of a round, and where its sweeps begin and end: from + to * END. */
constexpr int TURNS_KEPT = N * N * 11 / 8, SWEEPS_AT_ONCE = 3 * N, END = 256;
constexpr int ROWS = Vectors<N>::HEIGHT;
struct alignas(2 * sizeof(T)) Turn {
    T c, s;
};
struct alignas(16) Outside {
    Turn turns[TURNS_KEPT];
    T v[N * ROWS]; /* by columns */
};

/* Rotations of a sweep for all lanes of a matrix; those outside of it are the identity, which changes at most the sign
 * of a zero. Those of the next sweeps are on their way. */
constexpr int TOGETHER = 4, SLOTS = (N - 1 + TOGETHER - 1) / TOGETHER * TOGETHER, STAGED = 4;
struct Staged {
    Turn turns[SLOTS];
};

/* What the lanes of a matrix work with; so far apart that those of neighbouring groups lie in different banks. */
struct alignas(16) Group {
    union {
        Beside beside[2][N];
        Staged staged[STAGED];
    };
    Rows rows;
};
constexpr int UNIT = most(16, least(LANES * sizeof(Element), 64));
union alignas(16) GroupApart {
    Group x;
    char bytes[sizeof(Group) + (3 * UNIT - sizeof(Group) % (2 * UNIT)) % (2 * UNIT)];
};

struct Shared {
    GroupApart of_group[GROUPS];
    T d[N * MATRICES], e[N * MATRICES], back[MATRICES];
    int left[MATRICES];                                                     /* info */
    unsigned short sweeps[VECTORS ? MATRICES : 1][SWEEPS_AT_ONCE + STAGED]; /* and zeros */
};
static_assert(SMM_SHARED == sizeof(Shared), "the plan counts otherwise");
static_assert(static_cast<int>(SMM_EIGH_w) == static_cast<int>(SMM_EIGVALSH_w), "EIGVALSH has the w of EIGH");

/* How far a thread is with its T: at rows from .. to, unless it is to search for them. */
struct Progress {
    int from, to, sweeps;
    bool searches;
};

__device__ inline void search(const Chain &x, Progress &p) {
#pragma unroll 1
    while (p.to > 0 && !counts_in(x, p.to - 1)) p.to--;
    p.from = p.to;
#pragma unroll 1
    while (p.from > 0 && counts_in(x, p.from - 1)) p.from--;
}

/* Sweeps, as many as there is room for. Whether these were the last. */
__device__ inline bool find_sweeps(const Chain &x, Progress &p, Turn *turn, unsigned short *sweeps) {
    constexpr int MOST = TRIDIAGONAL_SWEEPS * N;
    const Turn *const full = turn + TURNS_KEPT - N;
    int found = 0;
#pragma unroll 1
    while (p.to > 0 && p.sweeps < MOST && (!VECTORS || (turn <= full && found < SWEEPS_AT_ONCE))) {
        if (p.searches) search(x, p);
        if (p.to == 0) break;
        if (VECTORS) sweeps[found++] = p.from + p.to * END;
        p.searches = !find_rotations<N>(x, p.from, p.to, [&](int, T c, T s) {
            if (VECTORS) *turn++ = Turn{c, s};
        });
        p.sweeps++;
    }
    for (int i = 0; i < STAGED && VECTORS; i++) sweeps[found + i] = 0;
    return p.to == 0 || p.sweeps == MOST;
}

/* How many elements beside the diagonal are not negligible when a matrix is given up. */
__device__ inline int count_left(const Chain &x, const Progress &p) {
    int left = 0;
    for (int i = 0; i < p.to; i++) left += i < p.from ? counts_in(x, i) : x.e[i] != 0;
    return left;
}

/* All sweeps of a round turn the rows of Q that this lane has. */
constexpr int OWN_ROWS = (ROWS + LANES - 1) / LANES;
__device__ inline void turn_rows(T (&v)[OWN_ROWS][N], const Turn *turn, const unsigned short *sweeps, Staged *staged) {
    const auto fetch = [&](int k) {
        const int from = sweeps[k] % END, to = sweeps[k] / END;
        for (int i = lane(); i < SLOTS; i += LANES) {
            Turn &here = staged[k % STAGED].turns[i];
            if (i >= from && i < to)
                copy<2>(&here.c, &turn[i - from].c);
            else
                here = {1, 0};
        }
        turn += to - from;
        end_of_copies();
    };
    for (int k = 0; k < STAGED - 1; k++) fetch(k);
#pragma unroll 1
    for (int k = 0; sweeps[k]; k++) {
        const Turn *const here = staged[k % STAGED].turns;
        const int from = sweeps[k] % END, to = sweeps[k] / END;
        wait_for_copies<STAGED - 2>();
        wait();
        fetch(k + STAGED - 1);
#pragma unroll
        for (int first = 0; first < N - 1; first += TOGETHER) {
            if (first + TOGETHER <= from || first >= to) continue;
#pragma unroll
            for (int i = first; i < least(first + TOGETHER, N - 1); i++) {
                const Turn at = here[i];
#pragma unroll
                for (int r = 0; r < OWN_ROWS; r++) {
                    const T left = v[r][i], right = v[r][i + 1];
                    v[r][i] = multiply_add(at.s, right, product(at.c, left));
                    v[r][i + 1] = multiply_add(-at.s, left, product(at.c, right));
                }
            }
        }
    }
    copies_done();
    wait();
}

/* Calls run(i, j, r) of each element of Q that this lane has: row i, which is its r-th. */
template <class RUN> __device__ inline void each_element(RUN run) {
#pragma unroll
    for (int r = 0; r < OWN_ROWS; r++) {
        const int i = lane() + r * LANES;
#pragma unroll
        for (int j = 0; j < N; j++)
            if (i < ROWS) run(i, j, r);
    }
}

extern "C" __global__ void __launch_bounds__(THREADS) SMM_NAME(const __grid_constant__ smm_cuda_args args) {
    extern __shared__ __align__(16) T shared[];
    Shared &x = *reinterpret_cast<Shared *>(shared);
    const int group = threadIdx.x / LANES;
    Group &own = x.of_group[group].x;
    const auto chain_of = [&](int m) { return Chain{Column{x.d + m}, Column{x.e + m}}; };
    const auto outside_of = [&](int m) {
        return VECTORS ? static_cast<Outside *>(args.workspace) + static_cast<long long>(blockIdx.x) * MATRICES + m
                       : nullptr;
    };
    for (long long first = static_cast<long long>(blockIdx.x) * MATRICES; first < args.batch;
         first += static_cast<long long>(gridDim.x) * MATRICES) {
        const int count = args.batch - first < MATRICES ? static_cast<int>(args.batch - first) : MATRICES;
        for (int m = group; m < count; m += GROUPS) {
            const T back = reduce_rows(own.rows, own.beside[0], own.beside[1], chain_of(m),
                                       Place<!UPPER, Stored>(args, SMM_A, first + m));
            if (lane() == 0) x.back[m] = back;
            if constexpr (VECTORS) {
                Outside &to = *outside_of(m);
                each_element([&](int i, int j, int) { to.v[j * ROWS + i] = own.rows.a.x[i * Vectors<N>::PITCH + j]; });
            }
            wait(); /* for those who still read what is their own */
        }
        __syncthreads();
        const int m = threadIdx.x;
        Progress progress = {0, N - 1, 0, true};
        if (m < count && !is_finite(x.back[m])) progress.to = 0;
        bool done;
        do {
            bool last = true;
            if (m < count) {
                const Chain chain = chain_of(m);
                last =
                    find_sweeps(chain, progress, VECTORS ? outside_of(m)->turns : nullptr, x.sweeps[VECTORS ? m : 0]);
                x.left[m] = last ? count_left(chain, progress) : 0;
            }
            done = __syncthreads_and(last);
            for (int m = group; m < count; m += GROUPS) {
                if constexpr (VECTORS) {
                    Outside &at = *outside_of(m);
                    T v[OWN_ROWS][N];
                    each_element([&](int i, int j, int r) { v[r][j] = at.v[j * ROWS + i]; });
                    turn_rows(v, at.turns, x.sweeps[m], own.staged);
                    each_element([&](int i, int j, int r) {
                        if (done)
                            own.rows.a.x[i * Vectors<N>::PITCH + j] = v[r][j];
                        else
                            at.v[j * ROWS + i] = v[r][j];
                    });
                    wait();
                }
                if (!done) continue;
                const Place<true> w(args, SMM_EIGH_w, first + m);
                const Place<false, Stored> to(args, VECTORS ? SMM_C : SMM_A, first + m);
                const bool good = is_finite(x.back[m]) && !x.left[m];
                for (int j = lane(); j < N; j += LANES)
                    give(
                        own.rows.a, chain_of(m).d, j, good, x.back[m], [&](int place, T y) { w.put(0, place, y); },
                        [&](int i, int place, Element y) { to.put(i, place, y); });
                put_integer(args, SMM_INFO, first + m, x.left[m]);
                wait();
            }
            __syncthreads();
        } while (!done);
    }
}
