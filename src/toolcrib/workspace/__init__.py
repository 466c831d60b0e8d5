"""The workspace tools: files, search, commands, pages, tasks and sub-agents, all within one directory."""
