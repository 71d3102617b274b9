"""Functions of series in time, all by scans."""
