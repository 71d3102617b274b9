/* numa.h: nodes of a machine of non-uniform memory access: some CPUs, and the memory next to them. */
#ifndef SMM_NUMA_H
#define SMM_NUMA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "smallmm.h"

enum { SMM_MOST_THREADS = 512, SMM_MOST_CPUS = 16384, SMM_SET_WORD = 8 * sizeof(long) };

/* Some CPUs or nodes, as the kernel writes them. */
typedef struct smm_set {
    unsigned long bits[SMM_MOST_CPUS / SMM_SET_WORD];
} smm_set;

static inline bool smm_set_has(const smm_set *set, int i) {
    return set->bits[i / SMM_SET_WORD] >> i % SMM_SET_WORD & 1;
}
static inline void smm_set_add(smm_set *set, int i) { set->bits[i / SMM_SET_WORD] |= 1ul << i % SMM_SET_WORD; }

typedef struct smm_node {
    int id;
    bool has_memory;
    int cpus; /* how many of them this process may use, and which */
    smm_set set;
} smm_node;

typedef struct smm_nodes {
    bool off;    /* SMALLMM_NUMA=0, or nothing is known: there is one node, as far as anybody is concerned */
    int sharing; /* how many nodes share jobs: those with CPUs; 1 if off */
    int count;
    uint8_t seat[SMM_MOST_THREADS]; /* of each participant of a job, the node: an index of: */
    smm_node node[];
} smm_nodes;

/* What is known since it was first asked for. */
const smm_nodes *smm_numa(void);

/* The index of the node that this thread runs on. */
int smm_node_here(const smm_nodes *x);

/* From now on this thread runs on the CPUs of a node. */
void smm_stay_on(const smm_node *node);

/* Where index i of a job has most of its memory. */
typedef struct smm_home {
    const void *(*address)(const void *context, intptr_t i); /* NULL: anywhere */
    const void *context;
} smm_home;

/* Where all is smaller, caches hold much of it, and asking where it lies would take too long. */
enum { SMM_ASK_BYTES = 8 << 20 };

/* How nodes share a job of so many participants and indices: node[j], an index, gets weight[j] of `total`; first come
 * those whose memory comes first. home may be NULL. */
typedef struct smm_shares {
    int count, total;
    int node[SMM_MOST_NODES], weight[SMM_MOST_NODES];
} smm_shares;
void smm_share_out(int participants, intptr_t indices, const smm_home *home, smm_shares *x);

/* Have pages that are not yet written come from a node, or from several in turn. Returns 0 or what errno was. */
int smm_bind_pages(void *address, size_t bytes, bool interleave, const smm_set *nodes);

/* Move pages to nodes by their ids, or, where that is NULL, just look: status becomes the id of each page's node, or
 * minus an errno. Returns 0 or what errno was. */
int smm_move_pages(size_t count, void **pages, const int *nodes, int *status);

/* For tests: what makes the system calls (NULL: syscall), and all is looked up again. What was known stays where it is,
 * for a pool may point to it: see smm_forget_pool. */
typedef long smm_syscall_fn(long number, ...);
void smm_numa_use(smm_syscall_fn *kernel);

#endif
