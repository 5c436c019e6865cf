"""The kernel engine: certified solutions of the full kernel problem from few landmarks.

===============  ============================================================
points           the distinct examples, and kernel values between them
landmarks        randomly pivoted Cholesky on a sample
features         what the landmarks' span holds of every example, and what not
choice           how many landmarks, and which certificate
cost             what the parts of the engine take, in seconds
room             how a problem divides the memory
sample           what landmarks would give, found out on some of the examples
brought          examples that a sample does not show, brought into it
reduced          Newton's method in the span
thinned          the same with features of some examples, and passes over all
certificate      bounds of the full problem's gap
checked          a gap at margins in single precision, by rows in double precision
full             Newton's method in function space, preconditioned by the features
products         what that multiplies by K, for all problems at once
solve            which of these, in what order
columns          Newton's method for many problems on the same features
shared           certified solutions of many problems on the same rows
span             any convex problem in the span, by a linear solver on the features
jumps            the same for losses with a kink, and LDM
===============  ============================================================
"""
