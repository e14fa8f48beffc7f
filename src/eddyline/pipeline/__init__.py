"""The pipeline file `eddyline.toml`: streams and where their rows come from, functions, rules, sinks, limits.

Enters: a path. Leaves: a `Pipeline` in which everything is known, or a `PipelineError` with every mistake and its place.

    path = find_pipeline()              # eddyline.toml here or in a folder above; or find_pipeline("trading/")
    pipeline = load_pipeline(path)      # reads and checks the file; opens nothing

`eddyline.api` opens its home (`open_pipeline`) and runs it (`run`), `eddyline.rules` deploys its rules (`apply_rules`).

A secret is written `${env:NAME}` or `${file:/path}`. It is read when it is used, and is nowhere kept or shown.
"""

from eddyline.documents import Mistake, PipelineError, Place
from eddyline.pipeline.machine import check_machine, folder_of, load_functions
from eddyline.pipeline.mistakes import place_of
from eddyline.pipeline.model import (
    TICK_US,
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
from eddyline.pipeline.read import FILE_NAME, find_pipeline, load_pipeline, read_pipeline
from eddyline.pipeline.shares import share_of
from eddyline.pipeline.streams import source_settings

__all__ = [
    "FILE_NAME",
    "TICK_US",
    "EngineSettings",
    "FileSource",
    "GeneratorSource",
    "KafkaTopic",
    "Mistake",
    "Pipeline",
    "PipelineError",
    "Place",
    "RulesSettings",
    "RulesTable",
    "RunLimits",
    "SinkSettings",
    "SourceSettings",
    "StdinSource",
    "StreamSettings",
    "check_machine",
    "find_pipeline",
    "folder_of",
    "load_functions",
    "load_pipeline",
    "place_of",
    "read_pipeline",
    "share_of",
    "source_settings",
]
