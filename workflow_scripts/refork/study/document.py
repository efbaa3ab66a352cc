"""The config, written out from its model: default.yaml, JSON schema, table of the README."""

import json
from collections.abc import Iterator
from typing import Any

import yaml
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from refork.study.config import Demand, Settings
from refork.study.keys import section_of

HEAD = """\
# Every key of refork with its default. A study file overrides what it names.
# Made from the config model by `refork schema --write`; a test holds the two together.
"""
TABLE_START = "<!-- keys -->\n"
TABLE_END = "<!-- /keys -->\n"
_COMMENT_COLUMN = 34


def default_yaml() -> str:
    """Return config/default.yaml: every key with its default and its description."""
    return HEAD + "".join(f"{line}\n" for line in _section(Settings, 0))


def json_schema() -> str:
    """Return config/schema.json, for editors that check a study file while it is typed."""
    return json.dumps(Settings.model_json_schema(), indent=2, ensure_ascii=False) + "\n"


def key_table() -> str:
    """Return the table of all keys for config/README.md."""
    rows = [f"| `{path}` | `{default}` | {text} |\n" for path, default, text in _keys(Settings, "")]
    return "| key | default | what it does |\n| --- | --- | --- |\n" + "".join(rows)


def with_table(page: str) -> str:
    """Return config/README.md with its table made anew."""
    before, rest = page.split(TABLE_START)
    after = rest.split(TABLE_END)[1]
    return before + TABLE_START + key_table() + TABLE_END + after


def _is_section(field: FieldInfo) -> bool:
    return isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel)


def _plain(value: Any) -> Any:
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_defaults=True)
    return [_plain(item) for item in value] if isinstance(value, list) else value


def _flow(value: Any) -> str:
    text = yaml.safe_dump(_plain(value), default_flow_style=True, sort_keys=False, width=1000)
    return text.removesuffix("\n").removesuffix("\n...")


def _section(model: type[BaseModel], depth: int) -> Iterator[str]:
    indent = "  " * depth
    for name, field in model.model_fields.items():
        if depth == 0 and (_is_section(field) or name in ("passes", "variants")):
            yield ""
        default = field.get_default(call_default_factory=True)
        if isinstance(default, Demand):
            yield _line(f"{indent}{name}: {_flow(default.model_dump())}", field)
        elif _is_section(field):
            yield _line(f"{indent}{name}:", field)
            yield from _section(type(default), depth + 1)
        elif isinstance(default, list) and default and isinstance(default[0], BaseModel):
            yield _line(f"{indent}{name}:", field)
            yield from (f"{indent}  - {_flow(item)}" for item in default)
            yield from _item_keys(type(default[0]), indent + "  ")
        else:
            yield _line(f"{indent}{name}: {_flow(default)}", field)


def _item_keys(model: type[BaseModel], indent: str) -> Iterator[str]:
    for name, field in model.model_fields.items():
        yield f"{indent}# {name}: {field.description}"


def _line(content: str, field: FieldInfo) -> str:
    return f"{content:<{_COMMENT_COLUMN}}  # {field.description}"


def _keys(model: type[BaseModel], prefix: str) -> Iterator[tuple[str, str, str]]:
    for name, field in model.model_fields.items():
        path, text = prefix + name, (field.description or "").replace("|", "\\|")
        inner = section_of(field.annotation)
        if inner is not None and _is_section(field):
            yield from _keys(inner, f"{path}.")
            continue
        default = "" if field.is_required() else _flow(field.get_default(call_default_factory=True))
        yield path, default, text
        if inner is not None:
            yield from _keys(inner, f"{path}[].")
