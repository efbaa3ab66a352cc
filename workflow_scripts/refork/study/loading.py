"""From config files to checked settings; every error at once, in words."""

import difflib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from pydantic import BaseModel, ValidationError

from refork.errors import ReforkError
from refork.study.checks import contradictions
from refork.study.config import WHOLE_STUDY, Settings
from refork.study.keys import PATTERNS, section_of


class _Loader(yaml.SafeLoader):
    """Reads YAML and refuses a key that stands twice in a mapping; YAML would take the last."""

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Any, Any]:
        seen: set[str] = set()
        for name, _ in node.value:
            if isinstance(name, yaml.ScalarNode) and name.value in seen:
                raise yaml.MarkedYAMLError(
                    problem=f"the key `{name.value}` stands there twice",
                    problem_mark=name.start_mark,
                )
            seen.add(str(name.value))
        return super().construct_mapping(node, deep)


@dataclass(frozen=True)
class Study:
    """A checked study: its own settings and those of each of its variants."""

    settings: Settings
    variants: Mapping[str, Settings]


def read_yaml(path: Path) -> dict[str, Any]:
    """Read a YAML mapping.

    Raises
    ------
    ReforkError
        The file is absent, no YAML, or no mapping, or a key stands in it twice; the message names
        file and line.
    """
    try:
        content = yaml.load(path.read_text(encoding="utf-8-sig"), _Loader)
    except FileNotFoundError as error:
        here = "" if path.is_absolute() else f" in {Path.cwd()}"
        raise ReforkError(f"{path}: no such config file{here}") from error
    except OSError as error:
        raise ReforkError(f"{path}: cannot be read ({error.strerror})") from error
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ReforkError(f"{path}: not a YAML file: {error}") from error
    if content is None:
        return {}
    if not isinstance(content, dict):
        raise ReforkError(f"{path}: a config is a mapping of keys, not a {type(content).__name__}")
    return content


def merge(base: Mapping[str, Any], overrides: Mapping[str, Any]) -> dict[str, Any]:
    """Lay overrides over a config: mappings key by key, all else (lists too) as a whole."""
    merged = dict(base)
    for name, value in overrides.items():
        below = merged.get(name)
        both = isinstance(below, Mapping) and isinstance(value, Mapping)
        merged[name] = merge(below, value) if both else value  # type: ignore[arg-type]
    return merged


def load_study(config: Mapping[str, Any], origin: str = "config") -> Study:
    """Check a config and lay its variants out.

    Raises
    ------
    ReforkError
        All errors at once: key path, value, what is allowed, nearest valid name.
    """
    faults: list[str] = []
    settings = _validated(config, faults)
    overrides = config.get("variants")
    variants: dict[str, Settings] = {}
    if isinstance(overrides, Mapping) and overrides:
        base = {name: value for name, value in config.items() if name != "variants"}
        known = set(faults)
        for name, override in overrides.items():
            variant = _variant(base, f"variants.{name}", override, faults, known)
            if variant is not None:
                variants[str(name)] = variant
    elif settings is not None:
        variants = {"base": settings}
    if faults or settings is None:
        raise ReforkError(
            f"{origin}: {_count(faults)}\n" + "\n".join(f"  {fault}" for fault in faults)
        )
    return Study(settings, variants)


def load_files(*paths: Path) -> Study:
    """Load a study from config files, later ones over earlier ones."""
    config: dict[str, Any] = {}
    for path in paths:
        config = merge(config, read_yaml(path))
    return load_study(config, str(paths[-1]))


def _count(faults: list[str]) -> str:
    return "1 error in the config" if len(faults) == 1 else f"{len(faults)} errors in the config"


def _variant(
    base: Mapping[str, Any], where: str, override: Any, faults: list[str], known: set[str]
) -> Settings | None:
    if not isinstance(override, Mapping):
        return None  # said by the check of `variants` itself
    for path in WHOLE_STUDY:
        if _reaches(override, path.split(".")):
            faults.append(f"{where}.{path}: belongs to the whole study, no variant overrides it")
    found: list[str] = []
    settings = _validated(merge(base, override), found)
    faults.extend(f"{where}.{fault}" for fault in found if fault not in known)
    return settings


def _reaches(config: Any, path: list[str]) -> bool:
    for part in path:
        if not isinstance(config, Mapping) or part not in config:
            return False
        config = config[part]
    return True


def _validated(config: Mapping[str, Any], faults: list[str]) -> Settings | None:
    """Check a config; append every fault, and return the settings if there is none."""
    doubtful: set[str] = set()
    try:
        settings = Settings.model_validate(dict(config))
    except ValidationError as error:
        faults.extend(_in_words(error))
        doubtful = {str(item["loc"][0]) for item in error.errors()}
        sound = {name: value for name, value in config.items() if name not in doubtful}
        settings = Settings.model_validate(sound)
    faults.extend(f"{path}: {words}" for path, words in contradictions(settings, doubtful))
    return None if faults else settings


def _in_words(error: ValidationError) -> Iterator[str]:
    for item in error.errors():
        location = [part for part in item["loc"] if part != "[key]"]
        path = ".".join(str(part) for part in location)
        value = item["input"]
        if item["type"] == "extra_forbidden":
            names = _siblings(Settings, item["loc"][:-1])
            yield f"{path}: no such key{_nearest(str(item['loc'][-1]), names)}"
        elif item["type"] == "missing":
            yield f"{path}: missing"
        elif item["type"] == "literal_error":
            allowed = item["ctx"]["expected"].replace("'", "")
            names = allowed.replace(" or ", ", ").split(", ")
            yield f"{path}: is {_shown(value)}; allowed: {allowed}{_nearest(str(value), names)}"
        elif item["type"] in ("dict_type", "model_type"):
            yield f"{path}: is {_shown(value)}; input should be a mapping of keys"
        elif item["type"] == "string_pattern_mismatch":
            yield f"{path}: is {_shown(value)}; allowed: {PATTERNS[item['ctx']['pattern']]}"
        else:
            yield f"{path}: is {_shown(value)}; {_lower(item['msg'])}"


def _shown(value: Any) -> str:
    """Return a value as it stands in YAML where Python spells it otherwise."""
    return json.dumps(value) if value is None or isinstance(value, bool) else repr(value)


def _lower(message: str) -> str:
    return message[:1].lower() + message[1:]


def _siblings(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Return the valid key names at a place in the config."""
    for part in location:
        if isinstance(part, int):
            continue
        inner = section_of(model.model_fields[part].annotation)
        if inner is None:
            return []
        model = inner
    return list(model.model_fields)


def _nearest(name: str, names: list[str]) -> str:
    close = difflib.get_close_matches(name, names, n=1)
    return f"; did you mean `{close[0]}`?" if close else f"; known: {', '.join(names)}"
