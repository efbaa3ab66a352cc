"""The journal of an engine job: its finished batch groups, kept outside the declared outputs.

Snakemake deletes the outputs of a job that was killed; what stands in the journal is taken over by
the next one. A group is known by the digest of its requests, so nothing stale is ever taken over.
"""

import hashlib
import shutil
from pathlib import Path

import pyarrow as pa

from refork.data.files import atomic_path, file_sha256, write_text
from refork.errors import ReforkError

_DIGEST = 64  # hexadecimal digits of a sha256


def requests_digest(requests: pa.Table) -> str:
    """Sha256 of a batch group's requests, in hexadecimal."""
    digest = hashlib.sha256()
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, requests.schema) as stream:
        stream.write_table(requests.combine_chunks())
    digest.update(sink.getvalue())
    return digest.hexdigest()


class Journal:
    """Finished batch groups of one job in one folder.

    A group is two or three files: results (Arrow IPC), snapshots where kept (safetensors), and,
    written last, a seal with their digests. A group whose seal does not fit its files counts as not
    done.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)

    def snapshots(self, requests: pa.Table) -> Path:
        """Return the path to which the engine writes the snapshots of a group."""
        return self.folder / f"{requests_digest(requests)}.safetensors"

    def find(self, requests: pa.Table) -> pa.Table | None:
        """Return the results of a finished group, or None where it has to be run."""
        name = requests_digest(requests)
        seal = self.folder / f"{name}.seal"
        if not seal.exists():
            return None
        for line in seal.read_text().splitlines():
            digest, file = line[:_DIGEST], self.folder / line[_DIGEST + 1 :]
            if not file.exists() or file_sha256(file) != digest:
                return None
        with pa.memory_map(str(self.folder / f"{name}.arrow")) as source:
            return pa.ipc.open_file(source).read_all()

    def keep(self, requests: pa.Table, results: pa.Table) -> None:
        """Keep a finished group: results first, the seal last."""
        name = requests_digest(requests)
        path = self.folder / f"{name}.arrow"
        with (
            atomic_path(path) as temporary,
            pa.OSFile(str(temporary), "wb") as sink,
            pa.ipc.new_file(sink, results.schema) as writer,
        ):
            writer.write_table(results)
        snapshots = self.folder / f"{name}.safetensors"
        files = [path, snapshots] if snapshots.exists() else [path]
        write_text(
            self.folder / f"{name}.seal", "".join(f"{file_sha256(f)} {f.name}\n" for f in files)
        )

    def close(self) -> None:
        """Remove the journal once its output stands."""
        try:
            shutil.rmtree(self.folder)
        except OSError as error:
            raise ReforkError(f"{self.folder}: the journal cannot be removed ({error})") from error
