"""The Crib: sources, catalog and layers in one, and how it is put together."""
