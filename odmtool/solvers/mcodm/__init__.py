"""Multi-class ODM: rounds that linearise the best other class, and solvers for a round."""
