"""Spark sessions that start out of the box: a Java found or brought along, settings that measurement favours, a clean end.

What `local_session` started, `stop_session` ends, with its Java process. A session started elsewhere is never stopped here.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import shlex
import shutil
import signal
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from eddyline.spark.class_archive import ClassArchive, Recording, class_archive
from eddyline.spark.confs import JAVA_OPTIONS, STACK_OPTION, is_local, local_confs, local_master, with_retries
from eddyline.spark.java import OPTION_VARIABLES, cache_folder, use_java
from eddyline.spark.jvm import JavaEndedError, Jvm, SparkStartError
from eddyline.spark.session_check import checked_session, refuse_versions

if TYPE_CHECKING:
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

START_TIMEOUT_S = (
    180.0  # for Java and again for the session; 4 to 15 s are usual, 50 s were seen on a loaded machine
)
CLUSTER_START_TIMEOUT_S = 600.0  # a cluster may let an application wait for its turn
STOP_TIMEOUT_S = 60.0  # about one second is usual
_CONNECT_VARIABLES = ("SPARK_REMOTE", "SPARK_CONNECT_MODE_ENABLED")
_CHANGE_JAVA = (JAVA_OPTIONS, "spark.driver.extraJavaOptions", "spark.driver.extraClassPath")
_lock = threading.RLock()


@dataclass(slots=True)
class _OwnSession:
    """A session of ours and what ends with it."""

    session: SparkSession
    folder: Path
    jvm: Jvm | None = None  # None: in a Java that was there before
    archive: ClassArchive | None = None
    recording: Recording | None = None  # for an archive that is not there yet


@dataclass(frozen=True, slots=True)
class _Launch:
    """What a Java for Spark is started from."""

    java: Path
    environ: Mapping[str, str]
    archive: ClassArchive | None


_started: _OwnSession | None = None


def local_session(
    *,
    master: str | None = None,
    app_name: str = "eddyline",
    time_zone: str | None = None,
    confs: Mapping[str, str] | None = None,
    on_wait: Callable[[str], None] | None = None,
    timeout_s: float | None = None,
) -> SparkSession:
    """Start a session: on all cores of this machine, or on `master`. It takes 4 to 15 s, which `on_wait` reports.

    `confs` win over the settings of `local_confs`. Raises JavaNotFoundError, SparkStartError or SessionRefusedError; then
    nothing is left running.
    """
    global _started
    own = dict(confs or {})
    requested_master = master or own.get("spark.master")
    with _lock:
        _refuse_what_is_in_the_way()
        _stop()  # a session of ours that was stopped by its own method: its Java is still there
        folder = Path(tempfile.mkdtemp(prefix="eddyline-spark-"))
        try:
            if _has_java():
                _started = _in_running_java(requested_master, app_name, time_zone, own, folder)
            else:
                chosen = _session_settings(
                    with_retries(requested_master or local_master()), app_name, time_zone, own, folder
                )
                _started = _with_own_java(chosen, own, folder, timeout_s, on_wait or _say_nothing)
        except BaseException:
            shutil.rmtree(folder, ignore_errors=True)
            raise
        try:
            return checked_session(_started.session).session
        except BaseException:
            _stop()
            raise


def stop_session(session: SparkSession) -> None:
    """End a session that `local_session` started, and its Java process, in about a second; any other is left alone."""
    with _lock:
        if _started is not None and _started.session.sparkContext is session.sparkContext:
            _stop()


def prepare_fast_start(*, on_wait: Callable[[str], None] | None = None) -> Path | None:
    """Build the class-data archive now, in about a minute, rather than behind the first session; None if it is switched off.

    Raises SparkStartError if it cannot be built.
    """
    tell = on_wait or _say_nothing
    with _lock:
        _refuse_what_is_in_the_way()
        archive = _launch(local_confs(local_master()) | {"spark.master": local_master()}).archive
        if archive is None:
            return None
        if archive.is_there:
            return archive.path
        archive.forget()  # that it failed before
        session = local_session(on_wait=tell)
        try:
            session.range(0, 1000, 1, 2).mapInArrow(_unchanged_batches, "id long").collect()
        except BaseException:
            _stop()
            raise
        tell("building the class-data archive, about a minute")
        failure = _stop(builds_now=True)
    if not archive.is_there:
        raise SparkStartError(
            "the class-data archive for a faster start cannot be built",
            detail=failure or f"Another process is at it, or {archive.path.parent} cannot be written to.",
            hint="Sessions start without it.",
        )
    return archive.path


def _refuse_what_is_in_the_way() -> None:
    try:
        from pyspark import SparkContext
    except ImportError as error:
        raise SparkStartError(
            "PySpark is not installed", detail=f"{error}.", hint="pip install 'eddyline[spark]'"
        ) from error
    if connect_variables := [name for name in _CONNECT_VARIABLES if name in os.environ]:
        raise SparkStartError(
            f"{connect_variables[0]} is set, and Spark Connect is not supported",
            hint=f"Unset {' and '.join(connect_variables)} (docs/spark-support.md).",
        )
    active = SparkContext._active_spark_context
    if active is not None:
        raise SparkStartError(
            f"a Spark session already runs in this process: {active.appName} on {active.master}",
            detail="A process can have one.",
            hint="Give that session instead of starting another, or stop it first.",
        )


def _session_settings(
    master: str, app_name: str, time_zone: str | None, own: Mapping[str, str], folder: Path
) -> dict[str, str]:
    """All settings of a session: ours, then the user's own."""
    confs = local_confs(master, time_zone=time_zone)
    confs["spark.local.dir"] = str(folder / "local")
    confs["spark.sql.warehouse.dir"] = str(folder / "warehouse")  # both would be where the user works
    confs |= own
    if JAVA_OPTIONS in own:
        confs[JAVA_OPTIONS] = f"{STACK_OPTION} {own[JAVA_OPTIONS]}"
    return confs | {"spark.master": master, "spark.app.name": app_name}


# --- in a Java that is there -----------------------------------------------------------------------------------------


def _has_java() -> bool:
    """Under spark-submit, or after another session that was stopped, PySpark has a Java process and takes no other."""
    from pyspark import SparkContext

    return SparkContext._gateway is not None or "PYSPARK_GATEWAY_PORT" in os.environ


def _in_running_java(
    requested_master: str | None, app_name: str, time_zone: str | None, own: Mapping[str, str], folder: Path
) -> _OwnSession:
    """Options of spark-submit win over our settings, since its user said so; options of Java come too late."""
    from pyspark import SparkConf, SparkContext

    SparkContext._ensure_initialized()
    conf = SparkConf()  # options of spark-submit
    submitted = conf.get("spark.master", None) if "PYSPARK_GATEWAY_PORT" in os.environ else None
    master = requested_master or submitted or local_master()
    for name, value in _session_settings(with_retries(master), app_name, time_zone, own, folder).items():
        if name in own or submitted is None:
            conf.set(name, value)
        else:
            conf.setIfMissing(name, value)
    try:
        context = _context(conf, None)
    except Exception as error:
        raise SparkStartError(
            f"Spark did not start on {conf.get('spark.master')}", detail=_cause(error)
        ) from error
    if is_local(context.master):
        context.pythonExec = sys.executable
    return _OwnSession(_session(context), folder)


# --- with a Java of its own ------------------------------------------------------------------------------------------


def _with_own_java(
    confs: Mapping[str, str],
    own: Mapping[str, str],
    folder: Path,
    timeout_s: float | None,
    tell: Callable[[str], None],
) -> _OwnSession:
    from pyspark import SparkConf

    master = confs["spark.master"]
    limit_s = timeout_s or (START_TIMEOUT_S if is_local(master) else CLUSTER_START_TIMEOUT_S)
    tell("starting Java for Spark")
    launch = _launch(confs)
    is_usual = not any(name in own for name in _CHANGE_JAVA)
    jvm, class_list = _jvm(launch, confs, limit_s, is_usual=is_usual)
    tell(f"starting Spark on {master}")
    with jvm.killed_after(limit_s) as is_late:
        try:
            context = _context(SparkConf(loadDefaults=False).setAll(list(confs.items())), _gateway(jvm))
            context.pythonExec = launch.environ["PYSPARK_PYTHON"]
            session = _session(context)
            recording = _recording(context, launch.java, class_list) if class_list is not None else None
            _leave_no_folder(context, folder)
        except BaseException as error:
            cause = "" if is_late.is_set() else _cause(error)
            jvm.kill()
            _forget_gateway()
            if class_list is not None:
                class_list.unlink(missing_ok=True)
            if not isinstance(error, Exception):
                raise
            within = f" within {limit_s:g} s" if is_late.is_set() else ""
            raise jvm.start_error(f"Spark did not start on {master}{within}", cause=cause) from error
    jvm.pass_output_on()
    return _OwnSession(session, folder, jvm, launch.archive, recording)


def _launch(confs: Mapping[str, str]) -> _Launch:
    import pyspark

    environ = dict(os.environ)
    java = use_java(environ)
    spark_home = _spark_home(environ)
    environ |= {
        "SPARK_HOME": str(spark_home),
        "SPARK_CONNECT_MODE": "0",
        "PYSPARK_PYTHON": _worker_python(confs),
    }
    if is_local(confs["spark.master"]):
        environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    archive = class_archive(java, spark_home, pyspark.__version__, cache_folder(environ), environ)
    return _Launch(java, environ, archive)


def _spark_home(environ: Mapping[str, str]) -> Path:
    """The Spark that came with PySpark, or the one SPARK_HOME names, if it is the same."""
    import pyspark

    spark_home = environ.get("SPARK_HOME")
    home = Path(spark_home) if spark_home else Path(pyspark.__file__).parent
    if not (home / "bin" / "spark-submit").is_file():
        raise SparkStartError(
            f"there is no Spark at {home}",
            detail="SPARK_HOME names it." if spark_home else "This PySpark is a client without Spark.",
            hint="Unset SPARK_HOME." if spark_home else "pip install 'eddyline[spark]'",
        )
    for core in (home / "jars").glob("spark-core_*.jar"):
        refuse_versions(core.stem.split("-")[2], pyspark.__version__)
    return home


def _worker_python(confs: Mapping[str, str]) -> str:
    """Here this very interpreter; on a cluster what was asked for."""
    if is_local(confs["spark.master"]):
        return sys.executable
    return confs.get("spark.pyspark.python") or os.environ.get("PYSPARK_PYTHON") or sys.executable


def _jvm(
    launch: _Launch, confs: Mapping[str, str], limit_s: float, *, is_usual: bool
) -> tuple[Jvm, Path | None]:
    """A Java that is up, and the file in which it lists its classes, if an archive is to be made of them."""
    options = [f"-XX:ErrorFile={tempfile.gettempdir()}/hs_err_pid%p.log"]  # not where the user works
    archive, class_list = launch.archive, None
    if archive is not None and archive.is_there:
        try:
            return _up(launch, confs, options + archive.use(), limit_s), None
        except JavaEndedError:
            jvm = _up(launch, confs, options, limit_s)
            archive.forget()  # it was to blame
            return jvm, None
    is_usual = is_usual and not any(map(launch.environ.get, OPTION_VARIABLES))
    if archive is not None and is_usual and archive.is_missing:
        class_list = archive.class_list()
        options.append(f"-XX:DumpLoadedClassList={class_list}")
    return _up(launch, confs, options, limit_s), class_list


def _up(launch: _Launch, confs: Mapping[str, str], options: list[str], limit_s: float) -> Jvm:
    joined = " ".join([*map(shlex.quote, options), confs[JAVA_OPTIONS]])
    command = [os.path.join(launch.environ["SPARK_HOME"], "bin", "spark-submit")]
    for name, value in {**confs, JAVA_OPTIONS: joined}.items():
        command += ["--conf", f"{name}={value}"]
    command += shlex.split(launch.environ.get("PYSPARK_SUBMIT_ARGS", "pyspark-shell"))
    return Jvm(command, launch.environ, timeout_s=limit_s)


def _gateway(jvm: Jvm) -> Any:
    """PySpark's connection to a Java that is up; it finds it by the environment, as spark-submit does."""
    from pyspark.java_gateway import launch_gateway

    os.environ["PYSPARK_GATEWAY_PORT"] = str(jvm.port)
    os.environ["PYSPARK_GATEWAY_SECRET"] = jvm.secret
    try:
        gateway = launch_gateway()
    finally:
        del os.environ["PYSPARK_GATEWAY_PORT"], os.environ["PYSPARK_GATEWAY_SECRET"]
    gateway.proc = jvm.process
    return gateway


def _context(conf: SparkConf, gateway: Any) -> SparkContext:
    from pyspark import SparkContext

    handler = signal.getsignal(signal.SIGINT)
    try:
        return SparkContext(conf=conf, gateway=gateway)
    finally:
        # PySpark takes Ctrl-C over and cancels jobs; here the program decides what Ctrl-C means
        if handler is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


def _session(context: SparkContext) -> SparkSession:
    from pyspark.sql import SparkSession

    return SparkSession(context)


def _cause(error: BaseException) -> str:
    """What went wrong, in a line: the Java exception, where there is one."""
    if (java := getattr(error, "java_exception", None)) is not None:
        with contextlib.suppress(Exception):  # Java may be gone by now
            return str(java.toString())
    return next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)


def _recording(context: SparkContext, java: Path, class_list: Path) -> Recording:
    runtime = context._jvm.java.lang.management.ManagementFactory.getRuntimeMXBean()
    return Recording(
        str(java / "bin" / "java"),
        tuple(map(str, runtime.getInputArguments())),
        str(runtime.getClassPath()),
        str(class_list),
    )


def _leave_no_folder(context: SparkContext, folder: Path) -> None:
    """Java removes the folder if Python is killed and cannot; tables that were saved there stay."""
    for path in (folder, folder / "warehouse", folder / "local"):  # the last goes first
        context._jvm.java.io.File(str(path)).deleteOnExit()


# --- the end ---------------------------------------------------------------------------------------------------------


def _stop(*, builds_now: bool = False) -> str | None:
    """End the session of ours, if there is one; the reason if an archive was to be built now and could not."""
    global _started
    started, _started = _started, None
    if started is None:
        return None
    jvm = started.jvm
    try:
        with contextlib.ExitStack() as bounds:
            if jvm is not None:
                bounds.enter_context(jvm.killed_after(STOP_TIMEOUT_S))
            bounds.enter_context(
                contextlib.suppress(Exception)
            )  # Java may have died; it is gone afterwards, that counts
            started.session.stop()
        if jvm is None:
            return None
        _forget_gateway()
        jvm.end()
        if started.archive is None or started.recording is None:
            return None
        if builds_now:
            return started.archive.build(started.recording)
        with contextlib.suppress(OSError):
            started.archive.build_later(started.recording)
        return None
    finally:
        shutil.rmtree(started.folder, ignore_errors=True)


def _forget_gateway() -> None:
    """So that PySpark starts another Java next time: it keeps the connection, dead or alive, at its class."""
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

    gateway = SparkContext._gateway
    SparkContext._gateway = SparkContext._jvm = SparkContext._active_spark_context = None
    SparkSession._instantiatedSession = SparkSession._activeSession = None
    if gateway is not None:
        with contextlib.suppress(Exception):  # Java may be gone
            gateway.shutdown()


def _stop_at_exit() -> None:
    with _lock:
        _stop()


def _belongs_to_the_parent() -> None:
    """A forked child must not end what its parent started, nor wait for a lock of a thread it does not have."""
    global _started, _lock
    _started, _lock = None, threading.RLock()


atexit.register(_stop_at_exit)
os.register_at_fork(after_in_child=_belongs_to_the_parent)


def _unchanged_batches(batches: Iterator[Any]) -> Iterator[Any]:
    return batches


def _say_nothing(_text: str) -> None:
    return None
