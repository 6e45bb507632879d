"""The life of an attempt, from its dispatch to the moment when nothing is owed any more: a table, and who carries it out."""
