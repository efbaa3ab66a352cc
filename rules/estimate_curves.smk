rule estimate_curves:
    input:
        reads(
            "estimate_curves",
            grid="lay_grid/{shard}.parquet",
            outcomes="grade_outcomes/{shard}.parquet",
        ),
        continuations=draws("estimate_curves"),
    output:
        results("estimate_curves/{hash}/{shard}.parquet"),
    log:
        results("logs/estimate_curves/{hash}-{shard}.log"),
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=GRAPH.demand("estimate_curves").mem_mb,
        runtime=GRAPH.demand("estimate_curves").runtime,
    params:
        python=PYTHON,
        variants=variants("estimate_curves"),
        stage=results("estimate_curves/{hash}/stage.json"),
    message:
        "Draws of the curves of {params.variants}: {wildcards.shard}"
    shell:
        "{params.python:q} workflow_scripts/estimate_curves.py --stage {params.stage:q}"
        " --grid {input.grid:q} --outcomes {input.outcomes:q}"
        " --continuations {input.continuations:q} --out {output:q} 2> >(tee {log:q} >&2)"
