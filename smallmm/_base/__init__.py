"""What everything else stands on: shapes and dtypes, errors, options, the catalogue of public functions."""
