rule sample_rollouts:
    input:
        reads(
            "sample_rollouts",
            questions="prepare_questions/{shard}.parquet",
        ),
        probe=probe_of("sample_rollouts"),
    output:
        rollouts=results("sample_rollouts/{hash}/{shard}.parquet"),
        snapshots=results("sample_rollouts/{hash}/{shard}.safetensors"),
    log:
        results("logs/sample_rollouts/{hash}-{shard}.log"),
    conda:
        engine_environment("sample_rollouts")
    threads: engine_threads("sample_rollouts")
    resources:
        mem_mb=GRAPH.demand("sample_rollouts").mem_mb,
        runtime=GRAPH.demand("sample_rollouts").runtime,
        gpu=engine_gpus("sample_rollouts"),
    params:
        python=engine_python("sample_rollouts"),
        gpus=engine_gpus("sample_rollouts"),
        processes=engine_processes("sample_rollouts"),
        variants=variants("sample_rollouts"),
        stage=results("sample_rollouts/{hash}/stage.json"),
        journal=results("journal/sample_rollouts/{hash}/{shard}"),
    message:
        "Rollouts of {params.variants}: {wildcards.shard}"
    shell:
        "{params.python:q} workflow_scripts/sample_rollouts.py --stage {params.stage:q}"
        " --questions {input.questions:q} --journal {params.journal:q}"
        " --processes {params.processes} --gpus {params.gpus}"
        " --variants {params.variants:q} --snapshots {output.snapshots:q}"
        " --out {output.rollouts:q} 2> >(tee {log:q} >&2)"
