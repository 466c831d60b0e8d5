"""Who comes: tokens, JWTs, cookies and sign-in."""
