"""Help of the verbs, and the messages for usage errors."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from epiclick.errors import InputError, did_you_mean

METAVARS = {"str": "TEXT", "list[str]": "TEXT", "int": "N", "float": "X", "path": "PATH"}
"""What help shows for the type of a value; choices are shown as they are."""

MAY_BE_EMPTY = ("--where", "--hidden", "--ranking")
"""Options for which an empty value has a meaning or its own message."""

NO_LIMIT = 1_000
"""Length of a verb's summary in the list of verbs: longer than any."""


class Verb(TyperCommand):
    """A verb of the command line, with help in sections."""

    @staticmethod
    def defaults() -> Mapping[str, str]:
        """Defaults by option, looked up only for help: finding them takes slow imports."""
        return {}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with the current defaults."""
        defaults = self.defaults()
        for parameter in self.params:
            if parameter.name in defaults:
                parameter.show_default = defaults[parameter.name]  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Parse the arguments, after refusing values that are invalid for every verb."""
        if not ctx.resilient_parsing:
            refuse_empty(self.name or "epiclick", args)
        return super().parse_args(ctx, args)

    def invoke(self, ctx: Any) -> Any:
        """Run the verb, without the threads of BLAS, which would mostly wait for each other."""
        from epiclick.processes import one_blas_thread  # slow to import

        with one_blas_thread():
            return super().invoke(ctx)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Names of the arguments, without braces."""
        pieces = super().collect_usage_pieces(ctx)
        return [re.sub(r"(\.{3}\]?)\.{3}$", r"\1", re.sub("[{}]", "", each)) for each in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options in sections."""
        _write_sections(self, ctx, formatter)


class Verbs(TyperGroup):
    """The group of all verbs."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the options, and every verb with its summary."""
        _write_sections(self, ctx, formatter)
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(_bold(name), v.get_short_help_str(NO_LIMIT)) for name, v in verbs if v is not None]
        with formatter.section(_bold("Verbs")):
            formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a verb; the message for an unknown one suggests the nearest."""
        known = self.list_commands(ctx)
        if not ctx.resilient_parsing and args[0] not in known and args[0][:1] != "-":
            raise InputError(
                f"there is no verb '{args[0]}'{did_you_mean(args[0], known)}; the verbs are "
                f"{', '.join(known)}",
                code="unknown-verb",
            )
        return super().resolve_command(ctx, args)


def refuse_empty(verb: str, args: Sequence[str]) -> None:
    """Refuse empty values: an empty path would mean the current folder."""
    for before, given in zip(["", *args], args, strict=False):
        option, equals, value = given.partition("=")
        if not (given.startswith("--") and equals):
            option, value = before if before.startswith("-") else "an argument", given
        if "\0" in value:
            raise InputError(
                f"{verb}: {option} contains a NUL character; remove it.", code="nul-character"
            )
        if not value.strip() and option not in MAY_BE_EMPTY:
            raise InputError(
                f"{verb}: {option} is empty; is a shell variable not set?", code="empty-value"
            )


def example_of(verb: Any) -> str:
    """The example at the end of a verb's help; "" if there is none."""
    _, begins, example = (verb.help or "").partition("Example: ")
    return " ".join(example.split()) if begins else ""


def _write_sections(command: Any, ctx: Any, formatter: Any) -> None:
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            is_argument = parameter.param_type_name == "argument"
            name, text = record
            if is_argument:
                name = parameter.metavar or name
            name = re.sub("<(.*)>", lambda kind: METAVARS.get(kind[1], kind[1]), name)
            # Typer puts a default given as text in parentheses
            text = re.sub(r"\[default: \((.*)\)(;.*)?\]$", r"[default: \1\2]", text)
            section = getattr(parameter, "rich_help_panel", None)
            section = section or ("Arguments" if is_argument else "Options")
            sections.setdefault(section, []).append((_bold(name), text))
    for section, rows in sections.items():
        with formatter.section(_bold(section)):
            formatter.write_dl(rows, col_max=26)


def _bold(text: str) -> str:
    """Bold on a terminal, plain elsewhere."""
    plain = not sys.stdout.isatty() or os.environ.get("TERM") == "dumb"
    return text if plain else typer.style(text, bold=True)


UsageError = cast(type[Exception], typer.BadParameter.__mro__[1])
"""What Typer raises for invalid options and arguments."""

EXPECTED = {
    **dict.fromkeys(("int_parsing", "integer"), "a whole number"),
    **dict.fromkeys(("float_parsing", "float"), "a number"),
}
"""What to write instead, by the kind of error as Pydantic or Click names it."""


def usage_message(error: Any) -> str:
    """The message for a usage error, by its kind."""
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
    return f"{message}. See {path} --help."


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
    if hasattr(error.__cause__, "errors"):  # Pydantic keeps the value apart from the message
        kind, value = (error.__cause__.errors()[0][name] for name in ("type", "input"))
    elif invalid := re.search(r"'([^']*)' is not a valid (integer|float)", message):
        value, kind = invalid.groups()
    if kind in EXPECTED:
        return f"{option} {value}: write {EXPECTED[kind]}"
    if choice := re.search(r"'([^']*)' is not one of (.*)", message, re.DOTALL):
        value, names = choice.group(1), re.findall(r"'(.*?)'", choice.group(2))
        return f"{option} must be one of {', '.join(names)}, not '{value}'" + did_you_mean(
            value, names
        )
    return message
