"""Names of files and keys as text for messages: one line, any terminal, whatever bytes they hold. Pure: no I/O."""


def printable(text: str | bytes) -> str:
    r"""Return the text with everything that would not print as itself in backslash escapes.

    Bytes that are no UTF-8 (surrogate escapes in a path) come out as ``\xNN``, so that a name can be told from another
    and a line stays one line.

    >>> printable("a\nb"), printable(b"caf\xe9"), printable("café")
    ('a\\nb', 'caf\\xe9', 'café')
    """
    if isinstance(text, bytes):
        text = text.decode("utf-8", "surrogateescape")
    return text if text.isprintable() else "".join(map(_escape, text))


def _escape(character: str) -> str:
    if character.isprintable():
        return character
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"\\x{code - 0xDC00:02x}"
    return character.encode("unicode_escape").decode("ascii")
