"""The `turnstile` command: one file a subcommand, which parses, calls one function and prints."""
