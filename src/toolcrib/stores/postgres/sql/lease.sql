-- Another's lease that would last longer than any is given for was given before the clock was set back: it is cut short.
INSERT INTO toolcrib.lease AS l (fleet, name, token, until)
VALUES (%(fleet)s, %(name)s, %(token)s, clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (fleet, name) DO UPDATE SET
    token = CASE WHEN l.until <= clock_timestamp() THEN excluded.token ELSE l.token END,
    until = excluded.until
WHERE l.token = excluded.token OR l.until <= clock_timestamp() OR l.until > excluded.until
RETURNING l.token = %(token)s
