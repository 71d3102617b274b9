/* map_complex.cuh: the element-wise functions of complex numbers, map_<name> for each row of functions_complex.def, as
 * kernels/map/map_complex.h has them; and what products need. */
#include "function.cuh"

inline Complex elem_mul(Complex x, Complex y) { return product(x, y); }
inline Complex elem_div(Complex x, Complex y) { return ComplexDivisor(y).divide(x); }

#define SMM_FUNCTION(NAME, name, arguments, value) \
    inline Complex map_##name(Complex x, Complex y) { return value; }
#define SMM_FUNCTION_OF_PARTS(NAME, name, angle) \
    inline Complex map_##name(Complex x) { \
        const double re = x.re, im = x.im; \
        const bool far = smm_is_far(angle); \
        const double sine = far ? smm_far_sine(angle, 0) : smm_sin(angle); \
        const double cosine = far ? smm_far_sine(angle, 1) : smm_cos(angle); \
        const smm_parts y = smm_complex_##name(re, im, sine, cosine); \
        return {static_cast<T>(y.re), static_cast<T>(y.im)}; \
    }
#include "functions_complex.def"
#undef SMM_FUNCTION
#undef SMM_FUNCTION_OF_PARTS
