/* buffers.h: arrays on CUDA devices, as the files of the extension that use them see them. */
#ifndef SMM_BUFFERS_H
#define SMM_BUFFERS_H

#include "../extension.h"

#include "../../cuda/cuda.h"
#include "dlpack.h"

enum { SMM_MOST_AXES = SMM_CUDA_DIMS + 2 };

/* An array: shape and strides (in elements, never NULL), data (byte_offset is 0), and what keeps it alive. */
typedef struct smm_buffer {
    DLTensor x;
    bool read_only, copied; /* written to in vain */
    const DLPackExchangeAPI *api;
    DLManagedTensorVersioned *managed; /* held until the work is done */
    DLManagedTensor *unversioned;
    int64_t sizes[2 * SMM_MOST_AXES];
} smm_buffer;

/* x is an array on a CUDA device that has DLPack's C exchange API: described. Never an exception. */
bool smm_exchange(PyObject *x, smm_buffer *b);
bool smm_exchange_any(PyObject *x, smm_buffer *b); /* the same, or on the host */
/* A new array of that device, dtype and shape, described. NULL: an exception is set. */
PyObject *smm_new_array(const DLPackExchangeAPI *api, DLTensor wanted, smm_buffer *b);
/* x is a tensor, and PyTorch must see what becomes of all tensors: it takes derivatives in forward mode, or a mode
 * (tracing, counting) is on. */
bool smm_is_followed(PyObject *x);
/* Describe any device array, ready to be used on the stream. 0, or -1 with an exception, which begins with the label:
 * function and argument. */
int smm_open_buffer(PyObject *x, PyObject *label, intptr_t stream, smm_buffer *b);
/* Raise an exception: "<label> is a <type of x> <format>". Returns -1. */
int smm_refuse(PyObject *exception, PyObject *label, PyObject *x, const char *format, ...);
/* For messages. */
enum { SMM_DTYPE_NAME = 32 };
const char *smm_dtype_name(DLDataType dtype, char name[SMM_DTYPE_NAME]);
PyObject *smm_shape_of(const DLTensor *x);
void smm_close_buffer(smm_buffer *b);
/* NumPy's name of an element type, such as "<f4", as DLPack's; false if it has none on devices. Never an exception. */
bool smm_take_typestr(PyObject *x, DLDataType *dtype);
/* device_memory.c: close buffers once the work that a device's stream has been given so far is done; and those of
 * earlier calls. */
void smm_hold_buffers(smm_buffer buffers[], int count, int device, void *stream);

/* How explanations name a kernel. */
static inline void smm_cuda_name_kernel(const smm_cuda_kernel *kernel, int dtype, const smm_cuda_device *device,
                                        char *name, size_t length) {
    snprintf(name, length, "smm_%s_%s_sm%d", smm_cuda_kernel_names[kernel->parameters.kernel], smm_dtypes[dtype].name,
             device->arch);
}

/* What a thread's calls on devices are described for, or timed. */
enum { SMM_MOST_SAMPLES = 64 };
struct smm_trial {
    const smm_cuda_parameters *parameters; /* of the kernel that is timed; NULL: what the call runs */
    int samples;                           /* 0: calls are only described */
    double nanoseconds[SMM_MOST_SAMPLES];
    smm_cuda_problem problem; /* of the last call that was described, on */
    int device;
    intptr_t matrices, calls;
};

/* Paths and tuned rows come from Python, once, before the first use of a device. 0, or -1 with an exception. */
int smm_configure_cuda(void);
void smm_raise_cuda(smm_cuda_status status);

/* device.c: a gufunc's way for arrays of other libraries than NumPy, on a device or on the host; NotImplemented where
 * Python must look closer. */
PyObject *smm_device_direct(PyObject *ufunc, PyObject *const *args, Py_ssize_t nargs);
int smm_add_device_calls(PyObject *module);
/* device_memory.c, device_kernels.c, device_programs.c, transfers.c */
int smm_add_device_memory(PyObject *module);
int smm_add_transfers(PyObject *module);
int smm_add_device_kernels(PyObject *module);
int smm_add_device_programs(PyObject *module);

/* device_programs.c: a program's launch on such arrays. NULL without an exception: their library has no exchange API.
 */
typedef struct smm_device_call smm_device_call;
smm_device_call *smm_met_on_device(PyObject *launch, PyObject *inputs, PyObject *outputs);
void smm_free_device_call(smm_device_call *x);
/* Describe the arrays among the arguments, in buffers that are 0; false if some is neither such an array nor a number.
 */
bool smm_open_all(PyObject *const *args, Py_ssize_t count, smm_buffer b[]);
bool smm_takes_on_device(const smm_device_call *x, const smm_buffer b[], Py_ssize_t count);
PyObject *smm_run_on_device(const smm_device_call *x, PyObject *const *args, const smm_buffer b[]); /* outputs */
int smm_any_on_device(PyObject *info);

#endif
