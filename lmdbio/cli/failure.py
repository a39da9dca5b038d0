"""What a command raises when what was asked for cannot be done."""

from lmdbio.errors import LmdbioError


class CommandError(LmdbioError):
    """What was asked for cannot be done; the message is the line that is printed."""
