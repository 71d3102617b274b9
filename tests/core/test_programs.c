/* test_programs.c: programs of the C core, against their steps as separate calls; also an example of how to write one.
 */
#include <math.h>
#include <string.h>

#include "harness.h"
#include "../../csrc/smallmm.h"

/* y = A^-1 (A^T b) + c for each of many systems: a product, a solve and a sum, the last with a c that all share. */
enum { N = 3, MOST = 1000 };
enum { A, B, C, Y, INFO, PRODUCT, SOLUTION, VALUES };

static double a[MOST][N][N], b[MOST][N], c[N], y[MOST][N], product[MOST][N], solution[MOST][N];
static int32_t info[MOST];

enum { ROW = N * sizeof(double), COLUMN = sizeof(double) };

static const smm_value values[VALUES] = {
    [A] = {.kind = SMM_INPUT, .batch = sizeof a[0]},
    [B] = {.kind = SMM_INPUT, .batch = sizeof b[0]},
    [C] = {.kind = SMM_CONSTANT, .data = c},
    [Y] = {.kind = SMM_OUTPUT, .batch = sizeof y[0]},
    [INFO] = {.kind = SMM_OUTPUT, .batch = sizeof info[0]},
    [PRODUCT] = {.kind = SMM_TEMPORARY, .batch = sizeof product[0]},
    [SOLUTION] = {.kind = SMM_TEMPORARY, .batch = sizeof solution[0]},
};

static const smm_step steps[] = {
    {.kind = SMM_STEP_CALL,
     .call = {.op = SMM_OP_MATMUL,
              .dtype = SMM_F64,
              .m = N,
              .n = 1,
              .k = N,
              .matmul = {.a = {.row = COLUMN, .col = ROW}, /* transposed */
                         .b = {.row = COLUMN, .col = COLUMN},
                         .c = {.row = COLUMN, .col = COLUMN}}},
     .value = {A, B, -1, -1, PRODUCT}},
    {.kind = SMM_STEP_CALL,
     .call = {.op = SMM_OP_SOLVE,
              .dtype = SMM_F64,
              .n = N,
              .k = 1,
              .solve = {.a = {.row = ROW, .col = COLUMN},
                        .b = {.row = COLUMN, .col = COLUMN},
                        .x = {.row = COLUMN, .col = COLUMN}}},
     .value = {A, PRODUCT, SOLUTION, INFO}},
    {.kind = SMM_STEP_MAP,
     .function = SMM_FN_ADD,
     .call = {.dtype = SMM_F64,
              .m = N,
              .n = 1,
              .operand = {{.row = COLUMN, .col = COLUMN},
                          {.row = COLUMN, .col = COLUMN},
                          {.row = COLUMN, .col = COLUMN}}},
     .value = {Y, SOLUTION, C}},
};

static const smm_program program = {VALUES, 3, values, steps};
static smm_planned *planned;

static void fill(void) {
    for (int q = 0; q < MOST; q++)
        for (int i = 0; i < N; i++) {
            b[q][i] = (double)(random_bits() >> 11) * 0x1p-53 - 0.5;
            for (int j = 0; j < N; j++) a[q][i][j] = (double)(random_bits() >> 11) * 0x1p-53 - 0.5;
        }
    for (int i = 0; i < N; i++) c[i] = i + 1;
    memset(a[7], 0, sizeof a[7]); /* is singular */
}

/* The same as separate calls, to be compared with bit by bit. */
static void run_separately(intptr_t batch) {
    smm_call first = steps[0].call, second = steps[1].call;
    first.batch = second.batch = batch;
    first.matmul.a.data = second.solve.a.data = a;
    first.matmul.a.batch = second.solve.a.batch = sizeof a[0];
    first.matmul.b.data = b;
    first.matmul.b.batch = sizeof b[0];
    first.matmul.c.data = second.solve.b.data = product;
    first.matmul.c.batch = second.solve.b.batch = sizeof product[0];
    second.solve.x.data = solution;
    second.solve.x.batch = sizeof solution[0];
    CHECK(smm_run(&first) == SMM_OK, "the product");
    CHECK(smm_run(&second) == SMM_OK, "the solve");
    for (intptr_t q = 0; q < batch; q++)
        for (int i = 0; i < N; i++) solution[q][i] += c[i];
}

static bool is_same(double x, double z) { return x == z || (isnan(x) && isnan(z)); }

static void test_bits(void) {
    const intptr_t batches[] = {0, 1, 2, 15, 16, 17, 100, MOST};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        const intptr_t batch = batches[i];
        void *const data[VALUES] = {[A] = a, [B] = b, [Y] = y, [INFO] = info};
        bool failed[3] = {false};
        memset(y, 0, sizeof y);
        CHECK(smm_run_program(planned, batch, data, NULL, failed) == SMM_OK, "batch %d", (int)batch);
        run_separately(batch);
        for (intptr_t q = 0; q < batch; q++) {
            for (int j = 0; j < N; j++) CHECK(is_same(y[q][j], solution[q][j]), "matrix %d of %d", (int)q, (int)batch);
            CHECK((info[q] != 0) == (q == 7), "info of matrix %d", (int)q);
        }
        CHECK(failed[1] == (batch > 7) && !failed[0] && !failed[2], "failures in a batch of %d", (int)batch);
    }
}

/* The matrices once more, backwards, as a second batch dimension. */
static void test_outer_dimensions(void) {
    enum { BATCH = 100, REPEATS = 3 };
    static double repeated[REPEATS][BATCH][N];
    static int32_t its_info[REPEATS][BATCH];
    void *const data[VALUES] = {[A] = a[BATCH], [B] = b, [Y] = repeated, [INFO] = its_info};
    const intptr_t extent[] = {REPEATS};
    const intptr_t stride[VALUES] = {[A] = BATCH * sizeof a[0], [Y] = sizeof repeated[0], [INFO] = sizeof its_info[0]};
    const smm_repeats outer = {1, extent, stride};
    CHECK(smm_run_program(planned, BATCH, data, &outer, NULL) == SMM_OK, "repeated");
    for (int r = 0; r < REPEATS; r++) {
        void *const part[VALUES] = {[A] = a[BATCH * (r + 1)], [B] = b, [Y] = y, [INFO] = info};
        CHECK(smm_run_program(planned, BATCH, part, NULL, NULL) == SMM_OK, "repetition %d", r);
        CHECK(!memcmp(y, repeated[r], sizeof repeated[r]), "bits of repetition %d", r);
    }
}

static void test_wrong(void) {
    smm_planned *none;
    smm_step wrong[3];
    smm_program other = program;
    other.step = wrong;
    memcpy(wrong, steps, sizeof wrong);
    wrong[2].value[1] = VALUES;
    CHECK(smm_plan_program(&other, &none, NULL) == SMM_ERR_ARGUMENT && !none, "a value that is none");
    memcpy(wrong, steps, sizeof wrong);
    wrong[2].function = SMM_FUNCTIONS;
    CHECK(smm_plan_program(&other, &none, NULL) == SMM_ERR_ARGUMENT, "a function that is none");
    memcpy(wrong, steps, sizeof wrong);
    wrong[2].call.dtype = SMM_C64;
    wrong[2].function = SMM_FN_EXP;
    CHECK(smm_plan_program(&other, &none, NULL) == SMM_ERR_ARGUMENT, "a function not of complex numbers");
    memcpy(wrong, steps, sizeof wrong);
    wrong[2].kind = SMM_STEP_CONVERT;
    wrong[2].to = SMM_C64;
    CHECK(smm_plan_program(&other, &none, NULL) == SMM_ERR_ARGUMENT, "complex numbers are not converted");
    memcpy(wrong, steps, sizeof wrong);
    wrong[1].call.n = 40;
    CHECK(smm_plan_program(&other, &none, NULL) == SMM_ERR_ORDER, "an order without kernel");
    CHECK(smm_plan_program(NULL, &none, NULL) == SMM_ERR_ARGUMENT, "no program");
    CHECK(smm_run_program(NULL, 1, NULL, NULL, NULL) == SMM_ERR_ARGUMENT, "no plan");
    smm_free_program(NULL);
}

static void test_plan(void) {
    smm_program_info about;
    CHECK(smm_plan_program(&program, &planned, &about) == SMM_OK, "plan");
    CHECK(about.tile > 0 && about.temporaries == 2 * N * sizeof(double), "what the plan says");
    CHECK(smm_kernel_of_step(planned, 1) && !smm_kernel_of_step(planned, 2), "kernels");
}

int main(void) {
    static const struct test tests[] = {
        {"a program is planned", test_plan},
        {"its bits are those of separate calls", test_bits},
        {"outer dimensions", test_outer_dimensions},
        {"wrong programs", test_wrong},
    };
    fill();
    const int failed = run_tests(tests, sizeof tests / sizeof *tests);
    smm_free_program(planned);
    return failed;
}
