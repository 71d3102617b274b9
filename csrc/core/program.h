/* program.h: a planned program, which program.c makes and program_run.c runs. */
#ifndef SMM_PROGRAM_H
#define SMM_PROGRAM_H

#include "core.h"

typedef struct planned_step {
    smm_step step;
    smm_outer outer;
    smm_plan plan; /* of a call */
    const smm_kernels *kernels;
    int operands;
    int position[SMM_MAX_OPERANDS]; /* the place of each of the step's operands in the planned call */
} planned_step;

/* A loop's carry: the strides of its matrices in memory before the first time and after the last, and where its two
 * slots in the buffer begin, of which each is that of the input at every second time. */
typedef struct planned_carry {
    smm_carry carry;
    intptr_t first, last, slot[2];
} planned_carry;

struct smm_planned {
    int values, steps;
    intptr_t tile, workspace; /* bytes of all temporaries of a tile */
    size_t
        max_kernel_workspace; /* bytes of workspace of the largest kernel; a thread's workspace moves when it grows */
    double work, bytes;       /* of a matrix: in flops, as smm_threads_for() weighs them */
    smm_value *value;         /* what is carried, and a loop's info, are as in their slots */
    intptr_t *slot;           /* of a temporary: its offset in the buffer */
    planned_step *step;
    int carries; /* -1: no loop */
    planned_carry *carry;
    bool *for_outputs; /* of each step of a loop: nothing that is carried depends on it */
    int info, columns; /* of a loop: the value, or -1 */
    intptr_t info_stride, info_slot;
};

/* How many operands a step has, the one that an element-wise step writes first. */
int smm_operands_of(const smm_step *step);

#endif
