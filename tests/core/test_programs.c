/* test_programs.c: programs of the C core, against their steps as separate calls; also an example of how to write one.
 */
#include <math.h>
#include <string.h>

#include "harness.h"
#include "../../csrc/smallmm.h"

/* y = A^-1 (A^T b) + c for each of many systems: a product, a solve and a sum, the last with a c that all share. */
enum { N = 3, MAX = 1000 };
enum { A, B, C, Y, INFO, PRODUCT, SOLUTION, VALUES };

static double a[MAX][N][N], b[MAX][N], c[N], y[MAX][N], product[MAX][N], solution[MAX][N];
static int32_t info[MAX];

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

static const smm_program program = {VALUES, 3, values, steps, NULL};
static smm_planned *planned;

static void fill(void) {
    for (int q = 0; q < MAX; q++)
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
    const intptr_t batches[] = {0, 1, 2, 15, 16, 17, 100, MAX};
    for (size_t i = 0; i < sizeof batches / sizeof *batches; i++) {
        const intptr_t batch = batches[i];
        void *const data[VALUES] = {[A] = a, [B] = b, [Y] = y, [INFO] = info};
        bool failed[3] = {false};
        memset(y, 0, sizeof y);
        CHECK(smm_run_program(planned, batch, data, NULL, NULL, failed) == SMM_OK, "batch %d", (int)batch);
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
    CHECK(smm_run_program(planned, BATCH, data, &outer, NULL, NULL) == SMM_OK, "repeated");
    for (int r = 0; r < REPEATS; r++) {
        void *const part[VALUES] = {[A] = a[BATCH * (r + 1)], [B] = b, [Y] = y, [INFO] = info};
        CHECK(smm_run_program(planned, BATCH, part, NULL, NULL, NULL) == SMM_OK, "repetition %d", r);
        CHECK(!memcmp(y, repeated[r], sizeof repeated[r]), "bits of repetition %d", r);
    }
}

/* The solution of a time is b of the next: a loop has the bits of a run for each time, and notes when a matrix first
 * was singular. Every second time y is written, and at the last. */
static void test_loop(void) {
    enum { TIMES = 7, EVERY = 2, KEPT = 4, BATCH = 400 };
    static double x[BATCH][N], last[BATCH][N], kept[KEPT][BATCH][N], moving[TIMES][BATCH][N][N];
    static int32_t failures[BATCH][3], expected[BATCH][3];
    enum { NEXT = VALUES };
    smm_value own[VALUES + 1];
    smm_step its[4];
    memcpy(own, values, sizeof values);
    memcpy(its, steps, sizeof steps);
    own[INFO].batch = sizeof failures[0];
    own[NEXT] = (smm_value){.kind = SMM_OUTPUT, .batch = sizeof last[0]};
    its[3] = steps[2]; /* 0 + y: a carry of its own */
    its[3].value[0] = NEXT, its[3].value[1] = SOLUTION, its[3].value[2] = C;
    const smm_carry carry = {NEXT, B, sizeof x[0]};
    const smm_loop loop = {1, &carry, INFO, 1};
    const smm_program all = {VALUES + 1, 4, own, its, &loop};
    smm_planned *looped;
    CHECK(smm_plan_program(&all, &looped, NULL) == SMM_OK, "a loop is planned");
    for (int t = 0; t < TIMES; t++)
        for (int q = 0; q < BATCH; q++) memcpy(moving[t][q], a[(q + 11 * t) % BATCH], sizeof a[0]);
    memcpy(x, b, sizeof x);
    const intptr_t stride[VALUES + 1] = {[A] = sizeof moving[0], [Y] = sizeof kept[0]};
    const smm_times times = {TIMES, EVERY, stride};
    void *const data[VALUES + 1] = {[A] = moving, [B] = x, [Y] = kept, [INFO] = failures, [NEXT] = last};
    CHECK(smm_run_program(looped, BATCH, data, NULL, NULL, NULL) == SMM_ERR_ARGUMENT, "without times");
    CHECK(smm_run_program(planned, BATCH, data, NULL, &times, NULL) == SMM_ERR_ARGUMENT, "times of no loop");
    CHECK(smm_run_program(looped, BATCH, data, NULL, &times, NULL) == SMM_OK, "a loop");
    for (int t = 0; t < TIMES; t++) {
        void *const one[VALUES] = {[A] = moving[t], [B] = x, [Y] = y, [INFO] = info};
        CHECK(smm_run_program(planned, BATCH, one, NULL, NULL, NULL) == SMM_OK, "time %d", t);
        memcpy(x, y, sizeof x);
        if ((TIMES - 1 - t) % EVERY == 0) CHECK(!memcmp(kept[t / EVERY], y, sizeof x), "what is kept of time %d", t);
        for (int q = 0; q < BATCH; q++)
            if (info[q] && !expected[q][1]) expected[q][0] = info[q], expected[q][1] = t + 1;
    }
    CHECK(!memcmp(last, x, sizeof x), "what is carried");
    CHECK(!memcmp(failures, expected, sizeof expected) && failures[7][1] == 1, "failures");
    smm_free_program(looped);
    const smm_carry wrong = {Y, PRODUCT, sizeof x[0]};
    const smm_loop none = {1, &wrong, -1, 0};
    const smm_program other = {VALUES + 1, 4, own, its, &none};
    CHECK(smm_plan_program(&other, &looped, NULL) == SMM_ERR_ARGUMENT, "a temporary is not carried");
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
    wrong[2].function = SMM_FN_FLOOR;
    CHECK(smm_plan_program(&other, &none, NULL) == SMM_ERR_ARGUMENT, "a function not of complex numbers");
    memcpy(wrong, steps, sizeof wrong);
    wrong[2].kind = SMM_STEP_CONVERT;
    wrong[2].to = SMM_C64;
    CHECK(smm_plan_program(&other, &none, NULL) == SMM_ERR_ARGUMENT, "complex numbers are not converted");
    memcpy(wrong, steps, sizeof wrong);
    wrong[1].call.n = SMM_MAX_ORDER + 1;
    CHECK(smm_plan_program(&other, &none, NULL) == SMM_ERR_ORDER, "an order without kernel");
    CHECK(smm_plan_program(NULL, &none, NULL) == SMM_ERR_ARGUMENT, "no program");
    CHECK(smm_run_program(NULL, 1, NULL, NULL, NULL, NULL) == SMM_ERR_ARGUMENT, "no plan");
    smm_free_program(NULL);
}

/* y = x where x is not 0, else x + 1 in a step that is left out of tiles without a 0: of the others it is not. */
static void test_left_out(void) {
    enum { X, Z, T, MORE, RESULT, ALL, COUNT = 4000 };
    static double x[COUNT], z[COUNT], one = 1;
    const smm_value numbers[ALL] = {
        [X] = {.kind = SMM_INPUT, .batch = sizeof *x},        [Z] = {.kind = SMM_CONSTANT, .data = &one},
        [T] = {.kind = SMM_TEMPORARY, .batch = sizeof *x}, /* not used */
        [MORE] = {.kind = SMM_TEMPORARY, .batch = sizeof *x}, [RESULT] = {.kind = SMM_OUTPUT, .batch = sizeof *z},
    };
    const smm_call number = {.dtype = SMM_F64, .m = 1, .n = 1};
    smm_step own[3] = {
        {.kind = SMM_STEP_UNLESS, .skips = 1, .call = number, .value = {X}},
        {.kind = SMM_STEP_MAP, .function = SMM_FN_ADD, .call = number, .value = {MORE, X, Z}},
        {.kind = SMM_STEP_MAP, .function = SMM_FN_WHERE, .call = number, .value = {RESULT, X, X, MORE}},
    };
    const smm_program some = {ALL, 3, numbers, own, NULL};
    smm_planned *its;
    smm_program_info about;
    CHECK(smm_plan_program(&some, &its, &about) == SMM_OK && about.tile < COUNT / 2, "planned");
    for (int zeros = 0; zeros <= 3; zeros++) {
        for (int q = 0; q < COUNT; q++) x[q] = q + 1;
        if (zeros & 1) x[0] = x[COUNT - 1] = 0;
        if (zeros & 2) x[COUNT / 2] = 0;
        void *const data[ALL] = {[X] = x, [RESULT] = z};
        CHECK(smm_run_program(its, COUNT, data, NULL, NULL, NULL) == SMM_OK, "run");
        bool right = true;
        for (int q = 0; q < COUNT; q++) right &= z[q] == (x[q] != 0 ? x[q] : 1);
        CHECK(right, "every number is right, %d", zeros);
    }
    smm_free_program(its);
    own[0].skips = 3;
    CHECK(smm_plan_program(&some, &its, NULL) == SMM_ERR_ARGUMENT, "more steps than there are");
    own[0].skips = 1;
    own[0].call.dtype = SMM_C128;
    CHECK(smm_plan_program(&some, &its, NULL) == SMM_ERR_ARGUMENT, "truth is real");
}

/* More matrices than can be counted, and strides whose sum is too large. */
static void test_overflow(void) {
    enum { DIMS = 3 };
    const intptr_t many = (intptr_t)1 << 40, extent[DIMS] = {many, many, 0}, stride[DIMS * VALUES] = {0};
    void *const data[VALUES] = {[A] = a, [B] = b, [Y] = y, [INFO] = info};
    for (int dims = 2; dims <= DIMS; dims++) {
        const smm_repeats outer = {dims, extent, stride};
        const smm_status status = smm_run_program(planned, 1, data, &outer, NULL, NULL);
        CHECK(status == (dims == DIMS ? SMM_OK : SMM_ERR_ARGUMENT), "%d dimensions: %d", dims, status);
    }
    smm_outer outer = {.dims = 2, .extent = {many, many}};
    smm_call call = steps[1].call;
    call.batch = 1;
    call.outer = &outer;
    call.solve.a.data = a, call.solve.b.data = b, call.solve.x.data = y;
    CHECK(smm_run(&call) == SMM_ERR_ARGUMENT, "a call");
    smm_value far[VALUES];
    memcpy(far, values, sizeof far);
    far[A].batch = far[B].batch = INTPTR_MAX - 7;
    const smm_program other = {VALUES, 3, far, steps, NULL};
    smm_planned *its;
    smm_program_info about;
    CHECK(smm_plan_program(&other, &its, &about) == SMM_OK && about.tile > 0 && about.bytes > 1e19, "far apart");
    smm_free_program(its);
}

/* --- conversions ---------------------------------------------------------------------------------------- */

static const char *const names[SMM_TYPES] = {
#define ROW(x, NAME, name, ...) #name,
    SMM_DTYPES(ROW, _) SMM_INTEGERS(ROW, _)
#undef ROW
        "bool"};
static const intptr_t sizes[SMM_TYPES] = {
#define ROW(x, NAME, name, in_memory, ...) sizeof(in_memory),
    SMM_DTYPES(ROW, _) SMM_INTEGERS(ROW, _)
#undef ROW
        sizeof(bool)};

/* 0, 1, 2 or 3 as an element, of a bool 0 or 1 */
static void put_small(void *to, int type, int x) {
    static const uint16_t f16[] = {0, 0x3c00, 0x4000, 0x4200}, bf16[] = {0, 0x3f80, 0x4000, 0x4040};
    switch (type) {
    case SMM_F16: memcpy(to, &f16[x], sizeof *f16); break;
    case SMM_BF16: memcpy(to, &bf16[x], sizeof *bf16); break;
#define ROW(_, NAME, name, in_memory, ...) \
    case SMM_TYPE_##NAME: memcpy(to, &(in_memory){(in_memory)x}, sizeof(in_memory)); break;
        SMM_INTEGERS(ROW, _)
#undef ROW
    case SMM_TYPE_BOOL: *(uint8_t *)to = x != 0; break;
    case SMM_F32: memcpy(to, &(float){(float)x}, sizeof(float)); break;
    default: memcpy(to, &(double){x}, sizeof(double));
    }
}

/* Between all types, of dense elements and of spaced ones. */
static void test_conversions(void) {
    enum { COUNT = 600 };
    static _Alignas(16) char from[3 * COUNT * 8], to[3 * COUNT * 8], expected[3 * COUNT * 8];
    for (int pair = 0; pair < SMM_TYPES * SMM_TYPES * 4; pair++) {
        const int source = pair / 4 % SMM_TYPES, target = pair / 4 / SMM_TYPES;
        if (source == SMM_C64 || source == SMM_C128 || target == SMM_C64 || target == SMM_C128) continue;
        const intptr_t step = sizes[source] * (pair & 1 ? 3 : 1), target_step = sizes[target] * (pair & 2 ? 2 : 1);
        memset(to, 0, sizeof to);
        memset(expected, 0, sizeof expected);
        for (int i = 0; i < COUNT; i++) {
            put_small(from + i * step, source, i % 4);
            put_small(expected + i * target_step, target, source == SMM_TYPE_BOOL ? i % 4 != 0 : i % 4);
        }
        const smm_value both[] = {{SMM_INPUT, 1, NULL}, {SMM_OUTPUT, 1, NULL}};
        const smm_step convert = {.kind = SMM_STEP_CONVERT,
                                  .to = target,
                                  .from = source,
                                  .call = {.m = 1, .n = COUNT, .operand = {{.col = target_step}, {.col = step}}},
                                  .value = {1, 0}};
        const smm_program one = {2, 1, both, &convert, NULL};
        smm_planned *its;
        CHECK(smm_plan_program(&one, &its, NULL) == SMM_OK, "%s to %s", names[source], names[target]);
        CHECK(smm_run_program(its, 1, (void *const[]){from, to}, NULL, NULL, NULL) == SMM_OK, "it runs");
        CHECK(!memcmp(to, expected, sizeof to), "%s to %s, %d", names[source], names[target], pair & 3);
        smm_free_program(its);
    }
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
        {"a loop", test_loop},
        {"wrong programs", test_wrong},
        {"conversions", test_conversions},
        {"overflow", test_overflow},
        {"steps that are left out", test_left_out},
    };
    fill();
    const int failed = run_tests(tests, sizeof tests / sizeof *tests);
    smm_free_program(planned);
    return failed;
}
