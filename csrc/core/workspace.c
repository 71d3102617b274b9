/* workspace.c: a thread's workspace, and interrupts. The function that is asked about them may itself run a call, which
 * gets a workspace of its own. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "workspace.h"

static pthread_key_t workspace_key;
static bool has_key;

__attribute__((constructor)) static void create_key(void) { has_key = !pthread_key_create(&workspace_key, free); }

size_t smm_workspace_size(const smm_plan *plan) {
    const intptr_t asked = plan->kernel && plan->kernel->workspace ? plan->kernel->workspace(&plan->call) : 0;
    return (size_t)(asked > SMM_KERNEL_WORKSPACE ? (asked + SMM_LINE - 1) & -SMM_LINE : SMM_KERNEL_WORKSPACE);
}

smm_workspace *smm_workspace_of_thread(size_t size) {
    smm_workspace *workspace = has_key ? pthread_getspecific(workspace_key) : NULL;
    if ((workspace && workspace->size >= size) || !has_key) return workspace;
    if (workspace) pthread_setspecific(workspace_key, NULL);
    free(workspace);
    workspace = aligned_alloc(SMM_LINE, sizeof *workspace + size);
    if (workspace) workspace->size = size;
    if (!workspace || !pthread_setspecific(workspace_key, workspace)) return workspace;
    free(workspace);
    return NULL;
}

/* The workspace exists, or no kernel would run. */
void *smm_kernel_workspace(void) { return ((smm_workspace *)pthread_getspecific(workspace_key))->kernel; }

/* --- Whether a call goes on ---------------------------------------------------------------------------- */

bool smm_kernel_should_continue(intptr_t n, intptr_t k) {
    enum { MANY = 4096 };
    if (n < MANY && (!k || k % MANY)) return true;
    return smm_should_continue(((smm_workspace *)pthread_getspecific(workspace_key))->watch);
}

void smm_stop(smm_cancel_token *x, smm_status why) { __atomic_store_n(&x->status, why, __ATOMIC_RELAXED); }

enum { ASK_NS = 20000000 };
static bool (*_Atomic to_ask)(void);

void smm_set_interrupt(bool (*interrupted)(void)) { atomic_store(&to_ask, interrupted); }

/* Ask whether to go on. This thread's workspace is put aside meanwhile: the function asked may run a call. */
static bool is_interrupted(bool (*interrupted)(void)) {
    smm_workspace *const workspace = pthread_getspecific(workspace_key);
    pthread_setspecific(workspace_key, NULL);
    const bool answer = interrupted();
    free(pthread_getspecific(workspace_key));
    pthread_setspecific(workspace_key, workspace);
    return answer;
}

bool smm_should_continue(smm_cancel_token *x) {
    bool (*const interrupted)(void) = atomic_load_explicit(&to_ask, memory_order_relaxed);
    if (interrupted && pthread_equal(pthread_self(), x->caller)) {
        const int64_t now = smm_now_ns();
        if (!x->asked) x->asked = now;
        if (now - x->asked > ASK_NS) {
            if (is_interrupted(interrupted)) smm_stop(x, SMM_ERR_STOPPED);
            x->asked = now;
        }
    }
    return __atomic_load_n(&x->status, __ATOMIC_RELAXED) == SMM_OK;
}
