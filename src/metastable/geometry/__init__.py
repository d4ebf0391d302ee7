"""The sphere: named operations, harmonics of a measure, maxima of band-limited functions."""
