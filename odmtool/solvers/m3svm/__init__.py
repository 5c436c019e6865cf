"""M3SVM and ISM3: the objective, Newton's method with its linear system, and Adam."""
