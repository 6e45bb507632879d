"""`spurproc-inspect`: look at processes, recorded runs and this host, by the core and with its words.

How a command is added:

1. A module with a `command` that is a `@click.command` (`spurproc.inspect.ending` is one to copy). Its first line of docstring is
   what `--help` lists. `TARGET` (`spurproc.inspect.target`) and `json_option` (`spurproc.command_line.output`) are the argument
   and the option that all share; `spurproc.inspect.held` turns a target into something held.
2. Its name and module in `COMMANDS` of `spurproc.inspect.main`. A module is imported when its command is called, and imports what
   is heavy (psutil, pyroute2, rich) inside of the function that uses it.
3. It returns an `Answer` (`spurproc.command_line.answer`): the fields of the JSON document, the same as blocks for people, the
   `ExitCode`. The frame prints it: names from outside are escaped there, so a command passes them on as they are. One that goes
   on printing while it runs uses `Stream` (`spurproc.command_line.output`), and returns its `ExitCode`.
4. What goes wrong is raised: any `SpurprocError`, `OSError` or `click.ClickException`. The frame prints one line and picks the
   exit code by the class, see `exit_code_of` in `spurproc.inspect.main`.
5. A row in the tables of docs/reference/inspect.md, and its place in the layers in pyproject.toml.
"""
