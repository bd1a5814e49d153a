"""Names that columns of job logs and step times commonly have, and values of their status."""

from __future__ import annotations

import re
from typing import Final

JOBS: Final = {
    "job_id": "job_id jobid job_number job_no job task_id app_id request_id submission_id run_id "
    "trial_id experiment_id pod_name job_uuid collection_id "
    "instance_id instance_sn uuid id name job_name",
    "user": "user who username user_name user_id userid uid owner submitter submitted_by euser "
    "job_owner job_user login author email nutzer benutzer",
    "account": "account project project_id project_name team tenant organization cost_center vc "
    "egroup workspace workspace_name namespace department entity",
    "queue": "queue partition queue_name pool resource_pool qname job_queue node_pool",
    "cluster": "cluster cluster_id cluster_name site datacenter region",
    "qos": "qos qos_class service_class",
    "job_name": "job_name jobname task_name name title command run_name display_name "
    "experiment experiment_name entrypoint",
    "workload": "model workload framework application app executable task_type job_type",
    "status": "status state final_status job_status job_state final_state phase result outcome "
    "stat job_stat run_state run_status exit_state final_event zustand",
    "end_reason": "end_reason reason failure_reason exit_reason termination_reason error_reason",
    "exit_code": "exit_code exitcode return_code exit_status rc",
    "submit_s": "submit_s submit submit_time submitted submitted_at submission_time "
    "submitted_time submit_ts submission creation_time created created_at create_time queued_at "
    "queue_time_start arrival_time arrival enqueue_time queued enqueued enqueued_at queued_time "
    "queue_time enqueued_time qtime ctime creation_timestamp time_submitted submit_date submit_at "
    "timestamp eingereicht eingereicht_at eingereicht_am",
    "start_s": "start_s start start_time started started_at begin began begin_time start_ts "
    "launch_time run_start scheduled_time started_time scheduled_at dispatch_time dispatched_at "
    "launched_at launched stime start_at start_date start_timestamp exec_start run_started "
    "schedule_time gestartet gestartet_at gestartet_am beginn startzeit",
    "end_s": "end_s end end_time ended ended_at finished finish finish_time finished_at stop_time "
    "completion_time completed_at end_ts stopped_at finished_time deletion_time end_at end_date "
    "end_timestamp completion_timestamp completed_time finish_ts terminated_at termination_time "
    "beendet beendet_at beendet_am ende endzeit",
    "runtime_s": "runtime_s runtime run_time duration elapsed elapsed_time wall_time "
    "resources_used_walltime walltime wallclock execution_time run_duration job_duration "
    "duration_time elapsed_raw wall_clock_time wallclock_time wall_clock time_used job_runtime "
    "running_time laufzeit dauer",
    "time_limit_s": "time_limit_s time_limit timelimit resource_list_walltime walltime_limit "
    "requested_time timeout max_runtime time_requested wall_limit requested_walltime "
    "requested_wall_time req_walltime max_walltime run_limit runlimit time_req",
    "gpus": "gpus gpu num_gpus num_gpu n_gpus n_gpu ngpus ngpu gpu_count gpu_num gpus_requested "
    "requested_gpus req_gpus gpu_request allocated_gpus alloc_gpus gpu_cnt num_accel accel_count "
    "num_accelerators accelerators accelerator_count num_devices device_count resource_list_ngpus "
    "gpus_allocated used_gpus gpus_used gpus_per_job gpu_config gpu_configuration "
    "gpu_request_spec gpu_alloc total_gpus gpu_number cards num_cards card_num card_count devices "
    "card accelerator device",
    "gpu_type": "gpu_type gpu_model gpu_name accelerator gpu_spec accelerator_type gputype "
    "card_type card_model card_name accelerator_model accelerator_name device_type device_name "
    "device_model gpu_product gpu_kind gpu card device",
    "cpus": "cpus cpu num_cpus num_cpu n_cpus ncpus cpu_count cpu_num cores num_cores n_cores "
    "ncores cpu_cores vcpus v_cpu v_cpus req_cpus requested_cpus alloc_cpus cpu_request cpu_milli "
    "resource_list_ncpus cpus_allocated vcpu processors procs num_procs",
    "memory_gib": "memory_gib memory mem ram requested_memory req_mem mem_req memory_request "
    "mem_request memory_requested mem_limit resource_list_mem reqmem allocated_memory alloc_memory "
    "memory_limit",
    "memory_gib_used": "memory_gib_used max_rss maxrss peak_memory mem_used memory_used "
    "used_memory memory_peak peak_mem resources_used_mem max_mem max_memory peak_rss mem_peak rss",
    "nodes": "nodes num_nodes num_node n_nodes nnodes node_count node_num req_nodes "
    "resource_list_nodect nodect num_hosts nhosts host_count num_machines "
    "knoten",
    "priority": "priority prio",
    "restarts": "restarts retries retry_count num_retries restart_count requeues num_restarts "
    "requeue_count",
    "cpu_time_s": "cpu_time_s cpu_time total_cpu cputime resources_used_cput cput cpu_used",
    "energy_j": "energy_j energy_joules energy",
    "gpu_utilization": "gpu_utilization gpu_util avg_gpu_util mean_gpu_util gpu_usage",
    "array_id": "array_id array_job_id",
}
"""By column of ``jobs``, names without unit, the most specific first."""

GPU_COUNT: Final = r"^\s*(?:(\d+)\s*[x\u00d7*]\s*(\S.*)|(\S.*?)\s*[x\u00d7*:]\s*(\d+))\s*$"
"""A type of GPU and their number in one cell: 4x A100, A100-80G x4, a100:4."""

HOSTS: Final = ("host", "hosts", "hostname", "node_name", "nodename", "node_list", "machine")
"""Names of the machines of a job, which are kept as ``node``."""

WAITS: Final = ("queued", "queued_time", "queue_time", "enqueued")
"""Names of a time of submission that may also be that of a wait."""

WORKER_SAMPLES: Final = {
    "job_id": "job_id jobid job run_id run experiment",
    "worker_id": "worker_id worker rank global_rank rank_id process process_index trainer gpu_rank",
    "step": "step global_step iteration iter step_id training_step iteration_id",
    "time_s": "time_s timestamp ts wall_clock unix_time",
    "host": "host hostname node node_name machine",
    "batch_time": "compute_time compute forward_backward fwd_bwd batch_time batch_time_s step_time "
    "iter_time iteration_time seconds step_seconds duration elapsed step_duration "
    "time_per_step time latency",
}
"""By column of ``worker_samples``; of several times the one before the barrier is first."""

OPERATIONS: Final = {
    "job_id": "job_id jobid job run_id run experiment",
    "step": "step global_step iteration iter step_id training_step iteration_id",
    "worker_id": "worker_id rank global_rank rank_id worker process gpu_rank",
    "dp_rank": "dp_rank dp data_parallel_rank dp_id",
    "stage": "stage pp_rank pp pp_stage pipeline_stage pipeline_rank stage_id",
    "kind": "kind optype op_type operation_type operation op op_name name event",
    "start_s": "start_s start_ts start start_time begin timestamp ts",
    "duration_s": "duration_s duration dur elapsed",
    "sequence": "sequence seq_id seq sequence_id",
    "micro_batch": "micro_batch mb_id microbatch micro_batch_id mb",
    "chunk": "chunk mc model_chunk chunk_id",
    "global_chunk": "global_chunk gmc global_model_chunk",
}
"""By column of ``operations``, names without unit."""

FAULTS: Final = {
    "machine_id": "machine_id machine machine_name node_id node node_name nodename nodenum "
    "node_number host hostname host_name server server_id server_name",
    "start_s": "start_s failure_start fault_start prob_started problem_started down_since "
    "failure_time fault_time fail_time failed failed_at failure_date down_at start_time start "
    "started started_at time_start event_time timestamp time date detected detected_at occurred_at",
    "end_s": "end_s failure_end fault_end prob_fixed problem_fixed fixed fixed_at repaired "
    "repaired_at resolved resolved_at recovered recovered_at end_time end ended_at time_end "
    "up_at recovery_time repair_time",
    "downtime_s": "downtime_s downtime down_time ttr time_to_repair repair_time repair_duration "
    "outage_duration outage duration elapsed",
    "class": "class root_cause cause category failure_type fault_type failure_class fault_class "
    "component subsystem error_type type",
    "description": "description desc reason message details detail symptom error comment notes",
    "level": "level",
}
"""By column of ``faults``, names without unit."""

FAILING: Final = r"fail|fault|down_?time|repair|fixed|root_cause|outage"
"""Part of the name of a column that only a fault log has."""

STATUSES: Final = {
    "completed": r"complet|succe|done|finish|pass|^ok$|^cd$|^0$|^fertig",
    "cancelled": r"cancel|abort|kill|stopped|revoked|preempt|deleted|^ca$|^abgebroch",
    "failed": r"fail|err|time_?out|oom|out_of_mem|crash|exception|deadline|_lost|lost_|evict|^f$|"
    "^to$|^fehl",
    "running": r"running|active|started|executing|^r$|^läuft|^laufend",
    "pending": r"pend|queue|wait|submitted|scheduled|created|^pd$|^q$|^wartend",
}
"""Statuses by what their values contain, in small letters; the first that fits."""

TIME_UNITS: Final = {
    "ns": "ns nanos nanoseconds",
    "us": "us micros microseconds",
    "ms": "ms millis milliseconds msec msecs",
    "s": "s sec secs second seconds",
    "min": "min mins minute minutes",
    "h": "h hr hrs hour hours",
    "d": "d day days",
}
SIZE_UNITS: Final = {
    "B": "b byte bytes",
    "KiB": "k kb kib",
    "MiB": "m mb mib",
    "GiB": "g gb gib",
    "TiB": "t tb tib",
}


def split_unit(name: str, units: dict[str, str], /) -> tuple[str, str | None]:
    """Return a column's name in snake case without its unit, and the unit."""
    plain = re.sub(r"([KMGT])iB\b", r"_\1ib", name.rpartition(".")[2])
    plain = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain)
    plain = re.sub(r"[^a-z0-9]+", "_", plain.lower().replace("(s)", "")).strip("_")
    plain = re.sub(r"_(?:in|epoch|unix|utc|local)(?=_|$)", "", plain)
    base, _, last = plain.rpartition("_")
    for unit, words in units.items():
        if base and last in words.split():
            return base, unit
    return plain, None


def nested_names(name: str, /) -> dict[str, int]:
    """Return what a column may be called, each with a rank: its name, that with the outer one."""
    *outer, last = name.split(".")
    if not outer:
        return {name: 0}
    generic = last in ("count", "id", "name", "type", "value")
    names = {name: 50 if generic else 0, f"{outer[-1]}_{last}": 0}
    return names | ({outer[-1]: 1} if last in ("id", "name", "value") else {})
