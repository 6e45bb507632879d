"""Tables, codecs and parsers: no kernel beyond temporary files."""
