"""Callers as people know them: the log knows the holder of a token by its id, a person by the name it was given."""

from toolcrib.stores.tokens import TokenBook

KIND = "token:"


class CallerNames:
    """Reads the names of tokens, also of those that have ended; a new one counts from the next look on."""

    def __init__(self, tokens: TokenBook) -> None:
        self._tokens = tokens

    def name_of(self, caller: str) -> str:
        """The name of whoever holds a token; everybody else is called by their id."""
        name = self._tokens.names().get(caller.removeprefix(KIND)) if caller.startswith(KIND) else None
        return name or caller

    def ids_of(self, name: str) -> list[str]:
        """Everybody a name stands for."""
        return [KIND + token for token, known in self._tokens.names().items() if known == name]
