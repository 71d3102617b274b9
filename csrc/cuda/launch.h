/* launch.h: the steps from a call to a launch, for describe.c, loaded.c, launch.c and timing.c. All but those of
 * describe.c are in the device's context. */
#ifndef SMM_CUDA_LAUNCH_H
#define SMM_CUDA_LAUNCH_H

#include "cuda.h"

enum { SMM_CUDA_PIXELS = 1 << 30 }; /* the most of a convolution's images */

/* describe.c: convolutions are products of the filters with the im2col matrix of each group. False: something is too
 * large, or the batch has too many dimensions. */
bool smm_cuda_describe_convolution(const struct smm_convolution *x, smm_cuda_problem *problem, smm_cuda_args *args);

/* loaded.c: the kernel for a problem, which is built if it is new; and one with parameters of its own, which is in no
 * table. */
smm_cuda_status smm_cuda_find(const smm_cuda_device *device, const smm_cuda_problem *problem, smm_cuda_kernel *kernel);
smm_cuda_status smm_cuda_make(const smm_cuda_problem *problem, const smm_cuda_parameters *parameters,
                              const smm_cuda_device *device, smm_cuda_kernel *kernel);

/* launch.c: as smm_cuda_prepare, with parameters, which may be NULL, their kernel; then put it on the stream. */
smm_cuda_status smm_cuda_prepare_in_context(const smm_call *call, const double _Complex number[],
                                            const smm_cuda_parameters *parameters, int ordinal,
                                            const smm_cuda_device *device, smm_cuda_kernel *kernel,
                                            smm_cuda_args *args);
smm_cuda_status smm_cuda_enqueue(const smm_cuda_functions *driver, const smm_cuda_device *device, int ordinal,
                                 const smm_call *call, const smm_cuda_kernel *kernel, smm_cuda_args *args,
                                 void *stream);
bool smm_cuda_is_empty(const smm_call *call);

#endif
