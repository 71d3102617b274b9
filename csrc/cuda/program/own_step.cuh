/* own_step.cuh: what a step has of its own (own.cuh), and how it comes from values of the program and goes back. */

struct Work {
    Number numbers[NUMBERS];
    int pivots[N];
};
inline Own own_of(Work &w) { return {w.numbers, w.pivots}; }

template <class A> inline void load_matrix(const Own &o, A a) {
    for (int e = lane(); e < N * N; e += LANES) o.a(e / N, e % N) = a(e / N, e % N);
    __syncwarp();
}
template <class B> inline void load_columns(const Own &o, B b) {
    for (int e = lane(); e < N * COLUMNS; e += LANES) o.x(e / COLUMNS, e % COLUMNS) = b(e / COLUMNS, e % COLUMNS);
    __syncwarp();
}
/* To columns of X from `first` on. */
template <class X> inline void store_columns(const Own &o, X x, int info, int first = 0, int columns = COLUMNS) {
    for (int e = lane(); e < N * COLUMNS; e += LANES)
        if (first + e % COLUMNS < columns)
            x(e / COLUMNS, first + e % COLUMNS) = info ? not_a_complex_number() : o.x(e / COLUMNS, e % COLUMNS);
    __syncwarp();
}
