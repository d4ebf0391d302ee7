"""Pages, one module for each kind of result; what they share is in `report.page`."""
