/* workspace.h: the working memory of a thread. */
#ifndef SMM_WORKSPACE_H
#define SMM_WORKSPACE_H

#include <stdalign.h>

#include "core.h"

/* Bytes for a tile's converted operands; most tiles need less. Memory that no call needs is never touched. */
enum { SMM_CONVERTED = 512 << 10 };

/* Bytes for the temporaries of a program's tile. */
enum { SMM_PROGRAM_WORKSPACE = 192 << 10 };

/* A thread's workspace holds one tile's packed operands (that of C has an extra line, which streaming carries over),
 * the memory of its kernel, partial sums, converted operands, and temporaries. It is too large for the stacks of some
 * threads, so it is allocated when a thread first needs it, and freed when the thread ends. */
typedef struct smm_workspace {
    alignas(SMM_LINE) char a[SMM_BUFFER], b[SMM_BUFFER], c[SMM_C_BUFFER + SMM_LINE];
    alignas(SMM_LINE) char sums[SMM_SUMS];
    alignas(SMM_LINE) char converted[SMM_CONVERTED];
    alignas(SMM_LINE) char program[SMM_PROGRAM_WORKSPACE];
    smm_cancel_token *watch; /* of the job that this thread works for */
    size_t size;             /* of kernel */
    alignas(SMM_LINE) char kernel[];
} smm_workspace;

/* Bytes that a plan's kernel needs, in whole lines. */
size_t smm_workspace_size(const smm_plan *plan);

/* The calling thread's workspace, with that many bytes for its kernel; NULL if there is no memory for it. It moves when
 * it grows. */
smm_workspace *smm_workspace_of_thread(size_t size);

#endif
