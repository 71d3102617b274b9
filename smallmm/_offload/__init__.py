"""`smallmm.cuda.offload`: arrays of the host, streamed through devices."""
