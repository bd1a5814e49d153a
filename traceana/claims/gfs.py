"""GFS: spot instances, cluster-trace-gpu-v2026 of alibaba/clusterdata."""
