"""What everything stands on, and nothing of the subject."""
