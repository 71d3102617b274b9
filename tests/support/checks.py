"""What programs check that are no tests, as those for the emulated GPU."""


def raised(function, *args, **kwargs):
    """The exception that the call raises."""
    try:
        function(*args, **kwargs)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")
