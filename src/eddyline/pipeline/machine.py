"""What a pipeline needs of the machine it runs on: secrets, folders, modules with functions."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from eddyline.delivery import Webhook, is_known_private
from eddyline.documents import Mistake, PipelineError, Place
from eddyline.errors import EddylineError, FunctionError
from eddyline.functions import load_modules
from eddyline.kafka import Cluster, KafkaFailure, check_library
from eddyline.pipeline.model import FileSource, KafkaTopic, Pipeline
from eddyline.pipeline.webhook import PRIVATE_HINT
from eddyline.secrets import Secret, SecretError, Text, revealed_text


def check_machine(pipeline: Pipeline) -> None:
    """Check what only the machine that runs the pipeline can tell: secrets that are set, folders that are there.

    Raises PipelineError with every mistake.
    """
    mistakes: list[Mistake] = []
    nowhere = Place(pipeline.path, 1, 1)
    for settings in pipeline.streams:
        source = settings.source
        if isinstance(source, FileSource):
            place = source.place or nowhere
            folder = _folder(pipeline, source.path, place, mistakes)
            if folder is not None and not folder.is_dir():
                problem = f"the folder {source.path} of stream {settings.stream.name} does not exist"
                mistakes.append(Mistake(place, problem, hint="Make it, or mend the path."))
        elif isinstance(source, KafkaTopic):
            mistakes += _kafka_mistakes(source.cluster, source.place or nowhere)
        if settings.table is not None and not settings.table.path.exists():
            problem = f"there is no {settings.table.written} for table {settings.stream.name}"
            hint = "Write the file or folder, or mend the path."
            mistakes.append(Mistake(settings.table.place or nowhere, problem, hint=hint))
    for sink in pipeline.sinks:
        if sink.path is not None:
            _folder(pipeline, sink.path, sink.place or nowhere, mistakes)
        if sink.cluster is not None:
            mistakes += _kafka_mistakes(sink.cluster, sink.place or nowhere)
        if sink.webhook is not None:
            mistakes += _webhook_mistakes(sink.webhook, sink.place or nowhere)
    if mistakes:
        raise PipelineError(pipeline.path, mistakes)


def _kafka_mistakes(cluster: Cluster, place: Place) -> list[Mistake]:
    """Secrets that are missing here, and a client that is not installed."""
    found: list[EddylineError] = [*cluster.problems()]
    try:
        check_library()
    except KafkaFailure as failure:
        found.append(failure)
    return [Mistake(place, error.problem, error.detail, error.hint) for error in found]


def _webhook_mistakes(webhook: Webhook, place: Place) -> list[Mistake]:
    """Secrets that are missing here, or hold what cannot be used."""
    found = [error for text in webhook.texts if isinstance(text, Secret) for error in text.problems()]
    if not found:
        try:
            webhook.more_headers()
            if not webhook.allow_private and is_known_private(webhook.target().host):
                found.append(SecretError(f"{webhook.url} is not on the public internet", hint=PRIVATE_HINT))
        except SecretError as error:
            found.append(error)
    return [Mistake(place, error.problem, error.detail, error.hint) for error in found]


def _folder(pipeline: Pipeline, text: Text, place: Place, mistakes: list[Mistake]) -> Path | None:
    problems = text.problems() if isinstance(text, Secret) else []
    mistakes += [Mistake(place, error.problem, error.detail, error.hint) for error in problems]
    return None if problems else folder_of(pipeline, text)


def folder_of(pipeline: Pipeline, text: Text) -> Path:
    """A path of the pipeline file, as it is on this machine. Raises SecretError."""
    try:
        return pipeline.folder / Path(revealed_text(text)).expanduser()
    except (RuntimeError, ValueError):  # no home of that user; a zero byte
        raise SecretError(f"{text} cannot be a path") from None


def load_functions(pipeline: Pipeline) -> list[str]:
    """Import the modules with functions; those beside the pipeline file are found first. Returns new function names."""
    names: list[str] = []
    with _importable(pipeline.folder, pipeline.functions):
        for module in pipeline.functions:
            try:
                names += load_modules([module])
            except FunctionError:
                raise
            except Exception as error:  # whatever a user's module raises while it is imported
                where = f" (line {error.lineno})" if isinstance(error, SyntaxError) else ""
                raise FunctionError(
                    f"module {module} with functions cannot be imported",
                    detail=f"{type(error).__name__}: {error}{where}",
                    hint="Correct the module; it is imported as it is.",
                ) from error
    return names


@contextmanager
def _importable(folder: Path, modules: Sequence[str]) -> Iterator[None]:
    """Let modules beside the pipeline file be imported, also if another pipeline has brought one of the same name."""
    for name in modules:
        known = getattr(sys.modules.get(name), "__file__", None)
        beside = folder / f"{name}.py"
        if known is not None and beside.is_file() and Path(known) != beside:
            del sys.modules[name]
    sys.path.insert(0, str(folder))
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(str(folder))
