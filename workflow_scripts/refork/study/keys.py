"""What config keys are made of: the types of their values, and the sections they stand in."""

from typing import Annotated, Any, get_args

from pydantic import BaseModel, ConfigDict, Field

NAME = r"^[A-Za-z0-9][A-Za-z0-9_-]*$"
SHA256 = r"^[0-9a-f]{64}$"
# No shell's home, no option, and none of the braces in which Snakemake names its wildcards.
FOLDER = r"^[^-~{}\x00-\x1f][^{}\x00-\x1f]*$"
# What each pattern allows, in words.
PATTERNS = {
    NAME: "letters, digits, `_` and `-`, with a letter or a digit first",
    SHA256: "64 lower-case hexadecimal digits",
    FOLDER: "a path without braces and line ends, and no `-` or `~` first",
}

Name = Annotated[str, Field(pattern=NAME)]
Sha256 = Annotated[str, Field(pattern=SHA256)]
Folder = Annotated[str, Field(pattern=FOLDER)]
Probability = Annotated[float, Field(gt=0, le=1)]
Positive = Annotated[int, Field(ge=1)]
Whole = Annotated[int, Field(ge=0)]
Temperature = Annotated[float, Field(ge=0)]


class Section(BaseModel):
    """A frozen section of the config that knows no other keys than its own."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True, allow_inf_nan=False)


def key(default: Any, description: str) -> Any:
    """Declare a config key by its default and its description, unit and effect included."""
    if isinstance(default, BaseModel):
        return Field(default_factory=type(default), description=description)
    return Field(default=default, description=description)


def section_of(annotation: Any) -> type[BaseModel] | None:
    """Return the section that a key is, or the section of which it is a list; else None."""
    for candidate in (annotation, *get_args(annotation)):
        if isinstance(candidate, type) and issubclass(candidate, BaseModel):
            return candidate
    return None
