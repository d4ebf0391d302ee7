"""Our own small networks: a transformer, recurrent ones, their tasks, training and files."""
