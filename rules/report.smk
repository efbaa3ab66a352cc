rule report:
    input:
        [GRAPH.outputs(variant.noise) for variant in GRAPH.variants.values()],
    output:
        RESULTS + "/report/{hash}/report.html",
    log:
        RESULTS + "/logs/report/{hash}.log",
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=GRAPH.demand("report").mem_mb,
        runtime=GRAPH.demand("report").runtime,
    params:
        stage=RESULTS + "/report/{hash}/stage.json",
    message:
        "Report"
    shell:
        "{PYTHON} workflow_scripts/report.py --stage {params.stage} --out {output} "
        + TO_LOG
