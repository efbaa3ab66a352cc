rule grade_outcomes:
    input:
        reads(
            "grade_outcomes",
            questions="prepare_questions/{shard}.parquet",
            rollouts="sample_rollouts/{shard}.parquet",
            forced="extract_pivots|lay_grid/{shard}.parquet",
        ),
        continuations=draws("grade_outcomes"),
    output:
        results("grade_outcomes/{hash}/{shard}.parquet"),
    log:
        results("logs/grade_outcomes/{hash}-{shard}.log"),
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=GRAPH.demand("grade_outcomes").mem_mb,
        runtime=GRAPH.demand("grade_outcomes").runtime,
    params:
        python=PYTHON,
        variants=variants("grade_outcomes"),
        stage=results("grade_outcomes/{hash}/stage.json"),
    message:
        "Outcomes of {params.variants}: {wildcards.shard}"
    shell:
        "{params.python:q} workflow_scripts/grade_outcomes.py --stage {params.stage:q}"
        " --questions {input.questions:q} --rollouts {input.rollouts:q}"
        " --forced {input.forced:q} --continuations {input.continuations:q} --out {output:q}"
        " 2> >(tee {log:q} >&2)"
