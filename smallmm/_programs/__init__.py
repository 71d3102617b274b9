"""`fuse`: functions are recorded, planned and run as one program, on the host and on CUDA devices."""
