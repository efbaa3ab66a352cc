rule report:
    input:
        [GRAPH.outputs(stage) for stage in GRAPH.report.upstream.values()],
    output:
        results("report/{hash}/report.html"),
    log:
        results("logs/report/{hash}.log"),
    conda:
        "../envs/analysis.yaml"
    threads: 1
    resources:
        mem_mb=GRAPH.demand("report").mem_mb,
        runtime=GRAPH.demand("report").runtime,
    params:
        python=PYTHON,
        stage=results("report/{hash}/stage.json"),
    message:
        "Report"
    shell:
        "{params.python:q} workflow_scripts/report.py --stage {params.stage:q} --out {output:q}"
        " 2> >(tee {log:q} >&2)"
