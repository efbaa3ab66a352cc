"""Writers of question files."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def jsonl(tmp_path: Path) -> Callable[..., str]:
    """Return a writer of JSONL files: records as JSON, texts as they are; gives the path."""

    def write(*records: dict[str, Any] | str) -> str:
        lines = [
            record if isinstance(record, str) else json.dumps(record, ensure_ascii=False)
            for record in records
        ]
        path = tmp_path / "questions.jsonl"
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
        return str(path)

    return write
