INSERT INTO toolcrib.lease AS l (fleet, name, token, until)
VALUES (%(fleet)s, %(name)s, %(token)s, clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (fleet, name) DO UPDATE SET token = excluded.token, until = excluded.until
WHERE l.token = excluded.token OR l.until <= clock_timestamp()
RETURNING 1
