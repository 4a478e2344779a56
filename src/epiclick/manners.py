"""scikit-learn's manners without scikit-learn, whose import takes longer than loading a model."""

import inspect
from typing import Any, Self

from epiclick.errors import InputError, did_you_mean


class Parametrised:
    """Constructor parameters are attributes of the same name, never changed by fitting."""

    @classmethod
    def _parameter_names(cls) -> list[str]:
        return [name for name in inspect.signature(cls.__init__).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's parameters; `deep` is there for scikit-learn and changes nothing."""
        return {name: getattr(self, name) for name in self._parameter_names()}

    def set_params(self, **parameters: Any) -> Self:
        """Change parameters; they take effect at the next fit."""
        known = self._parameter_names()
        for name, value in parameters.items():
            if name not in known:
                raise InputError(
                    f"{type(self).__name__} has no parameter '{name}'{did_you_mean(name, known)}; "
                    f"it has {', '.join(known)}"
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        """The call that makes the same object, defaults left out."""
        signature = inspect.signature(type(self).__init__).parameters
        changed = [
            f"{name}={value!r}"
            for name, value in self.get_params().items()
            if value != signature[name].default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"
