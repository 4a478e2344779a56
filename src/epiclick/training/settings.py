"""How long and how fast to train."""

from dataclasses import dataclass


@dataclass(frozen=True)
class TrainingSettings:
    """Settings of the training loop.

    Attributes:
        epochs: passes over the pairs, at most.
        batch_size: most pairs in a batch.
        learning_rate: of AdamW, for the network; falls to 0 along half a cosine if `decay`.
        position_rate: factor on it for the position lookup (and for relevance without features),
            which has a handful of parameters to move far where the network has thousands.
        weight_decay: of AdamW, on the network's weights alone.
        patience: epochs without a better validation likelihood before training stops; None trains
            to the last epoch and keeps what it then has.
        decay: whether the learning rate falls.
        seed: of the first weights, the batches and the samples.
        members: networks of an ensemble, trained beside the model's own; 1 for none.
        bootstrap: whether each of them learns from a bootstrap of the queries.
    """

    epochs: int
    batch_size: int
    learning_rate: float
    position_rate: float
    weight_decay: float
    patience: int | None
    decay: bool
    seed: int
    members: int = 1
    bootstrap: bool = True

    @property
    def networks(self) -> int:
        """How many are trained: the model's own, and the members if there are any."""
        return 1 if self.members == 1 else 1 + self.members
