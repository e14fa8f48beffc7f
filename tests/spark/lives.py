"""Drivers that live and die quickly: forks of one warm process, on one Java that outlives them.

    python -m tests.spark.lives java      start a Java, tell its port and secret, keep it until stdin ends
    python -m tests.spark.lives fork      fork drivers (`toy_rounds.main`) as asked on stdin, a JSON object a line

With PYSPARK_GATEWAY_PORT and PYSPARK_GATEWAY_SECRET in the environment a driver joins that Java and its running Spark context;
so a killed driver costs a tenth of a second, not ten, and the tasks it had started go on without it.
"""

from __future__ import annotations

import json
import os
import sys
import traceback
from pathlib import Path

from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

from eddyline.spark import use_java
from tests.spark import toy_rounds


def keep_java() -> None:
    use_java()
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    gateway = launch_gateway(SparkConf(loadDefaults=False).setAll(list(toy_rounds.CONF.items())))
    found = {"PYSPARK_GATEWAY_PORT": str(gateway.gateway_parameters.port),
             "PYSPARK_GATEWAY_SECRET": gateway.gateway_parameters.auth_token}  # fmt: skip
    print(json.dumps(found), flush=True)
    sys.stdin.read()


def fork_drivers() -> None:
    """{"start": [argument, …], "output": file} is answered by {"pid": n}, {"wait": n} by how it ended or that it was stopped."""
    for line in sys.stdin:
        asked = json.loads(line)
        if "start" in asked:
            answer = {"pid": _fork(asked["start"], Path(asked["output"]))}
        else:
            _, status = os.waitpid(asked["wait"], os.WUNTRACED)
            if os.WIFSTOPPED(status):
                answer = {"stopped": os.WSTOPSIG(status)}
            elif os.WIFSIGNALED(status):
                answer = {"killed": os.WTERMSIG(status)}
            else:
                answer = {"ended": os.WEXITSTATUS(status)}
        print(json.dumps(answer), flush=True)


def _fork(arguments: list[str], output: Path) -> int:
    pid = os.fork()
    if pid > 0:
        return pid
    code = 2
    try:
        descriptor = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        os.dup2(descriptor, 1)
        os.dup2(descriptor, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = toy_rounds.main(arguments)
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


if __name__ == "__main__":
    if sys.argv[1] == "java":
        keep_java()
    else:
        fork_drivers()
