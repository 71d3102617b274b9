/* cuda.h: the interfaces of the files of the CUDA side, also used by the Python extension.
 *
 * Nothing is linked, and nothing of the CUDA toolkit is needed to build: the driver and NVRTC are opened when a device
 * is first used. Functions return a status; smm_cuda_message() then explains it. All may be called from several threads
 * at once. */
#ifndef SMM_CUDA_H
#define SMM_CUDA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../core/operations.h"
#include "args.h"

typedef enum smm_cuda_status {
    SMM_CUDA_OK = 0,
    SMM_CUDA_UNAVAILABLE, /* no driver, device or NVRTC */
    SMM_CUDA_UNSUPPORTED, /* no kernel for this */
    SMM_CUDA_MEMORY,
    SMM_CUDA_FAILED,
} smm_cuda_status;

/* The message of the last failure on this thread. */
const char *smm_cuda_message(void);
smm_cuda_status smm_cuda_fail(smm_cuda_status status, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* --- driver.c: libraries, devices, contexts --- */

typedef struct smm_cuda_functions {
#define SMM_CUDA_FUNCTION(symbol, name, parameters) int(*name) parameters;
#include "functions.def"
#undef SMM_CUDA_FUNCTION
} smm_cuda_functions;

typedef struct smm_nvrtc_functions {
#define SMM_NVRTC_FUNCTION(symbol, name, parameters) int(*name) parameters;
#include "functions.def"
#undef SMM_NVRTC_FUNCTION
} smm_nvrtc_functions;

typedef struct smm_cuda_device {
    void *context; /* the primary one, retained for good */
    int arch;      /* 90 for sm_90 */
    int multiprocessors;
    int shared_memory; /* bytes that a block may use */
    int integrated;    /* its memory is the host's */
    char name[96];
} smm_cuda_device;

enum { SMM_CUDA_DEVICES = 64 };

/* A device whose context is the current one of this thread. */
typedef struct smm_cuda_entered {
    const smm_cuda_functions *driver;
    const smm_cuda_device *device;
    bool pushed; /* its context was not the current one before */
} smm_cuda_entered;

smm_cuda_status smm_cuda_driver(const smm_cuda_functions **driver);
smm_cuda_status smm_cuda_nvrtc(const smm_nvrtc_functions **nvrtc);
/* path: the library to open, or NULL for the usual names. Has an effect before the first use only. */
void smm_cuda_set_nvrtc_path(const char *path);
smm_cuda_status smm_cuda_get_device(int ordinal, const smm_cuda_device **device);
smm_cuda_status smm_cuda_device_of(const void *address, int *ordinal); /* the device whose memory that is */
smm_cuda_status smm_cuda_check(int error, const char *what);
smm_cuda_status smm_cuda_count(int *count);
/* Make the device's context the current one of this thread, and undo that, which does nothing after a failure. */
smm_cuda_status smm_cuda_enter(int ordinal, smm_cuda_entered *x);
void smm_cuda_leave(const smm_cuda_entered *x);

/* --- plan.c: from a problem to a kernel, its parameters and its grid --- */

/* What a kernel is compiled for. It has no padding, so that it can be compared and hashed as a whole. */
typedef struct smm_cuda_problem {
    int m, k, n; /* k: the columns of B that a kernel of a solve takes at a time; of tiled products classes */
    uint16_t form;
    uint8_t op, dtype, device;
    uint8_t source_a, source_b, source_c, source_rest; /* rest: d, pivots and info together, FLAT or STRIDED */
    uint8_t order_a, order_b, order_c;
    uint8_t aligned;  /* the data of all flat operands is */
    uint8_t scaled;   /* alpha and beta */
    uint8_t in_place; /* the output is an input */
    uint8_t small;    /* too few matrices to fill a device, so that latency counts */
    uint8_t arch;     /* of the device: 90 for sm_90 */
    uint8_t tiled;    /* a product of any size: sizes are rounded up, by which the plan chooses the tile */
    uint8_t load;     /* of which there are up to 2^load matrices */
    uint8_t lower;    /* diagonals below the main one; SMM_CUDA_DIAGONALS: as many or more, or each matrix's own */
} smm_cuda_problem;

/* Kernels for matrices of diagonals are compiled for orders in classes, powers of two as far as SMM_CUDA_ORDERS, and
 * for numbers of diagonals below SMM_CUDA_DIAGONALS; those in parts are of order SMM_MIN_IN_PARTS and one column. */
enum { SMM_CUDA_DIAGONALS = 32, SMM_CUDA_ORDERS = 64 };

/* Parameters that the kernel does not have are 0. */
typedef struct smm_cuda_parameters {
    int kernel; /* row of kernels.def */
#define SMM_CUDA_PARAMETER(name, macro, meaning) int name;
#include "kernels.def"
#undef SMM_CUDA_PARAMETER
} smm_cuda_parameters;

typedef struct smm_cuda_grid {
    int matrices, threads; /* of a block */
    int shared;            /* bytes of dynamic shared memory */
    int least;             /* matrices of a block in a batch that is shared evenly by those that stay; else 0 */
    int resident;          /* blocks that stay on each multiprocessor to the end; 0: as many as the batch needs */
#define SMM_CUDA_AS_MANY_AS_FIT -1
    int rows, cols; /* of the tile of C of a slice, in a tiled product; else 0 */
    int slices;     /* of a block */
    bool aligned;   /* matrices of each block also begin at multiples of 16 bytes */
} smm_cuda_grid;

/* A tuned row: the problem that was measured, the parameters that won, and the device, whose compute capability is
 * problem.arch. */
typedef struct smm_cuda_row {
    smm_cuda_problem problem;
    smm_cuda_parameters parameters;
    const char *device; /* its name */
    bool by_user;       /* found by this user: for the same device and the same problem alone */
} smm_cuda_row;

/* Where a plan comes from, and what explanations call that. */
typedef enum smm_cuda_source {
    SMM_CUDA_BASELINE,
    SMM_CUDA_MODELLED, /* the baseline of a kernel with a model of its time */
    SMM_CUDA_TUNED,
    SMM_CUDA_TUNED_BY_USER
} smm_cuda_source;
extern const char *const smm_cuda_source_names[];

typedef struct smm_cuda_kernel {
    void *module, *function;
    smm_cuda_parameters parameters;
    smm_cuda_grid grid;
    smm_cuda_source source;
    const char *tuned_on; /* the device of the tuned row, if one was chosen. Never freed */
    int at_once;          /* blocks of it on a multiprocessor */
    bool from_disk;
    bool swapped;     /* of the call: C^T = B^T A^T */
    double workspace; /* of the call: bytes of memory of the device for each matrix under way */
} smm_cuda_kernel;

extern const char *const smm_cuda_kernel_names[]; /* <family>_<strategy> */
enum {
#define SMM_CUDA_KERNEL(folder, family, strategy) SMM_CUDA_KERNEL_##family##_##strategy,
#include "kernels.def"
#undef SMM_CUDA_KERNEL
    SMM_CUDA_KERNELS
};

/* The lists of kernels.def as data. */
typedef struct smm_cuda_parameter {
    const char *name, *macro, *meaning;
    size_t offset; /* in smm_cuda_parameters */
} smm_cuda_parameter;
extern const smm_cuda_parameter smm_cuda_parameter_list[];
enum {
#define SMM_CUDA_PARAMETER(name, macro, meaning) SMM_CUDA_PARAMETER_##name,
#include "kernels.def"
#undef SMM_CUDA_PARAMETER
    SMM_CUDA_PARAMETERS
};
typedef struct smm_cuda_has { /* a kernel has a parameter */
    int kernel, parameter, count;
    const int *values; /* the number of values that the tuner tries */
} smm_cuda_has;
extern const smm_cuda_has smm_cuda_has_list[];
extern const int smm_cuda_has_count;

/* Whether the kernel can run the problem with these parameters in that much shared memory; if so, its grid. */
bool smm_cuda_fits(const smm_cuda_problem *problem, const smm_cuda_parameters *parameters, int shared_memory,
                   smm_cuda_grid *grid);
/* Bytes of memory of the device that the kernel needs for each matrix under way. */
double smm_cuda_workspace(const smm_cuda_problem *problem, const smm_cuda_parameters *parameters,
                          const smm_cuda_args *args);
/* A model of a kernel's time: nanoseconds of all matrices of a problem by given constants, and those that are fitted to
 * timings (benchmarks/tune/model.py). */
typedef struct smm_cuda_model {
    double (*time)(const smm_cuda_problem *, const smm_cuda_parameters *, const smm_cuda_grid *, const double *);
    int count; /* of the constants */
    const char *const *names;
    const double *constants;
} smm_cuda_model;
const smm_cuda_model *smm_cuda_model_of(int kernel); /* NULL: it has none */
/* Choose kernel, parameters and grid: the user's row of this problem on this device, else the tuned row of these sizes
 * of the nearest device, else the baseline. Nearest are the device itself, then those of its compute capability (first
 * whose name begins most alike), then the next lower compute capability, then the next higher one. */
smm_cuda_status smm_cuda_plan(const smm_cuda_problem *problem, const smm_cuda_device *device, smm_cuda_kernel *kernel);
/* Replace the tuned rows, which are copied. */
smm_cuda_status smm_cuda_tune(const smm_cuda_row *rows, size_t count);

/* --- jit.c: from a plan to a cubin, by NVRTC or from the disk --- */

typedef struct smm_cuda_cubin {
    char *data; /* malloc'ed */
    size_t bytes;
    bool from_disk;
    char *log; /* messages of the compiler, malloc'ed; NULL if the cubin came from disk */
    char name[64];
} smm_cuda_cubin;

void smm_cuda_set_cache(const char *directory); /* NULL, "" or a path that is too long: no cache */
/* Whether a folder does not exist yet, or is this user's with write access for no other. No other folder is used. */
bool smm_cuda_may_cache(const char *directory);
/* A hash of the texts that a kernel is compiled from. */
uint64_t smm_cuda_texts(int kernel);
smm_cuda_status smm_cuda_build(const smm_cuda_problem *problem, const smm_cuda_parameters *parameters,
                               const smm_cuda_grid *grid, smm_cuda_cubin *cubin);
/* The same for the text of a program, whose kernel is smm_program. */
smm_cuda_status smm_cuda_build_program(const char *text, int arch, smm_cuda_cubin *cubin);
void smm_cuda_free_cubin(smm_cuda_cubin *cubin);

/* --- transfers.c: memory, streams, and copies between host and device --- */

typedef enum smm_cuda_kind {
    SMM_CUDA_STREAM,     /* which waits for no other */
    SMM_CUDA_ON_DEVICE,  /* memory, allocated in the order of a stream */
    SMM_CUDA_SCRATCH,    /* the same, of a pool that keeps it for the next time */
    SMM_CUDA_PINNED,     /* memory of the host, page-locked, which devices see, too */
    SMM_CUDA_REGISTERED, /* existing memory of the host, page-locked until it is released */
} smm_cuda_kind;

typedef struct smm_cuda_resource {
    smm_cuda_kind kind;
    int device;
    size_t bytes;
    void *address; /* or the stream */
    void *stream;  /* of memory on a device */
} smm_cuda_resource;

/* Fill in the address; that of registered memory is given. Resources are released in any order, but memory before its
 * stream. */
smm_cuda_status smm_cuda_acquire(smm_cuda_resource *resource);
void smm_cuda_release(const smm_cuda_resource *resource);
/* Enqueue a copy between any two memories. One of the host that is not page-locked may be waited for. */
smm_cuda_status smm_cuda_copy(int device, void *to, const void *from, size_t bytes, void *stream);
smm_cuda_status smm_cuda_wait(int device, void *stream);
/* Whether work on the stream becomes part of a graph. */
smm_cuda_status smm_cuda_is_capturing(int device, void *stream, bool *capturing);
/* Whether all bytes are page-locked memory of the host; and where a device sees it. */
smm_cuda_status smm_cuda_is_pinned(int device, const void *memory, size_t bytes, bool *pinned);
smm_cuda_status smm_cuda_mapped(int device, void *memory, void **address);
/* Copy within the host, by the threads of the pool. */
void smm_cuda_copy_on_host(void *to, const void *from, size_t bytes);

/* --- describe.c, loaded.c, launch.c, timing.c: calls --- */

/* Calls are like those of the host, with device addresses. An operand that is one number for all matrices has no data;
 * number[i] is its value. */

enum { SMM_CUDA_MAX = 64 };          /* products above this order are tiled */
enum { SMM_CUDA_MAX_ORDER = 32 };    /* of all others, but kernels for large ones */
enum { SMM_CUDA_LARGEST = 1 << 28 }; /* of a tiled one the class of all sizes above it, too */
enum { SMM_CUDA_COLUMNS = 32 };      /* the most right-hand sides that a kernel of a solve takes at a time */

/* Is there a kernel for matrices of this size? */
bool smm_cuda_takes(smm_op op, smm_dtype dtype, intptr_t m, intptr_t k, intptr_t n);
/* The largest order of square matrices of this element type that a kernel of an operation other than products and those
 * of diagonals takes; 0: there is none for this type. */
int smm_cuda_max_order(smm_op op, smm_dtype dtype);
static inline bool smm_cuda_takes_dtype(smm_op op, smm_dtype dtype) { return smm_cuda_max_order(op, dtype) > 0; }
/* Whether matrices are no larger than those of an order, in one direction and in all. */
static inline bool smm_cuda_fits_order(intptr_t m, intptr_t n, intptr_t order) {
    return (m <= order || n <= order) && m * n <= order * order;
}
/* Whether the results of a call may be written where its operands are. */
bool smm_cuda_may_write(const smm_call *call);
/* sizes.c: sizes of a problem whose other members are set; of matrices of diagonals, and of tiled products, which those
 * of images are, too, they become classes; layouts that the kernel of these does not ask for become one. */
void smm_cuda_set_sizes(smm_cuda_problem *problem, intptr_t m, intptr_t k, intptr_t n);
/* Products that the kernel of any size takes; operations whose operands are diagonals. */
bool smm_cuda_is_tiled(smm_dtype dtype, intptr_t m, intptr_t k, intptr_t n);
bool smm_cuda_is_of_diagonals(smm_op op);
/* Describe a call as a problem, and to its kernel; false where no kernel takes it. */
bool smm_cuda_describe(const smm_call *call, const double _Complex number[], smm_cuda_problem *problem,
                       smm_cuda_args *args, bool *swapped);

/* Find the kernel for a call, building it if it is new, and describe the call to it. */
smm_cuda_status smm_cuda_prepare(const smm_call *call, const double _Complex number[], int device,
                                 smm_cuda_kernel *kernel, smm_cuda_args *args);
/* The same for a problem. */
smm_cuda_status smm_cuda_ready(const smm_cuda_problem *problem, int device, smm_cuda_kernel *kernel);
/* Forget the kernels in memory, so that calls are planned anew. */
void smm_cuda_forget(void);

/* Prepare, and launch on the stream. Waits for nothing, and allocates nothing but scratch memory: for partial sums of
 * deep products, and for matrices of diagonals that are under way. */
smm_cuda_status smm_cuda_run(const smm_call *call, const double _Complex number[], int device, void *stream);
/* Run a call, and then time it on a stream of its own: nanoseconds of each, of so many samples, in which it runs
 * several times in a graph. With parameters it is their kernel, which nothing else will run. Waits for all of it. */
smm_cuda_status smm_cuda_time(const smm_call *call, const double _Complex number[],
                              const smm_cuda_parameters *parameters, int device, void *stream, int samples,
                              double nanoseconds[]);
/* Prepare a convolution, whose addresses are the device's; and run one. */
struct smm_convolution;
smm_cuda_status smm_cuda_prepare_convolution(const struct smm_convolution *convolution, int device,
                                             smm_cuda_kernel *kernel);
smm_cuda_status smm_cuda_convolve(const struct smm_convolution *convolution, int device, void *stream); /* not empty */
/* The kernel of a program: build it for a device, its grid being given; launch it on so many blocks with the arguments
 * that its text declares. */
smm_cuda_status smm_cuda_load_program(const char *text, int device, smm_cuda_kernel *kernel);
smm_cuda_status smm_cuda_run_program(const smm_cuda_kernel *kernel, long long blocks, void *args, int device,
                                     void *stream);

#endif
