SELECT waiting, CASE WHEN waiting < %(plenty)s THEN (
    SELECT count(DISTINCT worker) FROM toolcrib.kb_job
    WHERE fleet = %(fleet)s AND collection = %(collection)s AND adding = %(adding)s AND worker <> '') END
FROM (
    SELECT count(*) AS waiting FROM (
        SELECT FROM toolcrib.kb_job
        WHERE fleet = %(fleet)s AND collection = %(collection)s AND adding = %(adding)s AND worker = ''
        LIMIT %(plenty)s) AS few) AS counted
