-- KEYS: the lease. ARGV: whose it is. Another's is left alone.
if redis.call('GET', KEYS[1]) == ARGV[1] then return redis.call('DEL', KEYS[1]) end
return 0
