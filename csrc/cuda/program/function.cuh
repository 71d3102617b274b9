/* function.cuh: what the algorithm of a kernel of one operation finds where it is a step of a program. The step has a
 * namespace of its own, in which all of this is included once more: with its type SMM_T, that of parts where
 * SMM_COMPLEX says so, its sizes SMM_M, SMM_N and SMM_K, SMM_OP and SMM_FORM. LANES are those of the program. */
#undef EACH
#undef EACH_STEP
#include "arithmetic.cuh"
typedef T InMemory; /* values of the program need not be converted */
constexpr bool CONVERTS = false;
#include "lanes.cuh"
#include "householder.cuh"
#include "element.cuh"

/* In a program complex numbers are pairs of reals. */
inline Complex *numbers(T *parts) { return reinterpret_cast<Complex *>(parts); }
inline const Complex *numbers(const T *parts) { return reinterpret_cast<const Complex *>(parts); }

/* A view of a value of the program, for algorithms that have OperandViews in memory elsewhere (operand_view.cuh). */
template <class V> struct OperandView {
    V x;
    auto get(int i, int j) const { return x(i, j); }
    auto &at(int i, int j) const { return x(i, j); }
    template <class Y> void put(int i, int j, Y y) const { x(i, j) = y; }
    template <int ROWS, int COLS, class Y> void load(Y *to) const {
        EACH(int e = 0; e < ROWS * COLS; e++) to[e] = x(e / COLS, e % COLS);
    }
    template <int ROWS, int COLS, class Y> void store(const Y *from) const {
        EACH(int e = 0; e < ROWS * COLS; e++) x(e / COLS, e % COLS) = from[e];
    }
    template <int ROWS, class Form> void column(int j, Form form) const { form(&x(0, j), V::DOWN); }
};
template <class V> inline OperandView<V> operand_view(V x) { return {x}; }
