"""All processes of a job, whatever contains them: find, ask, signal, end."""
