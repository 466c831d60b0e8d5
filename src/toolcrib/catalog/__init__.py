"""One catalogue from many listings: merging, freshness, search. Never calls a tool."""
