"""Questions about a trace, one package each: tables, computation, figures and sections."""
