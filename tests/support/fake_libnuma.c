/* fake_libnuma.c: libnuma.so.1 on a machine that has no nodes. Pages lie on nodes 0 and 1 in turn; what is to be placed
 * is said. FAKE_LIBNUMA: what numa_available returns. */
#define _GNU_SOURCE
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

struct bitmask {
    unsigned long size, *maskp;
};

int numa_available(void) {
    const char *answer = getenv("FAKE_LIBNUMA");
    return answer ? atoi(answer) : 0;
}

int numa_sched_setaffinity(pid_t pid, struct bitmask *cpus) {
    return sched_setaffinity(pid, cpus->size / 8, (cpu_set_t *)cpus->maskp);
}

int numa_move_pages(int pid, unsigned long count, void **pages, const int *nodes, int *status, int flags) {
    if (nodes) printf("move_pages of %d: %lu pages, flags %d\n", pid, count, flags);
    for (unsigned long i = 0; i < count; i++) status[i] = (uintptr_t)pages[i] / 4096 % 2;
    return 0;
}

long mbind(void *start, unsigned long length, int mode, const unsigned long *nodes, unsigned long bits,
           unsigned flags) {
    printf("mbind: %lu bytes, mode %d, nodes %#lx of %lu, flags %u\n", length, mode, *nodes, bits, flags);
    return start ? 0 : -1;
}
