-- One look into each entry for all three fields; who groups by them separately reads every body three times.
SELECT what, count(*), max(seq)
FROM (SELECT seq, json_extract(body, '$.event', '$.decision', '$.tool') AS what FROM entry WHERE seq >= :first)
GROUP BY what
