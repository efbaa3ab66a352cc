rule prepare_questions:
    input:
        model=upstream("prepare_questions", "prepare_model", "model.manifest.json"),
    output:
        expand(
            RESULTS + "/prepare_questions/{{hash}}/{shard}.parquet", shard=GRAPH.shards
        ),
    log:
        RESULTS + "/logs/prepare_questions/{hash}.log",
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=GRAPH.demand("prepare_questions").mem_mb,
        runtime=GRAPH.demand("prepare_questions").runtime,
    params:
        stage=RESULTS + "/prepare_questions/{hash}/stage.json",
    message:
        "Questions"
    shell:
        "{PYTHON} workflow_scripts/prepare_questions.py --stage {params.stage}"
        " --out {output} " + TO_LOG
