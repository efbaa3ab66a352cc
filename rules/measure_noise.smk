rule measure_noise:
    input:
        pivots=all_shards("measure_noise", "extract_pivots"),
        outcomes=all_shards("measure_noise", "grade_outcomes"),
        continuations=draws("measure_noise"),
    output:
        credits=results("measure_noise/{hash}/credits.parquet"),
        noise=results("measure_noise/{hash}/noise.json"),
        table=multiext(results("measure_noise/{hash}/noise"), ".csv", ".parquet"),
    log:
        results("logs/measure_noise/{hash}.log"),
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=GRAPH.demand("measure_noise").mem_mb,
        runtime=GRAPH.demand("measure_noise").runtime,
    params:
        python=PYTHON,
        variants=variants("measure_noise"),
        stage=results("measure_noise/{hash}/stage.json"),
        pivots=upstream("measure_noise", "extract_pivots"),
        outcomes=upstream("measure_noise", "grade_outcomes"),
        continuations=lambda wildcards: GRAPH.draw_folders("measure_noise", wildcards.hash),
    message:
        "Credit and replay noise of {params.variants}"
    shell:
        "{params.python:q} workflow_scripts/measure_noise.py --stage {params.stage:q}"
        " --pivots {params.pivots:q} --outcomes {params.outcomes:q}"
        " --continuations {params.continuations:q} --out {output.credits:q} 2> >(tee {log:q} >&2)"
