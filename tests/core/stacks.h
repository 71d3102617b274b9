/* stacks.h: stacks of matrices in every layout, between inaccessible pages, for the C tests of operations. */
#ifndef SMM_TESTS_STACKS_H
#define SMM_TESTS_STACKS_H

#include <math.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../csrc/core/core.h"
#include "harness.h"

/* --- Stacks between guard pages --------------------------------------------------------------------- */

struct arena {
    char *begin, *end; /* an inaccessible page lies before begin and another after end */
};

enum { ARENA_BYTES = 384 << 20 }; /* what no stack touches takes no memory */

static inline struct arena make_arena(size_t bytes) {
    const size_t page = (size_t)sysconf(_SC_PAGESIZE);
    char *p = mmap(NULL, bytes + 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED || mprotect(p, page, PROT_NONE) || mprotect(p + page + bytes, page, PROT_NONE)) {
        perror("make_arena");
        exit(2);
    }
    return (struct arena){p + page, p + page + bytes};
}

enum layout {
    ROW_MAJOR,
    COLUMN_MAJOR,
    PADDED_ROWS,    /* row-major, rows and matrices further apart than they are long */
    PADDED_COLUMNS, /* the same, column-major */
    SLICED,         /* gaps between elements as well */
    INTERLEAVED,    /* the batch axis innermost */
    LAYOUTS_OF_C,
    BROADCAST = LAYOUTS_OF_C, /* one matrix for the whole batch */
    BROADCAST_COLUMNS,        /* one column-major matrix */
    REPEATED,                 /* one row, or one column, repeated */
    WINDOWS,                  /* overlapping windows of a sequence */
    LAYOUTS,
};

static const char *const layout_names[] = {
    "row-major", "column-major",           "padded rows", "padded columns", "sliced", "interleaved",
    "broadcast", "broadcast column-major", "repeated",    "windows",
};

enum place { AT_END, AT_BEGIN, AFTER_ONE, PLACES }; /* of the arena; one element after its begin */

static const char *const place_names[] = {"ends at guard", "begins at guard", "begins one element after guard"};

/* A stack, the bytes it spans, and how it came to be. */
struct stack {
    smm_operand x;
    char *low, *high;
    intptr_t batch, rows, cols;
    enum layout layout;
    enum place place;
};

static inline smm_operand strides_of(enum layout layout, intptr_t batch, intptr_t rows, intptr_t cols, intptr_t size) {
    const intptr_t gap = 1 + random_below(3), step = size * (1 + gap), margin = random_below(4) * size;
    const intptr_t wide = (cols + gap) * size, tall = (rows + gap) * size;
    switch (layout) {
    case ROW_MAJOR: return (smm_operand){NULL, rows * cols * size, cols * size, size};
    case COLUMN_MAJOR: return (smm_operand){NULL, rows * cols * size, size, rows * size};
    case PADDED_ROWS: return (smm_operand){NULL, rows * wide + margin, wide, size};
    case PADDED_COLUMNS: return (smm_operand){NULL, cols * tall + margin, size, tall};
    case SLICED: return (smm_operand){NULL, (rows * cols + gap) * step, cols * step, step};
    case INTERLEAVED: return (smm_operand){NULL, size, batch * cols * size, batch * size};
    case BROADCAST: return (smm_operand){NULL, 0, cols * size + margin, size};
    case BROADCAST_COLUMNS: return (smm_operand){NULL, 0, size, rows * size + margin};
    case REPEATED:
        return gap == 1 ? (smm_operand){NULL, cols * size, 0, size} : (smm_operand){NULL, rows * size, size, 0};
    case WINDOWS: return (smm_operand){NULL, size, gap * size, size};
    case LAYOUTS: break;
    }
    abort();
}

/* The lowest and highest byte of an axis, relative to its first element. */
static inline void extend(intptr_t length, intptr_t stride, intptr_t *low, intptr_t *high) {
    if (length > 1) *(stride < 0 ? low : high) += (length - 1) * stride;
}

/* Lay a stack out in an arena. `reversed`: bits that say which strides are negative. */
static inline struct stack lay_out(const struct arena *arena, enum layout layout, enum place place, int reversed,
                                   intptr_t batch, intptr_t rows, intptr_t cols, intptr_t size) {
    smm_operand x = strides_of(layout, batch, rows, cols, size);
    x.batch *= reversed & 1 ? -1 : 1;
    x.row *= reversed & 2 ? -1 : 1;
    x.col *= reversed & 4 ? -1 : 1;
    intptr_t low = 0, high = 0;
    if (batch && rows && cols) {
        high = size;
        extend(batch, x.batch, &low, &high);
        extend(rows, x.row, &low, &high);
        extend(cols, x.col, &low, &high);
    }
    if (high - low + size > arena->end - arena->begin) {
        fprintf(stderr, "a stack of %ld bytes does not fit\n", (long)(high - low));
        exit(2);
    }
    char *start = place == AT_END ? arena->end - (high - low) : arena->begin + (place == AFTER_ONE ? size : 0);
    x.data = start - low;
    return (struct stack){x, start, start + (high - low), batch, rows, cols, layout, place};
}

static inline struct stack random_stack(const struct arena *arena, enum layout layouts, intptr_t batch, intptr_t rows,
                                        intptr_t cols, intptr_t size) {
    /* Half of the stacks as people have them most, half anything. */
    const bool plain = random_below(2);
    return lay_out(arena, (enum layout)random_below(plain ? 2 : layouts), (enum place)random_below(PLACES),
                   plain ? 0 : (int)random_bits() & (int)random_bits() & 7, batch, rows, cols, size);
}

static inline char *element(const smm_operand *x, intptr_t q, intptr_t i, intptr_t j) {
    return (char *)x->data + q * x->batch + i * x->row + j * x->col;
}

/* Element types in turns; half the distance from 1 to the next number, and the smallest one. */
static inline smm_dtype dtype_in_turn(intptr_t turn) {
    static const smm_dtype turns[] = {SMM_F64, SMM_C64,  SMM_F32, SMM_C128, SMM_F16,
                                      SMM_F64, SMM_C128, SMM_F32, SMM_C64,  SMM_BF16};
    return turns[turn % 10];
}
static inline double roundoff_of(smm_dtype dtype) {
    const smm_dtype real = smm_dtypes[dtype].real;
    return real == SMM_F64 ? 0x1p-53 : real == SMM_F32 ? 0x1p-24 : real == SMM_F16 ? 0x1p-11 : 0x1p-8;
}
static inline double smallest_of(smm_dtype dtype) {
    const smm_dtype real = smm_dtypes[dtype].real;
    return real == SMM_F64 ? 0x1p-1074 : real == SMM_F32 ? 0x1p-149 : real == SMM_F16 ? 0x1p-24 : 0x1p-133;
}

/* A part of a number in memory: 0, the real one, or 1, the imaginary one of a complex number. */
static inline double load_part(const char *p, smm_dtype dtype, int part) {
    const smm_dtype real = smm_dtypes[dtype].real;
    return smm_get(p + part * smm_size(real), real);
}
static inline int parts_of(smm_dtype dtype) { return smm_is_complex(dtype) ? 2 : 1; }

static inline double load(const char *p, smm_dtype dtype) { return load_part(p, dtype, 0); }

/* A complex number gets a smaller imaginary part, which is zero where the value is. */
static inline void store(char *p, smm_dtype dtype, double value) {
    const smm_dtype real = smm_dtypes[dtype].real;
    smm_put(p, real, value);
    if (smm_is_complex(dtype)) smm_put(p + smm_size(dtype) / 2, real, value == 0 ? value : value * random_value() / 2);
}

/* Whether two numbers in memory are the same, NaN being as good as another. */
static inline bool same_number(const char *x, const char *y, smm_dtype dtype) {
    for (int part = 0; part < parts_of(dtype); part++) {
        const double a = load_part(x, dtype, part), b = load_part(y, dtype, part);
        const bool same = a == b && signbit(a) == signbit(b);
        if (!same && !(isnan(a) && isnan(b))) return false;
    }
    return true;
}

static inline double nan_value(void) { return (double)NAN; }

/* The special numbers of either dtype, and ordinary ones. */
static inline double special_value(void) {
    static const double values[] = {
        (double)NAN,
        (double)INFINITY,
        -(double)INFINITY,
        -0.0,
        0.0,
        1.0,
        -1.0,
        1.5,
        0x1p-149,
        -0x1.8p-140,
        0x1p-126,
        0x1.fffffep127,
        -0x1.fffffep127,
        0x1p-1074,
        -0x1.23456789abcdep-1030,
        0x1p-1022,
        0x1.fffffffffffffp1023,
    };
    return random_below(2) ? random_value() : values[random_below(sizeof values / sizeof *values)];
}

/* Every byte of the span becomes 0xff, a NaN, for a kernel that reads a gap to show; then the elements. */
static inline void fill(const struct stack *s, smm_dtype dtype, double (*value)(void)) {
    memset(s->low, 0xff, (size_t)(s->high - s->low));
    for (intptr_t q = 0; q < (s->x.batch ? s->batch : s->batch > 0); q++)
        for (intptr_t i = 0; i < s->rows; i++)
            for (intptr_t j = 0; j < s->cols; j++) store(element(&s->x, q, i, j), dtype, value());
}

/* Bytes around an output that are watched as well. */
enum { MARGIN = 256 };

static inline size_t smaller(size_t x, size_t y) { return x < y ? x : y; }

/* Whether the bytes are as expected. With MEMORY_ALONE in the environment, as under valgrind, nothing is expected of
 * them: then they are compared with a copy, for valgrind to say which of them were never written. */
static inline bool memory_alone(void) { return getenv("MEMORY_ALONE"); }
static inline bool is_as_expected(const char *found, char *expected, size_t bytes) {
    if (memory_alone()) memcpy(expected, found, bytes);
    return !memcmp(found, expected, bytes);
}

static inline int describe_stack(char *text, size_t workspace, const char *name, const struct stack *s) {
    return snprintf(text, workspace, " %s[%s, %s, strides %ld %ld %ld]", name, layout_names[s->layout],
                    place_names[s->place], (long)s->x.batch, (long)s->x.row, (long)s->x.col);
}

/* The running case in words; static, so that a crash can be named too. */
static char running[1024];

static inline void on_crash(int number) {
    static const char text[] = "    crash in ";
    if (write(1, text, sizeof text - 1) < 0 || write(1, running, strlen(running)) < 0 || write(1, "\n", 1) < 0)
        _exit(2);
    signal(number, SIG_DFL); /* the fault comes again, and ends the process */
}
static inline void report_crashes(void) {
    signal(SIGSEGV, on_crash);
    signal(SIGBUS, on_crash);
    signal(SIGFPE, on_crash);
}

static inline bool has_fma(const char *isa) { return strcmp(isa, "portable") != 0; }

static inline void copy_values(const struct stack *to, const struct stack *from, smm_dtype dtype) {
    memset(to->low, 0xff, (size_t)(to->high - to->low));
    for (intptr_t q = 0; q < to->batch; q++)
        for (intptr_t i = 0; i < to->rows; i++)
            for (intptr_t j = 0; j < to->cols; j++)
                memcpy(element(&to->x, q, i, j), element(&from->x, q, i, j), (size_t)smm_size(dtype));
}

#endif
