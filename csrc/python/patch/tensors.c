/* tensors.c: PyTorch's tensors by its stable C interface: see torch.h. */
#include "torch.h"

#include <dlfcn.h>
#include <math.h>

smm_torch_functions smm_torch;

const char *smm_find_torch(void *library) {
#define FIND(result, name, arguments) \
    *(void **)&smm_torch.name = dlsym(library, #name); \
    if (!smm_torch.name) return #name;
    SMM_TORCH_FUNCTIONS(FIND)
#undef FIND
    *(void **)&smm_torch.delete = dlsym(RTLD_DEFAULT, "_ZdlPv");
    if (!smm_torch.delete) *(void **)&smm_torch.delete = dlsym(library, "_ZdlPv");
    if (!smm_torch.delete) return "operator delete";
    smm_torch.device_type[CPU] = smm_torch.aoti_torch_device_type_cpu();
    smm_torch.device_type[CUDA] = smm_torch.aoti_torch_device_type_cuda();
    smm_torch.integer = smm_torch.aoti_torch_dtype_int32();
    smm_torch.integer64 = smm_torch.aoti_torch_dtype_int64();
    smm_torch.number[SMM_F32] = smm_torch.aoti_torch_dtype_float32();
    smm_torch.number[SMM_F64] = smm_torch.aoti_torch_dtype_float64();
    smm_torch.number[SMM_C64] = smm_torch.aoti_torch_dtype_complex64();
    smm_torch.number[SMM_C128] = smm_torch.aoti_torch_dtype_complex128();
    return NULL;
}

bool smm_read_tensor(tensor x, operand *to) {
    return !smm_torch.aoti_torch_get_dim(x, &to->dim) && to->dim <= MAX_DIM &&
           !smm_torch.aoti_torch_get_device_type(x, &to->type) &&
           !smm_torch.aoti_torch_get_device_index(x, &to->device) && !smm_torch.aoti_torch_get_dtype(x, &to->dtype) &&
           !smm_torch.aoti_torch_get_sizes(x, &to->sizes) && !smm_torch.aoti_torch_get_strides(x, &to->strides) &&
           !smm_torch.torch_get_const_data_ptr(x, &to->data);
}

int smm_dtype_of_torch(int32_t number) {
    for (int i = 0; i < SMM_COMPUTED_TYPES; i++)
        if (smm_torch.number[i] == number) return i;
    return -1;
}

bool smm_is_contiguous(const operand *x) {
    int64_t step = 1;
    for (int64_t d = x->dim; d--; step *= x->sizes[d])
        if (x->sizes[d] != 1 && x->strides[d] != step) return false;
    return true;
}

bool smm_new_tensor(const operand *like, int ndim, const intptr_t *shape, const int64_t *strides, int32_t dtype,
                    tensor *x) {
    return !smm_torch.aoti_torch_empty_strided(ndim, (const int64_t *)(const void *)shape, strides, dtype, like->type,
                                               like->device, x);
}

tensor smm_apply_torch(const char *name, const char *overload, tensor x, argument second) {
    argument stack[3] = {0, second, 0}; /* a third one is that of copy_: whether the caller waits for it */
    tensor own;
    if (smm_torch.aoti_torch_new_tensor_handle(x, &own)) return NULL;
    stack[0] = (argument)(uintptr_t)own; /* PyTorch's from here on, and the result ours */
    return smm_torch.torch_call_dispatcher(name, overload, stack, SMM_TORCH_INTERFACE) ? NULL : smm_handle(stack[0]);
}

bool smm_is_sum_finite(tensor x, smm_dtype dtype) {
    const tensor parts = smm_is_complex(dtype) ? smm_apply_torch("aten::view_as_real", "", x, 0) : NULL;
    if (smm_is_complex(dtype) && !parts) return false;
    const argument none = 0; /* dtype */
    const tensor sum = smm_apply_torch("aten::sum", "", parts ? parts : x, none);
    if (parts) smm_torch.aoti_torch_delete_tensor_object(parts);
    if (!sum) return false;
    float narrow = 0;
    double wide = 0;
    const bool is_narrow = smm_dtypes[dtype].real == SMM_F32;
    const int failed =
        is_narrow ? smm_torch.aoti_torch_item_float32(sum, &narrow) : smm_torch.aoti_torch_item_float64(sum, &wide);
    smm_torch.aoti_torch_delete_tensor_object(sum);
    return !failed && isfinite(is_narrow ? (double)narrow : wide);
}
