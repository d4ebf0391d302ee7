"""Control: tokens and measures steered, clusters on demand, a layer against attention."""
