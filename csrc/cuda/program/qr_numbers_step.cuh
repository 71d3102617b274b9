/* qr_numbers_step.cuh: QR, QR_R and QR_RAW of complex matrices as steps, by qr_of_numbers.cuh. */
#include "function.cuh"
#include "qr_of_numbers.cuh"

struct Work {
    Number numbers[NUMBERS];
};

template <class A> inline Own factored(Work &w, A a) {
    const Own o = {w.numbers};
    for (int e = lane(); e < M * N; e += LANES) o.a(e / N, e % N) = a(e / N, e % N);
    __syncwarp();
    factor_safely(o, true, [&](int i, int j) { return a(i, j); });
    __syncwarp();
    return o;
}
template <class R> inline void store_r(const Own &o, R r) {
    for (int e = lane(); e < K * N; e += LANES) {
        const int i = e / N, j = e % N;
        r(i, j) = i < STEPS && i <= j ? o.a(i, j) : Number{0, 0};
    }
}

template <class A, class First, class Second, class Info>
inline void step(Work &w, A a, First first, Second second, Info info) {
    const Own o = factored(w, a);
    if constexpr (FORMS_Q) {
        store_r(o, second);
        for (int column = 0; column < K; column += LANES) {
            form_own_column(o, column);
            for (int i = 0; i < M && column + lane() < K; i++) first(i, column + lane()) = o.q(i, lane());
        }
    } else {
        for (int e = lane(); e < M * N; e += LANES) first(e / N, e % N) = o.a(e / N, e % N);
        for (int k = lane(); k < STEPS; k += LANES) second(k) = o.tau(k);
    }
    put_info(info, lane(), 0);
}
template <class A, class R, class Info> inline void step(Work &w, A a, R r, Info info) {
    store_r(factored(w, a), r);
    put_info(info, lane(), 0);
}
