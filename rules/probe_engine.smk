rule probe_engine:
    input:
        reads(
            "probe_engine",
            model="prepare_model/model.manifest.json",
        ),
        questions=all_shards("probe_engine", "prepare_questions"),
    output:
        results("probe_engine/{hash}/probe.json"),
    log:
        results("logs/probe_engine/{hash}.log"),
    conda:
        engine_environment("probe_engine")
    threads: lambda wildcards: GRAPH.settings_of("probe_engine", wildcards.hash).engine.threads
    resources:
        mem_mb=GRAPH.demand("probe_engine").mem_mb,
        runtime=GRAPH.demand("probe_engine").runtime,
        gpu=engine_gpus("probe_engine"),
    params:
        python=engine_python("probe_engine"),
        gpus=engine_gpus("probe_engine"),
        variants=variants("probe_engine"),
        stage=results("probe_engine/{hash}/stage.json"),
        questions=upstream("probe_engine", "prepare_questions"),
    message:
        "Probe of the engine of {params.variants}"
    shell:
        "{params.python:q} workflow_scripts/probe_engine.py --stage {params.stage:q}"
        " --questions {params.questions:q} --gpus {params.gpus} --out {output:q} 2> >(tee {log:q} >&2)"
