"""How many bytes of a stream make a task."""

from eddyline.engine.task_size import TaskSize
from eddyline.model import ExecutionChoices

MB = 1 << 20
TASK_S, LEAST_BYTES = 0.06, 64 << 10
CHOICES = ExecutionChoices(task_bytes=8 * MB, task_s=TASK_S, least_task_bytes=LEAST_BYTES)


def test_before_anything_was_measured_a_task_is_as_large_as_it_may_be():
    assert TaskSize().nbytes(CHOICES) == 8 * MB


def test_a_task_is_what_takes_a_moment():
    size = TaskSize()
    size.learn(10 * MB, 10 * TASK_S, CHOICES)
    assert size.nbytes(CHOICES) == MB


def test_cheap_rows_make_tasks_as_large_as_they_may_be():
    size = TaskSize()
    size.learn(100 * MB, TASK_S, CHOICES)
    assert size.nbytes(CHOICES) == 8 * MB


def test_however_dear_rows_are_a_task_has_some():
    size = TaskSize()
    size.learn(MB, 1_000.0, CHOICES)
    assert size.nbytes(CHOICES) == LEAST_BYTES


def test_one_odd_round_does_not_count_for_all():
    size = TaskSize()
    for _ in range(5):
        size.learn(10 * MB, 10 * TASK_S, CHOICES)
    size.learn(MB, 16 * TASK_S, CHOICES)
    assert abs(size.nbytes(CHOICES) - MB // 4) <= 1  # 16 times dearer once: 4 times smaller


def test_a_round_of_little_says_nothing():
    size = TaskSize()
    size.learn(LEAST_BYTES - 1, 5.0, CHOICES)
    size.learn(0, 0.0, CHOICES)
    size.learn(MB, 0.0, CHOICES)
    assert size.nbytes(CHOICES) == 8 * MB
