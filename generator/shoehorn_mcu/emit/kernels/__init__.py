"""The C text of kernels: what each uses of runtime_c, each definition once."""
