"""How many bytes of a stream make a task."""

from eddyline.engine.task_size import TaskSize
from eddyline.model import ExecutionChoices

MB = 1 << 20
TASK_S, LEAST_BYTES = 0.06, 64 << 10
CHOICES = ExecutionChoices(task_bytes=8 * MB, task_s=TASK_S, least_task_bytes=LEAST_BYTES)


def test_before_anything_was_measured_a_task_is_as_large_as_it_may_be():
    assert TaskSize(CHOICES).nbytes == 8 * MB


def test_a_task_is_what_takes_a_moment():
    size = TaskSize(CHOICES)
    size.learn(10 * MB, 10 * TASK_S)
    assert size.nbytes == MB


def test_cheap_rows_make_tasks_as_large_as_they_may_be():
    size = TaskSize(CHOICES)
    size.learn(100 * MB, TASK_S)
    assert size.nbytes == 8 * MB


def test_however_dear_rows_are_a_task_has_some():
    size = TaskSize(CHOICES)
    size.learn(MB, 1_000.0)
    assert size.nbytes == LEAST_BYTES


def test_one_odd_round_does_not_count_for_all():
    size = TaskSize(CHOICES)
    for _ in range(5):
        size.learn(10 * MB, 10 * TASK_S)
    size.learn(MB, 16 * TASK_S)
    assert abs(size.nbytes - MB // 4) <= 1  # 16 times dearer once: 4 times smaller


def test_a_round_of_little_says_nothing():
    size = TaskSize(CHOICES)
    size.learn(LEAST_BYTES - 1, 5.0)
    size.learn(0, 0.0)
    size.learn(MB, 0.0)
    assert size.nbytes == 8 * MB
