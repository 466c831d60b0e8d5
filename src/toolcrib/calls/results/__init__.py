"""Large results: what a model is shown of them, and how it reads the rest."""
