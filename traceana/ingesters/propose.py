"""Propose a mapping for a file from the names, types and values of its columns."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Final

import polars as pl

from traceana.errors import DataError, SourceError
from traceana.ingesters.convert import convert
from traceana.ingesters.files import CsvFile, list_csvs
from traceana.ingesters.mapping import parse_mapping
from traceana.ingesters.propose_columns import (
    CLOCKS,
    MOST,
    YEAR_2000,
    Proposal,
    median,
    propose_column,
)
from traceana.ingesters.readers.json import JsonList, lists_of, longest
from traceana.ingesters.readers.registry import get_reader, open_reader
from traceana.ingesters.source import Source, open_source
from traceana.ingesters.synonyms import (
    FAILING,
    FAULTS,
    JOBS,
    SIZE_UNITS,
    TIME_UNITS,
    WAITS,
    WORKER_SAMPLES,
    nested_names,
    split_unit,
)

if TYPE_CHECKING:
    from os import PathLike

    from traceana.ingesters.convert import Converted

_SAMPLE: Final = 20_000
_VALUE: Final = re.compile(r"[-+]?\d[-\d.:/ T]*")
_NO_CAPACITY: Final = (
    "# unsure: machines without a fault are not in the log; state the number of all machines:",
    "# [trace.capacity]",
    "# all = { nodes = 0, gpus_per_node = 8 }",
)
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

    Raises
    ------
    DataError
        If no column can be the key of a table.

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
    file = _single(Path(path))
    lists = _json_lists(file, reader)
    if len(lists) > 1:
        file = replace(file, rows=longest(lists).path)
    source = open_source(file, reader=reader)
    if not all(name.isprintable() for name in source.columns):
        raise SourceError(f"{path}: its first line is not text; expected the names of columns")
    known = get_reader(source.reader).mapping
    if known:
        return f"# files of the format {source.reader} need no mapping; this one is used\n{known}"
    proposal = Proposal(_sample(source))
    samples, jobs = (_match(source, names, proposal) for names in (WORKER_SAMPLES, JOBS))
    if not samples | jobs and (value := next(filter(_VALUE.fullmatch, source.columns), None)):
        raise DataError(
            f"{source.label}: its first line has values such as {value!r}, not names of columns; "
            "put a line of names before it"
        )
    table, matched = _choose_table(source, samples, jobs, proposal)
    label = "".join(c if c.isprintable() else repr(c)[1:-1] for c in source.label)
    head = [f'# proposed from {label}; check what is marked "unsure"', "[trace]"]
    head += [f"title = {json.dumps(source.literals['file_name'])}", f'reader = "{source.reader}"']
    if file.rows is not None:
        paths = ", ".join(one.path for one in lists if one.path != file.rows)
        head.append(f"# unsure: the longest list of objects is taken; others: {paths}")
        head.append(f"rows = {json.dumps(file.rows)}")
    for target, column in matched.items():
        propose_column(target, column, proposal)
    keep: list[str] = []
    if table == "worker_samples":
        _complete_samples(samples, proposal)
        others = [name for name in source.columns if name not in samples.values()]
        keep = [name for name in others if name not in WORKER_SAMPLES and name != "gpus"]
    elif table == "jobs":
        _complete_jobs(matched, source, proposal)
    if table != "worker_samples":
        _compare_times(proposal)
    naive = [c for t, c in matched.items() if t in CLOCKS and _lacks_zone(c, source, proposal)]
    if naive:
        head.append(f"# unsure: {naive[0]} states no time zone; write the log's, if it is not UTC")
        head.append('timezone = "UTC"')
    head += _NO_CAPACITY if table == "faults" else ()
    if keep:
        head.append(f"keep = {json.dumps(keep)}")
    used = set(matched.values())
    unused = [json.dumps(name) for name in source.columns if name not in used and name not in keep]
    tail = [f"# not used: {', '.join(unused)}"] if unused else []
    numbers = [name for name in keep if proposal.numbers(name) is not None]
    if numbers:
        tail += ["", f"[{table}.source]"]
        tail += [f'{json.dumps(name)} = {{ type = "number" }}' for name in numbers]
    text = "\n".join([*head, "", f"[{table}]", *proposal.lines, *tail]) + "\n"
    parse_mapping(text, where="the proposed mapping")
    return text


def preview_mapping(path: str | PathLike[str], text: str, /) -> dict[str, Converted]:
    """Run a mapping on the beginning of a file: by table, rows kept and rejected.

    Examples
    --------
    >>> import polars as pl, tempfile
    >>> from traceana.ingesters import preview_mapping, propose_mapping
    >>> path = f"{tempfile.mkdtemp()}/march.csv"
    >>> pl.DataFrame({"job": ["a", "b"], "gpus": [2, 4], "runtime": [60, 90]}).write_csv(path)
    >>> preview = preview_mapping(path, propose_mapping(path))
    >>> list(preview)
    ['jobs']
    """
    mapping = parse_mapping(text, where="the proposed mapping")
    file = replace(_single(Path(path)), rows=mapping.rows)
    source = open_source(file, reader=mapping.reader, timezone=mapping.timezone)
    found = {}
    keep = dict.fromkeys(mapping.keep, pl.String())
    for name in mapping.tables:
        compiled = source.compiled(mapping, name, keep)
        block = next(iter(source.rows.blocks(compiled.kinds)), None)
        if block is not None:
            parts = [part for _, part in convert(block, compiled)]
            kept, rejected = (
                pl.concat([getattr(part, field) for part in parts])
                for field in ("kept", "rejected")
            )
            found[name] = replace(parts[0], kept=kept, rejected=rejected)
    return found


def _json_lists(file: CsvFile, reader: str | None) -> list[JsonList]:
    """Return the lists of objects in a JSON file; none in a file of another format."""
    chosen = open_reader(file, reader)
    return lists_of(file) if chosen.name == "json" else []


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
        return block.cells.head(_SAMPLE)
    reason = ""
    if block and block.bad.height:
        _, rule, text = block.bad.row(0)
        reason = f" ({rule}: {text[:60]!r}, where the header names {len(source.columns)} columns)"
    raise SourceError(f"{source.label}: no row in its beginning can be read{reason}")


def _match(source: Source, synonyms: dict[str, str], proposal: Proposal) -> dict[str, str]:
    """Return the column of the source for each column of a table, by the names.

    Where a name has two meanings, the values decide.
    """
    fits = []
    for column in source.columns:
        if len(re.findall(r"\.(?:first|last)\.", column)) > 1:
            continue  # of lists in lists neither is the whole
        for name, extra in nested_names(column).items():
            plain = split_unit(name, {})[0]
            bases = {plain, *(split_unit(name, units)[0] for units in (TIME_UNITS, SIZE_UNITS))}
            for order, (target, known) in enumerate(synonyms.items()):
                names = known.split()
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
    """Return the table that a source is for, and its columns by those of the table."""
    is_steps = "batch_time" in samples and not {"status", "submit_s"} & jobs.keys()
    if is_steps and ("step" in samples or {"worker_id", "time_s"} <= samples.keys()):
        return "worker_samples", samples
    faults = _match(source, FAULTS, proposal) if _is_fault_log(source, jobs) else {}
    if {"machine_id", "start_s"} <= faults.keys():
        return "faults", faults
    return "jobs", _assign_codes(jobs, proposal)


def _is_fault_log(source: Source, jobs: dict[str, str]) -> bool:
    """Return whether the columns are those of failures of machines, and not of jobs."""
    names = [split_unit(name, {})[0] for name in source.columns]
    of_jobs = any("job" in name for name in names) or {"status", "submit_s"} & jobs.keys()
    return not of_jobs and any(re.search(FAILING, name) for name in names)


def _can_be(target: str, name: str, column: str, proposal: Proposal) -> bool:
    """Return whether the values fit a name with two meanings, such as ``card``."""
    if target not in ("gpus", "gpu_type", "submit_s", "downtime_s"):
        return True
    numbers = proposal.numbers(column)
    if target == "downtime_s":  # a repair time may be a date
        return not proposal.texts(column).str.contains(r"\d[-/.]\d+[-/.]\d").any()
    if target == "submit_s":
        return name not in WAITS or numbers is None or median(numbers) > YEAR_2000
    if not all(name in JOBS[one].split() for one in ("gpus", "gpu_type")):
        return True
    return (numbers is None) == (target == "gpu_type")


def _assign_codes(matched: dict[str, str], proposal: Proposal) -> dict[str, str]:
    """Take words among exit codes for the status."""
    column = matched.get("exit_code")
    if column and "status" not in matched and proposal.numbers(column) is None:
        words = proposal.texts(column).drop_nulls()
        if not words.str.contains(r"^\d+:\d+$").any():
            matched = {name: at for name, at in matched.items() if name != "exit_code"}
            matched["status"] = column
    return matched


def _complete_samples(matched: dict[str, str], proposal: Proposal) -> None:
    if "job_id" not in matched:
        proposal.lines.insert(0, 'job_id = "file_name"')
    if "worker_id" not in matched:
        proposal.lines.insert(0, "worker_id = \"'0'\"")
        proposal.lines.insert(0, "# unsure: no column names the worker; one worker is taken")


def _complete_jobs(matched: dict[str, str], source: Source, proposal: Proposal) -> None:
    cells = proposal.cells
    code = matched.get("exit_code")
    if code and "status" not in matched and proposal.numbers(code) is not None:
        values = '{ 0 = "completed", "*" = "failed" }'
        doubt = "no column names the status; an exit code of 0 is taken as completed"
        proposal.add("status", f"{{ column = {json.dumps(code)}, values = {values} }}", doubt)
    if "job_id" not in matched:
        distinct = [
            n
            for n in source.columns
            if cells[n].n_unique() == cells.height and cells[n].dtype == pl.String
        ]
        if not distinct:
            raise DataError(
                f"{source.label}: no column has another value in each row, as a job's id has, and "
                "none has the name of a step's time; write the mapping (see: Map your own file)"
            )
        matched["job_id"] = distinct[0]
        proposal.lines[:0] = [
            f"# unsure: {distinct[0]} is taken for its values differ",
            f"job_id = {json.dumps(distinct[0])}",
        ]
    elif (repeated := cells.height - cells[matched["job_id"]].n_unique()) > 0:
        proposal.lines.insert(
            0,
            f"# unsure: {repeated:,} of {cells.height:,} rows repeat a job_id, and are rejected",
        )


def _compare_times(proposal: Proposal) -> None:
    """Note times that cannot be of the same zone."""
    seconds = proposal.seconds
    for first, second in (("submit_s", "start_s"), ("start_s", "end_s")):
        if first not in seconds or second not in seconds:
            continue
        hours = ((seconds[second] - seconds[first]) / 3600).drop_nulls()
        negative = float((hours < 0).mean() or 0.0) if len(hours) else 0.0  # type: ignore[arg-type]
        if negative > 1 - MOST:
            proposal.lines.append(
                f"# unsure: {second} is before {first} in {negative:.0%} of the rows (median "
                f"{median(hours):.2g} h): one of them may be local time, the other UTC"
            )
    if {"runtime_s", "start_s", "end_s"} <= seconds.keys():
        excess = seconds["end_s"] - seconds["start_s"] - seconds["runtime_s"]
        shifted = int((excess.abs() == 3600).sum())
        if shifted and shifted < (1 - MOST) * len(excess):
            proposal.lines.append(
                f"# unsure: end minus start differs from the runtime by exactly 1 h in {shifted:,} "
                "rows: local times across a change of daylight saving time; state the timezone"
            )


def _lacks_zone(column: str, source: Source, proposal: Proposal) -> bool:
    dtype = source.types.get(column)
    if dtype is not None and dtype.is_temporal():
        return getattr(dtype, "time_zone", None) is None
    zoned = proposal.texts(column).drop_nulls().str.contains(r"(Z|[+-]\d{2}:?\d{2})$")
    return proposal.numbers(column) is None and not zoned.all()
