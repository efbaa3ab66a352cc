rule smooth_curves:
    input:
        reads(
            "smooth_curves",
            grid="lay_grid/{shard}.parquet",
            draws="estimate_curves/{shard}.parquet",
            tuning="tune_smoothing/tuning.json",
        ),
    output:
        curves=results("smooth_curves/{hash}/{shard}.parquet"),
        steps=results("smooth_curves/{hash}/{shard}.steps.parquet"),
        forks=results("smooth_curves/{hash}/{shard}.forks.parquet"),
    log:
        results("logs/smooth_curves/{hash}-{shard}.log"),
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=GRAPH.demand("smooth_curves").mem_mb,
        runtime=GRAPH.demand("smooth_curves").runtime,
    params:
        python=PYTHON,
        variants=variants("smooth_curves"),
        stage=results("smooth_curves/{hash}/stage.json"),
    message:
        "Curves and forks of {params.variants}: {wildcards.shard}"
    shell:
        "{params.python:q} workflow_scripts/smooth_curves.py --stage {params.stage:q}"
        " --grid {input.grid:q} --draws {input.draws:q} --tuning {input.tuning:q}"
        " --out {output.curves:q} 2> >(tee {log:q} >&2)"
