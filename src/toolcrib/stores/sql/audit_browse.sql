SELECT seq, hash, body
FROM entry
WHERE (:before IS NULL OR seq < :before)
    AND (:since IS NULL OR body ->> 'time' >= :since)
    AND (:until IS NULL OR body ->> 'time' < :until)
    AND (:event IS NULL OR body ->> 'event' = :event)
    AND (:execution IS NULL OR body ->> 'execution_id' = :execution)
    AND (:tool IS NULL OR ifnull(body ->> 'tool', '') GLOB :tool)
    AND (:caller IS NULL OR ifnull(body ->> 'caller', '') GLOB :caller)
    AND (
        :outcome IS NULL
        OR (:outcome = 'failed' AND ifnull(body ->> 'outcome', 'success') <> 'success')
        OR ifnull(body ->> 'outcome', '') GLOB :outcome
    )
ORDER BY seq DESC
LIMIT :count
