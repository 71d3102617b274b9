"""Functions of stacks of samples: a row is a sample, a column a feature."""
