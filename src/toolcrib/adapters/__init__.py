"""Adapters: a Crib's tools as the own tools of other agent frameworks, one module for each, with the same verbs.

``tools(crib)`` gives the framework's tools as they are now; where a framework has a container that is asked again for
each run, there is one of that, too. Importing a module imports its framework; nothing else here does.
"""
