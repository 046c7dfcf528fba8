"""What kernels are made of: contracts and variants, the counted work, and the proofs that roundings are exact."""
