/* run.h: a planned call as what threads share, for run.c, many.c and explain.c. */
#ifndef SMM_RUN_H
#define SMM_RUN_H

#include "core.h"

typedef struct smm_job {
    const smm_plan *whole;  /* of the call, */
    const smm_plan *plan;   /* and of what the kernels are called with: the same, or a tile's, */
    const smm_tiles *tiles; /* which is NULL or one of these */
    char *sums;             /* of a deep product's spans, if they are shared */
    smm_cancel_token *watch;
    bool *not_finite;  /* see smm_run_and_tell; NULL: nobody asks */
    bool scratch_info; /* the call lacks info and cannot do without */
} smm_job;

/* Plan a call; its tiles are planned later. */
smm_status smm_plan_job(const smm_call *call, smm_job *x, smm_plan *plan, smm_cancel_token *watch);
smm_status smm_plan_tiles_of(smm_job *x, smm_tiles *tiles);

/* For smm_parallel_for, with a job as context: matrices first .. last-1 of all runs; or, of a plan with `parts`, parts
 * of them, whose sums have room, and are added up at the end. */
bool smm_run_range(void *context, intptr_t first, intptr_t last);
bool smm_run_parts(void *context, intptr_t first, intptr_t last);
smm_status smm_make_workspace_for_sums(smm_job *x);
void smm_add_spans(const smm_job *x);

/* Where matrix x of a plan's largest operand lies; and that for smm_parallel_for. */
const void *smm_address_of(const void *plan, intptr_t x);
smm_home smm_home_of(const smm_plan *plan);

/* explain.c: on which nodes so many matrices would be computed. */
void smm_explain_shares(intptr_t count, const smm_home *home, smm_plan_info *info);

#endif
