SELECT seq, hash, body
FROM entry
WHERE seq > :after
    AND (:before IS NULL OR seq < :before)
    AND (:since IS NULL OR body ->> 'time' >= :since)
    AND (:until IS NULL OR body ->> 'time' < :until)
    AND (:tool IS NULL OR ifnull(body ->> 'tool', '') GLOB :tool)
    AND (:caller IS NULL OR ifnull(body ->> 'caller', '') GLOB :caller)
    AND (:outcome IS NULL OR ifnull(body ->> 'outcome', '') GLOB :outcome)
    AND (
        NOT :denied
        OR body ->> 'decision' IN ('denied', 'hidden', 'held', 'unknown', 'refused')
        OR body ->> 'outcome' = 'TOOL_PERMISSION_DENIED'
    )
ORDER BY seq DESC
