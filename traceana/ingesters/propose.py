"""Propose a mapping for a file from the names, types and values of its columns."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from os import PathLike
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

import polars as pl

from traceana.errors import DataError, SourceError
from traceana.ingesters import propose_columns as known
from traceana.ingesters.build import KeyFilter
from traceana.ingesters.compiled import Source, open_source
from traceana.ingesters.files import CsvFile, list_csvs
from traceana.ingesters.ingestion import ingest
from traceana.ingesters.mapping import parse_mapping
from traceana.ingesters.propose_columns import Proposal, median, split_unit
from traceana.ingesters.readers.json import NESTED, lists_of, longest
from traceana.ingesters.readers.reader import get_reader, open_reader
from traceana.schema import get_table
from traceana.store import Store, TableEntry

_VALUE: Final = re.compile(r"[-+]?\d[-\d.:/ T]*")
_NO_CAPACITY: Final = (
    "# unsure: machines without a fault are not in the log; state the number of all machines:",
    "# [trace.capacity]",
    "# all = { nodes = 0, gpus_per_node = 8 }",
)
_MOST_KEPT: Final = 40
_PAGE: Final = 5
_OF_FAULTS: Final = frozenset({"submit_s", "start_s", "end_s", "runtime_s", "end_reason"})
"""Columns that a fault log may seem to have of jobs."""
_OF_RUNS: Final = frozenset({"user", "status", "start_s", "end_s", "runtime_s"})
"""Columns of which a table of machines or of samples has none."""
_WANTED: Final = ("user", "status", "submit_s", "runtime_s", "gpus", "node")
_EVENTS: Final = {"fault_start", "fault_end"}
_FEW: Final = 20
_MOST_STATUSES: Final = 12
_MOST_REPEATED: Final = 0.05
_SHOWN_ROWS: Final = 1000
_BEGINS: Final = ("submit_s", "start_s")  # taken from the first of several nested records


def propose_mapping(path: str | PathLike[str], /, *, reader: str | None = None) -> str:
    """Propose a mapping for a file from its columns.

    Uncertain lines have a comment, ``# unsure: ...``, with the evidence.

    Parameters
    ----------
    path
        File: CSV with any separator, JSON lines, JSON array, Parquet, or a scheduler's log.
    reader
        Format of the file; None: detected.

    Examples
    --------
    >>> import polars as pl, tempfile, traceana
    >>> path = f"{tempfile.mkdtemp()}/march.csv"
    >>> pl.DataFrame({"job": ["a", "b"], "gpus": [2, 4], "runtime": [60, 90]}).write_csv(path)
    >>> print(traceana.propose_mapping(path))
    # proposed from march.csv; check what is marked "unsure"
    [trace]
    title = "march"
    reader = "csv"
    <BLANKLINE>
    [jobs]
    job_id = "job"
    # unsure: runtime is taken as seconds: its median is 75
    runtime_s = "runtime"
    gpus = "gpus"
    """
    source, rows = _open_rows(Path(path), reader)
    mapping = get_reader(source.reader).mapping
    if mapping:
        return f"# files of the format {source.reader} need no mapping; this one is used\n{mapping}"
    proposal = Proposal(_sample(source))
    samples, jobs = (
        _match(source, names, proposal) for names in (known.WORKER_SAMPLES, known.JOBS)
    )
    if not samples | jobs and (value := next(filter(_VALUE.fullmatch, source.columns), None)):
        raise DataError(
            f"{source.label}: its first line has values such as {value!r}, not names of columns; "
            "put a line of names before it"
        )
    table, matched = _choose_table(source, samples, jobs, proposal)
    for target, column in matched.items():
        known.propose_column(target, column, proposal)
    _complete(table, matched, source, proposal)
    keep, unused = _keep_others(source, table, {*matched.values()}, proposal)
    label = "".join(c if c.isprintable() else repr(c)[1:-1] for c in source.label)
    head = [
        f'# proposed from {label}; check what is marked "unsure"',
        "[trace]",
        f"title = {json.dumps(source.literals['file_name'])}",
        f'reader = "{source.reader}"',
        *rows,
        *_zone(matched, source, proposal),
        *(_NO_CAPACITY if table == "faults" else ()),
    ]
    if keep:
        head += _note_missing(table, keep, proposal)
        head.append(_keep_line(keep))
    tail = [f"# not kept: {', '.join(map(json.dumps, unused))}"] if unused else []
    numbers = [name for name in keep.values() if proposal.numbers(name) is not None]
    if numbers:
        tail += ["", f"[{table}.source]"]
        tail += [f'{json.dumps(name)} = {{ type = "number" }}' for name in numbers]
    text = "\n".join([*head, "", f"[{table}]", *proposal.lines, *tail]) + "\n"
    parse_mapping(text, where="the proposed mapping")
    return text


def _open_rows(path: Path, reader: str | None) -> tuple[Source, list[str]]:
    """Open a file, and return the lines of a mapping that name the list with its rows."""
    file, lines = _single(path), list[str]()
    lists = lists_of(file) if open_reader(file, reader).name == "json" else []
    if len(lists) > 1:
        file = replace(file, rows=longest(lists).path)
        paths = ", ".join(other.path for other in lists if other.path != file.rows)
        lines = [f"# unsure: the longest list of objects is taken; others: {paths}"]
    source = open_source(file, reader=reader)
    pages = _pages(source)
    if pages:
        file = replace(file, rows=f"{file.rows or ''}{NESTED}{pages}")
        source = open_source(file, reader=reader)
        lines = ["# unsure: the elements of a list in each page are the rows"]
    if file.rows is not None:
        lines.append(f"rows = {json.dumps(file.rows)}")
    if not all(name.isprintable() for name in source.columns):
        raise SourceError(f"{path}: its first line is not text; expected the names of columns")
    is_of_events = reader is None and {"event_type", "event_time"} <= {*source.columns}
    if is_of_events and set(_sample(source)["event_type"].drop_nulls()) == _EVENTS:
        source = open_source(file, reader="fault_events")
    return source, lines


def _zone(matched: dict[str, str], source: Source, proposal: Proposal) -> list[str]:
    for column in (column for target, column in matched.items() if target in known.CLOCKS):
        dtype = source.types.get(column)
        if dtype is not None and dtype.is_temporal():
            lacks = getattr(dtype, "time_zone", None) is None
        else:
            texts = proposal.texts(column).drop_nulls()
            zoned = texts.str.contains(r"(Z|[+-]\d{2}:?\d{2})$").all()
            lacks = proposal.numbers(column) is None and not zoned
        if lacks:
            doubt = f"{column} states no time zone; write the log's, if it is not UTC"
            return [f"# unsure: {doubt}", 'timezone = "UTC"']
    return []


def _note_missing(table: str, keep: dict[str, str], proposal: Proposal) -> list[str]:
    stated = {*keep, *(line.partition(" =")[0] for line in proposal.lines)}
    stated |= {"node"} if {"host", "NodeList"} & stated else set()
    stated |= {"runtime_s"} if {"start_s", "end_s"} <= stated else set()
    missing = ", ".join(name for name in _WANTED if table == "jobs" and name not in stated)
    return [f"# unsure: no column is known as {missing}; is one of these?"] if missing else []


def _keep_line(keep: dict[str, str]) -> str:
    if all(name == published for name, published in keep.items()):
        return f"keep = {json.dumps([*keep])}"
    pairs = (f"{json.dumps(name)} = {json.dumps(column)}" for name, column in keep.items())
    return f"keep = {{ {', '.join(pairs)} }}"


def _keep_others(
    source: Source, table: str, used: set[str], proposal: Proposal
) -> tuple[dict[str, str], list[str]]:
    taken = {*get_table(table).column_names()}
    other_meaning = {*known.WORKER_SAMPLES, "gpus"} if table == "worker_samples" else set()
    has_host = not {"node", "host"}.isdisjoint(source.columns)
    keep: dict[str, str] = {}
    unused: list[str] = []
    for column in source.columns:
        if column in used:
            continue
        is_empty = proposal.cells[column].null_count() == proposal.cells.height
        if is_empty or column in other_meaning or len(keep) == _MOST_KEPT:
            unused.append(column)
            continue
        name = f"source_{column}" if column in taken else column
        is_host = split_unit(column, {})[0] in known.HOSTS and proposal.numbers(column) is None
        if is_host and not has_host:
            name = "node"
        keep[f"{name}_{len(keep)}" if name in keep else name] = column
    return keep, unused


def preview_mapping(
    path: str | PathLike[str], text: str, /
) -> list[tuple[TableEntry, pl.DataFrame]]:
    """Run a mapping on a file: by table, all rows kept and rejected, and the first ones kept."""
    with TemporaryDirectory(prefix="traceana-") as folder:
        ledger = ingest(path, mapping=text, trace="preview", store=folder)
        trace = Store(Path(folder)).trace("preview")
        return [
            (entry, trace.scan(entry.table).head(_SHOWN_ROWS).collect()) for entry in ledger.entries
        ]


def _pages(source: Source) -> str | None:
    """Return the list in each row where its objects are the rows, as in pages of an API."""
    if source.reader not in ("json", "jsonl"):
        return None
    lists = {re.sub(r"\.first\..*", "", name) for name in source.columns if ".first." in name}
    for name in sorted(lists, key=len)[:1]:
        inner = sum(column.startswith(f"{name}.first.") for column in source.columns)
        n_foreign = sum(not column.startswith(name) for column in source.columns)
        counts = _sample(source)[f"{name}.count"].cast(pl.Float64, strict=False)
        if n_foreign < inner and (counts.mean() or 0) >= _PAGE:  # type: ignore[operator]
            return name
    return None


def _single(path: Path) -> CsvFile:
    if path.is_dir():
        raise SourceError(f"{path}: a folder; name one file of it")
    listing = list_csvs(path, suffixes=("",))
    for _, error in listing.broken:
        raise error
    if len(listing.csvs) != 1:
        raise SourceError(f"{path}: {len(listing.csvs)} files are in it; unpack it and name one")
    return listing.csvs[0]


def _sample(source: Source) -> pl.DataFrame:
    kinds = {
        name: "time" if (dtype := source.types.get(name)) and dtype.is_temporal() else "text"
        for name in source.columns
    }
    block = next(iter(source.rows.blocks(kinds)), None)  # type: ignore[arg-type]
    if block and block.cells.height:
        return block.cells.head(known.SAMPLE)
    reason = ""
    if block and block.bad.height:
        _, rule, text = block.bad.row(0)
        reason = f" ({rule}: {text[:60]!r}, where the header names {len(source.columns)} columns)"
    raise SourceError(f"{source.label}: no row in its beginning can be read{reason}")


def _match(source: Source, synonyms: dict[str, str], proposal: Proposal) -> dict[str, str]:
    fits = []
    for column in source.columns:
        if len(re.findall(r"\.(?:first|last)\.", column)) > 1:
            continue  # of lists in lists neither is the whole
        for name, extra in known.nested_names(column).items():
            plain = split_unit(name, {})[0]
            bases = {
                plain,
                *(split_unit(name, units)[0] for units in known.UNITS),
            }
            for order, (target, synonyms_of_target) in enumerate(synonyms.items()):
                names = synonyms_of_target.split()
                wrong = ".last." if target in _BEGINS else ".first."
                rank = extra + (plain not in names) + (wrong in column)
                fits += [
                    (names.index(base) + rank, order, target, column)
                    for base in bases & {*names}
                    if _can_be(target, base, column, proposal)
                ]
    chosen: dict[str, str] = {}
    for _, _, target, column in sorted(fits):
        if target not in chosen and column not in chosen.values():
            chosen[target] = column
    return {target: chosen[target] for target in synonyms if target in chosen}


def _choose_table(
    source: Source, samples: dict[str, str], jobs: dict[str, str], proposal: Proposal
) -> tuple[str, dict[str, str]]:
    operations = _match(source, known.OPERATIONS, proposal)
    if {"kind", "start_s", "duration_s", "worker_id", "step"} <= operations.keys():
        return "operations", operations
    is_steps = "batch_time" in samples and not {"status", "submit_s"} & jobs.keys()
    if is_steps and ("step" in samples or {"worker_id", "time_s"} <= samples.keys()):
        return "worker_samples", samples
    if not jobs.keys() & _OF_RUNS:
        gpus = _match(source, known.GPU_SAMPLES, proposal)
        measured = not {"utilization", "power_w"}.isdisjoint(gpus)
        if measured and {"machine_id", "gpu", "time_s"} <= gpus.keys():
            return "gpu_samples", gpus
        machines = _match(source, known.MACHINES, proposal)
        if {"machine_id", "gpus"} <= machines.keys() and "submit_s" not in jobs:
            return "machines", machines
    faults = _match(source, known.FAULTS, proposal) if _is_fault_log(source, jobs) else {}
    if {"machine_id", "start_s"} <= faults.keys():
        return "faults", faults
    return "jobs", _status_by_content(source, _assign_codes(jobs, proposal), proposal)


def _is_fault_log(source: Source, jobs: dict[str, str]) -> bool:
    names = [split_unit(name, {})[0] for name in source.columns]
    if any("job" in name for name in names):
        return False
    fails = any(re.search(known.FAILING, name) for name in names)
    if {*names} & {*known.FAULTS["machine_id"].split()} and jobs.keys() <= _OF_FAULTS:
        # a machine, times and a class or reason; nobody requested anything
        classes = {"error", *known.FAULTS["class"].split()} - {"type"}
        stated = "end_reason" in jobs or not classes.isdisjoint(names)
        return fails or stated or source.reader == "fault_events"
    return fails and not {"status", "submit_s"} & jobs.keys()


def _can_be(target: str, name: str, column: str, proposal: Proposal) -> bool:
    """Return whether the values fit a name with two meanings, such as ``card``."""
    numbers = proposal.numbers(column)
    if name in known.NOT_ALWAYS_TIMES and numbers is not None:
        return median(numbers) > known.YEAR_2000
    if target == "downtime_s":  # a repair time may be a date
        return not proposal.texts(column).str.contains(r"\d[-/.]\d+[-/.]\d").any()
    if target == "user":  # what differs in each row is no user
        texts = proposal.texts(column).drop_nulls()
        return texts.n_unique() < max(len(texts), _FEW)
    if target not in ("gpus", "gpu_type"):
        return target != "nodes" or numbers is not None  # else their names
    if not all(name in known.JOBS[kind].split() for kind in ("gpus", "gpu_type")):
        return target == "gpus" or numbers is None
    first = str(proposal.texts(column).drop_nulls().first() or "")
    both = target == "gpus" and re.search(known.GPU_COUNT, first) is not None
    return both or (numbers is None) == (target == "gpu_type")


def _assign_codes(matched: dict[str, str], proposal: Proposal) -> dict[str, str]:
    column = matched.get("exit_code")
    if column and "status" not in matched and proposal.numbers(column) is None:
        words = proposal.texts(column).drop_nulls()
        if not words.str.contains(r"^\d+:\d+$").any():
            matched = {name: at for name, at in matched.items() if name != "exit_code"}
            matched["status"] = column
    return matched


def _complete(table: str, matched: dict[str, str], source: Source, proposal: Proposal) -> None:
    """Add what a table needs and no column states, and note what does not fit together."""
    if table in ("jobs", "faults"):
        if table == "jobs":
            known.propose_reason(matched, proposal)
            known.split_gpus(matched, proposal)
            _complete_jobs(matched, source, proposal)
        _compare_times(proposal)
        return
    if "job_id" not in matched and table in ("worker_samples", "operations"):
        proposal.lines.insert(0, 'job_id = "file_name"')
    if table == "worker_samples" and "worker_id" not in matched:
        proposal.lines.insert(0, "worker_id = \"'0'\"")
        proposal.lines.insert(0, "# unsure: no column names the worker; one worker is taken")
    for target in ("dp_rank", "stage") if table == "operations" else ():
        if target not in matched:
            proposal.add(target, '"0"', f"no column names the {target}; 0 is taken")


def _status_by_content(source: Source, jobs: dict[str, str], proposal: Proposal) -> dict[str, str]:
    """Take a column of which most values are known as a status, where none has such a name."""
    if "status" in jobs:
        return jobs
    forms = "|".join(f"(?:{form})" for form in known.STATUSES.values())
    for name in source.columns:
        if name in jobs.values() or proposal.numbers(name) is not None:
            continue
        words = proposal.texts(name).drop_nulls().str.to_lowercase()
        fits = words.str.contains(forms).sum() >= known.MOST * len(words)
        if len(words) and words.n_unique() <= _MOST_STATUSES and fits:
            proposal.doubt(f"{name} is taken as the status for its values")
            return {**jobs, "status": name}
    return jobs


def _complete_jobs(matched: dict[str, str], source: Source, proposal: Proposal) -> None:
    code = matched.get("exit_code")
    if code and "status" not in matched and proposal.numbers(code) is not None:
        values = '{ 0 = "completed", "*" = "failed" }'
        doubt = "no column names the status; an exit code of 0 is taken as completed"
        proposal.add("status", f"{{ column = {json.dumps(code)}, values = {values} }}", doubt)
    if "job_id" in matched or _find_distinct(matched, source, proposal):
        _note_repeated(matched, source, proposal)


def _find_distinct(matched: dict[str, str], source: Source, proposal: Proposal) -> bool:
    """Take a column with another value in each row as the job's id; False where there is none."""
    cells = proposal.cells
    distinct = [
        name
        for name in source.columns
        if name not in matched.values()
        and cells[name].dtype == pl.String
        and cells[name].null_count() == 0
        and cells[name].n_unique() == cells.height > 1
    ]
    if distinct:
        matched["job_id"] = distinct[0]
        proposal.lines[:0] = [
            f"# unsure: {distinct[0]} is taken for its values differ",
            f"job_id = {json.dumps(distinct[0])}",
        ]
        return True
    if not matched:
        raise DataError(
            f"{source.label}: no column has a name that is known, or another value in each "
            "row, as a job's id has; write the mapping (see: Map your own file)"
        )
    proposal.lines.insert(0, "# unsure: no column identifies a job; the row number does")
    return False


def _note_repeated(matched: dict[str, str], source: Source, proposal: Proposal) -> None:
    """Note rows that repeat a job's id; where they are few, row numbers identify the rows."""
    column = matched["job_id"]
    seen, rows, repeated = KeyFilter(["id"]), 0, 0
    for block in source.rows.blocks({column: "text"}):
        ids = block.cells[column].drop_nulls().alias("id").to_frame()
        rows += ids.height
        repeated += seen.split(ids)[1].height
    if not repeated:
        return
    doubt = "a job_id, and are rejected: does each row describe a whole job?"
    if repeated <= _MOST_REPEATED * rows:
        doubt = f"{column}, so row numbers identify the rows"
        proposal.lines.remove(f"job_id = {json.dumps(column)}")
        del matched["job_id"]
    proposal.lines.insert(0, f"# unsure: {repeated:,} of {rows:,} rows repeat {doubt}")


def _compare_times(proposal: Proposal) -> None:
    seconds = proposal.seconds
    for first, second in (("submit_s", "start_s"), ("start_s", "end_s")):
        if first not in seconds or second not in seconds:
            continue
        hours = ((seconds[second] - seconds[first]) / 3600).drop_nulls()
        negative = float((hours < 0).mean() or 0.0) if len(hours) else 0.0  # type: ignore[arg-type]
        if negative > 1 - known.MOST:
            proposal.doubt(
                f"{second} is before {first} in {negative:.0%} of the rows (median "
                f"{median(hours):.2g} h): one of them may be local time, the other UTC"
            )
    if {"runtime_s", "start_s", "end_s"} <= seconds.keys():
        excess = seconds["end_s"] - seconds["start_s"] - seconds["runtime_s"]
        shifted = int((excess.abs() == 3600).sum())
        if shifted and shifted < (1 - known.MOST) * len(excess):
            proposal.doubt(
                f"end minus start differs from the runtime by exactly 1 h in {shifted:,} "
                "rows: local times across a change of daylight saving time; state the timezone"
            )
