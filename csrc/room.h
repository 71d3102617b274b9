/* room.h: what a thread works in. */
#ifndef SMM_ROOM_H
#define SMM_ROOM_H

#include <stdalign.h>

#include "core.h"

/* Bytes for a tile's converted operands: most tiles. Memory that no call needs is never touched. */
enum { SMM_CONVERTED = 512 << 10 };

/* And for the temporaries of a program's tile. */
enum { SMM_PROGRAM_ROOM = 192 << 10 };

/* A thread's room: for one tile's packed operands, C having one line more for what streaming carries over, for its
 * kernel, for partial sums, for operands that are converted, and for temporaries. Too large for the stacks that some
 * threads have, it is allocated when a thread first needs it, and freed when the thread ends. */
typedef struct smm_room {
    alignas(SMM_LINE) char a[SMM_BUFFER], b[SMM_BUFFER], c[SMM_C_BUFFER + SMM_LINE];
    alignas(SMM_LINE) char sums[SMM_SUMS];
    alignas(SMM_LINE) char converted[SMM_CONVERTED];
    alignas(SMM_LINE) char program[SMM_PROGRAM_ROOM];
    size_t size; /* of kernel */
    alignas(SMM_LINE) char kernel[];
} smm_room;

/* Bytes of the room of a plan's kernel, in whole lines. */
size_t smm_room_of(const smm_plan *plan);

/* The calling thread's room, with so much for its kernel, or NULL if there is no memory for it. It moves when it must
 * hold more than before. */
smm_room *smm_room_of_thread(size_t size);

#endif
