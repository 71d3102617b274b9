/* buffers.h: arrays on CUDA devices, as the files of the extension that use them see them. */
#ifndef SMM_BUFFERS_H
#define SMM_BUFFERS_H

#include "../arrays.h"

#include "../../cuda/cuda.h"
#include "dlpack.h"

enum { SMM_MAX_AXES = SMM_CUDA_DIMS + 2 };

/* An array: shape and strides (in elements, never NULL), data (byte_offset is 0), and what keeps it alive. */
typedef struct smm_buffer {
    DLTensor x;
    bool read_only, copied; /* written to in vain */
    const DLPackExchangeAPI *api;
    DLManagedTensorVersioned *managed; /* held until the work is done */
    DLManagedTensor *unversioned;
    int64_t sizes[2 * SMM_MAX_AXES];
} smm_buffer;

/* The array as arrays.h sees it. */
static inline smm_array smm_array_of_buffer(const smm_buffer *b) {
    _Static_assert(sizeof(intptr_t) == sizeof(int64_t), "shapes of DLPack are those of the core");
    return (smm_array){.data = b->x.data,
                       .ndim = b->x.ndim,
                       .shape = (const intptr_t *)(const void *)b->x.shape,
                       .strides = (const intptr_t *)(const void *)b->x.strides,
                       .unit = b->x.dtype.bits / 8};
}

/* x is an array on a CUDA device that has DLPack's C exchange API: described. Never an exception. */
bool smm_exchange(PyObject *x, smm_buffer *b);
bool smm_exchange_any(PyObject *x, smm_buffer *b); /* the same, or on the host */
/* An array of another library on the host as NumPy's, which does not keep it alive; NULL without an exception:
 * Python must look closer. All are of the library that *api names, once it does. */
PyObject *smm_view_of(PyObject *x, const DLPackExchangeAPI **api);
/* A new array of that device, dtype and shape, described. NULL: an exception is set. */
PyObject *smm_new_array(const DLPackExchangeAPI *api, DLTensor wanted, smm_buffer *b);
void smm_close_buffer(smm_buffer *b);
/* x is a tensor, and PyTorch must see what becomes of all tensors: it takes derivatives in forward mode, or a mode
 * (tracing, counting) is on. */
bool smm_is_followed(PyObject *x);
/* Find out where a buffer's first element lies, and its strides, after its fields have been checked. False: they are
 * not valid, because of what is written to `why`. */
enum { SMM_WHY = 160 };
bool smm_resolve_buffer(smm_buffer *b, bool may_be_on_host, char why[SMM_WHY]);
/* x has DLPack but is to be read by the CUDA array interface. */
bool smm_is_read_by_interface(PyObject *x);

/* opening.c: describe any device array, ready to be used on the stream. 0, or -1 with an exception, which begins with
 * the label: function and argument. */
int smm_open_buffer(PyObject *x, PyObject *label, intptr_t stream, smm_buffer *b);
/* Raise an exception: "<label> is a <type of x> <format>". Returns -1. */
int smm_refuse(PyObject *exception, PyObject *label, PyObject *x, const char *format, ...);
/* Whether the array of a buffer can be written to; else an exception is set. */
bool smm_is_writable(const smm_buffer *b, PyObject *label);
PyObject *smm_shape_of(const DLTensor *x);
int smm_add_opening(PyObject *module);

/* device_memory.c: close buffers; if a launch has been given to a device's stream, once that is done, and those of
 * earlier calls. An exception that is set stays. */
void smm_release_buffers(smm_buffer buffers[], int count, bool launched, int device, void *stream);

/* device_memory.c: a new dense array of NumPy, or a scalar, as one of another library, which keeps its memory alive. */
PyObject *smm_lend(PyObject *output, const DLPackExchangeAPI *api);

/* elements.c: for messages; NumPy's name of an element type, such as "<f4", as DLPack's, false if it has none on
 * devices, never an exception; and NumPy's own types, NPY_NOTYPE if it has none. */
enum { SMM_DTYPE_NAME = 32 };
const char *smm_dtype_name(DLDataType dtype, char name[SMM_DTYPE_NAME]);
bool smm_take_typestr(PyObject *x, DLDataType *dtype);
int smm_numpy_of_dlpack(DLDataType dtype);
DLDataType smm_dlpack_of_numpy(int type);

/* device.c: launch a call without numbers; */
smm_cuda_status smm_launch(const smm_call *call, int device, void *stream);
/* tell who asks how a call, or else a convolution, would run. */
void smm_tell_plan(smm_hook *hook, const smm_cuda_kernel *kernel, int dtype, const smm_cuda_device *device,
                   const smm_call *call, const smm_convolution *convolution);

/* What a thread's calls on devices are described for, or timed. */
enum { SMM_MAX_SAMPLES = 64 };
struct smm_trial {
    const smm_cuda_parameters *parameters; /* of the kernel that is timed; NULL: what the call runs */
    int samples;                           /* 0: calls are only described */
    double nanoseconds[SMM_MAX_SAMPLES];
    smm_cuda_problem problem; /* of the last call that was described, on */
    int device;
    intptr_t matrices, calls;
};

/* Paths and tuned rows come from Python, once, before the first use of a device. 0, or -1 with an exception. */
int smm_configure_cuda(void);
PyObject *smm_raise_cuda(smm_cuda_status status); /* returns NULL */
/* The device of a number, which is a Python object; NULL with an exception. */
const smm_cuda_device *smm_device_numbered(PyObject *ordinal);

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
