"""Reads a workload: jobs of equal pods, written as in Kubernetes and admitted by the scheduler's own webhook."""

from __future__ import annotations

import copy
import io
import re
from array import array
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Annotated, Any, Final

import msgspec
import orjson
from pydantic import BaseModel, ConfigDict, Field

from hami_core.documents import MAX_BYTES, load_json, load_mapping, one_line, shown
from hami_core.errors import ConfigError, HamiError
from hami_core.kube.objects import Pod
from hami_core.scheduler.webhook import OVER_QUOTA, Webhook
from hami_core.sim.patch import json_patch
from hami_core.simulate import generator
from hami_core.simulate.clusterfile import strict
from hami_core.simulate.generator import Generate
from hami_core.simulate.world import SIMULATED
from hami_core.wire.extender import AdmissionRequest

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from random import Random

    from hami_core.model import PodRequest
    from hami_core.scheduler.cluster import Cluster

MAX_PODS: Final = 5_000_000
"""Most pods of a workload."""
MAX_SECONDS: Final = 1e9
"""Latest arrival and longest duration, about 32 years."""
LINES: Final = ".jsonl"
"""Ending of a file with one job a line, for workloads of any size."""
MAX_LINES_BYTES: Final = 2 << 30
"""Size limit of a file with one job a line."""

_LONGEST: Final = 1000
"""Most characters of another part's message in ours."""
_UNITS: Final = {"s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_SPAN: Final = re.compile(r"([0-9]+(?:\.[0-9]+)?)([smhd])")


class Job(BaseModel):
    """Equal pods. Times are seconds, or text such as ``90s``, ``15m``, ``2h`` or ``1d``."""

    model_config = ConfigDict(strict=True)

    name: Annotated[str, Field(max_length=200)] = ""
    namespace: Annotated[str, Field(min_length=1, max_length=200)] = "default"
    arrival: float | str = 0.0
    every: float | str = 0.0
    count: Annotated[int, Field(ge=1, le=MAX_PODS)] = 1
    duration: float | str | None = None
    pod: dict[str, Any]


class WorkloadFile(BaseModel):
    """The whole file."""

    model_config = ConfigDict(strict=True)

    jobs: list[Job] = Field(default_factory=list)
    generate: Generate | None = None


@dataclass(frozen=True, slots=True)
class Shape:
    """Pods that differ by name and UID only.

    Attributes:
        request: Their request; name and UID are empty.
        label: The first job with such pods, for people.
        refusal: Why admission refuses them; empty: it does not.
    """

    request: PodRequest
    label: str
    refusal: str = ""


@dataclass(slots=True)
class Workload:
    """Pods in the order of their arrival, in columns, since there may be millions.

    Attributes:
        shapes: The kinds of pods.
        arrival_s: Seconds from the start.
        duration_s: Seconds from a pod's start to its end; infinite: it never ends.
        shape: Index in ``shapes``.
    """

    shapes: list[Shape] = field(default_factory=list)
    arrival_s: array[float] = field(default_factory=lambda: array("d"))
    duration_s: array[float] = field(default_factory=lambda: array("d"))
    shape: array[int] = field(default_factory=lambda: array("l"))

    def __len__(self) -> int:
        return len(self.arrival_s)

    def request(self, number: int) -> PodRequest:
        """The request of a pod, by its place in the order of arrival."""
        return replace(self.shapes[self.shape[number]].request, uid=self.uid(number), name=f"pod-{number}")

    def uid(self, number: int) -> str:
        """A pod's UID, which no pod of a snapshot has."""
        return f"{SIMULATED}{number}"

    def in_order(self) -> Workload:
        """The same pods, sorted by arrival. Pods that arrive together keep their order."""
        order = sorted(range(len(self)), key=self.arrival_s.__getitem__)
        return Workload(
            self.shapes,
            array("d", (self.arrival_s[i] for i in order)),
            array("d", (self.duration_s[i] for i in order)),
            array("l", (self.shape[i] for i in order)),
        )


class Admission:
    """Turns jobs into pods. Pods of one shape are admitted once.

    Args:
        cluster: Vendors, and the quotas that the webhook checks.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._webhook = Webhook(cluster, scheduler_name="")
        self._by_text: dict[tuple[str, bytes], int] = {}
        self._by_request: dict[str, int] = {}
        self.workload = Workload()

    def add(self, job: Job, place: str) -> None:
        """Add a job's pods.

        Args:
            job: The job.
            place: File and row, for messages.

        Raises:
            ConfigError: Names file, row, key and fix.
        """
        workload = self.workload
        if len(workload) + job.count > MAX_PODS:
            raise ConfigError(f"{place}.count", f"more than {MAX_PODS} pods in all", "lower the counts")
        arrival, every = seconds(job.arrival, f"{place}.arrival"), seconds(job.every, f"{place}.every")
        duration = float("inf") if job.duration is None else seconds(job.duration, f"{place}.duration")
        if arrival + every * (job.count - 1) > MAX_SECONDS:
            raise ConfigError(f"{place}.every", f"the last pod arrives after {MAX_SECONDS:.0f} s", "lower it")
        shape = self.shape(job, place)
        workload.arrival_s.extend(arrival + every * i for i in range(job.count))
        workload.duration_s.extend([duration] * job.count)
        workload.shape.extend([shape] * job.count)

    def shape(self, job: Job, place: str) -> int:
        """The number of the shape of a job's pods.

        Raises:
            ConfigError: Admission refuses them.
        """
        text = job.namespace, orjson.dumps(job.pod)
        number = self._by_text.get(text)
        if number is None:
            number = self._by_text[text] = self._shape(job, place)
        return number

    def add_pod(self, pod: Pod) -> None:
        """Add a pod of the cluster that waits for devices. It arrives at the start and never ends.

        Raises:
            HamiError: Its request is invalid.
        """
        request = replace(self._cluster.request_of(pod), uid="", name="")
        shape = self._number(Shape(request, f"pod {pod.key}"))
        self.workload.arrival_s.append(0.0)
        self.workload.duration_s.append(float("inf"))
        self.workload.shape.append(shape)

    def _shape(self, job: Job, place: str) -> int:
        document = copy.deepcopy(job.pod)
        meta, spec = document.setdefault("metadata", {}), document.get("spec")
        if not isinstance(meta, dict) or not isinstance(spec, dict):
            raise ConfigError(f"{place}.pod", "has no spec with containers", "write the pod as for kubectl apply")
        meta["namespace"] = job.namespace
        meta.setdefault("name", "pod")
        spec.pop("schedulerName", None)
        spec.pop("nodeName", None)
        review = AdmissionRequest("", job.namespace, object=msgspec.Raw(orjson.dumps(document)))
        verdict = self._webhook.review(review)
        refusal = ""
        if verdict.allowed:
            document = json_patch(document, list(verdict.patch))
        elif verdict.message.startswith(OVER_QUOTA):
            refusal = verdict.message
        else:
            raise ConfigError(f"{place}.pod", f"admission refuses it: {one_line(verdict.message, _LONGEST)}")
        try:
            request = self._cluster.request_of(msgspec.convert(document, Pod))
        except (HamiError, msgspec.MsgspecError) as error:
            raise ConfigError(f"{place}.pod", one_line(error, _LONGEST)) from error
        if not request.families:
            fix = "ask for a resource of an installed vendor: see hami plugins"
            raise ConfigError(f"{place}.pod", "no container asks for devices", fix)
        return self._number(Shape(replace(request, uid="", name=""), job.name or place.rpartition(": ")[2], refusal))

    def _number(self, shape: Shape) -> int:
        key = repr(shape.request)
        number = self._by_request.get(key)
        if number is None:
            number = self._by_request[key] = len(self.workload.shapes)
            self.workload.shapes.append(shape)
        return number


def seconds(value: float | str, place: str) -> float:
    """Read a time in seconds.

    Raises:
        ConfigError: It is no time, negative or too large.
    """
    if isinstance(value, str):
        match = _SPAN.fullmatch(value)
        if match is None:
            raise ConfigError(
                place, f"{shown(value)} is not a time", "write seconds, or text such as 90s, 15m, 2h or 1d"
            )
        value = float(match[1]) * _UNITS[match[2]]
    if not 0 <= value <= MAX_SECONDS:  # also refuses what is not a number
        raise ConfigError(place, f"{value} is out of range", f"write 0 to {MAX_SECONDS:.0f} seconds")
    return float(value)


def size_limit(where: str) -> tuple[int, str]:
    """The most bytes of a workload file with that name, and what to do if it is larger."""
    if where.endswith(LINES):
        return MAX_LINES_BYTES, "split it"
    return MAX_BYTES, f"write one job a line, in a file *{LINES}"


def jobs_of(text: str, where: str) -> tuple[Iterable[tuple[Job, str]], Generate | None]:
    """Read the jobs of a workload file, each with its place for messages, and what to generate.

    Args:
        text: The file's content.
        where: The file. With the ending `LINES`, each line is a job.

    Raises:
        ConfigError: The file is wrong; names file, row, key and fix. Lines are read while the jobs are.
    """
    if where.endswith(LINES):
        return _lines(text, where), None
    file = strict(WorkloadFile, load_mapping(text, where), where)
    if not file.jobs and file.generate is None:
        raise ConfigError(where, "has neither jobs nor generate", "write one of them")
    return [(job, f"{where}: jobs[{number}]") for number, job in enumerate(file.jobs)], file.generate


def _lines(text: str, where: str) -> Iterator[tuple[Job, str]]:
    for number, line in enumerate(io.StringIO(text, newline="\n"), 1):
        if line.strip():
            place = f"{where}: line {number}"
            yield strict(Job, load_json(line, place), place), place


def generated(wanted: Generate, cluster: Cluster, rng: Random, place: str) -> Iterator[dict[str, Any]]:
    """Draw pods that admission takes, each as a job of a workload file. For arguments see `generator.jobs`.

    Raises:
        ConfigError: The family is wrong, or admission refuses such pods.
    """
    admission = Admission(cluster)
    for job in generator.jobs(wanted, cluster, rng, place):
        try:
            admission.shape(Job(**job), place)
        except ConfigError as error:
            raise ConfigError(place, error.problem, generator.WRITE_JOBS) from error
        yield job


def admitted(
    cluster: Cluster,
    jobs: Iterable[tuple[Job, str]],
    pending: Sequence[Pod] = (),
    unreadable: Callable[[Pod, HamiError], None] = lambda _pod, _error: None,
) -> Workload:
    """Admit pods and put them in the order of their arrival.

    Args:
        cluster: Vendors and quotas.
        jobs: Jobs with their places.
        pending: Pods that wait at the start.
        unreadable: Called with each of these whose request is invalid.

    Raises:
        ConfigError: A job is wrong.
    """
    admission = Admission(cluster)
    for pod in pending:
        try:
            admission.add_pod(pod)
        except HamiError as error:
            unreadable(pod, error)
    for job, place in jobs:
        admission.add(job, place)
    return admission.workload.in_order()
