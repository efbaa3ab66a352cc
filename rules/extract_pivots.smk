rule extract_pivots:
    input:
        reads(
            "extract_pivots",
            rollouts="sample_rollouts/{shard}.parquet",
        ),
    output:
        results("extract_pivots/{hash}/{shard}.parquet"),
    log:
        results("logs/extract_pivots/{hash}-{shard}.log"),
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=GRAPH.demand("extract_pivots").mem_mb,
        runtime=GRAPH.demand("extract_pivots").runtime,
    params:
        python=PYTHON,
        variants=variants("extract_pivots"),
        stage=results("extract_pivots/{hash}/stage.json"),
    message:
        "Pivots of {params.variants}: {wildcards.shard}"
    shell:
        "{params.python:q} workflow_scripts/extract_pivots.py --stage {params.stage:q}"
        " --rollouts {input.rollouts:q} --out {output:q} 2> >(tee {log:q} >&2)"
