-- Fulfils the wishes of one replica, all at one moment of the engine's clock; see stores/coordination/engine.py.
-- KEYS: the epoch, the marks of what was put back, then the keys of the wishes.
-- ARGV: the request, the channel of news.
local ask = cjson.decode(ARGV[1])
local epoch, marks = KEYS[1], KEYS[2]
local clock = redis.call('TIME')
local now = clock[1] * 1000000 + clock[2]

local function whole(number) return string.format('%.0f', number) end

local stored = redis.call('HMGET', epoch, 'id', 'number', 'lost', 'shut', 'run')
local id, number = stored[1], tonumber(stored[2] or 0)
local lost, shut, run = tonumber(stored[3] or 0), tonumber(stored[4] or 0), stored[5] or ''

-- A clock that was set back leaves moments behind that have yet to come: they count, and are kept, as the latest
-- that could be there by the clock as it is now, else limits would stay closed for as long as it was set back.
if lost > now or shut > now + ask.settle then
  lost, shut = math.min(lost, now), math.min(shut, now + ask.settle)
  redis.call('HSET', epoch, 'lost', whole(lost), 'shut', whole(shut))
end

local function not_after(key, latest)
  for _, member in ipairs(redis.call('ZRANGEBYSCORE', key, '(' .. whole(latest), '+inf')) do
    redis.call('ZADD', key, whole(latest), member)
  end
end

local function stamps_not_after(key, latest)
  for i, stamp in ipairs(redis.call('LRANGE', key, 0, -1)) do
    if tonumber(stamp) > latest then redis.call('LSET', key, i - 1, whole(latest)) end
  end
end

local function begin(noticed, closed)
  id, number, lost, shut, run = ask.fresh, 0, noticed, closed, ask.run
  redis.call('DEL', epoch, marks)
  redis.call('HSET', epoch, 'id', id, 'number', 0, 'lost', whole(lost), 'shut', whole(shut), 'run', run)
end

if not id then
  if ask.known ~= '' then begin(now, now + ask.settle)
  elseif ask.unsure then begin(0, now + ask.settle)
  else begin(0, 0) end
elseif (id == ask.known and number < ask.seen) or (ask.run ~= '' and run ~= '' and run ~= ask.run) then
  begin(now, now + ask.settle)
elseif ask.known ~= '' and ask.known ~= id and lost == 0 then
  lost, shut = now, now + ask.settle
  redis.call('HSET', epoch, 'lost', whole(lost), 'shut', whole(shut))
end
number = redis.call('HINCRBY', epoch, 'number', 1)
local answer = {id, number, now, lost, shut}
if id ~= ask.known then return answer end

local function say(first, second)
  answer[#answer + 1] = first
  answer[#answer + 1] = second
end

local function use(wish)
  local longest, which = 0, 0
  for i = 2, #wish do
    local window, closed = wish[i][3], shut
    if lost > 0 and window <= ask.whole then closed = math.max(closed, lost + window) end
    local wait, oldest = closed - now, redis.call('LINDEX', KEYS[wish[i][1]], -wish[i][2])
    if oldest then
      if tonumber(oldest) > now then stamps_not_after(KEYS[wish[i][1]], now) end
      wait = math.max(wait, math.min(oldest, now) + window - now)
    end
    if wait > longest then longest, which = wait, i - 2 end
  end
  if longest == 0 then
    for i = 2, #wish do
      local key, count, window = KEYS[wish[i][1]], wish[i][2], wish[i][3]
      if redis.call('RPUSH', key, whole(now)) > count then redis.call('LTRIM', key, -count, -1) end
      redis.call('PEXPIRE', key, whole(math.ceil(window / 1000) + 1000))
    end
  end
  say(longest, which)
end

local function back(wish)
  local key, count, window = KEYS[wish[2]], wish[3], wish[4]
  if redis.call('SADD', marks, wish[5]) == 1 then
    redis.call('PEXPIRE', marks, 3600000)
    local all = {}
    for _, stamp in ipairs(redis.call('LRANGE', key, 0, -1)) do all[#all + 1] = tonumber(stamp) end
    for _, part in ipairs(wish[6]) do
      for _ = 1, math.min(part[2], count) do all[#all + 1] = math.min(part[1], now) end
    end
    table.sort(all)
    redis.call('DEL', key)
    for i = math.max(1, #all - count + 1), #all do redis.call('RPUSH', key, whole(all[i])) end
    redis.call('PEXPIRE', key, whole(math.ceil(window / 1000) + 1000))
  end
  say(1, 0)
end

-- A gate has three keys: the tickets by when they expire, the line of replicas, and when each was last seen in it.
local function call_next(gate)
  local turn = redis.call('ZRANGE', KEYS[gate + 1], 0, 0)[1]
  if turn then redis.call('PUBLISH', ARGV[2], '\31free\31' .. ask.gates[tostring(gate)] .. '\31' .. turn) end
end

local function step_out(gate, replica)
  redis.call('ZREM', KEYS[gate + 1], replica)
  redis.call('ZREM', KEYS[gate + 2], replica)
end

local function hold(gate, ticket)
  redis.call('ZADD', KEYS[gate], whole(now + ask.lease), ticket)
  redis.call('PEXPIRE', KEYS[gate], whole(ask.lease / 500))
end

local function take(wish)
  local gate, ticket = wish[2], wish[4]
  redis.call('ZREMRANGEBYSCORE', KEYS[gate], '-inf', whole(now))
  local free, waiting = wish[3] - redis.call('ZCARD', KEYS[gate]), redis.call('ZCARD', KEYS[gate + 1])
  if waiting > 0 then
    for _, gone in ipairs(redis.call('ZRANGEBYSCORE', KEYS[gate + 2], '-inf', whole(now - ask.patience))) do
      step_out(gate, gone)
    end
    waiting = redis.call('ZCARD', KEYS[gate + 1])
  end
  local rank = waiting > 0 and redis.call('ZRANK', KEYS[gate + 1], ask.replica) or waiting
  if redis.call('ZSCORE', KEYS[gate], ticket) then
    say(1, 0)
  elseif now >= shut and rank < free then
    hold(gate, ticket)
    if waiting > 0 then
      step_out(gate, ask.replica)
      if free > 1 then call_next(gate) end
    end
    say(1, 0)
  else
    not_after(KEYS[gate], now + ask.lease)
    for i = 1, 2 do not_after(KEYS[gate + i], now) end
    redis.call('ZADD', KEYS[gate + 1], 'NX', whole(now), ask.replica)
    redis.call('ZADD', KEYS[gate + 2], whole(now), ask.replica)
    for i = 1, 2 do redis.call('PEXPIRE', KEYS[gate + i], whole(ask.patience / 500)) end
    if free > 0 and now >= shut then call_next(gate) end
    say(0, 0)
  end
end

local function give(wish)
  local was_there = redis.call('ZREM', KEYS[wish[2]], wish[3])
  if was_there == 1 then call_next(wish[2]) end
  say(was_there, 0)
end

local function leave(wish)
  step_out(wish[2], ask.replica)
  call_next(wish[2])
  say(1, 0)
end

local function keep(wish)
  for i = 2, #wish do hold(wish[i][1], wish[i][2]) end
  say(1, 0)
end

local doing = {use = use, back = back, take = take, give = give, leave = leave, keep = keep}
for _, wish in ipairs(ask.wishes) do doing[wish[1]](wish) end
return answer
