/* test_check.c: dense stacks by smm_stack, and what smm_check finds. */
#include <string.h>

#include "harness.h"
#include "../../csrc/smallmm.h"

enum { BATCH = 3, M = 4, N = 2, K = 2 };

static double a[BATCH][M][N], b[BATCH][M][K], x[BATCH][N][K], norms[BATCH][K];
static int32_t rank[BATCH], info[BATCH];

static smm_call least_squares(void) {
    return (smm_call){
        .op = SMM_OP_LSTSQ,
        .dtype = SMM_F64,
        .batch = BATCH,
        .m = M,
        .n = N,
        .k = K,
        .lstsq =
            {
                .a = smm_stack(a, sizeof a[0][0][0], M, N),
                .b = smm_stack(b, sizeof b[0][0][0], M, K),
                .x = smm_stack(x, sizeof x[0][0][0], N, K),
                .residuals = smm_stack(norms, sizeof norms[0][0], K, 1),
                .rank = smm_stack(rank, sizeof rank[0], 1, 1),
                .info = smm_stack(info, sizeof info[0], 1, 1),
            },
    };
}

static void test_stacks(void) {
    for (int q = 0; q < BATCH; q++)
        for (int i = 0; i < M; i++)
            for (int j = 0; j < N; j++) {
                a[q][i][j] = i == j ? q + 2 : 0;
                b[q][i][j] = i < N ? (q + 2) * (10 * q + 2 * i + j) : 0;
            }
    const smm_call call = least_squares();
    CHECK(smm_check(&call) == SMM_OK && smm_run(&call) == SMM_OK, "least squares");
    for (int q = 0; q < BATCH; q++)
        for (int i = 0; i < N; i++)
            for (int j = 0; j < K; j++)
                CHECK(x[q][i][j] == 10 * q + 2 * i + j && !info[q] && rank[q] == N, "system %d: %g", q, x[q][i][j]);
    const smm_operand stack = smm_stack(a, 8, M, N);
    CHECK(stack.data == a && stack.batch == 64 && stack.row == 16 && stack.col == 8, "strides");
}

static void test_mistakes(void) {
    smm_call call = least_squares();
    call.m = 0;
    CHECK(smm_check(&call) == SMM_ERR_EMPTY && smm_run(&call) == SMM_OK, "m is 0");
    call = least_squares();
    call.batch = 0;
    CHECK(smm_check(&call) == SMM_ERR_EMPTY, "a batch of 0");
    const smm_outer none = {.dims = 1};
    call = least_squares();
    call.outer = &none;
    CHECK(smm_check(&call) == SMM_ERR_EMPTY, "an outer dimension of 0");

    call = least_squares();
    call.lstsq.x.data = &b[BATCH - 1][M - 1][K - 1];
    CHECK(smm_check(&call) == SMM_ERR_OVERLAP, "an output that begins in the last element of an input");
    call.lstsq.x = smm_stack(a, 8, N, K);
    CHECK(smm_check(&call) == SMM_ERR_OVERLAP, "an output that is an input");
    call = least_squares();
    call.lstsq.info.data = rank;
    CHECK(smm_check(&call) == SMM_ERR_OVERLAP, "an output that is another one");
    call = least_squares();
    call.lstsq.x.data = &x[BATCH - 1], call.lstsq.x.batch = -(intptr_t)sizeof x[0];
    CHECK(smm_check(&call) == SMM_OK, "matrices from the last to the first");
    call.lstsq.b.data = &x[0];
    CHECK(smm_check(&call) == SMM_ERR_OVERLAP, "an input in such an output");

    call = least_squares();
    call.op = SMM_OPS;
    CHECK(smm_check(&call) == SMM_ERR_OPERATION && smm_run(&call) == SMM_ERR_OPERATION, "no operation");
    call = least_squares();
    call.dtype = SMM_DTYPE_COUNT;
    CHECK(smm_check(&call) == SMM_ERR_OPERATION && smm_run(&call) == SMM_ERR_OPERATION, "no type");
    call = least_squares();
    call.lstsq.a.data = NULL;
    CHECK(smm_check(&call) == SMM_ERR_ARGUMENT && smm_check(NULL) == SMM_ERR_ARGUMENT, "no A, no call");
}

/* A system and its solution side by side: they lie in turn, unless one is too long for its place. */
static void test_structs(void) {
    struct {
        double a[N][N], b[N][K], x[N][K];
        int32_t info;
    } system[BATCH] = {0};
    for (int q = 0; q < BATCH; q++) system[q].a[0][0] = system[q].a[1][1] = 1, system[q].b[1][0] = q;
    smm_call call = {.op = SMM_OP_SOLVE, .dtype = SMM_F64, .batch = BATCH, .n = N, .k = K};
    call.solve.a = smm_stack(system->a, 8, N, N);
    call.solve.b = smm_stack(system->b, 8, N, K);
    call.solve.x = smm_stack(system->x, 8, N, K);
    call.solve.info = smm_stack(&system->info, 4, 1, 1);
    for (int i = 0; i < 4; i++) call.operand[i].batch = sizeof system[0];
    CHECK(smm_check(&call) == SMM_OK && smm_run(&call) == SMM_OK, "an array of structs");
    for (int q = 0; q < BATCH; q++) CHECK(system[q].x[1][0] == q && !system[q].info, "struct %d", q);
    call.solve.x.row += 8;
    CHECK(smm_check(&call) == SMM_ERR_OVERLAP, "rows that reach into info");
}

static void test_texts(void) {
    for (int i = SMM_OK; i <= SMM_ERR_OVERLAP; i++) {
        CHECK(strcmp(smm_status_text((smm_status)i), "unknown status"), "status %d has a text", i);
        for (int j = SMM_OK; j < i; j++)
            CHECK(strcmp(smm_status_text((smm_status)i), smm_status_text((smm_status)j)), "%d has that of %d", i, j);
    }
    CHECK(!strcmp(smm_status_text((smm_status)(SMM_ERR_OVERLAP + 1)), "unknown status"), "a status that is none");
}

int main(void) {
    static const struct test tests[] = {
        {"dense stacks", test_stacks},
        {"mistakes", test_mistakes},
        {"arrays of structs", test_structs},
        {"a text for each status", test_texts},
    };
    return run_tests(tests, sizeof tests / sizeof *tests);
}
