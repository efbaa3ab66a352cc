"""The folders of stages, followed along their records."""

from pathlib import Path

from refork.study.folders import read_record


class StageFolders:
    """The folders of the stages that one stage is made from, followed by their hashes."""

    def __init__(self, results: Path, name: str, digest: str) -> None:
        self._results = results
        self.folder = results / name / digest
        self.record = read_record(self.folder / "stage.json")

    def upstream(self, label: str) -> "StageFolders":
        """Follow a label of the stage's record; `resample.<pass>` leads to a stage `resample`."""
        name = label.partition(".")[0]
        return StageFolders(self._results, name, self.record["upstream"][label])
