/* string.h, for NVRTC, which has no headers of its own: it knows memcpy. */
