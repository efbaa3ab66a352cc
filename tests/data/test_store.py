"""Stores in the published format, in and out."""

import gzip
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from helpers.stores import made_store, store_record
from refork.data.store import find_stores, read_store, write_store
from refork.errors import ReforkError


def write(path: Path, record: Any) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(json.dumps(record).encode()))
    return path


def test_a_store_is_read(tmp_path: Path) -> None:
    recording = read_store(write(tmp_path / "a.json.gz", store_record())).recording
    assert recording.positions.tolist() == list(range(12))
    assert recording.place.tolist() == [0, 1, 1, 2, 3, 3, 4, 5, 5, 6, 7, 7, 8, 9, 9, 10, 11, 11]
    assert recording.is_base.tolist() == [True, False, True] * 6
    assert {len(outcomes) for outcomes in recording.outcomes} == {40}
    answers = store_record()["branches"][1]["answers"]
    assert [["A", "B", "Other"][k] for k in recording.outcomes[1]] == answers
    assert recording.lengths[1].tolist() == store_record()["branches"][1]["cont_lens"]


def test_read_and_written_it_is_the_same_json(tmp_path: Path) -> None:
    record = store_record()
    record["branches"].reverse()
    record["gates"] = {"ok": True, "deviation": 2.5e-16, "bounds": [1, None]}
    del record["branches"][3]["cont_lens"]
    store = read_store(write(tmp_path / "a.json.gz", record))
    write_store(store, tmp_path / "b.json.gz")
    assert json.loads(gzip.decompress((tmp_path / "b.json.gz").read_bytes())) == record
    assert read_store(tmp_path / "b.json.gz") == store


def test_the_same_store_is_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a.json.gz", "b.json.gz"):
        write_store(made_store(), tmp_path / name)
    assert (tmp_path / "a.json.gz").read_bytes() == (tmp_path / "b.json.gz").read_bytes()


def set_in(*path: Any, value: Any) -> Callable[[dict[str, Any]], None]:
    def change(record: dict[str, Any]) -> None:
        place: Any = record
        for step in path[:-1]:
            place = place[step]
        place[path[-1]] = value

    return change


FAULTS: dict[str, tuple[Callable[[dict[str, Any]], None], str]] = {
    "probability": (set_in("branches", 2, "tok_p", value=1.5), r"branches\[2\].tok_p: .*less than"),
    "zero": (set_in("branches", 2, "tok_p", value=0), r"branches\[2\].tok_p: .*greater than 0"),
    "sum": (set_in("branches", 2, "tok_p", value=0.9), "tok_p of position 1 add to 1.15"),
    "order": (set_in("idxs", 3, value=1), r"idxs\[3\]: positions out of order, 1 stands behind 2"),
    "category": (
        set_in("branches", 4, "answers", 7, value="C"),
        r"branches\[4\].answers\[7\]: 'C' is none of the categories",
    ),
    "null": (set_in("branches", 4, "answers", 7, value=None), r"branches\[4\].answers\[7\]: Input"),
    "twice": (set_in("categories", value=["A", "B", "Other", "A"]), "categories: .* twice"),
    "no base": (set_in("branches", 0, "is_base", value=False), "0 of position 0 have is_base"),
    "two bases": (set_in("branches", 1, "is_base", value=True), "2 of position 1 have is_base"),
    "token": (set_in("base", "gen_ids", 1, value=7), "position 1 is token 101, .*gen_ids has 7"),
    "off grid": (set_in("branches", 0, "t", value=99), r"branches\[0\].t: 99 is none of the pos"),
    "lengths": (set_in("branches", 0, "cont_lens", value=[1]), "1 lengths for 40 answers"),
    "empty branch": (set_in("branches", 1, "answers", value=[]), "of position 1 has no answers"),
    "tokens": (set_in("base", "gen_ids", value=[100, 101]), "11 is behind the last of the 2 tok"),
    "one position": (set_in("idxs", value=[0]), "idxs: one position only; a curve needs two"),
    "row": (set_in("meta", "row_id", value="x"), "meta.row_id: Input should be a valid integer"),
    "no track": (set_in("meta", value={"row_id": 1}), "meta.track: Field required"),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_names_file_and_key(name: str, tmp_path: Path) -> None:
    change, words = FAULTS[name]
    record = store_record()
    change(record)
    path = write(tmp_path / "bad.json.gz", record)
    with pytest.raises(ReforkError, match=words) as error:
        read_store(path)
    assert str(path) in str(error.value)


def test_an_empty_question_is_refused(tmp_path: Path) -> None:
    record = store_record(positions=2)
    for branch in record["branches"]:
        branch["answers"], branch["cont_lens"] = [], []
    with pytest.raises(ReforkError, match="an empty question has no curve"):
        read_store(write(tmp_path / "a.json.gz", record))


def test_a_contradiction_is_not_written(tmp_path: Path) -> None:
    wrong = made_store().model_copy(update={"idxs": [0, 1]})
    with pytest.raises(ReforkError, match="nothing was written"):
        write_store(wrong, tmp_path / "a.json.gz")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{}", "not a whole gzip file"),
        (gzip.compress(b"{" * 1000, mtime=0)[:-9], "not a whole gzip file"),
        (gzip.compress(b"{", mtime=0), "Invalid JSON"),
        (gzip.compress(b"[]", mtime=0), "should be an object"),
        (None, "No such file"),
    ],
)
def test_what_is_no_store_is_said_in_words(
    content: bytes | None, words: str, tmp_path: Path
) -> None:
    path = tmp_path / "a.json.gz"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ReforkError, match=words) as error:
        read_store(path)
    assert str(path) in str(error.value)


def test_stores_are_found_once_in_files_and_folders(tmp_path: Path) -> None:
    one = write(tmp_path / "b" / "row001.json.gz", store_record(1))
    two = write(tmp_path / "b" / "deep" / "row000.json.gz", store_record(0))
    (tmp_path / "b" / "README.md").write_text("about")
    write(tmp_path / "b" / "._row001.json.gz", store_record(1))
    write(tmp_path / ".trash" / "row002.json.gz", store_record(2))
    assert find_stores([one, tmp_path]) == [one, two]


def test_no_store_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ReforkError, match="holds no store"):
        find_stores([tmp_path])
    with pytest.raises(ReforkError, match="no such file or folder"):
        find_stores([tmp_path / "absent"])
