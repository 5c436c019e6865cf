"""The multi-class machine of Crammer and Singer: coordinate descent, then Newton's method."""
