-- One text for all values of a column: taking lists apart costs the server less than it costs Python to send them.
WITH added AS (
    INSERT INTO toolcrib.audit_entry
        (fleet, seq, hash, body, time, event, tool, caller, execution, decision, outcome)
    SELECT
        $1,
        $2::bigint + number - 1,
        substr($3::bytea, number::integer * 32 - 31, 32),
        body,
        time::bigint,
        coalesce(event, ''),
        coalesce(tool, ''),
        coalesce(caller, ''),
        coalesce(execution, ''),
        coalesce(decision, ''),
        coalesce(outcome, '')
    FROM unnest(
        string_to_array($4, E'\x1e'),
        string_to_array($5, E'\x1e'),
        string_to_array($6, E'\x1e'),
        string_to_array($7, E'\x1e'),
        string_to_array($8, E'\x1e'),
        string_to_array($9, E'\x1e'),
        string_to_array($10, E'\x1e'),
        string_to_array($11, E'\x1e')
    ) WITH ORDINALITY AS given (body, time, event, tool, caller, execution, decision, outcome, number)
)
UPDATE toolcrib.audit_head SET seq = $12::bigint, hash = $13::bytea WHERE fleet = $1
