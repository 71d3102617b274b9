/* rcond_step.cuh: LU_RCOND as a step. */
#include "function.cuh"

#include "condition.cuh"

struct Work {
    Element lu[IMAGE], vector[N];
};

template <class A, class Pivots, class Norm, class Rcond, class Info>
inline void step(Work &w, A a, Pivots pivots, Norm norm, Rcond rcond, Info info) {
    for (int e = lane(); e < N * N; e += LANES) w.lu[place(e / N, e % N)] = a(e / N, e % N);
    __syncwarp();
    const Factors f(w.lu, &pivots(0), Pivots::DOWN, w.vector);
    const T found = rcond_of(f, norm(0));
    if (lane() == 0) rcond(0) = found;
    put_info(info, lane(), f.info);
}
