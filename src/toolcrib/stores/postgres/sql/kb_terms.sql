SELECT wanted.block, wanted.term, p.terms, p.ends, p.held
FROM (SELECT block, term FROM unnest(%s::bigint[]) AS block, unnest(%s::text[]) AS term) AS wanted
CROSS JOIN LATERAL (
    SELECT terms, ends, held FROM toolcrib.kb_posting
    WHERE fleet = %s AND block = wanted.block AND first <= wanted.term ORDER BY first DESC LIMIT 1) AS p
