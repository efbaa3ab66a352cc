"""The config model, default.yaml, schema.json and the README's table say the same."""

import json

import yaml

from helpers.repository import ROOT
from refork.study.config import Settings
from refork.study.document import default_yaml, json_schema, with_table
from refork.study.loading import load_study, merge

CONFIG = ROOT / "config"


def test_the_files_are_those_of_the_model() -> None:
    page = (CONFIG / "README.md").read_text()
    assert (CONFIG / "default.yaml").read_text() == default_yaml()
    assert (CONFIG / "schema.json").read_text() == json_schema()
    assert page == with_table(page)


def test_the_default_file_says_the_defaults() -> None:
    written = yaml.safe_load(default_yaml())
    sources = {"questions": {"file": "q"}, "model": {"folder": "m"}}
    read = load_study(merge(written, sources)).settings
    assert read == Settings.model_validate(sources)


def test_every_key_is_described() -> None:
    definitions = json.loads(json_schema())["$defs"].values()
    properties = [p for definition in definitions for p in definition["properties"].values()]
    assert len(properties) > 50
    assert all(p.get("description") for p in properties)
