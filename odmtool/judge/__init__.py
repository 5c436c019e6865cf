"""The judges: slow and exact values of every objective, dual and gap, in plain NumPy."""
