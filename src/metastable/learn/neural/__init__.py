"""Networks as flows: neural ODEs, residual layers, heads as approximators."""
