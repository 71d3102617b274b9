/* test_linalg.c: the factorizations and what they solve, smm_run against smm_reference: every operation, instruction
 * set, dtype, order and layout.
 *
 * With FMA every output must equal the reference to the bit, NaN aside; without it (portable on x86-64) good matrices
 * must be within a bound. Every stack lies between two inaccessible pages, and no byte between an output's elements may
 * change. "quick" as first argument: fewer cases, for valgrind and emulators. */
#define _GNU_SOURCE
#include "stacks.h"

static bool quick;

/* --- Operations and their operands --------------------------------------------------------------------- */

/* What the sizes of a call are. */
enum sizes { SQUARE, RIGHT_HAND_SIDES, TRIDIAGONAL, BANDED, REDUCED, COMPLETE, LEAST_SQUARES };

static const struct operation {
    smm_op op;
    unsigned form;
    enum sizes sizes;
    const char *name;
} operations[] = {
    {SMM_OP_LU, 0, REDUCED, "LU"},
    {SMM_OP_LU_SOLVE, 0, RIGHT_HAND_SIDES, "LU_SOLVE"},
    {SMM_OP_LU_SOLVE, SMM_TRANSPOSED, RIGHT_HAND_SIDES, "LU_SOLVE transposed"},
    {SMM_OP_SOLVE, 0, RIGHT_HAND_SIDES, "SOLVE"},
    {SMM_OP_INV, 0, SQUARE, "INV"},
    {SMM_OP_DET, 0, SQUARE, "DET"},
    {SMM_OP_SLOGDET, 0, SQUARE, "SLOGDET"},
    {SMM_OP_CHOLESKY, 0, SQUARE, "CHOLESKY"},
    {SMM_OP_CHOLESKY, SMM_UPPER, SQUARE, "CHOLESKY upper"},
    {SMM_OP_CHO_SOLVE, 0, RIGHT_HAND_SIDES, "CHO_SOLVE"},
    {SMM_OP_CHO_SOLVE, SMM_UPPER, RIGHT_HAND_SIDES, "CHO_SOLVE upper"},
    {SMM_OP_SOLVE_TRIANGULAR, 0, RIGHT_HAND_SIDES, "SOLVE_TRIANGULAR"},
    {SMM_OP_SOLVE_TRIANGULAR, SMM_UPPER, RIGHT_HAND_SIDES, "SOLVE_TRIANGULAR upper"},
    {SMM_OP_SOLVE_TRIANGULAR, SMM_UNIT, RIGHT_HAND_SIDES, "SOLVE_TRIANGULAR unit"},
    {SMM_OP_SOLVE_TRIANGULAR, SMM_UPPER | SMM_UNIT, RIGHT_HAND_SIDES, "SOLVE_TRIANGULAR upper unit"},
    {SMM_OP_QR, 0, REDUCED, "QR reduced"},
    {SMM_OP_QR, 0, COMPLETE, "QR complete"},
    {SMM_OP_QR_R, 0, REDUCED, "QR_R"},
    {SMM_OP_QR_RAW, 0, REDUCED, "QR_RAW"},
    {SMM_OP_LSTSQ, 0, LEAST_SQUARES, "LSTSQ"},
    {SMM_OP_EIGH, 0, SQUARE, "EIGH"},
    {SMM_OP_EIGH, SMM_UPPER, SQUARE, "EIGH upper"},
    {SMM_OP_EIGVALSH, 0, SQUARE, "EIGVALSH"},
    {SMM_OP_EIGVALSH, SMM_UPPER, SQUARE, "EIGVALSH upper"},
    {SMM_OP_EIG, 0, SQUARE, "EIG"},
    {SMM_OP_EIGVALS, 0, SQUARE, "EIGVALS"},
    {SMM_OP_SCHUR, 0, SQUARE, "SCHUR"},
    {SMM_OP_SQRTM, 0, SQUARE, "SQRTM"},
    {SMM_OP_EXPM, 0, SQUARE, "EXPM"},
    {SMM_OP_SVD, 0, REDUCED, "SVD"},
    {SMM_OP_SVD_FULL, 0, REDUCED, "SVD_FULL"},
    {SMM_OP_SVDVALS, 0, REDUCED, "SVDVALS"},
    {SMM_OP_SOLVE_POS, 0, RIGHT_HAND_SIDES, "SOLVE_POS"},
    {SMM_OP_SOLVE_POS, SMM_UPPER, RIGHT_HAND_SIDES, "SOLVE_POS upper"},
    {SMM_OP_SOLVE_SYM, 0, RIGHT_HAND_SIDES, "SOLVE_SYM"},
    {SMM_OP_SOLVE_SYM, SMM_UPPER, RIGHT_HAND_SIDES, "SOLVE_SYM upper"},
    {SMM_OP_SOLVE_SYM, SMM_SYMMETRIC, RIGHT_HAND_SIDES, "SOLVE_SYM symmetric"},
    {SMM_OP_SOLVE_SYM, SMM_SYMMETRIC | SMM_UPPER, RIGHT_HAND_SIDES, "SOLVE_SYM symmetric upper"},
    {SMM_OP_LDL, 0, SQUARE, "LDL"},
    {SMM_OP_LDL, SMM_UPPER, SQUARE, "LDL upper"},
    {SMM_OP_LDL, SMM_SYMMETRIC, SQUARE, "LDL symmetric"},
    {SMM_OP_LDL, SMM_SYMMETRIC | SMM_UPPER, SQUARE, "LDL symmetric upper"},
    {SMM_OP_LDL_SOLVE, 0, RIGHT_HAND_SIDES, "LDL_SOLVE"},
    {SMM_OP_LDL_SOLVE, SMM_UPPER, RIGHT_HAND_SIDES, "LDL_SOLVE upper"},
    {SMM_OP_LDL_SOLVE, SMM_SYMMETRIC, RIGHT_HAND_SIDES, "LDL_SOLVE symmetric"},
    {SMM_OP_LDL_SOLVE, SMM_SYMMETRIC | SMM_UPPER, RIGHT_HAND_SIDES, "LDL_SOLVE symmetric upper"},
    {SMM_OP_SOLVE_TRIDIAGONAL, 0, TRIDIAGONAL, "SOLVE_TRIDIAGONAL"},
    {SMM_OP_SOLVE_TRIDIAGONAL, SMM_UNPIVOTED, TRIDIAGONAL, "SOLVE_TRIDIAGONAL unpivoted"},
    {SMM_OP_SOLVE_BANDED, 0, BANDED, "SOLVE_BANDED"},
    {SMM_OP_SOLVEH_BANDED, 0, BANDED, "SOLVEH_BANDED"},
    {SMM_OP_SOLVEH_BANDED, SMM_UPPER, BANDED, "SOLVEH_BANDED upper"},
    {SMM_OP_LU_RCOND, 0, SQUARE, "LU_RCOND"},
    {SMM_OP_LU_RCOND, SMM_TRANSPOSED, SQUARE, "LU_RCOND transposed"},
    {SMM_OP_BACKWARD_ERROR, 0, RIGHT_HAND_SIDES, "BACKWARD_ERROR"},
    {SMM_OP_BACKWARD_ERROR, SMM_NORMWISE | SMM_EXTRA, RIGHT_HAND_SIDES, "BACKWARD_ERROR normwise extra"},
    {SMM_OP_REFINE, 0, RIGHT_HAND_SIDES, "REFINE"},
    {SMM_OP_REFINE, SMM_EXTRA, RIGHT_HAND_SIDES, "REFINE extra"},
    {SMM_OP_SOLVE_MIXED, 0, RIGHT_HAND_SIDES, "SOLVE_MIXED"},
    {SMM_OP_SOLVE_MIXED, SMM_POSITIVE, RIGHT_HAND_SIDES, "SOLVE_MIXED positive"},
};
enum { OPERATIONS = sizeof operations / sizeof *operations };

/* Whether m is a size of its own. */
static bool is_rectangular(const struct operation *o) { return o->sizes >= BANDED; }
static bool has_diagonals(const struct operation *o) { return o->sizes == TRIDIAGONAL || o->sizes == BANDED; }

enum { A }; /* the first operand of all */

static struct arena arenas[SMM_MAX_OPERANDS];

static int count_of(smm_op op) { return smm_operations[op].count; }
static const smm_operand_row *row_of(smm_op op, int i) { return &smm_operations[op].operand[i]; }
static bool is_output(smm_op op, int i) { return row_of(op, i)->direction & SMM_WRITTEN; }
static bool is_integer(smm_op op, int i) { return row_of(op, i)->element == SMM_INT32; }
static bool is_one_number(smm_op op, int i) {
    return row_of(op, i)->direction != SMM_OPTIONAL_IN && row_of(op, i)->rows == SMM_SIZE_ONE &&
           row_of(op, i)->cols == SMM_SIZE_ONE;
}
/* Some output has an element for each right-hand side. */
static bool has_column_results(smm_op op) {
    bool has = false;
    for (int i = 0; i < count_of(op); i++)
        has |= is_output(op, i) && row_of(op, i)->rows == SMM_SIZE_K && row_of(op, i)->cols == SMM_SIZE_ONE;
    return has;
}

/* --- A case: a call, what its outputs were and must become --------------------------------------------- */

/* Of an output: its span and margins, copies of them, and of what they must become. */
struct watch {
    char *begin;
    size_t bytes;
    char *before, *expected;
};

struct problem {
    const struct operation *operation;
    smm_call call;
    struct stack stacks[SMM_MAX_OPERANDS];
    struct watch watches[SMM_MAX_OPERANDS];
};

static intptr_t size_of(const struct problem *p, int i) { return smm_size_of(p->call.op, p->call.dtype, i); }

/* The type of an operand's elements, unless they are integers. */
static smm_dtype type_of(const struct problem *p, int i) { return smm_type_of(p->call.op, p->call.dtype, i); }

static double value_of(const struct problem *p, int i, const char *element) {
    return is_integer(p->call.op, i) ? *(const int32_t *)element : load(element, type_of(p, i));
}

/* Whether two elements of an operand are the same. */
static bool is_same(const struct problem *p, int i, const char *x, const char *y) {
    return is_integer(p->call.op, i) ? !memcmp(x, y, sizeof(int32_t)) : same_number(x, y, type_of(p, i));
}

/* How far apart they are. */
static double apart(const struct problem *p, int i, const char *x, const char *y) {
    double most = fabs(value_of(p, i, x) - value_of(p, i, y));
    for (int part = 1; part < parts_of(type_of(p, i)) && !is_integer(p->call.op, i); part++)
        most = fmax(most, fabs(load_part(x, type_of(p, i), part) - load_part(y, type_of(p, i), part)));
    return most;
}

static bool has_info(smm_op op) { return smm_roles_of[op].info >= 0; }

/* Of an operation that has none, one that a call leaves out. */
static struct stack *info_of(struct problem *p) {
    static struct stack none;
    return has_info(p->call.op) ? &p->stacks[smm_roles_of[p->call.op].info] : &none;
}
static void leave_out_info(struct problem *p) {
    if (!has_info(p->call.op)) return;
    p->call.operand[smm_roles_of[p->call.op].info] = (smm_operand){0};
    *info_of(p) = (struct stack){.low = NULL};
}

/* The factors of LU or LDL that a call is given, and the matrices that they are of, if it is given these, too. */
struct given {
    const smm_operand *a, *lu, *pivots;
};
static struct given given_to(const smm_call *c) {
    switch (c->op) {
    case SMM_OP_LU_SOLVE: return (struct given){NULL, &c->lu_solve.a, &c->lu_solve.pivots};
    case SMM_OP_LDL_SOLVE: return (struct given){NULL, &c->ldl_solve.a, &c->ldl_solve.pivots};
    case SMM_OP_LU_RCOND: return (struct given){NULL, &c->lu_rcond.a, &c->lu_rcond.pivots};
    case SMM_OP_REFINE: return (struct given){&c->refine.a, &c->refine.lu, &c->refine.pivots};
    default: return (struct given){NULL, NULL, NULL};
    }
}

/* A call of these sizes without operands; k counts right-hand sides, if there are any. */
static struct problem problem_of(const struct operation *o, smm_dtype dtype, intptr_t batch, intptr_t m, intptr_t n,
                                 intptr_t k) {
    struct problem p = {.operation = o};
    if (!is_rectangular(o)) m = n;
    if (o->sizes == TRIDIAGONAL) m = n ? n - 1 : 0;
    if (o->sizes == SQUARE) k = 1;
    if (o->sizes == REDUCED) k = min_of(m, n);
    if (o->sizes == COMPLETE) k = m;
    p.call = (smm_call){.op = o->op, .dtype = dtype, .form = o->form, .batch = batch, .m = m, .n = n, .k = k};
    return p;
}

typedef struct stack layout_fn(smm_op op, int i, intptr_t batch, intptr_t rows, intptr_t cols, intptr_t size);

/* All operands but numbers that inputs may lack. */
static void lay_out_operands(struct problem *p, layout_fn *layout) {
    smm_call *c = &p->call;
    for (int i = 0; i < count_of(c->op); i++) {
        intptr_t rows, cols;
        if (row_of(c->op, i)->direction == SMM_OPTIONAL_IN) continue;
        smm_sizes_of(c->op, i, c->m, c->n, c->k, &rows, &cols);
        p->stacks[i] = layout(c->op, i, c->batch, rows, cols, size_of(p, i));
        c->operand[i] = p->stacks[i].x;
    }
}

/* --- Matrices, good and bad ------------------------------------------------------------------------------ */

enum hardness {
    GOOD,  /* well conditioned; in each row and column one element is much the largest */
    MIXED, /* some of the matrices are all zero or all NaN */
    HARD,  /* singular, ties, special values, near the ends of the range */
};

/* One matrix, element by element through `at`. */
static void fill_matrix(const struct problem *p, const smm_operand *a, intptr_t q, enum hardness hardness) {
    const intptr_t m = p->call.m, n = p->call.n;
    const smm_dtype dtype = p->call.dtype;
    const bool by_lu = p->call.op <= SMM_OP_SLOGDET;
    const intptr_t shift = by_lu && m ? random_below(m) : 0, odd = n && m ? random_below(m * n) : 0;
    const int kind = hardness == HARD ? (int)random_below(13) : hardness == MIXED ? 13 + (int)random_below(6) : -1;
    const bool is_wide = smm_dtypes[dtype].real == SMM_F64, is_half = dtype == SMM_F16;
    const double tiny = is_wide ? 1e-310 : is_half ? 3e-7 : 1e-40, huge = is_wide ? 1e306 : is_half ? 1e3 : 1e36;
    for (intptr_t i = 0; i < m; i++)
        for (intptr_t j = 0; j < n; j++) {
            double x = random_value() + (i == (by_lu ? (j + shift) % m : j) ? (double)min_of(m, n) + 1 : 0);
            const bool is_odd = i * n + j == odd;
            switch (kind) {
            case 0: x = random_value(); break;
            case 1: x = (double)random_below(3) - 1; break;
            case 2: x = j == odd % n ? 0 : x; break;
            case 3: x = is_odd ? nan_value() : x; break;
            case 4: x = is_odd ? (double)INFINITY : x; break;
            case 5: x *= tiny; break;
            case 6: x *= huge; break;
            case 7: x = special_value(); break;
            case 8: x = i == odd % m || j == odd % n ? x * tiny : x; break;
            case 9: x = i == j && i == odd % n ? -x : x; break;
            case 10: x = i == j && i == odd % n ? 0 : x; break;
            case 11: x = (double)(i + 1) * (double)(j + 1); break;
            case 12: x = pow(0.6, (double)i) * (i == j ? 1 : i < j ? -0.8 : 0); break; /* Kahan's: its rank hides */
            case 13: x = 0; break;
            case 14: x = nan_value(); break;
            default: break;
            }
            store(element(a, q, i, j), dtype, x);
        }
}

/* A norm. */
static double size_value(void) { return 1 + fabs(random_value()); }

static void poison(const struct stack *s) { memset(s->low, 0xff, (size_t)(s->high - s->low)); }

/* Matrices that a call takes as factors, with their pivots. */
_Static_assert(offsetof(smm_call, lu.pivots) == offsetof(smm_call, ldl.pivots), "LDL has the operands of LU");
static void fill_factors(struct problem *p, enum hardness hardness) {
    const intptr_t n = p->call.n, size = smm_size(p->call.dtype);
    const bool symmetric = p->call.op == SMM_OP_LDL_SOLVE;
    const struct given given = given_to(&p->call);
    const smm_operand *a = given.lu, *pivots = given.pivots;
    const bool one = !a->batch || !pivots->batch || (given.a && !given.a->batch);
    void *dense = malloc((size_t)(p->call.batch * n * n * size + 1));
    if (!dense) exit(2);
    smm_call lu = {.op = symmetric ? SMM_OP_LDL : SMM_OP_LU, .dtype = p->call.dtype, .m = n, .n = n, .k = n};
    lu.form = symmetric ? p->call.form : 0;
    lu.batch = one ? min_of(1, p->call.batch) : p->call.batch;
    lu.lu = (smm_lu_operands){.a = {dense, n * n * size, n * size, size}, .lu = *a, .pivots = *pivots};
    for (intptr_t q = 0; q < lu.batch; q++) fill_matrix(p, &lu.a, q, hardness);
    smm_reference(&lu);
    for (intptr_t q = 0; q < p->call.batch; q++) {
        for (intptr_t i = 0; one && i < n; i++) {
            for (intptr_t j = 0; a->batch && q && j < n; j++)
                memcpy(element(a, q, i, j), element(a, 0, i, j), (size_t)size);
            if (pivots->batch) memcpy(element(pivots, q, i, 0), element(pivots, 0, i, 0), sizeof(int32_t));
        }
        for (intptr_t i = 0; given.a && i < n; i++)
            for (intptr_t j = 0; j < n; j++)
                memcpy(element(given.a, q, i, j), element(&lu.lu.a, one ? 0 : q, i, j), (size_t)size);
        if (hardness != HARD || !n) continue;
        const intptr_t i = random_below(n);
        if (!random_below(4)) store(element(a, q, i, i), p->call.dtype, 0);
        if (!random_below(4)) *(int32_t *)element(pivots, q, i, 0) = (int32_t)random_bits();
    }
    free(dense);
}

/* Diagonals, the main one of which outweighs the others if that is asked for. */
static void fill_diagonals(struct problem *p, enum hardness hardness) {
    enum { MANY = 64 };
    static int32_t lowers[MANY];
    smm_call *c = &p->call;
    if (c->op == SMM_OP_SOLVE_BANDED) {
        for (int q = 0; q < MANY; q++) lowers[q] = (int32_t)random_below(c->m ? c->m : 1);
        for (int q = 0; q < MANY && hardness == HARD; q++)
            if (!random_below(8)) lowers[q] = random_below(2) ? -1 : (int32_t)c->m;
        const bool own = c->batch <= MANY && random_below(2) && p->stacks[A].x.batch;
        c->solve_banded.lower = (smm_operand){lowers, own ? (intptr_t)sizeof *lowers : 0, 0, 0};
        if (!own && !random_below(4)) c->solve_banded.lower.data = NULL;
    }
    const bool is_wide = c->dtype == SMM_F64, is_half = c->dtype == SMM_F16;
    const double tiny = is_wide ? 1e-310 : is_half ? 3e-7 : 1e-40, huge = is_wide ? 1e306 : is_half ? 1e3 : 1e36;
    for (int i = 0; i < count_of(c->op); i++) {
        const struct stack *s = &p->stacks[i];
        for (intptr_t q = 0; s->low && row_of(c->op, i)->direction == SMM_DIAGONALS && q < s->batch; q++) {
            const intptr_t main = c->op == SMM_OP_SOLVEH_BANDED  ? (c->form & SMM_UPPER ? c->m - 1 : 0)
                                  : c->op == SMM_OP_SOLVE_BANDED ? c->m - 1 - smm_lower_of(c, q)
                                                                 : (i == 1 ? 0 : -1);
            const int kind = hardness == HARD    ? (int)random_below(8)
                             : hardness == MIXED ? 8 + (int)random_below(6)
                                                 : -1;
            const bool upright = c->op == SMM_OP_SOLVE_TRIDIAGONAL; /* the diagonal is a column */
            for (intptr_t r = 0; r < s->rows; r++)
                for (intptr_t j = 0; j < s->cols; j++) {
                    double x = random_value();
                    if ((upright ? main == 0 : r == main) && kind) x += 2 * (double)c->m + 3;
                    switch (kind) {
                    case 1: x = (double)random_below(3) - 1; break;
                    case 2: x = random_below(9) ? x : 0; break;
                    case 3: x = random_below(9) ? x : nan_value(); break;
                    case 4: x *= tiny; break;
                    case 5: x *= huge; break;
                    case 6: x = special_value(); break;
                    case 8: x = 0; break;
                    case 9: x = nan_value(); break;
                    default: break;
                    }
                    store(element(&s->x, q, r, j), c->dtype, x);
                }
        }
    }
}

/* What is below the diagonal comes above it, too. */
static void mirror(struct problem *p, const smm_operand *a, intptr_t q) {
    for (intptr_t i = 0; i < p->call.n; i++)
        for (intptr_t j = 0; j < i; j++)
            memcpy(element(a, q, j, i), element(a, q, i, j), (size_t)smm_size(p->call.dtype));
}

static void fill_inputs(struct problem *p, enum hardness hardness) {
    const struct stack *a = &p->stacks[A];
    const int b = smm_roles_of[p->call.op].b;
    static double rtol[2];
    for (int i = 0; i < count_of(p->call.op); i++)
        if (!is_output(p->call.op, i) && p->stacks[i].low) poison(&p->stacks[i]);
    if (given_to(&p->call).lu) {
        fill_factors(p, hardness);
    } else if (has_diagonals(p->operation)) {
        fill_diagonals(p, hardness);
    } else {
        for (intptr_t q = 0; q < (a->x.batch ? p->call.batch : min_of(1, p->call.batch)); q++) {
            fill_matrix(p, &a->x, q, hardness);
            if (p->call.op == SMM_OP_SOLVE_MIXED && p->call.form & SMM_POSITIVE) mirror(p, &a->x, q);
        }
    }
    if (b >= 0) fill(&p->stacks[b], p->call.dtype, hardness == HARD && !random_below(4) ? special_value : random_value);
    for (int i = 0; i < count_of(p->call.op); i++)
        if (row_of(p->call.op, i)->direction == SMM_FURTHER_IN && &p->call.operand[i] != given_to(&p->call).lu)
            fill(&p->stacks[i], type_of(p, i), row_of(p->call.op, i)->cols == SMM_SIZE_ONE ? size_value : random_value);
    if (p->call.op == SMM_OP_LSTSQ) {
        store((char *)rtol, smm_dtypes[p->call.dtype].real, hardness == HARD && random_below(2) ? 0.3 : 1e-5);
        p->call.lstsq.rtol = (smm_operand){rtol, 0, 0, 0};
    }
}

/* --- Running and comparing ------------------------------------------------------------------------------- */

static void watch(struct problem *p) {
    for (int i = 0; i < SMM_MAX_OPERANDS; i++) {
        const struct stack *s = &p->stacks[i];
        if (!s->low || !is_output(p->call.op, i)) continue;
        struct watch *w = &p->watches[i];
        const size_t before = smaller(MARGIN, (size_t)(s->low - arenas[i].begin));
        const size_t after = smaller(MARGIN, (size_t)(arenas[i].end - s->high));
        w->begin = s->low - before;
        w->bytes = before + (size_t)(s->high - s->low) + after;
        for (size_t b = 0; b < w->bytes; b++) w->begin[b] = (char)(0xa5 ^ b);
        w->before = malloc(w->bytes + 1);
        w->expected = malloc(w->bytes + 1);
        if (!w->before || !w->expected) exit(2);
        memcpy(w->before, w->begin, w->bytes);
    }
    if (!memory_alone()) smm_reference(&p->call);
    for (int i = 0; i < SMM_MAX_OPERANDS; i++)
        if (p->watches[i].begin) memcpy(p->watches[i].expected, p->watches[i].begin, p->watches[i].bytes);
}

static void finish(struct problem *p) {
    for (int i = 0; i < SMM_MAX_OPERANDS; i++) {
        free(p->watches[i].before);
        free(p->watches[i].expected);
    }
}

static void describe(const struct problem *p) {
    const smm_call *c = &p->call;
    smm_plan_info plan = {.kernel = NULL};
    smm_explain(c, &plan);
    size_t used = (size_t)snprintf(running, sizeof running, "%s %s %s m=%ld n=%ld k=%ld batch=%ld kernel=%s",
                                   p->operation->name, smm_dtypes[c->dtype].name, smm_isa(), (long)c->m, (long)c->n,
                                   (long)c->k, (long)c->batch, plan.kernel ? plan.kernel : "?");
    for (int i = 0; i < SMM_MAX_OPERANDS; i++)
        if (p->stacks[i].low)
            used +=
                (size_t)describe_stack(running + used, sizeof running - used, row_of(c->op, i)->name, &p->stacks[i]);
}

/* Without FMA: how far an element of a matrix may be from the reference, if the matrix is well conditioned. */
static double bound_of(const struct problem *p, int i, const smm_operand *expected, intptr_t q) {
    const double u = roundoff_of(p->call.dtype);
    const struct stack *s = &p->stacks[i];
    double most = 1;
    /* Eigenvectors and singular vectors may be far off where values are near each other, and have another sign. */
    const bool has_vectors = p->call.op == SMM_OP_EIGH || p->call.op == SMM_OP_SVD || p->call.op == SMM_OP_SVD_FULL;
    if (has_vectors && row_of(p->call.op, i)->element == SMM_NUMBER) return 2;
    /* Eigenvalues of general matrices may come in another order. */
    if (row_of(p->call.op, i)->element == SMM_COMPLEX) return 2 * (double)p->call.n;
    for (intptr_t r = 0; r < s->rows; r++)
        for (intptr_t c = 0; c < s->cols; c++) {
            const char *x = element(expected, q, r, c);
            most = fmax(most, fabs(value_of(p, i, x)));
            for (int part = 1; part < parts_of(type_of(p, i)) && !is_integer(p->call.op, i); part++)
                most = fmax(most, fabs(load_part(x, type_of(p, i), part)));
        }
    /* So they may in a Schur form, where vectors differ with them. */
    if (p->call.op == SMM_OP_SCHUR && !is_integer(p->call.op, i)) return 4 * (double)p->call.n * most;
    if (p->call.op == SMM_OP_SOLVE_MIXED && is_integer(p->call.op, i)) return 64; /* rounding decides whether it ends */
    return is_integer(p->call.op, i) ? 0 : 50 * (double)(p->call.m + p->call.n) * u * most;
}

/* Compare an output, element by element. An element that is right is set to the expected bits, so that afterwards any
 * byte that differs is one that should not have been written. */
static bool compare(const struct problem *p, int i, bool exactly) {
    const struct stack *s = &p->stacks[i];
    const struct watch *w = &p->watches[i];
    const size_t size = (size_t)size_of(p, i);
    if (is_as_expected(w->begin, w->expected, w->bytes)) return true;
    smm_operand expected = s->x;
    expected.data = w->expected + ((char *)s->x.data - w->begin);
    for (intptr_t q = 0; q < s->batch; q++) {
        const double bound = exactly ? 0 : bound_of(p, i, &expected, q);
        for (intptr_t r = 0; r < s->rows; r++)
            for (intptr_t c = 0; c < s->cols; c++) {
                char *found = element(&s->x, q, r, c), *e = element(&expected, q, r, c);
                const double x = value_of(p, i, found), y = value_of(p, i, e);
                /* where an exponential overflows, rounding decides whether infinities of both signs are added */
                const bool overflows = p->call.op == SMM_OP_EXPM && !isfinite(x) && !isfinite(y);
                const bool right =
                    is_same(p, i, found, e) || (!exactly && (overflows || apart(p, i, found, e) <= bound));
                if (!CHECK(right, "%s: %s of matrix %ld, row %ld, column %ld is %a, not %a", running,
                           row_of(p->call.op, i)->name, (long)q, (long)r, (long)c, x, y))
                    return false;
                memcpy(found, e, size);
            }
    }
    return CHECK(!memcmp(w->begin, w->expected, w->bytes), "%s: a byte between the elements of %s was overwritten",
                 running, row_of(p->call.op, i)->name);
}

static void restore_outputs(struct problem *p) {
    for (int i = 0; i < SMM_MAX_OPERANDS; i++)
        if (p->watches[i].begin) memcpy(p->watches[i].begin, p->watches[i].before, p->watches[i].bytes);
}

/* Whether some matrix of a call without info fails: what the same call says with one. */
static bool fails(struct problem *p) {
    if (!has_info(p->call.op)) return false;
    int32_t *const info = calloc((size_t)p->call.batch + 1, sizeof *info);
    smm_operand *const operand = &p->call.operand[smm_roles_of[p->call.op].info];
    *operand = (smm_operand){info, sizeof *info, 0, 0};
    bool some = smm_run(&p->call) != SMM_OK;
    *operand = (smm_operand){0};
    for (intptr_t q = 0; q < p->call.batch; q++) some |= info[q] != 0;
    free(info);
    restore_outputs(p);
    return some;
}

/* Run; and does `failed` say what info says, also without info? Of the factors of LU and in parts it need not, nor
 * where nothing is computed, since there are no right-hand sides. */
static bool run(struct problem *p) {
    const struct stack *info = info_of(p);
    const bool untold = !info->low && (given_to(&p->call).lu || smm_is_in_parts(&p->call) || !p->call.k);
    bool failed = false, some = !info->low && fails(p);
    p->call.failed = &failed;
    const smm_status status = smm_run(&p->call);
    p->call.failed = NULL;
    for (intptr_t q = 0; info->low && q < info->batch; q++) some |= *(const int32_t *)element(&info->x, q, 0, 0) != 0;
    return CHECK(status == SMM_OK && (failed == some || untold), "%s: %s, %s failed", running, smm_status_text(status),
                 failed ? "some" : "none");
}

/* Run with each instruction set. */
static void check(struct problem *p, enum hardness hardness) {
    fill_inputs(p, hardness);
    watch(p);
    for (const char *const *isa = smm_isas_available(); *isa; isa++) {
        if (hardness == HARD && !has_fma(*isa)) continue;
        smm_select_isa(*isa);
        restore_outputs(p);
        describe(p);
        if (!run(p)) continue;
        for (int i = 0; i < SMM_MAX_OPERANDS; i++)
            if (p->watches[i].begin && !compare(p, i, has_fma(*isa))) break;
    }
    finish(p);
}

static struct stack random_layout(smm_op op, int i, intptr_t batch, intptr_t rows, intptr_t cols, intptr_t size) {
    return random_stack(&arenas[i], is_output(op, i) ? LAYOUTS_OF_C : REPEATED, batch, rows, cols, size);
}

/* Rows and windows that overlap may make any matrix singular: not for bounds. */
static struct stack random_hard_layout(smm_op op, int i, intptr_t batch, intptr_t rows, intptr_t cols, intptr_t size) {
    if (is_output(op, i) || is_integer(op, i)) return random_layout(op, i, batch, rows, cols, size);
    return random_stack(&arenas[i], LAYOUTS, batch, rows, cols, size);
}

static struct stack dense_layout(smm_op op, int i, intptr_t batch, intptr_t rows, intptr_t cols, intptr_t size) {
    (void)op;
    return lay_out(&arenas[i], ROW_MAJOR, AT_BEGIN, 0, batch, rows, cols, size);
}

static void check_random(const struct operation *o, smm_dtype dtype, intptr_t batch, intptr_t m, intptr_t n, intptr_t k,
                         enum hardness hardness) {
    struct problem p = problem_of(o, dtype, batch, m, n, k);
    lay_out_operands(&p, hardness == HARD ? random_hard_layout : random_layout);
    if (!random_below(4)) leave_out_info(&p);
    check(&p, hardness);
}

static smm_dtype or_double(const struct operation *o, smm_dtype dtype) {
    return smm_takes(o->op, dtype) ? dtype : SMM_F64;
}

/* Element types in turns, of those that an operation takes. */
static smm_dtype dtype_of(const struct operation *o, intptr_t turn) {
    const smm_dtype dtype = dtype_in_turn(turn);
    const smm_dtype real = smm_dtypes[dtype].real;
    return smm_takes(o->op, dtype) ? dtype : or_double(o, real);
}

/* Around the numbers of lanes that vectors have. */
static const intptr_t batches[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33};
enum { BATCHES = sizeof batches / sizeof *batches, FEW = 8 }; /* up to one more than a vector of doubles has */
static intptr_t random_batch(intptr_t order) { return batches[random_below(quick && order > 9 ? FEW : BATCHES)]; }

static const intptr_t widths[] = {1, 2, 3, 4, 5, 8, 9, 16, 19};
enum { WIDTHS = sizeof widths / sizeof *widths };
static intptr_t random_width(void) { return widths[random_below(WIDTHS)]; }

/* --- The tests -------------------------------------------------------------------------------------------- */

/* Every operation at every order that some kernel is made for, in all sorts of layouts. Constant orders end at 16: a
 * quick test has each of those with each element type, good or hard. */
enum { EVERY_ORDER = 32 };
static bool is_left_out(int i, intptr_t n, int draw, int draws, enum hardness hardness) {
    if (n > 4 && draw >= draws / 2) return true;
    return n > 16 ? (n + i + 5 * draw) % 16 : n > 9 ? (n + i + draw + (hardness == HARD)) % 2 : false;
}
static void check_orders(enum hardness hardness, int draws) {
    for (int i = 0; i < OPERATIONS; i++)
        for (intptr_t n = 1; n <= EVERY_ORDER; n++)
            for (int draw = 0; draw < draws; draw++) {
                if (quick && is_left_out(i, n, draw, draws, hardness)) continue;
                check_random(&operations[i], dtype_of(&operations[i], draw), random_batch(n), n, n,
                             widths[(n + i + 4 * draw + 4 * (int)hardness) % WIDTHS], hardness);
            }
}
static void test_good(void) { check_orders(GOOD, 8); }
static void test_mixed(void) { check_orders(MIXED, 4); }
static void test_hard(void) { check_orders(HARD, 8); }

/* Orders beyond, around multiples of what vectors and panels hold. */
static void test_large(void) {
    static const intptr_t orders[] = {33, 34, 40, 47, 48, 63, 64, 65, 66, 96, 100, 127, SMM_MAX_ORDER};
    enum { COUNT = sizeof orders / sizeof *orders };
    for (int i = 0; i < OPERATIONS; i++)
        for (int order = 0; order < COUNT; order++) {
            const intptr_t n = orders[order], few = n > 66 ? (quick ? 1 : 2) : quick ? 5 : 9;
            if (quick && (order + i) % (n > 66 ? 16 : 6)) continue;
            for (int draw = 0; draw < (quick ? 1 : 2); draw++)
                check_random(&operations[i], dtype_of(&operations[i], draw + order + i), 1 + random_below(few), n, n,
                             random_width(),
                             (order + draw) % 3 ? GOOD
                             : draw % 2         ? HARD
                                                : MIXED);
        }
}

/* Every layout of A against every layout of the result. */
static enum layout layout_of_a, layout_of_c;
static struct stack chosen_layout(smm_op op, int i, intptr_t batch, intptr_t rows, intptr_t cols, intptr_t size) {
    const smm_roles *roles = &smm_roles_of[op];
    const enum layout layout = i == A ? layout_of_a : i == roles->b || i == roles->result ? layout_of_c : ROW_MAJOR;
    return lay_out(&arenas[i], layout, (enum place)random_below(PLACES), (int)random_below(8), batch, rows, cols, size);
}

static void test_layouts(void) {
    static const intptr_t orders[] = {3, 8, 17, 24};
    for (int i = 0; i < OPERATIONS; i++)
        for (int order = 0; order < (quick ? 1 : 4); order++)
            for (int l = 0; l < REPEATED * LAYOUTS_OF_C; l++) {
                if (quick && (l + i) % 4) continue;
                struct problem p = problem_of(&operations[i], dtype_of(&operations[i], l + l / REPEATED),
                                              1 + random_below(20), orders[order], orders[order], random_width());
                layout_of_a = (enum layout)(l % REPEATED);
                layout_of_c = (enum layout)(l / REPEATED);
                lay_out_operands(&p, chosen_layout);
                check(&p, GOOD);
            }
}

static void test_rectangular(void) {
    static const intptr_t shapes_of_a[][2] = {{1, 32},  {32, 1},    {1, 1024},  {1024, 1}, {32, 32},  {2, 512},
                                              {511, 2}, {100, 5},   {5, 100},   {60, 17},  {33, 7},   {20, 50},
                                              {128, 3}, {16, 1024}, {1000, 16}, {40, 90},  {127, 129}};
    enum { SHAPES = sizeof shapes_of_a / sizeof *shapes_of_a };
    for (int i = 0; i < OPERATIONS; i++) {
        if (!is_rectangular(&operations[i])) continue;
        for (int draw = 0; draw < (quick ? 24 : 160); draw++) {
            const intptr_t m = draw < SHAPES ? shapes_of_a[draw][0] : 1 + random_below(32);
            const intptr_t n = draw < SHAPES ? shapes_of_a[draw][1] : 1 + random_below(32);
            if (operations[i].sizes == COMPLETE && m > SMM_MAX_ORDER) continue;
            const intptr_t longer = m > n ? m : n;
            const bool has_more = operations[i].op == SMM_OP_SVD_FULL && longer > 128; /* a million numbers */
            if (quick && (has_more || m * n > 1024) && (draw + i) % (m * n > 2048 ? 12 : 4)) continue;
            const intptr_t batch = quick && (has_more || m * n > 2048) ? 1 : m * n > 512 ? 3 : random_batch(longer);
            check_random(&operations[i], dtype_of(&operations[i], draw), batch, m, n, random_width(), GOOD);
            check_random(&operations[i], dtype_of(&operations[i], draw), batch, m, n, random_width(), HARD);
        }
    }
}

/* Kernels that take one matrix at a time, of any number of matrices. */
static void test_single(void) {
    static const char *const kernels[SMM_OPS] = {
        [SMM_OP_QR] = "qr_single",        [SMM_OP_QR_R] = "qr_single",           [SMM_OP_QR_RAW] = "qr_single",
        [SMM_OP_EIGH] = "eigh_single",    [SMM_OP_EIGVALSH] = "eigvalsh_single", [SMM_OP_SVD] = "svd_single",
        [SMM_OP_SVD_FULL] = "svd_single", [SMM_OP_SVDVALS] = "svd_single",       [SMM_OP_CHOLESKY] = "cholesky_single",
        [SMM_OP_EIG] = "eig_single",      [SMM_OP_EIGVALS] = "eigvals_single",   [SMM_OP_SCHUR] = "schur_single",
        [SMM_OP_SQRTM] = "sqrtm_single"};
    static const intptr_t shapes[][2] = {{1, 1},   {2, 2},   {3, 3},   {7, 7},   {8, 8},   {9, 9},     {17, 17},
                                         {31, 31}, {33, 33}, {47, 47}, {65, 65}, {20, 50}, {50, 20},   {33, 7},
                                         {7, 33},  {128, 3}, {5, 127}, {61, 60}, {96, 97}, {127, 127}, {128, 128}};
    enum { SHAPES = sizeof shapes / sizeof *shapes };
    for (int i = 0; i < OPERATIONS; i++) {
        if (!kernels[operations[i].op]) continue;
        smm_select_kernel(kernels[operations[i].op]);
        for (int shape = 0; shape < SHAPES; shape++) {
            const intptr_t m = shapes[shape][0], n = shapes[shape][1];
            if (m != n && !is_rectangular(&operations[i])) continue;
            const intptr_t most = m + n > (quick ? 20 : 66) ? 2 : 9;
            for (int draw = 0; draw < 8; draw++) {
                if (quick && m + n > 20 && (m + n > 66 ? (shape + i + 5 * draw) % 32 : draw > 3)) continue;
                check_random(&operations[i], dtype_of(&operations[i], draw), 1 + random_below(most), m, n, 1,
                             draw % 3   ? GOOD
                             : draw % 2 ? HARD
                                        : MIXED);
            }
        }
        smm_select_kernel(NULL);
    }
}

enum { STREAMED_BYTES = 36 << 20 }; /* of A, so that the result goes around the caches */

/* Nothing to factor, nothing to solve for, no matrix; and matrices that are too large. */
static void test_sizes(void) {
    const intptr_t many = quick ? 2 : 40;
    for (int i = 0; i < OPERATIONS; i++) {
        const struct operation *o = &operations[i];
        check_random(o, SMM_F64, 5, 0, 0, 3, GOOD);
        check_random(o, or_double(o, SMM_F32), 5, 4, 4, 0, MIXED);
        check_random(o, SMM_F64, 0, 4, 4, 2, GOOD);
        check_random(o, or_double(o, SMM_F32), 3, 6, 6, 200, GOOD);
        check_random(o, dtype_of(o, 1), 5, 0, 0, 3, GOOD);
        check_random(o, dtype_of(o, 3), 5, 4, 4, 0, MIXED);
        check_random(o, dtype_of(o, 3), many, 32, 32, 100, GOOD);
        check_random(o, or_double(o, SMM_F16), 5, 0, 0, 3, GOOD);
        check_random(o, or_double(o, SMM_BF16), 5, 4, 4, 0, MIXED);
        /* more than a thread's buffer holds */
        check_random(o, or_double(o, SMM_F16), many, 32, 32, quick && !smm_takes(o->op, SMM_F16) ? 40 : 300, GOOD);
        if (is_rectangular(o)) check_random(o, SMM_F64, 5, 3, 0, 2, GOOD);
        if (has_diagonals(o)) {
            for (int draw = 0; draw < 8; draw++)
                check_random(o, dtype_of(o, draw), random_batch(33), 1 + random_below(9), 33 + random_below(200),
                             random_width(), draw % 4 < 2 ? GOOD : HARD);
            continue;
        }
        if (is_rectangular(o)) check_random(o, SMM_F64, 5, 0, 3, 2, GOOD);
        struct problem p = problem_of(o, SMM_F64, 1, SMM_MAX_ORDER + 1, SMM_MAX_ORDER + 1, 1);
        lay_out_operands(&p, dense_layout);
        CHECK(smm_run(&p.call) == SMM_ERR_ORDER, "%s of order %d runs", o->name, SMM_MAX_ORDER + 1);
        p = problem_of(o, SMM_F64, 1, SMM_MAX_ORDER, SMM_MAX_ORDER, 1);
        lay_out_operands(&p, dense_layout);
        smm_plan_info plan;
        CHECK(smm_explain(&p.call, &plan) == SMM_OK && plan.kernel, "%s has no kernel", o->name);
        p = problem_of(o, SMM_F64, STREAMED_BYTES / (4 * 4 * 8), 4, 4, 1);
        lay_out_operands(&p, dense_layout);
        CHECK(smm_explain(&p.call, &plan) == SMM_OK && (plan.nontemporal || smm_roles_of[o->op].result < 0),
              "%s: a large result is not streamed", o->name);
    }
}

/* Long systems that are solved in parts, as many at a time as threads share or more. */
static void test_parts(void) {
    for (int i = 0; i < OPERATIONS; i++) {
        const struct operation *o = &operations[i];
        if (o->sizes != TRIDIAGONAL || !(o->form & SMM_UNPIVOTED)) continue;
        for (int draw = 0; draw < (quick ? 12 : 20); draw++) {
            const intptr_t n = SMM_MIN_IN_PARTS - 1 + random_below(2 * SMM_PART);
            check_random(o, dtype_of(o, draw), 1 + random_below(4), n, n, random_below(3), draw % 2 ? GOOD : HARD);
        }
        check_random(o, SMM_F64, 1, 0, 66000, 1, GOOD); /* the separators' systems are in parts, too */
        if (!quick) check_random(o, SMM_F32, 40, 0, SMM_MIN_IN_PARTS, 1, MIXED);
    }
}

/* Whether an output that has no gaps has the bits of `copy`. Of NaN the sign may differ: C leaves it open from which
 * operand of a sum a NaN comes, and a compiler that copies a loop chooses anew. */
static bool same_as(const struct problem *p, int i, const char *copy) {
    const struct stack *s = &p->stacks[i];
    const intptr_t size = size_of(p, i);
    if (!memcmp(s->low, copy, (size_t)(s->high - s->low))) return true;
    for (const char *x = s->low; x < s->high; x += size, copy += size)
        if (!is_same(p, i, x, copy)) return false;
    return true;
}

/* How many matrices of a large stack are drawn; the others repeat them. A prime, so that lanes, groups and threads
 * begin at others each time. */
enum { DRAWN = 997 };

/* The stacks of the first matrices of a problem whose stacks have no gaps. */
static struct problem first_of(const struct problem *p, intptr_t batch) {
    struct problem first = *p;
    first.call.batch = batch;
    for (int i = 0; i < SMM_MAX_OPERANDS; i++) {
        struct stack *s = &first.stacks[i];
        if (s->low) s->high = s->low + (s->high - s->low) / s->batch * batch, s->batch = batch;
    }
    return first;
}

/* So many bytes, of which the first are there, repeat them. */
static void repeat(char *to, size_t first, size_t bytes) {
    for (size_t done = first; done < bytes; done += first) memcpy(to + done, to, smaller(first, bytes - done));
}

/* Run a few matrices, and the whole that repeats them, and compare all outputs. */
static void check_whole(const struct operation *o, smm_dtype dtype, intptr_t n, intptr_t batch, bool streamed) {
    struct problem p = problem_of(o, dtype, batch, n, n, 2);
    lay_out_operands(&p, dense_layout);
    struct problem first = first_of(&p, min_of(DRAWN, batch));
    fill_inputs(&first, MIXED);
    memcpy(p.call.operand, first.call.operand, sizeof p.call.operand);
    describe(&p);
    smm_set_num_threads(1);
    CHECK(smm_run(&first.call) == SMM_OK, "%s: a part", running);
    char *copies[SMM_MAX_OPERANDS] = {NULL};
    for (int i = 0; i < SMM_MAX_OPERANDS; i++) {
        const struct stack *s = &p.stacks[i];
        if (!s->low) continue;
        const size_t bytes = (size_t)(s->high - s->low);
        repeat(s->low, (size_t)(first.stacks[i].high - s->low), bytes);
        if (!is_output(o->op, i)) continue;
        copies[i] = malloc(bytes + 1);
        if (!copies[i]) exit(2);
        memcpy(copies[i], s->low, bytes);
    }
    /* A vector of the largest complex matrices is larger than what streaming goes through. */
    const bool must = streamed && smm_roles_of[o->op].result >= 0 && (!smm_is_complex(dtype) || n < 32);
    smm_plan_info plan = {.nontemporal = false};
    CHECK(smm_explain(&p.call, &plan) == SMM_OK && (!must || plan.nontemporal), "%s: the result is not streamed",
          running);
    for (int threads = 1; threads <= (streamed ? 2 : 3); threads++) {
        for (int i = 0; i < SMM_MAX_OPERANDS; i++)
            if (copies[i]) poison(&p.stacks[i]);
        smm_set_num_threads(threads);
        run(&p);
        for (int i = 0; i < SMM_MAX_OPERANDS; i++)
            CHECK(!copies[i] || same_as(&p, i, copies[i]), "%s: other bits in %s when whole, on %d threads", running,
                  row_of(o->op, i)->name, threads);
    }
    for (int i = 0; i < SMM_MAX_OPERANDS; i++) free(copies[i]);
    smm_set_num_threads(0);
}

/* Each operation on each instruction set with so many of the orders, by turns. */
static void check_wholes(const intptr_t orders[], int count, int tried, intptr_t bytes, bool streamed) {
    int turn = 0;
    for (const char *const *isa = smm_isas_available(); *isa; isa++, turn++) {
        smm_select_isa(*isa);
        for (int i = 0; i < OPERATIONS; i++)
            for (int order = i + turn; order < i + turn + tried; order++) {
                const smm_dtype dtype = dtype_of(&operations[i], order);
                const intptr_t n = orders[order % count], diagonals = operations[i].sizes == TRIDIAGONAL ? 3 : n;
                const intptr_t batch = bytes / (n * diagonals * smm_size(dtype));
                check_whole(&operations[i], dtype, n, batch + 1, streamed);
            }
    }
}

static void test_threads(void) {
    static const intptr_t orders[] = {3, 8, 13, 31};
    check_wholes(orders, 4, 2, quick ? 32 << 10 : 4 << 20, false);
}

static void test_streamed(void) {
    static const intptr_t orders[] = {4, 11, 32};
    check_wholes(orders, 3, 1, STREAMED_BYTES, true);
}

/* Where a call does not fit itself. */
static void test_refused(void) {
    for (int i = 0; i < OPERATIONS; i++) {
        const struct operation *o = &operations[i];
        struct problem p = problem_of(o, SMM_F64, 3, 4, 4, 2);
        lay_out_operands(&p, dense_layout);
        smm_call bad = p.call;
        bad.operand[has_info(o->op) ? smm_roles_of[o->op].info : A].batch++;
        CHECK(smm_run(&bad) == SMM_ERR_ARGUMENT, "%s takes an operand whose stride splits elements", o->name);
        bad = p.call;
        bad.a.row++;
        CHECK(smm_run(&bad) == SMM_ERR_ARGUMENT, "%s takes an A whose stride splits elements", o->name);
        p = problem_of(o, SMM_C128, 3, 4, 4, 2);
        lay_out_operands(&p, dense_layout);
        CHECK(smm_takes(o->op, SMM_C128) || smm_run(&p.call) == SMM_ERR_DTYPE, "%s takes complex numbers", o->name);
        p = problem_of(o, SMM_F64, 3, 4, 4, 2);
        lay_out_operands(&p, dense_layout);
        const bool fits_one = o->sizes == REDUCED || o->sizes == COMPLETE;
        for (intptr_t k = 0; k < 40 && fits_one; k++) {
            bad = p.call;
            bad.k = k;
            CHECK(k == 4 || smm_run(&bad) == SMM_ERR_ARGUMENT, "%s takes k = %d of 4 x 4", o->name, (int)k);
        }
    }
}

/* Strides that are never used may be anything. */
static void test_unused_strides(void) {
    double a = 4, c = 0;
    int32_t info = -1;
    const smm_operand x = {&a, 5, 7, 3}, y = {&c, 1, 9, 11};
    const smm_call call = {.op = SMM_OP_INV,
                           .dtype = SMM_F64,
                           .batch = 1,
                           .m = 1,
                           .n = 1,
                           .k = 1,
                           .inv = {.a = x, .inverse = y, .info = {&info, 4, 0, 0}}};
    CHECK(smm_run(&call) == SMM_OK && c == 0.25 && info == 0, "the inverse of 4 is %g", c);
}

/* Pivots of which one is no row that its step may exchange: the matrix is NaN, and info says which step, before a zero.
 */
static void test_pivots(void) {
    enum { BATCH = 37, N = 3, KINDS = 5 };
    static const int32_t pivots[KINDS][N] = {{1, 2, 2}, {1, 2, 3}, {-1, 1, 2}, {2, 0, 2}, {0, 1, INT32_MAX}};
    static const int32_t expected[KINDS] = {0, -3, -1, -2, -3};
    double a[BATCH][N][N] = {0}, b[BATCH][N], c[BATCH][N];
    int32_t p[BATCH][N], info[BATCH];
    for (int q = 0; q < BATCH; q++) {
        memcpy(p[q], pivots[q % KINDS], sizeof p[q]);
        for (int i = 0; i < N; i++) a[q][i][i] = b[q][i] = q % KINDS == KINDS - 1 && i == 0 ? 0 : 1;
    }
    smm_call call = {.op = SMM_OP_LU_SOLVE,
                     .dtype = SMM_F64,
                     .batch = BATCH,
                     .m = N,
                     .n = N,
                     .k = 1,
                     .lu_solve = {.a = {a, sizeof a[0], sizeof a[0][0], sizeof a[0][0][0]},
                                  .pivots = {p, sizeof p[0], sizeof p[0][0], 0},
                                  .b = {b, sizeof b[0], sizeof b[0][0], 0},
                                  .x = {c, sizeof c[0], sizeof c[0][0], 0},
                                  .info = {info, sizeof info[0], 0, 0}}};
    for (const char *const *isa = smm_isas_available(); *isa; isa++)
        for (int transposed = 0; transposed < 2; transposed++) {
            smm_select_isa(*isa);
            call.form = transposed ? SMM_TRANSPOSED : 0;
            CHECK(smm_run(&call) == SMM_OK, "%s: pivots", *isa);
            for (int q = 0; q < BATCH; q++)
                CHECK(info[q] == expected[q % KINDS] && isnan(c[q][0]) == (q % KINDS != 0),
                      "%s: info of matrix %d is %d, not %d, and the solution %g", *isa, q, (int)info[q],
                      (int)expected[q % KINDS], c[q][0]);
            smm_call one = call;
            one.lu_solve.info = (smm_operand){0};
            for (int q = 0; q < KINDS; q++) {
                bool failed = false;
                one.batch = 1;
                one.failed = &failed;
                one.lu_solve.a.data = a[q], one.lu_solve.pivots.data = p[q];
                one.lu_solve.b.data = b[q], one.lu_solve.x.data = c[q];
                CHECK(smm_run(&one) == SMM_OK && failed == (q != 0), "%s: without info, of matrix %d", *isa, q);
            }
        }
    smm_select_isa(NULL);
}

/* Matrices without elements: their addresses are never used and may be anything. Where there is nothing to write, any
 * number of them takes no time. */
static void test_no_elements(void) {
    enum { BATCH = 6 };
    const intptr_t wild = INTPTR_MAX / 2 & -8;
    static double values[SMM_MAX_OPERANDS][BATCH]; /* of the outputs that are one number per matrix */
    for (int i = 0; i < OPERATIONS; i++) {
        const struct operation *o = &operations[i];
        struct problem p = problem_of(o, SMM_F64, BATCH / 2, 0, 0, has_column_results(o->op) ? 0 : 3);
        smm_outer outer = {.dims = 1, .extent = {2}};
        for (int j = 0; j < count_of(o->op); j++) {
            const intptr_t size = size_of(&p, j);
            const bool one = is_one_number(o->op, j);
            p.call.operand[j] = one ? (smm_operand){values[j], size, 0, 0} : (smm_operand){NULL, wild, wild, -wild};
            outer.stride[0][j] = one ? BATCH / 2 * size : wild;
        }
        p.call.outer = &outer;
        bool failed = false, writes = false; /* something else than info */
        p.call.failed = &failed;
        memset(values, 0xff, sizeof values);
        CHECK(smm_run(&p.call) == SMM_OK && !failed, "%s of order 0", o->name);
        for (int j = 0; j < count_of(o->op); j++) {
            if (!is_output(o->op, j) || !is_one_number(o->op, j)) continue;
            writes |= j != smm_roles_of[o->op].info;
            const bool det = ((o->op == SMM_OP_DET || o->op == SMM_OP_SLOGDET) && j == smm_roles_of[o->op].result) ||
                             (o->op == SMM_OP_LU_RCOND && !is_integer(o->op, j));
            for (int q = 0; q < BATCH; q++) {
                const double x = value_of(&p, j, (const char *)values[j] + q * size_of(&p, j));
                CHECK(x == det, "%s of order 0: %s of matrix %d is %g", o->name, row_of(o->op, j)->name, q, x);
            }
        }
        leave_out_info(&p);
        p.call.batch = (intptr_t)1 << 61;
        if (!writes) CHECK(smm_run(&p.call) == SMM_OK, "%s of order 0, many times", o->name);
        if (o->op != SMM_OP_CHO_SOLVE) continue;
        double a[16 * 16] = {0};
        p.call.n = 16, p.call.k = 0;
        p.call.a = (smm_operand){a, 0, 128, 8};
        outer.stride[0][A] = 0;
        CHECK(smm_run(&p.call) == SMM_OK, "%s of no right-hand sides, many times", o->name);
    }
}

int main(int argc, char **argv) {
    static const struct test tests[] = {
        {"good matrices", test_good},
        {"bad matrices among good ones", test_mixed},
        {"hard matrices", test_hard},
        {"orders above 32", test_large},
        {"layouts", test_layouts},
        {"rectangular", test_rectangular},
        {"one matrix at a time", test_single},
        {"sizes", test_sizes},
        {"parts", test_parts},
        {"refused", test_refused},
        {"unused strides", test_unused_strides},
        {"pivots", test_pivots},
        {"no elements", test_no_elements},
        {"parts and threads", test_threads},
        /* Hundreds of megabytes: too much for valgrind and emulators. */
        {"streamed", test_streamed},
    };
    const int count = sizeof tests / sizeof *tests;
    quick = argc > 1 && !strcmp(argv[1], "quick");
    for (int i = 0; i < SMM_MAX_OPERANDS; i++) arenas[i] = make_arena(ARENA_BYTES);
    report_crashes();
    return run_tests(tests, quick ? count - 1 : count);
}
