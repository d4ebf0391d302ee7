"""What we expect: closed forms, each with its source and where it is valid."""
