/* numbers.cuh: complex numbers (number.cuh) in a program, where they are pairs of reals. */
inline Number *numbers(T *parts) { return reinterpret_cast<Number *>(parts); }
inline const Number *numbers(const T *parts) { return reinterpret_cast<const Number *>(parts); }
