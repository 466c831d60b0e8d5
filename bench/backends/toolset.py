"""A catalogue like those of public MCP servers: ``echo``, and as many more tools as asked for in five shapes."""

from typing import Any

Schema = dict[str, Any]

SEARCH: Schema = {
    "type": "object",
    "properties": {
        "query": {
            "type": "string",
            "description": "Free-text query; supports quoted phrases and -exclusions.",
            "minLength": 1,
            "maxLength": 512,
        },
        "limit": {
            "type": "integer",
            "minimum": 1,
            "maximum": 100,
            "default": 20,
            "description": "Maximum number of hits to return.",
        },
        "filters": {
            "type": "object",
            "properties": {
                "language": {"type": "string", "enum": ["en", "de", "fr", "es", "ja"]},
                "updated_after": {"type": "string", "format": "date-time"},
                "tags": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
            },
            "additionalProperties": False,
        },
        "sort": {"type": "string", "enum": ["relevance", "created", "updated"], "default": "relevance"},
    },
    "required": ["query"],
    "additionalProperties": False,
}
ISSUE: Schema = {
    "type": "object",
    "properties": {
        "owner": {"type": "string", "description": "Repository owner (user or organisation)."},
        "repo": {"type": "string", "description": "Repository name."},
        "title": {"type": "string", "minLength": 1, "maxLength": 256},
        "body": {"type": "string", "description": "Markdown body of the issue."},
        "labels": {"type": "array", "items": {"type": "string"}},
        "assignees": {"type": "array", "items": {"type": "string"}, "maxItems": 10},
        "milestone": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
    },
    "required": ["owner", "repo", "title"],
    "additionalProperties": False,
}
SQL: Schema = {
    "type": "object",
    "properties": {
        "sql": {"type": "string", "description": "A single read-only SELECT statement."},
        "params": {
            "type": "array",
            "items": {"anyOf": [{"type": "string"}, {"type": "number"}, {"type": "boolean"}, {"type": "null"}]},
        },
        "timeout_ms": {"type": "integer", "minimum": 1, "maximum": 60000, "default": 5000},
    },
    "required": ["sql"],
}
EVENT: Schema = {
    "type": "object",
    "properties": {
        "calendar_id": {"type": "string"},
        "summary": {"type": "string"},
        "start": {"$ref": "#/$defs/when"},
        "end": {"$ref": "#/$defs/when"},
        "attendees": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "email": {"type": "string", "format": "email"},
                    "optional": {"type": "boolean", "default": False},
                },
                "required": ["email"],
            },
        },
    },
    "required": ["calendar_id", "summary", "start", "end"],
    "$defs": {
        "when": {
            "type": "object",
            "properties": {
                "date_time": {"type": "string", "format": "date-time"},
                "time_zone": {"type": "string", "default": "UTC"},
            },
            "required": ["date_time"],
        }
    },
}
EDIT: Schema = {
    "type": "object",
    "properties": {
        "path": {"type": "string", "description": "Path relative to the workspace root."},
        "edits": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "properties": {
                    "old_text": {"type": "string"},
                    "new_text": {"type": "string"},
                    "count": {"type": "integer", "minimum": 1},
                },
                "required": ["old_text", "new_text"],
                "additionalProperties": False,
            },
        },
        "dry_run": {"type": "boolean", "default": False},
    },
    "required": ["path", "edits"],
    "additionalProperties": False,
}
SHAPES = (
    ("search", SEARCH, "Search the knowledge base and return the best matching documents with snippets and scores."),
    ("create_issue", ISSUE, "Create a new issue in a repository. Requires write access to the repository."),
    ("run_query", SQL, "Run a read-only SQL query against the analytics warehouse and return rows as JSON."),
    ("create_event", EVENT, "Create a calendar event, inviting the listed attendees."),
    ("edit_file", EDIT, "Apply a list of exact-match text edits to a file and return a unified diff."),
)
ECHO = {
    "name": "echo",
    "description": "Echo the message back unchanged.",
    "inputSchema": {
        "type": "object",
        "properties": {
            "message": {"type": "string", "description": "Text to echo."},
            "repeat": {"type": "integer", "minimum": 1, "maximum": 10, "default": 1},
        },
        "required": ["message"],
    },
}


def make_tools(count: int) -> list[dict[str, Any]]:
    return [ECHO, *(_variant(number) for number in range(1, count))]


def _variant(number: int) -> dict[str, Any]:
    name, schema, about = SHAPES[number % len(SHAPES)]
    return {
        "name": f"{name}_{number:03d}",
        "description": f"{about} (variant {number})",
        "inputSchema": schema,
        "annotations": {"readOnlyHint": number % 2 == 0, "openWorldHint": False},
    }
