"""The noise of one comparison as the report reads it: by role instead of by a pass's name."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

from refork.data.noise_record import ComparedPasses, published_name

Role = Literal["treatment", "floor"]
ROLES: tuple[Role, ...] = ("treatment", "floor")


@dataclass(frozen=True)
class Summary:
    """The noise record of a comparison (`data.noise_record`) and the names of its passes."""

    record: Mapping[str, Any]
    names: ComparedPasses

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "Summary":
        """Read the names of the passes from the record."""
        by_role = {facts["role"]: name for name, facts in record["passes"].items()}
        return cls(record, ComparedPasses(**by_role))

    def name(self, role: Role) -> str:
        """Return the name of the pass in a role."""
        return self.names.treatment if role == "treatment" else self.names.floor

    def label(self, role: Role) -> str:
        """Return the name of the pass, saying so if it is the floor."""
        return self.name(role) + (" (floor)" if role == "floor" else "")

    @property
    def n_pivots(self) -> int:
        """All pivots, eligible or not."""
        return int(self.record["n_pivots"])

    @property
    def eligible(self) -> int:
        """Pivots whose credit is not 0 in any of the three passes."""
        return int(self.record["eligible"])

    def flips(self, role: Role, *path: str) -> Mapping[str, Any]:
        """Return the flips of a pass over the eligible pivots, or over those of another part."""
        flips: Mapping[str, Any] = self.part(role, *path)
        return flips

    def part(self, role: Role, *path: str) -> Any:
        """Return what the mapping at `path` holds for the pass in a role.

        Some mappings go by the keys of the published values: `floor`, or `exact2` for `replica`.
        """
        found = self.value(*path)
        return found[self._key(found, role)]

    def part_reason(self, role: Role, *path: str, key: str | None = None) -> str:
        """Return why the quantity of the pass in a role, or its `key`, is null."""
        name = self._key(self.value(*path), role)
        return self.reason(*path, name, *([] if key is None else [key]))

    def value(self, *path: str) -> Any:
        """Return a quantity by its path; null where it does not exist."""
        found: Any = self.record
        for key in path:
            found = found[key]
        return found

    def percent_points(self, *path: str) -> float | None:
        """Return a share as percentage points."""
        share = self.value(*path)
        return None if share is None else 100 * share

    def reason(self, *path: str) -> str:
        """Return why the quantity at `path` is null."""
        return str(self.record["reasons"].get("/".join(path), "not recorded"))

    def _key(self, found: Mapping[str, Any], role: Role) -> str:
        name = self.name(role)
        return next(key for key in (name, role, published_name(name)) if key in found)
