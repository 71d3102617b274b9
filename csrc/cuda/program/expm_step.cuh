/* expm_step.cuh: EXPM as a step. */
#include "function.cuh"

#include "expm.cuh"

template <class A, class X> inline void step(Work &w, A a, X x) { expm(w, operand_view(a), operand_view(x)); }
