rule resample:
    input:
        reads(
            "resample",
            rollouts="sample_rollouts/{shard}.parquet",
            snapshots="sample_rollouts/{shard}.safetensors",
            forced="extract_pivots|lay_grid/{shard}.parquet",
        ),
    output:
        results("resample/{hash}/draws-{block}/{shard}.parquet"),
    log:
        results("logs/resample/{hash}-{block}-{shard}.log"),
    conda:
        engine_environment("resample")
    threads: engine_threads("resample")
    resources:
        mem_mb=GRAPH.demand("resample").mem_mb,
        runtime=GRAPH.demand("resample").runtime,
        gpu=engine_gpus("resample"),
    params:
        python=engine_python("resample"),
        gpus=engine_gpus("resample"),
        pass_name=lambda wildcards: GRAPH.stage("resample", wildcards.hash).settings["pass"]["name"],
        processes=engine_processes("resample"),
        variants=variants("resample"),
        stage=results("resample/{hash}/stage.json"),
        journal=results("journal/resample/{hash}/draws-{block}/{shard}"),
    message:
        "Continuations of {params.variants}: pass {params.pass_name}, {wildcards.shard}, draws {wildcards.block}"
    shell:
        "{params.python:q} workflow_scripts/resample.py --stage {params.stage:q}"
        " --rollouts {input.rollouts:q} --snapshots {input.snapshots:q}"
        " --forced {input.forced:q} --draws {wildcards.block} --journal {params.journal:q}"
        " --processes {params.processes} --gpus {params.gpus}"
        " --variants {params.variants:q} --out {output:q} 2> >(tee {log:q} >&2)"
