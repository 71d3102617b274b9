/* phases.cuh: what eigh_phases.cuh and svd_phases.cuh have in common, for many matrices of a call. A rotation of a QR
 * sweep waits for the one before, so lanes of a matrix would wait for one of them; here threads find the rotations of a
 * matrix each, side by side. A block takes MATRICES of them through three phases:
 *
 * 1. LANES threads reduce a matrix to a diagonal and what is beside it, which go to memory of the device, as Q does.
 * 2. A thread finds all rotations that make that diagonal, which go there, too; as far as there is room: then phases 2
 *    and 3 come again. Diagonals take the place of what the other phases have in shared memory.
 * 3. LANES threads have the rows of Q in registers, and rotate them.
 *
 * Grid: blocks stay for the matrices that follow, and share them evenly. THREADS / LANES groups of threads take the
 * matrices of a block by turns.
 * Shared memory: `Phases`. Workspace: of each matrix under way what `Outside` names.
 * Limits: LANES a power of two, from 2 to a warp; THREADS not less than MATRICES.
 *
 * Whoever includes it has N, the order of Q, and VECTORS. */

constexpr int MATRICES = SMM_MATRICES, THREADS = SMM_THREADS, GROUPS = THREADS / LANES;

/* A diagonal, or what is beside it, of all matrices of a block, of which neighbouring threads have neighbouring ones.
 */
struct Column {
    T *x;
    __device__ T &operator[](int i) const { return x[i * MATRICES]; }
};
struct Chain {
    Column d, e;
};
/* The same of a matrix in memory of the device. */
struct alignas(16) Diagonals {
    T d[N], e[N];
};

/* The rotations of a round, and where its sweeps begin and end: from + to * END. */
constexpr int TURNS_KEPT = N * N * 11 / 8, SWEEPS_AT_ONCE = 3 * N, END = 256;
constexpr int ROWS = Vectors<N>::HEIGHT;
struct alignas(2 * sizeof(T)) Turn {
    T c, s;
};
struct alignas(16) Outside {
    Diagonals b;
    Turn turns[VECTORS ? TURNS_KEPT : 1];
    T v[VECTORS ? N * ROWS : 1]; /* by columns */
};

/* Rotations of a sweep for all lanes of a matrix; those outside of it are the identity, which changes at most the sign
 * of a zero. Those of the next sweeps are on their way. */
constexpr int TOGETHER = 4, SLOTS = (N - 1 + TOGETHER - 1) / TOGETHER * TOGETHER;
constexpr int STAGED = VECTORS ? 4 : 2;
struct Staged {
    Turn turns[SLOTS];
};

/* Group is what the lanes of a matrix work with; they are so far apart that those of neighbouring groups lie in
 * different banks. */
constexpr int UNIT = max_of(16, min_of(LANES * sizeof(Element), 64));
template <class Group> struct Phases {
    union alignas(16) OfGroup {
        Group x;
        char bytes[sizeof(Group) + (3 * UNIT - sizeof(Group) % (2 * UNIT)) % (2 * UNIT)];
    };
    union {
        OfGroup of_group[GROUPS];
        T chains[2 * N * MATRICES];
    };
    T back[MATRICES];
    int left[MATRICES];                                                     /* info */
    unsigned short sweeps[VECTORS ? MATRICES : 1][SWEEPS_AT_ONCE + STAGED]; /* and zeros */
};

/* Those of a matrix to shared memory, and back. */
constexpr int ABREAST = width_of(N);
__device__ inline void load_chain(const Chain &to, const Diagonals &from) {
#pragma unroll 4
    for (int i = 0; i < N; i += ABREAST) {
        const Vector<ABREAST> d = load<ABREAST>(from.d + i), e = load<ABREAST>(from.e + i);
#pragma unroll
        for (int k = 0; k < ABREAST; k++) to.d[i + k] = d.x[k], to.e[i + k] = e.x[k];
    }
}
__device__ inline void store_chain(Diagonals &to, const Chain &from) {
#pragma unroll 4
    for (int i = 0; i < N; i += ABREAST) {
        Vector<ABREAST> d, e;
#pragma unroll
        for (int k = 0; k < ABREAST; k++) d.x[k] = from.d[i + k], e.x[k] = from.e[i + k];
        store<ABREAST>(to.d + i, d);
        store<ABREAST>(to.e + i, e);
    }
}

/* How far a thread is with its matrix: at rows from .. to, unless it is to search for them. Iteration says
 *   counts(x, i)             whether element i beside the diagonal is not negligible; otherwise it becomes zero,
 *   enter(x, from, to)       that the next sweep is of other rows than the last one,
 *   sweep(x, from, to, keep) its rotations, which keep(i, c, s) gets; true: all elements beside the diagonal still
 *                            count. */
template <class Iteration> struct Progress {
    Iteration iteration;
    int from, to, sweeps;
    bool searches;
};

template <class Iteration> __device__ inline void search(const Chain &x, Progress<Iteration> &p) {
#pragma unroll 1
    while (p.to > 0 && !p.iteration.counts(x, p.to - 1)) p.to--;
    p.from = p.to;
#pragma unroll 1
    while (p.from > 0 && p.iteration.counts(x, p.from - 1)) p.from--;
    if (p.to > 0) p.iteration.enter(x, p.from, p.to);
}

/* Sweeps, as many as there is room for. Whether these were the last. */
template <class Iteration>
__device__ inline bool find_sweeps(const Chain &x, Progress<Iteration> &p, Turn *turn, unsigned short *sweeps) {
    constexpr int MAX = Iteration::SWEEPS * N;
    const Turn *const full = turn + TURNS_KEPT - N;
    int found = 0;
#pragma unroll 1
    while (p.to > 0 && p.sweeps < MAX && (!VECTORS || (turn <= full && found < SWEEPS_AT_ONCE))) {
        if (p.searches) search(x, p);
        if (p.to == 0) break;
        if (VECTORS) sweeps[found++] = p.from + p.to * END;
        p.searches = !p.iteration.sweep(x, p.from, p.to, [&](int, T c, T s) {
            if (VECTORS) *turn++ = Turn{c, s};
        });
        p.sweeps++;
    }
    for (int i = 0; i < STAGED && VECTORS; i++) sweeps[found + i] = 0;
    return p.to == 0 || p.sweeps == MAX;
}

/* How many elements beside the diagonal are not negligible when a matrix is given up. */
template <class Iteration> __device__ inline int count_left(const Chain &x, Progress<Iteration> &p) {
    int left = 0;
    for (int i = 0; i < p.to; i++) left += i < p.from ? p.iteration.counts(x, i) : x.e[i] != 0;
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
        sync_lanes();
        fetch(k + STAGED - 1);
#pragma unroll
        for (int first = 0; first < N - 1; first += TOGETHER) {
            if (first + TOGETHER <= from || first >= to) continue;
#pragma unroll
            for (int i = first; i < min_of(first + TOGETHER, N - 1); i++) {
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
    sync_lanes();
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

/* All matrices of a call, of which q is one: reduce(group, diagonals, q) leaves Q in group.vectors(), and returns what
 * undoes the scaling of A, or NaN where A is not finite; finish(group, diagonals, q, back, left, v) has the rows v of Q
 * in registers, and makes the results. */
template <class Group, class Iteration, class Reduce, class Finish>
__device__ inline void run_phases(const smm_cuda_args &args, Reduce reduce, Finish finish) {
    static_assert(SMM_SHARED == sizeof(Phases<Group>), "the plan counts otherwise");
    extern __shared__ __align__(16) T shared[];
    Phases<Group> &x = *reinterpret_cast<Phases<Group> *>(shared);
    const int group = threadIdx.x / LANES;
    Group &own = x.of_group[group].x;
    const auto outside_of = [&](int m) -> Outside & {
        return static_cast<Outside *>(args.workspace)[static_cast<long long>(blockIdx.x) * args.share + m];
    };
    for (long long first = static_cast<long long>(blockIdx.x) * args.share; first < args.batch;
         first += static_cast<long long>(gridDim.x) * args.share) {
        const int count = args.batch - first < args.share ? static_cast<int>(args.batch - first) : args.share;
        for (int m = group; m < count; m += GROUPS) {
            Outside &to = outside_of(m);
            const T back = reduce(own, to.b, first + m);
            if (lane() == 0) x.back[m] = back;
            if constexpr (VECTORS) {
                each_element([&](int i, int j, int) { to.v[j * ROWS + i] = own.vectors()[i * Vectors<N>::PITCH + j]; });
            }
            sync_lanes(); /* for those who still read what is their own */
        }
        __syncthreads();
        const int m = threadIdx.x;
        Progress<Iteration> progress = {{}, 0, N - 1, 0, true};
        bool done;
        do {
            bool last = true;
            if (m < count) {
                const Chain chain = {Column{x.chains + m}, Column{x.chains + N * MATRICES + m}};
                Outside &at = outside_of(m);
                if (!is_finite(x.back[m])) progress.to = 0;
                const bool goes_on = progress.to > 0;
                if (goes_on) load_chain(chain, at.b);
                if (goes_on && progress.sweeps == 0) progress.iteration.begin(chain);
                last = find_sweeps(chain, progress, at.turns, x.sweeps[VECTORS ? m : 0]);
                x.left[m] = last ? count_left(chain, progress) : 0;
                if (goes_on) store_chain(at.b, chain);
            }
            done = __syncthreads_and(last);
            for (int m = group; m < count; m += GROUPS) {
                T v[OWN_ROWS][N];
                Outside &at = outside_of(m);
                if constexpr (VECTORS) {
                    each_element([&](int i, int j, int r) { v[r][j] = at.v[j * ROWS + i]; });
                    turn_rows(v, at.turns, x.sweeps[m], own.staged);
                    if (!done) each_element([&](int i, int j, int r) { at.v[j * ROWS + i] = v[r][j]; });
                }
                if (done) finish(own, at.b, first + m, x.back[m], x.left[m], v);
                sync_lanes();
            }
            __syncthreads();
        } while (!done);
    }
}
