/* inverse.h: what all texts of the inverse share, those for CUDA, too. */
#ifndef SMM_INVERSE_H
#define SMM_INVERSE_H

/* Elimination by rows keeps X A - I small, but users look at A X - I. Up to this order the two hardly differ: the worst
 * found of A X - I is 5 roundoff cond A; from the next order on it has no bound, and the transpose is inverted. */
#define SMM_INV_DIRECT 3

/* Half the distance from 1 to the next number of type T. */
#define SMM_ROUNDOFF(T) (sizeof(T) == 4 ? 0x1p-24 : 0x1p-53)

/* LU of A and of its transpose find different pivots, but one finds a zero only where a few roundings make the matrix
 * singular. So A may be singular where the norm of the inverse times the largest pivot is not less than this, 1 / (64
 * roundoff). Of 400,000 matrices with a zero pivot in LU, random ones with equal rows or columns, of low rank, of small
 * integers, scaled, the least had 1 / (7 roundoff) (November 2026). The same where the sum of squares of the inverse is
 * too small to tell: then elimination may overflow, too. */
#define SMM_SUSPECT_LIMIT(T) (sizeof(T) == 4 ? 0x1p18 : 0x1p47)
#define SMM_MIN_SQUARES(T) (sizeof(T) == 4 ? 0x1p-120 : 0x1p-1016)

#endif
