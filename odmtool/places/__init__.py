"""Where the rows of a training lie: in memory, on the disk, with the workers of a cluster."""
