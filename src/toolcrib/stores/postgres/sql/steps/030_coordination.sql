-- What replicas agree on while they run. Counts, places and values are unlogged: a crash empties them, the epoch with
-- them, and toolcrib.epoch, which is logged, tells that there was one.
-- A clock that was set back leaves moments behind that have yet to come: they count, and are kept, as the latest that
-- could be there by the clock as it is now, else limits would stay closed for as long as it was set back.
CREATE TABLE toolcrib.epoch (
    fleet text,
    engine text,
    id text NOT NULL,
    PRIMARY KEY (fleet, engine)
);
CREATE UNLOGGED TABLE toolcrib.agreement (
    fleet text PRIMARY KEY,
    id text NOT NULL,
    number bigint NOT NULL,
    lost bigint NOT NULL,
    shut bigint NOT NULL
) WITH (fillfactor = 10);
CREATE UNLOGGED TABLE toolcrib.put_back (
    fleet text,
    mark text,
    PRIMARY KEY (fleet, mark)
);
CREATE UNLOGGED TABLE toolcrib.use_count (
    fleet text,
    key text,
    latest bigint NOT NULL,
    until bigint NOT NULL,
    PRIMARY KEY (fleet, key)
) WITH (fillfactor = 50);
CREATE UNLOGGED TABLE toolcrib.use_stamp (
    fleet text,
    key text,
    number bigint,
    at bigint NOT NULL,
    PRIMARY KEY (fleet, key, number)
);
CREATE UNLOGGED TABLE toolcrib.place (
    fleet text,
    gate text,
    ticket text,
    until bigint NOT NULL,
    PRIMARY KEY (fleet, gate, ticket)
);
CREATE UNLOGGED TABLE toolcrib.place_line (
    fleet text,
    gate text,
    replica text,
    since bigint NOT NULL,
    seen bigint NOT NULL,
    PRIMARY KEY (fleet, gate, replica)
);
CREATE UNLOGGED TABLE toolcrib.lease (
    fleet text,
    name text,
    token text NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (fleet, name)
);
CREATE UNLOGGED TABLE toolcrib.kept_value (
    fleet text,
    key text,
    value bytea NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (fleet, key)
);
CREATE UNLOGGED TABLE toolcrib.parcel (
    fleet text,
    id uuid DEFAULT gen_random_uuid(),
    body bytea NOT NULL,
    until timestamptz NOT NULL,
    PRIMARY KEY (fleet, id)
);

CREATE FUNCTION toolcrib.agree_epoch(fleet_ text, ask jsonb, now_ bigint) RETURNS toolcrib.agreement
LANGUAGE plpgsql AS $$
DECLARE
    state toolcrib.agreement;
    remembered text;
BEGIN
    UPDATE toolcrib.agreement SET
        number = number + 1, lost = least(lost, now_), shut = least(shut, now_ + (ask ->> 'settle')::bigint)
        WHERE fleet = fleet_ RETURNING * INTO state;
    IF state.fleet IS NOT NULL THEN
        RETURN state;
    END IF;
    SELECT id INTO remembered FROM toolcrib.epoch WHERE fleet = fleet_ AND engine = 'postgresql';
    state := (fleet_, ask ->> 'fresh', 1, 0, 0);
    IF remembered IS NOT NULL OR ask ->> 'known' <> '' THEN
        state.lost := now_;
        state.shut := now_ + (ask ->> 'settle')::bigint;
    END IF;
    INSERT INTO toolcrib.agreement VALUES (state.*);
    INSERT INTO toolcrib.epoch VALUES (fleet_, 'postgresql', state.id)
        ON CONFLICT (fleet, engine) DO UPDATE SET id = excluded.id;
    DELETE FROM toolcrib.put_back WHERE fleet = fleet_;
    RETURN state;
END $$;

-- Uses are numbered: how long to wait is told by the one that is as many back as the rate allows.
CREATE FUNCTION toolcrib.agree_use(state toolcrib.agreement, whole bigint, now_ bigint, claims jsonb) RETURNS bigint[]
LANGUAGE plpgsql AS $$
DECLARE
    claim jsonb;
    nth bigint;
    oldest bigint;
    stretch bigint;
    wait bigint;
    longest bigint := 0;
    which integer := 0;
BEGIN
    FOR i IN 1 .. jsonb_array_length(claims) - 1 LOOP
        claim := claims -> i;
        stretch := (claim ->> 2)::bigint;
        SELECT latest INTO nth FROM toolcrib.use_count WHERE fleet = state.fleet AND key = claim ->> 0;
        nth := nth - (claim ->> 1)::bigint + 1;
        SELECT at INTO oldest FROM toolcrib.use_stamp
            WHERE fleet = state.fleet AND key = claim ->> 0 AND number = nth;
        IF oldest > now_ THEN
            UPDATE toolcrib.use_stamp SET at = now_ WHERE fleet = state.fleet AND key = claim ->> 0 AND at > now_;
            oldest := now_;
        END IF;
        wait := greatest(state.shut - now_, oldest + stretch - now_);
        IF state.lost > 0 AND stretch <= whole THEN
            wait := greatest(wait, state.lost + stretch - now_);
        END IF;
        IF wait > longest THEN
            longest := wait;
            which := i - 1;
        END IF;
    END LOOP;
    IF longest = 0 THEN
        FOR i IN 1 .. jsonb_array_length(claims) - 1 LOOP
            PERFORM toolcrib.agree_count(state.fleet, now_, claims -> i);
        END LOOP;
    END IF;
    RETURN ARRAY[longest, which];
END $$;

CREATE FUNCTION toolcrib.agree_count(fleet_ text, now_ bigint, claim jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    most bigint := (claim ->> 1)::bigint;
    next_ bigint;
BEGIN
    INSERT INTO toolcrib.use_count AS c VALUES (fleet_, claim ->> 0, 1, now_ + (claim ->> 2)::bigint)
        ON CONFLICT (fleet, key) DO UPDATE SET latest = c.latest + 1, until = excluded.until
        RETURNING latest INTO next_;
    INSERT INTO toolcrib.use_stamp VALUES (fleet_, claim ->> 0, next_, now_);
    IF next_ % least(most, 64) = 0 THEN
        DELETE FROM toolcrib.use_stamp WHERE fleet = fleet_ AND key = claim ->> 0 AND number <= next_ - most;
    END IF;
END $$;

CREATE FUNCTION toolcrib.agree_back(fleet_ text, now_ bigint, wish jsonb) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    stamps bigint[];
BEGIN
    INSERT INTO toolcrib.put_back VALUES (fleet_, wish ->> 4) ON CONFLICT DO NOTHING;
    IF NOT FOUND THEN
        RETURN;
    END IF;
    SELECT array_agg(stamp ORDER BY stamp) INTO stamps FROM (
        SELECT stamp FROM (
            SELECT least((part ->> 0)::bigint, now_) AS stamp
            FROM jsonb_array_elements(wish -> 5) AS part,
                generate_series(1, least((part ->> 1)::integer, (wish ->> 2)::integer))
            UNION ALL
            SELECT at FROM toolcrib.use_stamp WHERE fleet = fleet_ AND key = wish ->> 1
        ) AS every ORDER BY stamp DESC LIMIT (wish ->> 2)::integer
    ) AS latest;
    DELETE FROM toolcrib.use_stamp WHERE fleet = fleet_ AND key = wish ->> 1;
    INSERT INTO toolcrib.use_stamp
        SELECT fleet_, wish ->> 1, number, stamp FROM unnest(stamps) WITH ORDINALITY AS u (stamp, number);
    INSERT INTO toolcrib.use_count AS c
        VALUES (fleet_, wish ->> 1, cardinality(stamps), stamps[cardinality(stamps)] + (wish ->> 3)::bigint)
        ON CONFLICT (fleet, key) DO UPDATE SET latest = excluded.latest, until = greatest(c.until, excluded.until);
END $$;

CREATE FUNCTION toolcrib.agree_call(fleet_ text, channel text, gate_ text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    turn text;
BEGIN
    SELECT replica INTO turn FROM toolcrib.place_line WHERE fleet = fleet_ AND gate = gate_ ORDER BY since, replica LIMIT 1;
    IF FOUND THEN
        PERFORM pg_notify(channel, jsonb_build_object('topic', 'free', 'text', gate_ || chr(31) || turn)::text);
    END IF;
END $$;

CREATE FUNCTION toolcrib.agree_take(state toolcrib.agreement, ask jsonb, now_ bigint, wish jsonb) RETURNS integer
LANGUAGE plpgsql AS $$
DECLARE
    gate_ text := wish ->> 1;
    own text := ask ->> 'replica';
    free bigint;
    rank bigint;
BEGIN
    DELETE FROM toolcrib.place WHERE fleet = state.fleet AND gate = gate_ AND until <= now_;
    DELETE FROM toolcrib.place_line
        WHERE fleet = state.fleet AND gate = gate_ AND seen <= now_ - (ask ->> 'patience')::bigint;
    SELECT (wish ->> 2)::bigint - count(*) INTO free FROM toolcrib.place WHERE fleet = state.fleet AND gate = gate_;
    SELECT count(*) INTO rank FROM toolcrib.place_line AS line
        WHERE line.fleet = state.fleet AND line.gate = gate_ AND line.replica <> own AND (line.since, line.replica) < (
            coalesce((SELECT since FROM toolcrib.place_line WHERE fleet = state.fleet AND gate = gate_ AND replica = own),
                9223372036854775807), own);
    IF now_ >= state.shut AND rank < free THEN
        INSERT INTO toolcrib.place VALUES (state.fleet, gate_, wish ->> 3, now_ + (ask ->> 'lease')::bigint);
        DELETE FROM toolcrib.place_line WHERE fleet = state.fleet AND gate = gate_ AND replica = own;
        IF free > 1 THEN
            PERFORM toolcrib.agree_call(state.fleet, ask ->> 'channel', gate_);
        END IF;
        RETURN 1;
    END IF;
    UPDATE toolcrib.place SET until = now_ + (ask ->> 'lease')::bigint
        WHERE fleet = state.fleet AND gate = gate_ AND until > now_ + (ask ->> 'lease')::bigint;
    UPDATE toolcrib.place_line SET since = least(since, now_), seen = least(seen, now_)
        WHERE fleet = state.fleet AND gate = gate_ AND (since > now_ OR seen > now_);
    INSERT INTO toolcrib.place_line VALUES (state.fleet, gate_, own, now_, now_)
        ON CONFLICT (fleet, gate, replica) DO UPDATE SET seen = excluded.seen;
    IF free > 0 AND now_ >= state.shut THEN
        PERFORM toolcrib.agree_call(state.fleet, ask ->> 'channel', gate_);
    END IF;
    RETURN 0;
END $$;

CREATE FUNCTION toolcrib.agree_on_place(state toolcrib.agreement, ask jsonb, now_ bigint, wish jsonb) RETURNS integer
LANGUAGE plpgsql AS $$
BEGIN
    CASE wish ->> 0
    WHEN 'take' THEN
        IF EXISTS (SELECT FROM toolcrib.place WHERE fleet = state.fleet AND gate = wish ->> 1 AND ticket = wish ->> 3) THEN
            RETURN 1;
        END IF;
        RETURN toolcrib.agree_take(state, ask, now_, wish);
    WHEN 'give' THEN
        DELETE FROM toolcrib.place WHERE fleet = state.fleet AND gate = wish ->> 1 AND ticket = wish ->> 2;
        IF NOT FOUND THEN
            RETURN 0;
        END IF;
        PERFORM toolcrib.agree_call(state.fleet, ask ->> 'channel', wish ->> 1);
    WHEN 'leave' THEN
        DELETE FROM toolcrib.place_line
            WHERE fleet = state.fleet AND gate = wish ->> 1 AND replica = ask ->> 'replica';
        PERFORM toolcrib.agree_call(state.fleet, ask ->> 'channel', wish ->> 1);
    WHEN 'keep' THEN
        INSERT INTO toolcrib.place
            SELECT state.fleet, held ->> 0, held ->> 1, now_ + (ask ->> 'lease')::bigint
            FROM jsonb_array_elements(wish - 0) AS held
            ON CONFLICT (fleet, gate, ticket) DO UPDATE SET until = excluded.until;
    END CASE;
    RETURN 1;
END $$;

-- Fulfils the wishes of one replica, all at one moment of the engine's clock, one replica of a fleet after the other.
CREATE FUNCTION toolcrib.agree(fleet_ text, ask jsonb) RETURNS TABLE (
    id text, number bigint, now_us bigint, lost bigint, shut bigint, answers bigint[]
) LANGUAGE plpgsql AS $$
DECLARE
    state toolcrib.agreement;
    now_ bigint;
    wish jsonb;
    said bigint[] := '{}';
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('toolcrib agree ' || fleet_, 0));
    now_ := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    state := toolcrib.agree_epoch(fleet_, ask, now_);
    IF state.id = ask ->> 'known' THEN
        FOR wish IN SELECT * FROM jsonb_array_elements(ask -> 'wishes') LOOP
            IF wish ->> 0 = 'use' THEN
                said := said || toolcrib.agree_use(state, (ask ->> 'whole')::bigint, now_, wish);
            ELSIF wish ->> 0 = 'back' THEN
                PERFORM toolcrib.agree_back(fleet_, now_, wish);
                said := said || ARRAY[1, 0]::bigint[];
            ELSE
                said := said || ARRAY[toolcrib.agree_on_place(state, ask, now_, wish), 0]::bigint[];
            END IF;
        END LOOP;
    END IF;
    RETURN QUERY SELECT state.id, state.number, now_, state.lost, state.shut, said;
END $$;

-- What nobody asks for any more goes.
CREATE FUNCTION toolcrib.agree_sweep(fleet_ text) RETURNS void LANGUAGE plpgsql AS $$
DECLARE
    now_ bigint;
BEGIN
    PERFORM pg_advisory_xact_lock(hashtextextended('toolcrib agree ' || fleet_, 0));
    now_ := (extract(epoch FROM clock_timestamp()) * 1000000)::bigint;
    DELETE FROM toolcrib.use_stamp AS s USING toolcrib.use_count AS c
        WHERE c.fleet = fleet_ AND c.until < now_ AND s.fleet = c.fleet AND s.key = c.key;
    DELETE FROM toolcrib.use_count WHERE fleet = fleet_ AND until < now_;
    DELETE FROM toolcrib.place WHERE fleet = fleet_ AND until < now_;
    DELETE FROM toolcrib.place_line WHERE fleet = fleet_ AND seen < now_ - 3600000000;
    DELETE FROM toolcrib.kept_value WHERE fleet = fleet_ AND until < clock_timestamp();
    DELETE FROM toolcrib.parcel WHERE fleet = fleet_ AND until < clock_timestamp();
    DELETE FROM toolcrib.lease WHERE fleet = fleet_ AND until < clock_timestamp();
END $$;
