SELECT seq, hash, body
FROM entry
WHERE seq > :after
    AND (:before IS NULL OR seq < :before)
    AND (:since_us IS NULL OR body ->> 'time' >= :since_us)
    AND (:until_us IS NULL OR body ->> 'time' < :until_us)
    AND (:event IS NULL OR body ->> 'event' = :event)
    AND (:execution IS NULL OR body ->> 'execution_id' = :execution)
    AND (:tool IS NULL OR ifnull(body ->> 'tool', '') GLOB :tool)
    AND (:caller IS NULL OR ifnull(body ->> 'caller', '') GLOB :caller)
    AND (
        :outcome IS NULL
        OR (:outcome = 'failed' AND ifnull(body ->> 'outcome', 'success') <> 'success')
        OR ifnull(body ->> 'outcome', '') GLOB :outcome
    )
    AND (
        NOT :denied
        OR body ->> 'decision' IN ('denied', 'hidden', 'held', 'unknown', 'refused')
        OR body ->> 'outcome' = 'TOOL_PERMISSION_DENIED'
    )
ORDER BY seq DESC
