"""Slurm's accounting records (``sacct --parsable2``): fields of jobs, and usage of their steps."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from typing import Final, Literal

import polars as pl

from traceana.errors import SourceError
from traceana.ingesters.expressions import Kind
from traceana.ingesters.files import CsvFile
from traceana.ingesters.parsing import BYTES, own_table, read_duration, read_size
from traceana.ingesters.readers.reader import (
    LINE,
    SUBMISSION,
    FrameBlock,
    Reader,
    Rows,
    own_mapping,
    rows_of,
)
from traceana.ingesters.readers.sacct_lines import COMMAND, Layout, find_layout
from traceana.schema.columns import LARGEST_S

RULE: Final = "\0rule"
UNREAD: Final = "\0unread\0"
"""Before a rule, the column that marks the cells that break it and are null."""
REQUEUED: Final = "\0requeued"
"""Column with the number of earlier records of a job that was requeued."""
TIMES: Final = ("Submit", "Start", "End")
_OWN: Final = own_table("formats")["sacct"]
USAGE: Final[tuple[str, ...]] = tuple(_OWN["usage"].split())
_NULLS: Final[list[str]] = _OWN["nulls"]
_NO_ENERGY: Final = 1e18  # Slurm's marks of no value are near 2**64

_AMOUNT: Final = r"[0-9]+(?:\.[0-9]+)?[KMGTP]?"
_CPUS: Final = ("ReqCPUS", "AllocCPUS", "NCPUS")
_NODES: Final = ("ReqNodes", "AllocNodes", "NNodes")
_COMMENTS: Final = ("Comment", "AdminComment", "SystemComment")
NO_NODE: Final = ("None assigned", "None", "(null)", "")
_MOST_HOSTS: Final = 1 << 16  # of a list; what has more stays abbreviated
_MOST_OF_A_BLOCK: Final = 1 << 22
Values = dict[str, pl.Expr]


_read_count: Final = partial(read_size, unit="B", base=1024)
"""Counts and sizes, of which sacct abbreviates large ones: 1.5K is 1536."""


def _read_number(text: pl.Expr) -> pl.Expr:
    return text.cast(pl.Float64, strict=False)


def _one(name: str, read: Callable[[pl.Expr], pl.Expr]) -> Callable[[pl.Expr], Values]:
    return lambda text: {name: read(text)}


def _memory(text: pl.Expr) -> Values:
    """Memory as requested: per CPU (c), per node (n) or of the job; 0 is all of a node's."""
    size = read_size(text.str.replace("[cn]$", ""), unit="MiB", base=1024)
    return {"memory": size / BYTES["GiB"], "memory_per": text.str.extract("([cn])$")}


def _tres(prefix: str) -> Callable[[pl.Expr], Values]:
    """Entries such as cpu=8,gres/gpu:a100=2; what has no = is a list of GPUs as in the GRES."""

    def parse(text: pl.Expr) -> Values:
        older = _gres("")(text)
        typed = text.str.extract_all(rf"gres/gpu:[^=,]+={_AMOUNT}")
        counts = typed.list.eval(_read_count(pl.element().str.extract(rf"=({_AMOUNT})$")))
        names = typed.list.eval(pl.element().str.extract(r"gres/gpu:([^=,]+)="))
        # the sum of nothing is -0.0
        summed = pl.when(counts.list.len() > 0).then(counts.list.sum()).otherwise(0.0)
        is_older = ~text.str.contains("=", literal=True) & (older["_gres"] > 0)
        total = _read_count(text.str.extract(rf"(?:^|,)gres/gpu=({_AMOUNT})"))
        memory = read_size(text.str.extract(r"(?:^|,)mem=([^,]+)"), unit="MiB", base=1024)
        return {
            f"{prefix}_cpus": _read_count(text.str.extract(rf"(?:^|,)cpu=({_AMOUNT})")),
            f"{prefix}_nodes": _read_count(text.str.extract(rf"(?:^|,)node=({_AMOUNT})")),
            f"{prefix}_memory": memory / BYTES["GiB"],
            f"{prefix}_gpus": pl.when(is_older)
            .then(older["_gres"])
            .otherwise(total.fill_null(summed)),
            f"{prefix}_type": pl.when(is_older).then(older["_gres_type"]).otherwise(_joined(names)),
        }

    return parse


def _tasks_usage(suffix: str) -> Callable[[pl.Expr], Values]:
    """Usage of tasks: GPUs in use (Slurm adds up percentages), memory and CPU time."""
    percent = r"(?:^|,)gres/gpuutil=([0-9]+(?:\.[0-9]+)?)(?:,|$)"

    def parse(text: pl.Expr) -> Values:
        memory = text.str.extract(r"(?:^|,)mem=([^,]+)")
        return {
            f"busy_{suffix}": text.str.extract(percent).cast(pl.Float64) / 100,
            f"mem_{suffix}": _read_count(memory),
            f"cpu_{suffix}": read_duration(text.str.extract(r"(?:^|,)cpu=([^,]+)")),
        }

    return parse


_PERCENT: Final = re.compile(r"gpu_?util(?:ization)?[\"']?\s*[=:]\s*[\"']?(\d+(?:\.\d+)?)\s*(%?)")


def gpu_percent(text: str, /) -> float | None:
    """Return the GPU utilization in a comment, such as gpu_util=45 (percent) or 0.45."""
    match = _PERCENT.search(text)
    if not match:
        return None
    value = float(match[1])
    if "." in match[1] and value <= 1 and not match[2]:
        return value
    return value / 100 if value <= 100 else None


def _read_comment(text: pl.Expr) -> pl.Expr:
    def read(texts: pl.Series) -> pl.Series:
        return pl.Series([gpu_percent(each or "") for each in texts], dtype=pl.Float64)

    return text.map_batches(read, return_dtype=pl.Float64(), is_elementwise=True)


def _gres(prefix: str) -> Callable[[pl.Expr], Values]:
    """GPUs as Slurm printed them before it counted them in TRES: gpu:2, gpu:a100:2."""

    def parse(text: pl.Expr) -> Values:
        entries = text.str.extract_all(r"gpu(?::[A-Za-z][^:,(]*)?:[0-9]+")
        counts = entries.list.eval(pl.element().str.extract(r":([0-9]+)$").cast(pl.Float64))
        names = entries.list.eval(pl.element().str.extract(r"gpu:(.+):[0-9]+$"))
        return {f"{prefix}_gres": counts.list.sum(), f"{prefix}_gres_type": _joined(names)}

    return parse


def _joined(names: pl.Expr) -> pl.Expr:
    text = names.list.drop_nulls().list.unique().list.sort().list.join("+")
    return pl.when(text != "").then(text)


_FIELDS: Final[dict[str, tuple[str, Callable[[pl.Expr], Values]]]] = {
    "Elapsed": ("duration", _one("elapsed", read_duration)),
    "ElapsedRaw": ("number", _one("elapsed_raw", _read_number)),
    "Timelimit": ("duration", _one("limit", read_duration)),
    "TimelimitRaw": ("number", _one("limit_raw", _read_number)),
    "TotalCPU": ("duration", _one("own_cpu", read_duration)),
    "MaxRSS": ("size", _one("own_rss", _read_count)),
    "ConsumedEnergyRaw": ("number", _one("energy_raw", _read_number)),
    "ConsumedEnergy": ("size", _one("energy", partial(read_size, unit="B", base=1000))),
    "ReqMem": ("size", _memory),
    "ReqTRES": ("", _tres("req")),
    "AllocTRES": ("", _tres("alloc")),
    "TRES": ("", _tres("tres")),
    "TRESUsageInTot": ("", _tasks_usage("total")),
    "TRESUsageInAve": ("", _tasks_usage("mean")),
    **{name: ("", _one(f"stated_{name}", _read_comment)) for name in _COMMENTS},
    "ReqGRES": ("", _gres("req")),
    "AllocGRES": ("", _gres("alloc")),
    "State": ("", lambda text: {"state": text.str.extract(r"^([^\s+]+)")}),
    **{name: ("number", _one(f"n_{name}", _read_count)) for name in (*_CPUS, *_NODES, "NTasks")},
}
_MAPPING: Final = own_table("mappings/sacct")
_MAPPED: Final = [*_MAPPING["trace"]["keep"], *map(str, _MAPPING["jobs"].values())]
FIELDS: Final = ("JobID", *TIMES, *_FIELDS, "Restarts", *(n for n in _MAPPED if n[0].isupper()))
"""Fields that are used; a column is null where a file lacks one."""
TYPES: Final[dict[str, pl.DataType]] = {
    **dict.fromkeys(("submit", "start", "end"), pl.Datetime("us", "UTC")),
    **dict.fromkeys(
        ("runtime_s", "time_limit_s", "cpu_time_s", "memory_gib", "memory_gib_used", "energy_j"),
        pl.Float64(),
    ),
    **dict.fromkeys(("cpus", "nodes", "gpus", "gpu_utilization", "restarts"), pl.Float64()),
    **dict.fromkeys(("job_id", "array_id", "gpu_type", "state"), pl.String()),
}
"""Columns that are computed, with their types."""


def parse_fields(records: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    """Add the values of some fields, each distinct text read once; :data:`UNREAD` marks faults."""
    for name in names:
        what, parse = _FIELDS[name]
        if records[name].null_count() == records.height:
            records = records.with_columns(
                pl.lit(None, dtype).alias(field) for field, dtype in _types(name).items()
            )
            continue
        table = records.select(name).unique().filter(~pl.col(name).is_in(_NULLS))
        values = parse(pl.col(name))
        records = records.join(
            table.with_columns(**values, **{f"{RULE}{name}": True}),
            on=name,
            how="left",
            maintain_order="left",
        )
        if what:
            unread = pl.col(f"{RULE}{name}") & pl.col(next(iter(values))).is_null()
            records = records.with_columns(unread.alias(f"{UNREAD}{name}|not_a_{what}"))
    return records.drop((f"{RULE}{name}" for name in names), strict=False)


@cache
def _types(name: str) -> dict[str, pl.DataType]:
    values = _FIELDS[name][1](pl.col(name))
    return dict(pl.DataFrame(schema={name: pl.String}).select(**values).schema)


def step_usage(steps: pl.DataFrame, step: str) -> pl.DataFrame:
    """Add what each step used; ``.batch`` and ``.extern`` have the energy of the whole nodes."""
    whole = pl.col(step).is_in(("batch", "extern"))
    tasks = pl.col("n_NTasks").fill_null(1.0)
    return parse_fields(steps, USAGE).with_columns(
        rss=pl.coalesce("mem_total", pl.col("mem_mean") * tasks, "own_rss"),
        cpu=pl.coalesce("own_cpu", "cpu_total", pl.col("cpu_mean") * tasks),
        busy=pl.coalesce("busy_total", pl.col("busy_mean") * tasks),
        whole=pl.when(whole).then(_energy()),
        parts=pl.when(~whole).then(_energy()),
    )


def total_usage(steps: pl.DataFrame, job: str) -> pl.DataFrame:
    """Add up steps by their job: most memory and GPUs in use, all CPU time, the nodes' energy."""
    largest = [pl.col(name).max() for name in ("rss", "whole", "busy")]
    summed = [
        pl.when(pl.col(name).count() > 0).then(pl.col(name).sum()) for name in ("cpu", "parts")
    ]
    return steps.group_by(job).agg(*largest, *summed)


USED: Final = ("rss", "whole", "busy", "cpu", "parts")
"""Columns of what the steps of a job used."""


def derive(records: pl.DataFrame, timezone: str) -> pl.DataFrame:
    """Add the columns of :data:`TYPES` to records that have the steps' usage."""
    rows = parse_fields(parse_times(records, timezone), tuple(_FIELDS))
    first, col = pl.coalesce, pl.col
    cpus = first(
        _counted("ReqCPUS"), "req_cpus", _counted("AllocCPUS", "NCPUS"), "alloc_cpus", "tres_cpus"
    )
    nodes = first(
        _counted("ReqNodes"), "req_nodes", _counted("NNodes", "AllocNodes"), "alloc_nodes"
    )
    rows = rows.with_columns(cpus=cpus, nodes=nodes)
    per = pl.when(col("memory_per") == "c").then(cpus).when(col("memory_per") == "n").then(nodes)
    memory = col("memory") * pl.when(col("memory_per").is_null()).then(1.0).otherwise(per)
    sources = [
        pl.when(col(name) > 0).then(name) for name in ("alloc_gpus", "tres_gpus", "req_gpus")
    ]
    gres = (pl.when(col("alloc_gres") > 0).then("alloc_gres"), col("req_gres") * nodes)
    none = first("alloc_gpus", "tres_gpus", "req_gpus")
    elapsed = first("elapsed_raw", "elapsed")
    rows = rows.with_columns(elapsed=elapsed).with_columns(_without_a_start(rows))
    cpu = pl.max_horizontal("own_cpu", "cpu")
    started = col("start").is_not_null() | (elapsed > 0)  # a job that never started ran for no time
    return rows.with_columns(
        job_id="JobID",
        runtime_s=pl.when(started).then("elapsed"),
        time_limit_s=first("limit", col("limit_raw") * 60),
        cpu_time_s=pl.when(cpu > 0).then(cpu),  # 0 is printed where no steps were recorded
        memory_gib_used=pl.max_horizontal("own_rss", "rss") / BYTES["GiB"],
        energy_j=pl.max_horizontal(_energy(), "whole", "parts"),
        memory_gib=first(
            pl.when(memory > 0).then(memory), "req_memory", "alloc_memory", "tres_memory"
        ),
        gpus=first(*sources, *gres, none),
        gpu_type=first("alloc_type", "tres_type", "req_type", "alloc_gres_type", "req_gres_type"),
        array_id=col("JobID").str.extract(r"^(\d+)_"),
        restarts=first(col("Restarts").cast(pl.Float64, strict=False), REQUEUED),
        NodeList=expand_lists(records["NodeList"]),
        stated=first(*(f"stated_{name}" for name in _COMMENTS)),
    ).with_columns(
        # Slurm's marks of no value are far above 1
        gpu_utilization=first(
            "stated",
            pl.when(col("gpus") > 0, col("busy") <= col("gpus")).then(col("busy") / col("gpus")),
        )
    )


def _without_a_start(records: pl.DataFrame) -> list[pl.Expr]:
    """Remove the start of jobs that were cancelled before they ran: Slurm states the end."""
    none = [pl.col("start") == pl.col("end")]
    if records["NodeList"].null_count() < records.height:
        none.append(pl.col("NodeList").is_null() | pl.col("NodeList").is_in(NO_NODE))
    if records["AllocTRES"].null_count() < records.height:
        none.append(pl.col("AllocTRES").is_null())
    idle = (pl.col("elapsed") > 0).not_().fill_null(value=True)
    never = (pl.col("state") == "CANCELLED") & pl.any_horizontal(none) & idle
    return [pl.when(~never.fill_null(value=False)).then("start").alias("start")]


def expand_lists(lists: pl.Series, /) -> pl.Series:
    """Expand the lists of nodes of a block, up to a limit; that of a job without one is null."""
    texts = lists.unique(maintain_order=True).drop_nulls()
    names: list[str | None] = []
    left = _MOST_OF_A_BLOCK
    for text in texts:
        hosts = expand_hosts(text) if left > 0 else [text]
        left -= len(hosts)
        names.append(None if text in NO_NODE else ",".join(hosts))
    return lists.replace_strict(texts, pl.Series(names, dtype=pl.String), return_dtype=pl.String)


def expand_hosts(text: str, /) -> list[str]:
    """Return the nodes of a list as Slurm abbreviates it; the text itself if it is none."""
    hosts: list[str] = []
    for part in re.findall(r"(?:[^,\[\]]|\[[^\]]*\])+", text):
        parts = re.split(r"\[([^\]]*)\]", part)
        expanded = [parts[0]]
        for ranges, after in zip(parts[1::2], parts[2::2], strict=True):
            every = (number for span in ranges.split(",") for number in _range(span))
            numbers = [*islice(every, _MOST_HOSTS + 1)]
            if len(expanded) * len(numbers) > _MOST_HOSTS:
                return [text]
            expanded = [f"{host}{number}{after}" for host in expanded for number in numbers]
        hosts += expanded
        if len(hosts) > _MOST_HOSTS:
            return [text]
    return hosts


def _range(text: str) -> list[str]:
    first, dash, last = text.partition("-")
    if not (dash and first.isdecimal() and last.isdecimal()):
        return [text]
    if int(last) - int(first) > _MOST_HOSTS:
        return [text]
    return [f"{number:0{len(first)}d}" for number in range(int(first), int(last) + 1)]


def _energy() -> pl.Expr:
    """Return the energy, null where Slurm prints 0 for what was not measured, or no value."""
    energy = pl.coalesce("energy_raw", "energy")
    return pl.when((energy > 0) & (energy < _NO_ENERGY)).then(energy)


def _counted(*names: str) -> pl.Expr:
    """Return the first count that is not 0: Slurm prints 0 for what was not allocated."""
    return pl.coalesce(pl.when(pl.col(f"n_{name}") > 0).then(f"n_{name}") for name in names)


def parse_times(records: pl.DataFrame, timezone: str) -> pl.DataFrame:
    """Add submit, start and end; of an hour that occurs twice, the one that fits the others."""
    rows = records.with_columns(
        pl.when(~pl.col(name).is_in(_NULLS)).then(pl.col(name)) for name in TIMES
    )
    rows = rows.with_columns(_moment(rows[n], timezone, "earliest").alias(n.lower()) for n in TIMES)
    if timezone != "UTC":
        late = {name: _moment(rows[name], timezone, "latest") for name in TIMES}
        if any((rows[name.lower()] != late[name]).any() for name in TIMES):
            rows = _choose_hours(rows, late)
    unread = (
        pl.when(pl.col(n).is_not_null() & pl.col(n.lower()).is_null()).then(
            pl.lit(f"{n}|not_a_time")
        )
        for n in TIMES
    )
    return rows.with_columns(pl.coalesce(unread).alias(RULE))


def _choose_hours(rows: pl.DataFrame, late: dict[str, pl.Series]) -> pl.DataFrame:
    """Choose between the first and the second occurrence: by the elapsed time, then the order."""
    rows = parse_fields(rows, ("Elapsed",))
    rows = rows.with_columns(late[name].alias(f"late_{name}") for name in TIMES)
    elapsed = pl.duration(seconds=pl.col("elapsed"))
    start, end = pl.col("start"), pl.col("end")
    later = (end - pl.col("late_Start") == elapsed) | (start < pl.col("submit"))
    later = later.fill_null(value=False)
    rows = rows.with_columns(start=pl.when(later).then("late_Start").otherwise(start))
    again = (end < start) | (pl.col("late_End") - start == elapsed)
    rows = rows.with_columns(
        end=pl.when(again.fill_null(value=False)).then("late_End").otherwise(end)
    )
    unread = [name for name in rows.columns if name.startswith(UNREAD)]
    return rows.drop("elapsed", *unread, *(f"late_{name}" for name in TIMES))


def _moment(text: pl.Series, timezone: str, ambiguous: Literal["earliest", "latest"]) -> pl.Series:
    local = text.str.to_datetime("%Y-%m-%dT%H:%M:%S", time_unit="us", strict=False)
    zoned = local.dt.replace_time_zone(timezone, ambiguous=ambiguous, non_existent="null")
    moment = zoned.dt.convert_time_zone("UTC")
    if moment.null_count() == text.null_count():
        return moment
    number = text.cast(pl.Int64, strict=False)
    seconds = pl.from_epoch(number.set(number.abs() > LARGEST_S, None), "s").dt.cast_time_unit("us")
    return (
        moment.to_frame()
        .select(pl.coalesce(moment, seconds.dt.replace_time_zone("UTC")))
        .to_series()
    )


_JOB: Final = "\0job"
_STEP: Final = "\0step"
_AT: Final = "\0at"
_BEFORE: Final = "\0before"


def _usage(file: CsvFile, layout: Layout) -> tuple[pl.DataFrame, pl.DataFrame]:
    """Return what the steps of each job used, by the line of the job, and requeued records."""
    jobs = [pl.DataFrame(schema={_JOB: pl.UInt64, LINE: pl.Int64})]
    requeued = [jobs[0].rename({LINE: _AT})]
    n_steps = 0
    schema = {**dict.fromkeys((_STEP, *USAGE), pl.String()), _AT: pl.Int64()}
    usage, strays = [total_usage(step_usage(pl.DataFrame(schema=schema), _STEP), _AT)], []
    before: tuple[str | None, int | None] = (None, None)
    for records, _, _ in layout.records(file, ("JobID", "State", *USAGE)):
        parts = pl.col("JobID").str.splitn(".", 2).struct
        of_job = pl.when(pl.col(_STEP).is_null())
        rows = records.with_columns(parts[0].alias(_JOB), parts[1].alias(_STEP)).with_columns(
            of_job.then(_JOB).forward_fill().fill_null(pl.lit(before[0])).alias(_BEFORE),
            of_job.then(LINE).forward_fill().fill_null(pl.lit(before[1], pl.Int64)).alias(_AT),
        )
        is_job = rows[_STEP].is_null()
        jobs.append(rows.filter(is_job).select(pl.col(_JOB).hash(), LINE))
        if "State" in rows.columns:
            again = rows.filter(is_job & rows["State"].str.starts_with("REQUEUED"))
            requeued.append(again.select(pl.col(_JOB).hash(), pl.col(LINE).alias(_AT)))
        n_steps += rows.height - jobs[-1].height
        if rows.height:
            before = rows[_BEFORE][-1], rows[_AT][-1]
        if not is_job.all():
            steps = step_usage(_with_fields(rows.filter(~is_job), USAGE), _STEP)
            follows = (pl.col(_JOB) == pl.col(_BEFORE)).fill_null(value=False)
            usage.append(total_usage(steps.filter(follows), _AT))
            strays.append(steps.filter(~follows).drop(_AT).with_columns(pl.col(_JOB).hash()))
    table = pl.concat(jobs)
    if n_steps and not table.height:
        raise SourceError(
            f"{file.where}: it has {n_steps:,} steps of jobs (JobID.STEP) and no job; make it with "
            f"{COMMAND}"
        )
    usage += [total_usage(_find_jobs(stray, table), _AT) for stray in strays if stray.height]
    return total_usage(pl.concat(usage), _AT).sort(_AT), pl.concat(requeued)


def _with_restarts(jobs: pl.DataFrame, requeued: pl.DataFrame) -> pl.DataFrame:
    """Add how many records of each job's id before it were requeued; null where none is listed."""
    if not requeued.height:
        return jobs.with_columns(pl.lit(None, pl.Float64).alias(REQUEUED))
    pairs = jobs.select(LINE, pl.col("JobID").hash().alias(_JOB)).join(requeued, on=_JOB)
    counts = pairs.filter(pl.col(_AT) < pl.col(LINE)).group_by(LINE).agg(pl.len().alias(REQUEUED))
    joined = jobs.join(counts, on=LINE, how="left", maintain_order="left")
    return joined.with_columns(pl.col(REQUEUED).fill_null(0).cast(pl.Float64))


def _find_jobs(steps: pl.DataFrame, jobs: pl.DataFrame) -> pl.DataFrame:
    """Assign to steps the line of the last job with their id, else of the first after them."""
    jobs = jobs.with_columns(pl.col(LINE).alias(_AT))
    steps = steps.join_asof(jobs, on=LINE, by=_JOB, check_sortedness=False)
    steps = steps.join_asof(
        jobs, on=LINE, by=_JOB, strategy="forward", suffix="\0", check_sortedness=False
    )
    return steps.with_columns(pl.coalesce(_AT, f"{_AT}\0").alias(_AT)).drop_nulls(_AT)


def _blocks(
    file: CsvFile, layout: Layout, timezone: str, kinds: Mapping[str, Kind]
) -> Iterator[FrameBlock]:
    usage, requeued = _usage(file, layout)
    for records, strange, line in layout.records(file):
        is_step = pl.col("JobID").str.contains(".", literal=True).fill_null(value=False)
        jobs = records.filter(~is_step)
        used = usage.filter(pl.col(_AT).is_in(jobs[LINE].implode()))
        joined = jobs.join(used, left_on=LINE, right_on=_AT, how="left", maintain_order="left")
        block = FrameBlock(
            _with_restarts(joined, requeued),
            kinds,
            line,
            partial(_texts, layout, jobs),
            strange,
            layout.header,
            not_applicable=records.height - jobs.height,
        )
        yield as_jobs(block, timezone)


def as_jobs(block: FrameBlock, timezone: str) -> FrameBlock:
    """Derive the columns of jobs from their records and what their steps used."""
    rows = derive(_with_fields(block.frame, FIELDS), timezone)
    rows = rows.with_columns(pl.coalesce(*TIMES, pl.lit("")).alias(SUBMISSION))
    is_wrong = rows[RULE].is_not_null()
    wrong, rows = rows.filter(is_wrong), rows.filter(~is_wrong)
    bad = wrong.select(line=LINE, rule=RULE).with_columns(text=block.text_of(wrong[LINE]))
    marks = [name for name in rows.columns if name.startswith(UNREAD)]
    unread = {name.removeprefix(UNREAD): int(rows[name].sum() or 0) for name in marks}
    nulled = {(rule.partition("|")[0], rule): n for rule, n in unread.items() if n}
    return replace(block, frame=rows, bad=pl.concat([block.bad, bad]), nulled=nulled)


def _texts(layout: Layout, records: pl.DataFrame, lines: pl.Series) -> pl.Series:
    return layout.texts(rows_of(records, lines))


def _with_fields(records: pl.DataFrame, names: tuple[str, ...]) -> pl.DataFrame:
    missing = [name for name in names if name not in records.columns]
    return records.with_columns(pl.lit(None, pl.String).alias(name) for name in missing)


def _detect(file: CsvFile) -> bool:
    try:
        return find_layout(file) is not None
    except SourceError:
        return True  # a table for the screen: opening it names the option to add


def _open(file: CsvFile, timezone: str) -> Rows:
    layout = find_layout(file)
    if layout is None:
        raise SourceError(
            f"{file.where}: its first line does not name sacct's fields, JobID among them; "
            f"make it with {COMMAND}"
        )
    columns = tuple(dict.fromkeys((*layout.columns, *FIELDS, *TYPES)))
    facts = {}
    if not layout.header and not file.columns:
        used = [name for name in layout.columns if not name.startswith(("column ", "\0"))]
        unread = [name for name in layout.columns if name.startswith("column ")]
        note = f"The file has no header. Columns found by their content: {', '.join(used)}"
        facts = {"notes": [f"{note}; not read: {', '.join(unread) or 'none'}."]}
    return Rows(columns, partial(_blocks, file, layout, timezone), TYPES, facts)


READER: Final = Reader("sacct", _detect, _open, (".txt", ".sacct"), own_mapping("sacct"))
