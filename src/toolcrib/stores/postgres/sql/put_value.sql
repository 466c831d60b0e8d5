INSERT INTO toolcrib.kept_value (fleet, key, value, until)
VALUES (%(fleet)s, %(key)s, %(value)s, clock_timestamp() + make_interval(secs => %(seconds)s))
ON CONFLICT (fleet, key) DO UPDATE SET value = excluded.value, until = excluded.until
