"""The files that explain a results folder: stage.json in every stage, and readable names."""

import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from refork.data.files import read_json, write_json
from refork.data.manifest import manifest_path
from refork.data.schemas import CURVE
from refork.engines.model_source.folder import folder_digest, touched_since
from refork.errors import ReforkError
from refork.study.config import REPORT_FOLDERS
from refork.study.graph import Graph
from refork.study.stage import record_hash


def write_records(graph: Graph) -> None:
    """Write the stage.json of every stage, where it does not stand already."""
    for stage in graph.stages():
        path = graph.folder(stage) / "stage.json"
        if not path.exists():
            write_json(path, stage.record)


def read_record(path: Path) -> dict[str, Any]:
    """Read a stage.json and hold it against the hash in its path.

    Raises
    ------
    ReforkError
        The record was edited: its hash is not the name of its folder.
    """
    record: dict[str, Any] = read_json(path)
    digest = record_hash(record)
    if digest != path.resolve().parent.name:
        raise ReforkError(f"{path}: was edited; its hash is {digest}, not the name of its folder")
    return record


def model_folder(path: Path, record: Mapping[str, Any]) -> Path:
    """Return the model's folder of the stage whose record lies at `path`.

    Raises
    ------
    ReforkError
        The user's own folder, to which it leads, is not what was locked any more.
    """
    digest: str = record["upstream"]["prepare_model"]
    folder = path.parents[2] / "prepare_model" / digest / "model"
    manifest = read_json(manifest_path(folder))
    named = manifest["stage"]["settings"]["model"]["folder"]
    # Weights are many: they are hashed again only if something was touched.
    if named and touched_since(folder, manifest["started"]):
        found = folder_digest(folder)
        if found != manifest["digest"]:
            raise ReforkError(
                f"model.folder: {named}: has changed since it was locked (locked "
                f"{manifest['digest']}, found {found}); put it back, or lock the study again"
            )
    return folder


def link_names(graph: Graph) -> None:
    """Point readable names at the stages of the config as it is now.

    results/<study>/<variant>/<stage>, a pass below `resample`, outcomes of curves as
    `grade_outcomes.curve`, and the report beside the variants.
    """
    for name, variant in graph.variants.items():
        folder = graph.study_folder / name
        for stage in variant.all():
            if stage.name == "resample":
                _link(folder / "resample" / stage.settings["pass"]["name"], graph.folder(stage))
            else:
                of_curves = variant.curves is not None and stage is variant.curves.outcomes
                suffix = f".{CURVE}" if of_curves else ""
                _link(folder / f"{stage.name}{suffix}", graph.folder(stage))
    for file in ("report.html", *REPORT_FOLDERS):
        _link(graph.study_folder / file, graph.folder(graph.report) / file)


def _link(name: Path, target: Path) -> None:
    relative = Path(os.path.relpath(target, name.parent))
    if name.is_symlink() and name.readlink() == relative:
        return
    name.parent.mkdir(parents=True, exist_ok=True)
    temporary = name.with_name(f".{name.name}.{os.getpid()}.tmp")
    temporary.symlink_to(relative)
    temporary.replace(name)
