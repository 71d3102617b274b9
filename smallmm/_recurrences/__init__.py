"""Functions of series in time, each of which is a scan."""
