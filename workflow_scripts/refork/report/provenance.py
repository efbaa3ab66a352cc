"""Where results come from: settings, engine, stage hashes and cost."""

import platform
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from typing import Any

import yaml

from refork import __version__
from refork.report.study_data import StudyData, VariantData
from refork.study.stage import record_hash

_LIBRARIES = ("numpy", "pyarrow", "pandas", "seaborn", "matplotlib")
_OTHER = ("variants", "resources", "report", "results")


@dataclass(frozen=True)
class Difference:
    """One setting that is not what it is elsewhere; both as YAML."""

    key: str
    usual: str
    value: str


@dataclass(frozen=True)
class StageCost:
    """One stage of one variant: its hash and what its jobs cost together.

    `tokens` were generated, `replayed` decoded once more to reach decode-time states. They and the
    requests are null where no engine ran, `replayed` also where no manifest says. Seconds stand in
    the manifests alone: a run that was killed and restarted gives the same report as an undisturbed
    one.
    """

    variant: str
    stage: str
    hash: str
    jobs: int
    requests: int | None
    tokens: int | None
    replayed: int | None


@dataclass(frozen=True)
class Fingerprint:
    """What an engine said of itself, and the variants that ran on it."""

    variants: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]


def flattened(record: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Return every leaf of nested settings by its dotted key; lists are leaves."""
    flat: dict[str, Any] = {}
    for key, value in record.items():
        if isinstance(value, Mapping) and value:
            flat |= flattened(value, f"{prefix}{key}.")
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def differences(settings: Mapping[str, Any], usual: Mapping[str, Any]) -> list[Difference]:
    """Return the settings that are not as usual."""
    before = flattened({key: value for key, value in usual.items() if key not in _OTHER})
    after = flattened({key: value for key, value in settings.items() if key not in _OTHER})
    return [
        Difference(key, as_yaml(before.get(key)), as_yaml(value))
        for key, value in after.items()
        if value != before.get(key)
    ]


def as_yaml(value: Any) -> str:
    """Return a setting as it would stand in a config file, without the keys that are null."""
    if isinstance(value, list | tuple):
        return "\n".join(f"- {as_yaml(item)}" for item in value) or "[]"
    if isinstance(value, Mapping):
        value = {key: item for key, item in value.items() if item is not None}
    text = yaml.safe_dump(
        value, default_flow_style=True, allow_unicode=True, width=1000, sort_keys=False
    )
    return text.removesuffix("...\n").strip()


def whole_yaml(record: Mapping[str, Any]) -> str:
    """Return nested settings as a YAML document."""
    return yaml.safe_dump(_plain(record), allow_unicode=True, width=100, sort_keys=False)


def stage_costs(variant: VariantData) -> list[StageCost]:
    """Return a row a stage and hash, in the order in which the manifests come."""
    jobs: dict[tuple[str, str], list[Mapping[str, Any]]] = {}
    for manifest in variant.manifests:
        key = _stage_name(manifest["stage"]), record_hash(manifest["stage"])
        jobs.setdefault(key, []).append(manifest)
    return [
        StageCost(
            variant=variant.name,
            stage=stage,
            hash=hash_,
            jobs=len(manifests),
            requests=_total(manifests, "requests"),
            tokens=_total(manifests, "tokens"),
            replayed=_total(manifests, "replayed_tokens"),
        )
        for (stage, hash_), manifests in jobs.items()
    ]


def fingerprints(study: StudyData) -> list[Fingerprint]:
    """Return every engine that ran, with the variants that ran on it."""
    variants: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for variant in study.variants:
        for manifest in variant.manifests:
            if "engine" not in manifest:
                continue
            facts = tuple((key, str(value)) for key, value in flattened(manifest["engine"]).items())
            names = variants.setdefault(facts, [])
            if variant.name not in names:
                names.append(variant.name)
    return [Fingerprint(tuple(names), facts) for facts, names in variants.items()]


def versions() -> list[tuple[str, str]]:
    """Return the versions that made the report."""
    libraries = [(name, version(name)) for name in _LIBRARIES]
    return [("refork", __version__), ("python", platform.python_version()), *libraries]


def _stage_name(record: Mapping[str, Any]) -> str:
    name = str(record["stage"])
    passed = record.get("settings", {}).get("pass")
    return f"{name}, {passed['name']}" if passed else name


def _total(manifests: list[Mapping[str, Any]], key: str) -> int | None:
    known = [manifest[key] for manifest in manifests if manifest.get(key) is not None]
    return sum(known) if known else None


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list | tuple) else value
