/* harness.h: the few lines that the C tests share. A test is a function that calls CHECK; a program lists
 * its tests and hands them to run_tests, whose last line of output is "12 passed, 0 failed". */
#ifndef SMM_TESTS_HARNESS_H
#define SMM_TESTS_HARNESS_H

#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

struct test {
    const char *name;
    void (*run)(void);
};

enum { FAILURES_SHOWN = 5 }; /* of each test */

static long harness_failures; /* of the test that runs */

/* CHECK(condition, format, ...): what to say when the condition does not hold. */
#define CHECK(condition, ...) harness_check(condition, __FILE__, __LINE__, __VA_ARGS__)

__attribute__((format(printf, 4, 5))) static inline bool harness_check(bool holds, const char *file, int line,
                                                                       const char *format, ...) {
    if (holds || harness_failures++ >= FAILURES_SHOWN) return holds;
    va_list arguments;
    va_start(arguments, format);
    printf("    %s:%d: ", file, line);
    vprintf(format, arguments);
    printf("\n");
    fflush(stdout);
    va_end(arguments);
    return false;
}

/* The environment's HALF=0 or 1 leaves out each second test, so that two processes share a program's. */
static inline int run_tests(const struct test *tests, int count) {
    const char *half = getenv("HALF");
    int passed = 0, run = 0;
    for (int i = half ? atoi(half) : 0; i < count; i += half ? 2 : 1, run++) {
        const clock_t start = clock(); /* of the processor, in all threads */
        harness_failures = 0;
        tests[i].run();
        passed += !harness_failures;
        printf("%s %6.1f s  %s\n", harness_failures ? "FAILED" : "ok    ", (double)(clock() - start) / CLOCKS_PER_SEC,
               tests[i].name);
        if (harness_failures > FAILURES_SHOWN) printf("    %ld failures in all\n", harness_failures);
        fflush(stdout);
    }
    printf("%d passed, %d failed\n", passed, run - passed);
    return passed != run;
}

/* A reproducible source of random numbers: splitmix64 (Steele, Lea and Flood, 2014). */
static uint64_t random_state = 1;

static inline uint64_t random_bits(void) {
    uint64_t x = random_state += 0x9e3779b97f4a7c15u;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
}

/* 0 .. bound-1 */
static inline intptr_t random_below(intptr_t bound) { return (intptr_t)(random_bits() % (uint64_t)bound); }

/* [-1, 1), with as many digits as a double has */
static inline double random_value(void) { return (double)(int64_t)random_bits() * 0x1p-63; }

#endif
