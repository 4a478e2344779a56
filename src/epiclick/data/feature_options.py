"""How tables of features are read: missing values, categories, snapshots."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from epiclick.arguments import check_choice, check_whole, shown
from epiclick.errors import InputError

if TYPE_CHECKING:
    from epiclick.data.feature_encoding import FeatureEncoding

MissingValues: TypeAlias = Literal["error", "impute"]

MAX_CATEGORIES = 50
"""Different values of a text column beyond which it is refused by default."""

LATEST = "latest"


@dataclass(frozen=True)
class FeatureOptions:
    """How tables of features are read.

    Attributes:
        missing_values: `error` refuses missing values; `impute` keeps them, and a model fills them
            with the mean of its training pairs and marks them in a column of their own.
        max_categories: most values of a text column, each of which becomes a column; 0 leaves text
            out.
        ignore: columns to leave out.
        as_of: of a table with a column of days, each row's latest snapshot on or before this day is
            used; `latest` for the last of all.
        like: the encoding of a model, whose columns decide which are numbers, categories or none.
    """

    missing_values: MissingValues = "error"
    max_categories: int = MAX_CATEGORIES
    ignore: tuple[str, ...] = ()
    as_of: str | None = None
    like: "FeatureEncoding | None" = None

    def __post_init__(self) -> None:
        """Check the values."""
        check_choice("missing_values", self.missing_values, ("error", "impute"))
        check_whole("max_categories", self.max_categories, 0)
        if not all(isinstance(name, str) for name in self.ignore):
            raise InputError(
                f"ignore must be names of columns, not {shown(self.ignore)}", code="invalid-type"
            )

    @classmethod
    def of(
        cls,
        like: "FeatureEncoding | None" = None,
        missing_values: MissingValues | None = None,
        max_categories: int | None = None,
        ignore: Any = (),
        as_of: Any = None,
    ) -> Self:
        """Options as given; the default is what a model was fitted with, if there is one."""
        base = cls() if like is None else cls(like.missing_values, like=like, ignore=like.ignored)
        names = (ignore,) if isinstance(ignore, str) else tuple(ignore)
        return cls(
            base.missing_values if missing_values is None else missing_values,
            base.max_categories if max_categories is None else max_categories,
            tuple(dict.fromkeys([*base.ignore, *names])),
            None if as_of is None else str(as_of),
            like,
        )

    def to_dict(self) -> Mapping[str, Any]:
        """All that decides what is read, for the key of a cache entry."""
        return {
            "missing_values": self.missing_values,
            "max_categories": self.max_categories,
            "ignore": list(self.ignore),
            "as_of": self.as_of,
            "like": None if self.like is None else self.like.to_dict(),
        }
