/* systems_determinant.cuh: determinants (DET, SLOGDET) from the LU of systems.cuh. */
#if SMM_COMPLEX
#include "determinant_complex.cuh"
#else
#include "determinant.cuh"
#endif

template <class Det, class Log>
__device__ inline void give_determinant(const MatrixWorkspace &o, bool singular, Det det, Log log_magnitude) {
#if SMM_COMPLEX
    bool odd = false;
    for (int i = 0; i < N; i++) odd ^= o.pivot(i) != i;
    give_determinant<1>(odd, singular, [&](int i) { return o.a(i, i); }, det, log_magnitude);
#else
    Determinant<T> x;
    const auto factor = [&](int k) { return o.pivot(k) != k ? -o.a(k, k) : o.a(k, k); };
    for (int k = 0; k < N; k++) x.multiply(factor(k));
    for (int k = 0; k < N && !x.safe(); k++) x.multiply_scaled(factor(k));
    det(SMM_OP == SMM_OP_DET ? x.value() : x.sign());
    if (SMM_OP == SMM_OP_SLOGDET) log_magnitude(x.log_magnitude());
#endif
}
