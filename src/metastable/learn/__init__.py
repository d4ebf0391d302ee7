"""Training and control: teacher and student, sensitivities, steering."""
