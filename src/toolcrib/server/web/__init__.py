"""The page: server-rendered, readable without JavaScript."""
