"""The maths that everything else stands on: losses, kernels, kernel matrices, memory, scaling."""
