"""What the scripts of this folder share."""


def raised(function, *args, **kwargs):
    """The exception that the call raises."""
    try:
        function(*args, **kwargs)
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")
