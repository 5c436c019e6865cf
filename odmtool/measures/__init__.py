"""What is measured of a trained machine: margins, confusion, leave-one-out; pictures."""
