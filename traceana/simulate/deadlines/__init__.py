"""Training plans drawn for any jobs table as the ElasticFlow files show they were drawn."""
