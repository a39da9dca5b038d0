"""Bad usage as one line: which argument, what was expected, what was found. typer would say it in four."""

from typing import Any, Final, cast

import typer

UsageError: Final = cast(type[Exception], typer.BadParameter.__mro__[1])
"""What typer raises; newer versions hold the click that it comes from within themselves."""


def describe(error: Exception, command: str) -> str:
    """Return what is wrong with how a command was used."""
    found, see = cast(Any, error), f"see {command} --help"
    parameter = getattr(found, "param", None)
    if parameter is not None and found.message:
        return f"{_name(parameter)}: {found.message}"
    if parameter is not None:
        return f"{_name(parameter)}: expected a value, found none; {see}"
    if isinstance(error, typer.BadParameter):  # one of ours that concerns several options, and names them
        return str(found.message)
    if hasattr(found, "possibilities"):
        near = " or ".join(sorted(found.possibilities or ()))
        rest = f": did you mean {near}?" if near else f"; {see}"
        return f"expected an option that there is, found {found.option_name}{rest}"
    if hasattr(found, "option_name"):
        fault = "no value, found one" if "does not take" in found.message else "a value, found none"
        return f"{found.option_name}: expected {fault}; {see}"
    message = str(found.message).rstrip(".")
    return f"{message[:1].lower()}{message[1:]}; {see}"


def _name(parameter: Any) -> str:
    """Return an option by its long name, an argument as the help calls it."""
    return str(parameter.metavar if parameter.param_type_name == "argument" else max(parameter.opts, key=len))
