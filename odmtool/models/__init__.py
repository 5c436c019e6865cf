"""What is left of training: the models, and how they predict.

A model here is what a LIBLINEAR or LIBSVM model file can hold, and predicts as
the stock predictors do, row for row:

- linear: values sum_j x_j w_j, summed by ascending feature, the bias last.
  Features the model does not know are dropped. Two classes: value > 0 is the
  first label, else the second. More: the first maximum.
- kernel: one value per pair of classes (1-2, 1-3, ..., 2-3, ...),
  sum_s coef_s k(x, x_s) - rho. Value > 0 is a vote for the first of the pair,
  else for the second; the first class with most votes wins. Features that occur
  in no support vector are kept: they count in the distance of the rbf kernel.
- kernel, one score per class (what odm-train makes of one-against-the-rest and of machines
  that take all classes at once, in LIBSVM's form or the compact one): the scores
  sum_s coef_s k(x, x_s) + offset, every distinct vector evaluated once; the labels are
  still those of the pairs.
- with probabilities: the sigmoids probA and probB of the pairs of classes, coupled as
  in svm-predict -b 1, or LIBLINEAR's logistic regression. The label is then that of
  the largest probability (logistic regression: still that of the values).
- with ranges (:mod:`odmtool.models.scaled`): any of these, for rows that are not scaled yet.

Kernel values are computed in blocks with BLAS, which rounds differently from
LIBSVM's loops. A value or a difference of scores within the rounding bound of zero (or of
equal probabilities) is therefore computed again in LIBSVM's order of operations, so that
both give the same label (C.-C. Chang and C.-J. Lin, LIBSVM: a library for support vector
machines, 2011; R.-E. Fan et al., LIBLINEAR: a library for large linear classification, 2008).
"""
