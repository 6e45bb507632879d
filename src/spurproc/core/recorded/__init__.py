"""Runs that outlive their launcher: the folder, the record, the recorder."""
