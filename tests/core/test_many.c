/* test_many.c: smm_run_many against smm_run of each call, bit by bit, with several threads. "quick" as first argument
 * is for emulators and sanitizers. */
#include <string.h>

#include "../../csrc/core/core.h"
#include "harness.h"

enum { MAX_CALLS = 60 };

static int rounds = 60;

/* Calls, and their outputs: those of smm_run_many, and those expected. */
struct calls {
    size_t count;
    smm_call call[MAX_CALLS], expected[MAX_CALLS];
    bool failed[MAX_CALLS], must_fail[MAX_CALLS];
    void *memory[MAX_CALLS][2 * SMM_MAX_OPERANDS];
    intptr_t bytes[MAX_CALLS][SMM_MAX_OPERANDS]; /* of each output */
};

static bool is_written(const smm_call *c, int i) { return smm_operations[c->op].operand[i].direction & SMM_WRITTEN; }

static void put_random(char *x, smm_dtype dtype) {
    const smm_dtype real = smm_dtypes[dtype].real;
    for (int part = 0; part < (smm_is_complex(dtype) ? 2 : 1); part++)
        smm_put(x + part * smm_size(real), real, random_value());
}

/* Dense operands; of one call in ten, one matrix in five is zero. Numbers such as alpha, and sometimes info, are left
 * out. */
static void add(struct calls *x, smm_op op, smm_dtype dtype, intptr_t batch, intptr_t m, intptr_t n, intptr_t k) {
    const size_t q = x->count++;
    smm_call *c = &x->call[q];
    *c = (smm_call){.op = op, .dtype = dtype, .batch = batch, .m = m, .n = n, .k = k, .failed = &x->failed[q]};
    const bool some_are_zero = !random_below(10), without_info = !random_below(4);
    for (int i = 0; i < smm_operations[op].count; i++) {
        const intptr_t size = smm_size_of(op, dtype, i);
        const bool is_info = i == smm_roles_of[op].info;
        intptr_t rows, cols;
        smm_sizes_of(op, i, m, n, k, &rows, &cols);
        x->memory[q][i] = x->memory[q][SMM_MAX_OPERANDS + i] = NULL;
        x->bytes[q][i] = 0;
        if (smm_operations[op].operand[i].direction & SMM_OPTIONAL && (!is_info || without_info)) continue;
        const intptr_t bytes = batch * rows * cols * size;
        char *data = x->memory[q][i] = calloc(1, (size_t)bytes + 1);
        c->operand[i] = (smm_operand){data, rows * cols * size, cols * size, size};
        if (is_written(c, i)) {
            x->bytes[q][i] = bytes;
            continue;
        }
        for (intptr_t e = 0; e < batch * rows * cols; e++)
            if (!some_are_zero || e / (rows * cols) % 5) put_random(data + e * size, dtype);
    }
    x->expected[q] = *c;
    x->expected[q].failed = &x->must_fail[q];
    for (int i = 0; i < smm_operations[op].count; i++)
        if (is_written(c, i) && c->operand[i].data)
            x->expected[q].operand[i].data = x->memory[q][SMM_MAX_OPERANDS + i] = calloc(1, (size_t)x->bytes[q][i] + 1);
}

static void release(struct calls *x) {
    for (size_t q = 0; q < x->count; q++)
        for (int i = 0; i < 2 * SMM_MAX_OPERANDS; i++) free(x->memory[q][i]);
    free(x);
}

/* Each call by itself, and all as one job. */
static void check(struct calls *x, int threads, const char *what) {
    smm_status each[MAX_CALLS], expected[MAX_CALLS], first = SMM_OK;
    smm_set_num_threads(1 + threads % 2);
    for (size_t q = 0; q < x->count; q++) {
        expected[q] = smm_run(&x->expected[q]);
        if (!first) first = expected[q];
    }
    smm_set_num_threads(threads);
    const smm_status status = smm_run_many(x->call, x->count, each);
    smm_set_num_threads(0);
    CHECK(status == first, "%s, %d threads: status %d, not %d", what, threads, status, first);
    for (size_t q = 0; q < x->count; q++) {
        const smm_call *c = &x->call[q];
        const char *name = smm_operations[c->op].name;
        CHECK(each[q] == expected[q], "%s, %d threads: %s has status %d, not %d", what, threads, name, each[q],
              expected[q]);
        CHECK(x->failed[q] == x->must_fail[q], "%s, %d threads: %s failed or not", what, threads, name);
        for (int i = 0; i < smm_operations[c->op].count; i++)
            if (x->bytes[q][i])
                CHECK(!memcmp(c->operand[i].data, x->expected[q].operand[i].data, (size_t)x->bytes[q][i]),
                      "%s, %d threads: operand %d of %s %s, batch %ld of %ld x %ld x %ld, number %zu of %zu", what,
                      threads, i, name, smm_dtypes[c->dtype].name, (long)c->batch, (long)c->m, (long)c->k, (long)c->n,
                      q, x->count);
    }
}

static intptr_t size_up_to(intptr_t most) { return 1 + random_below(most); }

static void add_random(struct calls *x) {
    static const smm_op ops[] = {SMM_OP_MATMUL, SMM_OP_SOLVE, SMM_OP_INV, SMM_OP_DET, SMM_OP_LU, SMM_OP_EIGVALSH};
    static const smm_dtype dtypes[] = {SMM_F64, SMM_F32, SMM_F64, SMM_F16, SMM_BF16, SMM_C128};
    const smm_op op = ops[random_below(6)];
    smm_dtype dtype = dtypes[random_below(6)];
    if (!smm_takes(op, dtype)) dtype = SMM_F64;
    const intptr_t n = size_up_to(random_below(8) ? 9 : 40);
    const bool product = op == SMM_OP_MATMUL, none = !random_below(20);
    const intptr_t batch = none ? 0 : size_up_to(random_below(3) ? 3 : 3000 / (n * n) + 20);
    const intptr_t m = product || op == SMM_OP_LU ? size_up_to(9) : n, k = size_up_to(9);
    add(x, op, dtype, batch, m, n, product || op == SMM_OP_SOLVE ? k : op == SMM_OP_LU ? min_of(m, n) : 1);
}

static void test_random_calls(void) {
    for (int round = 0; round < rounds; round++) {
        struct calls *x = calloc(1, sizeof *x);
        for (intptr_t count = size_up_to(MAX_CALLS); count > 0; count--) add_random(x);
        check(x, 1 + round % 5, "random calls");
        release(x);
    }
}

/* Products that threads share in parts, deep sums among them, beside small calls. */
static void test_large_products(void) {
    for (int threads = 1; threads <= 4; threads++) {
        struct calls *x = calloc(1, sizeof *x);
        add_random(x);
        add(x, SMM_OP_MATMUL, SMM_F64, 1, 200, 150, 100);
        add(x, SMM_OP_INV, SMM_F64, 2500, 3, 3, 1);
        add(x, SMM_OP_MATMUL, SMM_F32, 2, 40, 50, 6000);
        add_random(x);
        add(x, SMM_OP_MATMUL, SMM_F64, 1, 3, 4, 200000 / threads);
        check(x, threads, "large products");
        release(x);
    }
}

/* One call that is refused says so and leaves the others alone. */
static void test_refused(void) {
    struct calls *x = calloc(1, sizeof *x);
    add(x, SMM_OP_SOLVE, SMM_F64, 20, 4, 4, 2);
    add(x, SMM_OP_SOLVE, SMM_F64, 2, SMM_MAX_ORDER + 1, SMM_MAX_ORDER + 1, 1);
    add(x, SMM_OP_EIGVALSH, SMM_C128, 0, 2, 2, 1);
    add(x, SMM_OP_DET, SMM_F64, 30, 5, 5, 1);
    check(x, 2, "refused calls");
    x->call[0].batch = -1;
    smm_status each[4];
    CHECK(smm_run_many(x->call, 4, each) == SMM_ERR_ARGUMENT && each[0] == SMM_ERR_ARGUMENT, "a negative batch");
    CHECK(each[1] == SMM_ERR_ORDER && each[3] == SMM_OK, "and what is after it");
    CHECK(smm_run_many(x->call, 4, NULL) == SMM_ERR_ARGUMENT, "without a place for each status");
    CHECK(smm_run_many(NULL, 0, NULL) == SMM_OK, "no calls");
    CHECK(smm_run_many(NULL, 1, NULL) == SMM_ERR_ARGUMENT, "no address of calls");
    release(x);
}

static int asked;
static bool stop_now(void) { return ++asked > 0; }

static void test_interrupt(void) {
    struct calls *x = calloc(1, sizeof *x);
    add(x, SMM_OP_DET, SMM_F64, 1, 2, 2, 1);
    for (int i = 0; i < 8; i++) {
        add(x, SMM_OP_EIGVALSH, SMM_F64, 1, 32, 32, 1);
        x->call[x->count - 1].batch = 100000; /* the same matrix: long */
        x->call[x->count - 1].outer = NULL;
        for (int j = 0; j < SMM_MAX_OPERANDS; j++) x->call[x->count - 1].operand[j].batch = 0;
    }
    smm_set_num_threads(1);
    smm_set_interrupt(stop_now);
    CHECK(smm_run_many(x->call, x->count, NULL) == SMM_ERR_STOPPED && asked == 1, "asked %d times", asked);
    smm_set_interrupt(NULL);
    smm_set_num_threads(0);
    release(x);
}

static void test_explained(void) {
    struct calls *x = calloc(1, sizeof *x);
    for (int i = 0; i < 40; i++) add(x, SMM_OP_SOLVE, SMM_F64, 100, 8 + i % 3, 8 + i % 3, 1);
    smm_plan_info one, all;
    double flops = 0;
    smm_set_num_threads(3);
    for (int i = 0; i < 40; i++) {
        smm_explain(&x->call[i], &one);
        flops += one.flops;
    }
    CHECK(one.threads == 1, "a call on %d threads", one.threads);
    CHECK(smm_explain_many(x->call, 40, &all) == SMM_OK && all.threads == 3, "all on %d threads", all.threads);
    CHECK(all.flops == flops, "%g flops, not %g", all.flops, flops);
    CHECK(smm_explain_many(NULL, 0, &all) == SMM_OK && !all.kernel && all.flops == 0, "no calls");
    smm_set_num_threads(0);
    release(x);
}

int main(int count, char **arguments) {
    static const struct test tests[] = {
        {"many calls are as each of them", test_random_calls},
        {"products in parts", test_large_products},
        {"calls that are refused", test_refused},
        {"an interrupt", test_interrupt},
        {"the plan of many calls", test_explained},
    };
    if (count > 1 && !strcmp(arguments[1], "quick")) rounds = 5;
    return run_tests(tests, sizeof tests / sizeof *tests);
}
