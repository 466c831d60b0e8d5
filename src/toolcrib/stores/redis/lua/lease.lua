-- KEYS: the lease. ARGV: whose it is, for how many milliseconds. Takes it if it is free, keeps it if it is ours.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then return 1 end
local is_ours = redis.call('GET', KEYS[1]) == ARGV[1]
-- One that would last longer than any is given for was given before the clock was set back.
if is_ours or redis.call('PTTL', KEYS[1]) > tonumber(ARGV[2]) then redis.call('PEXPIRE', KEYS[1], ARGV[2]) end
return is_ours and 1 or 0
