/* patched.h: what NumPy's patched loops (patch.c) and PyTorch's patched kernels (patch_torch.c) have in common: the
 * functions, for how many matrices smallmm is faster, why calls are handed on, and the counts of patch_report. */
#ifndef SMM_PATCHED_H
#define SMM_PATCHED_H

#include "../extension.h"

typedef enum outcome { SERVED, FEW, LARGE, OVERLAP, EXCEPTIONAL, OTHER, REFUSED, OUTCOMES } outcome;
extern const char *const smm_outcomes[OUTCOMES];

/* Functions of NumPy, then operators of PyTorch, each without out= and with it. */
enum {
#define SMM_MIN_BATCH(...)
#define SMM_PATCHED(ufunc, ...) ROW_##ufunc,
#define SMM_PATCHED_TORCH(op, ...) ROW_aten_##op, ROW_aten_##op##_out,
#include "patched.def"
    NUMPY_ROWS,
    BEFORE_TORCH = NUMPY_ROWS - 1,
#include "patched_torch.def"
    ROWS,
#undef SMM_PATCHED_TORCH
#undef SMM_PATCHED
#undef SMM_MIN_BATCH
    ORDERS = SMM_MAX_ORDER + 2, /* the last is of all above */
};

/* The fewest matrices of an order that are served. */
intptr_t smm_fewest(int row, smm_dtype dtype, intptr_t order);
/* So many for all, whatever the order, if set_fewest was told so; else 0. */
intptr_t smm_fewest_for_all(void);
/* A count that threads share. */
void smm_add_to(intptr_t *count, intptr_t number);
void smm_count_call(int row, intptr_t order, outcome what, intptr_t matrices);

#endif
