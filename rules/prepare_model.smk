rule prepare_model:
    output:
        results("prepare_model/{hash}/model.manifest.json"),
    log:
        results("logs/prepare_model/{hash}.log"),
    conda:
        "../envs/torch.yaml"
    threads: 1
    resources:
        mem_mb=GRAPH.demand("prepare_model").mem_mb,
        runtime=GRAPH.demand("prepare_model").runtime,
    params:
        python=engine_python("prepare_model"),
        variants=variants("prepare_model"),
        stage=results("prepare_model/{hash}/stage.json"),
        model=results("prepare_model/{hash}/model"),
    message:
        "The model of {params.variants}"
    shell:
        "{params.python:q} workflow_scripts/prepare_model.py --stage {params.stage:q}"
        " --model {params.model:q} --out {output:q} 2> >(tee {log:q} >&2)"
