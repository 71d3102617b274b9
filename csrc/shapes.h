/* shapes.h: the shapes of an operation's operands, as ops.def says, for those who turn calls into operands. */
#ifndef SMM_SHAPES_H
#define SMM_SHAPES_H

#include "smallmm.h"

/* Rows and columns of an operand, as indices into the sizes {0, 1, m, n, k} of a call. */
enum { NOTHING, ONE, M, N, K };
typedef struct shape {
    uint8_t rows, cols;
} shape;

/* a, b, c, d, pivots of each operation */
enum { OPERANDS = 5 };
#define NONE (NOTHING, NOTHING)
#define SHAPE(rows, cols) {rows, cols}
static const shape shapes[SMM_OPS][OPERANDS] = {
#define SMM_OP(name, what, a, b, c, d, pivots, flops) {SHAPE a, SHAPE b, SHAPE c, SHAPE d, SHAPE pivots},
#include "ops.def"
#undef SMM_OP
};
#undef SHAPE
#undef NONE

#endif
