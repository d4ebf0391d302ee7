"""What every part of the package stands on, and what knows none of them."""
