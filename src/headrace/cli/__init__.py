"""The command line: the folder tree is the command tree. A command parses, calls and prints; the work is elsewhere."""
