"""refork: where an answer forks, and how much of a token credit is replay noise. See README.md."""

from snakemake.utils import min_version

min_version("9.0")


configfile: "config/default.yaml"


# A bare `snakemake --cores 2` runs the demo study.
if not workflow.overwrite_configfiles:

    configfile: "config/demo.yaml"


include: "rules/common.smk"
include: "rules/prepare_model.smk"
include: "rules/prepare_questions.smk"
include: "rules/probe_engine.smk"
include: "rules/sample_rollouts.smk"
include: "rules/extract_pivots.smk"
include: "rules/lay_grid.smk"
include: "rules/resample.smk"
include: "rules/grade_outcomes.smk"
include: "rules/measure_noise.smk"
include: "rules/estimate_curves.smk"
include: "rules/tune_smoothing.smk"
include: "rules/smooth_curves.smk"
include: "rules/report.smk"


rule all:
    default_target: True
    input:
        GRAPH.outputs(GRAPH.report),
