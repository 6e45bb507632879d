"""What the command lines of spurproc have in common: answers as values, two ways out for them, and no traceback for anybody.

`entry` is how a program begins; `frame` runs a command and prints what it returns; `answer` is that; `output` and `render` make
JSON or text of it; `escape` lets nothing out that moves a cursor. Each program has its own commands and exit codes.
"""
