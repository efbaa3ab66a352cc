rule lay_grid:
    input:
        reads(
            "lay_grid",
            rollouts="sample_rollouts/{shard}.parquet",
        ),
        questions=all_shards("lay_grid", "prepare_questions"),
    output:
        results("lay_grid/{hash}/{shard}.parquet"),
    log:
        results("logs/lay_grid/{hash}-{shard}.log"),
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=GRAPH.demand("lay_grid").mem_mb,
        runtime=GRAPH.demand("lay_grid").runtime,
    params:
        python=PYTHON,
        variants=variants("lay_grid"),
        stage=results("lay_grid/{hash}/stage.json"),
        questions=upstream("lay_grid", "prepare_questions"),
    message:
        "Grids of the curves of {params.variants}: {wildcards.shard}"
    shell:
        "{params.python:q} workflow_scripts/lay_grid.py --stage {params.stage:q}"
        " --questions {params.questions:q} --rollouts {input.rollouts:q} --out {output:q}"
        " 2> >(tee {log:q} >&2)"
