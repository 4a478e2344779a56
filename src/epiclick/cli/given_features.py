"""Options for reading features, which all verbs with --features share."""

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

from typer import Option

from epiclick.cli import console
from epiclick.data.feature_options import MAX_CATEGORIES
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.api import BaseModel
    from epiclick.data.feature_encoding import FeatureEncoding
    from epiclick.data.features import FeatureTable


def _option(*names: str, **settings: Any) -> Any:
    return Option(*names, rich_help_panel="Reading the features", **settings)


@dataclass(frozen=True)
class GivenFeatures:
    """Tables of features given on the command line, and how they are read.

    Every field is an option of the verbs marked with `reads_log` that take `features`.
    """

    features: Annotated[
        list[str] | None,
        Option(
            metavar="FILE",
            help="Features of the items: query_id, doc_id or both, one column per feature. May be "
            "repeated: tables are joined.",
        ),
    ] = None
    missing_values: Annotated[
        Literal["error", "impute"] | None,
        _option(
            help="Reject missing values of features, or impute their mean and mark them.",
            show_default="the model's, or error",
        ),
    ] = None
    max_categories: Annotated[
        int | None,
        _option(
            metavar="VALUES",
            help="Most values of a text column, which become a column each; 0 leaves text out.",
            show_default=str(MAX_CATEGORIES),
        ),
    ] = None
    ignore_feature: Annotated[
        list[str] | None,
        _option(metavar="COLUMN", help="Leave out a column of the features. May be repeated."),
    ] = None
    features_as_of: Annotated[
        str | None,
        _option(
            metavar="DAY",
            help="Of daily snapshots, use the latest on or before this day; or latest.",
        ),
    ] = None
    like: "FeatureEncoding | None" = field(default=None, init=False)
    _read: "dict[str, FeatureTable]" = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        """Refuse options without features to read."""
        others = {
            "--missing-values": self.missing_values,
            "--max-categories": self.max_categories,
            "--ignore-feature": self.ignore_feature or None,
            "--features-as-of": self.features_as_of,
        }
        given = [option for option, value in others.items() if value is not None]
        if given and not self.features:
            raise InputError(
                f"{given[0]} is for reading features; give them with --features, or leave it out",
                code="option-does-not-apply",
            )

    def __bool__(self) -> bool:
        """Whether features are given."""
        return bool(self.features)

    @property
    def paths(self) -> list[str]:
        """The files."""
        return list(self.features or ())

    def for_models(self, models: "Iterable[BaseModel]") -> "GivenFeatures":
        """The same files, read as the models were trained to read them."""
        from epiclick.data.feature_encoding import FeatureEncoding

        specs = [model.fitted_.features for model in models]
        found = replace(self)
        known = [spec.how for spec in specs if spec is not None]
        object.__setattr__(found, "like", FeatureEncoding.union(known) if known else None)
        return found

    def read(self, ids: Literal["auto", "string", "integer"], *, quiet: bool) -> "FeatureTable":
        """The table, read once; notes how it was read."""
        from epiclick.data.features import read_features

        if ids not in self._read:
            table = read_features(
                self.paths,
                ids=ids,
                missing_values=self.missing_values,
                max_categories=self.max_categories,
                ignore=self.ignore_feature or (),
                as_of=self.features_as_of,
                like=self.like,
            )
            for note in table.notes:
                console.note(note, quiet=quiet)
            self._read[ids] = table
        return self._read[ids]


NO_FEATURES = GivenFeatures()
