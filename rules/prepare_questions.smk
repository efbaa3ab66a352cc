rule prepare_questions:
    input:
        reads(
            "prepare_questions",
            model="prepare_model/model.manifest.json",
        ),
    output:
        expand(results("prepare_questions/{{hash}}/{shard}.parquet"), shard=GRAPH.shards),
    log:
        results("logs/prepare_questions/{hash}.log"),
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=GRAPH.demand("prepare_questions").mem_mb,
        runtime=GRAPH.demand("prepare_questions").runtime,
    params:
        python=PYTHON,
        variants=variants("prepare_questions"),
        stage=results("prepare_questions/{hash}/stage.json"),
    message:
        "Questions of {params.variants}"
    shell:
        "{params.python:q} workflow_scripts/prepare_questions.py --stage {params.stage:q}"
        " --out {output:q} 2> >(tee {log:q} >&2)"
