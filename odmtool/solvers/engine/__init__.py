"""The kernel engine: certified solutions of the full kernel problem from few landmarks.

===============  ============================================================
points           the distinct examples, and kernel values between them
landmarks        randomly pivoted Cholesky on a sample
features         what the landmarks' span holds of every example, and what not
reduced          Newton's method in the span
thinned          the same with features of some examples, and passes over all
certificate      bounds of the full problem's gap
full             Newton's method in function space, preconditioned by the features
products         what that multiplies by K, for all problems at once
solve            which of these, in what order
columns          Newton's method for many problems on the same features
shared           certified solutions of many problems on the same rows
span             any convex problem in the span, by a linear solver on the features
jumps            the same for losses with a kink, and LDM
===============  ============================================================
"""
