"""What is wrong with a call, in one message that names the nearest right one."""

import re
from typing import Any, cast

import typer

from epiclick.cli.help import example_of
from epiclick.errors import did_you_mean

UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])
"""What Typer raises where a call breaks the rules of its options and arguments."""

ASKED_FOR = {
    **dict.fromkeys(("int_parsing", "integer"), "a whole number"),
    **dict.fromkeys(("float_parsing", "float"), "a number"),
}
"""What to write, by the kind of mistake as Pydantic or Click names it."""


def mistake(error: Any) -> str:
    """Say what a usage error says, by its kind."""
    path = error.ctx.command_path if error.ctx else "epiclick"
    verb = path.split()[-1]
    message = error.format_message().strip().rstrip(".")
    if hasattr(error, "possibilities"):
        message = _unknown_option(error, verb)
    elif type(error).__name__ == "MissingParameter":
        message = _missing(error, verb)
    elif isinstance(error, typer.BadParameter) and error.param is not None:
        message = _bad_value(error, message)
    else:
        message = f"{verb}: {message[:1].lower()}{message[1:]}"
    return f"{message}. {path} --help tells more."


def _unknown_option(error: Any, verb: str) -> str:
    known = [name for param in error.ctx.command.get_params(error.ctx) for name in param.opts]
    near = did_you_mean(error.option_name, [name for name in known if name.startswith("--")])
    return f"{verb} has no option {error.option_name}{near}"


def _missing(error: Any, verb: str) -> str:
    name = error.param.opts[0]
    if error.param.param_type_name == "argument":
        name = (error.param.metavar or name).removesuffix("...").upper()
    example = example_of(error.ctx.command)
    return f"{verb} needs {name}" + (f", as in: {example}" if example else "")


def _bad_value(error: Any, message: str) -> str:
    option = error.param.opts[0]
    kind, value = "", ""
    if hasattr(error.__cause__, "errors"):  # Pydantic keeps the value apart from its words
        kind, value = (error.__cause__.errors()[0][name] for name in ("type", "input"))
    elif told := re.search(r"'([^']*)' is not a valid (integer|float)", message):
        value, kind = told.groups()
    if kind in ASKED_FOR:
        return f"{option} {value}: write {ASKED_FOR[kind]}"
    if choice := re.search(r"'([^']*)' is not one of (.*)", message, re.DOTALL):
        value, names = choice.group(1), re.findall(r"'(.*?)'", choice.group(2))
        return f"{option} must be one of {', '.join(names)}, not '{value}'" + did_you_mean(
            value, names
        )
    return message
