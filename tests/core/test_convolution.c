/* test_convolution.c: convolutions of random sizes and strides, on every instruction set and with several threads,
 * against MATMUL of the filters with the whole im2col matrix, bit by bit. Arrays end where their last element does, so
 * that sanitizers see every access beyond. "quick" as first argument is for emulators and sanitizers. */
#include <string.h>

#include "../../csrc/core/core.h"
#include "harness.h"

enum { MAX_BYTES = 16 };

static intptr_t between(intptr_t low, intptr_t high) { return low + random_below(high - low + 1); }

static void put(char *x, smm_dtype dtype) {
    const intptr_t part = smm_dtypes[dtype].size[SMM_REAL];
    for (intptr_t i = 0; i < smm_size(dtype); i += part) smm_put(x + i, smm_dtypes[dtype].real, random_value());
}

static char *new_array(intptr_t elements, smm_dtype dtype) {
    char *x = malloc((size_t)(elements * smm_size(dtype)));
    for (intptr_t i = 0; i < elements; i++) put(x + i * smm_size(dtype), dtype);
    return x;
}

/* Images, groups, channels, rows and columns of an array, dense in a random order of dimensions. */
typedef struct layout {
    intptr_t extent[5], stride[5];
} layout;

static intptr_t lay_out(layout *x, intptr_t size) {
    int order[5] = {0, 1, 2, 3, 4};
    for (int i = 4; i > 0; i--) {
        const int j = (int)random_below(i + 1), kept = order[i];
        order[i] = order[j];
        order[j] = kept;
    }
    intptr_t elements = 1;
    for (int i = 0; i < 5; i++) {
        x->stride[order[i]] = elements * size;
        elements *= x->extent[order[i]];
    }
    return elements;
}

static smm_axis random_axis(intptr_t most) {
    smm_axis x = {0, 0, between(1, 4), between(1, 3), between(1, 2), between(0, 3)};
    const intptr_t span = x.dilation * (x.kernel - 1) + 1;
    x.inputs = between(1, most) + span;
    x.outputs = (x.inputs + 2 * x.before - span) / x.stride + 1;
    return x;
}

/* A number of the dtype as one of those it is computed in. */
static void widen(char *to, const char *from, smm_dtype dtype) {
    if (smm_is_stored(dtype))
        smm_put(to, smm_dtypes[dtype].computed, smm_get(from, dtype));
    else
        memcpy(to, from, smm_size(dtype));
}

/* All terms of all outputs of one group, (depth, pixels). */
static char *im2col(const smm_convolution *c, const layout *x, intptr_t group) {
    const smm_dtype computed = smm_dtypes[c->dtype].computed;
    const intptr_t size = smm_size(computed), p = c->rows.outputs, q = c->columns.outputs;
    const intptr_t r = c->rows.kernel, s = c->columns.kernel, pixels = c->images * p * q;
    char *matrix = calloc((size_t)(c->channels * r * s * pixels), (size_t)size);
    for (intptr_t term = 0; term < c->channels * r * s; term++)
        for (intptr_t pixel = 0; pixel < pixels; pixel++) {
            const intptr_t row = pixel / q % p * c->rows.stride - c->rows.before + term / s % r * c->rows.dilation;
            const intptr_t column = pixel % q * c->columns.stride - c->columns.before + term % s * c->columns.dilation;
            if (row < 0 || row >= c->rows.inputs || column < 0 || column >= c->columns.inputs) continue;
            const intptr_t at[5] = {pixel / q / p, group, term / s / r, row, column};
            const char *from = c->x;
            for (int d = 0; d < 5; d++) from += at[d] * x->stride[d];
            widen(matrix + (term * pixels + pixel) * size, from, c->dtype);
        }
    return matrix;
}

static void check_group(const smm_convolution *c, const layout *x, const layout *y, intptr_t group) {
    const smm_dtype computed = smm_dtypes[c->dtype].computed;
    const intptr_t size = smm_size(computed), stored = smm_size(c->dtype), p = c->rows.outputs, q = c->columns.outputs;
    const intptr_t pixels = c->images * p * q, depth = c->channels * c->rows.kernel * c->columns.kernel;
    char *const columns = im2col(c, x, group), *const product = malloc((size_t)(c->filters * pixels * size));
    const smm_call call = {
        .op = SMM_OP_MATMUL,
        .dtype = computed,
        .batch = 1,
        .m = c->filters,
        .n = pixels,
        .k = depth,
        .matmul = {.a = {(char *)(uintptr_t)c->w + group * c->w_stride.group, 0, c->w_stride.filter, c->w_stride.term},
                   .b = {columns, 0, pixels * size, size},
                   .c = {product, 0, pixels * size, size}}};
    CHECK(smm_run(&call) == SMM_OK, "the product fails");
    long wrong = 0;
    for (intptr_t filter = 0; filter < c->filters; filter++)
        for (intptr_t pixel = 0; pixel < pixels; pixel++) {
            const intptr_t at[5] = {pixel / q / p, group, filter, pixel / q % p, pixel % q};
            const char *found = c->y;
            for (int d = 0; d < 5; d++) found += at[d] * y->stride[d];
            const char *sum = product + (filter * pixels + pixel) * size;
            char expected[MAX_BYTES];
            if (smm_is_stored(c->dtype))
                smm_put(expected, c->dtype, smm_get(sum, computed));
            else
                memcpy(expected, sum, (size_t)stored);
            wrong += memcmp(expected, found, (size_t)stored) != 0;
        }
    CHECK(!wrong, "%s, %s: %ld of %ld outputs, %ld terms, %ld filters", smm_isa(), smm_dtypes[c->dtype].name, wrong,
          (long)(c->filters * pixels), (long)depth, (long)c->filters);
    free(columns);
    free(product);
}

static void check(smm_dtype dtype, intptr_t channels, intptr_t most) {
    const smm_dtype computed = smm_dtypes[dtype].computed;
    smm_convolution c = {.dtype = dtype,
                         .images = between(1, 4),
                         .groups = between(1, 2),
                         .filters = between(1, 20),
                         .channels = channels,
                         .rows = random_axis(most),
                         .columns = random_axis(most)};
    const intptr_t depth = channels * c.rows.kernel * c.columns.kernel, size = smm_size(computed);
    layout x = {{c.images, c.groups, c.channels, c.rows.inputs, c.columns.inputs}, {0}};
    layout y = {{c.images, c.groups, c.filters, c.rows.outputs, c.columns.outputs}, {0}};
    const intptr_t inputs = lay_out(&x, smm_size(dtype)), outputs = lay_out(&y, smm_size(dtype));
    char *const images = new_array(inputs, dtype), *const filters = new_array(c.groups * c.filters * depth, computed),
                *const results = new_array(outputs, dtype);
    c.x = images;
    c.w = filters;
    c.y = results;
    memcpy(&c.x_stride, x.stride, sizeof x.stride);
    memcpy(&c.y_stride, y.stride, sizeof y.stride);
    c.w_stride.group = c.filters * depth * size;
    c.w_stride.filter = random_below(2) ? depth * size : size;
    c.w_stride.term = c.w_stride.filter == size ? c.filters * size : size;
    smm_plan_info info;
    CHECK(smm_explain_convolution(&c, &info) == SMM_OK && info.group * info.parts >= c.images * c.rows.outputs,
          "the plan");
    CHECK(smm_convolve(&c) == SMM_OK, "the convolution fails");
    for (intptr_t group = 0; group < c.groups; group++) check_group(&c, &x, &y, group);
    free(images);
    free(filters);
    free(results);
}

static int repetitions = 12;

static void test_sizes(void) {
    static const intptr_t channels[] = {1, 3, 40, 150}; /* 150: mostly by chunks */
    for (const char *const *isa = smm_isas_available(); *isa; isa++) {
        smm_select_isa(*isa);
        for (int dtype = 0; dtype < SMM_DTYPE_COUNT; dtype++)
            for (int i = 0; i < 4; i++)
                for (int repeat = 0; repeat < repetitions; repeat++) {
                    smm_set_num_threads(1 + repeat % 3);
                    check((smm_dtype)dtype, channels[i], i < 2 ? 24 : 6);
                }
    }
    smm_select_isa(NULL);
    smm_set_num_threads(0);
}

static void test_arguments(void) {
    float x[9] = {0}, w[9] = {0}, y[9];
    const smm_axis axis = {3, 3, 1, 1, 1, 0};
    const smm_convolution good = {.dtype = SMM_F32,
                                  .images = 1,
                                  .groups = 1,
                                  .filters = 1,
                                  .channels = 1,
                                  .rows = axis,
                                  .columns = axis,
                                  .x = x,
                                  .w = w,
                                  .y = y,
                                  .x_stride = {36, 36, 36, 12, 4},
                                  .y_stride = {36, 36, 36, 12, 4},
                                  .w_stride = {4, 4, 4}};
    CHECK(smm_convolve(&good) == SMM_OK, "one element");
    smm_convolution bad = good;
    bad.rows.stride = 0;
    CHECK(smm_convolve(&bad) == SMM_ERR_ARGUMENT, "a stride of 0");
    bad = good;
    bad.columns.dilation = 0;
    CHECK(smm_convolve(&bad) == SMM_ERR_ARGUMENT, "a dilation of 0");
    bad = good;
    bad.images = -1;
    CHECK(smm_convolve(&bad) == SMM_ERR_ARGUMENT, "-1 images");
    bad = good;
    bad.images = 0;
    bad.x = bad.y = NULL;
    CHECK(smm_convolve(&bad) == SMM_OK, "no images");
    CHECK(smm_convolve(NULL) == SMM_ERR_ARGUMENT, "none");
}

int main(int count, char **arguments) {
    static const struct test tests[] = {
        {"convolutions are products with the im2col matrix", test_sizes},
        {"arguments are checked", test_arguments},
    };
    if (count > 1 && !strcmp(arguments[1], "quick")) repetitions = 2;
    return run_tests(tests, sizeof tests / sizeof *tests);
}
