INSERT INTO toolcrib.parcel (fleet, body, until)
VALUES (%(fleet)s, %(body)s, clock_timestamp() + interval '1 minute')
RETURNING id
