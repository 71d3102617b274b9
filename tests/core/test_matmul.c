/* test_matmul.c: smm_run against smm_reference, for every instruction set, dtype, shape, layout and scaling.
 *
 * With FMA the result must equal the reference to the bit; without it (portable on x86-64) it must be within
 * the error bound. Every stack lies between two inaccessible pages, mostly right up against one of them, and
 * no byte between C's elements may change. "quick" as first argument: fewer cases, for valgrind and emulators. */
#define _GNU_SOURCE
#include <float.h>

#include "machines.h"
#include "stacks.h"

static bool quick;

static struct arena arena_a, arena_b, arena_c, arena_alpha, arena_beta;

static smm_call product_of(smm_dtype dtype, intptr_t batch, intptr_t m, intptr_t k, intptr_t n, smm_operand a,
                           smm_operand b, smm_operand c) {
    return (smm_call){.op = SMM_OP_MATMUL,
                      .dtype = dtype,
                      .batch = batch,
                      .m = m,
                      .n = n,
                      .k = k,
                      .matmul = {.a = a, .b = b, .c = c}};
}

/* --- A case: a call, what C was, what C must become --------------------------------------------------- */

enum scaling {
    UNSCALED,
    ALPHA,
    ALPHA_BETA,
    BETA_ONLY,
    BETA_ZERO,  /* C holds NaN and must not be read */
    PER_MATRIX, /* some of the betas are 0 */
    SCALINGS,
};

static const char *const scaling_names[] = {
    "none", "alpha", "alpha and beta", "beta", "beta = 0", "alpha and beta per matrix",
};

struct watched {
    smm_call call;
    struct stack a, b, c;
    enum scaling scaling;
    char *begin; /* of C's span and margins */
    size_t bytes;
    char *before, *expected; /* copies of them, and of what they must become */
};

static smm_operand scalars(const struct arena *arena, bool per_matrix, smm_dtype dtype, intptr_t batch,
                           double (*value)(void)) {
    const intptr_t size = smm_size(dtype);
    const struct stack s =
        lay_out(arena, random_below(2) ? ROW_MAJOR : SLICED, AT_END, 0, per_matrix ? batch : 1, 1, 1, size);
    fill(&s, dtype, value);
    smm_operand x = s.x;
    x.row = x.col = 0;
    if (!per_matrix) x.batch = 0;
    return x;
}

static double zero_value(void) { return 0; }
static double zero_or_random_value(void) { return random_below(3) ? random_value() : 0; }

/* Fill the operands and compute what is expected. `value` draws the elements of A and B. */
static struct watched prepare(smm_dtype dtype, const struct stack *a, const struct stack *b, const struct stack *c,
                              enum scaling scaling, double (*value)(void)) {
    struct watched w = {.a = *a, .b = *b, .c = *c, .scaling = scaling};
    w.call = product_of(dtype, c->batch, c->rows, a->cols, c->cols, a->x, b->x, c->x);
    if (scaling == ALPHA || scaling == ALPHA_BETA || (scaling == BETA_ZERO && random_below(2)) || scaling == PER_MATRIX)
        w.call.matmul.alpha = scalars(&arena_alpha, scaling == PER_MATRIX, dtype, c->batch, random_value);
    if (scaling == ALPHA_BETA || scaling == BETA_ONLY)
        w.call.matmul.beta = scalars(&arena_beta, false, dtype, c->batch, random_value);
    if (scaling == BETA_ZERO) w.call.matmul.beta = scalars(&arena_beta, false, dtype, c->batch, zero_value);
    if (scaling == PER_MATRIX) w.call.matmul.beta = scalars(&arena_beta, true, dtype, c->batch, zero_or_random_value);

    fill(a, dtype, value);
    fill(b, dtype, value);
    const size_t before = smaller(MARGIN, (size_t)(c->low - arena_c.begin));
    const size_t after = smaller(MARGIN, (size_t)(arena_c.end - c->high));
    w.begin = c->low - before;
    w.bytes = before + (size_t)(c->high - c->low) + after;
    for (size_t i = 0; i < w.bytes; i++) w.begin[i] = (char)(0xa5 ^ i);
    for (intptr_t q = 0; q < c->batch; q++) {
        const bool is_read = w.call.matmul.beta.data && load(element(&w.call.matmul.beta, q, 0, 0), dtype) != 0;
        for (intptr_t i = 0; i < c->rows; i++)
            for (intptr_t j = 0; j < c->cols; j++)
                store(element(&c->x, q, i, j), dtype, is_read ? value() : nan_value());
    }

    w.before = malloc(w.bytes + 1);
    w.expected = malloc(w.bytes + 1);
    if (!w.before || !w.expected) exit(2);
    memcpy(w.before, w.begin, w.bytes);
    if (!memory_alone()) smm_reference(&w.call);
    memcpy(w.expected, w.begin, w.bytes);
    return w;
}

static void finish(struct watched *w) {
    free(w->before);
    free(w->expected);
}

static void describe(const struct watched *w, int threads) {
    const smm_call *c = &w->call;
    smm_plan_info plan = {.kernel = "?"};
    smm_explain(c, &plan);
    size_t used = (size_t)snprintf(running, sizeof running,
                                   "matmul %s %s m=%ld k=%ld n=%ld batch=%ld threads=%d scaling=%s kernel=%s",
                                   smm_dtypes[c->dtype].name, smm_isa(), (long)c->m, (long)c->k, (long)c->n,
                                   (long)c->batch, threads, scaling_names[w->scaling], plan.kernel);
    used += (size_t)describe_stack(running + used, sizeof running - used, "A", &w->a);
    used += (size_t)describe_stack(running + used, sizeof running - used, "B", &w->b);
    describe_stack(running + used, sizeof running - used, "C", &w->c);
}

/* Roundings of an element: of its products in a row, or of a chunk of them and then of the tree of chunks, and two. */
static double roundings_of(intptr_t k) {
    if (k <= SMM_DEEP) return (double)(k + 2);
    return SMM_CHUNK + ceil(log2(ceil((double)k / SMM_CHUNK))) + 2;
}

/* What sums are right in: more than a double, where the processor has that. In software it takes most of the time of
 * the tests under an emulator; valgrind makes a double of it, too. */
#if LDBL_MANT_DIG == 64
typedef long double wide;
typedef long double _Complex wide_complex;
#else
typedef double wide;
typedef double _Complex wide_complex;
#endif

static wide_complex number(const char *p, smm_dtype dtype) {
    const wide imaginary = parts_of(dtype) == 2 ? load_part(p, dtype, 1) : 0;
    return __builtin_complex((wide)load(p, dtype), imaginary);
}

/* |x|, of numbers whose squares are in the range of doubles: hypot would take a quarter of the tests' time. */
static wide size_of(wide_complex x) { return sqrt((double)(__real__ x * __real__ x + __imag__ x * __imag__ x)); }

/* A number and its magnitude. They are read for each product: a processor takes wide ones from memory slowly. */
struct term {
    double real, imaginary, size;
};

/* Matrix q of rows x cols, row by row. */
static void unpack(struct term *to, const smm_operand *x, intptr_t q, intptr_t rows, intptr_t cols, smm_dtype dtype) {
    for (intptr_t i = 0; i < rows; i++)
        for (intptr_t j = 0; j < cols; j++, to++) {
            const wide_complex value = number(element(x, q, i, j), dtype);
            *to = (struct term){(double)__real__ value, (double)__imag__ value, (double)size_of(value)};
        }
}

/* An element exactly, of a row of A and a column of B, and the largest error that promise allows: so many u |A| |B|,
 * two roundings more when scaled. Smallest subnormals are added for the products that underflow. */
static void exact_element(const struct watched *w, const struct term *a, const struct term *b,
                          const smm_operand *before, intptr_t q, intptr_t i, intptr_t j, wide_complex *value,
                          wide *bound) {
    const smm_call *c = &w->call;
    const wide_complex alpha = c->matmul.alpha.data ? number(element(&c->matmul.alpha, q, 0, 0), c->dtype) : 1;
    const wide_complex beta = c->matmul.beta.data ? number(element(&c->matmul.beta, q, 0, 0), c->dtype) : 0;
    wide real = 0, imaginary = 0, size = 0;
    for (intptr_t k = 0; k < c->k; k++) {
        real += (wide)a[k].real * b[k].real;
        size += (wide)a[k].size * b[k].size;
    }
    for (intptr_t k = 0; k < c->k && smm_is_complex(c->dtype); k++) {
        real -= (wide)a[k].imaginary * b[k].imaginary;
        imaginary += (wide)a[k].real * b[k].imaginary + (wide)a[k].imaginary * b[k].real;
    }
    const wide_complex sum = __builtin_complex(real, imaginary);
    const wide_complex added = beta != 0 ? beta * number(element(before, q, i, j), c->dtype) : 0;
    const smm_dtype computed = smm_dtypes[c->dtype].computed;
    const wide u = roundoff_of(computed), tiny = smallest_of(computed);
    const bool scaled = c->matmul.alpha.data || c->matmul.beta.data;
    *value = alpha * sum + added;
    *bound = (roundings_of(c->k) + (scaled ? 2 : 0)) * u * (size_of(alpha) * size + size_of(added)) + (c->k + 4) * tiny;
    if (smm_is_complex(c->dtype)) *bound *= 3;
    if (computed != c->dtype) *bound += roundoff_of(c->dtype) * (size_of(*value) + *bound) + smallest_of(c->dtype);
}

/* Compare a matrix of C, element by element, with what is expected; an element that is right is set to the expected
 * bits, so that afterwards any byte that differs is one that should not have been written. */
static bool compare_matrix(const struct watched *w, const struct term *a, const struct term *b, bool exactly,
                           intptr_t q) {
    const smm_call *c = &w->call;
    smm_operand expected = c->matmul.c, before = c->matmul.c;
    expected.data = w->expected + ((char *)c->matmul.c.data - w->begin);
    before.data = w->before + ((char *)c->matmul.c.data - w->begin);
    for (intptr_t i = 0; i < c->m; i++)
        for (intptr_t j = 0; j < c->n; j++) {
            char *p = element(&c->matmul.c, q, i, j), *e = element(&expected, q, i, j);
            const double x = load(p, c->dtype), y = load(e, c->dtype);
            bool right = same_number(p, e, c->dtype);
            if (!exactly) {
                wide_complex value;
                wide bound;
                exact_element(w, a + i * c->k, b + j * c->k, &before, q, i, j, &value, &bound);
                right = size_of(number(p, c->dtype) - value) <= bound;
            }
            if (!CHECK(right, "%s: matrix %ld row %ld column %ld is %a, not %a", running, (long)q, (long)i, (long)j, x,
                       y))
                return false;
            memcpy(p, e, (size_t)smm_size(c->dtype));
        }
    return true;
}

static void compare(const struct watched *w, bool exactly) {
    const smm_call *c = &w->call;
    if (is_as_expected(w->begin, w->expected, w->bytes) && (exactly || memory_alone())) return;
    const smm_operand columns = {c->matmul.b.data, c->matmul.b.batch, c->matmul.b.col, c->matmul.b.row};
    struct term *a = malloc((size_t)((c->m + c->n) * c->k + 1) * sizeof *a), *b = a + c->m * c->k;
    if (!a) exit(2);
    bool right = true;
    for (intptr_t q = 0; q < c->batch && right; q++) {
        if (!exactly) {
            unpack(a, &c->matmul.a, q, c->m, c->k, c->dtype);
            unpack(b, &columns, q, c->n, c->k, c->dtype);
        }
        right = compare_matrix(w, a, b, exactly, q);
    }
    free(a);
    for (size_t i = 0; i < w->bytes && right; i++)
        right = CHECK(w->begin[i] == w->expected[i], "%s: byte %ld, counted from C's lowest, was overwritten", running,
                      (long)(w->begin + i - w->c.low));
}

/* Run the case with each instruction set. `always_exactly`: even without FMA nothing is rounded twice. */
static void check(const struct watched *w, bool always_exactly) {
    for (const char *const *isa = smm_isas_available(); *isa; isa++) {
        const int threads = 1 + (int)random_below(3);
        smm_set_num_threads(threads);
        if (!CHECK(smm_select_isa(*isa) == SMM_OK, "select %s", *isa)) continue;
        memcpy(w->begin, w->before, w->bytes);
        describe(w, threads);
        const smm_status status = smm_run(&w->call);
        if (!CHECK(status == SMM_OK, "%s: %s", running, smm_status_text(status))) continue;
        compare(w, always_exactly || has_fma(*isa));
    }
    smm_set_num_threads(0);
}

/* Whether an element is no more than one product of reals. */
static bool is_product_exact(smm_dtype dtype, intptr_t k) { return k <= (smm_is_complex(dtype) ? 0 : 1); }

static void check_random(smm_dtype dtype, intptr_t m, intptr_t k, intptr_t n, intptr_t batch) {
    const intptr_t size = smm_size(dtype);
    const struct stack a = random_stack(&arena_a, LAYOUTS, batch, m, k, size);
    const struct stack b = random_stack(&arena_b, LAYOUTS, batch, k, n, size);
    const struct stack c = random_stack(&arena_c, LAYOUTS_OF_C, batch, m, n, size);
    struct watched w =
        prepare(dtype, &a, &b, &c, random_below(2) ? UNSCALED : (enum scaling)random_below(SCALINGS), random_value);
    check(&w, is_product_exact(dtype, k) && w.scaling == UNSCALED);
    finish(&w);
}

static const intptr_t batches[] = {0, 1, 3, 7, 8, 9, 16, 17, 33, 1000};
enum { BATCHES = sizeof batches / sizeof *batches };

/* Draws of layout and scaling for every shape, dtype and batch; none for work of more than `most` products. */
static void check_shape(intptr_t m, intptr_t k, intptr_t n, int draws, double most) {
    for (int i = 0; i < BATCHES; i++)
        for (int draw = 0; draw < draws; draw++)
            if ((double)batches[i] * (double)(m * n * (k + 4)) <= most) {
                check_random(SMM_F32, m, k, n, batches[i]);
                check_random(SMM_F64, m, k, n, batches[i]);
                check_random((i + draw) % 2 ? SMM_C64 : SMM_C128, m, k, n, batches[i]);
                check_random((i + draw) % 2 ? SMM_F16 : SMM_BF16, m, k, n, batches[i]);
            }
}

/* --- The tests ---------------------------------------------------------------------------------------- */

/* All orders to 33, or small ones and those around numbers of lanes. */
static intptr_t after(intptr_t n) { return quick && n >= 9 && n % 8 == 1 ? n + 6 : n + 1; }

static void test_square(void) {
    static const intptr_t larger[] = {40, 48, 64, 65, 100};
    for (intptr_t n = 1; n <= 33; n = after(n)) check_shape(n, n, n, quick ? 1 : 3, quick ? 1e5 : 2e6);
    for (int i = 0; i < 5; i++) check_shape(larger[i], larger[i], larger[i], quick ? 1 : 2, quick ? 3e5 : 1e7);
}

/* A vector on either side has kernels of its own. */
static void test_vectors(void) {
    const double budget = quick ? 1e5 : 1e6;
    for (intptr_t n = 1; n <= 33; n = after(n)) {
        check_shape(n, n, 1, quick ? 1 : 4, budget);
        check_shape(1, n, n, quick ? 1 : 4, budget);
        check_shape(1 + random_below(70), n, 1, quick ? 1 : 2, budget);
        check_shape(n, 1 + random_below(70), 1, quick ? 1 : 2, budget);
    }
}

/* Each layout and place against each, for a few shapes, so that none is left to chance. */
static void test_layouts(void) {
    static const intptr_t shapes[][3] = {{3, 3, 3}, {4, 4, 4}, {8, 8, 8}, {5, 7, 9}, {16, 16, 16}, {17, 6, 33}};
    for (int s = 0; s < (quick ? 2 : 6); s++)
        for (int i = 0; i < LAYOUTS * LAYOUTS * LAYOUTS_OF_C; i++) {
            const intptr_t m = shapes[s][0], k = shapes[s][1], n = shapes[s][2], batch = 1 + i % 19;
            const smm_dtype dtype = dtype_in_turn(i + i / LAYOUTS);
            const intptr_t size = smm_size(dtype);
            const enum layout of_a = (enum layout)(i % LAYOUTS), of_b = (enum layout)(i / LAYOUTS % LAYOUTS);
            const struct stack a = lay_out(&arena_a, of_a, (enum place)(i % 3), 0, batch, m, k, size);
            const struct stack b = lay_out(&arena_b, of_b, (enum place)(i / 3 % 3), 0, batch, k, n, size);
            const struct stack c =
                lay_out(&arena_c, (enum layout)(i / LAYOUTS / LAYOUTS), (enum place)(i / 9 % 3), 0, batch, m, n, size);
            struct watched w = prepare(dtype, &a, &b, &c, (enum scaling)(i % SCALINGS), random_value);
            check(&w, false);
            finish(&w);
        }
}

static void test_rectangular(void) {
    for (int i = 0; i < (quick ? 25 : 150); i++)
        check_shape(random_below(41), random_below(41), random_below(41), 1, quick ? 2e5 : 4e6);
}

/* Row, column and inner-only shapes, and each of m, k, n zero. */
static void test_thin(void) {
    const double budget = quick ? 2e4 : 2e5;
    static const intptr_t lengths[] = {0, 1, 2, 8, 33};
    for (int i = 0; i < 5; i++)
        for (int j = 0; j < 5; j++) {
            check_shape(1, lengths[i], lengths[j], 1, budget);
            check_shape(lengths[i], 1, lengths[j], 1, budget);
            check_shape(lengths[i], lengths[j], 1, 1, budget);
            check_shape(0, lengths[i], lengths[j], 1, budget);
            check_shape(lengths[i], 0, lengths[j], 1, budget);
        }
}

/* Long sums and large matrices, beyond the sizes that kernels are made for. */
static void test_large(void) {
    static const intptr_t shapes[][3] = {
        {1, 5000, 1}, {2, 3000, 3},   {200, 1, 200}, {300, 3, 2},
        {2, 3, 300},  {130, 70, 129}, {9, 2050, 5},  {5, 2050, 66},
    };
    for (int i = 0; i < (quick ? 5 : 8); i++)
        for (intptr_t batch = 1; batch <= 3; batch += 2)
            for (int draw = 0; draw < (quick ? 1 : 6); draw++) {
                check_random(SMM_F32, shapes[i][0], shapes[i][1], shapes[i][2], batch);
                check_random(SMM_F64, shapes[i][0], shapes[i][1], shapes[i][2], batch);
            }
}

/* Around each number of products at which chunks begin, or are one more: every layout and scaling. */
static void test_deep(void) {
    static const intptr_t depths[] = {1024, 1025, 1279, 1280, 1281, 2048, 5000};
    static const intptr_t sizes[][2] = {{1, 1}, {3, 3}, {1, 9}, {17, 1}, {8, 8}, {5, 70}, {40, 33}, {70, 3}, {2, 1100}};
    for (int i = 0; i < 7; i++)
        for (int j = 0; j < (quick ? 4 : 9); j++)
            for (int draw = 0; draw < (quick ? 1 : 8); draw++) {
                const intptr_t batch = draw % 3 && sizes[j][1] < 1000 ? 1 + random_below(5) : 1;
                check_random(dtype_in_turn(draw), sizes[j][0], depths[i], sizes[j][1], batch);
            }
    check_random(SMM_F32, 130, 1300, 129, 1); /* several blocks each way */
    if (!quick) check_random(SMM_F64, 1, 1100, 3000, 1);
}

/* Few matrices that threads share in parts: blocks of C, chunks of deep sums, or both. */
static void test_parts(void) {
    static const intptr_t shapes[][3] = {
        {150, 150, 150}, {3, 40000, 3}, {1, 100000, 1}, {70, 3000, 33}, {2, 500, 1100}, {1100, 500, 2}, {40, 10001, 9},
    };
    const int before = smm_get_num_threads();
    for (int i = 0; i < (quick ? 3 : 7); i++)
        for (int draw = 0; draw < (quick ? 2 : 8); draw++) {
            smm_set_num_threads(2 + draw % 3);
            check_random(dtype_in_turn(draw), shapes[i][0], shapes[i][1], shapes[i][2], 1 + draw % 2);
        }
    smm_set_num_threads(before);
}

/* sum + lost = sum + lost + x, where lost collects what each addition rounds off (Neumaier, ZAMM 54, 1974): the sum of
 * any number of terms is right to a few units of a double even where long double is no more than that, as under
 * valgrind. */
static void add_exactly(long double *sum, long double *lost, long double x) {
    const volatile long double both = *sum + x;
    *lost += fabsl(*sum) >= fabsl(x) ? (*sum - both) + x : (x - both) + *sum;
    *sum = both;
}

/* The error of sums of millions. All products of one sign and size are the worst: rounded one after the other, the
 * errors of most are alike. */
static void test_depths(void) {
    static const intptr_t depths[] = {1025, 5000, 100000, 1000000, 4000000};
    for (const char *const *isa = smm_isas_available(); *isa; isa++)
        for (int i = 0; i < (quick ? 2 : 5); i++)
            for (int dtype = SMM_F32; dtype <= SMM_F64; dtype++) {
                const intptr_t k = depths[i], size = smm_size((smm_dtype)dtype);
                const struct stack x = lay_out(&arena_a, ROW_MAJOR, AT_END, 0, 1, k, 2, size);
                long double sum[2][2] = {{0}}, lost[2][2] = {{0}}, magnitude[2][2] = {{0}};
                for (intptr_t p = 0; p < k; p++) {
                    store(element(&x.x, 0, p, 0), (smm_dtype)dtype, dtype == SMM_F32 ? 0.1f : 0.125);
                    store(element(&x.x, 0, p, 1), (smm_dtype)dtype, dtype == SMM_F32 ? random_value() : 1.3);
                    for (int e = 0; e < 4; e++) {
                        const long double product = (long double)load(element(&x.x, 0, p, e / 2), (smm_dtype)dtype) *
                                                    load(element(&x.x, 0, p, e % 2), (smm_dtype)dtype);
                        add_exactly(&sum[e / 2][e % 2], &lost[e / 2][e % 2], product);
                        magnitude[e / 2][e % 2] += fabsl(product);
                    }
                }
                const struct stack c = lay_out(&arena_c, ROW_MAJOR, AT_END, 0, 1, 2, 2, size);
                const smm_call call =
                    product_of((smm_dtype)dtype, 1, 2, k, 2, (smm_operand){x.x.data, 0, x.x.col, x.x.row}, x.x, c.x);
                smm_select_isa(*isa);
                CHECK(smm_run(&call) == SMM_OK, "A^T A, k = %ld", (long)k);
                const long double u = dtype == SMM_F32 ? 0x1p-24L : 0x1p-53L, oracle = 4 * 0x1p-53L;
                for (int e = 0; e < 4; e++) {
                    const long double found = load(element(&c.x, 0, e / 2, e % 2), (smm_dtype)dtype);
                    const long double off =
                        fabsl(found - (sum[e / 2][e % 2] + lost[e / 2][e % 2])) / magnitude[e / 2][e % 2];
                    CHECK(off <= roundings_of(k) * u + oracle, "%s %s A^T A, k = %ld: an error of %Lg u", *isa,
                          smm_dtypes[dtype].name, (long)k, off / u);
                }
            }
}

/* More chunks than any memory holds are added up in the same room: A and B are one element, all strides 0. */
static void test_depth_of_one_element(void) {
    double one = 1;
    const intptr_t k = ((intptr_t)1 << (quick ? 18 : 26)) + 1, n = 70;
    const struct stack c = lay_out(&arena_c, ROW_MAJOR, AT_END, 0, 1, 3, n, 8);
    const smm_operand ones = {&one, 0, 0, 0};
    const smm_call call = product_of(SMM_F64, 1, 3, k, n, ones, ones, c.x);
    CHECK(smm_run(&call) == SMM_OK, "sums of ones");
    for (intptr_t e = 0; e < 3 * n; e++)
        CHECK(((double *)c.x.data)[e] == (double)k, "a sum of ones is %g", ((double *)c.x.data)[e]);
}

/* NaN, infinities, signed zeros, subnormals and the largest numbers. Without FMA a product may overflow or
 * underflow on its own, so there only k = 1 is compared. */
static void test_special_values(void) {
    for (int i = 0; i < (quick ? 60 : 3000); i++) {
        const smm_dtype dtype = dtype_in_turn(i + i / 4);
        const intptr_t size = smm_size(dtype), batch = 1 + random_below(20);
        const intptr_t m = 1 + random_below(18), n = 1 + random_below(18), k = i % 4 ? 1 + random_below(12) : 1;
        const struct stack a = random_stack(&arena_a, LAYOUTS, batch, m, k, size);
        const struct stack b = random_stack(&arena_b, LAYOUTS, batch, k, n, size);
        const struct stack c = random_stack(&arena_c, LAYOUTS_OF_C, batch, m, n, size);
        const enum scaling scaling = k == 1 ? UNSCALED : (enum scaling)random_below(SCALINGS);
        struct watched w = prepare(dtype, &a, &b, &c, scaling, special_value);
        for (const char *const *isa = smm_isas_available(); *isa; isa++) {
            smm_select_isa(*isa);
            if (!is_product_exact(dtype, k) && !has_fma(*isa)) continue;
            memcpy(w.begin, w.before, w.bytes);
            describe(&w, smm_get_num_threads());
            CHECK(smm_run(&w.call) == SMM_OK, "%s", running);
            compare(&w, true);
        }
        finish(&w);
    }
}

/* C of a dense call, matrix after matrix, to compare the bits of two ways to compute it. */
static void *dense_copy_of_c(const smm_call *c) {
    const size_t size = (size_t)smm_size(c->dtype);
    char *copy = malloc((size_t)(c->batch * c->m * c->n) * size + 1), *p = copy;
    if (!copy) exit(2);
    for (intptr_t q = 0; q < c->batch; q++)
        for (intptr_t i = 0; i < c->m; i++)
            for (intptr_t j = 0; j < c->n; j++, p += size) memcpy(p, element(&c->matmul.c, q, i, j), size);
    return copy;
}

/* Run a call and say whether C's bits are `bits`; C is set to NaN before. */
static bool gives(const smm_call *call, const struct stack *c, const char *bits) {
    memset(c->low, 0xff, (size_t)(c->high - c->low));
    if (smm_run(call)) return false;
    char *found = dense_copy_of_c(call);
    const bool same = !memcmp(found, bits, (size_t)(call->batch * call->m * call->n * smm_size(call->dtype)));
    free(found);
    return same;
}

/* One product in every way, of each instruction set: threads, a part of the batch at any place in it, other layouts. */
static void check_same_bits(smm_dtype dtype, intptr_t m, intptr_t k, intptr_t n, intptr_t batch) {
    enum { MAX_ISAS = 4 };
    static struct arena source_a, source_b;
    if (!source_a.begin) {
        source_a = make_arena(ARENA_BYTES);
        source_b = make_arena(ARENA_BYTES);
    }
    const char *const *isas = smm_isas_available();
    char *bits[MAX_ISAS];
    const intptr_t size = smm_size(dtype);
    const struct stack a = lay_out(&source_a, ROW_MAJOR, AT_BEGIN, 0, batch, m, k, size);
    const struct stack b = lay_out(&source_b, ROW_MAJOR, AT_BEGIN, 0, batch, k, n, size);
    const struct stack c = lay_out(&arena_c, ROW_MAJOR, AT_BEGIN, 0, batch, m, n, size);
    fill(&a, dtype, random_value);
    fill(&b, dtype, random_value);
    smm_call call = product_of(dtype, batch, m, k, n, a.x, b.x, c.x);
    snprintf(running, sizeof running, "matmul %s m=%ld k=%ld n=%ld batch=%ld", smm_dtypes[dtype].name, (long)m, (long)k,
             (long)n, (long)batch);
    for (int isa = 0; isas[isa]; isa++) {
        smm_select_isa(isas[isa]);
        smm_set_num_threads(1);
        CHECK(smm_run(&call) == SMM_OK, "%s on %s", running, isas[isa]);
        bits[isa] = dense_copy_of_c(&call);

        for (int threads = 1; threads <= 5; threads++) {
            smm_set_num_threads(threads);
            CHECK(gives(&call, &c, bits[isa]), "%s on %s: other bits on %d threads", running, isas[isa], threads);
        }
        for (int i = 0; i < (quick ? 3 : 12); i++) {
            const intptr_t first = random_below(batch), count = 1 + random_below(i % 2 ? batch - first : 1);
            smm_call part = call;
            part.batch = count;
            part.matmul.a.data = element(&call.matmul.a, first, 0, 0);
            part.matmul.b.data = element(&call.matmul.b, first, 0, 0);
            struct stack part_c = lay_out(&arena_c, ROW_MAJOR, (enum place)(i % PLACES), 0, count, m, n, size);
            part.matmul.c = part_c.x;
            CHECK(gives(&part, &part_c, bits[isa] + first * m * n * size),
                  "%s on %s: other bits for matrices %ld .. %ld alone", running, isas[isa], (long)first,
                  (long)(first + count - 1));
        }
    }
    for (int i = 0; i < (quick ? 4 : 16); i++) {
        const struct stack other_a = random_stack(&arena_a, LAYOUTS_OF_C, batch, m, k, size);
        const struct stack other_b = random_stack(&arena_b, LAYOUTS_OF_C, batch, k, n, size);
        const struct stack other_c = random_stack(&arena_c, LAYOUTS_OF_C, batch, m, n, size);
        copy_values(&other_a, &a, dtype);
        copy_values(&other_b, &b, dtype);
        smm_call other = call;
        other.matmul.a = other_a.x;
        other.matmul.b = other_b.x;
        other.matmul.c = other_c.x;
        for (int isa = 0; isas[isa]; isa++) {
            smm_select_isa(isas[isa]);
            CHECK(gives(&other, &other_c, bits[isa]), "%s on %s: other bits for A %s, B %s, C %s", running, isas[isa],
                  layout_names[other_a.layout], layout_names[other_b.layout], layout_names[other_c.layout]);
        }
    }
    for (int isa = 0; isas[isa]; isa++) free(bits[isa]);
    smm_set_num_threads(0);
}

static void test_same_bits(void) {
    static const intptr_t shapes[][3] = {
        {1, 1, 1},    {2, 2, 2},    {3, 3, 3},    {4, 4, 4},    {5, 5, 5},   {8, 8, 8}, {12, 12, 12},
        {16, 16, 16}, {17, 17, 17}, {32, 32, 32}, {33, 33, 33}, {3, 25, 3},  {6, 1, 6}, {1, 9, 4},
        {7, 3, 1},    {70, 9, 70},  {3, 3, 1},    {8, 8, 1},    {20, 31, 1}, {1, 4, 4}, {4, 1500, 4},
    };
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        const intptr_t m = shapes[i][0], k = shapes[i][1], n = shapes[i][2];
        const intptr_t most = (quick ? 20000 : 1000000) / (m * k + k * n + m * n),
                       batch = most < 3000 ? most + 1 : 3000;
        check_same_bits(SMM_F32, m, k, n, batch);
        check_same_bits(SMM_F64, m, k, n, batch);
        check_same_bits(SMM_C64, m, k, n, batch);
        check_same_bits(SMM_C128, m, k, n, batch);
        check_same_bits(SMM_F16, m, k, n, batch);
    }
}

/* A stack larger than the caches, whose C is written around them, against the same in small calls. */
static void check_streamed(smm_dtype dtype, const char *isa, intptr_t m, intptr_t k, intptr_t n, enum place place) {
    const intptr_t size = smm_size(dtype), batch = (72 << 20) / ((m * k + k * n + m * n) * size);
    const struct stack a = lay_out(&arena_a, ROW_MAJOR, place, 0, batch, m, k, size);
    const struct stack b = lay_out(&arena_b, ROW_MAJOR, place, 0, batch, k, n, size);
    const struct stack c = lay_out(&arena_c, ROW_MAJOR, place, 0, batch, m, n, size);
    smm_call call = product_of(dtype, batch, m, k, n, a.x, b.x, c.x);
    fill(&a, dtype, random_value);
    fill(&b, dtype, random_value);
    fill(&c, dtype, nan_value);
    snprintf(running, sizeof running, "matmul %s %s (%ld x %ld) (%ld x %ld) batch=%ld, C %s", smm_dtypes[dtype].name,
             isa, (long)m, (long)k, (long)k, (long)n, (long)batch, place_names[place]);
    smm_plan_info plan;
    for (intptr_t first = 0; first < batch; first += 1000) {
        smm_call part = call;
        part.batch = batch - first < 1000 ? batch - first : 1000;
        part.matmul.a.data = element(&a.x, first, 0, 0);
        part.matmul.b.data = element(&b.x, first, 0, 0);
        part.matmul.c.data = element(&c.x, first, 0, 0);
        CHECK(smm_run(&part) == SMM_OK && smm_explain(&part, &plan) == SMM_OK && !plan.nontemporal, "%s: a part",
              running);
    }
    char *bits = dense_copy_of_c(&call);
    CHECK(smm_explain(&call, &plan) == SMM_OK && plan.nontemporal, "%s: C is not streamed", running);
    for (int threads = 1; threads <= 2; threads++) {
        smm_set_num_threads(threads);
        CHECK(gives(&call, &c, bits), "%s: other bits when streamed on %d threads", running, threads);
    }
    free(bits);
    smm_set_num_threads(0);
}

static void test_streamed(void) {
    for (const char *const *isa = smm_isas_available(); *isa; isa++) {
        smm_select_isa(*isa);
        check_streamed(SMM_F64, *isa, 3, 3, 3, AFTER_ONE);
        check_streamed(SMM_F32, *isa, 5, 5, 5, AT_END);
        check_streamed(SMM_F64, *isa, 8, 8, 8, AT_BEGIN);
        check_streamed(SMM_F32, *isa, 31, 31, 31, AFTER_ONE);
        check_streamed(SMM_F32, *isa, 3, 3, 3, AFTER_ONE);
        check_streamed(SMM_F64, *isa, 3, 3, 1, AT_END);
        check_streamed(SMM_F32, *isa, 20, 11, 1, AFTER_ONE);
        check_streamed(SMM_C64, *isa, 3, 3, 3, AFTER_ONE);
        check_streamed(SMM_C128, *isa, 8, 8, 8, AT_END);
    }
}

static const char *begin_of_a;
enum { BATCH_ON_NODES = 300000 }; /* 9.6 MB of A: enough to ask where it lies */
static int first_third_on_2(const void *page) {
    return (const char *)page - begin_of_a < BATCH_ON_NODES / 3 * 32 ? 2 : 0;
}
static int all_on_0(const void *page) { return (void)page, 0; }

/* Whatever nodes there are and wherever A lies; two outer dimensions, one of which goes backwards. */
static void test_same_bits_on_nodes(void) {
    double *a = malloc(BATCH_ON_NODES * 4 * sizeof *a), *c = malloc(BATCH_ON_NODES * 4 * sizeof *c);
    double *expected = malloc(BATCH_ON_NODES * 4 * sizeof *c), b[4];
    for (int i = 0; i < BATCH_ON_NODES * 4; i++) a[i] = random_value();
    for (int i = 0; i < 4; i++) b[i] = random_value();
    const smm_outer outer = {1, {3}, {{-BATCH_ON_NODES / 3 * 32, 0, 0, 0, -BATCH_ON_NODES / 3 * 32}}};
    begin_of_a = (const char *)a;
    smm_call call = {.op = SMM_OP_MATMUL, .dtype = SMM_F64, .batch = BATCH_ON_NODES / 3, .m = 2, .n = 2, .k = 2};
    call.matmul.a = (smm_operand){a + BATCH_ON_NODES / 3 * 8, 32, 16, 8};
    call.matmul.b = (smm_operand){b, 0, 16, 8};
    call.matmul.c = (smm_operand){c + BATCH_ON_NODES / 3 * 8, 32, 16, 8};
    call.outer = &outer;
    smm_set_num_threads(1);
    CHECK(smm_run(&call) == SMM_OK, "on one thread");
    memcpy(expected, c, BATCH_ON_NODES * 4 * sizeof *c);
    smm_set_num_threads(6);
    for (int i = 0; i < 2 * MACHINES; i++) {
        const struct machine *m = &machines[i / 2];
        become(m);
        node_of_page = i % 2 ? first_third_on_2 : all_on_0;
        memset(c, 0, BATCH_ON_NODES * 4 * sizeof *c);
        CHECK(smm_run(&call) == SMM_OK && !memcmp(expected, c, BATCH_ON_NODES * 4 * sizeof *c), "%s: other bits",
              m->name);
        smm_plan_info plan;
        CHECK(smm_explain(&call, &plan) == SMM_OK && plan.threads == 6 && plan.nodes == m->sharing,
              "%s: %d threads of %d nodes", m->name, plan.threads, plan.nodes);
        if (m->sharing != 3 || i % 2 == 0) continue;
        /* a repetition later in the job lies earlier in memory, so node 2 comes after node 0 */
        double share[NODES_LISTED] = {0};
        for (int j = 0; j < plan.nodes; j++) share[plan.node[j]] = plan.share[j];
        CHECK(plan.node[0] == 0 && fabs(share[2] - 1.0 / 3) < 0.02 && fabs(share[0] - 2.0 / 3) < 0.02,
              "%s: node %d comes first; node 2 gets %g", m->name, plan.node[0], share[2]);
    }
    become(NULL);
    smm_set_num_threads(0);
    free(a);
    free(c);
    free(expected);
}

/* One bad matrix harms only itself. */
static void test_bad_neighbours(void) {
    enum { BATCH = 40, N = 5 };
    for (const char *const *isa = smm_isas_available(); *isa; isa++) {
        smm_select_isa(*isa);
        const struct stack a = lay_out(&arena_a, ROW_MAJOR, AT_END, 0, BATCH, N, N, 8);
        const struct stack b = lay_out(&arena_b, ROW_MAJOR, AT_END, 0, BATCH, N, N, 8);
        const struct stack c = lay_out(&arena_c, ROW_MAJOR, AT_END, 0, BATCH, N, N, 8);
        const smm_call call = product_of(SMM_F64, BATCH, N, N, N, a.x, b.x, c.x);
        fill(&a, SMM_F64, random_value);
        fill(&b, SMM_F64, random_value);
        CHECK(smm_run(&call) == SMM_OK, "run");
        char *bits = dense_copy_of_c(&call);
        for (intptr_t bad = 0; bad < BATCH; bad++) {
            double kept[N * N];
            memcpy(kept, element(&a.x, bad, 0, 0), sizeof kept);
            for (int i = 0; i < N * N; i++) ((double *)element(&a.x, bad, 0, 0))[i] = nan_value();
            CHECK(smm_run(&call) == SMM_OK, "run");
            for (intptr_t q = 0; q < BATCH; q++) {
                const char *found = element(&c.x, q, 0, 0);
                if (q != bad)
                    CHECK(!memcmp(found, bits + q * N * N * 8, N * N * 8), "%s: NaN in matrix %ld changed %ld", *isa,
                          (long)bad, (long)q);
                for (int i = 0; q == bad && i < N * N; i++)
                    CHECK(isnan(((const double *)found)[i]), "%s: matrix %ld is not NaN", *isa, (long)q);
            }
            memcpy(element(&a.x, bad, 0, 0), kept, sizeof kept);
        }
        free(bits);
    }
}

static void test_arguments(void) {
    double x[16] = {0};
    const smm_operand good = {x, 32, 16, 8};
    const smm_call call =
        product_of(SMM_F64, 1, 2, 2, 2, good, (smm_operand){x + 4, 32, 16, 8}, (smm_operand){x + 8, 32, 16, 8});
    smm_plan_info plan;
    setenv("SMALLMM_NUM_THREADS", "two", 1); /* which the first call asks for, and then no other */
    CHECK(smm_run(&call) == SMM_ERR_THREADS && smm_get_num_threads() == 0, "runs on \"two\" threads");
    unsetenv("SMALLMM_NUM_THREADS");
    CHECK(smm_run(&call) == SMM_OK, "a good call");
    CHECK(smm_explain(&call, &plan) == SMM_OK && plan.flops == 16 && plan.bytes == 96 && plan.threads == 1,
          "explain: %g flops, %g bytes, %d threads", plan.flops, plan.bytes, plan.threads);
    CHECK(strstr(plan.kernel, smm_isa()) && !strcmp(plan.isa, smm_isa()), "explain: %s, %s", plan.kernel, plan.isa);
    smm_call bad[12];
    for (int i = 0; i < 12; i++) bad[i] = call;
    bad[0].batch = -1;
    bad[1].m = -1;
    bad[2].n = -1;
    bad[3].k = -1;
    bad[4].matmul.a.data = NULL;
    bad[5].matmul.b.data = NULL;
    bad[6].matmul.c.data = NULL;
    bad[7].matmul.a.col = 4;
    bad[8].matmul.b.row = 12;
    bad[9].batch = 2, bad[9].matmul.c.batch = 33; /* of a batch of one it is never used */
    bad[10].matmul.a.data = (char *)x + 4;
    bad[11].dtype = (smm_dtype)7;
    for (int i = 0; i < 12; i++) {
        const smm_status expected = i < 11 ? SMM_ERR_ARGUMENT : SMM_ERR_OPERATION;
        CHECK(smm_run(&bad[i]) == expected, "bad call %d runs", i);
        CHECK(smm_explain(&bad[i], &plan) == expected, "bad call %d is explained", i);
    }
    CHECK(smm_run(NULL) == SMM_ERR_ARGUMENT, "no call runs");
    smm_call empty = call;
    empty.batch = 0;
    empty.matmul.a.data = empty.matmul.b.data = empty.matmul.c.data = NULL;
    CHECK(smm_run(&empty) == SMM_OK, "an empty call of null pointers");
    smm_call no_terms = call;
    no_terms.k = 0;
    no_terms.matmul.a.data = no_terms.matmul.b.data = NULL;
    x[8] = 1;
    strcpy(running, "k = 0, A and B null");
    CHECK(smm_run(&no_terms) == SMM_OK && x[8] == 0, "%s: C is %g", running, x[8]);
    for (int status = SMM_OK; status <= SMM_ERR_STOPPED; status++)
        CHECK(strlen(smm_status_text((smm_status)status)) > 5, "status %d has no text", status);
}

static int times_asked;

/* Answers yes the second time; each time another call runs in between. */
static bool ask(void) {
    double x[] = {3, 2, 0};
    const smm_operand of[] = {{x, 8, 8, 8}, {x + 1, 8, 8, 8}, {x + 2, 8, 8, 8}};
    const double alpha = 5;
    const smm_call call = {.op = SMM_OP_MATMUL,
                           .dtype = SMM_F64,
                           .batch = 1,
                           .m = 1,
                           .n = 1,
                           .k = 1,
                           .matmul = {.a = of[0], .b = of[1], .alpha = {.data = (double *)&alpha}, .c = of[2]}};
    CHECK(smm_run(&call) == SMM_OK && x[2] == 30, "a call within another: C is %g", x[2]);
    return ++times_asked >= 2;
}

/* A large matrix, many small ones, and calls that go through buffers. */
static void test_interrupted(void) {
    enum { LARGE = 4000, SMALL = 8 };
    const intptr_t depth = quick ? 200 : 1000; /* a piece of work takes valgrind a second */
    float *x = calloc((size_t)(LARGE * depth * 2 + LARGE * LARGE), sizeof *x);
    if (!x) exit(2);
    const smm_operand a = {x, 0, depth * 4, 4}, b = {x + LARGE * depth, 0, LARGE * 4, 4},
                      c = {x + LARGE * depth * 2, 0, LARGE * 4, 4};
    const smm_call large = product_of(SMM_F32, 1, LARGE, depth, LARGE, a, b, c);
    smm_call cases[] = {large, large, large, large};
    cases[1].matmul.b = (smm_operand){b.data, 0, 4, depth * 4}; /* packed */
    cases[2].batch = (intptr_t)1 << 50;
    cases[2].m = cases[2].n = cases[2].k = SMALL;
    cases[3] = cases[2];
    cases[3].matmul.a.col = 8; /* packed */
    smm_set_interrupt(ask);
    for (int threads = 1; threads <= 2; threads++)
        for (int i = 0; i < 4; i++) {
            if (quick && i / 2 == threads % 2) continue;
            smm_set_num_threads(threads);
            times_asked = 0;
            CHECK(smm_run(&cases[i]) == SMM_ERR_STOPPED && times_asked == 2,
                  "interrupted call %d on %d threads: asked %d times", i, threads, times_asked);
            smm_call shorter = cases[i];
            shorter.batch = min_of(shorter.batch, 1000);
            shorter.m = min_of(shorter.m, 100);
            shorter.n = min_of(shorter.n, 400);
            times_asked = -1000000;
            CHECK(smm_run(&shorter) == SMM_OK, "call %d on %d threads after an interrupted one", i, threads);
        }
    smm_set_interrupt(NULL);
    smm_set_num_threads(0);
    free(x);
}

static void test_instruction_sets(void) {
    const char *const *isas = smm_isas_available();
    CHECK(isas[0] && !strcmp(isas[0], "portable"), "the first is %s", isas[0]);
    const char *best = NULL;
    for (; *isas; isas++) {
        best = *isas;
        CHECK(smm_select_isa(best) == SMM_OK && !strcmp(smm_isa(), best), "select %s", best);
        setenv("SMALLMM_ISA", best, 1);
        CHECK(smm_select_isa(NULL) == SMM_OK && !strcmp(smm_isa(), best), "SMALLMM_ISA=%s", best);
    }
    CHECK(smm_select_isa("mmx") == SMM_ERR_ISA && !strcmp(smm_isa(), best), "select mmx");
    setenv("SMALLMM_ISA", "mmx", 1);
    CHECK(smm_select_isa(NULL) == SMM_ERR_ISA, "SMALLMM_ISA=mmx");
    unsetenv("SMALLMM_ISA");
    CHECK(smm_select_isa(NULL) == SMM_OK && !strcmp(smm_isa(), best), "the best is not the default");
}

int main(int argc, char **argv) {
    static const struct test tests[] = {
        {"arguments", test_arguments},
        {"interrupted", test_interrupted},
        {"instruction sets", test_instruction_sets},
        {"square", test_square},
        {"vectors", test_vectors},
        {"layouts", test_layouts},
        {"rectangular", test_rectangular},
        {"thin", test_thin},
        {"large", test_large},
        {"deep", test_deep},
        {"parts", test_parts},
        {"depths", test_depths},
        {"depth of one element", test_depth_of_one_element},
        {"special values", test_special_values},
        {"same bits", test_same_bits},
        {"same bits on nodes", test_same_bits_on_nodes},
        {"bad neighbours", test_bad_neighbours},
        /* Hundreds of megabytes: too much for valgrind and emulators. */
        {"streamed", test_streamed},
    };
    const int count = sizeof tests / sizeof *tests;
    quick = argc > 1 && !strcmp(argv[1], "quick");
    struct arena *arenas[] = {&arena_a, &arena_b, &arena_c, &arena_alpha, &arena_beta};
    for (int i = 0; i < 5; i++) *arenas[i] = make_arena(i < 3 ? ARENA_BYTES : 1 << 20);
    report_crashes();
    return run_tests(tests, quick ? count - 1 : count);
}
