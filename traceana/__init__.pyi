from .analysis import *
from .catalog import fetch as fetch
from .catalog import list_traces as list_traces
from .claims import check_claims as check_claims
from .errors import TraceanaError as TraceanaError
from .exchange import anonymize as anonymize
from .exchange import export_tables as export_tables
from .exchange import select_jobs as select_jobs
from .report import build_report as build_report
from .report import write_figures as write_figures
from .simulate import compare_clusters as compare_clusters
from .simulate import implied_throughput_ratio as implied_throughput_ratio
from .simulate import published_gains as published_gains
from .simulate import replay_batching as replay_batching
from .simulate import replay_operations as replay_operations
from .simulate import sample_training_path as sample_training_path
from .simulate import simulate_batching as simulate_batching
from .simulate import simulate_deadlines as simulate_deadlines
from .simulate import simulate_recurring as simulate_recurring
from .simulate import simulate_recurring_groups as simulate_recurring_groups
from .simulate import slowdown_by as slowdown_by
from .simulate import summarize_batching as summarize_batching
from .simulate import summarize_recurring as summarize_recurring
from .simulate import sweep_batching as sweep_batching
from .simulate import sweep_recurring as sweep_recurring
from .simulate import synthesize_deadlines as synthesize_deadlines
from .simulate import worker_slowdown as worker_slowdown
from .samples import write_sample as write_sample
from .ingesters import add_table as add_table
from .ingesters import ingest as ingest
from .ingesters import propose_mapping as propose_mapping
from .store import open_store as open_store
from .trace import Trace as Trace
from .trace import load as load
from .trace import open_sample as open_sample
from .trace import read as read
__version__: str

