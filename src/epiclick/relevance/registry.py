"""The relevance heads by name."""

from collections.abc import Mapping

from epiclick.relevance.base import RelevanceHead
from epiclick.relevance.beta_heads import IdBeta, NetworkBeta
from epiclick.relevance.point_head import Point

NETWORK_BETA, ID_BETA, POINT = NetworkBeta(), IdBeta(), Point()

_ALL: tuple[RelevanceHead, ...] = (NETWORK_BETA, ID_BETA, POINT)

HEADS: Mapping[str, RelevanceHead] = {head.name: head for head in _ALL}
