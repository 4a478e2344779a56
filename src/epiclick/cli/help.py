"""Help of the verbs, and the message for a call that is wrong."""

import os
import re
import sys
from collections.abc import Mapping, Sequence
from typing import Any, cast

import typer
from typer.core import TyperCommand, TyperGroup

from epiclick.errors import InputError, did_you_mean

KINDS = {"str": "TEXT", "list[str]": "TEXT", "int": "N", "float": "X", "path": "PATH"}
"""What is written for the type of a value; choices are written as they are."""

BLANK_MEANS = ("--where", "--hidden", "--ranking")
"""Options that an empty value means something to, or that answer one in their own words."""

WHOLE = 1_000
"""Letters of a verb's first sentence in the list of verbs: more than any has."""


class Verb(TyperCommand):
    """A verb of the command line; its options stand in the sections they name."""

    @staticmethod
    def shown() -> Mapping[str, str]:
        """Defaults by option, looked up when help is asked for and not at every start."""
        return {}

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help with the defaults of the moment."""
        shown = self.shown()
        for parameter in self.params:
            if parameter.name in shown:
                parameter.show_default = shown[parameter.name]  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Take the arguments apart; values that no verb can mean are refused first."""
        if not ctx.resilient_parsing:
            refuse_blank(self.name or "epiclick", args)
        return super().parse_args(ctx, args)

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Name the arguments plainly, without braces."""
        pieces = super().collect_usage_pieces(ctx)
        return [re.sub(r"(\.{3}\]?)\.{3}$", r"\1", re.sub("[{}]", "", each)) for each in pieces]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, a section each."""
        _write_sections(self, ctx, formatter)


class Verbs(TyperGroup):
    """The verbs together."""

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write options, and every verb with its first sentence."""
        _write_sections(self, ctx, formatter)
        verbs = [(name, self.get_command(ctx, name)) for name in self.list_commands(ctx)]
        rows = [(_strong(name), v.get_short_help_str(WHOLE)) for name, v in verbs if v is not None]
        with formatter.section(_strong("Verbs")):
            formatter.write_dl(rows)

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Find a verb; one that is not there is answered with the nearest."""
        known = self.list_commands(ctx)
        if not ctx.resilient_parsing and args[0] not in known and args[0][:1] != "-":
            raise InputError(
                f"there is no verb '{args[0]}'{did_you_mean(args[0], known)}; there are "
                f"{', '.join(known)}"
            )
        return super().resolve_command(ctx, args)


def refuse_blank(verb: str, args: Sequence[str]) -> None:
    """Refuse values that are empty: a path that is would be taken for the current folder."""
    for before, given in zip(["", *args], args, strict=False):
        option, equals, value = given.partition("=")
        if not (given.startswith("--") and equals):
            option, value = before if before.startswith("-") else "an argument", given
        if "\0" in value:
            raise InputError(f"{verb}: {option} holds a NUL character; write it without")
        if not value.strip() and option not in BLANK_MEANS:
            raise InputError(f"{verb}: {option} is empty; is a variable of the shell not set?")


def example_of(verb: Any) -> str:
    """The call that a verb's help ends with; "" if it has none."""
    _, begins, example = (verb.help or "").partition("Example: ")
    return " ".join(example.split()) if begins else ""


def _write_sections(command: Any, ctx: Any, formatter: Any) -> None:
    sections: dict[str, list[tuple[str, str]]] = {}
    for parameter in command.get_params(ctx):
        record = parameter.get_help_record(ctx)
        if record is not None:
            is_argument = parameter.param_type_name == "argument"
            name, words = record
            if is_argument:
                name = parameter.metavar or name
            name = re.sub("<(.*)>", lambda kind: KINDS.get(kind[1], kind[1]), name)
            # a default in words comes in brackets of its own
            words = re.sub(r"\[default: \((.*)\)(;.*)?\]$", r"[default: \1\2]", words)
            section = getattr(parameter, "rich_help_panel", None)
            section = section or ("Arguments" if is_argument else "Options")
            sections.setdefault(section, []).append((_strong(name), words))
    for section, rows in sections.items():
        with formatter.section(_strong(section)):
            formatter.write_dl(rows, col_max=26)


def _strong(text: str) -> str:
    """Bold on a terminal, plain elsewhere."""
    plain = not sys.stdout.isatty() or os.environ.get("TERM") == "dumb"
    return text if plain else typer.style(text, bold=True)


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
