SELECT body ->> 'tool' AS tool, count(*), max(body ->> 'time')
FROM entry
WHERE seq >= :first
    AND body ->> 'event' = 'call'
    AND body ->> 'time' >= :since
    AND ifnull(body ->> 'decision', '') NOT IN ('denied', 'hidden', 'held', 'unknown', 'refused')
GROUP BY tool
