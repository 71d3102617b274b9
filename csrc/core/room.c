/* room.c: a thread's room, and interrupts. The function that is asked about them may itself run a call, which gets a
 * room of its own. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "room.h"

static pthread_key_t room_key;
static bool has_key;

__attribute__((constructor)) static void create_key(void) { has_key = !pthread_key_create(&room_key, free); }

size_t smm_room_of(const smm_plan *plan) {
    const intptr_t asked = plan->kernel && plan->kernel->room ? plan->kernel->room(&plan->call) : 0;
    return (size_t)(asked > SMM_KERNEL_ROOM ? (asked + SMM_LINE - 1) & -SMM_LINE : SMM_KERNEL_ROOM);
}

smm_room *smm_room_of_thread(size_t size) {
    smm_room *room = has_key ? pthread_getspecific(room_key) : NULL;
    if ((room && room->size >= size) || !has_key) return room;
    if (room) pthread_setspecific(room_key, NULL);
    free(room);
    room = aligned_alloc(SMM_LINE, sizeof *room + size);
    if (room) room->size = size;
    if (!room || !pthread_setspecific(room_key, room)) return room;
    free(room);
    return NULL;
}

/* The room exists, or no kernel would run. */
void *smm_kernel_room(void) { return ((smm_room *)pthread_getspecific(room_key))->kernel; }

/* --- Whether a call goes on ---------------------------------------------------------------------------- */

bool smm_kernel_goes_on(intptr_t n, intptr_t k) {
    enum { MANY = 4096 };
    if (n < MANY && (!k || k % MANY)) return true;
    return smm_goes_on(((smm_room *)pthread_getspecific(room_key))->watch);
}

void smm_end(smm_watch *x, smm_status why) { __atomic_store_n(&x->status, why, __ATOMIC_RELAXED); }

enum { ASK_NS = 20000000 };
static bool (*_Atomic to_ask)(void);

void smm_set_interrupt(bool (*interrupted)(void)) { atomic_store(&to_ask, interrupted); }

/* Ask whether to go on. This thread's room is put aside meanwhile: the function asked may run a call. */
static bool is_interrupted(bool (*interrupted)(void)) {
    smm_room *const room = pthread_getspecific(room_key);
    pthread_setspecific(room_key, NULL);
    const bool answer = interrupted();
    free(pthread_getspecific(room_key));
    pthread_setspecific(room_key, room);
    return answer;
}

bool smm_goes_on(smm_watch *x) {
    bool (*const interrupted)(void) = atomic_load_explicit(&to_ask, memory_order_relaxed);
    if (interrupted && pthread_equal(pthread_self(), x->caller)) {
        const int64_t now = smm_now_ns();
        if (!x->asked) x->asked = now;
        if (now - x->asked > ASK_NS) {
            if (is_interrupted(interrupted)) smm_end(x, SMM_ERR_STOPPED);
            x->asked = now;
        }
    }
    return __atomic_load_n(&x->status, __ATOMIC_RELAXED) == SMM_OK;
}
