/* stdbool.h, for NVRTC, which has no headers of its own: bool is a word of C++. */
