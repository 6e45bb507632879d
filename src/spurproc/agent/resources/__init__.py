"""Who holds what of a node: what a job asks for, what it got, and the table that gives nothing away twice. Pure."""
