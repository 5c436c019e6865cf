"""Stochastic gradients, for linear problems.

==========  ===================================================================
common      what both share: the terms of a step, and the certificate at the end
svrg        gradients with reduced variance
asgd        averaged gradients
==========  ===================================================================
"""
