SELECT wanted.number, -(v.embedding::halfvec({size}) <#> %s::halfvec({size}))
FROM unnest(%s::bigint[], %s::integer[]) WITH ORDINALITY AS wanted (document, ordinal, number)
JOIN toolcrib.kb_vector v ON v.fleet = %s AND v.vectors IN ({sets})
    AND v.document = wanted.document AND v.ordinal = wanted.ordinal
