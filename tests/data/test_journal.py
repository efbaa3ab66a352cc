"""The journal of finished batch groups, and the manifest beside an output."""

from pathlib import Path

import pyarrow as pa
import pytest

from refork.data.files import file_sha256, read_json
from refork.data.journal import Journal
from refork.data.manifest import manifest_path, write_manifest

REQUESTS = pa.table({"request": [0, 1], "token_ids": [[1, 2], [3]]})
RESULTS = pa.table({"request": [0, 1]}).replace_schema_metadata({"engine": "{}"})


def test_a_kept_group_is_found_and_no_other(tmp_path: Path) -> None:
    journal = Journal(tmp_path / "journal")
    assert journal.find(REQUESTS) is None
    journal.snapshots(REQUESTS).write_bytes(b"state")
    journal.keep(REQUESTS, RESULTS)
    found = Journal(tmp_path / "journal").find(REQUESTS)
    assert found is not None
    assert found.equals(RESULTS, check_metadata=True)
    assert journal.find(REQUESTS.slice(0, 1)) is None
    journal.close()
    assert not (tmp_path / "journal").exists()


@pytest.mark.parametrize("ending", ["arrow", "safetensors", "seal"])
def test_a_damaged_group_counts_as_not_done(tmp_path: Path, ending: str) -> None:
    journal = Journal(tmp_path)
    journal.snapshots(REQUESTS).write_bytes(b"state")
    journal.keep(REQUESTS, RESULTS)
    [file] = tmp_path.glob(f"*.{ending}")
    file.write_bytes(file.read_bytes()[:-3])
    assert journal.find(REQUESTS) is None
    file.unlink()
    assert journal.find(REQUESTS) is None


def test_slices_of_a_table_have_the_digest_of_their_rows(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.keep(REQUESTS.slice(1, 1), RESULTS)
    alike = pa.table({"request": [1], "token_ids": [[3]]})
    assert journal.find(alike) is not None


def test_a_manifest_says_what_its_output_is(tmp_path: Path) -> None:
    output, other = tmp_path / "shard-0000.parquet", tmp_path / "shard-0000.safetensors"
    output.write_bytes(b"a")
    other.write_bytes(b"bc")
    write_manifest(output, {"stage": "x", "settings": {}}, 0.0, {"tokens": 7}, [other])
    manifest = read_json(manifest_path(output))
    assert manifest["files"] == {path.name: file_sha256(path) for path in (output, other)}
    assert manifest["bytes"] == 3
    assert manifest["tokens"] == 7
    assert manifest["stage"] == {"stage": "x", "settings": {}}
