rule tune_smoothing:
    input:
        grid=all_shards("tune_smoothing", "lay_grid"),
        draws=all_shards("tune_smoothing", "estimate_curves"),
    output:
        results("tune_smoothing/{hash}/tuning.json"),
    log:
        results("logs/tune_smoothing/{hash}.log"),
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=GRAPH.demand("tune_smoothing").mem_mb,
        runtime=GRAPH.demand("tune_smoothing").runtime,
    params:
        python=PYTHON,
        variants=variants("tune_smoothing"),
        stage=results("tune_smoothing/{hash}/stage.json"),
        grid=upstream("tune_smoothing", "lay_grid"),
        draws=upstream("tune_smoothing", "estimate_curves"),
    message:
        "Estimator of the curves of {params.variants}"
    shell:
        "{params.python:q} workflow_scripts/tune_smoothing.py --stage {params.stage:q}"
        " --grid {params.grid:q} --draws {params.draws:q} --out {output:q} 2> >(tee {log:q} >&2)"
