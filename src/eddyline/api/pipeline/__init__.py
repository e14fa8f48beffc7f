"""The pipeline file `eddyline.toml`: streams and where their rows come from, functions, rules, sinks, limits.

Enters: a path. Leaves: a `Pipeline` in which everything is known, or a `PipelineError` with every mistake and its place.

    path = find_pipeline()              # eddyline.toml here or in a folder above; or find_pipeline("trading/")
    pipeline = load_pipeline(path)      # reads and checks the file; opens nothing
    engine = open_pipeline(pipeline)    # functions imported, the home opened; nothing in it is changed
    apply_rules(engine, pipeline)       # eddyline.api.rules: streams and queries, in one version
    run(pipeline, engine=engine)        # eddyline.api.runner; without engine= it does the two steps before by itself

A secret is written `${env:NAME}` or `${file:/path}`. It is read when it is used, and is nowhere kept or shown.
"""

from eddyline.api.pipeline.mistakes import Mistake, PipelineError
from eddyline.api.pipeline.model import (
    EngineSettings,
    FileSource,
    GeneratorSource,
    KafkaTopic,
    Pipeline,
    RulesSettings,
    RulesTable,
    RunLimits,
    SinkSettings,
    SourceSettings,
    StdinSource,
    StreamSettings,
)
from eddyline.api.pipeline.open import check_machine, declare_streams, load_functions, open_pipeline
from eddyline.api.pipeline.read import FILE_NAME, find_pipeline, load_pipeline, read_pipeline

__all__ = [
    "FILE_NAME",
    "EngineSettings",
    "FileSource",
    "GeneratorSource",
    "KafkaTopic",
    "Mistake",
    "Pipeline",
    "PipelineError",
    "RulesSettings",
    "RulesTable",
    "RunLimits",
    "SinkSettings",
    "SourceSettings",
    "StdinSource",
    "StreamSettings",
    "check_machine",
    "declare_streams",
    "find_pipeline",
    "load_functions",
    "load_pipeline",
    "open_pipeline",
    "read_pipeline",
]
