"""The machines as estimators in scikit-learn's manners, and models read from files.

scikit-learn is used where it is installed (:mod:`odmtool.estimators.manners`); without it
the same classes train and predict with plain checks of their input.
"""
