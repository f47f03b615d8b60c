"""Failed steps: their evidence, their likely causes and the dossier."""
