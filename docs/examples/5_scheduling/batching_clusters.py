"""
Clusters of the published evaluation
====================================

Time under uniform, static and dynamic batch sizes.
"""

import traceana
from traceana.figures import plot_batching_clusters

ax = plot_batching_clusters(traceana.compare_clusters())
