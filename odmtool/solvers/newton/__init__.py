"""Newton's method for binary problems.

=========  ====================================================================
factor     positive definite systems: Cholesky's factorisation, conjugate gradients
hessian    I + X'SX, from sparse products or by BLAS
spaces     where w is looked for: features, or the functions of a kernel
newton     losses with a continuous derivative
proximal   losses whose derivative jumps once
two_jumps  losses whose derivative jumps twice
kmomd      KM-OMD, whose loss has a level for each class
interior   the least of a quadratic function over simplices, for kmomd
=========  ====================================================================
"""
